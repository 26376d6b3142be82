//! Large values: whether they can be read, and what was left beside them.
//!
//! A value up to [`WHOLE`] is read whole, with its checksum. Of a larger one only the parts are counted:
//! a check of many batches would otherwise read gigabytes.

use bytes::Bytes;
use ingest_store::recipes::shard;
use ingest_store::{Kind, path};

use super::reader::{Found, Reader, Seen};
use crate::error::Result;
use crate::nodes::Unreadable;

/// The largest value that is read.
const WHOLE: u64 = 1 << 20;

/// A large value as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sharded {
    /// `Good(false)`: nothing was announced yet.
    pub(super) value: Seen<bool>,
    /// Ids of parts that are not announced.
    pub(super) leftovers: Vec<String>,
}

/// The line that announces a value.
#[derive(Debug, serde::Deserialize)]
struct Announced {
    id: String,
    parts: usize,
}

/// Looks at a value; `parse` says whether it is what it should be.
pub(super) async fn look(
    reader: &Reader,
    at: &str,
    parse: fn(&[u8]) -> std::result::Result<(), Unreadable>,
) -> Result<Sharded> {
    let Some((data, stat)) = reader.get(at).await? else {
        return Ok(Sharded { value: Seen::Missing, leftovers: Vec::new() });
    };
    let names = if stat.num_children == 0 {
        Vec::new()
    } else {
        reader.names(at).await?.map(|(names, _)| names).unwrap_or_default()
    };
    let announced = announced(&data);
    let beside =
        |name: &String| is_id(name) && announced.as_ref().is_none_or(|announced| announced.id != *name);
    // Whose parts they are is not known while the announcement cannot be read.
    let known = data.is_empty() || announced.is_some();
    let leftovers = names.into_iter().filter(|name| known && beside(name)).collect();
    let value = value(reader, at, data, stat.into(), announced, parse).await?;
    Ok(Sharded { value, leftovers })
}

async fn value(
    reader: &Reader,
    at: &str,
    data: Bytes,
    found: Found,
    announced: Option<Announced>,
    parse: fn(&[u8]) -> std::result::Result<(), Unreadable>,
) -> Result<Seen<bool>> {
    if data.is_empty() {
        return Ok(Seen::Good { value: false, found });
    }
    let _place = reader.place_for_large().await;
    let read = shard::read(reader.session(), at, WHOLE).await;
    let why = match (read, announced) {
        (Ok(Some((value, _))), _) => parse(&value).err().map(|Unreadable(why)| why),
        (Ok(None), _) => None,
        (Err(error), _) if error.kind() == Kind::Corrupt => Some(error.to_string()),
        (Err(error), Some(announced)) if error.kind() == Kind::TooLarge => {
            let parts = reader.names(&path::join(at, &announced.id)).await?;
            let there = parts.map_or(0, |(names, _)| names.len());
            (there != announced.parts)
                .then(|| format!("{} parts are announced, and {there} are there", announced.parts))
        }
        (Err(error), _) if error.kind() == Kind::NoNode => return Ok(Seen::Missing),
        (Err(error), _) => return Err(error.into()),
    };
    Ok(match why {
        None => Seen::Good { value: true, found },
        Some(why) => Seen::Bad { why, data, found },
    })
}

fn announced(data: &[u8]) -> Option<Announced> {
    let line = data.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

fn is_id(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
