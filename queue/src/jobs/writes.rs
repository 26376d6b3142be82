//! What a worker writes about its job, at its token.

use bytes::Bytes;
use ingest_store::recipes::settle;
use ingest_store::{Kind, Op};

use super::Lease;
use crate::error::{Error, Result};
use crate::map::{JobNode, Priority};
use crate::nodes::{Identifiers, Inventory, Metadata, Node, Number, Schedule, Store, Work};
use crate::plan::Lock;
use crate::plan::job::{self, Action};
use crate::queue::Queue;

/// A node of a job and what is to stand there.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Identifiers(Identifiers),
    Metadata(Metadata),
    Inventory(Inventory),
    Schedule(Schedule),
    Store(Store),
    Work(Work),
    SpaceNeeded(i64),
}

impl Write {
    fn node(&self) -> JobNode {
        match self {
            Write::Identifiers(_) => JobNode::Identifiers,
            Write::Metadata(_) => JobNode::Metadata,
            Write::Inventory(_) => JobNode::Inventory,
            Write::Schedule(_) => JobNode::Schedule,
            Write::Store(_) => JobNode::Store,
            Write::Work(_) => JobNode::Work,
            Write::SpaceNeeded(_) => JobNode::SpaceNeeded,
        }
    }

    fn data(&self, dialect: crate::dialect::Dialect) -> Bytes {
        match self {
            Write::Identifiers(node) => node.write(dialect),
            Write::Metadata(node) => node.write(dialect),
            Write::Inventory(node) => node.write(dialect),
            Write::Schedule(node) => node.write(dialect),
            Write::Store(node) => node.write(dialect),
            Write::Work(node) => node.write(dialect),
            Write::SpaceNeeded(space) => Number(*space).write(dialect),
        }
    }
}

impl Queue {
    /// Writes nodes of a job, all or none. Writing the same again changes nothing, so a lost answer is
    /// settled by sending it again.
    pub async fn write(&self, lease: &mut Lease, writes: &[Write]) -> Result<()> {
        let mut ops = vec![lease.token.check()];
        for write in writes {
            ops.push(Op::set(write.node().of(lease.jid()), write.data(self.dialect()), None));
        }
        self.write_ops(lease, ops).await
    }

    /// Changes the priority of a job that is being worked on: its queue ref is renamed.
    pub async fn set_priority(&self, lease: &mut Lease, priority: Priority) -> Result<()> {
        let jid = lease.jid();
        if lease.job.priority == priority {
            return Ok(());
        }
        lease.not_spent()?;
        // It moves the fence: whoever takes the job away by force knows where its ref is.
        let action = Action::SetPriority(priority);
        let plan = job::act(&lease.job, &action, "", Lock::Keep, &[], &self.scene())
            .map_err(|refused| Error::refused(jid, refused))?;
        self.commit_job(jid, &plan).await?;
        lease.job = plan.after;
        lease.token = self.locks.kept(&lease.token, lease.job.version);
        Ok(())
    }

    /// At most this often a node may turn out to be there, or not, against what was thought.
    async fn write_ops(&self, lease: &mut Lease, mut ops: Vec<Op>) -> Result<()> {
        let jid = lease.jid();
        for _ in 0..=2 * ops.len() {
            let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
            let Err(error) = settled.answer else { return Ok(()) };
            let Some(at) = error.failed_op() else { return Err(error.into()) };
            let instead = match (&ops[at], error.kind()) {
                (Op::Set { path, data, .. }, Kind::NoNode) => Op::create(path.as_str(), data.clone()),
                (Op::Create { path, data, .. }, Kind::NodeExists) => {
                    Op::set(path.as_str(), data.clone(), None)
                }
                _ => return Err(self.misfit(jid, error)),
            };
            ops[at] = instead;
        }
        Err(Error::changed(jid, "its nodes come and go"))
    }
}
