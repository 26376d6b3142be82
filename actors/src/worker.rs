//! A StateActor: takes a job of its state, does the step, commits what came of it.
//!
//! It gets a job by message, from its pool or handed over by the state before, and works on one at a time: the step
//! runs inside the handler, so that ending the actor ends the step. When it is done it goes back to the bench, or
//! retires if its pool has become smaller.
//!
//! **When things break.** A panic, or an error that leaves open what became of the job, ends the actor: its pool
//! releases the lock, puts the job back in line, and starts another. A job that waits for another one occupies nobody: it
//! is given back with the reason in its status, and parked until that has happened. A job that cannot be taken (locked elsewhere, on
//! another node's disk, held) stands aside in the index until what it waits for has happened. A refused commit means
//! that the job is another's: it is let go.

mod homes;
mod slots;
mod taking;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ingest_queue::error::Error;
use ingest_queue::index::Candidate;
use ingest_queue::index::finder::Finder;
use ingest_queue::jobs::Lease;
use ingest_queue::map::QueueRef;
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::{JobState, States as _};
use ingest_steps::outcome::Failure;
use ingest_steps::step::{self, Ending};
use ingest_store::error::Next;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::Instant;
use tracing::Instrument as _;

pub(crate) use self::homes::{parked_with, parked_with_upload};
pub(crate) use self::taking::HELD;
use crate::bench::{Bench, Reserved, Seat};
use crate::crash::{Crash, Reason, handled};
use crate::desk::Desk;
use crate::house::{Counts, House, Life};
use crate::janitor;
use crate::release;
use crate::timekeeper::Watched;

/// Why a worker ends that is not needed any more.
pub(crate) const RETIRED: &str = "retired";
/// A step that takes longer is announced to the timekeeper.
const ANNOUNCE: Duration = Duration::from_secs(1);
/// How long a job that was given back, because something was in its way, is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// What a StateActor is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Try this one.
    Work(Candidate),
    /// Go on with this one, whose lock is held.
    Continue(Box<Lease>),
}

/// The actor; everything that it knows is in [`Worker`].
#[derive(Debug)]
pub(crate) struct StateActor;

/// What a worker works with.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) house: Arc<House>,
    pub(crate) life: Arc<Life>,
    pub(crate) finder: Arc<Finder>,
    pub(crate) bench: Arc<Bench>,
    pub(crate) desk: Arc<Desk>,
}

impl Actor for StateActor {
    type Msg = Message;
    type State = Worker;
    type Arguments = Worker;

    async fn pre_start(&self, _: ActorRef<Message>, worker: Worker) -> Result<Worker, ActorProcessingErr> {
        Ok(worker)
    }

    async fn post_start(
        &self,
        myself: ActorRef<Message>,
        worker: &mut Worker,
    ) -> Result<(), ActorProcessingErr> {
        worker.bench.put(Seat { actor: myself, desk: worker.desk.clone() });
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        worker: &mut Worker,
    ) -> Result<(), ActorProcessingErr> {
        let Some(sitting) = worker.desk.sit() else { return Ok(()) };
        let work = handled(worker.work(message));
        ingest_steps::outcome::BUSY.scope(Arc::new(sitting.clone()), work).await?;
        worker.desk.clear();
        drop(sitting);
        if worker.bench.retire() {
            myself.stop(Some(RETIRED.into()));
        } else {
            worker.bench.put(Seat { actor: myself, desk: worker.desk.clone() });
        }
        Ok(())
    }
}

impl Worker {
    fn queue(&self) -> &Queue {
        &self.life.queue
    }

    async fn work(&self, message: Message) -> Result<(), Crash> {
        match message {
            Message::Work(candidate) => match self.take(candidate).await? {
                Some(lease) => {
                    self.house.meters.taken(lease.job().state(), lease.waited());
                    self.step(lease).await
                }
                None => Ok(()),
            },
            Message::Continue(lease) => self.step(*lease).await,
        }
    }

    async fn step(&self, mut lease: Lease) -> Result<(), Crash> {
        let entry = lease.job().entry();
        let (jid, bid, attempt) = (entry.jid, lease.job().bid, lease.job().status.attempt);
        self.desk.acquired(bid, attempt);
        let state = entry.state.name();
        let node = self.house.name.as_str();
        let span = tracing::info_span!("job", node, batch = %bid, job = %jid, state, attempt);
        async {
            let began = Instant::now();
            let answer = self.run(&mut lease).await;
            let bytes = self.desk.current().map_or(0, |current| current.progress.done().1);
            self.house.meters.stepped(entry.state, began.elapsed(), bytes);
            self.uploads_recovered();
            // Told to stop because of that: its pool gives the job back, and it counts.
            if self.desk.has_stalled() {
                return Err(Crash::of(Reason::Stall, "its step made no progress"));
            }
            self.conclude(lease, entry, answer).await
        }
        .instrument(span)
        .await
    }

    async fn run(&self, lease: &mut Lease) -> Result<Change, Failure> {
        let Some(current) = self.desk.current() else { return Err(Failure::Cancelled) };
        let services = self.life.services();
        let step =
            self.house.work.run(&self.life.queue, lease, &services, &current.progress, &current.cancel);
        let mut step = pin!(step);
        if let Ok(answer) = tokio::time::timeout(ANNOUNCE, &mut step).await {
            return answer;
        }
        let _watched = Watched::new(&self.house, &self.desk);
        step.await
    }

