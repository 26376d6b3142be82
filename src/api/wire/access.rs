//! Objects that somebody wants to have.

use ingest_queue::date::Date;
use ingest_queue::ids::Aid;
use ingest_queue::map::AccessSize;
use ingest_queue::states::AccessState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{AccessForm, AccessSizeWord, AccessStateWord, AidWord, ArkWord, Unreadable};

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessRequest {
    #[schema(value_type = ArkWord)]
    pub ark: String,
    /// Absent: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 4_294_967_295_u32)]
    pub version: Option<u32>,
    /// `zip` (default) or `bag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AccessForm>)]
    pub form: Option<String>,
}

/// It is in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AccessRequested {
    /// For whoever asked, and for nobody else.
    pub token: String,
    #[schema(value_type = AccessSizeWord)]
    pub size: AccessSize,
    #[schema(value_type = AidWord)]
    pub aid: Aid,
    pub ark: String,
    pub version: u32,
    pub bytes: u64,
    #[serde(rename = "anticipated-availability-time")]
    #[schema(value_type = String, format = DateTime)]
    pub anticipated: Date,
    /// Where it will be.
    pub url: String,
}

/// It is not there yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AccessPending {
    /// `pending`.
    pub state: String,
    #[serde(rename = "anticipated-availability-time", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub anticipated: Option<Date>,
}

/// A page of the items of both queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AccessPage {
    pub items: Vec<AccessLine>,
    /// Where the next page begins; absent: this was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    pub unreadable: Vec<Unreadable>,
    /// How many candidates are left for later pages.
    pub left: usize,
}

/// An item of an access queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AccessLine {
    #[schema(value_type = AccessSizeWord)]
    pub size: AccessSize,
    #[schema(value_type = AidWord)]
    pub aid: Aid,
    #[schema(value_type = AccessStateWord)]
    pub state: AccessState,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_modified: Option<Date>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    pub bytes: u64,
    #[serde(rename = "anticipated-availability-time", default, skip_serializing_if = "Option::is_none")]
    pub anticipated: Option<String>,
}

/// What was done to an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct AccessActed {
    #[schema(value_type = AccessSizeWord)]
    pub size: AccessSize,
    #[schema(value_type = AidWord)]
    pub aid: Aid,
    /// Absent: it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AccessStateWord>)]
    pub state: Option<AccessState>,
}
