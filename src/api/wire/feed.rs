//! Feeds, and who consumes them.

use ingest_queue::date::Date;
use ingest_queue::ids::Bid;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Hold;

/// A page of the feeds, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedPage {
    pub feeds: Vec<FeedLine>,
    /// Where the next page begins; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// All who consume feeds, on every page.
    pub workers: Vec<WorkerLine>,
}

/// A feed as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedLine {
    pub name: String,
    /// Its name in the tree: 32 hex digits.
    pub qid: String,
    pub kind: String,
    /// How far it was consumed.
    pub last: String,
    /// Items that have become batches.
    pub items: u64,
    /// Items that were passed over.
    pub skipped: u64,
    /// The last of them that could become nothing, with their reasons; the newest is the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_items: Vec<FeedSkipped>,
    /// When the checkpoint was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub moved: Option<Date>,
    /// The last batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub batch: Option<Bid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Hold>,
    /// The node that consumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Date>,
    /// The node that is to consume it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<String>,
    /// Why it cannot be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Somebody wants it to be asked, and it was not yet.
    pub asked: bool,
    /// What the configuration of this node says of it; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<FeedConfigured>,
    /// How it fares on this node; absent: it was never consumed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<FeedHere>,
}

/// An item of a feed that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedSkipped {
    pub item: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub when: Option<Date>,
}

/// What the configuration says of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedConfigured {
    /// Its URL or directory.
    pub place: String,
    pub profile: String,
    pub submitter: String,
    /// `automatic` or `manual`.
    pub policy: String,
}

/// How a feed fares on this node, since the node began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedHere {
    /// `waiting`, `asking`, `idle` or `failing`.
    pub doing: String,
    pub taken: u64,
    pub known: u64,
    pub skipped: u64,
    pub errors: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub asked_at: Option<Date>,
    /// When everything that there was had been consumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub caught_up: Option<Date>,
    /// When it is asked again, if nothing happens before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next: Option<Date>,
    pub lag_ms: u64,
}

/// One who consumes feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct WorkerLine {
    pub worker: String,
    pub node: String,
    /// How many feeds it consumes, is to consume, and could.
    pub consumes: usize,
    pub assigned: usize,
    pub offers: usize,
}

/// What was done to a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedChanged {
    pub name: String,
    /// False: it was so already.
    pub changed: bool,
}

/// Where a feed is to be consumed from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ResetFeed {
    /// The checkpoint; empty: from the beginning. For a source on the web a date is one.
    #[schema(max_length = 4096)]
    pub last: String,
    /// The feed's name again: it is meant.
    pub confirm: String,
}

/// A checkpoint that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FeedReset {
    pub name: String,
    pub before: String,
    pub last: String,
}
