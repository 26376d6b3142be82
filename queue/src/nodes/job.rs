//! The nodes of a job.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};

use super::fields::Fields;
use super::{Json, Node, Other, Unreadable, encode};
use crate::date::Date;
use crate::dialect::Dialect;
use crate::ids::Bid;
use crate::states::{JobState, States};

/// `/jobs/JID/status`. The version of this node is the fence.
#[derive(Debug, Clone, PartialEq)]
pub struct JobStatus {
    pub status: JobState,
    /// The last working state whose work was done.
    pub last_successful_status: Option<JobState>,
    pub last_modification_date: Option<Date>,
    /// How often a person has requeued it.
    pub retry_count: u32,
    pub message: String,
    /// How often it was acquired.
    pub attempt: u32,
    /// Whether trying again can help.
    pub recoverable: bool,
    /// Set while somebody is at work. If it is there and no lock is, the worker did not end properly.
    pub start_processing_date: Option<Date>,
    /// Not to be begun before then: there as long as it waits for that, and so is its ref among the dates.
    pub process_date: Option<Date>,
    /// Not to be begun after then: there as long as it can still be too late, and so is its ref among the
    /// expirations.
    pub expiration_date: Option<Date>,
    pub other: Other,
}

impl JobStatus {
    pub fn new(status: JobState, at: Date) -> Self {
        Self {
            status,
            last_successful_status: None,
            last_modification_date: Some(at),
            retry_count: 0,
            message: String::new(),
            attempt: 0,
            recoverable: true,
            start_processing_date: None,
            process_date: None,
            expiration_date: None,
            other: Other::new(),
        }
    }

    /// When the job last changed, for people. Older versions dated a completed job anew when it left its queue: its history
    /// tells when it completed.
    pub fn last_changed(&self, history: Option<&History>) -> Option<Date> {
        let done = JobState::Completed;
        let entries = history.filter(|_| self.status == done).map(|history| history.entries.iter());
        let completed = entries.and_then(|entries| {
            entries.rev().find(|entry| entry.to == done && entry.from != Some(done)).map(|entry| entry.at)
        });
        completed.or(self.last_modification_date)
    }

    /// Whether it is too late to begin it.
    pub fn is_expired(&self, now: Date) -> bool {
        self.status.is_waiting() && self.expiration_date.is_some_and(|date| date <= now)
    }
}

impl Node for JobStatus {
    fn read(data: &[u8]) -> Result<Self, Unreadable> {
        let mut fields = Fields::read(data)?;
        Ok(Self {
            status: fields.state("status")?.ok_or_else(|| Unreadable("it has no status".into()))?,
            last_successful_status: fields.state("last_successful_status")?,
            last_modification_date: fields.modified()?,
            retry_count: fields.count("retry_count")?,
            message: fields.text("message")?.unwrap_or_default(),
            attempt: fields.count("attempt")?,
            recoverable: fields.flag("recoverable")?.unwrap_or(true),
            start_processing_date: fields.date("start_processing_date")?,
            process_date: fields.date("process_date")?,
            expiration_date: fields.date("expiration_date")?,
            other: fields.rest(),
        })
    }

    fn write(&self, dialect: Dialect) -> Bytes {
        encode(&Written { status: self, dialect })
    }
}

struct Written<'a> {
    status: &'a JobStatus,
    dialect: Dialect,
}

impl Serialize for Written<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let Self { status, dialect } = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("status", status.status.json_name(*dialect))?;
        let last = status.last_successful_status.map(|state| state.json_name(*dialect));
        map.serialize_entry("last_successful_status", &last)?;
        match dialect {
            Dialect::Design => {
                map.serialize_entry("last_modification_date", &status.last_modification_date)?;
            }
            Dialect::MrtZk => {
                map.serialize_entry("last_modified", &status.last_modification_date.map(Date::to_merritt))?;
            }
        }
        map.serialize_entry("retry_count", &status.retry_count)?;
        map.serialize_entry("message", &status.message)?;
        map.serialize_entry("attempt", &status.attempt)?;
        map.serialize_entry("recoverable", &status.recoverable)?;
        for (name, date) in [
            ("start_processing_date", &status.start_processing_date),
            ("process_date", &status.process_date),
            ("expiration_date", &status.expiration_date),
        ] {
            if let Some(date) = date {
                map.serialize_entry(name, date)?;
            }
        }
        for (name, value) in &status.other {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// `/jobs/JID/configuration`: what the job was made with, never written again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<Bid>,
    pub profile_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_version: Option<u32>,
    /// The collection's mnemonic, if it is not the profile's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    pub submitter: String,
    pub payload_url: String,
    pub payload_type: String,
    pub response_type: String,
    pub submission_mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub local_id: Vec<String>,
    /// Free names of limits that its profile asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub semaphores: Vec<String>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Configuration {}

impl Configuration {
    /// What a hold on a collection is compared with.
    pub fn collection(&self) -> &str {
        self.collection.as_deref().unwrap_or(&self.profile_name)
    }
}

/// A list, a single string, or several of them in one, apart by semicolons.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Many(Vec<String>),
        One(String),
        Nothing(()),
    }
    Ok(match Either::deserialize(from)? {
        Either::Many(ids) => ids,
        Either::One(ids) => {
            ids.split(';').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect()
        }
        Either::Nothing(()) => Vec::new(),
    })
}

