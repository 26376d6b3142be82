//! A process that cannot outlive the test process: a server's java, or a daemon of our own.
//!
//! It runs below a small shell whose standard input is a pipe from the test process. However that
//! process ends - return, panic, `SIGKILL` - the kernel closes the pipe; the shell then kills the process,
//! reaps it, removes the scratch directory and ends. The shell has a process group of its own, so a
//! Ctrl-C at the terminal or the kill of a whole test group reaches the test process but not the shell,
//! which is left to clean up.
//!
//! The shell reports `started PID` and `exited STATUS` on its standard output, so waiting for the end of
//! a server is waiting for an event.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, kill_process};

/// Arguments: scratch directory, log file, then the command.
///
/// When the test process dies while java is paused, the kernel sends SIGHUP to the whole group (orphaned,
/// with a stopped member): that must not end the shell before its work is done.
///
/// The reader in the background is ended before the last `read`, so a pid that was reaped is never
/// killed. `keep` is said by a test process that goes on with the same directory.
const SHELL: &str = r#"
scratch=$1; log=$2; shift 2
trap '' HUP
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
java=$!
trap '' PIPE
( trap - PIPE; read -r word <&3; kill -KILL "$java" ) >/dev/null 2>&1 &
reader=$!
echo "started $java"
wait "$java"
status=$?
kill "$reader" 2>/dev/null
wait "$reader" 2>/dev/null
echo "exited $status"
read -r word <&3
[ "$word" = keep ] || rm -rf "$scratch"
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Starting,
    Running(u32),
    /// With the status that a shell sees: 128 and the signal, if it was one. Absent: nobody knows.
    Exited(Option<i32>),
}

#[derive(Debug)]
struct Watched {
    life: Mutex<Life>,
    changed: Condvar,
}

/// One run of one command below its shell.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    lifeline: Mutex<Option<ChildStdin>>,
    watched: Arc<Watched>,
}

impl Guard {
    /// Starts `command`, which writes to `log`; `scratch` is removed with it.
    pub(crate) fn start(scratch: &Path, log: &Path, command: &[String]) -> Guard {
        let mut shell = Command::new("sh")
            .args(["-c", SHELL, "guard"])
            .args([scratch, log])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("start `sh` as the guard of a server process");
        let lifeline = Mutex::new(shell.stdin.take());
        let reports = shell.stdout.take().expect("the guard's standard output is a pipe");
        let watched = Arc::new(Watched { life: Mutex::new(Life::Starting), changed: Condvar::new() });
        let told = Arc::clone(&watched);
        thread::spawn(move || {
            for line in BufReader::new(reports).lines().map_while(Result::ok) {
                match line.split_once(' ') {
                    Some(("started", pid)) => told.set(pid.parse().map_or(Life::Exited(None), Life::Running)),
                    Some(("exited", status)) => told.set(Life::Exited(status.parse().ok())),
                    _ => told.set(Life::Exited(None)),
                }
            }
            // A guard that says nothing more is gone, and what it ran with it.
            told.set(Life::Exited(None));
        });
        Guard { shell, lifeline, watched }
    }

    /// The pid of the running command; `None` once it has exited.
    pub(crate) fn pid(&self) -> Option<u32> {
        let mut life = self.watched.life.lock();
        while *life == Life::Starting {
            self.watched.changed.wait(&mut life);
        }
        match *life {
            Life::Running(pid) => Some(pid),
            _ => None,
        }
    }

    /// Sends a signal; false if the command has exited.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Waits until the command has exited and is reaped; false if it has not within `limit`.
    pub(crate) fn wait_for_exit(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut life = self.watched.life.lock();
        while !matches!(*life, Life::Exited(_)) {
            if self.watched.changed.wait_until(&mut life, end).timed_out() {
                return matches!(*life, Life::Exited(_));
            }
        }
        true
    }

    /// The status that the command has exited with, as a shell sees it.
    pub(crate) fn status(&self) -> Option<i32> {
        match *self.watched.life.lock() {
            Life::Exited(status) => status,
            _ => None,
        }
    }

    /// Ends this guard, whose command has exited, but leaves the scratch directory to a successor.
    pub(crate) fn hand_over(&self) {
        if let Some(mut lifeline) = self.lifeline.lock().take() {
            // A guard that is gone already has nothing to keep; the successor then fails by itself.
            let _ = lifeline.write_all(b"keep\n");
        }
    }
}

impl Watched {
    fn set(&self, life: Life) {
        let mut now = self.life.lock();
        // What it exited with is said once, and stays.
        if !matches!(*now, Life::Exited(_)) {
            *now = life;
        }
        self.changed.notify_all();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.lifeline.get_mut().take());
        // The shell ends on its own now; waiting keeps it from being a zombie of this process.
        let _ = self.shell.wait();
    }
}
