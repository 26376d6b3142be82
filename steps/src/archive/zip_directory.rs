//! The directory at the end of a zip, and what stands before each member: read and compared.
//!
//! It is read here and not by the `zip` crate, because the crate keeps members by name: of two with one
//! name it shows the last, and it never tells that a member's own header says something else. Whoever
//! reads such a zip in another way gets other files, so it is refused.
//!
//! A member is at one place only, and no two share bytes: many members over the same bytes are the way to
//! make much of little.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use super::names::{self, Name};
use super::staging::unreadable;
use super::{Limits, damaged, refused};
use crate::outcome::{Cancel, Failure, Result};

const END: [u8; 4] = *b"PK\x05\x06";
const END64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR64: [u8; 4] = *b"PK\x06\x07";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";

const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// Sizes and checksum come after the content.
const TOLD_LATER: u16 = 1 << 3;

/// How a member is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflate,
    Bzip2,
}

/// One member, as the directory tells it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Name,
    pub(super) method: Method,
    pub(super) crc: u32,
    pub(super) packed: u64,
    pub(super) size: u64,
    /// Where its content begins.
    pub(super) start: u64,
}

/// Where the directory is.
struct Place {
    members: u64,
    start: u64,
    end: u64,
}

/// Little-endian fields of a record, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Reads and checks all of it. The archive's own directory (`./`) is left out.
pub(super) fn read(file: &mut File, limits: &Limits, cancel: &Cancel) -> Result<Vec<Member>> {
    let place = find(file)?;
    if place.members > limits.members {
        return Err(names::too_many(limits));
    }
    let mut headers = Vec::new();
    let mut held = 0;
    let mut reader = BufReader::new(&mut *file);
    reader.seek(SeekFrom::Start(place.start)).map_err(|error| unreadable(&error))?;
    let mut reader = reader.take(place.end - place.start);
    for _ in 0..place.members {
        stop_if(cancel)?;
        let header = central(&mut reader)?;
        // Names come up to 64 KiB long. They are looked at before a million of them is held.
        header.name(limits)?;
        held += header.raw_name.len() + header.unicode_name.as_ref().map_or(0, Vec::len);
        if held > names::ALL_NAMES {
            return Err(names::too_long());
        }
        headers.push(header);
    }
    if reader.limit() != 0 {
        return Err(damaged("its directory is longer than its members"));
    }
    let mut members = Vec::new();
    let mut spans = Vec::new();
    for header in headers {
        stop_if(cancel)?;
        let (member, span) = header.check(file, limits, place.start)?;
        spans.push((span, String::from_utf8_lossy(&header.raw_name).into_owned()));
        members.extend(member);
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        if pair[1].0.0 < pair[0].0.1 {
            return Err(refused(&pair[1].1, format!("it shares bytes with {:?}", pair[0].1)));
        }
    }
    Ok(members)
}

fn stop_if(cancel: &Cancel) -> Result<()> {
    if cancel.is_cancelled() { Err(Failure::Cancelled) } else { Ok(()) }
}

fn read_at(file: &mut File, at: u64, length: usize) -> Result<Vec<u8>> {
    let whole = file.metadata().map_err(|error| unreadable(&error))?.len();
    if at.checked_add(length as u64).is_none_or(|end| end > whole) {
        return Err(damaged("it points behind its own end"));
    }
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(at))
        .and_then(|_| file.read_exact(&mut bytes))
        .map_err(|error| unreadable(&error))?;
    Ok(bytes)
}

/// Finds the directory by the record at the very end.
fn find(file: &mut File) -> Result<Place> {
    const RECORD: usize = 22;
    let length = file.metadata().map_err(|error| unreadable(&error))?.len();
    let tail_start = length.saturating_sub(RECORD as u64 + u64::from(u16::MAX));
    // At most 64 KiB.
    let tail = read_at(file, tail_start, usize::try_from(length - tail_start).unwrap_or_default())?;
    let is_end = |at: &usize| {
        let comment = [tail[at + 20], tail[at + 21]];
        tail[*at..].starts_with(&END) && at + RECORD + usize::from(u16::from_le_bytes(comment)) == tail.len()
    };
    let last = (tail.len() + 1).saturating_sub(RECORD);
    let at = (0..last).rev().find(is_end).ok_or_else(|| damaged("it has no directory at its end"))?;
    let mut end = tail_start + at as u64;
    let mut place =
        end_record(&tail[at + 4..at + RECORD]).ok_or_else(|| damaged("its end record is wrong"))?;
    // A longer record stands before the short one where the numbers are too great for it.
    if let Some(locator_at) = end.checked_sub(20) {
        let locator = read_at(file, locator_at, 20)?;
        if locator.starts_with(&LOCATOR64) {
            let mut fields = Fields(&locator[8..]);
            end = fields.u64().unwrap_or(u64::MAX);
            let record = read_at(file, end, 56)?;
            place = end_record_64(&record).ok_or_else(|| damaged("its zip64 end record is wrong"))?;
        }
    }
    if place.end != end {
        return Err(damaged(
            "its directory does not stand right before its end, or bytes are before its start",
        ));
    }
    Ok(place)
}

