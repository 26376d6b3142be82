//! Batches.

use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::states::BatchState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{BatchStateWord, BidWord, JidWord, LockedBy, Unreadable};

/// A page of batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BatchPage {
    pub batches: Vec<BatchLine>,
    /// Where the next page begins; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    pub unreadable: Vec<Unreadable>,
    /// How many candidates are left for later pages.
    pub left: usize,
}

/// A batch in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BatchLine {
    #[schema(value_type = BidWord)]
    pub bid: Bid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    #[schema(value_type = BatchStateWord)]
    pub state: BatchState,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_modified: Option<Date>,
    pub profile: String,
    pub collection: String,
    pub submitter: String,
    pub jobs: BatchCounts,
    /// Absent until the expansion has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expansion: Option<Expansion>,
    pub deleting: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_by: Option<LockedBy>,
}

/// How many jobs are in each list of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct BatchCounts {
    pub processing: usize,
    pub failed: usize,
    pub completed: usize,
    pub deleted: usize,
}

/// How far a batch has become jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Expansion {
    pub next: u64,
    pub total: u64,
    pub done: bool,
}

/// A batch with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Batch {
    #[serde(flatten)]
    pub line: BatchLine,
    /// For how many held jobs it waits.
    pub held_jobs: usize,
    /// As it was given, without secrets.
    pub submission: serde_json::Map<String, serde_json::Value>,
    /// The last report that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportLine>,
}

/// A report in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReportLine {
    pub number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub sent: Option<Date>,
    pub completed: usize,
    pub failed: usize,
    pub deleted: usize,
}

/// A report to the depositor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub head: ReportHead,
    pub successful_jobs: Vec<ReportedJob>,
    pub failed_jobs: Vec<ReportedJob>,
    pub deleted_jobs: Vec<ReportedJob>,
}

/// A report but for its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReportHead {
    #[schema(value_type = BidWord)]
    pub bid: Bid,
    pub number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_modified: Option<Date>,
    /// Why it has no jobs, if it could not be expanded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it tells that the report before did not, if it is an update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<ReportUpdate>,
}

/// What has changed since the report before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReportUpdate {
    #[schema(value_type = Vec<JidWord>)]
    pub completed: Vec<Jid>,
    #[schema(value_type = Vec<JidWord>)]
    pub deleted: Vec<Jid>,
}

/// A job in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReportedJob {
    #[schema(value_type = JidWord)]
    pub jid: Jid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local_id: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub payload_url: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub payload_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erc_who: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erc_what: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erc_when: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What an action did to a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BatchActed {
    #[schema(value_type = BidWord)]
    pub bid: Bid,
    #[schema(value_type = BatchStateWord)]
    pub from: BatchState,
    #[schema(value_type = BatchStateWord)]
    pub state: BatchState,
}

/// A batch is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct BatchDeleted {
    #[schema(value_type = BidWord)]
    pub bid: Bid,
    pub deleted_jobs: u64,
    pub warning: String,
}
