//! A job in a queue, and the nodes of a job.

use super::{JOB_STATES, JOBS, Priority};
use crate::ids::Jid;
use crate::states::{JobState, States};

/// A job in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueRef {
    pub state: JobState,
    pub priority: Priority,
    pub jid: Jid,
}

impl QueueRef {
    pub fn new(state: JobState, priority: Priority, jid: Jid) -> Self {
        Self { state, priority, jid }
    }

    pub fn path(self) -> String {
        format!("{JOB_STATES}/{}/{}-{}", self.state, self.priority, self.jid)
    }

    /// Takes the name of a ref apart.
    pub fn parse(state: JobState, name: &str) -> Option<Self> {
        let (priority, jid) = name.split_once('-')?;
        if priority.len() != 2 || !priority.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let priority = priority.parse().ok().and_then(Priority::new)?;
        Some(Self { state, priority, jid: jid.parse().ok()? })
    }

    /// Takes a whole path apart.
    pub fn from_path(path: &str) -> Option<Self> {
        let (state, name) = path.strip_prefix(JOB_STATES)?.strip_prefix('/')?.split_once('/')?;
        let state = JobState::ALL.iter().copied().find(|known| known.name() == state)?;
        Self::parse(state, name)
    }
}

/// A node of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobNode {
    Bid,
    Configuration,
    Status,
    Priority,
    SpaceNeeded,
    Identifiers,
    Metadata,
    Inventory,
    Schedule,
    Work,
    History,
    Lock,
    /// Written by the `mrt-zk` dialect's processing for the storage service.
    Store,
}

impl JobNode {
    pub const ALL: [JobNode; 13] = [
        JobNode::Bid,
        JobNode::Configuration,
        JobNode::Status,
        JobNode::Priority,
        JobNode::SpaceNeeded,
        JobNode::Identifiers,
        JobNode::Metadata,
        JobNode::Inventory,
        JobNode::Schedule,
        JobNode::Work,
        JobNode::History,
        JobNode::Lock,
        JobNode::Store,
    ];

    pub fn name(self) -> &'static str {
        match self {
            JobNode::Bid => "bid",
            JobNode::Configuration => "configuration",
            JobNode::Status => "status",
            JobNode::Priority => "priority",
            JobNode::SpaceNeeded => "space_needed",
            JobNode::Identifiers => "identifiers",
            JobNode::Metadata => "metadata",
            JobNode::Inventory => "inventory",
            JobNode::Schedule => "schedule",
            JobNode::Work => "work",
            JobNode::History => "history",
            JobNode::Lock => "lock",
            JobNode::Store => "store",
        }
    }

    pub fn of(self, jid: Jid) -> String {
        format!("{JOBS}/{jid}/{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_ref_is_read_as_it_is_written() {
        let entry = QueueRef::new(JobState::Downloading, Priority::new(3).unwrap(), Jid::new(12));
        assert_eq!(entry.path(), "/jobs/states/downloading/03-jid0000000012");
        assert_eq!(QueueRef::from_path(&entry.path()), Some(entry));
        for bad in
            ["3-jid0000000012", "003-jid0000000012", "+3-jid0000000012", "03jid0000000012", "03-jid12", ""]
        {
            assert_eq!(QueueRef::parse(JobState::Held, bad), None, "{bad}");
        }
        for bad in
            ["/jobs/states/downloading", "/jobs/states/Downloading/03-jid0000000012", "/jobs/jid0000000012"]
        {
            assert_eq!(QueueRef::from_path(bad), None, "{bad}");
        }
    }
}
