//! A bounded file of JSON lines: what a node writes down for people who ask later.
//!
//! `NAME.jsonl` grows to a bound, then becomes `NAME.1.jsonl` and a new one begins: what is kept lies between one and
//! two bounds.
//!
//! **When things break.** A journal that cannot be written never stops anybody: the reason goes to the ordinary log,
//! once until it works again. A line that was cut off by a crash, or that another version wrote, is skipped when the
//! journal is read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The least that a bound can be.
const LEAST: u64 = 4096;

/// A journal of entries of one kind.
#[derive(Debug)]
pub struct Journal<T> {
    current: PathBuf,
    before: PathBuf,
    /// The most bytes of one file.
    bound: u64,
    writing: Mutex<Writing>,
    entries: PhantomData<fn(T) -> T>,
}

#[derive(Debug, Default)]
struct Writing {
    /// With the bytes that are in it.
    file: Option<(File, u64)>,
    /// The last write failed, and that was said.
    failing: bool,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// The journal of a name in a directory. Nothing is made before the first entry.
    pub fn new(dir: &Path, name: &str, bound: u64) -> Self {
        Self {
            current: dir.join(format!("{name}.jsonl")),
            before: dir.join(format!("{name}.1.jsonl")),
            bound: bound.max(LEAST),
            writing: Mutex::default(),
            entries: PhantomData,
        }
    }

    /// Writes an entry. Blocks for one short write.
    pub fn write(&self, entry: &T) {
        let mut writing = self.writing.lock();
        match self.append(&mut writing, entry) {
            Ok(()) => writing.failing = false,
            Err(error) => {
                writing.file = None;
                if !std::mem::replace(&mut writing.failing, true) {
                    tracing::error!(file = %self.current.display(), %error, "the journal cannot be written");
                }
            }
        }
    }

    fn append(&self, writing: &mut Writing, entry: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let size = line.len() as u64;
        if writing.file.as_ref().is_some_and(|(_, written)| written + size > self.bound) {
            writing.file = None;
            fs::rename(&self.current, &self.before)?;
        }
        if writing.file.is_none() {
            let mut file = OpenOptions::new().create(true).append(true).open(&self.current)?;
            let written = file.metadata()?.len();
            // After a line that was cut off, a new one begins.
            file.write_all(if written > 0 { b"\n" } else { b"" })?;
            writing.file = Some((file, written + 1));
        }
        if let Some((file, written)) = &mut writing.file {
            file.write_all(&line)?;
            *written += size;
        }
        Ok(())
    }

    /// The last so many entries, the newest first. Blocks.
    pub fn last(&self, count: usize) -> io::Result<Vec<T>> {
        let mut found = Vec::new();
        for path in [&self.current, &self.before] {
            let text = match fs::read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text?,
            };
            let lines = text.rsplit(|byte| *byte == b'\n');
            let entries = lines.filter_map(|line| serde_json::from_slice(line).ok());
            found.extend(entries.take(count - found.len()));
            if found.len() == count {
                break;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(dir: &Path, bound: u64) -> Journal<(u32, String)> {
        Journal::new(dir, "things", bound)
    }

    fn entry(number: u32) -> (u32, String) {
        (number, "x".repeat(100))
    }

    fn numbers(journal: &Journal<(u32, String)>, count: usize) -> Vec<u32> {
        journal.last(count).unwrap().into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn the_newest_come_first_also_after_a_crash_in_the_middle_of_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let first = journal(dir.path(), 1 << 20);
        first.write(&entry(1));
        first.write(&entry(2));
        assert_eq!(first.last(9).unwrap(), [entry(2), entry(1)]);
        let path = dir.path().join("things.jsonl");
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        let second = journal(dir.path(), 1 << 20);
        second.write(&entry(3));
        assert_eq!(numbers(&second, 9), [3, 1]);
        assert_eq!(numbers(&second, 1), [3]);
    }

    #[test]
    fn it_is_bounded_and_keeps_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(dir.path(), LEAST);
        for number in 0..200 {
            journal.write(&entry(number));
        }
        let names = ["things.jsonl", "things.1.jsonl"];
        let size: u64 = names.iter().map(|name| fs::metadata(dir.path().join(name)).unwrap().len()).sum();
        assert!(size <= 2 * LEAST, "{size}");
        let found = numbers(&journal, 1_000);
        assert!(found.len() > 10, "{found:?}");
        assert_eq!(found, (0..200).rev().take(found.len()).collect::<Vec<_>>());
    }

    #[test]
    fn one_that_cannot_be_written_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let journal = journal(&dir.path().join("log"), LEAST);
        journal.write(&entry(1));
        fs::create_dir(dir.path().join("log")).unwrap();
        journal.write(&entry(2));
        assert_eq!(numbers(&journal, 9), [2]);
    }
}
