//! The embedded engine: a durable znode tree in one file, for a node that has nothing but itself.
//!
//! It has ZooKeeper's semantics: versions, counters, ephemeral and sequential nodes, multis that
//! apply wholly or not at all, watches. Any number of sessions live in the one process that has the
//! file open; a session ends when it is closed, or with the process.
//!
//! - `record`: how a node lies in the file
//! - `file`: opening, the lock against a second process, reading
//! - `batch`: the rules of the tree
//! - `writer`: the thread that commits many requests together
//! - `watches`: who is told
//!
//! **Limits.** Access lists and authentication have no meaning here: whoever can write the directory
//! owns the tree. Reads take a snapshot and never wait for writers.

mod batch;
mod file;
mod record;
mod watches;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::RwLock;
use tokio::sync::{oneshot, watch};

use self::file::Snapshot;
use self::record::{children_range, key};
use self::writer::{Command, Writer};
use crate::engine::{Engine, EngineSession};
use crate::error::{Error, Kind, Result};
use crate::node::{Reply, Request, Stat};
use crate::path::is_within;
use crate::watch::{EventQueue, ExistsWatch, SessionState, SessionStatus, TreeWatch};

/// What a session of the other engine has by default.
const NOMINAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A listing longer than this is made off the async threads.
const LONG_LISTING: i32 = 1000;

/// Where the tree lies and how much memory it may use.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddedConfig {
    /// A directory that belongs to this process alone; made if it is not there.
    pub dir: PathBuf,
    /// Bytes of the file that are kept in memory.
    #[serde(default = "default_cache")]
    pub cache: usize,
}

fn default_cache() -> usize {
    64 << 20
}

impl EmbeddedConfig {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), cache: default_cache() }
    }
}

/// What the engine needs of a disk, for tests that lose power: see [`Embedded::open_on`].
#[allow(clippy::len_without_is_empty)]
pub trait Disk: std::fmt::Debug + Send + Sync + 'static {
    fn len(&self) -> std::io::Result<u64>;
    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()>;
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()>;
    fn set_len(&self, len: u64) -> std::io::Result<()>;
    /// Returns when everything written so far would survive a loss of power.
    fn sync(&self) -> std::io::Result<()>;
}

/// An open tree. Clones are the same tree; the file is closed with the last of them and of the
/// sessions, or by [`Embedded::close`].
#[derive(Debug, Clone)]
pub struct Embedded {
    commands: Sender<Command>,
    published: Arc<RwLock<Arc<Snapshot>>>,
}

impl Embedded {
    /// Opens the tree in a directory, or makes it. Blocks: after a crash, for as long as the check takes.
    pub fn open(config: &EmbeddedConfig) -> Result<Self> {
        Self::start(file::open(&config.dir, config.cache)?)
    }

    /// Opens the tree on a disk of the caller's own.
    pub fn open_on(disk: impl Disk) -> Result<Self> {
        Self::start(file::open_on(Box::new(disk), default_cache())?)
    }

    fn start(file: file::TreeFile) -> Result<Self> {
        let (writer, published) = Writer::new(file)?;
        let (commands, received) = std::sync::mpsc::channel();
        std::thread::Builder::new()
            .name("embedded-store".into())
            .spawn(move || writer.run(&received))
            .map_err(|error| Error::new(Kind::Disk, format!("no thread for the writer: {error}")))?;
        Ok(Self { commands, published })
    }

    /// Ends all sessions and closes the file. When it returns, another process can open it.
    pub async fn close(self) {
        let (reply, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop { reply }).is_ok() {
            let _ = stopped.await;
        }
    }

    /// Ends a session as a ZooKeeper server ends one that it has not heard of for too long.
    pub async fn expire_session(&self, session: i64) -> Result<()> {
        end(self.commands.clone(), session, SessionState::Expired).await
    }
}

impl Engine for Embedded {
    fn open_session(&self) -> BoxFuture<'_, Result<Arc<dyn EngineSession>>> {
        async move {
            let id = i64::from(rand::random::<u32>() >> 1) << 32 | i64::from(rand::random::<u32>()) | 1;
            let (sender, status) =
                watch::channel(SessionStatus { state: SessionState::Connected, connections: 1 });
            let (reply, opened) = oneshot::channel();
            ask(&self.commands, Command::Open { session: id, status: sender, reply }, opened).await?;
            let (commands, published) = (self.commands.clone(), self.published.clone());
            Ok(Arc::new(EmbeddedSession { id, status, commands, published }) as Arc<dyn EngineSession>)
        }
        .boxed()
    }

    fn name(&self) -> &'static str {
        "embedded"
    }
}

