//! The file below the embedded engine: opened by one process, checked before it is used.
//!
//! `DIR/tree.redb` is the tree; `DIR/pid` is locked while a process has it open, and names that
//! process. The lock is the operating system's, so it ends with its process however that ends.
//!
//! **When things break.** A directory that cannot be written, a file of another program or another
//! format, a damaged file: each is refused with the file's name and what to do. redb panics on some
//! damage; such a panic is caught and becomes [`Kind::Corrupt`]. After a crash redb checks the file and
//! goes back to the last commit that is whole; that is logged with its progress.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, TableDefinition};

use super::Disk;
use super::record::{FORMAT, Key, Node, key};
use crate::error::{Error, Kind, Result};

pub(super) const NODES: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("nodes");
/// The index of ephemeral nodes; its keys are [`owned_key`](super::record::owned_key)s.
pub(super) const EPHEMERALS: TableDefinition<'static, &'static [u8], ()> = TableDefinition::new("ephemerals");
pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
pub(super) const META_ZXID: &str = "zxid";
const META_FORMAT: &str = "format";

/// The database and the lock that goes with it. Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct TreeFile {
    pub(super) database: Database,
    _lock: Option<File>,
}

/// Opens or makes the tree in a directory.
pub(super) fn open(dir: &Path, cache: usize) -> Result<TreeFile> {
    std::fs::create_dir_all(dir).map_err(|error| unusable(dir, &error))?;
    let lock = lock(dir)?;
    let path = dir.join("tree.redb");
    if !path.try_exists().map_err(|error| unusable(&path, &error))? {
        make(dir, &path, cache)?;
    }
    let file =
        OpenOptions::new().read(true).write(true).open(&path).map_err(|error| unusable(&path, &error))?;
    // redb would take it for a new one; but a tree has its name only when it is whole.
    if file.metadata().map_err(|error| unusable(&path, &error))?.len() == 0 {
        return Err(unreadable(&path, &"it is empty"));
    }
    let database = caught(|| Ok(builder(cache, &path).create_file(file)))
        .map_err(|error| unreadable(&path, &error))?
        .map_err(|error| unreadable(&path, &error))?;
    check_format(&database, &path)?;
    Ok(TreeFile { database, _lock: Some(lock) })
}

/// Makes an empty tree under another name and gives it its own when it is whole and on disk: whoever
/// is cut off in the middle leaves nothing that looks like a damaged tree.
fn make(dir: &Path, path: &Path, cache: usize) -> Result<()> {
    let unfinished = dir.join("tree.redb.new");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&unfinished)
        .map_err(|error| unusable(&unfinished, &error))?;
    let database =
        builder(cache, &unfinished).create_file(file).map_err(|error| unreadable(&unfinished, &error))?;
    make_root(&database).map_err(|error| unreadable(&unfinished, &error))?;
    drop(database);
    File::open(&unfinished)
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(&unfinished, path))
        .and_then(|()| File::open(dir))
        .and_then(|dir| dir.sync_all())
        .map_err(|error| unusable(path, &error))
}

/// Opens or makes the tree on a disk of the caller's own.
pub(super) fn open_on(disk: Box<dyn Disk>, cache: usize) -> Result<TreeFile> {
    let path = PathBuf::from("the given disk");
    let new = disk.len().map_err(|error| unusable(&path, &error))? == 0;
    let database = builder(cache, &path)
        .create_with_backend(Backend(disk))
        .map_err(|error| unreadable(&path, &error))?;
    if new {
        make_root(&database).map_err(|error| unreadable(&path, &error))?;
    }
    check_format(&database, &path)?;
    Ok(TreeFile { database, _lock: None })
}

fn builder(cache: usize, path: &Path) -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(cache);
    let path = path.display().to_string();
    builder.set_repair_callback(move |repair| {
        let percent = (repair.progress() * 100.0).round();
        tracing::info!(file = path, percent, "checking the tree after an unclean end");
    });
    builder
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("pid");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| unusable(&path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // What is wrong is known already; the pid is a courtesy.
            let _ = file.read_to_string(&mut pid);
            let pid = if pid.trim().is_empty() { "unknown" } else { pid.trim() };
            let why = format!(
                "{} is open in process {pid}; stop it, or give this one a directory of its own",
                dir.display()
            );
            return Err(Error::new(Kind::InUse, why));
        }
        Err(TryLockError::Error(error)) => return Err(unusable(&path, &error)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .and_then(|()| file.sync_all())
        .map_err(|error| unusable(&path, &error))?;
    Ok(file)
}

