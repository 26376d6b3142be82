//! Bags (BagIt, RFC 8493): opened, found, validated and written. Versions 0.93 to 1.0 are read, 1.0 is
//! written.
//!
//! [`validate`] reads all of a bag and lists every problem, each with a [`Code`], a path and a sentence. A
//! bag is *complete* when all that is listed is present and all payload that is present is listed; it is
//! *valid* when it is complete and every digest and size is right. What a bag does in a way of its own,
//! and what can still be understood, is a warning and harms neither.
//!
//! A manifest's paths are never followed to the disk: the bag's directory is walked first, links are not
//! followed and are a problem of their own, and what a manifest lists is looked up in what the walk found.
//!
//! [`Bag::open`] is the quick look: version, info, manifests and the rows of `fetch.txt`, for whoever has
//! to fetch them before the bag is validated. Its paths have been checked: they are below `data/` and have
//! no `..`.
//!
//! **When things break.** A bag that is wrong gives a report, not an error; [`BagReport::verdict`] makes it
//! [`Failure::Hopeless`]. Only the disk and being cancelled end a validation early. A tag file in an
//! encoding that is not known here, or lines longer than 64 KiB, are problems and are not read. More than
//! 10,000 problems are counted and not kept. [`write_bag`] leaves nothing when it fails.

mod declaration;
mod paths;
mod report;
mod tag_files;
mod validate;
mod walk;
mod write;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use self::declaration::{Declaration, Encoding, Version};
pub use self::report::{BagReport, Code, Problem};
pub use self::tag_files::FetchRow;
pub use self::validate::validate;
pub use self::write::{Placing, write_bag};

use self::report::Notes;
use self::tag_files::Manifest;
use crate::archive::disk as broken;
use crate::digest::{Algorithm, Digest};
use crate::outcome::{Failure, Result};

/// What a bag says of itself. Nothing of its payload has been looked at.
#[derive(Debug, Clone)]
pub struct Bag {
    dir: PathBuf,
    declaration: Declaration,
    info: Vec<(String, String)>,
    fetch: Vec<FetchRow>,
    manifests: Vec<Manifest>,
}

impl Bag {
    /// Reads the bag's tag files. One that cannot be read is [`Failure::Hopeless`], with the first problem.
    ///
    /// Blocks.
    pub fn open(dir: &Path) -> Result<Bag> {
        let mut notes = Notes::default();
        let found = walk::top(dir)?;
        let declaration = declaration::read(dir, &found, &mut notes)?;
        let bag = match declaration {
            None => None,
            Some(declaration) => {
                let info = tag_files::read_info(dir, &found, declaration, &mut notes)?;
                let fetch = tag_files::read_fetch(dir, &found, declaration, &mut notes)?;
                let manifests = tag_files::read_manifests(dir, &found, declaration, &mut notes)?;
                Some(Bag { dir: dir.to_owned(), declaration, info, fetch, manifests })
            }
        };
        match (bag, notes.problems.first()) {
            (Some(bag), None) => Ok(bag),
            (_, Some(problem)) => Err(Failure::hopeless(format!("the bag cannot be read: {problem}"))),
            (None, None) => Err(Failure::hopeless(format!("{} is no bag", dir.display()))),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn version(&self) -> Version {
        self.declaration.version
    }

    /// `bag-info.txt`, in its order; a label may come more than once.
    pub fn info(&self) -> &[(String, String)] {
        &self.info
    }

    /// What has to be fetched before the bag is complete.
    pub fn fetch(&self) -> &[FetchRow] {
        &self.fetch
    }

    /// The digests of the payload that manifests promise, by path (`data/…`).
    pub fn payload(&self) -> BTreeMap<&str, Vec<&Digest>> {
        let mut payload = BTreeMap::<_, Vec<_>>::new();
        for row in self.manifests.iter().filter(|manifest| !manifest.of_tags).flat_map(|m| &m.rows) {
            payload.entry(row.path.as_str()).or_default().extend(&row.digest);
        }
        payload
    }

    /// The algorithms of the payload manifests, as far as they are known here.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let payload = self.manifests.iter().filter(|manifest| !manifest.of_tags);
        payload.filter_map(|manifest| manifest.algorithm).collect()
    }
}

/// The bag in a directory: the directory itself, or the only directory in it, as archives of bags have it.
///
/// What desktops put beside it (`__MACOSX`, `.DS_Store`) does not hide it. Blocks.
pub fn find_bag(dir: &Path) -> Result<Option<PathBuf>> {
    if is_declared(dir)? {
        return Ok(Some(dir.to_owned()));
    }
    let mut only = None;
    for entry in fs::read_dir(dir).map_err(|error| broken(dir, &error))? {
        let entry = entry.map_err(|error| broken(dir, &error))?;
        let name = entry.file_name();
        if name == "__MACOSX" || name == ".DS_Store" {
            continue;
        }
        let kind = entry.file_type().map_err(|error| broken(dir, &error))?;
        if !kind.is_dir() || only.replace(entry.path()).is_some() {
            return Ok(None);
        }
    }
    match only {
        Some(inner) if is_declared(&inner)? => Ok(Some(inner)),
        _ => Ok(None),
    }
}

fn is_declared(dir: &Path) -> Result<bool> {
    match fs::symlink_metadata(dir.join("bagit.txt")) {
        Ok(found) => Ok(found.is_file()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(broken(dir, &error)),
    }
}
