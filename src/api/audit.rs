//! The audit log: a line of JSON for whatever somebody did, in a bounded file of this node, and in the ordinary log.
//!
//! `audit.jsonl` grows to a bound, then becomes `audit.1.jsonl` and a new one begins.
//!
//! **When things break.** A log that cannot be written stops nobody: the ordinary log has the line in any case, and says
//! once that the file has not. A line that was cut off is skipped when it is read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::wire::AuditEntry;

const CURRENT: &str = "audit.jsonl";
const BEFORE: &str = "audit.1.jsonl";

/// A node's log.
#[derive(Debug)]
pub(crate) struct AuditLog {
    dir: PathBuf,
    bound: u64,
    writing: Mutex<Writing>,
}

#[derive(Debug, Default)]
struct Writing {
    file: Option<(File, u64)>,
    failing: bool,
}

impl AuditLog {
    pub(crate) fn new(dir: &Path, bound: u64) -> Self {
        Self { dir: dir.to_owned(), bound: bound.max(4096), writing: Mutex::default() }
    }

    /// Blocks for one short write.
    pub(crate) fn write(&self, entry: &AuditEntry) {
        let AuditEntry { who, from, what, status, .. } = entry;
        tracing::info!(target: "audit", who, role = entry.role.name(), from, what, status, "done by a person");
        let mut writing = self.writing.lock();
        match self.append(&mut writing, entry) {
            Ok(()) => writing.failing = false,
            Err(error) => {
                writing.file = None;
                if !std::mem::replace(&mut writing.failing, true) {
                    tracing::error!(dir = %self.dir.display(), %error, "the audit log cannot be written");
                }
            }
        }
    }

    fn append(&self, writing: &mut Writing, entry: &AuditEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
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

    /// The last so many, the newest first. Blocks.
    pub(crate) fn last(&self, count: usize) -> io::Result<Vec<AuditEntry>> {
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
    use ingest_queue::date::Date;

    use super::super::wire::Role;
    use super::*;

    #[test]
    fn the_log_is_bounded_and_the_newest_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let log = AuditLog::new(dir.path(), 4096);
        for status in 0..200 {
            log.write(&AuditEntry {
                at: Date::from_millis(0),
                who: "ann".into(),
                role: Role::Admin,
                from: "127.0.0.1".into(),
                what: "DELETE /api/v1/jobs/jid0000000007".into(),
                status,
            });
        }
        let size: u64 =
            [CURRENT, BEFORE].map(|name| fs::metadata(dir.path().join(name)).unwrap().len()).iter().sum();
        assert!(size <= 2 * 4096, "{size}");
        let found: Vec<u16> = log.last(1_000).unwrap().iter().map(|entry| entry.status).collect();
        assert!(found.len() > 10, "{found:?}");
        assert_eq!(found, (0..200).rev().take(found.len()).collect::<Vec<_>>());
        assert_eq!(log.last(2).unwrap().len(), 2);
    }
}