/// `/jobs/JID/identifiers`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "FoundIdentifiers")]
pub struct Identifiers {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_id: Option<String>,
    pub local_id: Vec<String>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Identifiers {}

/// The same as others write it: the primary one under either name, or both.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FoundIdentifiers {
    primary_id: Option<String>,
    primary: Option<String>,
    #[serde(deserialize_with = "one_or_many")]
    local_id: Vec<String>,
    #[serde(flatten)]
    other: Other,
}

impl From<FoundIdentifiers> for Identifiers {
    fn from(found: FoundIdentifiers) -> Self {
        let FoundIdentifiers { primary_id, primary, local_id, other } = found;
        Self { primary_id: primary_id.or(primary), local_id, other }
    }
}

const OWNER: &str = "local_id_owner";
const MINTED: &str = "minted";

impl Identifiers {
    /// Whose the local ids are, once they were claimed: their reservations are found by it.
    pub fn owner(&self) -> Option<&str> {
        self.other.get(OWNER)?.as_str()
    }

    pub fn set_owner(&mut self, owner: &str) {
        self.other.insert(OWNER.to_owned(), owner.into());
    }

    /// The key that the primary one was minted with; `None` if it came from elsewhere.
    pub fn minted(&self) -> Option<&str> {
        self.other.get(MINTED)?.as_str()
    }

    pub fn set_minted(&mut self, key: &str) {
        self.other.insert(MINTED.to_owned(), key.into());
    }

    pub fn is_empty(&self) -> bool {
        self.primary_id.is_none() && self.local_id.is_empty() && self.other.is_empty()
    }
}

/// `/jobs/JID/metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erc_what: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erc_who: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erc_when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erc_where: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Metadata {}

impl Metadata {
    pub fn is_empty(&self) -> bool {
        *self == Metadata::default()
    }
}

/// `/jobs/JID/inventory`: where the inventory finds what was stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Inventory {
    pub manifest_url: String,
    pub mode: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Inventory {}

/// `/jobs/JID/store`: what the storage service of the `mrt-zk` dialect works from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    pub manifest_url: String,
    pub mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Store {}

/// `/jobs/JID/schedule`: made for jobs that have a date, or that did not end properly.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertion_date: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_date: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_date: Option<Date>,
    /// How often its worker did not end properly.
    pub timeout_count: u32,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Schedule {}

/// `/jobs/JID/work`: where its files are, from provisioning on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    pub node: String,
    pub file_system: String,
    pub directory: String,
    /// The attempt whose files count.
    pub attempt: u32,
    pub reserved: u64,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Work {}

/// `/jobs/JID/history`: the last transitions, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    pub entries: Vec<Entry>,
}

/// One transition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub at: Date,
    pub from: Option<JobState>,
    pub to: JobState,
    #[serde(default)]
    pub node: String,
    #[serde(default)]
    pub attempt: u32,
    /// Tells a commit from every other: how its author finds out whether it was applied.
    #[serde(default)]
    pub commit: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(flatten)]
    pub other: Other,
}

impl History {
    /// How many transitions are kept: a whole life, twice.
    pub const KEPT: usize = 24;
    /// How much of a message is kept.
    const MESSAGE: usize = 300;

    /// This history and one more transition.
    pub fn and(&self, mut entry: Entry) -> Self {
        if let Some((end, _)) = entry.message.char_indices().nth(Self::MESSAGE) {
            entry.message.truncate(end);
        }
        let kept = self.entries.len().saturating_sub(Self::KEPT - 1);
        let mut entries = Vec::with_capacity(self.entries.len() - kept + 1);
        entries.extend_from_slice(&self.entries[kept..]);
        entries.push(entry);
        Self { entries }
    }

    pub fn has_commit(&self, commit: &str) -> bool {
        self.entries.iter().any(|entry| entry.commit == commit)
    }
}

impl Node for History {
    fn read(data: &[u8]) -> Result<Self, Unreadable> {
        Ok(Self { entries: super::parse(data)? })
    }

    fn write(&self, _: Dialect) -> Bytes {
        encode(&self.entries)
    }
}
