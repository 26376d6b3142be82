//! The kinds of faults, in one table: where each is made, how often, and what proves that it happened.

use std::time::Duration;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Kill,
    Freeze,
    Replace,
    Drain,
    Leader,
    Quorum,
    Rolling,
    Cut,
    LostAnswer,
    SlowLink,
    FullDisk,
    CorruptNode,
    Hold,
    Resize,
    Bulk,
    Force,
    Reload,
    BadServer,
}

/// Faults of one lane come one after the other; lanes run side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// What happens to node processes.
    Nodes,
    /// What happens to the ensemble, and to the links to it.
    Tree,
    /// What people and disks do.
    People,
    /// Not scheduled: it lies in what is deposited.
    Deposits,
}

impl Lane {
    pub(crate) const SCHEDULED: [Lane; 3] = [Lane::Nodes, Lane::Tree, Lane::People];
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) lane: Lane,
    /// How many are planned for ten minutes.
    in_ten_minutes: u32,
    /// What proves that it happened, and hit something.
    pub(crate) witness: &'static str,
}

const fn line(
    kind: Kind,
    name: &'static str,
    lane: Lane,
    in_ten_minutes: u32,
    witness: &'static str,
) -> Line {
    Line { kind, name, lane, in_ten_minutes, witness }
}

/// All kinds.
pub(crate) const KINDS: &[Line] = &[
    line(Kind::Kill, "kill -9", Lane::Nodes, 30, "locks of the dead node's session were in the tree"),
    line(
        Kind::Freeze,
        "stopped past its session",
        Lane::Nodes,
        15,
        "the server had removed the stopped node's locks and entry",
    ),
    line(
        Kind::Replace,
        "replaced under the same name",
        Lane::Nodes,
        15,
        "both were registered at one time, the dead one with locks",
    ),
    line(
        Kind::Drain,
        "drained and started again",
        Lane::Nodes,
        12,
        "it had locks, ended with 0, and left none",
    ),
    line(Kind::Leader, "leader lost", Lane::Tree, 10, "another member leads, and a node lost its connection"),
    line(Kind::Quorum, "quorum lost", Lane::Tree, 8, "nobody served, and nodes said that the tree is away"),
    line(
        Kind::Rolling,
        "rolling restart of the ensemble",
        Lane::Tree,
        5,
        "every member is a new process, and nodes had to reconnect",
    ),
    line(Kind::Cut, "connection cut", Lane::Tree, 20, "the node said that its connection is lost"),
    line(
        Kind::LostAnswer,
        "answer lost",
        Lane::Tree,
        40,
        "the server had committed the transition that it answered",
    ),
    line(Kind::SlowLink, "slow link", Lane::Tree, 15, "multis went through it while it was slow"),
    line(Kind::FullDisk, "full working disk", Lane::People, 10, "a node said that jobs wait for room"),
    line(
        Kind::CorruptNode,
        "corrupt znode",
        Lane::People,
        12,
        "fsck named it, or a node put it right; nothing of it is there any more",
    ),
    line(
        Kind::Hold,
        "hold",
        Lane::People,
        15,
        "something waited because of it, and did not move until it was lifted",
    ),
    line(Kind::Resize, "pool resized", Lane::People, 20, "the number of live workers followed"),
    line(Kind::Bulk, "bulk action", Lane::People, 30, "it changed jobs"),
    line(
        Kind::Force,
        "taken from its worker by force",
        Lane::People,
        15,
        "its worker was refused, and let it go",
    ),
    line(
        Kind::Reload,
        "configuration reloaded",
        Lane::People,
        20,
        "the node said what it applied, or refused",
    ),
    line(
        Kind::BadServer,
        "payload server misbehaves",
        Lane::Deposits,
        100,
        "the file was served badly, and its job completed all the same",
    ),
];

impl Kind {
    pub(crate) fn line(self) -> &'static Line {
        // Every kind is in the table: a test says so.
        KINDS.iter().find(|line| line.kind == self).unwrap_or(&KINDS[0])
    }

    pub(crate) fn name(self) -> &'static str {
        self.line().name
    }

    /// How many are planned for a run.
    pub(crate) fn planned(self, length: Duration) -> usize {
        let line = self.line();
        let thousandths = u64::from(line.in_ten_minutes) * length.as_secs() * 1000 / 600;
        usize::try_from((thousandths + 500) / 1000).unwrap_or(usize::MAX).max(1)
    }

    /// How many must have a witness, or the run says too little.
    pub(crate) fn minimum(self, length: Duration) -> usize {
        (self.planned(length) * 2 / 3).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_line_and_a_name_of_its_own() {
        for (at, line) in KINDS.iter().enumerate() {
            assert_eq!(line.kind.line().name, line.name);
            assert!(KINDS[..at].iter().all(|other| other.name != line.name && other.kind != line.kind));
        }
        assert_eq!(KINDS.len(), Kind::BadServer as usize + 1);
    }

    #[test]
    fn the_minimum_grows_with_the_length_and_is_never_more_than_is_planned() {
        for line in KINDS {
            let of = |minutes| line.kind.minimum(Duration::from_mins(minutes));
            assert!(of(1) >= 1 && of(2) <= of(30) && of(30) >= 9, "{}", line.name);
            assert!(of(30) < line.kind.planned(Duration::from_mins(30)), "{}", line.name);
        }
    }
}
