//! The nodes of an access item.

use serde::{Deserialize, Serialize};

use super::{Json, Other, Status};
use crate::states::AccessState;

/// `/access/SIZE/AID/token`: what is to be assembled, and where it will be found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct AccessToken {
    pub token: String,
    pub delivery_node: u64,
    pub cloud_content_byte: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anticipated_availability_time: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for AccessToken {}

/// `/access/SIZE/AID/status`. Its version is the fence.
pub type AccessStatus = Status<AccessState>;
