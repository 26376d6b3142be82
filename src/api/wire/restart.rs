//! Restarts of actors.

use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of restarts, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RestartPage {
    pub restarts: Vec<Restart>,
    /// Where the next page begins; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Nodes whose restarts are not among them.
    #[serde(default)]
    pub missing: Vec<NotAsked>,
}

/// A node that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NotAsked {
    /// Null: it is not known which others there are.
    pub node: Option<String>,
    pub why: String,
}

/// One restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Restart {
    #[schema(value_type = String, format = DateTime)]
    pub at: Date,
    pub node: String,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// `panic`, `error`, `stall`, `killed`.
    pub reason: String,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    pub count: u32,
    pub backoff_ms: u64,
}
