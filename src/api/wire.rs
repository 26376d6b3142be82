//! What goes over the wire, one noun a file. The node answers with these, and the command line reads them.
//!
//! Fields are named as in the tree and on the page (docs/api.md); one without a value is left out.

mod access;
mod audit;
mod batch;
mod bulk;
mod event;
mod feed;
mod fsck;
mod health;
mod hold;
mod job;
mod limit;
mod node;
mod object;
mod pool;
mod problem;
mod request;
mod restart;
mod shared;
mod state;
mod submission;
mod words;

pub(crate) use access::*;
pub(crate) use audit::*;
pub(crate) use batch::*;
pub(crate) use bulk::*;
pub(crate) use event::*;
pub(crate) use feed::*;
pub(crate) use fsck::*;
pub(crate) use health::*;
pub(crate) use hold::*;
pub(crate) use job::*;
pub(crate) use limit::*;
pub(crate) use node::*;
pub(crate) use object::*;
pub(crate) use pool::*;
pub(crate) use problem::*;
pub(crate) use request::*;
pub(crate) use restart::*;
pub(crate) use shared::*;
pub(crate) use state::*;
pub(crate) use submission::*;
pub(crate) use words::*;

use ingest_queue::date::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who works on something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LockedBy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub since: Date,
}

/// What could not be read, and is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Unreadable {
    pub path: String,
    pub why: String,
}

/// What goes along with an action.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Doing {
    /// For the status and the history.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1000)]
    pub reason: String,
    /// Take the lock away from whoever works on it. Admin.
    pub force: bool,
}
