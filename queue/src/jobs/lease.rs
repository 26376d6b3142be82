//! A job that this node works on.

use std::time::Duration;

use ingest_store::recipes::lock_table::{Released, Token};
use ingest_store::{Kind, Op};

use crate::committer::Unit;
use crate::error::{Error, Result};
use crate::ids::Jid;
use crate::limits::{Slot, is_about_limits};
use crate::map::{JobNode, QueueRef};
use crate::nodes::{Node, Schedule};
use crate::plan::Lock;
use crate::plan::claim::{self, Taking};
use crate::plan::job::{self, Action, Change, Job};
use crate::queue::Queue;
use crate::states::{JobState, States, Who};

/// The right to work on a job, from its acquire to its next transition. There is at most one commit
/// of it under way: every call that commits takes it by `&mut`.
///
/// After [`Error::Lost`], too, it is given back ([`Queue::give_back`], or [`Queue::release_all_of`] its
/// holder): until then this node does not take the job again, because its old task may still be at it.
#[derive(Debug)]
pub struct Lease {
    pub(crate) job: Job,
    pub(crate) token: Token,
    /// The slots that are held for it; see [`crate::limits`].
    pub(crate) slots: Vec<Slot>,
}

impl Lease {
    pub fn jid(&self) -> Jid {
        self.job.jid
    }

    pub fn job(&self) -> &Job {
        &self.job
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Refuses a lease whose lock was given back: such a commit leaves the token behind.
    pub(super) fn not_spent(&self) -> Result<()> {
        if self.token.version() == self.job.version {
            return Ok(());
        }
        Err(Error::lost(self.job.jid, "it was given back"))
    }

    /// How long the job waited in its state before it was taken, as far as that is known.
    pub fn waited(&self) -> Option<Duration> {
        let came = self.job.history.as_ref()?.entries.last()?.at;
        Some(came.until(self.job.status.start_processing_date?))
    }

    /// The key that all attempts at this state share, for effects outside of the tree: a state that is
    /// tried again after a crash has the same, one that a person has requeued has another.
    pub fn effect_key(&self) -> String {
        format!("{}-{}-{}", self.job.jid, self.job.state(), self.job.status.retry_count)
    }
}

impl Queue {
    /// Takes a job out of a queue to work on it. `holder` names who asks, here: what it holds can be
    /// released together.
    ///
    /// `Busy`: locked elsewhere. `Changed`: the ref is not true (any more), or the job has just failed as
    /// poison, or was removed because it has expired. `NotDue`: its process date is to come. `Forbidden`: the
    /// queue is held, or nobody works on a job in that state.
    pub async fn acquire(&self, entry: QueueRef, holder: &str) -> Result<Lease> {
        let known = self.known.lock().take(entry);
        if let Some(job) = known {
            match self.take(job, holder).await {
                // Somebody else has had it meanwhile: it is read, then.
                Err(Error::Lost { .. } | Error::Changed { .. }) => {}
                answer => return answer,
            }
        }
        let job = self.job(entry.jid).await?;
        // Whoever has it by another ref than the one that was handed out could never give that one back.
        if job.entry() != entry {
            let right = job.entry();
            let why = format!(
                "it is {} with priority {}, and not {} with {}",
                right.state, right.priority, entry.state, entry.priority
            );
            return Err(Error::changed(entry.jid, why));
        }
        self.take(job, holder).await
    }

