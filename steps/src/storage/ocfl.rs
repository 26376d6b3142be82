//! An OCFL 1.1 repository in a directory.
//!
//! The storage root holds `0=ocfl_1.1`, `ocfl_layout.json`, the layout extension's `config.json`
//! (0004-hashed-n-tuple-storage-layout: sha256, three tuples of three), the id of the repository (`extensions/ingestd-repository`,
//! see [`crate::identity`]) and objects, nothing else. What is
//! being made lies in a staging directory beside the root (`ROOT.staging`, or one that is named) on the same
//! file system, for OCFL allows no foreign directories in a root.
//!
//! Objects have a sha512 inventory; md5, sha-1 and sha-256 values that a request knew, and that were right,
//! are in its fixity block. Files are copied, never linked, and each digest is computed on the way. The key
//! of a store is the last line of its version's message: `Ingest-Key: KEY`.
//!
//! A version is built and synced in staging, then committed by renames: a new object is one rename; a
//! further version is `vN`, then the root's `inventory.json`, then its sidecar, each synced.
//!
//! Within a process one store at a time works on an object. Between processes a lock on a file in staging
//! does the same (`flock`, so it ends with its process), and a store whose object has moved on since it
//! began is refused.
//!
//! **When things break.** Killed before its first rename, a store has done nothing but leave files in
//! staging, or empty directories where its object would be. Killed after it, the version is there:
//! [`Ocfl::recover`], which every store begins with, reads its content again and finishes the commit.
//! Readers believe a root inventory that its own sidecar or its head version's sidecar vouches for, so they
//! see the old version or the new one at every moment. An object that is damaged in any other way is left
//! alone and named, and [`Storage::audit`] tells everything that is wrong with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::json;

use super::disk::{Disk, at, open_plain, read_pieces};
use super::turns::Turns;
use super::{
    Audit, Content, Entry, Kept, Storage, StoreRequest, Stored, StoredManifest, check_ark, off_runtime,
    stop_if,
};
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};

mod audit;
mod inventory;
mod object;
mod version;
mod walk;

const ROOT_NAMASTE: &str = "0=ocfl_1.1";
const LAYOUT: &str = "0004-hashed-n-tuple-storage-layout";
const TUPLES: usize = 3;
const TUPLE_SIZE: usize = 3;

/// A repository in a directory.
#[derive(Debug)]
pub struct Ocfl {
    repository: Arc<Repository>,
    turns: Turns,
}

/// What blocking work needs of it.
#[derive(Debug)]
struct Repository {
    root: PathBuf,
    staging: PathBuf,
    disk: Disk,
}

impl Ocfl {
    /// Opens a storage root, or makes one where nothing is. Blocks.
    pub fn open(root: &Path, staging: Option<&Path>) -> Result<Self> {
        Self::open_on(root, staging, Disk::default())
    }

    /// The same on a disk that can be made to fail. Blocks.
    pub fn open_on(root: &Path, staging: Option<&Path>, disk: Disk) -> Result<Self> {
        let beside = || {
            let mut name = root.file_name().unwrap_or_default().to_owned();
            name.push(".staging");
            root.with_file_name(name)
        };
        let staging = staging.map_or_else(beside, Path::to_path_buf);
        if staging.starts_with(root) {
            return Err(Failure::fail(format!(
                "the staging directory {} lies in the OCFL root, which may hold nothing but objects; name \
                 one outside",
                staging.display()
            )));
        }
        let repository = Repository { root: root.to_path_buf(), staging, disk };
        repository.prepare()?;
        Ok(Self { repository: Arc::new(repository), turns: Turns::default() })
    }

    /// Repairs what a killed store of this object left. A store does so by itself.
    pub async fn recover(&self, ark: &str) -> Result<()> {
        check_ark(ark)?;
        self.with_turn(ark, |repository, ark| {
            let place = repository.place(&ark);
            let _lock = place.lock()?;
            repository.repair(&place)
        })
        .await
    }

    /// Blocking work on one object, alone in this process. If the caller goes away the work still ends, and
    /// keeps its turn until then.
    async fn with_turn<T: Send + 'static>(
        &self,
        ark: &str,
        work: impl FnOnce(Arc<Repository>, String) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turns.take(ark).await;
        let (repository, ark) = (Arc::clone(&self.repository), ark.to_owned());
        off_runtime(move || {
            let result = work(repository, ark);
            drop(turn);
            result
        })
        .await
    }
}

