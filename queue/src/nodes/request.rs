//! What somebody asks of the nodes, and what became of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Json, Other};
use crate::date::Date;

/// `/requests/requests/UUID`. Its version is the fence of whoever has taken it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// A name of the table of actions.
    pub action: String,
    /// The node that is to do it; absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// In whose name, and how it came: `tree ann@host`, `api 192.0.2.1`.
    pub who: String,
    pub from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Date>,
    /// How often a node has taken it, which one did last, and when.
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Date>,
    /// How far it is, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// There is a result.
    pub done: bool,
    pub commit: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Request {}

/// `/requests/results/UUID`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestResult {
    pub ok: bool,
    /// Why not: what the API would have answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Value>,
    pub node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Date>,
    /// The attempt that came to this.
    pub attempt: u32,
    /// There is more, in `/requests/result-data/UUID`.
    pub data: bool,
    pub commit: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for RequestResult {}
