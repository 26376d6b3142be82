//! Refs are hints: the status is the truth.
//!
//! A tree that only this program writes has every ref where the plan expects it. Other writers move a
//! job in several steps, and die in between. A transition must not fail for that: its fence holds, so
//! a ref that is gone already need not be deleted, and one that is there need not be created.

use ingest_store::{Kind, Op, path};

use crate::committer::Unit;
use crate::error::{Error, Result};
use crate::ids::Jid;
use crate::map;
use crate::plan::Plan;
use crate::queue::Queue;

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
            let Some(at) = error.failed_op().filter(|at| ops.get(*at).is_some_and(is_ref)) else {
                return Err(self.misfit(jid, error));
            };
            let skip = match (&ops[at], error.kind()) {
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

fn is_ref(op: &Op) -> bool {
    let at = op.path();
    let is_batch_ref = || path::is_within(at, map::BATCHES) && at.contains("/states/");
    path::is_within(at, map::JOB_STATES) || is_batch_ref()
}
