//! Pools: how many work on a state.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::DurationWord;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PoolList {
    pub pools: Vec<PoolLine>,
}

/// A pool as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PoolLine {
    pub name: String,
    pub size: usize,
    /// What it means, if it has no workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// How many workers there are: while a pool shrinks, more than its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<usize>,
    /// A step that makes no progress for so long is stopped.
    pub stall: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// What waits for a pool of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct Waiting {
    pub ready: usize,
    pub taken: usize,
    pub locked: usize,
    pub parked: usize,
    pub delayed: usize,
    pub not_due: usize,
    pub busy: usize,
}

/// What of a pool is to change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChangePool {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub size: Option<usize>,
    /// Such as `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DurationWord>)]
    pub stall: Option<String>,
}
