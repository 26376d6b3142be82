//! Refs are hints: the status is the truth.
//!
//! A tree that only this program writes has every ref where the plan expects it. Other writers move a
//! job in several steps, and die in between. A transition must not fail for that: its fence holds, so
//! a ref that is gone already need not be deleted, and one that is there need not be created.

use ingest_store::{Kind, Op, path};

use crate::committer::{Mark, Unit};
use crate::error::{Error, Result};
use crate::ids::Jid;
use crate::map::{self, JobNode, QueueRef};
use crate::plan::Plan;
use crate::queue::Queue;
use crate::states::JobState;

impl Queue {
    /// Commits a plan for a job, whatever its refs are.
    pub(crate) async fn commit_job<T>(&self, jid: Jid, plan: &Plan<T>) -> Result<()> {
        let mut ops = plan.ops.clone();
        loop {
            let unit = Unit::new(ops.clone(), plan.mark.clone());
            let error = match self.committer.commit(unit).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let Some(at) = error.failed_op().filter(|at| *at < ops.len()) else {
                return Err(self.misfit(jid, error));
            };
            let skip = match (&ops[at], error.kind()) {
                // The lock that was to be given back is gone: by another's hand, for the fence holds.
                (Op::Delete { path, .. }, Kind::NoNode) if at > 0 && *path == JobNode::Lock.of(jid) => true,
                // A node that others may leave out.
                (Op::Set { path, data, .. }, Kind::NoNode) if is_optional(jid, path) => {
                    ops[at] = Op::create(path.as_str(), data.clone());
                    false
                }
                (op, _) if !is_ref(op) => return Err(self.misfit(jid, error)),
                (Op::Delete { .. }, Kind::NoNode) | (Op::Create { .. }, Kind::NodeExists) => true,
                // The list itself is missing: a batch by another writer.
                (Op::Create { path: list, .. }, Kind::NoNode) => {
                    self.make_list(path::parent(list)).await?;
                    false
                }
                _ => return Err(self.misfit(jid, error)),
            };
            if skip {
                let op = ops.remove(at);
                tracing::warn!(%jid, at = op.path(), "a ref was not as the status says");
            }
        }
    }

    /// Repairs a queue ref that has disagreed with its job's status twice, under the job's lock: the ref
    /// goes, and the job is put where its status and priority say. `false`: it was right after all.
    /// `Busy`: somebody works on the job, and will move it.
    pub async fn repair_ref(&self, entry: QueueRef) -> Result<bool> {
        let jid = entry.jid;
        let at = entry.path();
        let job = match self.job(jid).await {
            // Ids are never used again: what is gone stays gone.
            Err(Error::NotFound(_)) => {
                let unit = Unit::new(vec![Op::delete(at.as_str(), None)], Mark::Gone(at));
                return match self.committer.commit(unit).await {
                    Err(error) if error.kind() != Kind::NoNode => Err(error.into()),
                    _ => Ok(true),
                };
            }
            answer => answer?,
        };
        let right = job.entry();
        if right == entry {
            return Ok(false);
        }
        let scene = self.scene();
        let lock = JobNode::Lock.of(jid);
        let mut ops = vec![
            Op::ephemeral(lock.as_str(), self.owner(job.status.attempt, &scene)),
            Op::check(JobNode::Status.of(jid), job.version),
            Op::delete(at.as_str(), None),
        ];
        // A completed job may have been cleaned.
        if job.state() != JobState::Completed && self.exists(right.path()).await?.is_none() {
            ops.push(Op::create(right.path(), ""));
        }
        ops.push(Op::delete(lock.as_str(), None));
        let plan = Plan { ops, mark: Mark::Gone(at), after: () };
        match self.commit_job(jid, &plan).await {
            Err(Error::Store(error)) if error.kind() == Kind::NodeExists => {
                Err(self.busy(jid.to_string(), &lock).await?)
            }
            answer => {
                answer?;
                tracing::warn!(%jid, from = %entry.state, to = %right.state, "a queue ref disagreed with the status, and was repaired");
                Ok(true)
            }
        }
    }

    /// Makes a list of refs, in a batch that is there.
    async fn make_list(&self, list: &str) -> Result<()> {
        let batch = path::parent(path::parent(list));
        if path::is_within(list, map::BATCHES) && self.exists(batch).await?.is_none() {
            return Err(Error::NotFound(format!("batch {}", path::name(batch))));
        }
        self.session.make_dirs(list).await?;
        Ok(())
    }
}

fn is_optional(jid: Jid, path: &str) -> bool {
    [JobNode::Priority, JobNode::SpaceNeeded].iter().any(|node| node.of(jid) == path)
}

fn is_ref(op: &Op) -> bool {
    let at = op.path();
    let is_batch_ref = || path::is_within(at, map::BATCHES) && at.contains("/states/");
    let is_date = || path::is_within(at, map::JOURNAL_DATES) || path::is_within(at, map::JOURNAL_EXPIRATIONS);
    path::is_within(at, map::JOB_STATES) || is_batch_ref() || is_date()
}
