//! A BatchActor: what is to be done for one batch, from its expansion to its report.
//!
//! There is one for a live batch on every node; the batch's lock decides who acts. It looks when something has
//! happened to the batch: its status has changed, its lock is free, its last job has ended. How many jobs are left is
//! counted by events and asked of the tree when the count says none.
//!
//! Lists are hints, and statuses prove the end. A job that was found under way though its batch seemed to have ended is
//! [awaited](Awaited): its status and its lock are watched, and nothing else is looked at before it has ended. If a sweep finds
//! it unchanged and nobody at it, its refs are put back.
//!
//! **When things break.** Every look begins with what the tree says, so that an actor that is started again goes on
//! where the last one stopped. What has to wait for a service (a mail server, a payload of this node's disk) is tried
//! again after a growing pause, with a warning.

use std::sync::Arc;
use std::time::Duration;

use ingest_queue::batches::{BatchLease, Ended, Unended};
use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::ids::Bid;
use ingest_queue::journal::Begin;
use ingest_queue::map::{self, BatchNode, JobNode};
use ingest_queue::plan::batch::Batch;
use ingest_queue::states::{BatchState, States as _};
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::step::expand::{self, Expansion};
use ingest_steps::step::tell;
use ingest_store::error::Next;
use ingest_store::recipes::look;
use ingest_store::{Session, Woken};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::batches;
use crate::crash::{Crash, handled};
use crate::desk::Desk;
use crate::house::{House, Life, Task};
use crate::timekeeper::Watched;

/// The pause before the first retry, and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How long the rest of an expansion waits when the queues are full.
const FULL: Duration = Duration::from_secs(10);

/// What a BatchActor is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something has happened.
    Look,
    /// All batches are looked at, as from time to time.
    Sweep,
    /// What it may have been waiting for has happened: its pause is over.
    Retry,
    /// A job has left those that are under way.
    Left,
    /// A job has ended.
    Ended,
    /// A job has come to those that are under way.
    Joined,
    /// It is time to look: all that was said before is seen by it.
    Again,
}

/// What it is started with.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) house: Arc<House>,
    pub(crate) life: Arc<Life>,
    pub(crate) batches: ActorRef<batches::Message>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) bid: Bid,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct BatchActor;

/// What it knows.
#[derive(Debug)]
pub(crate) struct State {
    setup: Setup,
    myself: ActorRef<Message>,
    /// How many messages of its supervisor it has handled.
    told: u64,
    /// How many jobs are under way, at most, once its expansion is done.
    left: Option<i64>,
    /// How many have not ended, at most, by the lists of those that have.
    open: i64,
    awaited: Option<Awaited>,
    sweeps: u64,
    retries: u32,
    /// Others come before this node, and have had their time.
    waited: bool,
    /// In this state it has to wait until then, whatever is said meanwhile: its own tries are events, too.
    paused: Option<(BatchState, Instant)>,
    timer: Option<Task>,
    /// A look is on its way. However much is said before it comes, it is one look.
    looks: bool,
    /// The one with the same key that it waits for, until that was said.
    behind: Option<Bid>,
}

/// A job that its batch waits for.
#[derive(Debug)]
struct Awaited {
    job: Unended,
    /// How many sweeps there were when it was first seen so.
    sweeps: u64,
    /// Ends with it.
    _watch: Task,
}

/// What a look has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Something has changed by it: look again.
    Again,
    /// An event will come.
    Wait,
    /// Nothing is to be done for this batch.
    Nothing,
    /// Try again after a pause.
    Later(Duration),
}

impl Actor for BatchActor {
    type Msg = Message;
    type State = State;
    type Arguments = Setup;

