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
//! A value that is too large for memory goes in and out as a stream: [`prepare_from`] and [`read_to`] hold a
//! few parts of it at a time. What they write and read is the same. [`read_packed`] holds it as it lies there, compressed, for readers
//! that take it piece by piece and do not wait for the tree.
//!
//! **When things break.** A writer that dies leaves parts that no node announces: [`collect`] removes
//! them once they are older than a grace time. A reader whose parts vanish under it reads the
//! announcement again. Damage is recognised by a checksum over the whole value: [`Kind::Corrupt`]. A stream
//! that was cut off or damaged has been written in part when that is found: whoever reads into a file takes it
//! for whole only after the call has said so.

mod packed;

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, FuturesUnordered, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zstd::stream::raw::{DParameter, Decoder, Operation};

pub use self::packed::Packed;
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
/// The most that a reader keeps of what it has unpacked, as a power of two: four times what [`LEVEL`] needs. A frame may ask for more,
/// and few bytes could so take much memory.
const WINDOW: u32 = 23;
/// How much of a stream is taken at a time.
const PIECE: usize = 64 << 10;

/// The first line of a node.
#[derive(Debug, Serialize, Deserialize)]
pub struct Header {
    id: String,
    parts: usize,
    /// Bytes of the value, uncompressed.
    size: u64,
}

/// A value whose parts are written. To be announced by setting its node to [`Prepared::announcement`].
#[derive(Debug, Clone)]
pub struct Prepared {
    id: String,
    announcement: Bytes,
    size: u64,
}

impl Prepared {
    /// What the node is to be set to.
    pub fn announcement(&self) -> Bytes {
        self.announcement.clone()
    }

    /// What stands in the announcement, and in no other.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The bytes of the value.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The operation that announces the value, for a multi of the caller's.
    pub fn op(&self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Op {
        Op::set(path, self.announcement(), version)
    }
}

/// Compresses a value and writes its parts below `path`, which is made, empty, if it is not there.
pub async fn prepare(session: &Session, path: &str, value: &[u8]) -> Result<Prepared> {
    prepare_from(session, path, value).await
}

/// The same for a value that comes as a stream. An input that cannot be read is [`Kind::Disk`].
pub async fn prepare_from(
    session: &Session,
    path: &str,
    mut value: impl AsyncRead + Unpin,
) -> Result<Prepared> {
    let failed = |error: std::io::Error| Error::new(Kind::Unexpected, format!("compression: {error}"));
    let id = uuid::Uuid::new_v4().simple().to_string();
    let dir = path::join(path, &id);
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), LEVEL).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    let (mut size, mut parts) = (0_u64, 0_usize);
    let mut writes = FuturesUnordered::new();
    let mut piece = vec![0; PIECE];
    let mut ended = false;
    while !ended {
        // What is there at once, because it is made here or lies in memory, keeps nobody else from this thread.
        tokio::task::yield_now().await;
        let count = value.read(&mut piece).await.map_err(|error| {
            Error::new(Kind::Disk, format!("the value cannot be read: {error}")).with_path(path)
        })?;
        ended = count == 0;
        if ended {
            encoder.do_finish().map_err(failed)?;
        } else {
            std::io::Write::write_all(&mut encoder, &piece[..count]).map_err(failed)?;
            size += count as u64;
        }
        let compressed = encoder.get_mut();
        if ended && parts == 0 && compressed.len() <= INLINE {
            let mut announcement = header(&Header { id: id.clone(), parts: 0, size })?;
            announcement.extend_from_slice(compressed);
            return Ok(Prepared { id, announcement: announcement.into(), size });
        }
        while compressed.len() >= PART || (ended && !compressed.is_empty()) {
            if parts == 0 {
                super::settle(session, || session.make_dirs(&dir)).await.answer?;
            }
            if writes.len() >= IN_FLIGHT {
                writes.try_next().await?;
            }
            let rest = compressed.split_off(compressed.len().min(PART));
            let part = Bytes::from(std::mem::replace(compressed, rest));
            writes.push(write_part(session, part_path(&dir, parts), part));
            parts += 1;
        }
    }
    writes.try_collect::<()>().await?;
    let announcement = header(&Header { id: id.clone(), parts, size })?.into();
    Ok(Prepared { id, announcement, size })
}

