//! Limits over all nodes, cleanup routines, and what was written down over time.

use std::collections::BTreeMap;

use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of the limits, by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LimitPage {
    /// What holds for all that are not named, by kind.
    pub defaults: BTreeMap<String, u32>,
    /// The states in which limits of hosts hold, and those of all others.
    pub host_states: Vec<String>,
    pub states: Vec<String>,
    pub limits: Vec<LimitLine>,
    /// Where the next page begins; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LimitLine {
    /// `collection`, `host`, `profile` or `name`.
    pub kind: String,
    pub name: String,
    /// How many at a time; absent: there is no limit any more, and those who have a slot give it back in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `file`, or `set` by a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// How many slots are held.
    pub held: usize,
    /// Jobs that the node that answers knows to wait for a slot.
    pub waiting: usize,
    pub holders: Vec<LimitHolder>,
}

/// Who has a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LimitHolder {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    pub node: String,
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Date>,
}

/// How many at a time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SetLimit {
    /// Absent: no limit, whatever the file says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10000)]
    pub limit: Option<u32>,
}

/// What setting or clearing a limit did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LimitChanged {
    pub kind: String,
    pub name: String,
    /// What holds now; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// False: it was so already.
    pub changed: bool,
}

/// All cleanup routines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct UpkeepList {
    pub routines: Vec<UpkeepLine>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct UpkeepLine {
    pub name: String,
    /// What it removes.
    pub about: String,
    /// How often, as the node that answers is configured.
    pub every_ms: u64,
    /// The node that is at it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<UpkeepRun>,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct UpkeepRun {
    #[schema(value_type = String, format = DateTime)]
    pub at: Date,
    pub node: String,
    pub took_ms: u64,
    pub removed: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was written down over time, for all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct StatsList {
    /// The oldest first.
    pub lines: Vec<StatsLine>,
}

/// What was so at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct StatsLine {
    #[schema(value_type = String, format = DateTime)]
    pub at: Date,
    /// The node that wrote it.
    pub node: String,
    /// By state; those in which nobody waits are left out.
    pub waiting: BTreeMap<String, usize>,
    /// Since the line before.
    pub completed: u64,
    pub failed: u64,
}
