//! Plans for one job.

use bytes::Bytes;
use ingest_store::{Op, path};

use super::{Lock, Plan, Scene};
use crate::committer::Mark;
use crate::date::Date;
use crate::dialect::Dialect;
use crate::ids::{Bid, Jid};
use crate::map::{self, JobNode, Priority, QueueRef};
use crate::nodes::{
    Configuration, Entry, History, Identifiers, JobStatus, Metadata, Node, Number, Owner, Schedule,
};
use crate::reasons;
use crate::states::{BatchList, JobState, Refused, States, To, Who, Why};

/// In a job's status: what is told of it beside its message.
pub const NOTE: &str = "note";

/// A job as it was read. Everything else that a plan rests on is fenced by the version of the status.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub jid: Jid,
    pub bid: Bid,
    pub priority: Priority,
    pub status: JobStatus,
    /// Of the status: the fence.
    pub version: i32,
    /// `None`: the node is not there yet.
    pub history: Option<History>,
}

impl Job {
    pub fn entry(&self) -> QueueRef {
        QueueRef::new(self.status.status, self.priority, self.jid)
    }

    pub fn state(&self) -> JobState {
        self.status.status
    }
}

/// What a transition changes besides the state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    pub message: String,
    pub priority: Option<Priority>,
    pub space_needed: Option<i64>,
    /// Whether trying again can help, for a failure.
    pub hopeless: bool,
    /// What is to be told of the job beside its message, in all that follows; empty: nothing any more. `None`: as before.
    pub note: Option<String>,
    /// What is written together with the transition, or not at all.
    pub also: Vec<Op>,
}

impl Change {
    pub fn message(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}

/// What a new job is made of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewJob {
    pub configuration: Configuration,
    pub identifiers: Identifiers,
    pub metadata: Metadata,
    pub priority: Priority,
    pub space_needed: i64,
    pub schedule: Option<Schedule>,
}

/// The operations that make a job, in the pending queue and in its batch's list.
pub fn create(jid: Jid, bid: Bid, new: &NewJob, scene: &Scene) -> Vec<Op> {
    let dialect = scene.dialect;
    let dir = map::job(jid);
    let node = |node: JobNode| path::join(&dir, node.name());
    let configuration = Configuration { batch_id: Some(bid), ..new.configuration.clone() };
    let schedule = new.schedule.as_ref();
    let status = JobStatus {
        process_date: schedule.and_then(|dates| dates.process_date).filter(|date| *date > scene.now),
        expiration_date: schedule.and_then(|dates| dates.expiration_date),
        ..JobStatus::new(JobState::Pending, scene.now)
    };
    let mut ops = vec![
        Op::create(dir.as_str(), Bytes::new()),
        Op::create(node(JobNode::Bid), bid.to_string()),
        Op::create(node(JobNode::Configuration), configuration.write(dialect)),
        Op::create(node(JobNode::Status), status.write(dialect)),
        Op::create(node(JobNode::Priority), number(new.priority)),
        Op::create(node(JobNode::SpaceNeeded), Number(new.space_needed).write(dialect)),
    ];
    if !new.identifiers.is_empty() {
        ops.push(Op::create(node(JobNode::Identifiers), new.identifiers.write(dialect)));
    }
    if !new.metadata.is_empty() {
        ops.push(Op::create(node(JobNode::Metadata), new.metadata.write(dialect)));
    }
    if let Some(schedule) = schedule {
        ops.push(Op::create(node(JobNode::Schedule), schedule.write(dialect)));
    }
    // Before the queue ref: whoever follows both knows that it is not due before it knows that it waits.
    ops.extend(date_refs(jid, &status).map(|at| Op::create(at, Bytes::new())));
    ops.push(Op::create(QueueRef::new(JobState::Pending, new.priority, jid).path(), Bytes::new()));
    ops.push(Op::create(map::batch_ref(bid, BatchList::Processing, jid), Bytes::new()));
    ops
}

/// Where the dates of a job are kept, as long as its status has them.
pub fn date_refs(jid: Jid, status: &JobStatus) -> impl Iterator<Item = String> {
    let due = status.process_date.map(|date| map::journal_date(date.millis(), jid));
    let late = status.expiration_date.map(|date| map::journal_expiration(date.millis(), jid));
    due.into_iter().chain(late)
}

