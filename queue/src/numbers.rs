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
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::error::{Error, Result};
use crate::map;
use crate::queue::Queue;

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
