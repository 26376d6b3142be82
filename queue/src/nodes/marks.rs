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

/// A local id that has, or is about to get, an identifier which is not recorded yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalId {
    pub owner: String,
    pub local_id: String,
    /// Empty: the job that has it is about to mint.
    pub primary_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jid: Option<Jid>,
    /// Other jobs that use the same identifier: it stays until the last of them gives it up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Jid>,
    /// The key that the identifier was minted with; absent if it came from elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Date>,
    #[serde(flatten)]
    pub other: Other,
}

impl LocalId {
    pub fn is_held_by(&self, jid: Jid) -> bool {
        self.jid == Some(jid) || self.also.contains(&jid)
    }

    /// What is left when a job gives it up; `None` if nobody else has it.
    pub fn without(&self, jid: Jid) -> Option<Self> {
        let mut holders = self.jid.iter().chain(&self.also).copied().filter(|holder| *holder != jid);
        let first = holders.next()?;
        let also = holders.collect();
        Some(Self { jid: Some(first), also, ..self.clone() })
    }
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
