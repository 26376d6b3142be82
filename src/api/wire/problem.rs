//! What went wrong: RFC 9457.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whatever is not as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Problem {
    /// `urn:ingestd:problem:` and a name.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for all of a kind.
    pub title: String,
    pub status: u16,
    /// For people: the thing, and what helps.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// By which it is found in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// All of them, where there can be several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<FieldProblem>,
}

/// One of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct FieldProblem {
    /// The field or parameter; empty: all of it.
    pub field: String,
    pub message: String,
}
