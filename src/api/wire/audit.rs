//! Who may do what, and who did.

use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What somebody may do: each also what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Submits, and sees what was submitted in its name.
    Depositor,
    /// Sees everything; holds, releases, requeues, pauses.
    Operator,
    /// Deletes, forces, resizes, drains.
    Admin,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Depositor => "depositor",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// A page of the log, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditPage {
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Something that somebody did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditEntry {
    #[schema(value_type = String, format = DateTime)]
    pub at: Date,
    pub who: String,
    pub role: Role,
    /// The address it came from.
    pub from: String,
    /// Method and path.
    pub what: String,
    /// The actions that were ordered, with the parameters that they were given: cut, and without secrets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
    pub status: u16,
}
