//! What each call may do, told from the tree before it: whether it must be done or refused, who does it,
//! and what it is about.

use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{BatchNode, HeldQueue, JobNode, Priority, QueueRef};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action;
use ingest_queue::states::{AccessState, BatchList, BatchState, JobState, States, Who};

use crate::call::{Call, Held, hand_over};
use crate::event::{AccessAct, AccessStep, BatchStep, JobStep};
use crate::model::ModelEngine;
use crate::tables::{ACCESS, BATCHES, JOBS, allows};
use crate::view::{BatchView, JobView, View};
use crate::world::{MAX_TIMEOUTS, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    Refused,
    /// Refused, and the job fails as poison.
    Poisoned,
    /// Either: the tree does not say it.
    Open,
}

/// What is known of a call before it is made.
#[derive(Debug, Clone)]
pub(crate) struct Forecast {
    pub(crate) fate: Fate,
    pub(crate) who: Option<Who>,
    /// The only job and the only batch that it may change.
    pub(crate) job: Option<Jid>,
    pub(crate) batch: Option<Bid>,
    /// Whether the job gets one more attempt.
    pub(crate) attempt: bool,
    /// Whether the job's history may grow without a change of its state.
    pub(crate) noted: bool,
    pub(crate) scope: Scope,
}

/// What a call may make or remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Nothing,
    Jobs,
    Batch,
    /// A batch, with all its jobs.
    Removal,
}

pub(crate) fn forecast(world: &World, call: &Call) -> Forecast {
    let (engine, dialect, view) = (&world.engine, world.dialect, &world.view);
    let mut told = Forecast {
        fate: Fate::Open,
        who: None,
        job: None,
        batch: None,
        attempt: false,
        noted: false,
        scope: Scope::Nothing,
    };
    match call {
        Call::CreateBatch { .. } => {
            (told.fate, told.scope) = (Fate::Done, Scope::Batch);
        }
        Call::AcquireBatch { queue, bid } => {
            let batch = &view.batches[bid];
            told.batch = Some(*bid);
            told.fate = when(batch.lock.is_none() && !batch.deleting);
            if told.fate == Fate::Done && world.is_in_hand(queue, &BatchNode::Lock.of(*bid)) {
                told.fate = Fate::Open;
            }
        }
        Call::WithBatch { held, step, first } => with_batch(&mut told, engine, view, held, *step, *first),
        Call::Acquire { queue, entry, .. } => {
            let job = &view.jobs[&entry.jid];
            told.job = Some(entry.jid);
            told.who = Some(Who::Timekeeper);
            told.attempt = true;
            told.fate = fate_of_acquire(view, job, *entry);
            if told.fate == Fate::Done && world.is_in_hand(queue, &JobNode::Lock.of(entry.jid)) {
                told.fate = Fate::Open;
            }
        }
        Call::WithJob { held, step } => with_job(&mut told, engine, view, held, *step, dialect),
        Call::Act { jid, action, force, .. } => {
            let job = &view.jobs[jid];
            told.job = Some(*jid);
            told.who = Some(action.role().0);
            told.noted = matches!(action, Action::SetPriority(_) | Action::Clean);
            told.fate = when(act_is_allowed(view, job, action, dialect) && (job.lock.is_none() || *force));
        }
        Call::ActOnBatch { bid, action, force, .. } => {
            let batch = &view.batches[bid];
            told.batch = Some(*bid);
            told.who = Some(action.role().0);
            told.fate = when(
                !batch.deleting
                    && (batch.lock.is_none() || *force)
                    && batch_act_is_allowed(view, batch, *action),
            );
        }
        Call::RemoveBatch { bid, janitor, force, .. } => {
            let batch = &view.batches[bid];
            let (by, force) = if *janitor { (Who::Janitor, false) } else { (Who::Admin, *force) };
            told.batch = Some(*bid);
            (told.who, told.scope) = (Some(by), Scope::Removal);
            let allowed = allows(BATCHES, batch.status.status.name(), &by.to_string(), "deleted", dialect);
            // One that has failed is a person's, unless nothing but time was wrong with it.
            let expired = batch.status.other.contains_key("expired");
            let allowed = allowed && (!janitor || batch.status.status != BatchState::Failed || expired);
            told.fate = when(batch.deleting || (allowed && (batch.lock.is_none() || force)));
        }
        Call::WorkerDies { .. }
        | Call::HoldCollection { .. }
        | Call::HoldQueue { .. }
        | Call::CreateAccess { .. } => told.fate = Fate::Done,
        Call::AcquireAccess { .. } | Call::WithAccess { .. } | Call::ActOnAccess { .. } => {
            access(&mut told, engine, view, call, dialect);
        }
    }
    told
}

