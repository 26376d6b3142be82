//! Stored objects, and whether their content is still what was stored.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Problem;

/// A line of an audit. The last one is `done`, or a `problem` that has ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditLine {
    /// How far it is with one object.
    Progress(AuditProgress),
    Object(AuditedObject),
    Done(Audited),
    Problem(Problem),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditProgress {
    pub ark: String,
    /// Objects that are done.
    pub objects: usize,
    /// What was read, of all objects.
    pub files: u64,
    pub bytes: u64,
}

/// An object whose content was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AuditedObject {
    /// Empty if an object could not even be named.
    pub ark: String,
    /// Where it is kept.
    pub storage: String,
    pub versions: u32,
    pub files: u64,
    pub bytes: u64,
    /// None if all is well.
    pub problems: Vec<String>,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Audited {
    pub objects: usize,
    /// Those with problems.
    pub damaged: usize,
    pub files: u64,
    pub bytes: u64,
}
