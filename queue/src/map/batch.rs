//! The nodes of a batch.

use super::BATCHES;
use crate::ids::Bid;

/// A node of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchNode {
    Submission,
    Status,
    Expansion,
    Manifest,
    StatusReport,
    States,
    Lock,
    Deleting,
    /// The profile that its jobs were made with.
    Profile,
}

impl BatchNode {
    pub const ALL: [BatchNode; 9] = [
        BatchNode::Submission,
        BatchNode::Status,
        BatchNode::Expansion,
        BatchNode::Manifest,
        BatchNode::StatusReport,
        BatchNode::States,
        BatchNode::Lock,
        BatchNode::Deleting,
        BatchNode::Profile,
    ];

    pub fn name(self) -> &'static str {
        match self {
            BatchNode::Submission => "submission",
            BatchNode::Status => "status",
            BatchNode::Expansion => "expansion",
            BatchNode::Manifest => "manifest",
            BatchNode::StatusReport => "status-report",
            BatchNode::States => "states",
            BatchNode::Lock => "lock",
            BatchNode::Deleting => "deleting",
            BatchNode::Profile => "profile",
        }
    }

    pub fn of(self, bid: Bid) -> String {
        format!("{BATCHES}/{bid}/{}", self.name())
    }
}
