//! The restart log: one line of JSON for each actor that was started again, in a bounded file of this node.
//!
//! `restarts.jsonl` grows to a bound, then becomes `restarts.1.jsonl` and a new one begins: what is kept lies
//! between one and two bounds.
//!
//! **When things break.** A log that cannot be written never stops anybody: the reason goes to the ordinary log,
//! once until it works again. A line that was cut off by a crash, or that another version wrote, is skipped when
//! the log is read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ingest_queue::date::Date;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

const CURRENT: &str = "restarts.jsonl";
const BEFORE: &str = "restarts.1.jsonl";

/// One restart, with everything that an operator asks at three in the morning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    pub at: Date,
    pub node: String,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// `panic`, `error`, `stall`, `killed`.
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Where it panicked: file, line, column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The how-manieth in the window of its policy.
    pub count: u32,
    /// The pause before it was started again.
    pub backoff_ms: u64,
}

/// A node's log.
#[derive(Debug)]
pub struct RestartLog {
    dir: PathBuf,
    /// The most bytes of one file.
    bound: u64,
    writing: Mutex<Writing>,
}

#[derive(Debug, Default)]
struct Writing {
    file: Option<(File, u64)>,
    /// The last write failed, and that was said.
    failing: bool,
}

impl RestartLog {
    /// In a directory, which is made. Blocks.
    pub fn open(dir: &Path, bound: u64) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(Self { dir: dir.to_owned(), bound: bound.max(4096), writing: Mutex::default() })
    }

    /// Writes a line, to the log and for whoever reads along. Blocks for one short write.
    pub fn write(&self, restart: &Restart) {
        tracing::warn!(
            actor = restart.actor,
            pool = restart.pool,
            state = restart.state,
            job = restart.job,
            batch = restart.batch,
            reason = restart.reason,
            why = restart.message,
            location = restart.location,
            count = restart.count,
            backoff_ms = restart.backoff_ms,
            "restarted"
        );
        let mut writing = self.writing.lock();
        match self.append(&mut writing, restart) {
            Ok(()) => writing.failing = false,
            Err(error) => {
                writing.file = None;
                if !std::mem::replace(&mut writing.failing, true) {
                    tracing::error!(dir = %self.dir.display(), %error, "the restart log cannot be written");
                }
            }
        }
    }

    fn append(&self, writing: &mut Writing, restart: &Restart) -> io::Result<()> {
        let mut line = serde_json::to_vec(restart)?;
        line.push(b'\n');
        let size = line.len() as u64;
        if writing.file.as_ref().is_some_and(|(_, written)| written + size > self.bound) {
            writing.file = None;
            fs::rename(self.dir.join(CURRENT), self.dir.join(BEFORE))?;
        }
        if writing.file.is_none() {
            let mut file = OpenOptions::new().create(true).append(true).open(self.dir.join(CURRENT))?;
            let written = file.metadata()?.len();
            // After a line that was cut off, a new one begins.
            file.write_all(if written > 0 { b"\n" } else { b"" })?;
            writing.file = Some((file, written + 1));
        }
        if let Some((file, written)) = &mut writing.file {
            file.write_all(&line)?;
            *written += size;
        }
        Ok(())
    }

    /// The last so many restarts, the newest first. Blocks.
    pub fn last(&self, count: usize) -> io::Result<Vec<Restart>> {
        let mut found = Vec::new();
        for name in [CURRENT, BEFORE] {
            let text = match fs::read(self.dir.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text?,
            };
            let lines = text.rsplit(|byte| *byte == b'\n');
            found
                .extend(lines.filter_map(|line| serde_json::from_slice(line).ok()).take(count - found.len()));
            if found.len() == count {
                break;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restart(count: u32) -> Restart {
        Restart {
            at: Date::from_millis(1_763_257_425_000),
            node: "node-1".into(),
            actor: "downloading-3".into(),
            pool: Some("downloading".into()),
            state: Some("downloading".into()),
            job: Some("jid0000000007".into()),
            batch: Some("bid0000000001".into()),
            reason: "panic".into(),
            message: "index out of bounds".into(),
            location: Some("steps/src/x.rs:7:9".into()),
            count,
            backoff_ms: 100,
        }
    }

    fn counts(found: &[Restart]) -> Vec<u32> {
        found.iter().map(|restart| restart.count).collect()
    }

    #[test]
    fn the_newest_come_first_also_after_a_crash_in_the_middle_of_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = RestartLog::open(dir.path(), 1 << 20).unwrap();
        log.write(&restart(1));
        log.write(&restart(2));
        assert_eq!(log.last(9).unwrap(), [restart(2), restart(1)]);
        let path = dir.path().join(CURRENT);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        let log = RestartLog::open(dir.path(), 1 << 20).unwrap();
        log.write(&restart(3));
        assert_eq!(counts(&log.last(9).unwrap()), [3, 1]);
        assert_eq!(counts(&log.last(1).unwrap()), [3]);
    }

    #[test]
    fn the_log_is_bounded_and_keeps_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let log = RestartLog::open(dir.path(), 4096).unwrap();
        for count in 0..200 {
            log.write(&restart(count));
        }
        let size: u64 =
            [CURRENT, BEFORE].iter().map(|name| fs::metadata(dir.path().join(name)).unwrap().len()).sum();
        assert!(size <= 2 * 4096, "{size}");
        let found = counts(&log.last(1_000).unwrap());
        assert!(found.len() > 10, "{found:?}");
        assert_eq!(found, (0..200).rev().take(found.len()).collect::<Vec<_>>());
    }

    #[test]
    fn a_log_that_cannot_be_written_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let log = RestartLog::open(&dir.path().join("log"), 4096).unwrap();
        fs::remove_dir(dir.path().join("log")).unwrap();
        log.write(&restart(1));
        fs::create_dir(dir.path().join("log")).unwrap();
        log.write(&restart(2));
        assert_eq!(counts(&log.last(9).unwrap()), [2]);
    }
}
