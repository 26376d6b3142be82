//! Local ids: which identifier one has, or who is about to mint it.
//!
//! A job claims all of its local ids in one commit *before* it mints: of two jobs with the same one only one
//! mints, and the other takes what it minted. The reservation names its job and, once there is one, the
//! identifier; both stay in the tree until that is recorded. A job that takes the identifier of another joins
//! its reservation, which ends with the last that gives it up: as long as one of them is under way, nobody
//! can mint a second identifier for the local id.
//!
//! Whoever has claimed looks into the inventory *after* that, and only then mints: what was recorded
//! before the claim is found there, and nothing can be recorded for it meanwhile but by the same claim.
//!
//! **When things break.** A claim without an identifier whose job nobody works on (it crashed, failed, or is
//! gone) is taken over by whoever comes next, in a commit that checks that this is still so; the first job then
//! finds the other's claim. While somebody works on it, the other is parked until that job's lock is gone; no job that waits
//! has what another waits for, because all ids of a job are claimed at once. An identifier that stands in the tree is never replaced.

use ingest_store::recipes::settle;
use ingest_store::{Op, Stat};

use super::TRIES;
use crate::error::{Error, Result};
use crate::ids::Jid;
use crate::jobs::{Lease, given_up};
use crate::map::{self, JobNode};
use crate::nodes::{Identifiers, LocalId, Node};
use crate::queue::Queue;

/// The most local ids of one job: they are claimed in one commit.
pub const MOST: usize = 400;

/// What asking for local ids found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// All are this job's, or it has joined those that have an identifier: as they are now, in their order.
    All(Vec<LocalId>),
    /// A job that is being worked on has this one, and no identifier for it yet.
    Busy { local_id: String, jid: Jid },
}

impl Queue {
    /// Claims all local ids of a job. They and their owner are written to its identifiers in the same commit.
    pub async fn claim_local_ids(
        &self,
        lease: &mut Lease,
        owner: &str,
        local_ids: &[String],
        identifiers: &Identifiers,
    ) -> Result<Claimed> {
        let (jid, now) = (lease.jid(), self.now());
        let mut identifiers = identifiers.clone();
        identifiers.local_id = local_ids.to_vec();
        identifiers.set_owner(owner);
        for _ in 0..TRIES {
            let mut ops = vec![lease.token.check()];
            let mut claimed = Vec::with_capacity(local_ids.len());
            for (local_id, found) in local_ids.iter().zip(self.reservations(owner, local_ids).await?) {
                let at = map::local_id(owner, local_id);
                let ours = LocalId {
                    owner: owner.to_owned(),
                    local_id: local_id.clone(),
                    jid: Some(jid),
                    since: Some(now),
                    ..LocalId::default()
                };
                let (wanted, op) = match found {
                    None => (ours.clone(), Some(Op::create(at, ours.write(self.dialect())))),
                    Some((there, _)) if there.is_held_by(jid) => (there, None),
                    Some((mut there, stat)) if !there.primary_id.is_empty() => {
                        there.also.push(jid);
                        let data = there.write(self.dialect());
                        (there, Some(Op::set(at, data, stat.version)))
                    }
                    Some((there, stat)) => {
                        let idle = match there.jid {
                            Some(holder) => self.idle(holder).await?.ok_or(holder),
                            None => Ok(Vec::new()),
                        };
                        match idle {
                            Ok(checks) => ops.extend(checks),
                            Err(jid) => return Ok(Claimed::Busy { local_id: local_id.clone(), jid }),
                        }
                        let data = ours.write(self.dialect());
                        (ours, Some(Op::set(at, data, stat.version)))
                    }
                };
                ops.extend(op);
                claimed.push(wanted);
            }
            if self.commit_claim(lease, ops, &identifiers).await? {
                return Ok(Claimed::All(claimed));
            }
        }
        Err(Error::changed(jid, "its local ids come and go"))
    }