/// Refuses what is not a tree of ingestd, or is one of another format, or not a whole one.
fn check_format(database: &Database, path: &Path) -> Result<()> {
    let format = caught(|| {
        let meta = database.begin_read().map_err(failed)?.open_table(META).map_err(failed)?;
        Ok(meta.get(META_FORMAT).map_err(failed)?.map(|guard| guard.value()))
    })
    .map_err(|error| {
        Error::new(Kind::Corrupt, format!("{} is not a tree of ingestd ({error})", path.display()))
    })?;
    if format != Some(FORMAT) {
        let found = format.map_or("none".to_owned(), |format| format.to_string());
        let why = format!(
            "{} has format {found}, and this program knows format {FORMAT}: use the version that wrote it",
            path.display()
        );
        return Err(Error::new(Kind::Corrupt, why));
    }
    caught(|| Snapshot::take(database)).map(|_| ()).map_err(|error| unreadable(path, &error))
}

fn make_root(database: &Database) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    write.open_table(META)?.insert(META_FORMAT, FORMAT)?;
    write.open_table(META)?.insert(META_ZXID, 0)?;
    write.open_table(EPHEMERALS)?;
    write.open_table(NODES)?.insert(key("/").as_slice(), Node::default().encode().as_slice())?;
    write.commit()?;
    Ok(())
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    let why = format!("{}: {error}; the embedded store needs a directory that it can write", path.display());
    Error::new(Kind::Disk, why)
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    let why = format!(
        "{} cannot be read as a tree ({error}): it was cut short, damaged, or written by another program; \
         restore it from a backup, or move it away to begin with an empty tree",
        path.display()
    );
    Error::new(Kind::Corrupt, why)
}

/// A failure of the database while it is in use.
pub(super) fn failed(error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    let kind = match error {
        redb::Error::Io(_) | redb::Error::PreviousIo => Kind::Disk,
        _ => Kind::Corrupt,
    };
    Error::new(kind, error.to_string())
}

/// Runs what reads or writes pages: where a damaged page makes redb panic, the caller gets an error.
pub(super) fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing outside is left half-changed: a panic ends the use of whatever `run` holds.
    std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let why = format!("a page of the tree is damaged ({})", text.unwrap_or("no reason given"));
        Err(Error::new(Kind::Corrupt, why))
    })
}

/// A caller's [`Disk`] as redb wants it.
#[derive(Debug)]
struct Backend(Box<dyn Disk>);

impl redb::StorageBackend for Backend {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }
}

/// The tree as of one commit, readable from any thread.
pub(super) struct Snapshot {
    nodes: redb::ReadOnlyTable<&'static [u8], &'static [u8]>,
    ephemerals: redb::ReadOnlyTable<&'static [u8], ()>,
}

impl Snapshot {
    pub(super) fn take(database: &Database) -> Result<Self> {
        let read = database.begin_read().map_err(failed)?;
        let nodes = read.open_table(NODES).map_err(failed)?;
        let ephemerals = read.open_table(EPHEMERALS).map_err(failed)?;
        Ok(Self { nodes, ephemerals })
    }

    pub(super) fn node(&self, key: &[u8]) -> Result<Option<Node>> {
        caught(|| match self.nodes.get(key).map_err(failed)? {
            Some(guard) => Node::decode(guard.value()).map(Some),
            None => Ok(None),
        })
    }

    /// The names between two keys of one parent, without the first `skip` bytes of each key.
    pub(super) fn names(&self, range: (Key, Key, usize)) -> Result<Vec<String>> {
        caught(|| self.names_in(range))
    }

    fn names_in(&self, (from, to, skip): (Key, Key, usize)) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.nodes.range(from.as_slice()..to.as_slice()).map_err(failed)? {
            let (key, _) = entry.map_err(failed)?;
            let name = key.value().get(skip..).and_then(|name| std::str::from_utf8(name).ok());
            names
                .push(name.ok_or_else(|| Error::new(Kind::Corrupt, "a node's name is not text"))?.to_owned());
        }
        Ok(names)
    }

    /// The ephemeral nodes of a session, or of all.
    pub(super) fn owned(&self, session: Option<i64>) -> Result<Vec<String>> {
        caught(|| self.owned_by(session))
    }

    fn owned_by(&self, session: Option<i64>) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        let from = session.map_or(Key::new(), |session| session.to_be_bytes().to_vec());
        for entry in self.ephemerals.range(from.as_slice()..).map_err(failed)? {
            let (key, ()) = entry.map(|(key, _)| (key, ())).map_err(failed)?;
            let Some((owner, path)) = key.value().split_first_chunk::<8>() else {
                return Err(Error::new(
                    Kind::Corrupt,
                    "an entry of the index of ephemeral nodes is too short",
                ));
            };
            if session.is_some_and(|session| session.to_be_bytes() != *owner) {
                break;
            }
            paths.push(String::from_utf8_lossy(path).into_owned());
        }
        Ok(paths)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}
