//! Which repository a tree, a storage, an inventory or a directory belongs to.
//!
//! A repository is known by a random id. Its tree, its inventory, its storages, and the directories of its outbox and its uploads
//! each hold the id; [`crate::ledger`] compares them whenever a node opens a session. So a node that finds a storage, a database
//! or a chroot of another repository works on none of them.
//!
//! | place | where the id is |
//! |---|---|
//! | tree | `/repository` |
//! | inventory | the table `repository` |
//! | OCFL storage | `extensions/ingestd-repository/config.json` below the storage root |
//! | S3 storage | `extensions/ingestd-repository/config.json` below the prefix |
//! | outbox, uploads | `.ingestd-repository.json` |
//!
//! A storage service over HTTP holds none.
//!
//! **When things break.** An id is written once and never overwritten: who comes second reads the first one. A place that cannot be
//! read says so and is compared the next time; one that holds something else than an id is a failure that names it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use ingest_queue::date::Date;
use ingest_queue::nodes::Other;
use serde::{Deserialize, Serialize};

use crate::archive::disk as broken;
use crate::inventory::Inventory;
use crate::outcome::{Failure, Result};
use crate::services::blocking;
use crate::settings::{self, MailBy, Settings};
use crate::storage::s3::{S3, S3Marker};

/// The name of the extension of an OCFL storage root, and of the file in a directory.
const NAME: &str = "ingestd-repository";
/// A longer text is no id.
const LONGEST: usize = 64;

/// Which repository something belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub id: String,
    /// When the repository was begun.
    pub created: Date,
    #[serde(flatten)]
    pub other: Other,
}

impl Identity {
    /// That of a repository which begins now.
    pub fn begin(now: Date) -> Self {
        Self::of(uuid::Uuid::new_v4().to_string(), now)
    }

    pub(crate) fn of(id: String, created: Date) -> Self {
        Self { id, created, other: Other::default() }
    }

    /// Reads what stands in `place`.
    pub(crate) fn read(data: &[u8], place: &str) -> Result<Self> {
        let wrong = |why: String| {
            Failure::fail(format!(
                "{place} does not say which repository it belongs to: {why}; restore it, or remove it if the place is the \
                 right one"
            ))
        };
        let found: Self = serde_json::from_slice(data).map_err(|error| wrong(error.to_string()))?;
        if found.id.is_empty() || found.id.len() > LONGEST || found.id.chars().any(char::is_control) {
            return Err(wrong("its id is none".into()));
        }
        Ok(found)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        // A map with texts as keys can always be written.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (of {})", self.id, self.created)
    }
}

/// A place that holds the id of the repository that it belongs to.
pub(crate) trait Marker: std::fmt::Debug + Send + Sync {
    /// What and where it is, for people.
    fn place(&self) -> String;

    fn read(&self) -> BoxFuture<'_, Result<Option<Identity>>>;

    /// Writes the id where there is none.
    fn write<'a>(&'a self, identity: &'a Identity) -> BoxFuture<'a, Result<()>>;
}

/// Everything beside the tree that holds an id, as the settings say. The inventory comes first.
pub(crate) fn markers(
    settings: &Settings,
    inventory: Option<&Arc<dyn Inventory>>,
) -> Result<Vec<Arc<dyn Marker>>> {
    let mut markers: Vec<Arc<dyn Marker>> = Vec::new();
    if let Some(inventory) = inventory {
        markers.push(Arc::new(OfInventory(inventory.clone())));
    }
    for (name, storage) in &settings.storage {
        let what = format!("the storage `{name}`");
        match storage {
            settings::Storage::Ocfl(ocfl) => markers.push(Arc::new(MarkerFile::of_ocfl(&what, &ocfl.dir))),
            settings::Storage::S3(settings) => {
                markers.push(Arc::new(S3Marker::new(what, &S3::connect(settings)?, NAME)));
            }
            settings::Storage::Http(_) => {}
        }
    }
    if let MailBy::Outbox { dir } = &settings.mail.by {
        markers.push(Arc::new(MarkerFile::of_directory("the outbox", dir)));
    }
    if let Some(dir) = &settings.uploads {
        markers.push(Arc::new(MarkerFile::of_directory("the uploads", dir)));
    }
    Ok(markers)
}

