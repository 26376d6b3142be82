//! The audit log: a line of JSON for whatever somebody did, in a bounded file of this node, and in the ordinary log.
//!
//! **When things break.** A log that cannot be written stops nobody: the ordinary log has the line in any case, and says
//! once that the file has not, see [`Journal`].

use std::io;
use std::path::Path;

use ingest_actors::journal::Journal;

use super::wire::AuditEntry;

/// A node's log.
#[derive(Debug)]
pub(crate) struct AuditLog(Journal<AuditEntry>);

impl AuditLog {
    pub(crate) fn new(dir: &Path, bound: u64) -> Self {
        Self(Journal::new(dir, "audit", bound))
    }

    /// Blocks for one short write.
    pub(crate) fn write(&self, entry: &AuditEntry) {
        let AuditEntry { who, from, what, details, status, .. } = entry;
        let role = entry.role.name();
        tracing::info!(target: "audit", who, role, from, what, details, status, "done by a person");
        self.0.write(entry);
    }

    /// The last so many, the newest first. Blocks.
    pub(crate) fn last(&self, count: usize) -> io::Result<Vec<AuditEntry>> {
        self.0.last(count)
    }
}
