//! The directory of a drop box, and what lies in it. Everything here blocks.
//!
//! `.taken/KEY/` holds `note` (name, time and size), `payload`, and, when it was consumed, `batch`.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ingest_queue::date::Date;
use ingest_queue::ids::Bid;
use ingest_queue::map;

use crate::manifest::fault_of_name;
use crate::outcome::{Failure, Result};

const TAKEN: &str = ".taken";
const NOTE: &str = "note";
const PAYLOAD: &str = "payload";
const BATCH: &str = "batch";
/// Of the empty file that says that another is ready.
pub(super) const MARKER: &str = ".ready";
/// How names end of files that somebody is still writing.
const UNFINISHED: [&str; 5] = [".part", ".tmp", ".temp", ".filepart", "~"];

/// A file as it was put there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub(super) struct Key {
    /// Nanoseconds since 1970.
    pub(super) time: i128,
    pub(super) name: String,
    pub(super) size: u64,
}

impl Key {
    /// The name of its directory.
    pub(super) fn hash(&self) -> String {
        map::hash(&[&self.name, &self.time.to_string(), &self.size.to_string()])
    }

    /// Of its item: all of it, so that it can be read back.
    pub(super) fn item(&self) -> String {
        format!("{} {} {}", self.time, self.size, self.name)
    }

    pub(super) fn of_item(item: &str) -> Result<Self, ()> {
        let mut parts = item.splitn(3, ' ');
        let mut next = || parts.next().ok_or(());
        let (time, size, name) = (next()?, next()?, next()?);
        Ok(Self { time: time.parse().map_err(drop)?, size: size.parse().map_err(drop)?, name: name.into() })
    }

    pub(super) fn date(&self) -> Date {
        Date::from_millis(i64::try_from(self.time / 1_000_000).unwrap_or(i64::MAX))
    }

    pub(super) fn checkpoint(&self) -> String {
        format!("{} {}", self.date(), self.name)
    }
}

impl std::str::FromStr for KeyName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let plain = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if plain { Ok(Self(text.to_owned())) } else { Err(()) }
    }
}

/// The name of a directory of a file that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyName(String);

/// What lies in a box.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: Vec<Key>,
    /// What the markers mark.
    pub(super) markers: Vec<String>,
    pub(super) unusable: Vec<Unusable>,
}

/// What lies there and cannot be taken. It stays.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unusable {
    pub(super) name: String,
    pub(super) why: String,
}

impl Unusable {
    /// No id of a file begins so.
    pub(super) fn item(&self) -> String {
        format!("unusable {}", self.name)
    }
}

fn sort_of(facts: &fs::Metadata) -> &'static str {
    match facts.file_type() {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a link",
        _ => "a special file",
    }
}

#[derive(Debug, Clone)]
pub(super) struct Place {
    dir: PathBuf,
}

impl Place {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn wrong(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::later(format!("{}: {why}", self.dir.display()))
    }

    fn at(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
        move |error| Failure::later(format!("{}: {error}", path.display()))
    }

    /// The box has to be there: one that is made anew where a disk is not mounted would be empty for ever.
    pub(super) fn open(&self) -> Result<()> {
        let facts = fs::metadata(&self.dir).map_err(Self::at(&self.dir))?;
        if !facts.is_dir() {
            return Err(self.wrong(&"it is no directory"));
        }
        let taken = self.dir.join(TAKEN);
        fs::create_dir_all(&taken).map_err(Self::at(&taken))
    }

    fn of(&self, hash: &str) -> PathBuf {
        self.dir.join(TAKEN).join(hash)
    }

    pub(super) fn payload_of(&self, name: &KeyName) -> PathBuf {
        self.of(&name.0).join(PAYLOAD)
    }

    pub(super) fn payload(&self, key: &Key) -> PathBuf {
        self.of(&key.hash()).join(PAYLOAD)
    }

    /// All that lies in the box, as far as it is to be looked at.
    pub(super) fn look(&self) -> Result<Found> {
        let mut found = Found::default();
        for entry in fs::read_dir(&self.dir).map_err(Self::at(&self.dir))? {
            let entry = entry.map_err(Self::at(&self.dir))?;
            let name = entry.file_name();
            let shown = name.to_string_lossy();
            if shown.starts_with('.') || UNFINISHED.iter().any(|end| shown.ends_with(end)) {
                continue;
            }
            let unusable = |why: String| Unusable { name: shown.clone().into_owned(), why };
            // A link is not followed: it may lead anywhere.
            let facts = match entry.metadata() {
                Ok(facts) if facts.is_file() => facts,
                Ok(facts) => {
                    found.unusable.push(unusable(format!("it is {}; only files are taken", sort_of(&facts))));
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    found.unusable.push(unusable(format!("it cannot be looked at: {error}")));
                    continue;
                }
            };
            let Some(name) = name.to_str() else {
                found.unusable.push(unusable("its name is not UTF-8; rename it".into()));
                continue;
            };
            if let Some(of) = name.strip_suffix(MARKER) {
                found.markers.push(of.to_owned());
            }
            match fault_of_name(name) {
                None => found.files.push(key(name.to_owned(), &facts)),
                Some(why) => found.unusable.push(unusable(format!("its name {why}; rename it"))),
            }
        }
        found.files.sort_unstable();
        found.unusable.sort_unstable();
        Ok(found)
    }

