//! Live events: what each carries.

use std::collections::BTreeMap;

use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::states::JobState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{BidWord, JidWord, JobStateWord, Restart};

/// Something has happened. The name of the event is the name of the variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Event {
    Reset(Reset),
    Counts(CountsNow),
    Jobs(JobsMoved),
    Batches(BatchesChanged),
    Node(NodeChanged),
    Restart(Restart),
    Alert(Alert),
    /// Of `holds`, `nodes`, `access` and `requests`: read them again.
    Nothing {},
}

/// Whatever was known may be wrong: read it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Reset {
    pub why: String,
}

/// How many jobs are in each state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct CountsNow {
    #[schema(value_type = BTreeMap<String, usize>)]
    pub jobs: BTreeMap<JobState, usize>,
}

/// Jobs that are elsewhere now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobsMoved {
    pub moved: Vec<JobMoved>,
    /// How many are left out.
    pub more: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobMoved {
    #[schema(value_type = JidWord)]
    pub jid: Jid,
    /// Null: it has left the queues.
    #[schema(value_type = Option<JobStateWord>)]
    pub state: Option<JobState>,
}

/// Batches that are not as they were.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct BatchesChanged {
    #[schema(value_type = Vec<BidWord>)]
    pub changed: Vec<Bid>,
    #[schema(value_type = Vec<BidWord>)]
    pub gone: Vec<Bid>,
    /// How many are left out.
    pub more: usize,
}

/// Something that people should hear of, seen by any node: a job that failed because it crashed or stalled its worker too
/// often, or a feed that fails again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Alert {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub jid: Option<Jid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Date,
    pub what: String,
}

/// This node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeChanged {
    pub mode: String,
    pub session: String,
    pub ready: bool,
}