async fn write_part(session: &Session, at: String, part: Bytes) -> Result<()> {
    let settled =
        super::settle(session, || session.create(at.as_str(), part.clone(), Mode::Persistent)).await;
    match settled.answer {
        Err(error) if error.kind() == Kind::NodeExists && settled.repeated => Ok(()),
        answer => answer.map(|_| ()),
    }
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
    let Some((packed, stat)) = read_packed(session, path, limit).await? else { return Ok(None) };
    Ok(Some((packed.value(path)?, stat)))
}

/// A value as it lies in the tree, and the stat of its node; `None` if no value was announced yet.
pub async fn read_packed(session: &Session, path: &str, limit: u64) -> Result<Option<(Packed, Stat)>> {
    for _ in 0..RETRIES {
        let (data, stat) = super::settle(session, || session.get(path)).await.answer?;
        if data.is_empty() {
            return Ok(None);
        }
        let (header, inline) = parse(path, &data)?;
        within(path, &header, limit)?;
        let parts =
            if header.parts == 0 { Ok(vec![inline]) } else { read_parts(session, path, &header).await };
        match parts {
            Ok(parts) => return Ok(Some((Packed::new(parts, header.size), stat))),
            // Replaced meanwhile: the node announces another value by now.
            Err(error) if error.kind() == Kind::NoNode => {}
            Err(error) => return Err(error),
        }
    }
    Err(missing(path))
}

/// What the data of a node says.
#[derive(Debug)]
pub enum Unpacked {
    /// The value lies in it.
    Value(Vec<u8>),
    /// It lies in parts below the node.
    InParts(Header),
}

/// Takes the data of a node apart, whatever lies there. No value is longer than what was announced, and none is longer than `limit`.
pub fn unpack(path: &str, data: &Bytes, limit: u64) -> Result<Unpacked> {
    let (header, inline) = parse(path, data)?;
    within(path, &header, limit)?;
    if header.parts > 0 {
        return Ok(Unpacked::InParts(header));
    }
    Packed::new(vec![inline], header.size).value(path).map(Unpacked::Value)
}

/// Writes the value into `to`, of at most `limit` bytes; its size and its node's stat, or `None` if no value
/// was announced yet. What was written is whole only if this answers so: a value that was replaced while it
/// was read is [`Kind::Corrupt`] if some of it was written before.
pub async fn read_to(
    session: &Session,
    path: &str,
    limit: u64,
    mut to: impl AsyncWrite + Unpin,
) -> Result<Option<(u64, Stat)>> {
    for _ in 0..RETRIES {
        let (data, stat) = super::settle(session, || session.get(path)).await.answer?;
        if data.is_empty() {
            return Ok(None);
        }
        let (header, inline) = parse(path, &data)?;
        within(path, &header, limit)?;
        let mut unpacking = Unpacking::new(path, header.size)?;
        if header.parts == 0 {
            unpacking.feed(&inline, &mut to).await?;
        } else {
            let dir = path::join(path, &header.id);
            let mut parts =
                stream::iter(0..header.parts).map(|n| read_part(session, &dir, n)).buffered(IN_FLIGHT);
            let mut replaced = false;
            while let Some(part) = parts.next().await {
                match part {
                    Ok(part) => unpacking.feed(&part, &mut to).await?,
                    // Nothing is written yet: as if this were the first look.
                    Err(error) if error.kind() == Kind::NoNode && unpacking.written == 0 => {
                        replaced = true;
                        break;
                    }
                    Err(error) if error.kind() == Kind::NoNode => return Err(missing(path)),
                    Err(error) => return Err(error),
                }
            }
            if replaced {
                continue;
            }
        }
        let size = unpacking.finish()?;
        to.flush().await.map_err(|error| unwritable(path, &error))?;
        return Ok(Some((size, stat)));
    }
    Err(missing(path))
}

fn unwritable(path: &str, error: &std::io::Error) -> Error {
    Error::new(Kind::Disk, format!("the value cannot be written: {error}")).with_path(path)
}

fn missing(path: &str) -> Error {
    Error::new(Kind::Corrupt, "a part that the node announces is not there").with_path(path)
}

fn within(path: &str, header: &Header, limit: u64) -> Result<()> {
    if header.size <= limit {
        return Ok(());
    }
    let why = format!("the value has {} bytes, and at most {limit} are wanted", header.size);
    Err(Error::new(Kind::TooLarge, why).with_path(path))
}

