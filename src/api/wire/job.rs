//! Jobs.

use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::reasons::GroupKey;
use ingest_queue::states::JobState;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{BidWord, GroupWord, JidWord, JobStateWord, LockedBy, PriorityWord, Unreadable};

/// A page of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobPage {
    pub jobs: Vec<JobLine>,
    /// Where the next page begins; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    pub unreadable: Vec<Unreadable>,
    /// How many candidates are left for later pages.
    pub left: usize,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobLine {
    #[schema(value_type = JidWord)]
    pub jid: Jid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BidWord>)]
    pub bid: Option<Bid>,
    #[schema(value_type = JobStateWord)]
    pub state: JobState,
    pub priority: u8,
    /// The name of that priority, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    pub space_needed: i64,
    pub profile: String,
    pub collection: String,
    pub submitter: String,
    pub message: String,
    pub retry_count: u32,
    pub attempt: u32,
    pub recoverable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_modified: Option<Date>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub process_date: Option<Date>,
    /// When it is too late to begin it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expiration_date: Option<Date>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_id: Option<String>,
    pub local_ids: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_by: Option<LockedBy>,
}

/// Jobs grouped by what their status says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Reasons {
    /// The most frequent first.
    pub groups: Vec<ReasonGroup>,
    pub looked_at: usize,
    /// Jobs that were not looked at, because there are too many.
    pub left: usize,
}

/// Jobs whose reasons have the same template: they differ in numbers, URLs, ids and quoted names only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReasonGroup {
    /// Its key: the filter `group` selects these jobs and no others. It stays the same from call to call.
    #[schema(value_type = GroupWord)]
    pub group: GroupKey,
    /// The template, with `#`, `<url>`, `<path>` and `<name>` for what differs; the first 500 characters of it.
    pub reason: String,
    /// One of them, as it is.
    pub example: String,
    pub count: usize,
    /// The first few.
    #[schema(value_type = Vec<JidWord>)]
    pub jobs: Vec<Jid>,
}

/// A job with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Job {
    #[schema(value_type = JidWord)]
    pub jid: Jid,
    #[schema(value_type = BidWord)]
    pub bid: Bid,
    #[schema(value_type = JobStateWord)]
    pub state: JobState,
    pub priority: u8,
    pub space_needed: i64,
    pub status: JobStatus,
    pub configuration: Map<String, Value>,
    pub identifiers: Map<String, Value>,
    pub metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<JobLock>,
    /// Which actions the state tables allow now: requeue, hold, release, delete, priority.
    pub may: Vec<String>,
}

/// What a job's status says besides its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JobStateWord>)]
    pub last_successful_status: Option<JobState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_modification_date: Option<Date>,
    pub retry_count: u32,
    pub message: String,
    pub attempt: u32,
    pub recoverable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub start_processing_date: Option<Date>,
    /// It waits for this date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub process_date: Option<Date>,
    /// If it still waits then, it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expiration_date: Option<Date>,
}

/// Who works on a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobLock {
    pub node: String,
    pub incarnation: String,
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Date>,
}

/// What became of a job, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobHistory {
    #[schema(value_type = JidWord)]
    pub jid: Jid,
    pub history: Vec<Transition>,
}

/// One transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Transition {
    #[schema(value_type = String, format = DateTime)]
    pub at: Date,
    #[schema(value_type = Option<JobStateWord>)]
    pub from: Option<JobState>,
    #[schema(value_type = JobStateWord)]
    pub to: JobState,
    pub node: String,
    pub attempt: u32,
    pub commit: String,
    pub message: String,
}

/// A failed job is to be tried again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Requeue {
    /// Where it starts; absent: after the last state that it has finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JobStateWord>)]
    pub state: Option<JobState>,
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1000)]
    pub reason: String,
    pub force: bool,
}

/// A job is to run sooner or later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetPriority {
    /// 0 to 99, or the name of a class.
    #[schema(value_type = PriorityWord)]
    pub priority: Value,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1000)]
    pub reason: String,
    #[serde(default)]
    pub force: bool,
}

/// What an action did to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JobActed {
    #[schema(value_type = JidWord)]
    pub jid: Jid,
    #[schema(value_type = JobStateWord)]
    pub from: JobState,
    /// Absent: it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JobStateWord>)]
    pub state: Option<JobState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}
