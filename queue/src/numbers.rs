//! The numbers of batches and jobs: given out at the store's counter, never ahead of it, and never twice.
//!
//! Whoever gives out a number moves the version of its directory in the same multi, and so everybody else who has read the same
//! number is refused and reads again. Those of one node would only refuse each other: they take turns. Each turn asks for the
//! counter anew, because clients of another kind, which know no fence, may have used a number and removed it.
//!
//! A tree that is replaced by an older copy of itself counts again. Each node remembers the highest number that it has seen, over
//! all its sessions, and gives out none below it; and nobody gets a number from a queue whose counters are [closed](Queue::close_numbers).
//!
//! **When things break.** A turn that is given up, or lost with its caller, has changed nothing. Another node that gives out
//! numbers is noticed by the refusal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ingest_store::error::Next;
use ingest_store::recipes::settle;
use ingest_store::{Kind, Op, Session};
use parking_lot::RwLock;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::committer::MAX_OPS;
use crate::error::{Error, Result};
use crate::map;
use crate::queue::Queue;

/// The name of the child that moves a counter. It is never seen: it is deleted where it is created.
const SKIPPED: &str = "skipped";

/// The counters that this node takes turns at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    batches: Arc<Mutex<()>>,
    jobs: Arc<Mutex<()>>,
    /// Why no numbers are given out.
    closed: Arc<RwLock<Option<Arc<str>>>>,
}

/// The first numbers that a node has not seen in use, by any of its sessions.
#[derive(Debug, Default)]
pub struct SeenNumbers {
    batches: AtomicU32,
    jobs: AtomicU32,
}

impl SeenNumbers {
    fn of(&self, dir: &str) -> &AtomicU32 {
        if dir == map::BATCHES { &self.batches } else { &self.jobs }
    }

    /// Those of batches and of jobs.
    pub fn get(&self) -> (u32, u32) {
        (self.batches.load(Ordering::Relaxed), self.jobs.load(Ordering::Relaxed))
    }
}

/// The right to give out the next numbers, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    dir: &'static str,
    number: u32,
    version: i32,
    seen: Arc<SeenNumbers>,
    _mine: OwnedMutexGuard<()>,
}

impl Turn {
    /// The first number that is free.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The operation that makes sure that nobody else has given it out. It belongs into the same multi.
    pub(crate) fn fence(&self) -> Op {
        Op::set(self.dir, "", self.version)
    }

    /// Remembers that so many numbers were given out.
    pub(crate) fn used(&self, count: u32) {
        self.seen.of(self.dir).fetch_max(self.number.saturating_add(count), Ordering::Relaxed);
    }

    /// The same turn after so many numbers were given out in one multi.
    pub(crate) fn after(mut self, count: usize) -> Self {
        self.number = self.number.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        self.version = self.version.wrapping_add(1);
        self.used(0);
        self
    }
}

impl Queue {
    /// Waits for the turn to give out numbers of batches.
    pub(crate) async fn turn_of_batches(&self) -> Result<Turn> {
        self.turn(map::BATCHES, self.numbers.batches.clone()).await
    }

    /// Waits for the turn to give out numbers of jobs.
    pub(crate) async fn turn_of_jobs(&self) -> Result<Turn> {
        self.turn(map::JOBS, self.numbers.jobs.clone()).await
    }

    /// The next numbers of batches and jobs, as the tree has them now; 0 where it lacks the directory.
    pub async fn numbers(&self) -> Result<(u32, u32)> {
        settle(&self.session, || self.session.sync()).await.answer?;
        Ok((self.counted(map::BATCHES).await?, self.counted(map::JOBS).await?))
    }

    /// The first numbers that this node has not seen in use: a tree that counts from lower ones is older than this node.
    pub fn seen_numbers(&self) -> (u32, u32) {
        self.settings.seen.get()
    }

    /// Remembers numbers that a tree has counted which is the right one.
    pub fn saw_numbers(&self, batches: u32, jobs: u32) {
        self.settings.seen.batches.fetch_max(batches, Ordering::Relaxed);
        self.settings.seen.jobs.fetch_max(jobs, Ordering::Relaxed);
    }

    /// From now on nobody gets a number of a batch or a job from this queue; every try is refused with the reason.
    pub fn close_numbers(&self, why: &str) {
        *self.numbers.closed.write() = Some(why.into());
    }

