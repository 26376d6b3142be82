//! A process of one's own: a daemon that is started, told with signals, killed and looked at.
//!
//! What it writes, to either stream, is appended to a file, and can be waited for. It ends with the value, and also
//! when the test process panics or is killed (see `guard.rs`).
//!
//! When things break: whatever does not happen in time is a panic that names it and quotes the end of what the
//! process has written.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::clock::{PATIENCE, eventually, off_runtime, poll};
use crate::guard::Guard;

/// A process, as long as this value lives.
#[derive(Debug)]
pub struct Process {
    guard: std::sync::Arc<Guard>,
    output: PathBuf,
    /// Where its own output begins.
    start: usize,
}

impl Process {
    /// Starts a program. `environment` is laid over that of the test process; an empty value takes a variable away.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
        directory: &Path,
        output: &Path,
    ) -> Process {
        let scratch = tempfile::Builder::new().prefix("process-").tempdir();
        let scratch = scratch.expect("make a scratch directory for a process").keep();
        let mut command = vec!["env".to_owned(), "-C".to_owned(), directory.display().to_string()];
        for (name, _) in environment.iter().filter(|(_, value)| value.is_empty()) {
            command.extend(["-u".to_owned(), (*name).to_owned()]);
        }
        let set = environment.iter().filter(|(_, value)| !value.is_empty());
        command.extend(set.map(|(name, value)| format!("{name}={value}")));
        command.push(program.display().to_string());
        command.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let start = fs::metadata(output).map_or(0, |file| usize::try_from(file.len()).unwrap_or(0));
        let guard = std::sync::Arc::new(Guard::start(&scratch, output, &command));
        Process { guard, output: output.to_owned(), start }
    }

    /// Its id; `None` once it has exited.
    pub fn pid(&self) -> Option<u32> {
        self.guard.pid()
    }

    pub fn is_running(&self) -> bool {
        self.pid().is_some()
    }

    /// What it has written so far.
    pub fn output(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.start..).unwrap_or_default()).into_owned()
    }

    /// Waits until something can be found in what it has written.
    #[track_caller]
    pub fn says<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> impl Future<Output = T> {
        let told = format!("{what} in the output of {}", self.output.display());
        let find = move || {
            let found = find(&self.output());
            // What was written before its end has been read with it.
            if found.is_none() && !self.is_running() {
                let last = find(&self.output());
                assert!(last.is_some(), "it has ended without {what}:\n{}", self.tail());
                return last;
            }
            found
        };
        async move {
            let waited = eventually(&told, PATIENCE * 2, || std::future::ready(find()));
            waited.await
        }
    }

    /// The end of what it has written, for people.
    pub fn tail(&self) -> String {
        let output = self.output();
        let lines: Vec<_> = output.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Sends a signal, to one that runs.
    pub fn signal(&self, signal: Signal) {
        assert!(self.guard.signal(signal), "it has ended before {signal:?} was sent:\n{}", self.tail());
    }

    /// Ends it as a crash does, and waits until it is gone. It may have ended before.
    pub async fn kill(&self) {
        self.guard.signal(Signal::KILL);
        self.exited(PATIENCE).await;
    }

    /// Freezes it (`SIGSTOP`), and waits until it is frozen.
    pub async fn pause(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.pid().unwrap_or(0));
        let frozen = off_runtime(move || {
            poll(PATIENCE, || {
                let stat = fs::read_to_string(&stat).ok()?;
                (stat.rsplit_once(") ")?.1.starts_with('T')).then_some(())
            })
        });
        assert!(frozen.await.is_some(), "it ignores SIGSTOP:\n{}", self.tail());
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for its end, and answers the status that a shell sees: 128 and the signal, if it was one.
    pub async fn exited(&self, within: Duration) -> i32 {
        let guard = self.guard.clone();
        let ended = off_runtime(move || guard.wait_for_exit(within).then(|| guard.status())).await;
        let status = ended.unwrap_or_else(|| panic!("it has not ended within {within:?}:\n{}", self.tail()));
        status.unwrap_or_else(|| panic!("nobody knows how it has ended:\n{}", self.tail()))
    }
}