impl Repository {
    fn prepare(&self) -> Result<()> {
        for directory in [&self.root, &self.staging] {
            // Synced from the first directory that is there: a root whose own name is lost is lost with all in it.
            let whole = std::path::absolute(directory).map_err(at("find", directory))?;
            let top = whole.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
            self.disk.make_dirs(top, &whole).map_err(at("make", directory))?;
        }
        let device = |path: &PathBuf| {
            let found = fs::metadata(path).map_err(at("look at", path))?;
            Ok::<_, Failure>(std::os::unix::fs::MetadataExt::dev(&found))
        };
        if device(&self.root)? != device(&self.staging)? {
            return Err(Failure::fail(format!(
                "{} and {} are on different file systems, and a rename has to lead from one to the other; \
                 name a staging directory on the root's",
                self.staging.display(),
                self.root.display()
            )));
        }
        let namaste = self.root.join(ROOT_NAMASTE);
        if namaste.exists() { self.check_layout() } else { self.make_root_alone(&namaste) }
    }

    /// Nodes that are started together find the same empty directory: one of them makes the root.
    fn make_root_alone(&self, namaste: &Path) -> Result<()> {
        let path = self.staging.join("root.lock");
        let file = fs::File::create(&path).map_err(at("make", &path))?;
        file.lock().map_err(at("lock", &path))?;
        let made = if namaste.exists() { self.check_layout() } else { self.make_root(namaste) };
        // Whoever holds a lock on the file that goes here finds the root made, and makes nothing. Another may have
        // removed it.
        if made.is_ok() {
            let _ = fs::remove_file(&path);
        }
        made
    }

    fn layout_config() -> serde_json::Value {
        json!({
            "extensionName": LAYOUT,
            "digestAlgorithm": "sha256",
            "tupleSize": TUPLE_SIZE,
            "numberOfTuples": TUPLES,
            "shortObjectRoot": false,
        })
    }

    fn layout_path(&self) -> PathBuf {
        self.root.join("extensions").join(LAYOUT)
    }

    /// The namaste file comes last: without it the rest is not yet a root, and is made again.
    fn make_root(&self, namaste: &Path) -> Result<()> {
        let known = ["extensions", "ocfl_layout.json"];
        for entry in fs::read_dir(&self.root).map_err(at("list", &self.root))? {
            let name = entry.map_err(at("list", &self.root))?.file_name();
            if !known.iter().any(|known| name == *known) {
                return Err(Failure::fail(format!(
                    "{} holds `{}` but no `{ROOT_NAMASTE}`, so it is no OCFL root; name an empty directory",
                    self.root.display(),
                    name.display()
                )));
            }
        }
        let extension = self.layout_path();
        let description = "Objects lie in three tuples of three digits of the sha256 of their identifier, in a \
                           directory named by all of it.";
        let layout = json!({ "extension": LAYOUT, "description": description });
        self.disk.make_dirs(&self.root, &extension).map_err(at("make", &extension))?;
        let files = [
            (extension.join("config.json"), format!("{:#}\n", Self::layout_config())),
            (self.root.join("ocfl_layout.json"), format!("{layout:#}\n")),
            (namaste.to_path_buf(), "ocfl_1.1\n".to_owned()),
        ];
        for (path, content) in files {
            // Staged and moved, so that none of them is ever there in part.
            let staged = self.staging.join("root.part");
            if staged.exists() {
                self.disk.remove_file(&staged).map_err(at("remove", &staged))?;
            }
            self.disk.write(&staged, content.as_bytes()).map_err(at("write", &staged))?;
            self.disk.rename(&staged, &path).map_err(at("write", &path))?;
            let parent = path.parent().unwrap_or(&self.root);
            self.disk.sync_dir(parent).map_err(at("sync", parent))?;
        }
        Ok(())
    }

    fn check_layout(&self) -> Result<()> {
        let path = self.layout_path().join("config.json");
        let bytes = fs::read(&path).map_err(at("read", &path))?;
        let found: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::fail(format!("{}: {error}", path.display())))?;
        if found != Self::layout_config() {
            return Err(Failure::fail(format!(
                "{} describes another layout than sha256 in {TUPLES} tuples of {TUPLE_SIZE}; use another root",
                path.display()
            )));
        }
        Ok(())
    }

    fn manifest(&self, ark: &str, version: Option<u32>) -> Result<Option<StoredManifest>> {
        let Some(loaded) = self.place(ark).load()? else { return Ok(None) };
        let head = loaded.head;
        let number = version.unwrap_or(head);
        let Some(said) = loaded.inventory.version(number) else { return Ok(None) };
        Ok(Some(StoredManifest {
            ark: ark.to_owned(),
            version: number,
            head,
            created: said.created.clone(),
            message: said.text().to_owned(),
            key: said.key().map(str::to_owned),
            files: loaded.files(number)?,
        }))
    }

    fn version_of(&self, ark: &str, key: &str) -> Result<Option<Stored>> {
        let Some(loaded) = self.place(ark).load()? else { return Ok(None) };
        let version = loaded.inventory.version_of(key);
        version.map(|version| version::stored(&loaded, version, true)).transpose()
    }

    fn find(&self, ark: &str, version: u32, path: &str) -> Result<(fs::File, u64, Digest)> {
        let missing = || Failure::fail(format!("{ark} has no version {version} with a file `{path}`"));
        let loaded = self.place(ark).load()?.ok_or_else(missing)?;
        let said = loaded.inventory.version(version).ok_or_else(missing)?;
        let hex = said.paths().get(path).copied().ok_or_else(missing)?.to_owned();
        let digest =
            Digest::new(Algorithm::Sha512, &hex).map_err(|error| Failure::fail(error.to_string()))?;
        let location = loaded.location(&hex).ok_or_else(missing)?;
        let file = open_plain(&location).map_err(at("open", &location))?;
        let size = file.metadata().map_err(at("look at", &location))?.len();
        Ok((file, size, digest))
    }
}

