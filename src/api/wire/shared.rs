//! What all nodes share by the tree: profiles and settings.

use std::collections::BTreeMap;

use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A profile as it is in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct SharedProfile {
    pub name: String,
    /// How often it was put.
    pub version: u32,
    /// SHA-256 of the text.
    pub digest: String,
    pub who: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Date>,
    /// TOML, without passwords.
    pub text: String,
}

/// A profile to be put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutProfile {
    /// TOML, as in a file.
    pub text: String,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct SharedChanged {
    /// `profile` or `settings`.
    pub kind: String,
    pub name: String,
    /// False: it was so already.
    pub changed: bool,
    /// Absent: it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The settings of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ClusterSettings {
    /// Of the tree: version and digest in short; `-`: none are set.
    pub mark: String,
    /// What this node runs.
    pub applied: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Date>,
    /// The keys that are set for all nodes.
    #[schema(value_type = Object)]
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Where this node has the values from that are not the default: a file and line, a variable, or the cluster.
    pub sources: BTreeMap<String, String>,
}

/// What of the settings is to change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChangeSettings {
    /// Keys and their values: `{"pools.downloading.size": 4}`.
    #[schema(value_type = Object)]
    pub set: serde_json::Map<String, serde_json::Value>,
    /// Keys that each node decides again.
    pub unset: Vec<String>,
}