fn access(told: &mut Forecast, engine: &ModelEngine, view: &View, call: &Call, dialect: Dialect) {
    match call {
        Call::AcquireAccess { size, .. } => {
            told.who = Some(Who::Queue);
            let waits = view.access.iter().any(|((of, _), item)| {
                let state = item.status.status;
                of == size
                    && item.lock.is_none()
                    && matches!(state, AccessState::Pending | AccessState::Processing)
            });
            let held = view.held_queues.contains(size.hold().name());
            // An item that is in somebody's hands here is passed over.
            told.fate = if waits && !held { Fate::Open } else { Fate::Refused };
        }
        Call::WithAccess { held, step } => {
            let item = held.lease.item();
            let now = view.access.get(&(item.size, item.aid));
            let good = now.is_some_and(|now| {
                now.version == item.version && now.lock == Some(held.queue.session().id())
            }) && is_live(engine, &held.queue);
            told.who = Some(Who::Worker);
            let from = item.status.status.name();
            told.fate = when(
                good && match step {
                    AccessStep::Finish(to) => {
                        allows(ACCESS, from, "worker", to.name(), dialect) && to.name() != "deleted"
                    }
                    AccessStep::GiveBack | AccessStep::Rewrite => true,
                },
            );
        }
        Call::ActOnAccess { size, aid, act, .. } => {
            let item = &view.access[&(*size, *aid)];
            let (by, to) = match act {
                AccessAct::Requeue => (Who::Admin, "processing"),
                AccessAct::Delete => (Who::Admin, "deleted"),
                AccessAct::Clean => (Who::Janitor, "deleted"),
            };
            told.who = Some(by);
            let from = item.status.status.name();
            told.fate = when(item.lock.is_none() && allows(ACCESS, from, &by.to_string(), to, dialect));
        }
        _ => {}
    }
}

fn when(done: bool) -> Fate {
    if done { Fate::Done } else { Fate::Refused }
}

fn is_live(engine: &ModelEngine, queue: &ingest_queue::queue::Queue) -> bool {
    engine.live_sessions().contains(&queue.session().id())
}

fn fate_of_acquire(view: &View, job: &JobView, entry: QueueRef) -> Fate {
    let held = job.state() == JobState::Pending && view.held_queues.contains(HeldQueue::Ingest.name());
    let crashed = job.status.start_processing_date.is_some();
    // By a ref that is not the job's own any more, nobody gets it.
    let own = entry.priority == Priority::nearest(job.priority);
    let may = own && job.lock.is_none() && job.state().is_taken_from() && !held;
    if may && crashed && job.timeouts + 1 >= MAX_TIMEOUTS && job.state().is_working() {
        return Fate::Poisoned;
    }
    when(may)
}

/// A lease is good while its session lives, its lock is there and the fence is at its token.
fn with_job(
    told: &mut Forecast,
    engine: &ModelEngine,
    view: &View,
    held: &Held<ingest_queue::jobs::Lease>,
    step: JobStep,
    dialect: Dialect,
) {
    let lease = &held.lease;
    let good = is_live(engine, &held.queue)
        && view.jobs.get(&lease.jid()).is_some_and(|job| {
            job.version == lease.token().version() && job.lock == Some(held.queue.session().id())
        });
    told.job = Some(lease.jid());
    let from = lease.job().state();
    let worker = if from == JobState::Pending { Who::Queue } else { Who::Worker };
    let (to, by, keep) = match step {
        JobStep::Succeed => (from.success(dialect), worker, false),
        JobStep::Fail { .. } => (Some(JobState::Failed), worker, false),
        JobStep::HandOver => {
            let (to, by) = hand_over(from, &held.queue);
            (Some(to), by, true)
        }
        JobStep::Advance { to, by, keep } => (Some(to), by, keep),
        JobStep::GiveBack | JobStep::Write | JobStep::Gate | JobStep::SetPriority(_) => {
            let same = matches!(step, JobStep::SetPriority(to) if to == lease.job().priority);
            told.noted = matches!(step, JobStep::SetPriority(_));
            told.fate = if same { Fate::Open } else { when(good) };
            return;
        }
    };
    (told.who, told.attempt) = (Some(by), keep);
    let held_back =
        view.jobs.get(&lease.jid()).is_some_and(|job| view.held_collections.contains(&job.collection));
    let allowed = to.is_some_and(|to| {
        allows(JOBS, from.name(), &by.to_string(), to.name(), dialect)
            && to != JobState::Deleted
            && (!keep || to.is_working())
            && !(from == JobState::Pending && to == JobState::Estimating && held_back)
            && !(to == JobState::Held && by == Who::Queue && !held_back)
    });
    told.fate = when(good && allowed);
}

