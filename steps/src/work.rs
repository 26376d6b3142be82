//! The working directory: where the files of jobs are until they are stored.
//!
//! ```text
//! DIR/.ingest-file-system          which file system this is: the same text for all nodes that share it
//! DIR/BID/JID/ATTEMPT/producer/    what the depositor sent
//! DIR/BID/JID/ATTEMPT/system/      what was made of it
//! DIR/BID/JID/ATTEMPT/files.jsonl  what is whole and verified, a line a file
//! DIR/BID/JID/ATTEMPT/node         who made this attempt
//! ```
//!
//! Every attempt writes into its own directory and into no other; `/jobs/JID/work` names the attempt whose
//! files count. What an earlier attempt has verified is linked, not fetched again.
//!
//! **When things break.** A directory is worth what its `files.jsonl` says: a file without a line there is not
//! verified. A line that was cut off by a crash is ignored, and so is everything behind it. A full disk is
//! [`Failure::Later`].

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ingest_queue::ids::{Bid, Jid};
use serde::{Deserialize, Serialize};

use crate::archive::disk as broken;
use crate::digest::Digest;
use crate::outcome::{Failure, Result};

const FILE_SYSTEM: &str = ".ingest-file-system";
const RECORDS: &str = "files.jsonl";
const NODE: &str = "node";

/// The working directory of a node, on a file system that has a name.
#[derive(Debug, Clone)]
pub struct WorkDir {
    root: PathBuf,
    file_system: String,
    node: String,
}

impl WorkDir {
    /// Opens the directory, and makes it if it is not there. Its file system gets a name the first time. Blocks.
    pub fn open(root: &Path, node: &str) -> Result<Self> {
        fs::create_dir_all(root).map_err(|error| broken(root, &error))?;
        let root = fs::canonicalize(root).map_err(|error| broken(root, &error))?;
        let file_system = name_of_file_system(&root)?;
        Ok(Self { root, file_system, node: node.to_owned() })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Nodes that share the directory have the same.
    pub fn file_system(&self) -> &str {
        &self.file_system
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn batch(&self, bid: Bid) -> PathBuf {
        self.root.join(bid.to_string())
    }

    pub fn job(&self, bid: Bid, jid: Jid) -> PathBuf {
        self.batch(bid).join(jid.to_string())
    }

    /// The directory of an attempt; it may not be there.
    pub fn attempt(&self, bid: Bid, jid: Jid, attempt: u32) -> AttemptDir {
        AttemptDir { path: self.job(bid, jid).join(format!("{attempt:06}")) }
    }

    /// Makes the directory of an attempt, with its two parts. Blocks.
    pub fn make_attempt(&self, bid: Bid, jid: Jid, attempt: u32) -> Result<AttemptDir> {
        let dir = self.attempt(bid, jid, attempt);
        for path in [dir.producer(), dir.system()] {
            make_dirs(&path).map_err(|error| broken(&path, &error))?;
        }
        let path = dir.path.join(NODE);
        fs::write(&path, &self.node).map_err(|error| broken(&path, &error))?;
        Ok(dir)
    }

    /// The attempts that have a directory, the newest first. Blocks.
    pub fn attempts(&self, bid: Bid, jid: Jid) -> Result<Vec<(u32, AttemptDir)>> {
        let dir = self.job(bid, jid);
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| broken(&dir, &error))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| broken(&dir, &error))?;
            if let Some(attempt) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                found.push((attempt, AttemptDir { path: entry.path() }));
            }
        }
        found.sort_by_key(|(attempt, _)| std::cmp::Reverse(*attempt));
        Ok(found)
    }
}

/// Whoever cleans up may take an empty directory of the batch away before the next one is made in it.
fn make_dirs(path: &Path) -> io::Result<()> {
    for _ in 0..100 {
        match fs::create_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            made => return made,
        }
    }
    fs::create_dir_all(path)
}

/// What is there already, or what is made now; of two that make it at once one wins.
fn name_of_file_system(root: &Path) -> Result<String> {
    let path = root.join(FILE_SYSTEM);
    let name = uuid::Uuid::new_v4().simple().to_string();
    let mut whole = tempfile::NamedTempFile::new_in(root).map_err(|error| broken(root, &error))?;
    whole.write_all(name.as_bytes()).map_err(|error| broken(&path, &error))?;
    whole.as_file().sync_all().map_err(|error| broken(&path, &error))?;
    match whole.persist_noclobber(&path) {
        Ok(_) => return Ok(name),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(broken(&path, &error.error)),
    }
    let found = fs::read_to_string(&path).map_err(|error| broken(&path, &error))?;
    let found = found.trim();
    if found.len() == 32 && found.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(found.to_owned());
    }
    Err(Failure::fail(format!(
        "{}: `{}` is no name of a file system; remove it when no job is under way, and it is made anew",
        path.display(),
        found.escape_debug()
    )))
}