    /// Writes the identifier of a job, and of all its local ids, which it has claimed.
    pub async fn assign(&self, lease: &mut Lease, identifiers: &Identifiers) -> Result<()> {
        let jid = lease.jid();
        let primary_id = identifiers.primary_id.as_deref().unwrap_or_default();
        if primary_id.is_empty() {
            return Err(Error::Invalid(format!("{jid}: there is no identifier to be assigned")));
        }
        let (owner, local_ids) = match identifiers.owner() {
            Some(owner) => (owner, identifiers.local_id.as_slice()),
            None => ("", [].as_slice()),
        };
        for _ in 0..TRIES {
            let mut ops = vec![lease.token.check()];
            for (local_id, found) in local_ids.iter().zip(self.reservations(owner, local_ids).await?) {
                match found {
                    Some((there, _)) if there.is_held_by(jid) && there.primary_id == primary_id => {}
                    Some((mut there, stat)) if there.is_held_by(jid) && there.primary_id.is_empty() => {
                        primary_id.clone_into(&mut there.primary_id);
                        there.minted = identifiers.minted().map(str::to_owned);
                        let at = map::local_id(owner, local_id);
                        ops.push(Op::set(at, there.write(self.dialect()), stat.version));
                    }
                    // Only if this lease is lost; then the commit below would have said so.
                    _ => {
                        self.gate(lease).await?;
                        return Err(Error::changed(jid, format!("`{local_id}` is not claimed for it")));
                    }
                }
            }
            if self.commit_claim(lease, ops, identifiers).await? {
                return Ok(());
            }
        }
        Err(Error::changed(jid, "its local ids come and go"))
    }

    /// Commits together with the job's identifiers; `false` if something was not as it was read.
    async fn commit_claim(
        &self,
        lease: &mut Lease,
        mut ops: Vec<Op>,
        identifiers: &Identifiers,
    ) -> Result<bool> {
        let at = JobNode::Identifiers.of(lease.jid());
        let data = identifiers.write(self.dialect());
        match self.find::<Identifiers>(at.clone()).await {
            Ok(Some((there, _))) if there == *identifiers => {}
            Ok(None) => ops.push(Op::create(at, data)),
            Ok(Some(_)) | Err(Error::Corrupt { .. }) => ops.push(Op::set(at, data, None)),
            Err(error) => return Err(error),
        }
        // Only the token is checked: all is as it should be.
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        match settled.answer {
            Ok(_) => Ok(true),
            // Somebody else was faster, or we were, in a try whose answer was lost.
            Err(error) if error.failed_op().is_some_and(|op| op > 0) => Ok(false),
            Err(error) => Err(self.misfit(lease.jid(), error)),
        }
    }

    /// The reservation of a local id.
    pub async fn local_id(&self, owner: &str, local_id: &str) -> Result<Option<LocalId>> {
        Ok(self.find(map::local_id(owner, local_id)).await?.map(|(reserved, _)| reserved))
    }

    async fn reservations(&self, owner: &str, local_ids: &[String]) -> Result<Vec<Option<(LocalId, Stat)>>> {
        if local_ids.len() > MOST {
            let why = format!("{} local ids, and a job has at most {MOST}", local_ids.len());
            return Err(Error::Invalid(why));
        }
        let paths: Vec<_> = local_ids.iter().map(|local_id| map::local_id(owner, local_id)).collect();
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let found = crate::reads::get_many(&self.session, paths.clone()).await?;
        let read = |(at, found): (String, Option<(bytes::Bytes, Stat)>)| match found {
            None => Ok(None),
            Some((data, stat)) => match LocalId::read(&data) {
                Ok(there) => Ok(Some((there, stat))),
                Err(why) => Err(Error::corrupt(at, why)),
            },
        };
        paths.into_iter().zip(found).map(read).collect()
    }

    /// Gives up a reservation: its identifier is recorded. Others that have joined it keep it.
    pub async fn free_local_id(&self, lease: &mut Lease, owner: &str, local_id: &str) -> Result<()> {
        let (at, jid) = (map::local_id(owner, local_id), lease.jid());
        for _ in 0..TRIES {
            let (there, stat) = match self.find::<LocalId>(at.clone()).await? {
                Some((there, stat)) if there.is_held_by(jid) => (there, stat),
                _ => return Ok(()),
            };
            let free = given_up(at.clone(), &there, jid, stat.version, self.dialect());
            let ops = vec![lease.token.check(), free];
            let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
            match settled.answer {
                Ok(_) => return Ok(()),
                Err(error) if error.failed_op() == Some(1) => {}
                Err(error) => return Err(self.misfit(jid, error)),
            }
        }
        Err(Error::changed(local_id, "its reservation comes and goes"))
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
}