fn end_record(record: &[u8]) -> Option<Place> {
    let mut fields = Fields(record);
    let disks = (fields.u16()?, fields.u16()?);
    let (here, members) = (fields.u16()?, fields.u16()?);
    let (size, start) = (fields.u32()?, fields.u32()?);
    // With a longer record these are all ones, which only there matters.
    let many = here == u16::MAX || size == u32::MAX || start == u32::MAX;
    if !many && (disks != (0, 0) || here != members) {
        return None;
    }
    Some(Place { members: members.into(), start: start.into(), end: u64::from(start) + u64::from(size) })
}

fn end_record_64(record: &[u8]) -> Option<Place> {
    let mut fields = Fields(record.strip_prefix(&END64)?);
    let (_length, _versions) = (fields.u64()?, fields.u32()?);
    let disks = (fields.u32()?, fields.u32()?);
    let (here, members) = (fields.u64()?, fields.u64()?);
    let (size, start) = (fields.u64()?, fields.u64()?);
    let end = start.checked_add(size)?;
    (disks == (0, 0) && here == members).then_some(Place { members, start, end })
}

/// A header of the directory.
struct Central {
    raw_name: Vec<u8>,
    unicode_name: Option<Vec<u8>>,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    mode: u32,
    at: u64,
}

fn central(reader: &mut impl Read) -> Result<Central> {
    let mut fixed = [0; 46];
    reader.read_exact(&mut fixed).map_err(|_| damaged("its directory is cut"))?;
    let (header, lengths) = central_fields(&fixed).ok_or_else(|| damaged("its directory cannot be read"))?;
    let mut variable = vec![0; lengths.iter().sum()];
    reader.read_exact(&mut variable).map_err(|_| damaged("its directory is cut"))?;
    let (name, rest) = variable.split_at(lengths[0]);
    let mut header = Central { raw_name: name.to_vec(), ..header };
    header.unicode_name = unicode_name(&rest[..lengths[1]], name);
    header
        .widen(&rest[..lengths[1]])
        .ok_or_else(|| refused(&String::from_utf8_lossy(name), "its zip64 field is wrong"))?;
    Ok(header)
}

fn central_fields(fixed: &[u8]) -> Option<(Central, [usize; 3])> {
    let mut fields = Fields(fixed.strip_prefix(&ENTRY)?);
    let _versions = fields.u32()?;
    let (flags, method) = (fields.u16()?, fields.u16()?);
    let _time = fields.u32()?;
    let crc = fields.u32()?;
    let (packed, size) = (fields.u32()?, fields.u32()?);
    let lengths = [fields.u16()?.into(), fields.u16()?.into(), fields.u16()?.into()];
    let (disk, _internal) = (fields.u16()?, fields.u16()?);
    let (external, at) = (fields.u32()?, fields.u32()?);
    let header = Central {
        raw_name: Vec::new(),
        unicode_name: None,
        flags,
        method,
        crc,
        packed: packed.into(),
        size: size.into(),
        mode: external >> 16,
        at: at.into(),
    };
    (disk == 0 || disk == u16::MAX).then_some((header, lengths))
}

/// The content of an extra field.
fn extra(mut fields: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let mut header = Fields(fields);
        let (id, length) = (header.u16()?, header.u16()?);
        let (content, rest) = header.0.split_at_checked(length.into())?;
        if id == wanted {
            return Some(content);
        }
        fields = rest;
    }
}

/// A name in UTF-8 beside one in another encoding, if it belongs to that one.
fn unicode_name(fields: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut fields = Fields(extra(fields, 0x7075)?);
    let [_version] = fields.take::<1>()?;
    (fields.u32()? == crc32fast::hash(name)).then(|| fields.0.to_vec())
}

impl Central {
    /// Takes the numbers that did not fit from their extra field.
    fn widen(&mut self, fields: &[u8]) -> Option<()> {
        let full = u64::from(u32::MAX);
        let mut wide = Fields(extra(fields, 1).unwrap_or_default());
        for number in [&mut self.size, &mut self.packed, &mut self.at] {
            if *number == full {
                *number = wide.u64()?;
            }
        }
        Some(())
    }