fn act_is_allowed(view: &View, job: &JobView, action: &Action, dialect: Dialect) -> bool {
    let batch = &view.batches[&job.bid];
    let is_held = view.held_collections.contains(&job.collection);
    let (by, _) = action.role();
    let to = |state: &str| allows(JOBS, job.name(), &by.to_string(), state, dialect);
    let open = !batch.deleting && !batch.status.status.is_reporting();
    match action {
        Action::Hold => to("held"),
        Action::Release => to("pending") && open && !is_held,
        Action::Requeue(chosen) => {
            let state = chosen.map_or("estimating", States::name);
            job.state() == JobState::Failed
                && to(state)
                && state != "deleted"
                && job.status.recoverable
                && open
        }
        Action::SetPriority(_) => job.state() != JobState::Completed,
        Action::Delete | Action::Expire => to("deleted") && open,
        Action::HoldForCollection => to("held") && is_held,
        Action::Reject | Action::Poison => to("failed"),
        Action::StartOver => to("downloading"),
        Action::Clean => to("cleaned"),
    }
}

fn batch_act_is_allowed(view: &View, batch: &BatchView, action: BatchAction) -> bool {
    let is_held = view.held_collections.contains(batch.submission.collection());
    let from = batch.status.status;
    match action {
        BatchAction::Hold => from == BatchState::Pending,
        BatchAction::Release => from == BatchState::Held && !is_held,
        BatchAction::UpdateReport => {
            let has_jobs = BatchList::ALL.iter().any(|list| !batch.list(*list).is_empty());
            from == BatchState::Failed && batch.list(BatchList::Processing).is_empty() && has_jobs
        }
        BatchAction::HoldForCollection => from == BatchState::Pending && is_held,
    }
}

fn with_batch(
    told: &mut Forecast,
    engine: &ModelEngine,
    view: &View,
    held: &Held<ingest_queue::batches::BatchLease>,
    step: BatchStep,
    first: u64,
) {
    let lease = &held.lease;
    let now = view.batches.get(&lease.bid());
    let good = is_live(engine, &held.queue)
        && now.is_some_and(|batch| {
            batch.version == lease.token().version() && batch.lock == Some(held.queue.session().id())
        });
    told.batch = Some(lease.bid());
    let state = lease.batch().state();
    let expansion = now.and_then(|batch| batch.expansion.as_ref());
    let is_held = now.is_some_and(|batch| view.held_collections.contains(batch.submission.collection()));
    let tells = state.is_reporting() || now.is_some_and(|batch| batch.owes);
    told.who = Some(match step {
        BatchStep::Finish => Who::Worker,
        _ => Who::Queue,
    });
    if matches!(step, BatchStep::Expand { .. }) {
        told.scope = Scope::Jobs;
    }
    told.fate = match step {
        BatchStep::Release | BatchStep::Note => when(good),
        // Going on with one changes nothing.
        BatchStep::Begin if expansion.is_some() => Fate::Open,
        BatchStep::Begin => when(good && state == BatchState::Pending && !is_held),
        BatchStep::Expand { .. } => {
            when(good && expansion.is_some_and(|at| at.next == first && first < at.total))
        }
        BatchStep::Fail => when(good && state == BatchState::Pending),
        // What is not expanded waits, whoever asks.
        BatchStep::End if expansion.is_none_or(|expansion| !expansion.done) => Fate::Open,
        BatchStep::End => when(good && state == BatchState::Processing),
        BatchStep::Draft => when(good && tells),
        BatchStep::Sent => when(good && tells && held.draft.is_some()),
        BatchStep::Finish => match &held.draft {
            Some(draft) => when(good && tells && (draft.sent.is_some() || !draft.is_news())),
            None => Fate::Refused,
        },
    };
}
