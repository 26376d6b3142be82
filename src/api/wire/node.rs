//! Nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{PoolLine, Role};

/// All nodes that live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeList {
    pub nodes: Vec<NodeLine>,
    /// Which profiles and settings the tree has now: a mark of each, `-` for none.
    pub profiles: String,
    pub settings: String,
}

/// A node as it says of itself in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeLine {
    /// Its name among the components.
    pub component: String,
    pub node: String,
    /// The one that answers.
    pub this: bool,
    pub incarnation: String,
    pub version: String,
    /// `running`, `paused` or `draining`.
    pub state: String,
    pub file_system: String,
    pub pools: BTreeMap<String, usize>,
    pub restarts: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_restart: Option<String>,
    /// What it does for all nodes, elected: `timer`, `stats`.
    pub leads: Vec<String>,
    pub since: String,
    /// Where it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Which profiles and settings of the tree it runs.
    pub profiles: String,
    pub settings: String,
    /// It does not run yet what the tree has.
    pub lags: bool,
}

/// The node that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeNow {
    pub node: String,
    pub component: String,
    pub version: String,
    pub mode: String,
    /// `connected`, `suspended`, `expired` or `closed`.
    pub session: String,
    pub ready: bool,
    pub pools: BTreeMap<String, PoolLine>,
    pub working: Vec<Working>,
    pub restarts: u64,
    pub sweep_healed: u64,
    pub sessions: u64,
    pub stalls: u64,
    pub moved: u64,
    pub handed_over: u64,
}

/// Something that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Working {
    pub worker: String,
    pub pool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    pub attempt: u32,
    pub running_ms: u64,
    pub done_files: u64,
    pub done_bytes: u64,
    pub all_files: u64,
    pub all_bytes: u64,
}

/// A node was told to pause, to go on or to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ModeChanged {
    pub mode: String,
    /// False: it was so already.
    pub changed: bool,
}

/// An actor and those below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(no_recursion)]
pub(crate) struct Branch {
    pub name: String,
    /// `starting`, `running`, `upgrading`, `draining`, `stopping` or `stopped`.
    pub status: String,
    pub children: Vec<Branch>,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Me {
    pub name: String,
    pub role: Role,
    /// Whether this node asks for tokens.
    pub tokens: bool,
    pub node: String,
    pub version: String,
}
