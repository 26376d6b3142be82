//! Locks on names: an object in the storage or in the inventory, and local ids that wait to be recorded.
//!
//! A lock on an object is ephemeral and belongs to a job's lease: it is taken and given back at the
//! lease's token, so nobody gives back what is another's by now. Its path may stand for two names; the
//! full name is in its data, and the refusal tells the two cases apart. A job that finds it busy is parked until it is
//! gone ([`Until`](crate::index::Until)).
//!
//! Local ids are in [`local_ids`].
//!
//! **When things break.** A lost answer is settled by the data: it holds the commit that made it. With the
//! session end the locks on objects. A task whose job was taken away from it gives its object back all the same: others wait for it.
//! A lock that a task of this session left behind is removed when somebody here wants it, and by [`Queue::sweep_names`], which whoever
//! releases the locks of a dead task calls, too. It is left behind if no task here is at its job any more, whoever works on that elsewhere.
//! One of another session is waited for: two locks that follow each other look alike, so only
//! the session that owns it can tell that it is still the same; and there one removes while nobody locks.

pub mod local_ids;

use ingest_store::recipes::{look, settle};
use ingest_store::{Kind, Op};

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
    /// Where the lock on an object is: it is free when nothing is there.
    pub fn path(self, ark: &str) -> String {
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
        let ops = vec![lease.token.check(), Op::ephemeral(at.as_str(), lock.write(scene.dialect))];
        for _ in 0..TRIES {
            let settled = {
                let _naming = self.naming.read().await;
                settle(&self.session, || self.session.multi(ops.clone())).await
            };
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
                // Perhaps of an earlier attempt at the same job.
                Ok(Some((there, _))) => {
                    if !self.remove_left(&at, Some(lease.jid())).await? {
                        let (node, since) = (there.node, there.since);
                        return Err(Error::Busy { what: ark.to_owned(), node, since });
                    }
                }
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

    /// Removes a lock that a task of this session left behind; false if somebody may be at it. Of the job `ended` it is known that no
    /// other task is at it: whoever asks has it now, or had it until now.
    async fn remove_left(&self, at: &str, ended: Option<Jid>) -> Result<bool> {
        // Nobody here makes another in its place, so the one that is removed is the one that is looked at.
        let _alone = self.naming.write().await;
        let (jid, stat) = match self.find::<NameLock>(at.to_owned()).await {
            Ok(Some((NameLock { jid: Some(jid), .. }, stat))) => (jid, stat),
            Ok(None) => return Ok(true),
            // Another program's.
            Ok(Some(_)) | Err(Error::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        if stat.ephemeral_owner != self.session.id() || (Some(jid) != ended && self.is_at(jid).await?) {
            return Ok(false);
        }
        let delete = vec![Op::delete(at, stat.version)];
        match settle(&self.session, || self.session.multi(delete.clone())).await.answer {
            Err(error) if error.kind() != Kind::NoNode => Err(error.into()),
            _ => Ok(true),
        }
    }

    /// Whether a task of this session is at a job: it has the lock, or has lost it and not ended yet.
    async fn is_at(&self, jid: Jid) -> Result<bool> {
        let lock = JobNode::Lock.of(jid);
        if self.locks.is_claimed(&lock) {
            return Ok(true);
        }
        Ok(self.exists(&lock).await?.is_some_and(|stat| stat.ephemeral_owner == self.session.id()))
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
        let ops = vec![lease.token.check(), Op::delete(at.as_str(), None)];
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        let error = match settled.answer {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == Kind::NoNode && error.failed_op() == Some(1) => return Ok(()),
            Err(error) => self.misfit(lease.jid(), error),
        };
        if matches!(error, Error::Lost { .. }) {
            // The job is another's by now; the lock is not, and would be in everybody's way.
            self.remove_left(&at, Some(lease.jid())).await?;
        }
        Err(error)
    }

    /// Removes the locks on objects that tasks of this session left behind; returns their paths.
    pub async fn sweep_names(&self) -> Result<Vec<String>> {
        let mut swept = Vec::new();
        for dir in [map::STORAGE_LOCKS, map::INVENTORY_LOCKS] {
            for at in look(&self.session, || self.session.ephemerals(dir)).await? {
                if self.remove_left(&at, None).await? {
                    swept.push(at);
                }
            }
        }
        Ok(swept)
    }
}