/// A file as a stream that fails at its end if the content is not what was stored. Runs off the runtime and
/// is never more than a few pieces ahead of its reader.
fn stream(file: fs::File, digest: Digest, name: String) -> BoxStream<'static, Result<Bytes>> {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes>>(4);
    tokio::task::spawn_blocking(move || {
        let mut digests = Digests::of([digest.algorithm()]);
        let ended = read_pieces(&file, |piece| {
            digests.update(piece);
            Ok(sender.blocking_send(Ok(Bytes::copy_from_slice(piece))).is_ok())
        });
        let last = match ended {
            Ok(true) if digests.finish() != [digest] => {
                Failure::fail(format!("`{name}` is damaged: what was read is not what was stored; audit it"))
            }
            Ok(_) => return,
            Err(error) => at("read", Path::new(&name))(error),
        };
        // Nobody listens any more: nobody is told.
        let _ = sender.blocking_send(Err(last));
    });
    receive(receiver)
}

fn receive<T: Send + 'static>(receiver: tokio::sync::mpsc::Receiver<T>) -> BoxStream<'static, T> {
    futures::stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) })
        .boxed()
}

impl Storage for Ocfl {
    fn store<'a>(
        &'a self,
        request: &'a StoreRequest,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Stored>> {
        async move {
            request.check()?;
            let (request, progress, cancel) = (request.clone(), progress.clone(), cancel.clone());
            self.with_turn(&request.ark.clone(), move |repository, _| {
                repository.store(&request, &progress, &cancel)
            })
            .await
        }
        .boxed()
    }

    fn version_of<'a>(&'a self, ark: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Stored>>> {
        let (repository, ark, key) = (Arc::clone(&self.repository), ark.to_owned(), key.to_owned());
        async move {
            check_ark(&ark)?;
            off_runtime(move || repository.version_of(&ark, &key)).await
        }
        .boxed()
    }

    fn manifest<'a>(
        &'a self,
        ark: &'a str,
        version: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<StoredManifest>>> {
        let (repository, ark) = (Arc::clone(&self.repository), ark.to_owned());
        async move {
            check_ark(&ark)?;
            off_runtime(move || repository.manifest(&ark, version)).await
        }
        .boxed()
    }

    fn open<'a>(&'a self, ark: &'a str, version: u32, path: &'a str) -> BoxFuture<'a, Result<Content>> {
        let (repository, ark, path) = (Arc::clone(&self.repository), ark.to_owned(), path.to_owned());
        async move {
            check_ark(&ark)?;
            let name = format!("{ark} v{version} {path}");
            let (file, size, digest) = off_runtime(move || repository.find(&ark, version, &path)).await?;
            Ok(Content { size, digest: digest.clone(), stream: stream(file, digest, name) })
        }
        .boxed()
    }

    fn audit<'a>(
        &'a self,
        ark: &'a str,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Audit>> {
        let (progress, cancel) = (progress.clone(), cancel.clone());
        async move {
            check_ark(ark)?;
            // Only the look at the object's root keeps stores waiting: versions never change.
            let work = |repository: Arc<Repository>, ark: String| {
                audit::snapshot(&repository, &repository.place(&ark))
            };
            let Some(snapshot) = self.with_turn(ark, work).await? else { return Ok(Audit::absent(ark)) };
            let place = self.repository.place(ark);
            off_runtime(move || audit::audit(&place, snapshot, &progress, &cancel)).await
        }
        .boxed()
    }

    fn entries(&self) -> BoxStream<'_, Result<Entry>> {
        let (sender, receiver) = tokio::sync::mpsc::channel(64);
        let repository = Arc::clone(&self.repository);
        tokio::task::spawn_blocking(move || {
            repository.walk(&mut |found| sender.blocking_send(found).is_ok());
        });
        receive(receiver)
    }
}