/// The status of a job that is acquired.
pub fn acquired(status: &JobStatus, now: Date) -> JobStatus {
    JobStatus {
        attempt: status.attempt.saturating_add(1),
        start_processing_date: Some(now),
        last_modification_date: Some(now),
        ..status.clone()
    }
}

/// The status of a job that is given back without a transition: its worker has ended properly.
pub fn given_back(status: &JobStatus, message: Option<&str>, now: Date) -> JobStatus {
    JobStatus {
        start_processing_date: None,
        last_modification_date: Some(now),
        message: message.unwrap_or(&status.message).to_owned(),
        ..status.clone()
    }
}

/// Moves a job that its worker holds. `checks` are what else the move rests on.
pub fn advance(
    job: &Job,
    to: JobState,
    by: Who,
    change: &Change,
    lock: Lock,
    checks: &[Op],
    scene: &Scene,
) -> Result<Plan<Job>, Refused> {
    let row = job.state().may_go(to, by, scene.dialect)?;
    Ok(moved(job, to, row.why, change, lock, checks, scene))
}

/// Something that is done to a job that nobody works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Hold,
    Release,
    /// To the state after the last successful one, or to this one.
    Requeue(Option<JobState>),
    SetPriority(Priority),
    Delete,
    /// The queue: the collection is held.
    HoldForCollection,
    /// The queue: the payload is not what was announced. Submit it again.
    Reject,
    /// The queue: its files are gone with their node.
    StartOver,
    /// The timekeeper: it crashed its worker too often.
    Poison,
    /// The timekeeper: its expiration date has passed.
    Expire,
    /// The janitor: it leaves the queue.
    Clean,
}

impl Action {
    /// Who does this, and what kind of a move it is.
    pub fn role(&self) -> (Who, Option<Why>) {
        match self {
            Action::Hold => (Who::Admin, Some(Why::Hold)),
            Action::Release => (Who::Admin, Some(Why::Release)),
            Action::Requeue(_) => (Who::Admin, Some(Why::Requeue)),
            Action::SetPriority(_) => (Who::Admin, None),
            Action::Delete => (Who::Admin, Some(Why::Delete)),
            Action::HoldForCollection => (Who::Queue, Some(Why::Hold)),
            Action::Reject => (Who::Queue, Some(Why::Failure)),
            Action::StartOver => (Who::Queue, Some(Why::StartOver)),
            Action::Poison => (Who::Timekeeper, Some(Why::Failure)),
            Action::Expire => (Who::Timekeeper, Some(Why::Delete)),
            Action::Clean => (Who::Janitor, Some(Why::Clean)),
        }
    }

    /// Whether the job itself goes.
    pub fn deletes(&self) -> bool {
        matches!(self, Action::Delete | Action::Expire)
    }

    /// Whether the batch must be one that still takes changes.
    pub fn concerns_the_batch(&self) -> bool {
        matches!(self, Action::Requeue(_) | Action::Release | Action::Delete | Action::Expire)
    }
}

/// Where an action leads from here: a state, or out of the queue.
pub fn target(job: &Job, action: &Action, dialect: Dialect) -> Result<Option<JobState>, Refused> {
    let (by, why) = action.role();
    let Some(why) = why else {
        return match job.state() {
            JobState::Completed | JobState::Deleted => {
                Err(job.state().refuse("another priority", by, dialect))
            }
            state => Ok(Some(state)),
        };
    };
    let row = job.state().may(why, by, dialect)?;
    match (row.to, action) {
        (To::Restart(_), Action::Requeue(Some(chosen))) => {
            job.state().may_go(*chosen, by, dialect)?;
            Ok(Some(*chosen))
        }
        (To::Restart(_), _) => Ok(Some(JobState::restart(job.status.last_successful_status, dialect))),
        (To::State(state), _) => Ok(Some(state)),
        (To::Deleted | To::Cleaned, _) => Ok(None),
    }
}

/// Does something to a job that stays in the tree; see [`delete`] for the others.
pub fn act(
    job: &Job,
    action: &Action,
    message: &str,
    lock: Lock,
    checks: &[Op],
    scene: &Scene,
) -> Result<Plan<Job>, Refused> {
    let change = Change {
        note: None,
        message: message.to_owned(),
        priority: match action {
            Action::SetPriority(priority) => Some(*priority),
            _ => None,
        },
        space_needed: None,
        hopeless: *action == Action::Reject,
        also: Vec::new(),
    };
    let why = action.role().1;
    match (target(job, action, scene.dialect)?, why) {
        (Some(to), Some(why)) => Ok(moved(job, to, why, &change, lock, checks, scene)),
        (Some(_), None) => Ok(changed(job, &change, lock, checks, scene)),
        (None, _) => Ok(cleaned(job, lock, checks, scene)),
    }
}