#[derive(Debug)]
struct EmbeddedSession {
    id: i64,
    status: watch::Receiver<SessionStatus>,
    commands: Sender<Command>,
    published: Arc<RwLock<Arc<Snapshot>>>,
}

impl EngineSession for EmbeddedSession {
    fn id(&self) -> i64 {
        self.id
    }

    fn timeout(&self) -> Duration {
        // There is no connection to lose and so nothing to outlive; but what callers compute from it
        // (how long to wait, when to give up) has to make sense here too.
        NOMINAL_TIMEOUT
    }

    fn status(&self) -> watch::Receiver<SessionStatus> {
        self.status.clone()
    }

    fn send(&self, request: Request) -> BoxFuture<'static, Result<Reply>> {
        match request {
            Request::Get(_)
            | Request::GetMany(_)
            | Request::Exists(_)
            | Request::Children(_)
            | Request::Ephemerals(_) => {
                let (snapshot, session) = (self.published.read().clone(), self.id);
                async move { read(snapshot, session, request).await }.boxed()
            }
            request => {
                let (reply, answered) = oneshot::channel();
                let command = Command::Send { session: self.id, request, reply };
                ask(&self.commands, command, answered).boxed()
            }
        }
    }

    fn watch_exists(&self, path: String) -> BoxFuture<'static, Result<(Option<Stat>, ExistsWatch)>> {
        let (fire, watch) = ExistsWatch::new();
        let (reply, answered) = oneshot::channel();
        let asked =
            ask(&self.commands, Command::WatchExists { session: self.id, path, fire, reply }, answered);
        async move { Ok((asked.await?, watch)) }.boxed()
    }

    fn watch_tree(&self, path: String, backlog: usize) -> BoxFuture<'static, Result<TreeWatch>> {
        let queue = EventQueue::new(backlog);
        let (reply, answered) = oneshot::channel();
        let command =
            Command::WatchTree { session: self.id, path: path.clone(), queue: queue.clone(), reply };
        let asked = ask(&self.commands, command, answered);
        async move {
            asked.await?;
            Ok(TreeWatch::new(path, queue, None))
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        end(self.commands.clone(), self.id, SessionState::Closed).boxed()
    }
}

impl Drop for EmbeddedSession {
    fn drop(&mut self) {
        // Without a handle nobody can use or close it: its locks must not stay for the process's life.
        let (reply, _) = oneshot::channel();
        let _ = self.commands.send(Command::End { session: self.id, state: SessionState::Closed, reply });
    }
}

async fn end(commands: Sender<Command>, session: i64, state: SessionState) -> Result<()> {
    let (reply, ended) = oneshot::channel();
    ask(&commands, Command::End { session, state, reply }, ended).await
}

/// Hands a command to the writer, at once, and waits for its answer.
fn ask<T>(
    commands: &Sender<Command>,
    command: Command,
    answered: oneshot::Receiver<Result<T>>,
) -> impl Future<Output = Result<T>> + use<T> {
    // A writer that is gone drops the command, and with it the other end of `answered`.
    let _ = commands.send(command);
    async move { answered.await.unwrap_or_else(|_| Err(Error::new(Kind::Closed, "the store is closed"))) }
}

async fn read(snapshot: Arc<Snapshot>, session: i64, request: Request) -> Result<Reply> {
    match request {
        Request::Get(path) => {
            let node = snapshot.node(&key(&path))?.ok_or_else(|| Error::at(Kind::NoNode, &path))?;
            Ok(Reply::Get { stat: node.stat(), data: node.data })
        }
        Request::GetMany(paths) => {
            let get = |path: String| {
                Ok(snapshot.node(&key(&path))?.map(|node| {
                    let stat = node.stat();
                    (node.data, stat)
                }))
            };
            paths.into_iter().map(get).collect::<Result<_>>().map(Reply::GetMany)
        }
        Request::Exists(path) => Ok(Reply::Exists(snapshot.node(&key(&path))?.map(|node| node.stat()))),
        Request::Children(path) => {
            let node = snapshot.node(&key(&path))?.ok_or_else(|| Error::at(Kind::NoNode, &path))?;
            let names = if node.children > LONG_LISTING {
                tokio::task::spawn_blocking(move || snapshot.names(children_range(&path)))
                    .await
                    .map_err(|error| Error::new(Kind::Unexpected, error.to_string()))?
            } else {
                snapshot.names(children_range(&path))
            }?;
            Ok(Reply::Children { names, stat: node.stat() })
        }
        Request::Ephemerals(below) => {
            let mut paths = snapshot.owned(Some(session))?;
            paths.retain(|path| is_within(path, &below));
            Ok(Reply::Ephemerals(paths))
        }
        other => Err(Error::new(Kind::Unexpected, format!("not a read: {other:?}"))),
    }
}
