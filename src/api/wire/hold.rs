//! Holds on queues and collections.

use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Holds {
    pub queues: Vec<Hold>,
    pub collections: Vec<Hold>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Hold {
    pub name: String,
    pub who: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub when: Option<Date>,
}

/// Why something is held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SetHold {
    #[schema(max_length = 1000)]
    pub reason: String,
}

/// What setting or lifting a hold did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct HoldChanged {
    /// `queue` or `collection`.
    pub kind: String,
    pub name: String,
    pub held: bool,
    /// False: it was so already.
    pub changed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Released>,
    /// Of a collection that is held: that nobody knows it, so that its name is perhaps mistyped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Of a collection whose hold was lifted: what of it stays held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub still_held: Option<StillHeld>,
}

/// What of a collection stays held when its hold is lifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct StillHeld {
    pub jobs: usize,
    pub batches: usize,
    /// What releases them; absent: nothing is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What was released with its collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Released {
    pub jobs: usize,
    pub batches: usize,
    /// What was not, and why.
    pub refused: Vec<String>,
}
