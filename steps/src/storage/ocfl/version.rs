//! Making a version: built in staging, committed by renames, finished after a kill.
//!
//! **When things break.** Before the first rename nothing has happened; after
//! it [`Repository::repair`] leads to the end. A `vN` that the root inventory does not know is only believed
//! if its inventory has its sidecar, continues the object, and all its content has the right digests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::inventory::{self, Inventory, Version, message_with, name, sidecar_digest};
use super::object::{Loaded, NAMASTE, Place, read, sha512};
use super::{Repository, stop_if};
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::storage::disk::{at, open_plain, read_pieces};
use crate::storage::{StoreFile, StoreRequest, Stored, verified};

impl Repository {
    /// Blocks.
    pub(super) fn store(
        &self,
        request: &StoreRequest,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Stored> {
        let place = self.place(&request.ark);
        let _lock = place.lock()?;
        self.repair(&place)?;
        let before = place.load()?;
        if let Some(loaded) = &before {
            if let Some(version) = loaded.inventory.version_of(&request.key) {
                return stored(loaded, version, true);
            }
        } else if request.mode.needs_object() {
            return Err(Failure::fail(format!(
                "{} is to be updated, but there is no such object; add it, or correct its identifier",
                request.ark
            )));
        }
        request.check_head(before.as_ref().map_or(0, |loaded| loaded.head))?;
        let there = before.as_ref().map(|loaded| loaded.files(request.carried.version)).transpose()?;
        request.check_carried(&there.unwrap_or_default())?;
        progress.announce(request.files.len() as u64, request.size());
        let made = self.make(&place, before.as_ref(), request, progress, cancel);
        if made.is_err() {
            // What cannot be cleared now is cleared by the next store.
            let _ = self.clear(&place);
        }
        made?;
        let after = place.load()?;
        let found = after.and_then(|loaded| Some((loaded.inventory.version_of(&request.key)?, loaded)));
        let (version, loaded) = found.ok_or_else(|| {
            Failure::fail(format!(
                "{} was stored and is not there; somebody else changes {}",
                place.ark,
                self.root.display()
            ))
        })?;
        stored(&loaded, version, false)
    }

    fn make(
        &self,
        place: &Place,
        before: Option<&Loaded>,
        request: &StoreRequest,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<()> {
        let head = before.map_or(0, |loaded| loaded.head);
        let number = head.checked_add(1).ok_or_else(|| Failure::fail("there are too many versions"))?;
        let inventory =
            before.map_or_else(|| Inventory::new(&request.ark), |loaded| loaded.inventory.clone());
        // A new object is staged as a whole, a further version by itself.
        let whole = place.staging.join("object");
        let directory =
            if before.is_some() { place.staging.join(name(number)) } else { whole.join(name(number)) };
        let mut build = Build {
            repository: self,
            top: &self.staging,
            directory,
            number,
            inventory,
            state: BTreeMap::new(),
            directories: BTreeSet::new(),
            progress,
            cancel,
        };
        build.make_dir(&build.directory.clone())?;
        for file in &request.files {
            build.add(file)?;
        }
        for (path, kept) in &request.carried.files {
            build.state.entry(kept.digest.hex().to_owned()).or_default().push(path.clone());
        }
        let bytes = build.finish(request)?;
        let digest = sha512(&bytes);
        stop_if(cancel)?;
        match before {
            None => {
                self.write(&whole, NAMASTE, b"ocfl_object_1.1\n")?;
                self.write_inventory(&whole, &bytes, &digest)?;
                self.commit_object(place, &whole)?;
            }
            Some(before) => {
                self.write_inventory(&place.staging, &bytes, &digest)?;
                self.commit_version(place, before, number)?;
            }
        }
        self.clear(place)
    }

    fn write(&self, directory: &Path, name: &str, content: &[u8]) -> Result<()> {
        let path = directory.join(name);
        self.disk.write(&path, content).map_err(at("write", &path))
    }

    /// The inventory, and its sidecar last.
    fn write_inventory(&self, directory: &Path, bytes: &[u8], digest: &str) -> Result<()> {
        self.write(directory, inventory::FILE, bytes)?;
        self.write(directory, inventory::SIDECAR, format!("{digest} {}\n", inventory::FILE).as_bytes())?;
        self.disk.sync_dir(directory).map_err(at("sync", directory))
    }

    fn commit_object(&self, place: &Place, whole: &Path) -> Result<()> {
        let parent = place.object.parent().unwrap_or(&self.root);
        if place.object.exists() {
            return Err(moved(place));
        }
        let mut tries = 0;
        loop {
            let result =
                self.disk.make_dirs(&self.root, parent).and_then(|()| self.disk.rename(whole, &place.object));
            tries += 1;
            match result {
                Ok(()) => break,
                // Another object's store has pruned a directory that was empty for a moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < 10 => {}
                Err(error) => return Err(at("move the new object to", &place.object)(error)),
            }
        }
        self.disk.sync_dir(parent).map_err(at("sync", parent))
    }

    fn commit_version(&self, place: &Place, before: &Loaded, number: u32) -> Result<()> {
        if place.load()?.is_none_or(|now| now.digest != before.digest) {
            return Err(moved(place));
        }
        let version = place.object.join(name(number));
        if version.exists() {
            return Err(moved(place));
        }
        let staged = place.staging.join(name(number));
        self.disk.rename(&staged, &version).map_err(at("move the new version to", &version))?;
        self.disk.sync_dir(&place.object).map_err(at("sync", &place.object))?;
        self.swap_inventory(place)
    }

    /// Moves the staged inventory and then its sidecar over the root's.
    fn swap_inventory(&self, place: &Place) -> Result<()> {
        for file in [inventory::FILE, inventory::SIDECAR] {
            let to = place.object.join(file);
            self.disk.rename(&place.staging.join(file), &to).map_err(at("replace", &to))?;
            self.disk.sync_dir(&place.object).map_err(at("sync", &place.object))?;
        }
        Ok(())
    }

    /// Removes what a store left beside and above the object.
    fn clear(&self, place: &Place) -> Result<()> {
        if place.staging.exists() {
            self.disk.remove_tree(&place.staging).map_err(at("remove", &place.staging))?;
        }
        if place.object.exists() {
            return Ok(());
        }
        let above = place.object.ancestors().skip(1).take_while(|path| *path != self.root);
        for directory in above.filter(|path| path.exists()) {
            self.disk.remove_empty(directory).map_err(at("remove", directory))?;
        }
        Ok(())
    }

    /// Brings an object to the end of what a killed store began. The caller holds its lock. Blocks.
    pub(super) fn repair(&self, place: &Place) -> Result<()> {
        self.clear(place)?;
        let Some(mut loaded) = place.load()? else { return Ok(()) };
        let next = loaded.head.checked_add(1).map(|number| place.object.join(name(number)));
        if let Some(directory) = next.filter(|directory| directory.exists()) {
            let why = |why: String| {
                Failure::fail(format!(
                    "{} is not in the object's inventory and cannot be finished: {why}; move it away",
                    directory.display()
                ))
            };
            (loaded.bytes, loaded.digest) = continuation(place, &loaded, &directory).map_err(why)?;
            loaded.settled = false;
        }
        if loaded.settled {
            return Ok(());
        }
        self.disk.make_dir(&place.staging).map_err(at("make", &place.staging))?;
        self.write_inventory(&place.staging, &loaded.bytes, &loaded.digest)?;
        self.swap_inventory(place)?;
        self.clear(place)
    }
}

fn moved(place: &Place) -> Failure {
    Failure::later(format!("{} has changed while its next version was made; it is tried again", place.ark))
}

pub(super) fn stored(loaded: &Loaded, version: u32, already: bool) -> Result<Stored> {
    let files = loaded.files(version)?;
    let size = files.values().map(|file| file.size).sum();
    Ok(Stored { version, already, files, size })
}

/// The inventory of a version that the root does not know yet, if it continues the object and is whole.
fn continuation(place: &Place, loaded: &Loaded, directory: &Path) -> Result<(Vec<u8>, String), String> {
    let file = |name: &str| read(&directory.join(name)).map_err(|error| format!("{name}: {error}"));
    let bytes = file(inventory::FILE)?;
    let digest = sha512(&bytes);
    if std::str::from_utf8(&file(inventory::SIDECAR)?).ok().and_then(sidecar_digest) != Some(digest.as_str())
    {
        return Err("its sidecar is not that of its inventory".into());
    }
    let next = Inventory::read(&bytes)?;
    let known =
        loaded.inventory.versions.iter().all(|(name, version)| next.versions.get(name) == Some(version));
    if next.id != place.ark || next.newest() != loaded.head.checked_add(1) || !known {
        return Err("its inventory does not continue that of the object".into());
    }
    let new = |path: &&String| !loaded.inventory.manifest.values().flatten().any(|known| known == *path);
    for (expected, paths) in &next.manifest {
        for path in paths.iter().filter(new) {
            let mut digests = Digests::of([Algorithm::Sha512]);
            digests.read_file(&place.object.join(path)).map_err(|error| format!("{path}: {error}"))?;
            if digests.finish().first().map(Digest::hex) != Some(expected) {
                return Err(format!("{path} has another digest"));
            }
        }
    }
    Ok((bytes, digest))
}

/// A version on its way.
struct Build<'a> {
    repository: &'a Repository,
    top: &'a Path,
    /// The version's directory in staging.
    directory: PathBuf,
    number: u32,
    inventory: Inventory,
    state: BTreeMap<String, Vec<String>>,
    /// All directories made so far, to be synced.
    directories: BTreeSet<PathBuf>,
    progress: &'a Progress,
    cancel: &'a Cancel,
}

impl Build<'_> {
    fn make_dir(&mut self, path: &Path) -> Result<()> {
        if path == self.top || self.directories.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_dir(parent)?;
        }
        self.repository.disk.make_dir(path).map_err(at("make", path))?;
        self.directories.insert(path.to_path_buf());
        Ok(())
    }

    /// Takes a file in: copied, unless its content is known to be there.
    fn add(&mut self, file: &StoreFile) -> Result<()> {
        stop_if(self.cancel)?;
        let source = open_plain(&file.source).map_err(at("open", &file.source))?;
        let given = file.digests.iter().find(|digest| digest.algorithm() == Algorithm::Sha512);
        let there = given.is_some_and(|digest| self.inventory.manifest.contains_key(digest.hex()));
        let target = self.directory.join(inventory::CONTENT).join(&file.path);
        let found = self.read(file, &source, (!there).then_some(&target))?;
        let hex = verified(file, found)?;
        let path = if let Some(known) = self.inventory.content(&hex).map(str::to_owned) {
            if !there {
                self.repository.disk.remove_file(&target).map_err(at("remove", &target))?;
                self.prune(&target)?;
            }
            known
        } else {
            let path = format!("{}/{}/{}", name(self.number), inventory::CONTENT, file.path);
            self.inventory.manifest.insert(hex.clone(), vec![path.clone()]);
            path
        };
        for digest in &file.digests {
            self.inventory.add_fixity(digest, &path);
        }
        self.state.entry(hex).or_default().push(file.path.clone());
        self.progress.add_file();
        Ok(())
    }

    /// Reads a source to its end, to a target if there is one.
    fn read(&mut self, file: &StoreFile, source: &File, target: Option<&PathBuf>) -> Result<Digests> {
        let algorithms = file.digests.iter().map(Digest::algorithm);
        let mut digests = Digests::of(algorithms.chain([Algorithm::Sha512]));
        if let Some(parent) = target.and_then(|target| target.parent()) {
            self.make_dir(parent)?;
        }
        let (progress, cancel) = (self.progress, self.cancel);
        // A source that grows while it is read is stopped at the first piece that is too much.
        let mut each = |piece: &[u8]| {
            digests.update(piece);
            progress.add_bytes(piece.len() as u64);
            !cancel.is_cancelled() && digests.bytes() <= file.size
        };
        match target {
            Some(target) => self.repository.disk.copy(source, target, each).map_err(at("copy to", target))?,
            None => read_pieces(source, |piece| Ok(each(piece))).map_err(at("read", &file.source))?,
        };
        stop_if(cancel)?;
        Ok(digests)
    }

    /// Removes the directories that are empty without this file: OCFL allows none.
    fn prune(&mut self, target: &Path) -> Result<()> {
        for directory in target.ancestors().skip(1).take_while(|path| *path != self.directory) {
            let empty = fs::read_dir(directory).map_err(at("list", directory))?.next().is_none();
            if !empty {
                break;
            }
            self.repository.disk.remove_empty(directory).map_err(at("remove", directory))?;
            self.directories.remove(directory);
        }
        Ok(())
    }

    /// Writes the version's inventory and syncs all directories; what the root inventory will be.
    fn finish(mut self, request: &StoreRequest) -> Result<Vec<u8>> {
        let version = Version {
            created: jiff::Timestamp::now().to_string(),
            state: self.state,
            message: Some(message_with(&request.message, &request.key)),
            user: Some(request.user.clone()),
        };
        self.inventory.head = name(self.number);
        self.inventory.versions.insert(name(self.number), version);
        let bytes = self
            .inventory
            .write()
            .map_err(|error| Failure::fail(format!("the inventory of {}: {error}", request.ark)))?;
        self.repository.write_inventory(&self.directory, &bytes, &sha512(&bytes))?;
        // The deepest come first: a directory is synced after all that it holds.
        for directory in self.directories.iter().rev() {
            self.repository.disk.sync_dir(directory).map_err(at("sync", directory))?;
        }
        Ok(bytes)
    }
}
