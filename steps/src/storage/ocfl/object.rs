//! One object's place in the repository: where it lies, who works on it, what its inventory says.
//!
//! **When things break.** A root inventory counts if its sidecar vouches for it, or, in the middle of a
//! commit, the sidecar of its head version. Otherwise the object is damaged: nothing is read from it and
//! nothing written to it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::inventory::{self, Inventory, sidecar_digest};
use super::{Kept, Repository, TUPLE_SIZE, TUPLES};
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Failure, Result};
use crate::storage::disk::{at, open_plain};

pub(super) const NAMASTE: &str = "0=ocfl_object_1.1";

/// Where an object lies, whether it exists or not.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) ark: String,
    /// The object's root.
    pub(super) object: PathBuf,
    /// Where its next version is made.
    pub(super) staging: PathBuf,
    lock: PathBuf,
}

/// An inventory that can be believed.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) inventory: Inventory,
    pub(super) bytes: Vec<u8>,
    pub(super) digest: String,
    pub(super) head: u32,
    /// The root's own sidecar says so too; it does not in the middle of a commit.
    pub(super) settled: bool,
    object: PathBuf,
}

impl Repository {
    pub(super) fn place(&self, ark: &str) -> Place {
        let mut digests = Digests::of([Algorithm::Sha256]);
        digests.update(ark.as_bytes());
        let name = digests.finish().pop().map(|digest| digest.hex().to_owned()).unwrap_or_default();
        let tuples = (0..TUPLES).map(|tuple| &name[tuple * TUPLE_SIZE..(tuple + 1) * TUPLE_SIZE]);
        let object = tuples.fold(self.root.clone(), |path, tuple| path.join(tuple)).join(&name);
        Place {
            ark: ark.to_owned(),
            object,
            staging: self.staging.join(&name),
            lock: self.staging.join(format!("{name}.lock")),
        }
    }
}

/// The right to change an object; its file goes when it ends.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A lock file that stays does no harm: only the lock on it counts.
        let _ = fs::remove_file(&self.path);
    }
}

impl Place {
    /// Takes the object from other processes.
    pub(super) fn lock(&self) -> Result<Lock> {
        loop {
            let path = &self.lock;
            let mut options = OpenOptions::new();
            let file =
                options.write(true).create(true).truncate(false).open(path).map_err(at("open", path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    let ark = &self.ark;
                    // Perhaps one that is stopped, and has lost its session: nothing is wrong with this job.
                    return Err(Failure::Again(format!("another process is storing {ark}")));
                }
                Err(fs::TryLockError::Error(error)) => return Err(at("lock", path)(error)),
            }
            // Whoever held it before may have removed the file between our open and our lock; then a third
            // could lock a new one, so ours does not count.
            let held = file.metadata().map_err(at("look at", path))?;
            match fs::metadata(path) {
                Ok(there) if there.ino() == held.ino() => {
                    return Ok(Lock { path: path.clone(), _file: file });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(at("look at", path)(error)),
            }
        }
    }

    /// What the object says of itself; nothing if there is none.
    pub(super) fn load(&self) -> Result<Option<Loaded>> {
        let path = self.object.join(inventory::FILE);
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.object.exists() => {
                return Ok(None);
            }
            Err(error) => return Err(at("read", &path)(error)),
        };
        let damaged = |why: &str| {
            Failure::fail(format!("the object {} in {} is damaged: {why}", self.ark, self.object.display()))
        };
        let inventory =
            Inventory::read(&bytes).map_err(|why| damaged(&format!("{}: {why}", inventory::FILE)))?;
        if inventory.id != self.ark {
            return Err(damaged(&format!("its inventory is of `{}`", inventory.id)));
        }
        let head = inventory.newest().ok_or_else(|| damaged("it has no version"))?;
        let digest = sha512(&bytes);
        let vouches = |directory: &Path| {
            read(&directory.join(inventory::SIDECAR)).is_ok_and(|text| {
                std::str::from_utf8(&text).ok().and_then(sidecar_digest) == Some(digest.as_str())
            })
        };
        let settled = vouches(&self.object);
        if !settled && !vouches(&self.object.join(&inventory.head)) {
            return Err(damaged(&format!("no sidecar has the digest of its {}", inventory::FILE)));
        }
        Ok(Some(Loaded { inventory, bytes, digest, head, settled, object: self.object.clone() }))
    }
}

impl Loaded {
    pub(super) fn location(&self, digest: &str) -> Option<PathBuf> {
        self.inventory.content(digest).map(|path| self.object.join(path))
    }

    /// The files of a version, with the sizes that they have on disk.
    pub(super) fn files(&self, version: u32) -> Result<BTreeMap<String, Kept>> {
        let mut files = BTreeMap::new();
        let Some(said) = self.inventory.version(version) else { return Ok(files) };
        for (path, hex) in said.paths() {
            let damaged =
                || Failure::fail(format!("{} v{version}: `{path}` has no content", self.inventory.id));
            let digest = Digest::new(Algorithm::Sha512, hex).map_err(|_| damaged())?;
            let location = self.location(hex).ok_or_else(damaged)?;
            let size = fs::symlink_metadata(&location).map_err(at("look at", &location))?.len();
            files.insert(path.to_owned(), Kept { size, digest, location: location.display().to_string() });
        }
        Ok(files)
    }
}

/// A whole file, if it is a regular one.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open_plain(path)?, &mut bytes)?;
    Ok(bytes)
}

pub(super) fn sha512(bytes: &[u8]) -> String {
    let mut digests = Digests::of([Algorithm::Sha512]);
    digests.update(bytes);
    digests.finish().pop().map(|digest| digest.hex().to_owned()).unwrap_or_default()
}
