//! Management requests, and the table of actions.

use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Problem;

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ActionList {
    pub actions: Vec<ActionLine>,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ActionLine {
    pub name: String,
    /// In words.
    pub what: String,
    pub params: Vec<ActionParam>,
    /// `operator` or `admin`.
    pub role: String,
    /// It is about one node, which the request names.
    pub of_node: bool,
    /// How often it is done if a node dies with it.
    pub once: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ActionParam {
    pub name: String,
    pub required: bool,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutRequest {
    /// A name of the table of actions.
    #[schema(max_length = 64)]
    pub action: String,
    /// As the table says.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    #[schema(value_type = Object)]
    pub params: serde_json::Map<String, serde_json::Value>,
    /// The node that is to do it; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub node: Option<String>,
    /// A uuid: the same one again is the same request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Some of the requests, in the order of their creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RequestPage {
    pub requests: Vec<RequestLine>,
    /// Where the next page begins, if there is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RequestLine {
    pub id: String,
    pub action: String,
    /// `waiting`, `running` or `done`.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub who: String,
    /// How it came.
    pub from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Date>,
    /// How often a node has taken it, and which one did last.
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub taken_at: Option<Date>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// Somebody waits for the result.
    pub waited_for: bool,
    /// Of one that is done: false if it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// What a request came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RequestOutcome {
    pub id: String,
    pub ok: bool,
    /// What the action brought; the same that its route would have answered.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    #[schema(value_type = Object)]
    pub data: serde_json::Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// The node that did it.
    pub node: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Date>,
    pub attempt: u32,
}

/// A request is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RequestForgotten {
    pub id: String,
}

/// A moment of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Moment {
    pub ltime: i64,
}