    /// What was taken and has no batch; and what of that is not known any more.
    pub(super) fn left_behind(&self) -> Result<(Vec<Key>, Vec<Unusable>)> {
        let (mut left, mut unusable) = (Vec::new(), Vec::new());
        for dir in self.taken()? {
            if dir.join(BATCH).exists() || !dir.join(PAYLOAD).exists() {
                continue;
            }
            let note = fs::read(dir.join(NOTE)).map_err(|error| error.to_string());
            match note.and_then(|note| serde_json::from_slice(&note).map_err(|error| error.to_string())) {
                Ok(key) => left.push(key),
                Err(error) => unusable.push(Unusable {
                    name: dir.join(PAYLOAD).strip_prefix(&self.dir).unwrap_or(&dir).display().to_string(),
                    why: format!("its `{NOTE}` cannot be read ({error}); move it back into the box"),
                }),
            }
        }
        left.sort_unstable();
        unusable.sort_unstable();
        Ok((left, unusable))
    }

    /// What was consumed, with its batch.
    pub(super) fn consumed(&self) -> Result<Vec<(PathBuf, Option<Bid>)>> {
        let batch = |dir: &Path| fs::read_to_string(dir.join(BATCH)).ok();
        let all = self.taken()?.into_iter();
        Ok(all.filter_map(|dir| batch(&dir).map(|text| (dir, text.trim().parse().ok()))).collect())
    }

    fn taken(&self) -> Result<Vec<PathBuf>> {
        let taken = self.dir.join(TAKEN);
        let entries = fs::read_dir(&taken).map_err(Self::at(&taken))?;
        Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
    }

    /// Moves a file out of the box; `false` if it is gone, or was written to meanwhile.
    pub(super) fn take(&self, key: &Key) -> Result<bool> {
        let (from, dir) = (self.dir.join(&key.name), self.of(&key.hash()));
        let payload = dir.join(PAYLOAD);
        match fs::symlink_metadata(&from) {
            Ok(facts) if facts.is_file() && self::key(key.name.clone(), &facts) == *key => {}
            // Taken before, or never there.
            _ => return Ok(payload.exists()),
        }
        // While it is in the box somebody can still repair it.
        let only_this = |error: std::io::Error| Failure::fail(format!("{}: {error}", from.display()));
        File::open(&from).map_err(only_this)?;
        fs::create_dir_all(&dir).map_err(Self::at(&dir))?;
        let note = serde_json::to_vec(key).map_err(|error| self.wrong(&error))?;
        write(&dir.join(NOTE), &note).map_err(Self::at(&dir))?;
        match fs::rename(&from, &payload) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(payload.exists()),
            // Another's, in a directory in which everybody may only move what is theirs.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(only_this(error)),
            Err(error) => return Err(Self::at(&from)(error)),
        }
        sync(&dir).and_then(|()| sync(&self.dir)).map_err(Self::at(&dir))?;
        Ok(true)
    }

    /// It was consumed.
    pub(super) fn done(&self, key: &Key, bid: Option<Bid>, marked: bool) -> Result<()> {
        let dir = self.of(&key.hash());
        let text = bid.map(|bid| bid.to_string()).unwrap_or_default();
        write(&dir.join(BATCH), text.as_bytes()).map_err(Self::at(&dir))?;
        if marked {
            let marker = self.dir.join(format!("{}{MARKER}", key.name));
            match fs::remove_file(&marker) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(Self::at(&marker)(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn key(name: String, facts: &fs::Metadata) -> Key {
    let time = i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec());
    Key { time, name, size: facts.len() }
}

fn write(path: &Path, data: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(data)?;
    file.sync_all()
}

fn sync(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_as_it_is_written() {
        let key = Key { time: -5, name: "a b  c.zip".into(), size: 7 };
        assert_eq!(Key::of_item(&key.item()), Ok(key.clone()));
        assert_ne!(key.hash(), Key { size: 8, ..key }.hash());
        assert!(Key::of_item("x").is_err() && Key::of_item("1 2").is_err());
    }

    #[test]
    fn a_file_is_taken_once_and_found_until_it_has_a_batch() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(dir.path());
        place.open().unwrap();
        for name in ["b.zip", ".hidden", "c.part", "d~", "e.tmp"] {
            fs::write(dir.path().join(name), "abc").unwrap();
        }
        std::os::unix::fs::symlink("b.zip", dir.path().join("link")).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        let Found { files, unusable, .. } = place.look().unwrap();
        let unusable: Vec<_> = unusable.iter().map(|one| (one.name.as_str(), one.why.as_str())).collect();
        assert_eq!(
            unusable,
            [
                ("folder", "it is a directory; only files are taken"),
                ("link", "it is a link; only files are taken")
            ]
        );
        assert_eq!(files.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["b.zip"]);
        let key = &files[0];
        assert!(place.take(key).unwrap() && place.take(key).unwrap());
        assert_eq!(fs::read(place.payload(key)).unwrap(), b"abc");
        assert_eq!(place.left_behind().unwrap(), (files.clone(), Vec::new()));
        // Whose it was is not known any more, and it is not lost silently.
        let note = place.of(&key.hash()).join(NOTE);
        let was = fs::read(&note).unwrap();
        fs::write(&note, "{").unwrap();
        let (left, unusable) = place.left_behind().unwrap();
        assert!(left.is_empty() && unusable[0].name.starts_with(".taken/"), "{unusable:?}");
        fs::write(&note, was).unwrap();
        place.done(key, Some(Bid::new(3)), false).unwrap();
        assert_eq!(place.left_behind().unwrap(), (Vec::new(), Vec::new()));
        assert_eq!(place.consumed().unwrap()[0].1, Some(Bid::new(3)));
        // Another that never was there.
        assert!(!place.take(&Key { size: 9, ..key.clone() }).unwrap());
    }
}