/// A value on its way out, never more of it than was announced.
struct Unpacking<'a> {
    path: &'a str,
    decoder: Decoder<'static>,
    size: u64,
    written: u64,
    /// The frame has ended, with its checksum.
    whole: bool,
}

impl<'a> Unpacking<'a> {
    fn new(path: &'a str, size: u64) -> Result<Self> {
        let failed = |error: std::io::Error| Error::new(Kind::Unexpected, error.to_string());
        let mut decoder = Decoder::new().map_err(failed)?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW)).map_err(failed)?;
        Ok(Self { path, decoder, size, written: 0, whole: false })
    }

    fn damaged(&self, why: impl std::fmt::Display) -> Error {
        Error::new(Kind::Corrupt, why.to_string()).with_path(self.path)
    }

    async fn feed(&mut self, mut part: &[u8], to: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            if self.whole {
                return if part.is_empty() {
                    Ok(())
                } else {
                    Err(self.damaged("there is more after its end"))
                };
            }
            let done = self.decoder.run_on_buffers(part, &mut piece).map_err(|error| self.damaged(error))?;
            part = &part[done.bytes_read..];
            self.written += done.bytes_written as u64;
            if self.written > self.size {
                return Err(self.damaged(format!("more than the {} bytes that were announced", self.size)));
            }
            let written = &piece[..done.bytes_written];
            to.write_all(written).await.map_err(|error| unwritable(self.path, &error))?;
            self.whole = done.remaining == 0;
            // A piece that was filled may have more behind it.
            if part.is_empty() && done.bytes_written < PIECE {
                return Ok(());
            }
        }
    }

    fn finish(self) -> Result<u64> {
        if !self.whole {
            return Err(self.damaged("it ends before its end"));
        }
        if self.written != self.size {
            return Err(self.damaged(format!("{} bytes where {} were announced", self.written, self.size)));
        }
        Ok(self.written)
    }
}

/// Removes parts below `path` that its node does not announce and that are older than `grace`, which
/// must be longer than any writer takes; those of so many values at the most. Returns how many values were removed.
pub async fn collect(session: &Session, path: &str, grace: Duration, most: usize) -> Result<usize> {
    let (data, _) = session.get(path).await?;
    let announced = if data.is_empty() { None } else { Some(parse(path, &data)?.0.id) };
    let mut ids = session.children(path).await?.0;
    ids.retain(|id| announced.as_deref() != Some(id.as_str()) && is_id(id));
    if ids.is_empty() {
        return Ok(0);
    }
    let clock = super::ltime::server_clock(session).await?;
    let grace = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
    let mut removed = 0;
    for id in ids {
        if removed == most {
            break;
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
pub async fn remove_replaced(session: &Session, path: &str, prepared: &Prepared) -> Result<()> {
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

/// Removes a value with its node and everything below it: whoever had it announced has gone. What is gone
/// already is fine.
pub async fn remove_whole(session: &Session, path: &str) -> Result<()> {
    remove_parts(session, path).await?;
    remove(session, path).await
}

/// Removes what lies below a value's node, so that the node itself can go with a multi of the caller's.
pub async fn remove_parts(session: &Session, path: &str) -> Result<()> {
    let names = match super::settle(session, || session.children(path)).await.answer {
        Ok((names, _)) => names,
        Err(error) if error.kind() == Kind::NoNode => return Ok(()),
        Err(error) => return Err(error),
    };
    for id in names {
        remove(session, &path::join(path, &id)).await?;
    }
    Ok(())
}

async fn remove(session: &Session, dir: &str) -> Result<()> {
    let gone_is_fine = |answer: Result<()>| match answer {
        Err(error) if error.kind() == Kind::NoNode => Ok(()),
        answer => answer,
    };
    let names = match super::settle(session, || session.children(dir)).await.answer {
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

async fn read_parts(session: &Session, path: &str, header: &Header) -> Result<Vec<Bytes>> {
    let dir = path::join(path, &header.id);
    let reads = (0..header.parts).map(|n| read_part(session, &dir, n));
    stream::iter(reads).buffered(IN_FLIGHT).try_collect().await
}

async fn read_part(session: &Session, dir: &str, n: usize) -> Result<Bytes> {
    let at = part_path(dir, n);
    super::settle(session, || session.get(at.as_str())).await.answer.map(|(part, _)| part)
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