    async fn pre_start(&self, myself: ActorRef<Message>, setup: Setup) -> Result<State, ActorProcessingErr> {
        Ok(State {
            setup,
            myself,
            told: 0,
            left: None,
            open: 0,
            awaited: None,
            sweeps: 0,
            retries: 0,
            waited: false,
            paused: None,
            timer: None,
            looks: false,
            behind: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        handled(async {
            let concerns = match message {
                Message::Again => {
                    state.looks = false;
                    return state.look(&myself).await;
                }
                Message::Look => true,
                Message::Sweep => {
                    state.sweeps += 1;
                    true
                }
                Message::Retry => {
                    (state.paused, state.retries) = (None, 0);
                    true
                }
                Message::Left => state.has_left(),
                Message::Ended => state.has_ended(),
                // Before its expansion is done nobody counts.
                Message::Joined => state.left.is_some(),
            };
            state.told += 1;
            if concerns && !std::mem::replace(&mut state.looks, true) {
                let _ = myself.cast(Message::Again);
            }
            Ok(())
        })
        .await
    }
}

impl State {
    /// Whether that may have been the last one.
    fn has_left(&mut self) -> bool {
        match &mut self.left {
            None => false,
            Some(left) => {
                *left -= 1;
                *left <= 0
            }
        }
    }

    /// The same by the lists of those that have ended.
    fn has_ended(&mut self) -> bool {
        self.open -= 1;
        self.awaited.is_some() || (self.left.is_some() && self.open <= 0)
    }

    async fn look(&mut self, myself: &ActorRef<Message>) -> Result<(), Crash> {
        let (bid, desk) = (self.setup.bid, self.setup.desk.clone());
        let span = tracing::info_span!("batch", node = self.setup.house.name, batch = %bid);
        loop {
            let looked = self.look_once().instrument(span.clone()).await;
            desk.clear();
            match looked {
                Ok(Look::Again) => (self.retries, self.paused) = (0, None),
                Ok(Look::Wait) => return Ok(()),
                Ok(Look::Nothing) => {
                    let idle = batches::Message::Idle { bid, told: self.told };
                    let _ = self.setup.batches.cast(idle);
                    return Ok(());
                }
                Ok(Look::Later(pause)) => {
                    self.wake_after(myself, pause);
                    return Ok(());
                }
                Err(Error::Store(store)) => match store.next() {
                    // Everything ends with the session.
                    Next::Rebuild => return Ok(()),
                    Next::StopNode => return Err(Crash::error(store)),
                    _ => {
                        let _guard = span.enter();
                        tracing::warn!(error = %store, "the tree did not answer; it is looked at again");
                        self.wake_after(myself, PAUSE);
                        return Ok(());
                    }
                },
                Err(error @ Error::Corrupt { .. }) => {
                    let _guard = span.enter();
                    tracing::error!(%error, "it cannot be read, and is left alone; see `ingestd fsck`");
                    return Ok(());
                }
                Err(error) => return Err(Crash::error(format!("{bid}: {error}"))),
            }
        }
    }

    fn wake_after(&mut self, myself: &ActorRef<Message>, pause: Duration) {
        let myself = myself.clone();
        self.timer = Some(Task::spawn(async move {
            tokio::time::sleep(pause).await;
            let _ = myself.cast(Message::Again);
        }));
    }

    async fn look_once(&mut self) -> Result<Look, Error> {
        let queue = self.setup.life.queue.clone();
        let bid = self.setup.bid;
        let batch = match queue.batch(bid).await {
            Err(Error::NotFound(_)) => return Ok(Look::Nothing),
            batch => batch?,
        };
        if self.paused.is_some_and(|(state, until)| state == batch.state() && Instant::now() < until) {
            return Ok(Look::Wait);
        }
        if batch.state() != BatchState::Processing && !batch.state().is_reporting() {
            self.awaited = None;
        } else if self.still_awaits().await? {
            return Ok(Look::Wait);
        }
        match batch.state() {
            BatchState::Pending | BatchState::Held => self.waits(&batch).await,
            BatchState::Reporting | BatchState::UpdateReporting => self.act().await,
            BatchState::Processing => {
                let expansion = match queue.expansion(bid).await? {
                    Some(expansion) if expansion.done => expansion,
                    _ => return self.act().await,
                };
                let listed = queue.listed(bid, &expansion).await?;
                self.left = Some(i64::try_from(listed.running).unwrap_or(i64::MAX));
                self.open = listed.open;
                // Whoever moves refs one by one can leave one behind.
                let doubts = queue.dialect() == Dialect::MrtZk;
                if listed.is_over() || doubts && queue.is_running_list_stale(bid, &listed).await? {
                    self.act().await
                } else {
                    Ok(Look::Wait)
                }
            }
            BatchState::Failed => {
                let session = queue.session();
                let owes = look(session, || session.exists(map::outbox(bid, 1))).await?.is_some();
                if owes { self.act().await } else { Ok(Look::Nothing) }
            }
            _ => Ok(Look::Nothing),
        }
    }

    /// Whether the job that was awaited still keeps the batch waiting. One that nobody works on since the sweep before is
    /// put back to where its status says.
    async fn still_awaits(&mut self) -> Result<bool, Error> {
        let Some(Awaited { job, sweeps, .. }) = &self.awaited else { return Ok(false) };
        let queue = self.setup.life.queue.clone();
        let (before, seen) = (job.clone(), *sweeps);
        let Some(job) = queue.still_waits(&before).await? else {
            self.awaited = None;
            return Ok(false);
        };
        let is_same = job.version == before.version;
        let is_left_alone = is_same && seen < self.sweeps && !job.is_locked;
        if is_left_alone {
            queue.restore_refs(job.jid).await?;
        }
        self.wait_for(job);
        if is_same && !is_left_alone {
            self.awaited.iter_mut().for_each(|awaited| awaited.sweeps = seen);
        }
        Ok(true)
    }

    /// Waits for a job that has not ended: whatever happens to it is an event.
    fn wait_for(&mut self, job: Unended) {
        let (session, myself) = (self.setup.life.queue.session().clone(), self.myself.clone());
        let seen = job.clone();
        let watch = Task::spawn(async move {
            if has_changed(&session, &seen).await {
                let _ = myself.cast(Message::Look);
            }
        });
        self.awaited = Some(Awaited { job, sweeps: self.sweeps, _watch: watch });
    }

    /// It is not expanded: now, at its date, when the one before it has ended, or not any more.
    async fn waits(&mut self, batch: &Batch) -> Result<Look, Error> {
        let queue = self.setup.life.queue.clone();
        let left = |date: Date| Look::Later(queue.now().until(date));
        match queue.may_begin(batch).await? {
            Begin::Now | Begin::Expired(_) => self.act().await,
            Begin::NotBefore(date) | Begin::Until(Some(date)) => Ok(left(date)),
            Begin::Until(None) => Ok(Look::Nothing),
            Begin::Behind(first, until) => {
                // Told once for each that is before it: the answer is a look, and then its events are.
                if self.behind.replace(first) != Some(first) {
                    let behind = batches::Message::Behind { first, bid: self.setup.bid };
                    let _ = self.setup.batches.cast(behind);
                    return Ok(Look::Wait);
                }
                self.behind = None;
                Ok(until.map_or(Look::Wait, left))
            }
        }
    }

    /// Acts, if nobody else does and it is this node's turn.
    async fn act(&mut self) -> Result<Look, Error> {
        let Setup { house, life, bid, .. } = &self.setup;
        let (queue, bid) = (life.queue.clone(), *bid);
        if !house.takes_work() {
            return Ok(Look::Wait);
        }
        let rank = life.rank(bid.number());
        if rank > 0 && !self.waited {
            self.waited = true;
            return Ok(Look::Later(house.settings.load().queue.rank_delay.saturating_mul(rank)));
        }
        self.waited = false;
        let lock = BatchNode::Lock.of(bid);
        let session = queue.session();
        if rank > 0 && look(session, || session.exists(lock.as_str())).await?.is_some() {
            return Ok(Look::Wait);
        }
        let desk = self.setup.desk.clone();
        let Some(sitting) = desk.sit() else { return Ok(Look::Wait) };
        // Before anything is locked: whoever cleans up after this actor looks here.
        let (progress, cancel) = desk.put_other(Some(bid));
        let mut lease = match queue.acquire_batch(bid, &desk.holder).await {
            Ok(lease) => lease,
            // Its release is an event.
            Err(Error::Busy { .. }) => return Ok(Look::Wait),
            Err(Error::Deleting(_)) => return Ok(Look::Nothing),
            Err(Error::Lost { .. } | Error::Changed { .. } | Error::NotFound(_)) => return Ok(Look::Again),
            Err(error) => return Err(error),
        };
        let watched = Watched::new(&self.setup.house, &desk);
        let work = self.work(&mut lease, &progress, &cancel);
        let answer = ingest_steps::outcome::BUSY.scope(Arc::new(sitting.clone()), work).await;
        drop(watched);
        let looked = match answer {
            Ok(looked) => looked,
            Err(Failure::Lost(why)) => {
                tracing::info!(why, "let go");
                Look::Wait
            }
            Err(Failure::Cancelled) => Look::Wait,
            Err(Failure::Again(why)) => {
                tracing::info!(why, "tried again");
                self.pause_for(lease.batch().state(), PAUSE)
            }
            Err(failure) => {
                let pause = PAUSE.saturating_mul(1 << self.retries.min(16)).min(LONGEST_PAUSE);
                self.retries += 1;
                tracing::warn!(%failure, ?pause, tries = self.retries, "it has to wait");
                self.pause_for(lease.batch().state(), pause)
            }
        };
        // Given back already where its work is done.
        match queue.release_batch(&mut lease).await {
            Ok(()) | Err(Error::Lost { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(looked)
    }

    fn pause_for(&mut self, state: BatchState, pause: Duration) -> Look {
        self.paused = Some((state, Instant::now() + pause));
        Look::Later(pause)
    }

    /// What is to be done in the state that the batch is in.
    async fn work(
        &mut self,
        lease: &mut BatchLease,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Look, Failure> {
        let life = self.setup.life.clone();
        let (queue, services) = (&life.queue, life.services());
        match lease.batch().state() {
            BatchState::Pending | BatchState::Held | BatchState::Processing => {
                match queue.may_begin(lease.batch()).await? {
                    Begin::Now => {}
                    Begin::Expired(date) => {
                        queue.expire_batch(lease, date).await?;
                        tracing::warn!(%date, "it has expired");
                        return Ok(Look::Again);
                    }
                    _ => return Ok(Look::Again),
                }
                if lease.batch().state() == BatchState::Processing
                    && queue.expansion(lease.bid()).await?.is_some_and(|expansion| expansion.done)
                {
                    return self.end(lease, progress).await;
                }
                if lease.batch().state() == BatchState::Pending {
                    match tell::queued(queue, lease, &services).await {
                        // A mail that cannot be sent keeps nobody's deposit waiting.
                        Err(Failure::Later(why) | Failure::Fail(why)) => {
                            tracing::warn!(why, "the depositor was not told that the batch is queued");
                        }
                        told => {
                            told?;
                        }
                    }
                }
                match expand::run(queue, lease, &services, progress, cancel).await? {
                    Expansion::Done { jobs } => {
                        tracing::info!(jobs, "expanded");
                        Ok(Look::Again)
                    }
                    Expansion::Full { next } => {
                        tracing::warn!(next, "the queues are full, and the rest waits");
                        Ok(self.pause_for(BatchState::Processing, FULL))
                    }
                    Expansion::Held(why) => {
                        tracing::info!(why, "held");
                        Ok(Look::Nothing)
                    }
                    Expansion::Failed(why) => {
                        tracing::warn!(why, "it cannot be expanded");
                        Ok(Look::Again)
                    }
                }
            }
            BatchState::Reporting | BatchState::UpdateReporting | BatchState::Failed => {
                // Another program has brought one back.
                if lease.batch().state().is_reporting()
                    && let Some(job) = queue.unended_of(lease, &|_| progress.beat()).await?
                {
                    tracing::warn!(why = job.why, "it is not reported before that has ended");
                    self.wait_for(job);
                    return Ok(Look::Wait);
                }
                let told = tell::run(queue, lease, &services, progress).await?;
                tracing::info!(?told, state = lease.batch().state().name(), "reported");
                Ok(Look::Again)
            }
            _ => Ok(Look::Again),
        }
    }

    /// Ends a batch whose jobs have all ended, and reports.
    async fn end(&mut self, lease: &mut BatchLease, progress: &Progress) -> Result<Look, Failure> {
        let life = self.setup.life.clone();
        match life.queue.end_batch_telling(lease, &|_| progress.beat()).await? {
            Ended::Yes => {
                tracing::info!("all its jobs have ended");
                let told = tell::run(&life.queue, lease, &life.services(), progress).await?;
                tracing::info!(?told, state = lease.batch().state().name(), "reported");
                Ok(Look::Again)
            }
            Ended::Waits(why) => {
                tracing::debug!(why, "it waits");
                Ok(Look::Again)
            }
            Ended::WaitsFor(job) => {
                tracing::info!(why = job.why, "it waits");
                self.wait_for(job);
                Ok(Look::Wait)
            }
        }
    }
}

/// Returns when something has happened to a job since it was seen. `false`: the session is over.
async fn has_changed(session: &Session, seen: &Unended) -> bool {
    let watch = async |at: String| look(session, || session.watch_exists(at.as_str())).await;
    let (status, lock, dir) = (JobNode::Status.of(seen.jid), JobNode::Lock.of(seen.jid), map::job(seen.jid));
    let (Ok((there, gone)), Ok((locked, unlocked)), Ok((now, changed))) =
        (watch(dir).await, watch(lock).await, watch(status).await)
    else {
        return false;
    };
    let is_same = there.is_some() && now.map(|stat| stat.version) == seen.version;
    if !is_same || seen.is_locked && locked.is_none() {
        return true;
    }
    let woken = tokio::select! {
        woken = gone.woken() => woken,
        woken = unlocked.woken() => woken,
        woken = changed.woken() => woken,
    };
    !matches!(woken, Woken::Ended(_))
}
