//! The audit of an object: all of its content is read, and all of its words are compared.
//!
//! **When things break.** A problem is a line in the answer and the audit goes on; if the root inventory
//! cannot be used, that of the newest version that has a sound one is audited in its stead. Only an audit that
//! is stopped, or a root that is not there, is a failure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::inventory::{self, Inventory, name, number, sidecar_digest};
use super::object::{NAMASTE, Place, read, sha512};
use super::{Audit, Repository, stop_if};
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Progress, Result};
use crate::storage::disk::{at, open_plain, read_pieces};
use crate::storage::{Measured, StoredVersion};

/// What is in an object's root, taken while no store works on it.
#[derive(Debug)]
pub(super) struct Snapshot {
    entries: Vec<String>,
    /// The root inventory, if it is sound.
    inventory: Option<(Inventory, Vec<u8>)>,
    problems: Vec<String>,
}

/// Nothing where there is no object. Blocks.
pub(super) fn snapshot(repository: &Repository, place: &Place) -> Result<Option<Snapshot>> {
    let listed = match fs::read_dir(&place.object) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return repository.check_there().map(|()| None);
        }
        // A file in its place.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let problems = vec![format!("{} is no directory", place.object.display())];
            return Ok(Some(Snapshot { entries: Vec::new(), inventory: None, problems }));
        }
        Err(error) => return Err(at("list", &place.object)(error)),
    };
    let mut problems = Vec::new();
    let mut entries = Vec::new();
    for entry in listed {
        match entry.map(|entry| entry.file_name().into_string()) {
            Ok(Ok(name)) => entries.push(name),
            Ok(Err(name)) => problems.push(format!("`{}` does not belong in an object", name.display())),
            Err(error) => problems.push(format!("the object's directory cannot be listed: {error}")),
        }
    }
    entries.sort();
    let inventory = read_inventory(&place.object, "", &mut problems);
    Ok(Some(Snapshot { entries, inventory, problems }))
}

/// Blocks.
pub(super) fn audit(
    place: &Place,
    snapshot: Snapshot,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Audit> {
    let Snapshot { entries, inventory: root, problems } = snapshot;
    let lies_in = place.object.display().to_string();
    let mut audit = Audit { present: true, place: lies_in, problems, ..Audit::default() };
    if !read(&place.object.join(NAMASTE)).is_ok_and(|text| text == b"ocfl_object_1.1\n") {
        audit.problems.push(format!("{NAMASTE} is missing or wrong"));
    }
    let mut own: BTreeMap<u32, (Inventory, Vec<u8>)> = BTreeMap::new();
    for number in entries.iter().filter_map(|entry| number(entry)) {
        let directory = place.object.join(name(number));
        let found = read_inventory(&directory, &format!("{}/", name(number)), &mut audit.problems);
        own.extend(found.map(|found| (number, found)));
    }
    let root_bytes = root.as_ref().map(|(_, bytes)| bytes.clone());
    let is_ours = |inventory: &Inventory| inventory.id == place.ark;
    let root = root.map(|(inventory, _)| inventory);
    if let Some(other) = root.as_ref().filter(|inventory| !is_ours(inventory)) {
        audit.problems.push(format!("its inventory is of `{}`, not of `{}`", other.id, place.ark));
    }
    let newest = || own.values().map(|(inventory, _)| inventory).rev().find(|inventory| is_ours(inventory));
    let Some(truth) = root.filter(is_ours).or_else(|| newest().cloned()) else {
        audit.problems.push("no inventory can be used, so the content cannot be audited".into());
        return Ok(audit);
    };
    let head = truth.newest().unwrap_or_default();
    audit.versions = head;
    compare_words(&truth, &own, &mut audit.problems);
    if own.get(&head).zip(root_bytes).is_some_and(|((_, newest), root)| *newest != root) {
        audit.problems.push(format!("the root inventory is not that of {}", truth.head));
    }
    let mut expected: BTreeSet<String> = (1..=head).map(name).collect();
    expected.extend([NAMASTE, inventory::FILE, inventory::SIDECAR].map(str::to_owned));
    for entry in entries.iter().filter(|entry| !expected.contains(*entry)) {
        audit.problems.push(format!("`{entry}` does not belong in the object"));
    }
    let contents: BTreeSet<&str> = truth.manifest.values().flatten().map(String::as_str).collect();
    for version in (1..=head).map(name) {
        list(&place.object, &version, &contents, &mut audit.problems);
    }
    let contents = read_contents(place, &truth, &mut audit, progress, cancel)?;
    for number in 1..=head {
        let paths = truth.version(number).map(inventory::Version::paths).unwrap_or_default();
        let files = paths.into_iter().map(|(path, digest)| {
            let content = truth.content(digest).and_then(|content| contents.get(content)).cloned();
            (path.to_owned(), content.unwrap_or_else(|| Arc::new(Measured::Missing)))
        });
        audit.state.insert(number, StoredVersion::Files(files.collect()));
    }
    Ok(audit)
}

fn read_inventory(directory: &Path, at: &str, problems: &mut Vec<String>) -> Option<(Inventory, Vec<u8>)> {
    let file = inventory::FILE;
    let bytes = match read(&directory.join(file)) {
        Ok(bytes) => bytes,
        Err(error) => {
            problems.push(format!("{at}{file} cannot be read: {error}"));
            return None;
        }
    };
    match read(&directory.join(inventory::SIDECAR)) {
        Err(error) => problems.push(format!("{at}{} cannot be read: {error}", inventory::SIDECAR)),
        Ok(text) => {
            let said = std::str::from_utf8(&text).ok().and_then(sidecar_digest);
            if said != Some(sha512(&bytes).as_str()) {
                problems.push(format!("{at}{file} has not the digest of its sidecar"));
                return None;
            }
        }
    }
    match Inventory::read(&bytes) {
        Ok(inventory) => Some((inventory, bytes)),
        Err(why) => {
            problems.push(format!("{at}{file}: {why}"));
            None
        }
    }
}

/// Every inventory is of this object and of its version, and all say the same of each version.
fn compare_words(truth: &Inventory, own: &BTreeMap<u32, (Inventory, Vec<u8>)>, problems: &mut Vec<String>) {
    for (number, (inventory, _)) in own {
        if inventory.id != truth.id || inventory.newest() != Some(*number) {
            problems.push(format!("v{number}/{} is of {} {}", inventory::FILE, inventory.id, inventory.head));
        }
        for (version, said) in &inventory.versions {
            let agreed = truth.versions.get(version).is_none_or(|known| known.state == said.state);
            if !agreed {
                problems
                    .push(format!("v{number}/{} tells {version} otherwise than the newest", inventory::FILE));
            }
        }
    }
}

/// Names what lies in a directory and should not.
fn list(object: &Path, within: &str, contents: &BTreeSet<&str>, problems: &mut Vec<String>) {
    let entries = match fs::read_dir(object.join(within)) {
        Ok(entries) => entries,
        Err(error) => return problems.push(format!("{within} cannot be listed: {error}")),
    };
    let mut empty = true;
    for entry in entries {
        empty = false;
        let found = entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?)));
        let (name, kind) = match found {
            Ok(found) => found,
            Err(error) => return problems.push(format!("{within} cannot be listed: {error}")),
        };
        let path = format!("{within}/{}", name.display());
        let top = !within.contains('/');
        let inventory = top && (name == inventory::FILE || name == inventory::SIDECAR);
        let belongs = if kind.is_dir() { !top || name == inventory::CONTENT } else { kind.is_file() };
        if belongs && kind.is_dir() {
            list(object, &path, contents, problems);
        } else if !belongs || !(inventory || contents.contains(path.as_str())) {
            problems.push(format!("`{path}` is not in the manifest"));
        }
    }
    if empty {
        problems.push(format!("`{within}` is an empty directory"));
    }
}

