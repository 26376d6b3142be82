//! The restart log: one line of JSON for each actor that was started again, in a bounded file of this node.
//!
//! **When things break.** A log that cannot be written never stops anybody, see [`Journal`].

use std::path::Path;
use std::{fs, io};

use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};

use crate::journal::Journal;

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
pub struct RestartLog(Journal<Restart>);

impl RestartLog {
    /// Opens the log of a directory, which is made if it is not there. Blocks.
    pub fn open(dir: &Path, bound: u64) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(Self(Journal::new(dir, "restarts", bound)))
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
        self.0.write(restart);
    }

    /// The last so many restarts, the newest first. Blocks.
    pub fn last(&self, count: usize) -> io::Result<Vec<Restart>> {
        self.0.last(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let log = RestartLog::open(&dir.path().join("log"), 4096).unwrap();
        let restart = Restart {
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
            count: 1,
            backoff_ms: 100,
        };
        log.write(&restart);
        assert_eq!(log.last(9).unwrap(), [restart]);
    }
}