/// Removes a job: everything below it, its queue ref, and its place among the living of its batch.
/// `below` are the paths below its node, deepest first; `more` removes what belongs to it elsewhere; `list` is
/// where its batch names it from now on, and what it says of it there.
pub fn delete(
    job: &Job,
    below: &[String],
    lock: Lock,
    list: Option<(BatchList, Bytes)>,
    checks: &[Op],
    more: &[Op],
    scene: &Scene,
) -> Plan<()> {
    let status = JobNode::Status.of(job.jid);
    let lock_path = JobNode::Lock.of(job.jid);
    let (before, after) = lock.around(lock_path.clone(), || owner(job, scene));
    let mut ops: Vec<Op> = before.into_iter().collect();
    ops.extend_from_slice(checks);
    ops.push(Op::delete(status.as_str(), job.version));
    let rest = below.iter().filter(|path| **path != status && **path != lock_path);
    ops.extend(rest.map(|path| Op::delete(path.as_str(), None)));
    ops.push(Op::delete(job.entry().path(), None));
    ops.push(Op::delete(map::batch_ref(job.bid, job.state().list(), job.jid), None));
    if let Some((list, said)) = list {
        ops.push(Op::create(map::batch_ref(job.bid, list, job.jid), said));
    }
    ops.extend(date_refs(job.jid, &job.status).map(|at| Op::delete(at, None)));
    ops.extend_from_slice(more);
    ops.extend(after);
    ops.push(Op::delete(map::job(job.jid), None));
    Plan { ops, mark: Mark::Gone(status), after: () }
}

/// A transition: status at the fence, queue ref, batch ref if its list changes, history, lock.
fn moved(
    job: &Job,
    to: JobState,
    why: Why,
    change: &Change,
    lock: Lock,
    checks: &[Op],
    scene: &Scene,
) -> Plan<Job> {
    let from = job.state();
    let mut status = JobStatus {
        status: to,
        last_modification_date: Some(scene.now),
        // A node holds little, and every commit carries the message.
        message: reasons::shortened(&change.message),
        start_processing_date: match lock {
            // With a hand-over the next worker starts now.
            Lock::Keep | Lock::Take => Some(scene.now),
            // Its worker is gone with its node: that is not forgotten.
            Lock::Within if why == Why::StartOver => job.status.start_processing_date,
            _ => None,
        },
        ..job.status.clone()
    };
    match why {
        Why::Success if from.is_working() => status.last_successful_status = Some(from),
        // What is pending fails for what was handed over, and nothing that is done here can help.
        Why::Failure => status.recoverable = !change.hopeless && from != JobState::Pending,
        Why::Requeue => {
            status.retry_count = status.retry_count.saturating_add(1);
            status.last_successful_status = done_before(to, status.last_successful_status, scene.dialect);
        }
        Why::StartOver => {
            status.last_successful_status = done_before(to, status.last_successful_status, scene.dialect);
        }
        _ => {}
    }
    if matches!(lock, Lock::Keep | Lock::Take) {
        status.attempt = status.attempt.saturating_add(1);
    }
    // A date counts until its job is begun. One that a person requeues is wanted, however late.
    if !matches!(to, JobState::Pending | JobState::Held) {
        status.process_date = None;
    }
    if !to.is_waiting() {
        status.expiration_date = None;
    }
    match change.note.as_deref() {
        None => {}
        Some("") => drop(status.other.remove(NOTE)),
        Some(note) => drop(status.other.insert(NOTE.to_owned(), reasons::shortened(note).into())),
    }
    let kept: Vec<String> = date_refs(job.jid, &status).collect();
    let dates = date_refs(job.jid, &job.status).filter(|at| !kept.contains(at));
    let priority = change.priority.unwrap_or(job.priority);
    let after = after(job, status, priority, &change.message, scene);
    let mut ops = fenced(job, &after, lock, checks, scene);
    ops.extend(dates.map(|at| Op::delete(at, None)));
    ops.push(Op::delete(job.entry().path(), None));
    ops.push(Op::create(after.entry().path(), Bytes::new()));
    if from.list() != to.list() {
        ops.push(Op::delete(map::batch_ref(job.bid, from.list(), job.jid), None));
        ops.push(Op::create(map::batch_ref(job.bid, to.list(), job.jid), Bytes::new()));
    }
    finish(job, after, change, ops, lock, scene)
}

