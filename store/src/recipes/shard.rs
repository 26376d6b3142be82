//! Values that may be larger than one node.
//!
//! A value is compressed. If it is small it lies in its node; if not, it is cut into parts below that
//! node, and the node says which parts. The parts are written first, under an id of their own, and
//! the node that announces them is set last, at its version: a reader sees the old value or the new
//! one, whole, never half of one. The parts of the old one go afterwards.
//!
//! The node begins with a line of json for people and for readers, `{"id":…,"parts":…,"size":…}`; a
//! small value follows it.
//!
//! **When things break.** A writer that dies leaves parts that no node announces: [`collect`] removes
//! them once they are older than a grace time. A reader whose parts vanish under it reads the
//! announcement again. Damage is recognised by a checksum over the whole value: [`Kind::Corrupt`].

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::node::{Mode, Op, Stat};
use crate::path;
use crate::session::Session;

/// A compressed value up to this size lies in the node itself.
const INLINE: usize = 128 << 10;
/// The size of a part. Half of what fits: a multi with other operations stays possible.
const PART: usize = 512 << 10;
/// How many parts are on their way at a time.
const IN_FLIGHT: usize = 4;
/// How often a reader starts over because the value was replaced under it.
const RETRIES: usize = 20;
const LEVEL: i32 = 3;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    id: String,
    parts: usize,
    /// Bytes of the value, uncompressed.
    size: u64,
}

/// A value whose parts are written. To be announced by setting its node to [`Prepared::announcement`].
#[derive(Debug, Clone)]
pub struct Prepared {
    announcement: Bytes,
}

impl Prepared {
    /// What the node is to be set to.
    pub fn announcement(&self) -> Bytes {
        self.announcement.clone()
    }

