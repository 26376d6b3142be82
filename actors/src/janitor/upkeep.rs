//! Cleanup routines: each is run by one node at a time, once for all nodes in the time of its schedule.
//!
//! `/cleanup/NAME` says when it last ran, where, and what it removed; `/cleanup/NAME/lock` is there while it runs. A
//! node whose time has come looks first whether another has done it meanwhile.
//!
//! **When things break.** The lock goes with its session, and the next node's turn comes. One that is left while the session
//! lives, because the janitor died in the middle of a routine, is its successor's: a node has one janitor, which runs
//! one routine after the other, so a lock of its own session is never in use when it comes to take it. Nothing rests on the
//! lock: whatever a routine removes, it removes at the version that it has looked at. One that fails says why, and is
//! made again the next time.

use std::time::{Duration, Instant};

use ingest_queue::date::Date;
use ingest_queue::error::Error;
use ingest_queue::fsck;
use ingest_queue::limits::clean::IDLE;
use ingest_queue::map;
use ingest_store::recipes::{look, settle};
use ingest_store::{Kind, Mode, Session, path};
use serde::{Deserialize, Serialize};

use super::State;
use crate::settings::Upkeep;

const LOCK: &str = "lock";
/// What a run removes at most; the next goes on. Batches are larger, and have a bound of their own.
const MOST: usize = 10_000;

/// What is cleaned up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routine {
    /// Completed jobs leave their queue.
    Jobs,
    /// Completed batches leave the tree.
    Batches,
    /// Management requests that nobody waits for.
    Requests,
    /// Slots whose job nobody works on, semaphores that nobody needs.
    Semaphores,
    /// Keys that lead to nothing that waits.
    Keys,
    /// Parts of large values that were never announced.
    Shards,
}

impl Routine {
    pub const ALL: [Routine; 6] = [
        Routine::Jobs,
        Routine::Batches,
        Routine::Requests,
        Routine::Semaphores,
        Routine::Keys,
        Routine::Shards,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Routine::Jobs => "jobs",
            Routine::Batches => "batches",
            Routine::Requests => "requests",
            Routine::Semaphores => "semaphores",
            Routine::Keys => "keys",
            Routine::Shards => "shards",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|routine| routine.name() == name)
    }

    /// What it removes, in a word or two.
    pub fn about(self) -> &'static str {
        match self {
            Routine::Jobs => "completed jobs, from their queue",
            Routine::Batches => "completed batches, after upkeep.keep_batches",
            Routine::Requests => "management requests that nobody waits for, after upkeep.keep_requests",
            Routine::Semaphores => "slots whose job nobody works on, and semaphores that nobody needs",
            Routine::Keys => "keys that lead to nothing that waits",
            Routine::Shards => "parts of large values that were never announced, after upkeep.keep_parts",
        }
    }

    /// How often it is run.
    pub fn every(self, upkeep: &Upkeep) -> Duration {
        match self {
            Routine::Jobs => upkeep.jobs.every,
            Routine::Batches => upkeep.batches.every,
            Routine::Requests => upkeep.requests.every,
            Routine::Semaphores => upkeep.semaphores.every,
            Routine::Keys => upkeep.keys.every,
            Routine::Shards => upkeep.shards.every,
        }
    }

    fn path(self) -> String {
        path::join(map::CLEANUP, self.name())
    }
}

/// `/cleanup/NAME`: how it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub at: Date,
    pub node: String,
    #[serde(default)]
    pub took_ms: u64,
    #[serde(default)]
    pub removed: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    Now(Run),
    /// This node is at it.
    Busy(String),
    /// The tree could not be asked.
    Not(String),
}

/// A routine as the tree knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub routine: Routine,
    pub last: Option<Run>,
    /// Who is at it now.
    pub running: Option<String>,
}

impl Known {
    pub async fn read(session: &Session, routine: Routine) -> ingest_store::Result<Self> {
        let (at, lock) = (routine.path(), path::join(&routine.path(), LOCK));
        let found = look(session, || session.get_many(vec![at.clone(), lock.clone()])).await?;
        let mut found = found.into_iter().map(|found| found.map(|(data, _)| data));
        let (last, running) = (found.next().flatten(), found.next().flatten());
        let last = last.and_then(|data| serde_json::from_slice(&data).ok());
        Ok(Self { routine, last, running: running.map(|data| String::from_utf8_lossy(&data).into_owned()) })
    }
}

