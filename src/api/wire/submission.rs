//! What depositors hand over, and what they are answered.

use std::collections::BTreeMap;

use ingest_queue::ids::Bid;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ArkWord, BidWord, DateWord, PriorityWord};

/// A submission. The node reads it leniently, so that everything that is wrong is told at once; this is what it may hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "as in the tree")]
pub(crate) struct Submission {
    /// The profile's name.
    #[schema(required = true)]
    pub profile: String,
    /// Who deposits. With a depositor's token: the token's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub submitter: String,
    /// Where the payload is. This or `manifest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_url: Option<String>,
    /// Objects `{"url", "local_id", "primary_id", "key"}`, or texts `URL LOCALID ARK`. A key comes once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<serde_json::Value>,
    /// What the payload is; absent: guessed.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_value: Option<String>,
    /// An ARK.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ArkWord>)]
    pub primary_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub local_id: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Dublin Core terms.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dc: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Mail addresses, apart by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification: Option<String>,
    /// `add`: a new object, or merged into the one that is there. `update`: merged into the one that has to be there.
    /// `replace`: its files and no others, in place of the one that has to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_mode: Option<String>,
    /// `json` or `xml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_type: Option<String>,
    /// 0 to 99, or the name of a class. Operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<PriorityWord>)]
    pub priority: Option<serde_json::Value>,
    /// Not to be begun before this date.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateWord>)]
    pub process_date: Option<String>,
    /// Not to be begun after this date. 0 or absent: never too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateWord>)]
    pub expiration_date: Option<String>,
    /// When it came to be; absent: now. Under a key, what is older than what waits there is stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateWord>)]
    pub insertion_date: Option<String>,
    /// Of submissions with the same key one waits: another becomes part of it as long as it is not expanded, and is
    /// queued behind it afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub key: Option<String>,
    /// The depositor's own name for it: repeated, it is answered with the first one's batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9-]{1,64}$")]
    pub uuid: Option<String>,
}

/// A submission as a form, in the field's own convention; all fields of the other one may be in it, too.
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "only its schema is used: forms are read field by field")]
#[schema(rename_all = "camelCase")]
pub(crate) struct SubmissionForm {
    /// The upload. This or `url`.
    #[schema(value_type = Option<String>, format = Binary)]
    file: Option<Vec<u8>>,
    url: Option<String>,
    profile: String,
    submitter: Option<String>,
    r#type: Option<String>,
    filename: Option<String>,
    size: Option<String>,
    primary_identifier: Option<String>,
    /// Several, apart by `;`.
    local_identifier: Option<String>,
    digest_type: Option<String>,
    digest_value: Option<String>,
    creator: Option<String>,
    title: Option<String>,
    date: Option<String>,
    note: Option<String>,
    notification: Option<String>,
    /// `json` or `xml`.
    response_form: Option<String>,
}

/// A submission was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Submitted {
    #[schema(value_type = BidWord)]
    pub bid: Bid,
    pub uuid: String,
    /// The uuid was known: this is its batch, and nothing was made.
    pub known: bool,
    /// Another waited under the same key, and this has become part of its batch.
    #[serde(default)]
    pub merged: bool,
    /// Another waits under the same key, and is newer: nothing was made or changed.
    #[serde(default)]
    pub stale: bool,
    /// Whether the payload is there, if it was uploaded. Absent: it is fetched from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadState>,
    /// Where the batch is to be seen.
    pub url: String,
}

/// Whether a payload that was uploaded is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PayloadState {
    /// The batch is whole.
    Present,
    /// It was missing, and was taken from this request.
    Supplied,
    /// Send the same again, with its file, to the node that it was sent to first.
    Missing,
    /// The node that has it cannot be asked now.
    Unknown,
}

impl PayloadState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            PayloadState::Present => "present",
            PayloadState::Supplied => "supplied",
            PayloadState::Missing => "missing",
            PayloadState::Unknown => "unknown",
        }
    }
}

/// What deposits can be for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ProfileList {
    pub profiles: Vec<ProfileLine>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ProfileLine {
    pub name: String,
    pub collection: String,
    pub title: String,
    /// New batches wait until a person releases them.
    pub hold: bool,
    pub priority: u8,
    /// Of a profile in the tree: how often it was put. Absent: it comes from a file of this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}
