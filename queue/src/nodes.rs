//! What is written in the nodes.
//!
//! Reading is lenient: either dialect, either case, missing fields get their defaults, and fields that
//! nobody here knows are kept and written back. Writing is strict. What cannot be read at all is
//! [`Unreadable`] and never stops a node.

mod access;
mod batch;
mod feed;
mod fields;
mod job;
mod keys;
mod marks;
mod numbers;
mod report;
mod request;
mod rows;
mod status;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use access::{AccessStatus, AccessToken};
pub use batch::{BatchStatus, Expansion, FrozenProfile, Outgoing, Submission};
pub use feed::{AssignmentNode, FeedNode, SkippedItem, WorkerNode};
pub use job::{
    Configuration, Entry, History, Identifiers, Inventory, JobStatus, Metadata, Schedule, Store, Work,
};
pub use keys::{Keyed, Keys};
pub use marks::{Hold, LocalId, NameLock, Owner, Quarantined};
pub use numbers::Numbers;
pub use report::{ReportCounts, ReportedJob, StatusReport, read_from, with_lists};
pub use request::{Request, RequestResult};
pub use rows::Rows;
pub use status::Status;

use crate::dialect::Dialect;

/// Fields that nobody here knows.
pub type Other = serde_json::Map<String, serde_json::Value>;

/// Why a node's data cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// Something that lies in a node.
pub trait Node: Sized {
    fn read(data: &[u8]) -> Result<Self, Unreadable>;
    fn write(&self, dialect: Dialect) -> Bytes;
}

/// The same json in both dialects.
pub trait Json: Serialize + DeserializeOwned {}

impl<T: Json> Node for T {
    fn read(data: &[u8]) -> Result<Self, Unreadable> {
        parse(data).or_else(|why| {
            // A field that is null is as good as one that is not there.
            let mut value: serde_json::Value = parse(data)?;
            value.as_object_mut().ok_or(why.clone())?.retain(|_, field| !field.is_null());
            serde_json::from_value(value).map_err(|_| why)
        })
    }

    fn write(&self, _: Dialect) -> Bytes {
        encode(self)
    }
}

/// A number in ASCII digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number(pub i64);

impl Node for Number {
    fn read(data: &[u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(data).ok().map(str::trim);
        let number = text.and_then(|text| text.parse().ok());
        number.map(Self).ok_or_else(|| Unreadable(format!("{} is not a whole number", shown(data))))
    }

    fn write(&self, _: Dialect) -> Bytes {
        self.0.to_string().into()
    }
}

/// The id that a node holds as plain text.
pub fn read_id<I: std::str::FromStr<Err = crate::ids::NotAnId>>(data: &[u8]) -> Result<I, Unreadable> {
    let text = std::str::from_utf8(data).map_err(|_| Unreadable(format!("{} is not text", shown(data))))?;
    text.trim().parse().map_err(|error: crate::ids::NotAnId| Unreadable(error.to_string()))
}

fn parse<T: DeserializeOwned>(data: &[u8]) -> Result<T, Unreadable> {
    if data.is_empty() {
        return Err(Unreadable("it is empty".into()));
    }
    serde_json::from_slice(data).map_err(|error| Unreadable(format!("{error}, in {}", shown(data))))
}

fn encode<T: Serialize + ?Sized>(value: &T) -> Bytes {
    match serde_json::to_vec(value) {
        Ok(data) => data.into(),
        // Only a map whose keys are no strings, or a failing `Serialize`, gets here; neither is written.
        Err(error) => unreachable!("a node's own type does not become json: {error}"),
    }
}

/// The beginning of what was found, for messages.
fn shown(data: &[u8]) -> String {
    const ENOUGH: usize = 60;
    let start = String::from_utf8_lossy(&data[..data.len().min(ENOUGH)]);
    if data.len() > ENOUGH { format!("`{start}…` ({} bytes)", data.len()) } else { format!("`{start}`") }
}
