//! The queue: plans made from what is read, and committed.
//!
//! One [`Queue`] belongs to one session of one node. What it can do is spread over the files of its
//! nouns: [`crate::jobs`], [`crate::batches`], [`crate::holds`], [`crate::access`].
//!
//! **When things break.** See [`crate::committer`] for lost answers and [`ingest_store::recipes::lock_table`] for
//! locks. After the session's end everything that was leased is lost; a new session gets a new queue.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ingest_store::recipes::lock_table::LockTable;
use ingest_store::recipes::{settle, shard};
use ingest_store::{Kind, Session, Stat};
use parking_lot::Mutex;

use crate::committer::{Committer, Counts, Serving, Together};
use crate::date::{Clock, Date};
use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::holds::Holds;
use crate::jobs::Known;
use crate::limits::Limits;
use crate::map;
use crate::nodes::{Node, Owner};
use crate::numbers::Numbers;
pub use crate::numbers::SeenNumbers;
use crate::plan::claim::Taker;
use crate::plan::{Lock, Scene};
use crate::reads;

/// How a node takes part.
#[derive(Debug, Clone)]
pub struct Settings {
    pub dialect: Dialect,
    /// This node, for people.
    pub node: String,
    /// This life of the node: no other has the same.
    pub incarnation: String,
    /// How often a job may crash or stall its worker before it fails as poison.
    pub max_timeouts: u32,
    pub together: Together,
    /// Where commits are counted: by one session after the other.
    pub counts: Arc<Counts>,
    /// The numbers that were seen in use: by one session after the other.
    pub seen: Arc<SeenNumbers>,
}

impl Settings {
    /// The defaults, and an incarnation of its own.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            dialect: Dialect::default(),
            node: node.into(),
            incarnation: uuid::Uuid::new_v4().simple().to_string(),
            max_timeouts: 10,
            together: Together::default(),
            counts: Arc::default(),
            seen: Arc::default(),
        }
    }
}

/// Two of these at random are the same once in 2^48.
const PEN: usize = 12;

/// A node's way to the queue. Clones are the same.
#[derive(Debug, Clone)]
pub struct Queue {
    pub(crate) session: Session,
    pub(crate) locks: LockTable,
    pub(crate) committer: Committer,
    /// Where reads of jobs go together.
    pub(crate) reads: reads::Gathered,
    pub(crate) clock: Clock,
    pub(crate) settings: Arc<Settings>,
    /// The holds as they were last read. A commit that rests on them checks that they are still so.
    pub(crate) holds: Arc<Mutex<Option<Arc<Holds>>>>,
    /// For whoever tells people.
    pub(crate) alerts: tokio::sync::broadcast::Sender<crate::journal::Alert>,
    /// Jobs that have just been moved on here.
    pub(crate) known: Arc<Mutex<Known>>,
    pub(crate) limits: Arc<Limits>,
    /// Many may lock objects at one time, or one removes what is left of such a lock; see [`crate::names`].
    pub(crate) naming: Arc<tokio::sync::RwLock<()>>,
    pub(crate) numbers: Numbers,
    /// Long lists, from one page to the next.
    pub(crate) lists: Arc<crate::list::Kept>,
    /// Where this node begins to look for a slot.
    pub(crate) spread: u32,
    /// The beginning of the names of all commits from here, and the number of the next. It stands in every
    /// entry of every history, so it is short.
    pen: String,
    commits: Arc<AtomicU64>,
}

impl Queue {
    /// Takes part in the queue of this tree, and makes the directories that it lacks.
    pub async fn open(session: &Session, settings: Settings, clock: Clock) -> Result<Self> {
        Self::make_directories(session, settings.dialect).await?;
        Ok(Self::on(session, settings, clock))
    }

    /// The same on a tree that is known to have its directories.
    pub fn on(session: &Session, settings: Settings, clock: Clock) -> Self {
        let (queue, serving) = Self::with_committer(session, settings, clock);
        tokio::spawn(async move { serving.run().await });
        queue
    }

    /// The same, with a committer that somebody else lets serve: without one, commits wait.
    pub fn with_committer(session: &Session, settings: Settings, clock: Clock) -> (Self, Serving) {
        let (committer, serving) =
            Committer::counting(session.clone(), settings.together, settings.counts.clone());
        let queue = Self {
            session: session.clone(),
            locks: LockTable::new(session),
            committer,
            reads: reads::Gathered::new(session),
            clock,
            settings: Arc::new(settings),
            holds: Arc::default(),
            alerts: tokio::sync::broadcast::Sender::new(64),
            known: Arc::default(),
            limits: Arc::default(),
            naming: Arc::default(),
            numbers: Numbers::default(),
            lists: Arc::default(),
            spread: uuid::Uuid::new_v4().as_fields().0,
            pen: uuid::Uuid::new_v4().simple().to_string()[..PEN].to_owned(),
            commits: Arc::default(),
        };
        (queue, serving)
    }

