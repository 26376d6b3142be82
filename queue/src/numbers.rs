//! The numbers of batches and jobs: given out at the store's counter, never ahead of it, and never twice.
//!
//! Whoever gives out a number moves the version of its directory in the same multi, and so everybody else who has read the same
//! number is refused and reads again. Those of one node would only refuse each other: they take turns. Each turn asks for the
//! counter anew, because clients of another kind, which know no fence, may have used a number and removed it.
//!
//! **When things break.** A turn that is given up, or lost with its caller, has changed nothing. Another node that gives out
//! numbers is noticed by the refusal.

use std::sync::Arc;

use ingest_store::Op;
use ingest_store::error::Next;
use ingest_store::recipes::settle;
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
}

/// The right to give out the next numbers, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    dir: &'static str,
    number: u32,
    version: i32,
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

    /// The same turn after so many numbers were given out in one multi.
    pub(crate) fn after(mut self, count: usize) -> Self {
        self.number = self.number.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        self.version = self.version.wrapping_add(1);
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

    /// Moves the counters of batches and jobs to these numbers, if they are behind: the numbers below are used, as
    /// something outside of the tree knows. Answers the numbers that the counters had.
    pub async fn raise_numbers(&self, batches: u32, jobs: u32) -> Result<(u32, u32)> {
        let batches = self.raise(map::BATCHES, self.numbers.batches.clone(), batches).await?;
        Ok((batches, self.raise(map::JOBS, self.numbers.jobs.clone(), jobs).await?))
    }

    /// The counter counts creates, and so it is moved by creating and deleting a child, many times in a multi. The fence
    /// keeps two nodes from moving it twice.
    async fn raise(&self, dir: &'static str, turns: Arc<Mutex<()>>, to: u32) -> Result<u32> {
        let child = ingest_store::path::join(dir, SKIPPED);
        let mut first = None;
        loop {
            settle(&self.session, || self.session.sync()).await.answer?;
            let turn = self.turn(dir, turns.clone()).await?;
            let found = *first.get_or_insert(turn.number());
            let missing = usize::try_from(to.saturating_sub(turn.number())).unwrap_or(usize::MAX);
            if missing == 0 {
                return Ok(found);
            }
            let pair = || [Op::create(child.as_str(), ""), Op::delete(child.as_str(), None)];
            let mut ops = vec![turn.fence()];
            ops.extend((0..missing.min(MAX_OPS / 2 - 1)).flat_map(|_| pair()));
            match self.session.multi(ops).await {
                Ok(_) => {}
                // Another node gives out numbers, or the answer was lost: the counter tells.
                Err(error)
                    if error.kind() == ingest_store::Kind::BadVersion || error.next() == Next::FindOut => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn turn(&self, dir: &'static str, turns: Arc<Mutex<()>>) -> Result<Turn> {
        let mine = turns.lock_owned().await;
        let (number, version) = self.read_number(dir).await?;
        Ok(Turn { dir, number, version, _mine: mine })
    }

    /// The number of the next item of this directory, which is not one of those above, and its fence.
    pub(crate) async fn next_number(&self, dir: &str) -> Result<(u32, Op)> {
        let (number, version) = self.read_number(dir).await?;
        Ok((number, Op::set(dir, "", version)))
    }

    async fn read_number(&self, dir: &str) -> Result<(u32, i32)> {
        let stat = self.exists(dir).await?.ok_or_else(|| Error::corrupt(dir, "it is missing"))?;
        Ok((u32::try_from(stat.next_sequence()).unwrap_or(0), stat.version))
    }
}

/// A number that is taken and does not move the counter: it would be tried for ever.
pub(crate) fn ahead(path: String) -> Error {
    Error::forbidden(path, "it is ahead of the store's counter, so that no id can be given out: remove it")
}
