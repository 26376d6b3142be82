//! Archives made byte by byte, so that they can be wrong in one thing, and what became of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ingest_steps::archive::{Limits, Unpacked, unpack};
use ingest_steps::outcome::{Cancel, Failure, Progress};

/// A directory with an archive and the place where it goes.
pub(crate) struct Desk {
    dir: tempfile::TempDir,
    pub(crate) archive: PathBuf,
    pub(crate) into: PathBuf,
}

impl Desk {
    pub(crate) fn with(name: &str, content: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join(name);
        fs::write(&archive, content).unwrap();
        let into = dir.path().join("out");
        Self { dir, archive, into }
    }

    pub(crate) fn unpack(&self, limits: &Limits) -> Result<Unpacked, Failure> {
        unpack(&self.archive, &self.into, limits, &Progress::default(), &Cancel::new())
    }

    /// All that is there but the archive.
    pub(crate) fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<_> = names
            .filter(|path| *path != self.archive)
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Unpacks it with the usual limits; gives paths and contents in order.
pub(crate) fn unpacked(name: &str, content: &[u8]) -> Vec<(String, Vec<u8>)> {
    let desk = Desk::with(name, content);
    let unpacked = desk.unpack(&Limits::default()).unwrap();
    assert_eq!(desk.left(), ["out"]);
    let files = unpacked.files.into_iter().map(|file| {
        let content = fs::read(desk.into.join(&file.path)).unwrap();
        assert_eq!(content.len() as u64, file.size);
        (file.path, content)
    });
    files.collect()
}

/// Why it is refused; nothing may be left of it.
pub(crate) fn refusal_within(limits: &Limits, name: &str, content: &[u8]) -> String {
    let desk = Desk::with(name, content);
    let failure = desk.unpack(limits).unwrap_err();
    assert_eq!(desk.left(), [""; 0], "{failure}");
    let Failure::Hopeless(why) = failure else { panic!("{failure:?}") };
    assert!(why.starts_with(name), "{why}");
    why
}

pub(crate) fn refusal(name: &str, content: &[u8]) -> String {
    refusal_within(&Limits::default(), name, content)
}

/// All files and directories (with a slash) below a directory.
pub(crate) fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(above) = waiting.pop() {
        for entry in fs::read_dir(&above).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(name + "/", Vec::new());
                waiting.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// A record of a tar: header, content, padding.
pub(crate) fn record(name: &[u8], kind: u8, content: &[u8]) -> Vec<u8> {
    record_of_size(name, kind, content.len() as u64, content)
}

pub(crate) fn record_of_size(name: &[u8], kind: u8, size: u64, content: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name);
    header[100..108].copy_from_slice(b"0006777\0");
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[157..160].copy_from_slice(b"abc");
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header.extend_from_slice(content);
    header.resize(header.len().next_multiple_of(512), 0);
    header
}

/// Records and the end mark.
pub(crate) fn tar(records: &[Vec<u8>]) -> Vec<u8> {
    let mut all = records.concat();
    all.resize(all.len() + 1024, 0);
    all
}

pub(crate) fn gz(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn bz2(content: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn deflated(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A member of a zip; each field can be made wrong.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) local_name: Option<Vec<u8>>,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) crc: u32,
    pub(crate) packed: Vec<u8>,
    /// What is announced, beside what is there.
    pub(crate) packed_size: u64,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) extra: Vec<u8>,
    pub(crate) at: Option<u32>,
}

pub(crate) fn entry(name: &str, content: &[u8]) -> Entry {
    Entry {
        name: name.into(),
        local_name: None,
        flags: 0,
        method: 0,
        crc: crc32fast::hash(content),
        packed: content.to_vec(),
        packed_size: content.len() as u64,
        size: content.len() as u64,
        mode: 0,
        extra: Vec::new(),
        at: None,
    }
}

pub(crate) fn deflated_entry(name: &str, content: &[u8]) -> Entry {
    let packed = deflated(content);
    Entry { method: 8, packed_size: packed.len() as u64, packed, ..entry(name, content) }
}

fn put(out: &mut Vec<u8>, numbers: &[(u64, usize)]) {
    for (number, width) in numbers {
        out.extend_from_slice(&number.to_le_bytes()[..*width]);
    }
}

pub(crate) fn zip(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut places = Vec::new();
    for entry in entries {
        places.push(entry.at.map_or(out.len() as u64, u64::from));
        let name = entry.local_name.as_ref().unwrap_or(&entry.name);
        out.extend_from_slice(b"PK\x03\x04");
        put(&mut out, &[(45, 2), (entry.flags.into(), 2), (entry.method.into(), 2), (0, 4)]);
        put(&mut out, &[(entry.crc.into(), 4), (entry.packed_size, 4), (entry.size, 4)]);
        put(&mut out, &[(name.len() as u64, 2), (entry.extra.len() as u64, 2)]);
        out.extend_from_slice(name);
        out.extend_from_slice(&entry.extra);
        out.extend_from_slice(&entry.packed);
    }
    let directory = out.len() as u64;
    for (entry, place) in entries.iter().zip(places) {
        out.extend_from_slice(b"PK\x01\x02");
        put(&mut out, &[(0x032d, 2), (45, 2), (entry.flags.into(), 2), (entry.method.into(), 2), (0, 4)]);
        put(&mut out, &[(entry.crc.into(), 4), (entry.packed_size, 4), (entry.size, 4)]);
        put(&mut out, &[(entry.name.len() as u64, 2), (entry.extra.len() as u64, 2), (0, 2), (0, 2), (0, 2)]);
        put(&mut out, &[(u64::from(entry.mode) << 16, 4), (place, 4)]);
        out.extend_from_slice(&entry.name);
        out.extend_from_slice(&entry.extra);
    }
    let size = out.len() as u64 - directory;
    let count = entries.len() as u64;
    out.extend_from_slice(b"PK\x05\x06");
    put(&mut out, &[(0, 2), (0, 2), (count, 2), (count, 2), (size, 4), (directory, 4), (0, 2)]);
    out
}