#[derive(Debug)]
struct OfInventory(Arc<dyn Inventory>);

impl Marker for OfInventory {
    fn place(&self) -> String {
        format!("the inventory {}", self.0.place())
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<Identity>>> {
        self.0.identity()
    }

    fn write<'a>(&'a self, identity: &'a Identity) -> BoxFuture<'a, Result<()>> {
        self.0.identify(identity)
    }
}

/// A file in a directory.
#[derive(Debug, Clone)]
pub(crate) struct MarkerFile {
    what: String,
    path: PathBuf,
    /// An extension of an OCFL storage root says which one it is.
    of_ocfl: bool,
}

impl MarkerFile {
    fn of_ocfl(what: &str, root: &Path) -> Self {
        let path = root.join("extensions").join(NAME).join("config.json");
        Self { what: what.to_owned(), path, of_ocfl: true }
    }

    fn of_directory(what: &str, dir: &Path) -> Self {
        Self { what: what.to_owned(), path: dir.join(format!(".{NAME}.json")), of_ocfl: false }
    }
}

impl Marker for MarkerFile {
    fn place(&self) -> String {
        format!("{} ({})", self.what, self.path.display())
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<Identity>>> {
        let (path, place) = (self.path.clone(), self.place());
        let read = blocking("reading the repository's id", move || match fs::read(&path) {
            Ok(data) => Identity::read(&data, &place).map(Some),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(broken(&path, &error)),
        });
        read.boxed()
    }

    fn write<'a>(&'a self, identity: &'a Identity) -> BoxFuture<'a, Result<()>> {
        let (path, mut identity) = (self.path.clone(), identity.clone());
        identity.other.clear();
        if self.of_ocfl {
            identity.other.insert("extensionName".to_owned(), NAME.into());
        }
        blocking("writing the repository's id", move || {
            write_new(&path, &identity.write()).map_err(|error| broken(&path, &error))
        })
        .boxed()
    }
}

/// Writes a file that appears whole, unless there is one.
fn write_new(path: &Path, data: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    // Others who may read the directory may read it: it is no secret.
    let readable = fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new().prefix(".").permissions(readable).tempfile_in(dir)?;
    file.write_all(data)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error.error),
    }
    fs::File::open(dir)?.sync_all()
}

/// The ids that are there, each once.
pub(crate) fn ids<'a>(found: impl IntoIterator<Item = &'a Identity>) -> BTreeSet<&'a str> {
    found.into_iter().map(|identity| identity.id.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity::begin(Date::from_millis(1_763_000_000_000))
    }

    #[tokio::test]
    async fn an_id_is_written_once_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        for marker in
            [MarkerFile::of_directory("x", &dir.path().join("new")), MarkerFile::of_ocfl("x", dir.path())]
        {
            assert_eq!(marker.read().await.unwrap(), None);
            let (first, second) = (identity(), identity());
            marker.write(&first).await.unwrap();
            marker.write(&second).await.unwrap();
            assert_eq!(marker.read().await.unwrap().unwrap().id, first.id);
            let dir = marker.path.parent().unwrap();
            assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "nothing else is left there");
        }
    }

    #[tokio::test]
    async fn an_extension_of_a_storage_root_has_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        MarkerFile::of_ocfl("x", dir.path()).write(&identity()).await.unwrap();
        let file = dir.path().join("extensions/ingestd-repository/config.json");
        let config: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(config["extensionName"], "ingestd-repository");
    }

    #[tokio::test]
    async fn what_is_no_id_is_a_failure_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let marker = MarkerFile::of_directory("the outbox", dir.path());
        for wrong in ["", "}", "{}", "{\"id\":\"\",\"created\":\"2026-11-16T01:43:45.000Z\"}"] {
            fs::write(&marker.path, wrong).unwrap();
            let failure = marker.read().await.unwrap_err();
            assert!(
                matches!(&failure, Failure::Fail(why) if why.contains(".ingestd-repository.json")),
                "{failure}"
            );
        }
    }
}