    /// Commits what came of the step.
    async fn conclude(
        &self,
        mut lease: Lease,
        entry: QueueRef,
        answer: Result<Change, Failure>,
    ) -> Result<(), Crash> {
        let began = Instant::now();
        let answer = match answer {
            Ok(change) => match self.seat_for(&lease, &change) {
                Some((next, seat)) => {
                    let handed = self.queue().hand_over_to(&mut lease, next, &change, seat.holder());
                    let handed = handed.await;
                    self.house.meters.committed(began.elapsed());
                    match handed {
                        Ok(()) => {
                            self.hand(lease, entry, seat).await;
                            return Ok(());
                        }
                        // It waits for a slot there, as any other.
                        Err(Error::AtLimit { .. }) => {
                            drop(seat);
                            Ok(change)
                        }
                        Err(error) => {
                            drop(seat);
                            return self.unsure(lease, entry, error).await;
                        }
                    }
                }
                None => Ok(change),
            },
            failure => failure,
        };
        let again = matches!(answer, Err(Failure::Again(_)));
        let until = match &answer {
            Err(Failure::Blocked { until, .. }) => Some(until.clone()),
            _ => None,
        };
        let concluded = step::conclude(self.queue(), &mut lease, answer).await;
        self.house.meters.committed(began.elapsed());
        match concluded {
            Ok(Ending::Moved(to)) => {
                self.finder.finished(entry);
                self.moved(&lease, to);
                Ok(())
            }
            Ok(Ending::GivenBack(why)) => {
                tracing::info!(why, "given back");
                self.house.meters.given_back(entry.state);
                match until {
                    Some(until) => self.finder.wait_until(entry.jid, until),
                    None if again && self.parks_for_upload(entry).await => {
                        tracing::debug!("it stands aside until its upload can be had");
                    }
                    None if again => self.finder.delay(entry.jid, Instant::now() + AGAIN),
                    None => self.finder.put_back(entry.jid),
                }
                Ok(())
            }
            Ok(Ending::Lost(why)) => {
                tracing::warn!(why, "let go: it is not this node's any more");
                self.finder.put_back(entry.jid);
                Ok(())
            }
            Err(error) => self.unsure(lease, entry, error).await,
        }
    }

    fn moved(&self, lease: &Lease, to: JobState) {
        let message = lease.job().status.message.as_str();
        match to {
            JobState::Failed => tracing::warn!(why = message, "failed"),
            JobState::Completed => {
                tracing::info!("completed");
                // There will be an event, too, but not before a node ends that drains.
                janitor::ended(&self.house, lease.job().bid, lease.jid());
            }
            to => tracing::debug!(to = to.name(), "moved"),
        }
    }

    /// The commit of a transition was refused, or nobody knows.
    async fn unsure(&self, mut lease: Lease, entry: QueueRef, error: Error) -> Result<(), Crash> {
        match &error {
            Error::Store(store) if matches!(store.next(), Next::Rebuild) => {
                // Everything ends with the session; what is here is another's.
                tracing::warn!(%error, "let go with the session");
                return Ok(());
            }
            Error::Store(_) => return Err(Crash::error(format!("{}: {error}", entry.jid))),
            Error::Lost { .. } => tracing::warn!(%error, "let go: it is not this node's any more"),
            _ => tracing::error!(%error, "its step was done, and could not be committed"),
        }
        // So that the lock is forgotten here, and released if it is still ours.
        match self.queue().give_back(&mut lease, None).await {
            Ok(()) | Err(Error::Lost { .. }) => {
                self.finder.delay(entry.jid, Instant::now() + AGAIN);
                Ok(())
            }
            Err(error) => Err(Crash::error(format!("{}: {error}", entry.jid))),
        }
    }

    /// A worker for the next state, if its pool would choose this job next and has somebody idle.
    fn seat_for(&self, lease: &Lease, change: &Change) -> Option<(JobState, Reserved)> {
        let next = lease.job().state().success(self.queue().dialect()).filter(|next| next.is_working())?;
        let priority = change.priority.unwrap_or(lease.job().priority);
        Some((next, self.seat(QueueRef::new(next, priority, lease.jid()))?))
    }

    fn seat(&self, entry: QueueRef) -> Option<Reserved> {
        let bench = self.house.directory.bench(entry.state)?;
        if !self.house.takes_work() || !self.finder.is_next(entry) || self.must_wait_for_slot(entry) {
            return None;
        }
        bench.reserve()
    }

    /// Gives a job that has been moved on to the worker that was reserved for it.
    async fn hand(&self, mut lease: Lease, from: QueueRef, seat: Reserved) {
        let to = lease.job().entry();
        let (bid, attempt) = (lease.job().bid, lease.job().status.attempt);
        self.finder.hand_over(from, to);
        let Some(seat) = seat.take() else { return };
        if seat.desk.put(to, Some(bid), attempt) {
            // If it has died, whoever closes its desk finds the job there.
            let _ = seat.actor.cast(Message::Continue(Box::new(lease)));
            return Counts::add(&self.house.counts.handed_over, 1);
        }
        // It has died meanwhile: the job waits for the next.
        match self.queue().give_back(&mut lease, None).await {
            Ok(()) | Err(Error::Lost { .. }) => self.finder.put_back(to.jid),
            Err(error) => {
                tracing::warn!(job = %to.jid, %error, "it could not be given back, and that is tried again");
                release::later(&self.life, Some(&self.finder), &seat.desk, Some(to), Reason::Error);
            }
        }
    }
}