impl State {
    /// How long until it is this routine's time, and nothing if it is.
    pub(super) async fn wait_for(&self, routine: Routine) -> Duration {
        let every = routine.every(&self.house.settings.load().upkeep);
        let queue = &self.life.queue;
        match Known::read(queue.session(), routine).await {
            Ok(Known { last: Some(last), .. }) => every.saturating_sub(last.at.until(queue.now())),
            Ok(_) => Duration::ZERO,
            Err(error) => {
                tracing::debug!(name = routine.name(), %error, "it is not known when it ran");
                every
            }
        }
    }

    /// Runs a routine if no other node does.
    pub(super) async fn run_once(&self, routine: Routine) -> Ran {
        match lock(self.life.queue.session(), routine, &self.house.name).await {
            Ok(None) => self.run_locked(routine).await,
            Ok(Some(node)) => Ran::Busy(node),
            Err(error) => Ran::Not(error.to_string()),
        }
    }

    /// The same if it is still time for it: another node may have run it since it was looked at. `None`: one has.
    pub(super) async fn run_if_due(&self, routine: Routine) -> Option<Ran> {
        let session = self.life.queue.session();
        match lock(session, routine, &self.house.name).await {
            Ok(None) if self.wait_for(routine).await.is_zero() => Some(self.run_locked(routine).await),
            Ok(None) => {
                release(session, routine).await;
                None
            }
            Ok(Some(node)) => Some(Ran::Busy(node)),
            Err(error) => Some(Ran::Not(error.to_string())),
        }
    }

    async fn run_locked(&self, routine: Routine) -> Ran {
        let (at, began) = (self.life.queue.now(), Instant::now());
        let done = self.routine(routine).await;
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (removed, error) = match done {
            Ok(removed) => (removed, None),
            Err(error) => {
                tracing::warn!(name = routine.name(), %error, "not cleaned up this time");
                (0, Some(error.to_string()))
            }
        };
        let run = Run { at, node: self.house.name.clone(), took_ms, removed, error };
        unlock(self.life.queue.session(), routine, &run).await;
        Ran::Now(run)
    }

    async fn routine(&self, routine: Routine) -> Result<usize, Error> {
        let queue = &self.life.queue;
        match routine {
            Routine::Jobs => queue.clean_jobs(MOST).await,
            Routine::Batches => self.batches().await,
            Routine::Requests => {
                let keep = self.house.settings.load().upkeep.keep_requests;
                let collected = queue.collect_requests(queue.now(), keep, MOST).await?;
                Ok(collected.requests + collected.leftovers)
            }
            Routine::Semaphores => Ok(queue.clean_semaphores(IDLE, MOST).await?.all()),
            Routine::Keys => {
                fsck::collect_keys(queue.session(), &fsck::Options::new(queue.dialect()), MOST).await
            }
            Routine::Shards => {
                let keep = self.house.settings.load().upkeep.keep_parts;
                queue.collect_parts(keep, MOST).await
            }
        }
    }
}

/// `None`: it is ours, also if it has been since before this run.
async fn lock(session: &Session, routine: Routine, node: &str) -> ingest_store::Result<Option<String>> {
    let (dir, lock) = (routine.path(), path::join(&routine.path(), LOCK));
    settle(session, || session.make_dirs(&dir)).await.answer?;
    let made = settle(session, || session.create(lock.as_str(), node.to_owned(), Mode::Ephemeral)).await;
    match made.answer {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == Kind::NodeExists => {
            match look(session, || session.get(lock.as_str())).await {
                Ok((_, stat)) if stat.ephemeral_owner == session.id() => Ok(None),
                Ok((data, _)) => Ok(Some(String::from_utf8_lossy(&data).into_owned())),
                Err(error) if error.kind() == Kind::NoNode => Ok(Some("another node".into())),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Says how it went, and lets the others.
async fn unlock(session: &Session, routine: Routine, run: &Run) {
    let (at, data) = (routine.path(), serde_json::to_vec(run).unwrap_or_default());
    if let Err(error) = look(session, || session.set(at.as_str(), data.clone(), None)).await {
        tracing::warn!(name = routine.name(), %error, "it cannot be said how it went");
    }
    release(session, routine).await;
}

/// Not given up while the session lives: the other nodes would be kept from the routine.
async fn release(session: &Session, routine: Routine) {
    let lock = path::join(&routine.path(), LOCK);
    match look(session, || session.delete(lock.as_str(), None)).await {
        Err(error) if error.kind() != Kind::NoNode => {
            tracing::warn!(name = routine.name(), %error, "a cleanup lock is left, and goes with the session");
        }
        _ => {}
    }
}
