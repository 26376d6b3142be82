//! What a provisioner remembers from one cycle to the next.

use std::collections::HashMap;

use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::QueueRef;

use super::wanting::Asked;

/// What was found in earlier cycles. Empty, or in doubt, everything is read.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The books as this provisioner left them, and the jobs in them.
    pub(super) kept: Option<Kept>,
    /// What those that wait have asked for.
    pub(super) asked: HashMap<QueueRef, Asked>,
}

#[derive(Debug)]
pub(super) struct Kept {
    /// Of `/space/FSID`.
    pub(super) version: Option<i32>,
    pub(super) jobs: HashMap<Jid, Admitted>,
}

/// A job that has its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) bid: Option<Bid>,
    pub(super) reserved: u64,
}

impl Ledger {
    /// These have ended; `None`: some have, and nobody knows which.
    pub fn forget(&mut self, ended: Option<Vec<Jid>>) {
        match (ended, &mut self.kept) {
            (None, _) => self.doubt(),
            (Some(ended), Some(kept)) => kept.jobs.retain(|jid, _| !ended.contains(jid)),
            (Some(_), None) => {}
        }
    }

    /// Everything is to be read again.
    pub fn doubt(&mut self) {
        *self = Self::default();
    }

    pub(super) fn admitted(&mut self, jid: Jid, bid: Bid, reserved: u64) {
        if let Some(kept) = &mut self.kept {
            kept.jobs.insert(jid, Admitted { bid: Some(bid), reserved });
        }
    }

    /// All that was to be admitted was, and the books are at this version now.
    pub(super) fn now_at(&mut self, version: Option<i32>) {
        if let Some(kept) = &mut self.kept {
            kept.version = version;
        }
    }
}
