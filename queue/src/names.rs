//! Locks on names: an object in the storage or in the inventory, and local ids that wait to be recorded.
//!
//! A lock on an object is ephemeral and belongs to a job's lease: it is taken and given back at the
//! lease's token, so nobody gives back what is another's by now. Its path may stand for two names; the
//! full name is in its data, and the refusal tells the two cases apart. Whoever finds it busy waits by a watch
//! ([`Queue::watch_object`]).
//!
//! Local ids are in [`local_ids`].
//!
//! **When things break.** A lost answer is settled by the data: it holds the commit that made it. With the
//! session end the locks on objects. A lock that a task of this session left behind, and whose job nobody
//! works on any more, is replaced by the next that wants it here, and removed by [`Queue::sweep_names`].
//! One of another session is waited for: two locks that follow each other look alike, so only
//! the session that owns it can tell that it is still the same.

pub mod local_ids;

use ingest_store::recipes::{look, settle};
use ingest_store::{ExistsWatch, Kind, Op, Stat};

use crate::error::{Error, Result};
use crate::ids::Jid;
use crate::jobs::Lease;
use crate::map::{self, JobNode};
use crate::nodes::{NameLock, Node};
use crate::queue::Queue;

/// What is locked about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Storage,
    Inventory,
}

impl Side {
    fn path(self, ark: &str) -> String {
        match self {
            Side::Storage => map::storage_lock(ark),
            Side::Inventory => map::inventory_lock(ark),
        }
    }
}

/// How often others may be faster before it is put off.
const TRIES: usize = 50;

impl Queue {
    /// Locks an object for a job. `Busy`: another job has it.
    pub async fn lock_object(&self, lease: &mut Lease, side: Side, ark: &str) -> Result<()> {
        let scene = self.scene();
        let at = side.path(ark);
        let lock = NameLock {
            name: ark.to_owned(),
            jid: Some(lease.jid()),
            node: self.settings.node.clone(),
            since: Some(scene.now),
            commit: scene.commit,
            ..NameLock::default()
        };
        let create = Op::ephemeral(at.as_str(), lock.write(scene.dialect));
        let mut leftover = Vec::new();
        for _ in 0..TRIES {
            let mut ops = vec![lease.token.check()];
            ops.append(&mut leftover);
            ops.push(create.clone());
            let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
            let Err(error) = settled.answer else { return Ok(()) };
            if error.failed_op().is_none_or(|op| op == 0) {
                return Err(self.misfit(lease.jid(), error));
            }
            match self.find::<NameLock>(at.clone()).await {
                Ok(Some((there, _))) if there == lock => return Ok(()),
                Ok(Some((there, _))) if !there.name.is_empty() && there.name != ark => {
                    let why = format!("its lock {at} is held for {}, which has the same path", there.name);
                    return Err(Error::forbidden(ark, why));
                }
                Ok(Some((there, stat))) => match self.left_behind(lease.jid(), &there, &stat).await? {
                    Some(checks) => {
                        leftover = checks;
                        leftover.push(Op::delete(at.as_str(), stat.version));
                    }
                    None => {
                        return Err(Error::Busy {
                            what: ark.to_owned(),
                            node: there.node,
                            since: there.since,
                        });
                    }
                },
                // It was just released.
                Ok(None) => {}
                // Another program's, that says nothing.
                Err(Error::Corrupt { .. }) => {
                    let node = "another node".into();
                    return Err(Error::Busy { what: ark.to_owned(), node, since: None });
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::changed(ark, "its lock comes and goes"))
    }

    /// What a lock that is only left over rests on until it is replaced; `None` if somebody may be at it.
    async fn left_behind(&self, ours: Jid, there: &NameLock, stat: &Stat) -> Result<Option<Vec<Op>>> {
        if stat.ephemeral_owner != self.session.id() {
            return Ok(None);
        }
        match there.jid {
            // An earlier attempt at the same job.
            Some(jid) if jid == ours => Ok(Some(Vec::new())),
            Some(jid) => self.idle(jid).await,
            None => Ok(None),
        }
    }

    /// Whether nobody works on a job, as checks that it stays so; `None` if somebody does. A job that is gone
    /// never comes back.
    async fn idle(&self, jid: Jid) -> Result<Option<Vec<Op>>> {
        // The status first: whoever takes the job after this look moves its version.
        let status = JobNode::Status.of(jid);
        let Some(stat) = self.exists(&status).await? else { return Ok(Some(Vec::new())) };
        if self.exists(JobNode::Lock.of(jid)).await?.is_some() {
            return Ok(None);
        }
        Ok(Some(vec![Op::check(status, stat.version)]))
    }

    /// Whether an object is locked, and a watch that fires when that changes.
    pub async fn watch_object(&self, side: Side, ark: &str) -> Result<(bool, ExistsWatch)> {
        let at = side.path(ark);
        let (stat, watch) = look(&self.session, || self.session.watch_exists(at.as_str())).await?;
        Ok((stat.is_some(), watch))
    }

    /// Gives an object back.
    pub async fn unlock_object(&self, lease: &mut Lease, side: Side, ark: &str) -> Result<()> {
        let at = side.path(ark);
        match self.find::<NameLock>(at.clone()).await? {
            Some((there, _)) if there.jid == Some(lease.jid()) => {}
            Some((there, _)) => {
                let whose = there.jid.map_or("another program's".to_owned(), |jid| format!("{jid}'s"));
                return Err(Error::lost(ark, format!("its lock is {whose}")));
            }
            None => return Ok(()),
        }
        let ops = vec![lease.token.check(), Op::delete(at, None)];
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        match settled.answer {
            Err(error) if error.kind() == Kind::NoNode && error.failed_op() == Some(1) => Ok(()),
            answer => answer.map(|_| ()).map_err(|error| self.misfit(lease.jid(), error)),
        }
    }

    /// Removes the locks on objects that tasks of this session left behind; returns their paths.
    pub async fn sweep_names(&self) -> Result<Vec<String>> {
        let mut swept = Vec::new();
        for dir in [map::STORAGE_LOCKS, map::INVENTORY_LOCKS] {
            for at in look(&self.session, || self.session.ephemerals(dir)).await? {
                let found = match self.find::<NameLock>(at.clone()).await {
                    Ok(found) => found,
                    Err(Error::Corrupt { .. }) => continue,
                    Err(error) => return Err(error),
                };
                let Some((NameLock { jid: Some(jid), .. }, stat)) = found else { continue };
                let Some(mut ops) = self.idle(jid).await? else { continue };
                ops.push(Op::delete(at.as_str(), stat.version));
                let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
                match settled.answer {
                    Ok(_) => swept.push(at),
                    // Somebody was faster, or works on it again.
                    Err(error) if error.failed_op().is_some() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(swept)
    }
}