/// The directory of one attempt at a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDir {
    path: PathBuf,
}

impl AttemptDir {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn producer(&self) -> PathBuf {
        self.path.join("producer")
    }

    pub fn system(&self) -> PathBuf {
        self.path.join("system")
    }

    /// The node that made it, if it says so. Blocks.
    pub fn node(&self) -> Option<String> {
        fs::read_to_string(self.path.join(NODE)).ok()
    }

    /// Notes a file that is whole, verified and on the disk. Blocks.
    pub fn note(&self, record: &FileRecord) -> Result<()> {
        let path = self.path.join(RECORDS);
        let mut line = serde_json::to_vec(record)
            .map_err(|error| Failure::fail(format!("{}: {error}", path.display())))?;
        line.push(b'\n');
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| broken(&path, &error))?;
        file.write_all(&line).map_err(|error| broken(&path, &error))
    }

    /// Makes what was noted safe. Blocks.
    pub fn sync(&self) -> Result<()> {
        let path = self.path.join(RECORDS);
        match fs::File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            file => file.and_then(|file| file.sync_all()).map_err(|error| broken(&path, &error)),
        }
    }

    /// What is whole, in the order in which it came; of two lines for one path the last counts. Blocks.
    pub fn records(&self) -> Result<Vec<FileRecord>> {
        let path = self.path.join(RECORDS);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(|error| broken(&path, &error))?,
        };
        let whole = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let mut found: Vec<FileRecord> = Vec::new();
        let mut places = std::collections::HashMap::new();
        for record in whole.map_while(|line| serde_json::from_slice::<FileRecord>(line).ok()) {
            if let Some(place) = places.get(&record.path) {
                found[*place] = record;
            } else {
                places.insert(record.path.clone(), found.len());
                found.push(record);
            }
        }
        Ok(found)
    }
}

/// A file of a job that is whole and verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Below the attempt's directory: `producer/…` or `system/…`.
    pub path: String,
    pub size: u64,
    /// Those that were announced, sha-256 and sha-512.
    #[serde(with = "digests")]
    pub digests: Vec<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// What it was fetched from, as a digest: a URL may hold secrets. Absent: it was unpacked or made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// As a map from the algorithm's name to the value.
mod digests {
    use std::collections::BTreeMap;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    use crate::digest::Digest;

    pub(super) fn serialize<S: Serializer>(digests: &[Digest], to: S) -> Result<S::Ok, S::Error> {
        let map: BTreeMap<_, _> = digests.iter().map(|d| (d.algorithm().plain_name(), d.hex())).collect();
        map.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Digest>, D::Error> {
        let map = BTreeMap::<String, String>::deserialize(from)?;
        map.iter()
            .map(|(name, hex)| {
                let algorithm = name.parse().map_err(D::Error::custom)?;
                Digest::new(algorithm, hex).map_err(D::Error::custom)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;

    fn record(path: &str, size: u64) -> FileRecord {
        let digest = Digest::new(Algorithm::Crc32, "00c0ffee").unwrap();
        FileRecord { path: path.into(), size, digests: vec![digest], mime: None, source: None }
    }

    #[test]
    fn a_file_system_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let first = WorkDir::open(&dir.path().join("work"), "a").unwrap();
        let again = WorkDir::open(&dir.path().join("work"), "b").unwrap();
        assert_eq!(first.file_system(), again.file_system());
        let other = WorkDir::open(&dir.path().join("other"), "a").unwrap();
        assert_ne!(first.file_system(), other.file_system());
        fs::write(dir.path().join("work").join(FILE_SYSTEM), "nonsense").unwrap();
        let why = WorkDir::open(&dir.path().join("work"), "a").unwrap_err().to_string();
        assert!(why.contains("is no name of a file system"), "{why}");
    }

    #[test]
    fn what_was_noted_is_read_and_a_line_that_was_cut_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let work = WorkDir::open(dir.path(), "a").unwrap();
        let attempt = work.make_attempt(Bid::new(1), Jid::new(2), 3).unwrap();
        assert_eq!(attempt.node().as_deref(), Some("a"));
        for record in [record("producer/a", 1), record("producer/b", 2), record("producer/a", 3)] {
            attempt.note(&record).unwrap();
        }
        attempt.sync().unwrap();
        assert_eq!(attempt.records().unwrap(), [record("producer/a", 3), record("producer/b", 2)]);
        let path = attempt.path().join(RECORDS);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 1]).unwrap();
        assert_eq!(attempt.records().unwrap(), [record("producer/a", 1), record("producer/b", 2)]);
        work.make_attempt(Bid::new(1), Jid::new(2), 11).unwrap();
        let attempts = work.attempts(Bid::new(1), Jid::new(2)).unwrap();
        assert_eq!(attempts.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [11, 3]);
    }
}
