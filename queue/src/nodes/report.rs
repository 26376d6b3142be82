//! What a report says.

use std::io::{self, BufReader, Read};
use std::iter::once;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Json, Node, Other, Rows, Unreadable, encode, shown};
use crate::date::Date;
use crate::dialect::Dialect;
use crate::ids::Jid;

/// `/batches/BID/status-report`: the last report that was sent.
///
/// It names every job of its batch, however many: it is read from a stream and written as one, and in memory it is packed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct StatusReport {
    /// Reports of a batch are counted from 1.
    #[serde(deserialize_with = "or_zero")]
    pub number: u32,
    pub last_modified: Option<Date>,
    pub failed_jobs: Rows,
    pub successful_jobs: Rows,
    /// Jobs that were deleted before they ended.
    pub deleted_jobs: Rows,
    #[serde(flatten)]
    pub other: Other,
}

impl StatusReport {
    /// Its json, piece by piece. The pieces share what they are made from.
    pub fn pieces(&self) -> impl Iterator<Item = io::Result<Bytes>> + use<> {
        let Self { number, last_modified, failed_jobs, successful_jobs, deleted_jobs, other } = self;
        let head = Head { number: *number, last_modified: *last_modified, other };
        let lists = [
            ("failed_jobs", failed_jobs),
            ("successful_jobs", successful_jobs),
            ("deleted_jobs", deleted_jobs),
        ];
        with_lists(&encode(&head), lists.map(|(name, rows)| (name, rows.pieces(|job| job))))
    }

    /// How many jobs it names.
    pub fn counts(&self) -> ReportCounts {
        ReportCounts {
            number: self.number,
            last_modified: self.last_modified,
            completed: self.successful_jobs.len(),
            failed: self.failed_jobs.len(),
            deleted: self.deleted_jobs.len(),
        }
    }
}

impl Node for StatusReport {
    fn read(data: &[u8]) -> Result<Self, Unreadable> {
        read_from(data).map_err(|Unreadable(why)| Unreadable(format!("{why}, in {}", shown(data))))
    }

    fn write(&self, _: Dialect) -> Bytes {
        match self.pieces().collect::<io::Result<Vec<_>>>() {
            Ok(pieces) => pieces.concat().into(),
            // What was packed here is unpacked here, in the same memory.
            Err(error) => unreachable!("the rows of a report cannot be unpacked: {error}"),
        }
    }
}

/// A report, or what is wanted of it, from json that comes piece by piece.
pub fn read_from<T: DeserializeOwned>(json: impl Read) -> Result<T, Unreadable> {
    serde_json::from_reader(BufReader::new(json)).map_err(|error| Unreadable(error.to_string()))
}

/// A report but for its jobs.
#[derive(Serialize)]
struct Head<'a> {
    number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_modified: Option<Date>,
    #[serde(flatten)]
    other: &'a Other,
}

/// A json object with arrays that are made piece by piece behind its other fields, of which there is one at least.
pub fn with_lists<I>(
    object: &[u8],
    lists: [(&'static str, I); 3],
) -> impl Iterator<Item = io::Result<Bytes>> + use<I>
where
    I: Iterator<Item = io::Result<Bytes>>,
{
    let head = Bytes::copy_from_slice(object.strip_suffix(b"}").unwrap_or(object));
    let lists = lists.map(|(name, pieces)| {
        once(Ok(format!(",\"{name}\":[").into())).chain(pieces).chain(once(Ok("]".into())))
    });
    once(Ok(head)).chain(lists.into_iter().flatten()).chain(once(Ok("}".into())))
}

/// A field that is null is as good as one that is not there.
fn or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// How much a report names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportCounts {
    pub number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<Date>,
    pub completed: usize,
    pub failed: usize,
    pub deleted: usize,
}

/// A job in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedJob {
    pub jid: Jid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local_id: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub payload_url: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub payload_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erc_who: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erc_what: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erc_when: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for ReportedJob {}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> StatusReport {
        StatusReport::read(
            br#"{"number":null,"last_modified":"2026-11-18T03:00:00.000Z","why":"no row","deleted_jobs":null,
                "successful_jobs":[{"jid":"jid0000000002","mark":7}],"failed_jobs":[{"jid":"jid0000000001","message":"gone"}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn what_is_written_is_read_again_with_all_that_nobody_knows() {
        let written = report().write(Dialect::Design);
        assert_eq!(StatusReport::read(&written).unwrap(), report());
        let json: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(json["why"], "no row");
        assert_eq!(json["successful_jobs"][0]["mark"], 7);
        assert_eq!(json["deleted_jobs"], serde_json::json!([]));
    }

    #[test]
    fn its_counts_are_those_of_its_lists() {
        let ReportCounts { number, completed, failed, deleted, last_modified } = report().counts();
        assert_eq!((number, completed, failed, deleted), (0, 1, 1, 0));
        assert_eq!(last_modified, report().last_modified);
    }

    #[test]
    fn one_that_is_cut_off_or_goes_on_is_not_read() {
        let written = report().write(Dialect::Design);
        assert!(StatusReport::read(&written[..written.len() - 1]).is_err());
        assert!(StatusReport::read(&[&written[..], b"{}"].concat()).is_err());
        assert!(StatusReport::read(b"").is_err());
    }
}
