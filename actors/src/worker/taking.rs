//! How a job is taken out of its queue, and what becomes of one that cannot be.

use std::time::Duration;

use ingest_queue::error::Error;
use ingest_queue::index::{Candidate, Seen};
use ingest_queue::jobs::Lease;
use ingest_queue::map::{HeldQueue, JobNode, QueueRef};
use ingest_queue::plan::job::Action;
use ingest_queue::states::JobState;
use ingest_steps::step::check;
use ingest_store::error::Next;
use tokio::time::Instant;

use super::Worker;
use super::homes::Home;
use crate::crash::Crash;

/// Jobs that wait for a hold to be lifted are parked with this.
pub(crate) const HELD: &str = "held";
/// How long a job that nobody can read is left alone.
const UNREADABLE: Duration = Duration::from_mins(10);

impl Worker {
    /// Takes the job, or puts it aside and answers `None`.
    pub(super) async fn take(&self, candidate: Candidate) -> Result<Option<Lease>, Crash> {
        let entry = candidate.entry;
        // Told just before the node was paused.
        if !self.house.takes_work() {
            self.finder.put_back(entry.jid);
            return Ok(None);
        }
        match self.try_to_take(candidate).await {
            Ok(lease) => {
                self.pass_on(entry);
                Ok(lease)
            }
            Err(Error::AtLimit { semaphore, .. }) => {
                self.wait_for_slot(entry, &semaphore);
                Ok(None)
            }
            Err(error) => {
                self.put_aside(entry, error).await?;
                self.pass_on(entry);
                Ok(None)
            }
        }
    }

    async fn try_to_take(&self, candidate: Candidate) -> Result<Option<Lease>, Error> {
        let entry = candidate.entry;
        // Whoever is not the first in line for it reads before it writes.
        if candidate.rank > 0 && self.queue().session().exists(JobNode::Lock.of(entry.jid)).await?.is_some() {
            self.finder.locked_elsewhere(entry);
            return Ok(None);
        }
        if entry.state == JobState::Pending {
            return self.let_in(entry).await;
        }
        if self.gives_way(entry).await? {
            return Ok(None);
        }
        if self.waits_for_upload(entry).await? {
            return Ok(None);
        }
        match self.home(entry).await? {
            Home::Here => Ok(Some(self.queue().acquire(entry, &self.desk.holder).await?)),
            Home::Elsewhere => Ok(None),
            Home::Gone(work) => self.bring_home(entry, work).await,
        }
    }

    /// A pending job goes on at once, unless there is something to look at first.
    async fn let_in(&self, entry: QueueRef) -> Result<Option<Lease>, Error> {
        let queue = self.queue();
        if self.house.work.is_real()
            && check::is_needed(&queue.configuration(entry.jid).await?, &self.life.services())
        {
            return Ok(Some(queue.acquire(entry, &self.desk.holder).await?));
        }
        let next = QueueRef::new(JobState::Estimating, entry.priority, entry.jid);
        let Some(seat) = self.seat(next) else {
            queue.let_in(entry).await?;
            self.finder.finished(entry);
            return Ok(None);
        };
        let lease = queue.admit(entry, seat.holder()).await?;
        self.hand(lease, entry, seat).await;
        Ok(None)
    }

    /// What becomes of a job that was not taken.
    async fn put_aside(&self, entry: QueueRef, error: Error) -> Result<(), Crash> {
        let jid = entry.jid;
        match error {
            Error::Busy { .. } => self.finder.locked_elsewhere(entry),
            Error::NotDue { until, .. } => {
                let left = self.queue().now().until(until);
                self.finder.date(jid, Some(Instant::now() + left));
                self.finder.put_back(jid);
            }
            Error::Changed { .. } | Error::NotFound(_) | Error::Lost { .. } => {
                if self.finder.disagrees(entry) == Seen::Twice {
                    return self.repair(entry).await;
                }
            }
            Error::Forbidden { .. } | Error::Refused { .. } if entry.state == JobState::Pending => {
                return self.held(entry).await;
            }
            Error::Store(store) => match store.next() {
                Next::Rebuild => {}
                Next::StopNode | Next::GiveUp => return Err(Crash::error(format!("{jid}: {store}"))),
                Next::ReadAgain => self.finder.put_back(jid),
                Next::FindOut | Next::RetryLater => {
                    tracing::warn!(job = %jid, error = %store, "not taken, and tried again");
                    // An acquire whose answer was lost may have left its lock behind.
                    if let Err(error) = self.queue().sweep_locks().await {
                        tracing::debug!(%error, "locks that nobody claims could not be looked for");
                    }
                    self.finder.put_back(jid);
                }
            },
            error => {
                tracing::error!(job = %jid, %error, "a job cannot be read, and is left alone; see `ingestd fsck`");
                self.finder.delay(jid, Instant::now() + UNREADABLE);
            }
        }
        Ok(())
    }

    /// A ref that was wrong twice.
    async fn repair(&self, entry: QueueRef) -> Result<(), Crash> {
        match self.queue().repair_ref(entry).await {
            Ok(true) => self.finder.finished(entry),
            Ok(false) => self.finder.put_back(entry.jid),
            Err(Error::Busy { .. }) => self.finder.locked_elsewhere(entry),
            Err(error) => {
                tracing::error!(job = %entry.jid, %error, "a queue ref is wrong and could not be repaired");
                self.finder.delay(entry.jid, Instant::now() + UNREADABLE);
            }
        }
        Ok(())
    }

    /// A pending job that a hold keeps from going on: with its queue it waits, with its collection it goes to held.
    async fn held(&self, entry: QueueRef) -> Result<(), Crash> {
        let jid = entry.jid;
        let queue = self.queue();
        let holds = queue.read_holds().await.map_err(Crash::error)?;
        if holds.queue(HeldQueue::Ingest).is_some() {
            self.finder.park(jid, HELD);
            // It may have been lifted just before that.
            let holds = queue.read_holds().await.map_err(Crash::error)?;
            if holds.queue(HeldQueue::Ingest).is_none() {
                self.finder.unpark(HELD);
            }
            return Ok(());
        }
        let collection = queue.configuration(jid).await.map_err(Crash::error)?.collection().to_owned();
        let Some(why) = holds.collection(&collection) else {
            self.finder.put_back(jid);
            return Ok(());
        };
        let message = format!("its collection {collection} is held {why}");
        match queue.act(jid, &Action::HoldForCollection, &message, false).await {
            Ok(_) => {
                tracing::info!(job = %jid, why = message, "held");
                self.finder.finished(entry);
            }
            Err(Error::Busy { .. }) => self.finder.locked_elsewhere(entry),
            Err(Error::Store(store)) if store.next() == Next::StopNode => return Err(Crash::error(store)),
            Err(_) => self.finder.put_back(jid),
        }
        Ok(())
    }
}
