//! Plans that take a thing to work on it: its lock and its status in one multi, as claims of the lock table.

use bytes::Bytes;
use ingest_store::Op;
use ingest_store::recipes::lock_table::Claim;

use super::batch::Batch;
use super::job::{self, Change, Job};
use super::{Lock, Scene};
use crate::committer::{Mark, Unit};
use crate::map::{BatchNode, JobNode};
use crate::nodes::{JobStatus, Node, Owner};
use crate::states::{JobState, Refused, Who};

/// Who takes something, besides the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taker {
    pub incarnation: String,
    pub session: String,
    /// Who asks, on that node.
    pub holder: String,
}

impl Taker {
    /// What people read in the lock, and the commit that made it.
    pub fn owner(&self, attempt: u32, scene: &Scene) -> Bytes {
        let owner = Owner {
            node: scene.node.clone(),
            incarnation: self.incarnation.clone(),
            session: self.session.clone(),
            attempt,
            since: Some(scene.now),
            commit: scene.commit.clone(),
            ..Owner::default()
        };
        owner.write(scene.dialect)
    }
}

/// One multi that takes a thing, and the thing as it is then.
#[derive(Debug, Clone)]
pub struct Taking<T> {
    pub claim: Claim,
    pub mark: Mark,
    pub after: T,
}

impl<T> Taking<T> {
    pub fn unit(&self) -> Unit {
        Unit::new(self.claim.ops(), self.mark.clone())
    }
}

/// Takes a job as it was read; its status then. `more` are what else that rests on, and what goes with it.
pub fn job(job: &Job, more: Vec<Op>, taker: &Taker, scene: &Scene) -> Taking<JobStatus> {
    let after = job::acquired(&job.status, scene.now);
    let claim = claim_of_job(job, &after, more, taker, scene);
    // A history tells of transitions, and this is none.
    let mark = Mark::holds(claim.lock.as_str(), scene.commit.as_str());
    Taking { claim, mark, after }
}

/// Takes a job that waits where there is nothing to do, and moves it to where there is.
pub fn admission(
    job: &Job,
    to: JobState,
    by: Who,
    checks: &[Op],
    taker: &Taker,
    scene: &Scene,
) -> Result<Taking<Job>, Refused> {
    let plan = job::advance(job, to, by, &Change::default(), Lock::Take, checks, scene)?;
    // The lock and the status come first, as with every claim.
    let more = plan.ops.get(2..).unwrap_or_default().to_vec();
    let claim = claim_of_job(job, &plan.after.status, more, taker, scene);
    Ok(Taking { claim, mark: plan.mark, after: plan.after })
}

fn claim_of_job(job: &Job, after: &JobStatus, more: Vec<Op>, taker: &Taker, scene: &Scene) -> Claim {
    Claim {
        lock: JobNode::Lock.of(job.jid),
        owner: taker.owner(after.attempt, scene),
        fence: JobNode::Status.of(job.jid),
        version: job.version,
        data: after.write(scene.dialect),
        more,
        holder: taker.holder.clone(),
    }
}

/// Takes a batch as it was read. Its status says who committed last.
pub fn batch(batch: &Batch, more: Vec<Op>, taker: &Taker, scene: &Scene) -> Taking<Batch> {
    let status = batch.status.next(batch.state(), scene.now, &batch.status.message, &scene.commit);
    let claim = Claim {
        lock: BatchNode::Lock.of(batch.bid),
        owner: taker.owner(0, scene),
        fence: BatchNode::Status.of(batch.bid),
        version: batch.version,
        data: status.write(scene.dialect),
        more,
        holder: taker.holder.clone(),
    };
    let mark = Mark::holds(claim.fence.as_str(), scene.commit.as_str());
    Taking { claim, mark, after: Batch { bid: batch.bid, status, version: batch.version.wrapping_add(1) } }
}
