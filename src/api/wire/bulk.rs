//! One action on many jobs.

use std::collections::BTreeMap;

use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::reasons::GroupKey;
use ingest_queue::states::JobState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{BidWord, BulkId, GroupWord, JidWord, JobLine, JobStateWord, PriorityWord, Unreadable};
use crate::api::read::object;

/// What is to be done to all jobs that the filter selects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bulk {
    pub action: BulkAction,
    /// Of `requeue`: where they start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JobStateWord>)]
    pub state: Option<JobState>,
    /// Of `priority`: 0 to 99, or the name of a class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PriorityWord>)]
    pub priority: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "object")]
    pub filter: JobFilter,
    /// Only count.
    #[serde(default)]
    pub dry_run: bool,
    /// A filter that selects every job is meant so.
    #[serde(default)]
    pub all: bool,
    /// How many jobs a dry run has counted: if others match now, it is refused (409, `changed`), and nothing is touched. Not
    /// with the `id` of a run that has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<usize>,
    /// Of `delete`: the depositors will not be told, and that is meant so.
    #[serde(default)]
    pub confirm: bool,
    /// The same id goes on with a run that was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BulkId>)]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1000)]
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BulkAction {
    Requeue,
    Hold,
    Release,
    Delete,
    Priority,
}

/// A choice of jobs: all that is said must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JobFilter {
    /// Any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<JobStateWord>)]
    pub states: Vec<JobState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BidWord>)]
    pub batch: Option<Bid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub older_than: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub newer_than: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PriorityWord>)]
    pub min_priority: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PriorityWord>)]
    pub max_priority: Option<serde_json::Value>,
    /// Whether they wait for their process date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<bool>,
    /// The group of the reason that their status gives, as `GET /jobs/reasons` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<GroupWord>)]
    pub group: Option<GroupKey>,
}

/// What a run would do, or did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum BulkAnswer {
    Ran(BulkRan),
    Dry(BulkDry),
}

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BulkDry {
    pub dry_run: bool,
    /// In words.
    pub what: String,
    pub total: usize,
    #[schema(value_type = BTreeMap<String, usize>)]
    pub states: BTreeMap<JobState, usize>,
    /// The first few.
    pub examples: Vec<JobLine>,
    pub unreadable: usize,
    pub first_unreadable: Vec<Unreadable>,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BulkRan {
    pub dry_run: bool,
    pub id: String,
    /// In words.
    pub what: String,
    pub total: usize,
    pub done: usize,
    /// Done before, by the same run.
    pub skipped: usize,
    /// Not there any more, or not as the filter wants it, when their turn came.
    pub gone: usize,
    pub refused: usize,
    pub unreadable: usize,
    /// The first few.
    pub refusals: Vec<BulkRefusal>,
    pub first_unreadable: Vec<Unreadable>,
    /// Why it ended early; the same id goes on.
    pub stopped: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BulkRefusal {
    #[schema(value_type = JidWord)]
    pub jid: Jid,
    pub why: String,
}