/// Reads all content; what was found, by its path.
fn read_contents(
    place: &Place,
    truth: &Inventory,
    audit: &mut Audit,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<HashMap<String, Arc<Measured>>> {
    let mut fixity: HashMap<&str, Vec<Digest>> = HashMap::new();
    for (algorithm, block) in &truth.fixity {
        // Algorithms that are not known here are somebody else's to check.
        let Ok(algorithm) = algorithm.parse::<Algorithm>() else { continue };
        for (hex, paths) in block {
            match Digest::new(algorithm, hex) {
                Ok(digest) => {
                    for path in paths {
                        fixity.entry(path).or_default().push(digest.clone());
                    }
                }
                Err(error) => audit.problems.push(format!("fixity: {error}")),
            }
        }
    }
    let paths = truth.manifest.iter().flat_map(|(hex, paths)| paths.iter().map(move |path| (path, hex)));
    let paths: BTreeMap<&String, &String> = paths.collect();
    progress.announce(paths.len() as u64, 0);
    let mut contents = HashMap::new();
    for (path, hex) in paths {
        stop_if(cancel)?;
        let mut expected = fixity.remove(path.as_str()).unwrap_or_default();
        expected.extend(Digest::new(Algorithm::Sha512, hex));
        let mut digests = Digests::of(expected.iter().map(Digest::algorithm));
        let result = open_plain(&place.object.join(path)).and_then(|file| {
            read_pieces(&file, |piece| {
                digests.update(piece);
                progress.add_bytes(piece.len() as u64);
                Ok(!cancel.is_cancelled())
            })
        });
        stop_if(cancel)?;
        let measured = if let Err(error) = result {
            audit.problems.push(format!("`{path}` cannot be read: {error}"));
            if error.kind() == io::ErrorKind::NotFound { Measured::Missing } else { Measured::Damaged }
        } else {
            let size = digests.bytes();
            audit.bytes += size;
            let found = digests.finish();
            let wrong = expected.iter().filter(|expected| !found.contains(expected));
            audit.problems.extend(wrong.map(|wrong| format!("`{path}` has not the digest {wrong}")));
            Measured::Read { size, digests: found }
        };
        contents.insert(path.clone(), Arc::new(measured));
        audit.files += 1;
        progress.add_file();
    }
    for path in fixity.keys() {
        audit.problems.push(format!("the fixity block knows `{path}`, which is not in the manifest"));
    }
    Ok(contents)
}