    /// What can be known of a member without reading it, and the bytes that it takes in the archive.
    fn check(&self, file: &mut File, limits: &Limits, end: u64) -> Result<(Option<Member>, (u64, u64))> {
        let shown = String::from_utf8_lossy(&self.raw_name).into_owned();
        let name = self.name(limits)?;
        let refuse = |why: &str| Err(refused(&shown, why));
        if self.flags & ENCRYPTED != 0 || self.method == 99 {
            return refuse("it is encrypted; send it without a password");
        }
        let method = match self.method {
            0 => Method::Stored,
            8 => Method::Deflate,
            12 => Method::Bzip2,
            other => return refuse(&format!("compression {other} is not known; use deflate")),
        };
        if let Some(why) = cannot_be_kept(self.mode, name.as_ref().is_none_or(|name| name.directory)) {
            return refuse(why);
        }
        if name.as_ref().is_none_or(|name| name.directory) && self.size != 0 {
            return refuse("it is a directory and has content");
        }
        if self.size > limits.member {
            return refuse(&format!(
                "it has {} bytes, and {} are allowed in one file",
                self.size, limits.member
            ));
        }
        let start = self.check_local(file, &shown)?;
        let stop = start.checked_add(self.packed).filter(|stop| *stop <= end);
        let Some(stop) = stop else {
            return refuse("it does not fit before the directory: the archive is cut");
        };
        let member =
            |name| Member { name, method, crc: self.crc, packed: self.packed, size: self.size, start };
        Ok((name.map(member), (self.at, stop)))
    }

    fn name(&self, limits: &Limits) -> Result<Option<Name>> {
        match &self.unicode_name {
            None => names::read(&self.raw_name, limits),
            Some(unicode) if std::str::from_utf8(&self.raw_name).is_ok() && *unicode != self.raw_name => {
                let shown = String::from_utf8_lossy(&self.raw_name);
                Err(refused(&shown, format!("it is also named {:?}", String::from_utf8_lossy(unicode))))
            }
            Some(unicode) => names::read(unicode, limits),
        }
    }

    /// Compares the header before the content; says where the content begins.
    fn check_local(&self, file: &mut File, shown: &str) -> Result<u64> {
        let wrong = |why: &str| refused(shown, format!("its own header and the directory {why}"));
        let fixed = read_at(file, self.at, 30)?;
        let local =
            local_fields(&fixed).ok_or_else(|| wrong("do not meet: there is none where it should be"))?;
        let (mut header, [name, extra]) = local;
        let variable = read_at(file, self.at + 30, name + extra)?;
        header.widen(&variable[name..]).ok_or_else(|| wrong("differ in size"))?;
        if variable[..name] != self.raw_name {
            let other = String::from_utf8_lossy(&variable[..name]).into_owned();
            return Err(wrong(&format!("differ in the name: there it is {other:?}")));
        }
        if header.method != self.method || (header.flags ^ self.flags) & ENCRYPTED != 0 {
            return Err(wrong("differ in the compression or encryption"));
        }
        let same = (header.crc, header.packed, header.size) == (self.crc, self.packed, self.size);
        if header.flags & TOLD_LATER == 0 && !same {
            return Err(wrong("differ in size or checksum"));
        }
        Ok(self.at + 30 + (name + extra) as u64)
    }
}

fn local_fields(fixed: &[u8]) -> Option<(Central, [usize; 2])> {
    let mut fields = Fields(fixed.strip_prefix(&LOCAL)?);
    let _version = fields.u16()?;
    let (flags, method) = (fields.u16()?, fields.u16()?);
    let _time = fields.u32()?;
    let crc = fields.u32()?;
    let (packed, size) = (fields.u32()?, fields.u32()?);
    let lengths = [fields.u16()?.into(), fields.u16()?.into()];
    let header = Central {
        raw_name: Vec::new(),
        unicode_name: None,
        flags,
        method,
        crc,
        packed: packed.into(),
        size: size.into(),
        mode: 0,
        at: 0,
    };
    Some((header, lengths))
}

/// Why a mode of Unix is refused.
fn cannot_be_kept(mode: u32, directory: bool) -> Option<&'static str> {
    match mode & 0o170_000 {
        0o120_000 => Some("it is a symbolic link; links are not unpacked, pack the files themselves"),
        0o020_000 | 0o060_000 => Some("it is a device"),
        0o010_000 => Some("it is a fifo"),
        0o140_000 => Some("it is a socket"),
        0o040_000 if !directory => Some("it is a directory and named like a file"),
        0o100_000 if directory => Some("it is a file and named like a directory"),
        _ => None,
    }
}
