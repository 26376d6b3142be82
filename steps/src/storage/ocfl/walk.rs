//! Walks through the storage root: every object, and everything that is none.
//!
//! | lies | is |
//! |---|---|
//! | in the root: `0=ocfl_1.1`, `ocfl_layout.json`, a copy of the specification (`ocfl_1.1.…`), `extensions` | the root's own, and is not looked into |
//! | in the root and in tuples: directories of three hexadecimal digits | looked into; empty ones are what a killed store left |
//! | in the third tuple: directories that are named by a whole digest, which begins with the tuples | the place of one object |
//! | anything else | foreign |
//!
//! What lies in the place of an object is that object if an inventory in it says so: that of the root, or else
//! that of the newest version that has one. It need not be sound; the audit of the object says whether it is.
//!
//! **When things break.** A directory that cannot be listed is a failure among the answers, and the walk goes on.

use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::inventory::{self, number};
use super::object::read;
use super::{ROOT_NAMASTE, Repository, TUPLE_SIZE, TUPLES};
use crate::outcome::{Failure, Result};
use crate::storage::disk::at;
use crate::storage::{Entry, canonical};

/// Takes what was found; whether somebody still listens.
type Send<'a> = &'a mut dyn FnMut(Result<Entry>) -> bool;

impl Repository {
    /// Sends everything that lies in the root. Blocks.
    pub(super) fn walk(&self, send: Send<'_>) {
        match self.check_there() {
            Ok(()) => self.walk_in(&self.root, "", send),
            Err(failure) => send(Err(failure)),
        };
    }

    /// An empty mount point has no objects, and none of them is lost: whoever looks for objects is put off.
    pub(super) fn check_there(&self) -> Result<()> {
        let namaste = self.root.join(ROOT_NAMASTE);
        if namaste.exists() {
            return Ok(());
        }
        Err(Failure::later(format!(
            "{} is not there, so nothing can be said of the objects of this storage root: is it mounted?",
            namaste.display()
        )))
    }

    /// Within tuples whose names are `prefix` together.
    fn walk_in(&self, directory: &Path, prefix: &str, send: Send<'_>) -> bool {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            // It was pruned since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(error) => return send(Err(at("list", directory)(error))),
        };
        let tuples = prefix.len() / TUPLE_SIZE;
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return send(Err(at("list", directory)(error))),
            };
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_str().unwrap_or_default();
            if tuples == 0 && is_of_the_root(name) {
                continue;
            }
            let is_place = if tuples < TUPLES {
                is_hexadecimal(name, TUPLE_SIZE)
            } else {
                is_hexadecimal(name, 64) && name.starts_with(prefix)
            };
            // Of a link, what it leads to: a tuple may lie on another disk.
            let goes_on = if !(is_place && path.is_dir()) {
                let what = if path.is_dir() { "directory" } else { "file" };
                send(Ok(foreign(&path, format!("this {what} is no object and no part of one"))))
            } else if tuples < TUPLES {
                self.walk_in(&path, &format!("{prefix}{name}"), send)
            } else {
                self.look(&path).is_none_or(|found| send(Ok(found)))
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// What lies in the place of an object; nothing where that has just gone.
    fn look(&self, path: &Path) -> Option<Entry> {
        let Some(id) = identifier(path) else {
            let why = "no inventory in it says which object it is".to_owned();
            return path.exists().then(|| Entry::Nameless { place: path.display().to_string(), why });
        };
        if let Err(why) = canonical(&id) {
            return Some(foreign(path, format!("it is the object `{}`: {why}", id.escape_debug())));
        }
        let place = self.place(&id).object;
        if place != path {
            let why = format!("it says that it is the object {id}, whose place is {}", place.display());
            return Some(foreign(path, why));
        }
        Some(Entry::Object(id))
    }
}

fn is_of_the_root(name: &str) -> bool {
    [ROOT_NAMASTE, "ocfl_layout.json", "extensions"].contains(&name) || name.starts_with("ocfl_1.1.")
}

fn is_hexadecimal(name: &str, digits: usize) -> bool {
    name.len() == digits && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn foreign(path: &Path, why: String) -> Entry {
    Entry::Foreign { place: path.display().to_string(), why }
}

/// The identifier that the inventories in a directory say, the root's first, then the newest's.
fn identifier(directory: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    let named = |directory: &Path| {
        let bytes = read(&directory.join(inventory::FILE)).ok()?;
        serde_json::from_slice::<Named>(&bytes).ok().map(|named| named.id)
    };
    named(directory).or_else(|| {
        let entries = fs::read_dir(directory).ok()?.filter_map(io::Result::ok);
        let mut versions: Vec<u32> =
            entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        versions.sort_unstable();
        versions.into_iter().rev().find_map(|version| named(&directory.join(inventory::name(version))))
    })
}