    /// Takes a job that is as it was read, or nothing.
    async fn take(&self, mut job: Job, holder: &str) -> Result<Lease> {
        let (jid, state) = (job.jid, job.state());
        if !state.is_taken_from() {
            return Err(nobody_works(jid, state));
        }
        self.is_ripe(&job).await?;
        let mut more = Vec::new();
        if state == JobState::Pending {
            more.push(self.queue_is_open().await?);
        }
        if job.status.start_processing_date.is_some() {
            more.push(self.count_timeout(jid, state, job.version).await?);
        }
        let mut slots = self.pick_slots(jid, state, &[]).await?;
        let scene = self.scene();
        more.extend(self.ops_of(&mut slots, jid, state, &scene));
        let Taking { claim, mark, after } = claim::job(&job, more, &self.taker(holder), &scene);
        let lock = claim.lock.clone();
        let token =
            self.locks.acquire_by(claim, async |ops| self.committer.commit(Unit::new(ops, mark)).await);
        let token = token.await;
        if token.as_ref().is_err_and(was_refused) {
            slots.drain(..).for_each(Slot::gone);
        }
        match token {
            Ok(token) => {
                (job.status, job.version) = (after, token.version());
                Ok(Lease { job, token, slots })
            }
            // The job is as it was; another slot is looked for.
            Err(error) if is_about_limits(&error) => {
                self.doubt_limits(&error);
                Box::pin(self.take(job, holder)).await
            }
            Err(error) if error.kind() == Kind::NodeExists && error.path().is_none_or(|at| at == lock) => {
                Err(self.busy(jid.to_string(), &lock).await?)
            }
            // The job is as it was; the holds are read again.
            Err(error) if is_about_holds(&error) => {
                self.forget_holds();
                Box::pin(self.take(job, holder)).await
            }
            Err(error)
                if error.failed_op().is_some() && error.next() == ingest_store::error::Next::ReadAgain =>
            {
                Err(Error::changed(jid, error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a pending job, in which there is nothing to do, to its first working state, where it waits.
    /// Otherwise as [`Queue::admit`].
    pub async fn let_in(&self, entry: QueueRef) -> Result<()> {
        let job = self.pending(entry).await?;
        let (to, by) = (JobState::Estimating, Who::Queue);
        if job.status.start_processing_date.is_some() {
            let mut lease = self.acquire_and_hand_over(entry, "", to, by).await?;
            return self.give_back(&mut lease, None).await;
        }
        let scene = self.scene();
        let checks = self.checks_of_move(&job, to, by).await?;
        self.queue_is_open().await?;
        let lock = Lock::Within;
        let plan = job::advance(&job, to, by, &Change::default(), lock, &checks, &scene)
            .map_err(|refused| Error::refused(job.jid, refused))?;
        match self.commit_job(job.jid, &plan).await {
            Ok(()) => {
                self.committer.counts().moved(job.state(), to);
                self.known.lock().put(plan.after);
                Ok(())
            }
            Err(Error::Store(error)) if error.kind() == Kind::NodeExists && error.failed_op() == Some(0) => {
                Err(self.busy(job.jid.to_string(), &JobNode::Lock.of(job.jid)).await?)
            }
            Err(Error::Lost { .. }) => Err(Error::changed(job.jid, "it was taken meanwhile")),
            Err(error) => Err(error),
        }
    }

    async fn pending(&self, entry: QueueRef) -> Result<Job> {
        let job = self.job(entry.jid).await?;
        if job.entry() != entry || job.state() != JobState::Pending {
            let why = format!("it is {} with priority {}", job.state(), job.priority);
            return Err(Error::changed(entry.jid, why));
        }
        self.is_ripe(&job).await?;
        Ok(job)
    }

    /// Takes a pending job and moves it to its first working state, in one commit: in pending itself there
    /// is nothing to do. Otherwise as [`Queue::acquire`]; `Forbidden` also if its collection is held.
    pub async fn admit(&self, entry: QueueRef, holder: &str) -> Result<Lease> {
        let job = self.pending(entry).await?;
        let jid = job.jid;
        let (to, by) = (JobState::Estimating, Who::Queue);
        // A crash is counted on the long way.
        if job.status.start_processing_date.is_some() {
            return self.acquire_and_hand_over(entry, holder, to, by).await;
        }
        let scene = self.scene();
        let checks = self.checks_of_move(&job, to, by).await?;
        // After it: the holds may have been read anew.
        self.queue_is_open().await?;
        let taking = claim::admission(&job, to, by, &checks, &self.taker(holder), &scene)
            .map_err(|refused| Error::refused(jid, refused))?;
        let Taking { claim, mark, after } = taking;
        let commit = async |ops| self.committer.commit(Unit::new(ops, mark)).await;
        match self.locks.acquire_by(claim, commit).await {
            Ok(token) => {
                self.committer.counts().moved(job.state(), to);
                Ok(Lease { job: after, token, slots: Vec::new() })
            }
            Err(error) if error.failed_op().is_some() => {
                self.forget_holds();
                self.acquire_and_hand_over(entry, holder, to, by).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn acquire_and_hand_over(
        &self,
        entry: QueueRef,
        holder: &str,
        to: JobState,
        by: Who,
    ) -> Result<Lease> {
        let mut lease = self.acquire(entry, holder).await?;
        match self.hand_over(&mut lease, to, by, &Change::default()).await {
            Ok(()) => Ok(lease),
            Err(error) => {
                self.give_back(&mut lease, None).await?;
                Err(error)
            }
        }
    }

    /// Moves a job on and gives its lock back.
    pub async fn advance(&self, lease: &mut Lease, to: JobState, by: Who, change: &Change) -> Result<()> {
        self.commit_move(lease, to, by, change, Lock::GiveBack).await?;
        self.locks.gone(&lease.token);
        if lease.job.status.is_expired(self.now()) {
            self.expire_if_free(lease.jid()).await;
        } else if to.is_taken_from() {
            self.known.lock().put(lease.job.clone());
        }
        Ok(())
    }

    /// Moves a job on and keeps its lock: the same node goes on with the next state, which must be one
    /// that somebody works on.
    pub async fn hand_over(&self, lease: &mut Lease, to: JobState, by: Who, change: &Change) -> Result<()> {
        if !to.is_working() {
            return Err(nobody_works(lease.jid(), to));
        }
        self.commit_move(lease, to, by, change, Lock::Keep).await?;
        lease.token = self.locks.kept(&lease.token, lease.job.version);
        Ok(())
    }

    /// The same, and from now on another holder has it: what that one holds can be released together.
    pub async fn hand_over_to(
        &self,
        lease: &mut Lease,
        to: JobState,
        change: &Change,
        holder: &str,
    ) -> Result<()> {
        if !to.is_working() {
            return Err(nobody_works(lease.jid(), to));
        }
        let by = if lease.job.state() == JobState::Pending { Who::Queue } else { Who::Worker };
        self.commit_move(lease, to, by, change, Lock::Keep).await?;
        lease.token = self.locks.passed(&lease.token, lease.job.version, holder);
        Ok(())
    }

    /// Whether this node has just moved this job here itself, so that it need not be read.
    pub fn is_known(&self, entry: QueueRef) -> bool {
        self.known.lock().has(entry)
    }

    /// The work of the state is done: to where the table says.
    pub async fn succeed(&self, lease: &mut Lease, change: &Change) -> Result<JobState> {
        let from = lease.job.state();
        let to = from.success(self.dialect()).ok_or_else(|| self.nowhere(lease))?;
        let by = if from == JobState::Pending { Who::Queue } else { Who::Worker };
        self.advance(lease, to, by, change).await?;
        Ok(to)
    }

    /// It cannot be done: to failed, with the reason.
    pub async fn fail(&self, lease: &mut Lease, change: &Change) -> Result<()> {
        let by = if lease.job.state() == JobState::Pending { Who::Queue } else { Who::Worker };
        self.advance(lease, JobState::Failed, by, change).await
    }

    /// Gives a job back without a transition: it is as before, and waits for the next to take it.
    pub async fn give_back(&self, lease: &mut Lease, message: Option<&str>) -> Result<()> {
        let status = job::given_back(&lease.job.status, message, self.now());
        let also = lease.slots.iter().map(Slot::release).collect();
        let data = Some(status.write(self.dialect()));
        match self.locks.release_and(&lease.token, data, also).await? {
            Released::Now => {
                // One that was refused was gone before.
                lease.slots.drain(..).for_each(Slot::gone);
                if status.is_expired(self.now()) {
                    self.expire_if_free(lease.jid()).await;
                }
                Ok(())
            }
            Released::Before => {
                // Those are looked for, and given back by themselves.
                lease.slots.clear();
                Err(Error::lost(lease.jid(), "its status has moved on"))
            }
        }
    }

    /// Everything that a holder here had, because it has died. The jobs remember that their worker did
    /// not end properly.
    pub async fn release_all_of(&self, holder: &str) -> Result<usize> {
        Ok(self.locks.release_all_of(holder).await?)
    }

    /// The gate before an effect outside of the tree: is this lease still good?
    pub async fn gate(&self, lease: &Lease) -> Result<()> {
        match self.session.multi(vec![lease.token.check()]).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.misfit(lease.jid(), error)),
        }
    }

    async fn commit_move(
        &self,
        lease: &mut Lease,
        to: JobState,
        by: Who,
        change: &Change,
        lock: Lock,
    ) -> Result<()> {
        let jid = lease.jid();
        lease.not_spent()?;
        let scene = self.scene();
        loop {
            let holds = self.checks_of_move(&lease.job, to, by).await?;
            let mut slots = self.slots_of_move(lease, to, lock).await?;
            let checks =
                [holds.as_slice(), &self.ops_of(&mut slots.new, jid, to, &scene), &slots.leave].concat();
            let plan = job::advance(&lease.job, to, by, change, lock, &checks, &scene)
                .map_err(|refused| Error::refused(jid, refused))?;
            match self.commit_job(jid, &plan).await {
                Ok(()) => {
                    self.committer.counts().moved(lease.job.state(), to);
                    lease.job = plan.after;
                    let (stay, gone): (Vec<_>, Vec<_>) =
                        lease.slots.drain(..).partition(|slot| !slots.leave.contains(&slot.release()));
                    gone.into_iter().for_each(Slot::gone);
                    lease.slots = stay;
                    lease.slots.append(&mut slots.new);
                    return Ok(());
                }
                // Nothing was applied; another slot is looked for, and one that is gone is not given back.
                Err(Error::Store(error)) if is_about_limits(&error) => {
                    slots.new.drain(..).for_each(Slot::gone);
                    self.doubt_limits(&error);
                    let is_lost = |slot: &mut Slot| error.path().is_some_and(|at| at == slot.holder());
                    lease.slots.extract_if(.., is_lost).for_each(Slot::gone);
                }
                // The holds have changed since they were read, and will be read again.
                Err(Error::Changed { .. }) if !holds.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Which slots a move takes, and which it gives back: those that the next state does not need, and all of them with
    /// the lock.
    async fn slots_of_move(&self, lease: &Lease, to: JobState, lock: Lock) -> Result<Slots> {
        if lock != Lock::Keep {
            return Ok(Slots { new: Vec::new(), leave: lease.slots.iter().map(Slot::release).collect() });
        }
        let wanted = self.limits_of(lease.jid(), to).await?;
        let needed = |slot: &&Slot| wanted.iter().any(|one| one.node_name() == slot.name);
        let leave = lease.slots.iter().filter(|slot| !needed(slot)).map(Slot::release).collect();
        Ok(Slots { new: self.pick_slots(lease.jid(), to, &lease.slots).await?, leave })
    }

    /// Leaving pending rests on the holds.
    async fn checks_of_move(&self, job: &Job, to: JobState, by: Who) -> Result<Vec<Op>> {
        if job.state() != JobState::Pending {
            return Ok(Vec::new());
        }
        let mut holds = self.known_holds().await?;
        let is_held = to == JobState::Held && by == Who::Queue;
        if is_held || (to == JobState::Estimating && holds.any_collection()) {
            let collection = self.configuration(job.jid).await?.collection().to_owned();
            holds = self.holds_where(job.jid, &collection, is_held).await?;
        }
        Ok(holds.checks())
    }

    /// The hold on the whole queue, or the proof that there is none.
    async fn queue_is_open(&self) -> Result<Op> {
        match self.holds_of(crate::map::HeldQueue::Ingest).await? {
            (_, Some(why)) => Err(Error::forbidden("the ingest queue", format!("it is held {why}"))),
            (holds, None) => Ok(holds.queue_check()),
        }
    }

    /// The last worker did not end properly: one more, or the end. A pending job cannot be poison: no
    /// work was done on it yet. `at` is the version of the status that says so.
    async fn count_timeout(&self, jid: Jid, state: JobState, at: i32) -> Result<Op> {
        let path = JobNode::Schedule.of(jid);
        let found = self.find::<Schedule>(path.clone()).await?;
        let version = found.as_ref().map(|(_, stat)| stat.version);
        let mut schedule = found.map(|(schedule, _)| schedule).unwrap_or_default();
        schedule.timeout_count = schedule.timeout_count.saturating_add(1);
        if schedule.timeout_count >= self.settings.max_timeouts && state.is_working() {
            let why = format!(
                "poison: its worker crashed or stalled {} times, most recently in {state}",
                schedule.timeout_count,
            );
            self.act_at(jid, &Action::Poison, &why, at).await?;
            tracing::error!(%jid, "{why}");
            self.alert(jid, &why);
            return Err(Error::changed(jid, why));
        }
        let data = schedule.write(self.dialect());
        Ok(match version {
            Some(version) => Op::set(path, data, version),
            None => Op::create(path, data),
        })
    }

    fn nowhere(&self, lease: &Lease) -> Error {
        let state = lease.job.state();
        Error::refused(lease.jid(), state.refuse("the next state", Who::Worker, self.dialect()))
    }

    /// What the refusal of a commit on a job means.
    pub(crate) fn misfit(&self, jid: Jid, error: ingest_store::Error) -> Error {
        let at_fence = error.path().is_some_and(|at| at == JobNode::Status.of(jid));
        match error.kind() {
            Kind::BadVersion if at_fence => Error::lost(jid, "its status has moved on"),
            Kind::NoNode if at_fence => Error::lost(jid, "it was deleted"),
            _ if is_about_holds(&error) => {
                self.forget_holds();
                Error::changed(jid, "the holds have changed")
            }
            _ => error.into(),
        }
    }
}

/// What a move does with slots.
struct Slots {
    new: Vec<Slot>,
    leave: Vec<Op>,
}

/// Nothing of it was applied.
fn was_refused(error: &ingest_store::Error) -> bool {
    error.failed_op().is_some() || error.outcome() == ingest_store::error::Outcome::NotApplied
}

fn nobody_works(jid: Jid, state: JobState) -> Error {
    Error::forbidden(jid, format!("nobody works on a job that is {state}"))
}

pub(crate) fn is_about_holds(error: &ingest_store::Error) -> bool {
    error.failed_op().is_some()
        && error.path().is_some_and(|at| ingest_store::path::is_within(at, crate::map::LOCKS))
}
