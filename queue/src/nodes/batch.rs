//! The nodes of a batch.

use serde::{Deserialize, Serialize};

use super::{Json, Numbers, Other, Status};
use crate::date::Date;
use crate::ids::Bid;
use crate::states::BatchState;

/// `/batches/BID/submission`: as the depositor gave it. It is never written again, unless another with the same key
/// becomes part of it before it is expanded.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Submission {
    #[serde(rename = "batchID", skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    pub profile_name: String,
    /// The collection's mnemonic, if it is not the profile's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    pub submitter: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erc_what: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erc_who: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erc_when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erc_where: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub payload_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertion_date: Option<Date>,
    /// The dedupe key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Submission {}

impl Submission {
    pub fn collection(&self) -> &str {
        self.collection.as_deref().unwrap_or(&self.profile_name)
    }
}

/// `/batches/BID/status`. Its version is the fence of everything that is done to the batch.
pub type BatchStatus = Status<BatchState>;

/// `/batches/BID/expansion`: how far the manifest has become jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Expansion {
    /// Of the frozen manifest: another one is not expanded from the same cursor.
    pub digest: String,
    /// The first row that has no job yet.
    pub next: u64,
    pub total: u64,
    pub done: bool,
    /// The jobs so far. Empty if they are too many to be named so, or if not all of them are known.
    #[serde(skip_serializing_if = "Numbers::is_empty")]
    pub numbers: Numbers,
    /// The last commit that has set it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub commit: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Expansion {}

/// `/outbox/BID-N`: a report on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    pub bid: Bid,
    pub number: u32,
    pub composed: Date,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Date>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Outgoing {}

/// `/batches/BID/profile`: the profile as it was when the batch was expanded. Its jobs end with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FrozenProfile {
    pub name: String,
    /// Of a profile in the tree: how often it was put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Of the text.
    pub digest: String,
    /// As TOML.
    pub text: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for FrozenProfile {}