    /// The operation that announces the value, for a multi of the caller's.
    pub fn op(&self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Op {
        Op::set(path, self.announcement(), version)
    }
}

/// Compresses a value and writes its parts below `path`, which is made, empty, if it is not there.
pub async fn prepare(session: &Session, path: &str, value: &[u8]) -> Result<Prepared> {
    let compressed = Bytes::from(compress(value)?);
    let id = uuid::Uuid::new_v4().simple().to_string();
    let size = value.len() as u64;
    if compressed.len() <= INLINE {
        let mut announcement = header(&Header { id, parts: 0, size })?;
        announcement.extend_from_slice(&compressed);
        return Ok(Prepared { announcement: announcement.into() });
    }
    let dir = path::join(path, &id);
    session.make_dirs(&dir).await?;
    let parts = compressed.len().div_ceil(PART);
    let dir = dir.as_str();
    let writes = (0..parts).map(|n| {
        let part = compressed.slice(n * PART..compressed.len().min((n + 1) * PART));
        async move {
            let at = part_path(dir, n);
            let settled =
                super::settle(session, || session.create(at.as_str(), part.clone(), Mode::Persistent)).await;
            match settled.answer {
                Err(error) if error.kind() == Kind::NodeExists && settled.repeated => Ok(()),
                answer => answer.map(|_| ()),
            }
        }
    });
    stream::iter(writes).buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
    Ok(Prepared { announcement: header(&Header { id, parts, size })?.into() })
}

/// Writes a value at a version of its node (`None`: any, made if it is not there), and removes the
/// parts of the value that it replaces.
pub async fn write(
    session: &Session,
    path: &str,
    value: &[u8],
    version: impl Into<Option<i32>>,
) -> Result<Stat> {
    let prepared = prepare(session, path, value).await?;
    let stat = announce(session, path, &prepared, version.into()).await?;
    remove_replaced(session, path, &prepared).await?;
    Ok(stat)
}

async fn announce(session: &Session, path: &str, prepared: &Prepared, version: Option<i32>) -> Result<Stat> {
    let data = prepared.announcement();
    let settled = super::settle(session, || session.set(path, data.clone(), version)).await;
    match settled.answer {
        Err(error) if error.kind() == Kind::NoNode && version.is_none() => {
            session.make_dirs(path).await?;
            super::settle(session, || session.set(path, data.clone(), None)).await.answer
        }
        // The lost try may have been the one that moved the version: the id in the node tells.
        Err(error) if error.kind() == Kind::BadVersion && settled.repeated => {
            let (now, stat) = session.get(path).await?;
            if now == data { Ok(stat) } else { Err(error) }
        }
        answer => answer,
    }
}

/// The value and its node's stat; `None` if no value was announced yet.
pub async fn read(session: &Session, path: &str, limit: u64) -> Result<Option<(Vec<u8>, Stat)>> {
    for _ in 0..RETRIES {
        let (data, stat) = super::settle(session, || session.get(path)).await.answer?;
        if data.is_empty() {
            return Ok(None);
        }
        let (header, inline) = parse(path, &data)?;
        if header.size > limit {
            let why = format!("the value has {} bytes, and at most {limit} are wanted", header.size);
            return Err(Error::new(Kind::TooLarge, why).with_path(path));
        }
        let compressed = if header.parts == 0 {
            inline
        } else {
            match read_parts(session, path, &header).await {
                Ok(compressed) => compressed,
                // Replaced meanwhile: the node announces another value by now.
                Err(error) if error.kind() == Kind::NoNode => continue,
                Err(error) => return Err(error),
            }
        };
        return Ok(Some((decompress(path, &compressed, header.size)?, stat)));
    }
    let why = "a part that the node announces is not there";
    Err(Error::new(Kind::Corrupt, why).with_path(path))
}

/// Removes parts below `path` that its node does not announce and that are older than `grace`, which
/// must be longer than any writer takes. Returns how many values were removed.
pub async fn collect(session: &Session, path: &str, grace: Duration) -> Result<usize> {
    let (data, _) = session.get(path).await?;
    let announced = if data.is_empty() { None } else { Some(parse(path, &data)?.0.id) };
    let clock = super::ltime::server_clock(session).await?;
    let grace = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
    let mut removed = 0;
    for id in session.children(path).await?.0 {
        if announced.as_deref() == Some(id.as_str()) || !is_id(&id) {
            continue;
        }
        let dir = path::join(path, &id);
        match session.exists(dir.as_str()).await? {
            Some(stat) if clock.saturating_sub(stat.ctime) >= grace => {
                remove(session, &dir).await?;
                removed += 1;
            }
            _ => {}
        }
    }
    Ok(removed)
}

/// Removes the parts of other values: the announcement of this one was their end.
async fn remove_replaced(session: &Session, path: &str, prepared: &Prepared) -> Result<()> {
    let (now, stat) = session.get(path).await?;
    // Another writer was faster: what is there is its business.
    if now != prepared.announcement {
        return Ok(());
    }
    let current = parse(path, &now)?.0.id;
    for id in session.children(path).await?.0 {
        let dir = path::join(path, &id);
        if id == current || !is_id(&id) {
            continue;
        }
        // Made after our announcement: a writer is at it.
        match session.exists(dir.as_str()).await? {
            Some(made) if made.czxid < stat.mzxid => remove(session, &dir).await?,
            _ => {}
        }
    }
    Ok(())
}

async fn remove(session: &Session, dir: &str) -> Result<()> {
    let gone_is_fine = |answer: Result<()>| match answer {
        Err(error) if error.kind() == Kind::NoNode => Ok(()),
        answer => answer,
    };
    let names = match session.children(dir).await {
        Ok((names, _)) => names,
        Err(error) if error.kind() == Kind::NoNode => return Ok(()),
        Err(error) => return Err(error),
    };
    for name in names {
        let part = path::join(dir, &name);
        gone_is_fine(super::settle(session, || session.delete(part.as_str(), None)).await.answer)?;
    }
    gone_is_fine(super::settle(session, || session.delete(dir, None)).await.answer)
}

async fn read_parts(session: &Session, path: &str, header: &Header) -> Result<Bytes> {
    let dir = path::join(path, &header.id);
    let dir = dir.as_str();
    let reads = (0..header.parts).map(|n| async move {
        let at = part_path(dir, n);
        super::settle(session, || session.get(at.as_str())).await.answer.map(|(part, _)| part)
    });
    let parts = stream::iter(reads).buffered(IN_FLIGHT).try_collect::<Vec<_>>().await?;
    Ok(parts.concat().into())
}

fn part_path(dir: &str, n: usize) -> String {
    path::join(dir, &format!("{n:06}"))
}

/// Only what this recipe has named is ever removed.
fn is_id(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit())
}

fn header(header: &Header) -> Result<Vec<u8>> {
    let mut line =
        serde_json::to_vec(header).map_err(|error| Error::new(Kind::Unexpected, error.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

fn parse(path: &str, data: &Bytes) -> Result<(Header, Bytes)> {
    let damaged =
        |why: &str| Error::new(Kind::Corrupt, format!("not a sharded value: {why}")).with_path(path);
    let end = data.iter().position(|b| *b == b'\n').ok_or_else(|| damaged("no first line"))?;
    let header = serde_json::from_slice(&data[..end]).map_err(|error| damaged(&error.to_string()))?;
    Ok((header, data.slice(end + 1..)))
}

fn compress(value: &[u8]) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::new(Kind::Unexpected, format!("compression: {error}"));
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    std::io::Write::write_all(&mut encoder, value).map_err(failed)?;
    encoder.finish().map_err(failed)
}

fn decompress(path: &str, compressed: &[u8], size: u64) -> Result<Vec<u8>> {
    let damaged = |why: String| Error::new(Kind::Corrupt, why).with_path(path);
    let decoder = zstd::Decoder::new(compressed).map_err(|error| damaged(error.to_string()))?;
    let mut value = Vec::new();
    // Never more than was announced, whatever the frame says.
    decoder.take(size + 1).read_to_end(&mut value).map_err(|error| damaged(error.to_string()))?;
    if value.len() as u64 == size {
        return Ok(value);
    }
    Err(damaged(format!("{} bytes where {size} were announced", value.len())))
}
