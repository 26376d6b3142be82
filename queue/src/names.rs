//! Locks on names: an object in the storage or in the inventory, and local ids that wait to be recorded.
//!
//! A lock on an object is ephemeral and belongs to a job's lease: it is taken and given back at the
//! lease's token, so nobody gives back what is another's by now. Its path may stand for two names; the
//! full name is in its data, and the refusal tells the two cases apart.
//!
//! A local id is reserved, persistently, from the moment an identifier was minted for it until that is
//! recorded: two jobs with the same local id get the same identifier.
//!
//! **When things break.** A lost answer is settled by the data: it holds the commit that made it. With the
//! session end the locks on objects; reservations stay and are taken over by the same job.

use ingest_store::recipes::settle;
use ingest_store::{Kind, Op};

use crate::error::{Error, Result};
use crate::jobs::Lease;
use crate::map;
use crate::nodes::{LocalId, NameLock, Node};
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

/// What asking for a local id found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reserved {
    /// It is this job's now.
    Now,
    /// Another job has it, for this identifier.
    Before { primary_id: String },
}

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
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        let error = match settled.answer {
            Err(error) if error.kind() == Kind::NodeExists => error,
            answer => return answer.map(|_| ()).map_err(|error| self.misfit(lease.jid(), error)),
        };
        match self.find::<NameLock>(at.clone()).await {
            Ok(Some((there, _))) if there == lock => Ok(()),
            Ok(Some((there, _))) if !there.name.is_empty() && there.name != ark => {
                let why = format!("its lock {at} is held for {}, which has the same path", there.name);
                Err(Error::forbidden(ark, why))
            }
            Ok(Some((there, _))) => {
                Err(Error::Busy { what: ark.to_owned(), node: there.node, since: there.since })
            }
            Ok(None) => Err(Error::changed(ark, "its lock was just released")),
            // Another program's, that says nothing.
            Err(Error::Corrupt { .. }) => {
                Err(Error::Busy { what: ark.to_owned(), node: "another node".into(), since: None })
            }
            Err(_) => Err(error.into()),
        }
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

    /// Reserves a local id for the identifier that was minted for it.
    pub async fn reserve_local_id(
        &self,
        lease: &mut Lease,
        owner: &str,
        local_id: &str,
        primary_id: &str,
    ) -> Result<Reserved> {
        let at = map::local_id(owner, local_id);
        let wanted = LocalId {
            owner: owner.to_owned(),
            local_id: local_id.to_owned(),
            primary_id: primary_id.to_owned(),
            jid: Some(lease.jid()),
            since: Some(self.now()),
            ..LocalId::default()
        };
        let ops = vec![lease.token.check(), Op::create(at.as_str(), wanted.write(self.dialect()))];
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        match settled.answer {
            Ok(_) => return Ok(Reserved::Now),
            Err(error) if error.kind() == Kind::NodeExists => {}
            Err(error) => return Err(self.misfit(lease.jid(), error)),
        }
        match self.find::<LocalId>(at).await? {
            // An earlier attempt of the same job, or a lost answer.
            Some((there, _)) if there.jid == wanted.jid && there.primary_id == primary_id => {
                Ok(Reserved::Now)
            }
            Some((there, _)) => Ok(Reserved::Before { primary_id: there.primary_id }),
            None => Err(Error::changed(local_id, "its reservation was just given up")),
        }
    }

    /// The identifier that a local id is reserved for.
    pub async fn local_id(&self, owner: &str, local_id: &str) -> Result<Option<LocalId>> {
        Ok(self.find(map::local_id(owner, local_id)).await?.map(|(reserved, _)| reserved))
    }

    /// Gives up a reservation: its identifier is recorded.
    pub async fn free_local_id(&self, lease: &mut Lease, owner: &str, local_id: &str) -> Result<()> {
        let at = map::local_id(owner, local_id);
        let version = match self.find::<LocalId>(at.clone()).await? {
            Some((there, stat)) if there.jid == Some(lease.jid()) => stat.version,
            _ => return Ok(()),
        };
        let ops = vec![lease.token.check(), Op::delete(at, version)];
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        match settled.answer {
            Err(error) if error.kind() == Kind::NoNode && error.failed_op() == Some(1) => Ok(()),
            answer => answer.map(|_| ()).map_err(|error| self.misfit(lease.jid(), error)),
        }
    }
}
