//! The nodes of feeds and of those who consume them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Hold, Json, Other};
use crate::date::Date;
use crate::feeds::Qid;
use crate::ids::Bid;

/// `/queues/QID`: how far a feed has been consumed. Its version is the fence of everything that is done with the feed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FeedNode {
    /// The checkpoint: what it means only the source knows. Empty: nothing was consumed.
    pub last: String,
    /// The name in the configuration of those who consume it. The QID is made of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Items that have become batches.
    pub items: u64,
    /// Items that were passed over: deleted ones, and those that can become nothing.
    pub skipped: u64,
    /// The last of those that can become nothing, each with its reason; the newest is the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_items: Vec<SkippedItem>,
    /// When the checkpoint was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Date>,
    /// The last batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Bid>,
    /// A person has stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Hold>,
    /// Since when it fails again and again: the administrators were told, and are not told again before it went well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerted: Option<Date>,
    /// The last commit that has set it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub commit: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for FeedNode {}

/// An item of a feed that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SkippedItem {
    /// Its id; a long one is cut, and ends with a digest of the whole.
    pub item: String,
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Date>,
    #[serde(flatten)]
    pub other: Other,
}

/// `/workers/worker-N` (ephemeral): a node that consumes feeds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerNode {
    /// The feeds that it consumes now.
    pub queues: Vec<Qid>,
    /// Those that it could: it knows them, and their policy allows it.
    pub offers: Vec<Qid>,
    pub node: String,
    pub incarnation: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for WorkerNode {}

/// `/workers`: which worker is to have which feeds. Empty: nobody has said yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AssignmentNode {
    pub assigned: BTreeMap<String, Vec<Qid>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub commit: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for AssignmentNode {}
