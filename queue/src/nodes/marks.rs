//! Nodes that say who did what: locks, holds, reservations, quarantine.

use serde::{Deserialize, Serialize};

use super::{Json, Other};
use crate::date::Date;
use crate::ids::Jid;

/// A lock: who is at work. For people; it is not the fence.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    pub node: String,
    /// Tells two lives of the same node apart.
    pub incarnation: String,
    pub session: String,
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Date>,
    /// The commit that made it.
    pub commit: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Owner {}

/// An admin's hold on a queue or a collection; also the mark on a batch that is being deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hold {
    /// The full name of what is held: its path may stand for two.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub who: String,
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Date>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Hold {}

/// A lock on an object in the storage or in the inventory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NameLock {
    /// The full name.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jid: Option<Jid>,
    pub node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Date>,
    pub commit: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for NameLock {}

/// A local id that was given an identifier which is not recorded yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalId {
    pub owner: String,
    pub local_id: String,
    pub primary_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jid: Option<Jid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Date>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for LocalId {}

/// `/quarantine/…`: what was unreadable, where it was, why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quarantined {
    pub path: String,
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Date>,
    /// The data, if it was text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The data in hex, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
    /// More bytes were there than are kept here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Quarantined {}