/// The same state with another priority: the queue ref is renamed.
fn changed(job: &Job, change: &Change, lock: Lock, checks: &[Op], scene: &Scene) -> Plan<Job> {
    let priority = change.priority.unwrap_or(job.priority);
    let mut status = JobStatus { last_modification_date: Some(scene.now), ..job.status.clone() };
    if lock == Lock::TakeAway {
        // A worker whose job was taken away has not crashed.
        status.start_processing_date = None;
    }
    let after = after(job, status, priority, &change.message, scene);
    let mut ops = fenced(job, &after, lock, checks, scene);
    if priority != job.priority {
        ops.push(Op::delete(job.entry().path(), None));
        ops.push(Op::create(after.entry().path(), Bytes::new()));
    }
    finish(job, after, change, ops, lock, scene)
}

/// Out of the queue; the batch still names it. Nothing about the job changes, so neither does the date of its last change.
fn cleaned(job: &Job, lock: Lock, checks: &[Op], scene: &Scene) -> Plan<Job> {
    let status = job.status.clone();
    let change = Change::message("cleaned");
    let after = after(job, status, job.priority, &change.message, scene);
    let mut ops = fenced(job, &after, lock, checks, scene);
    ops.push(Op::delete(job.entry().path(), None));
    finish(job, after, &change, ops, lock, scene)
}

fn after(job: &Job, status: JobStatus, priority: Priority, message: &str, scene: &Scene) -> Job {
    let entry = Entry {
        at: scene.now,
        from: Some(job.state()),
        to: status.status,
        node: scene.node.clone(),
        attempt: job.status.attempt,
        commit: scene.commit.clone(),
        message: message.to_owned(),
        other: crate::nodes::Other::new(),
    };
    let history = Some(job.history.as_ref().unwrap_or(&History::default()).and(entry));
    Job { jid: job.jid, bid: job.bid, priority, status, version: job.version.wrapping_add(1), history }
}

/// The lock if it is taken within, what the plan rests on, and the status at the fence.
fn fenced(job: &Job, after: &Job, lock: Lock, checks: &[Op], scene: &Scene) -> Vec<Op> {
    let (before, _) = lock.around(JobNode::Lock.of(job.jid), || owner(job, scene));
    let mut ops: Vec<Op> = before.into_iter().collect();
    ops.push(Op::set(JobNode::Status.of(job.jid), after.status.write(scene.dialect), job.version));
    ops.extend_from_slice(checks);
    ops
}

fn finish(job: &Job, after: Job, change: &Change, mut ops: Vec<Op>, lock: Lock, scene: &Scene) -> Plan<Job> {
    let dialect = scene.dialect;
    if after.priority != job.priority {
        ops.push(Op::set(JobNode::Priority.of(job.jid), number(after.priority), None));
    }
    if let Some(space) = change.space_needed {
        ops.push(Op::set(JobNode::SpaceNeeded.of(job.jid), Number(space).write(dialect), None));
    }
    ops.extend_from_slice(&change.also);
    let path = JobNode::History.of(job.jid);
    let history = after.history.as_ref().map(|history| history.write(dialect)).unwrap_or_default();
    ops.push(if job.history.is_some() {
        Op::set(path.as_str(), history, None)
    } else {
        Op::create(path.as_str(), history)
    });
    let (_, last) = lock.around(JobNode::Lock.of(job.jid), Bytes::new);
    ops.extend(last);
    Plan { ops, mark: Mark::holds(path, scene.commit.as_str()), after }
}

/// The last state whose work still counts for a job that goes (back) to this one.
fn done_before(to: JobState, last: Option<JobState>, dialect: Dialect) -> Option<JobState> {
    let before = JobState::WORKING.iter().copied().find(|state| state.success(dialect) == Some(to));
    // The states of work are in their order.
    last.min(before)
}

fn owner(job: &Job, scene: &Scene) -> Bytes {
    let owner = Owner {
        node: scene.node.clone(),
        attempt: job.status.attempt,
        since: Some(scene.now),
        commit: scene.commit.clone(),
        ..Owner::default()
    };
    owner.write(scene.dialect)
}

fn number(priority: Priority) -> Bytes {
    Number(i64::from(priority.number())).write(Dialect::Design)
}