    /// Makes the directories that a tree lacks.
    pub async fn make_directories(session: &Session, dialect: Dialect) -> Result<()> {
        for dir in map::directories(dialect) {
            settle(session, || session.make_dirs(&dir)).await.answer?;
        }
        Ok(())
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    pub fn locks(&self) -> &LockTable {
        &self.locks
    }

    pub fn dialect(&self) -> Dialect {
        self.settings.dialect
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The clock that dates are compared with.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn now(&self) -> Date {
        self.clock.now()
    }

    pub fn committed(&self) -> &Counts {
        self.committer.counts()
    }

    /// The number of plans that were handed to the committer and have no answer yet.
    pub fn unanswered_commits(&self) -> usize {
        self.committer.unanswered()
    }

    /// Releases the locks and the slots of this session that nobody here claims, also those that were on their way when they were
    /// given up; returns their paths.
    pub async fn sweep_locks(&self) -> Result<Vec<String>> {
        self.committer.settled().await;
        let mut swept = self.locks.sweep("/", map::fence_of).await?;
        swept.extend(self.sweep_slots().await?);
        Ok(swept)
    }

    /// The circumstances of the next commit.
    pub(crate) fn scene(&self) -> Scene {
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        self.scene_of(format!("{}-{number}", self.pen))
    }

    /// The same for a commit that has a name already.
    pub(crate) fn scene_of(&self, commit: String) -> Scene {
        let node = self.settings.node.clone();
        Scene { dialect: self.settings.dialect, now: self.now(), node, commit }
    }

    pub(crate) fn owner(&self, attempt: u32, scene: &Scene) -> Bytes {
        self.taker("").owner(attempt, scene)
    }

    /// Who takes something here.
    pub(crate) fn taker(&self, holder: &str) -> Taker {
        Taker {
            incarnation: self.settings.incarnation.clone(),
            session: format!("{:x}", self.session.id()),
            holder: holder.to_owned(),
        }
    }

    pub(crate) async fn get(&self, path: impl AsRef<str>) -> ingest_store::Result<(Bytes, Stat)> {
        reads::get(&self.session, path).await
    }

    pub(crate) async fn exists(&self, path: impl AsRef<str>) -> ingest_store::Result<Option<Stat>> {
        reads::exists(&self.session, path).await
    }

    pub(crate) async fn children(&self, path: impl AsRef<str>) -> ingest_store::Result<Vec<String>> {
        reads::children(&self.session, path).await
    }

    /// Reads a node that must be there: `missing` says what to answer if it is not.
    pub(crate) async fn read<N: Node>(
        &self,
        path: String,
        missing: impl FnOnce() -> Error,
    ) -> Result<(N, Stat)> {
        match self.find(path).await? {
            Some(found) => Ok(found),
            None => Err(missing()),
        }
    }

    /// Reads a node, `None` if it is not there.
    pub(crate) async fn find<N: Node>(&self, path: String) -> Result<Option<(N, Stat)>> {
        match self.get(&path).await {
            Ok((data, stat)) => {
                let node = N::read(&data).map_err(|why| Error::corrupt(path, why))?;
                Ok(Some((node, stat)))
            }
            Err(error) if error.kind() == Kind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A value that may be larger than a node; `None` if there is none.
    pub(crate) async fn sharded(&self, path: String, limit: u64) -> Result<Option<Vec<u8>>> {
        let found = shard::read(&self.session, &path, limit).await;
        Self::announced(path, found.map(|found| found.map(|(data, _)| data)))
    }

    /// The same as it lies in the tree.
    pub(crate) async fn packed(&self, path: String, limit: u64) -> Result<Option<shard::Packed>> {
        let found = shard::read_packed(&self.session, &path, limit).await;
        Self::announced(path, found.map(|found| found.map(|(packed, _)| packed)))
    }

    fn announced<T>(path: String, found: ingest_store::Result<Option<T>>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(found),
            Err(error) if error.kind() == Kind::NoNode => Ok(None),
            Err(error) if error.kind() == Kind::Corrupt => Err(Error::corrupt(path, error)),
            Err(error) => Err(error.into()),
        }
    }

    /// How to go on when a commit was refused, as far as its lock (its first operation) is to blame: with force
    /// the lock is taken away, one that is gone by itself is taken within, and else it is busy.
    pub(crate) async fn lock_after(
        &self,
        refused: &ingest_store::Error,
        what: impl Display,
        path: &str,
        lock: Lock,
        force: bool,
    ) -> Result<Lock> {
        match (refused.failed_op(), refused.kind()) {
            (Some(0), Kind::NodeExists) if lock == Lock::Within && force => Ok(Lock::TakeAway),
            (Some(0), Kind::NodeExists) if lock == Lock::Within => {
                match self.busy(what.to_string(), path).await? {
                    busy @ Error::Busy { .. } => Err(busy),
                    _ => Ok(lock),
                }
            }
            (Some(0), Kind::NoNode) => Ok(Lock::Within),
            _ => Ok(lock),
        }
    }

    /// Who holds a lock, as the refusal of whoever wanted it.
    pub(crate) async fn busy(&self, what: String, lock: &str) -> Result<Error> {
        Ok(match self.get(lock).await {
            Ok((data, _)) => {
                let owner = Owner::read(&data).unwrap_or_default();
                let node = if owner.node.is_empty() { "another node".to_owned() } else { owner.node };
                Error::Busy { what, node, since: owner.since }
            }
            Err(error) if error.kind() == Kind::NoNode => Error::changed(what, "its lock was just released"),
            Err(error) => return Err(error.into()),
        })
    }
}