    /// Gives out numbers again.
    pub fn open_numbers(&self) {
        *self.numbers.closed.write() = None;
    }

    /// Moves the counters of batches and jobs to these numbers, if they are behind: the numbers below are used, as
    /// something outside of the tree knows. Answers the numbers that the counters had.
    ///
    /// Dropped or failed, it has moved them part of the way; it can be repeated.
    pub async fn raise_numbers(&self, batches: u32, jobs: u32) -> Result<(u32, u32)> {
        let found = {
            let _mine = self.numbers.batches.lock().await;
            raise(&self.session, map::BATCHES, batches).await?
        };
        let _mine = self.numbers.jobs.lock().await;
        Ok((found, raise(&self.session, map::JOBS, jobs).await?))
    }

    async fn counted(&self, dir: &str) -> Result<u32> {
        let stat = self.exists(dir).await?;
        Ok(stat.map_or(0, |stat| u32::try_from(stat.next_sequence()).unwrap_or(u32::MAX)))
    }

    async fn turn(&self, dir: &'static str, turns: Arc<Mutex<()>>) -> Result<Turn> {
        let mine = turns.lock_owned().await;
        if let Some(why) = self.numbers.closed.read().as_deref() {
            return Err(Error::forbidden(dir, why));
        }
        let seen = self.settings.seen.of(dir).load(Ordering::Relaxed);
        let (mut number, mut version) = self.read_number(dir).await?;
        if number < seen {
            // The server may be behind those that this node has asked before.
            settle(&self.session, || self.session.sync()).await.answer?;
            (number, version) = self.read_number(dir).await?;
        }
        if number < seen {
            let why = format!(
                "the tree counts from {number}, and this node has seen {seen}: the tree was replaced by an older one, and \
                 no number is given out; run `ingestd fsck --repair`"
            );
            return Err(Error::forbidden(dir, why));
        }
        self.settings.seen.of(dir).fetch_max(number, Ordering::Relaxed);
        Ok(Turn { dir, number, version, seen: self.settings.seen.clone(), _mine: mine })
    }

    /// The number of the next item of this directory, which is not one of those above, and its fence.
    pub(crate) async fn next_number(&self, dir: &str) -> Result<(u32, Op)> {
        let (number, version) = self.read_number(dir).await?;
        Ok((number, Op::set(dir, "", version)))
    }

    async fn read_number(&self, dir: &str) -> Result<(u32, i32)> {
        read(&self.session, dir).await
    }
}

async fn read(session: &Session, dir: &str) -> Result<(u32, i32)> {
    let stat = crate::reads::exists(session, dir).await?;
    let stat = stat.ok_or_else(|| Error::corrupt(dir, "it is missing"))?;
    Ok((u32::try_from(stat.next_sequence()).unwrap_or(0), stat.version))
}

/// Moves the counter of a directory to this number, if it is behind; answers the number that it had.
///
/// The counter counts creates, and so it is moved by creating and deleting a child, many times in a multi. The fence
/// keeps two nodes from moving it twice.
pub(crate) async fn raise(session: &Session, dir: &str, to: u32) -> Result<u32> {
    let child = ingest_store::path::join(dir, SKIPPED);
    let mut first = None;
    loop {
        settle(session, || session.sync()).await.answer?;
        let (number, version) = read(session, dir).await?;
        let found = *first.get_or_insert(number);
        let missing = usize::try_from(to.saturating_sub(number)).unwrap_or(usize::MAX);
        if missing == 0 {
            return Ok(found);
        }
        let pair = || [Op::create(child.as_str(), ""), Op::delete(child.as_str(), None)];
        let mut ops = vec![Op::set(dir, "", version)];
        ops.extend((0..missing.min(MAX_OPS / 2 - 1)).flat_map(|_| pair()));
        match session.multi(ops).await {
            Ok(_) => {}
            // Somebody else gives out numbers, or the answer was lost: the counter tells.
            Err(error) if error.kind() == Kind::BadVersion || error.next() == Next::FindOut => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A number that is taken and does not move the counter: it would be tried for ever.
pub(crate) fn ahead(path: String) -> Error {
    Error::forbidden(path, "it is ahead of the store's counter, so that no id can be given out: remove it")
}
