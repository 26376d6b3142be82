//! Slots that nobody needs any more come back.
//!
//! Every plan here proves that the slot is still the one that was looked at: each taking of a slot sets it, so its
//! version tells one holder from the next.

use std::time::Duration;

use ingest_store::recipes::{look, settle};
use ingest_store::{Kind as StoreKind, Op, Stat, path};

use super::slot::{self, Holding, holder_of};
use crate::error::{Error, Result};
use crate::ids::Jid;
use crate::map::{self, JobNode};
use crate::nodes::{Node as _, Owner};
use crate::queue::Queue;

/// A semaphore that nobody has held for so long leaves the tree; it is made again when it is needed.
pub const IDLE: Duration = Duration::from_hours(1);

/// What was found and put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Slots that came back.
    pub slots: usize,
    /// Semaphores that are gone.
    pub semaphores: usize,
}

impl Cleaned {
    pub fn all(&self) -> usize {
        self.slots + self.semaphores
    }
}

impl Queue {
    /// Gives back the slots of this session that nobody here claims; returns their paths.
    pub async fn sweep_slots(&self) -> Result<Vec<String>> {
        if self.limits.is_free() {
            return Ok(Vec::new());
        }
        self.committer.settled().await;
        look(&self.session, || self.session.sync()).await?;
        let mut swept = Vec::new();
        for holder in look(&self.session, || self.session.ephemerals(map::SEMAPHORES)).await? {
            let Some((name, number, true)) = slot::parts(&holder) else { continue };
            let at = slot::slot_path(name, number);
            // The version first, the claim second: whoever takes the slot in between moves the version.
            let Some(stat) = self.exists(&at).await? else { continue };
            if self.limits.held.lock().book.is_mine(name, number) {
                continue;
            }
            if self.reclaim(&at, &stat, Vec::new()).await? {
                tracing::warn!(slot = at, "gave back a slot that nobody claims");
                swept.push(at);
            }
        }
        Ok(swept)
    }

    /// Gives back every slot whose job nobody works on, on whatever node it was taken, and removes the semaphores that
    /// nobody has needed for a while. For one node at a time; so many at the most: whoever calls again goes on.
    pub async fn clean_semaphores(&self, idle: Duration, most: usize) -> Result<Cleaned> {
        let mut cleaned = Cleaned::default();
        let dirs = match self.children(map::SEMAPHORES).await {
            Ok(dirs) => dirs,
            Err(error) if error.kind() == StoreKind::NoNode => return Ok(cleaned),
            Err(error) => return Err(error.into()),
        };
        if dirs.is_empty() {
            return Ok(cleaned);
        }
        let clock = ingest_store::recipes::ltime::server_clock(&self.session).await?;
        for dir in dirs {
            let dir = path::join(map::SEMAPHORES, &dir);
            let slots = self.slots_below(&dir).await?;
            for (at, data, stat) in slots.iter().filter(|(_, _, stat)| stat.num_children > 0) {
                if cleaned.all() == most {
                    return Ok(cleaned);
                }
                cleaned.slots += usize::from(self.reclaim_if_leaked(at, data, stat).await?);
            }
            let idle = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
            let is_idle = |stat: &Stat| stat.num_children == 0 && clock.saturating_sub(stat.mtime) >= idle;
            if cleaned.all() == most {
                return Ok(cleaned);
            }
            if slots.iter().all(|(_, _, stat)| is_idle(stat)) {
                cleaned.semaphores += usize::from(self.remove_semaphore(&dir, &slots).await?);
            }
        }
        Ok(cleaned)
    }

    /// Whether nobody works on the job that this slot was taken for, and if so, gives it back.
    pub(crate) async fn reclaim_if_leaked(&self, at: &str, data: &[u8], stat: &Stat) -> Result<bool> {
        let Some(holder) = self.exists(holder_of(at)).await? else { return Ok(false) };
        let Some(jid) = Holding::read(data).ok().and_then(|holding| holding.job) else {
            // Nobody can tell whose it is. It goes with its session.
            return Ok(false);
        };
        match self.exists(JobNode::Lock.of(jid)).await? {
            // One that waits for its stop is at work, too, if it is of the same session.
            Some(lock) if lock.ephemeral_owner == holder.ephemeral_owner => Ok(false),
            // Somebody else has the job: whoever took the slot has not.
            Some(_) => self.reclaim(at, stat, Vec::new()).await,
            None => self.reclaim(at, stat, self.is_unlocked(jid).await?).await,
        }
        .inspect(|reclaimed| {
            if *reclaimed {
                tracing::warn!(slot = at, job = %jid, "gave back a slot whose job nobody works on");
            }
        })
    }

    /// The proof that nobody holds the lock of a job: it can be made, and goes again. A job that is gone needs none.
    async fn is_unlocked(&self, jid: Jid) -> Result<Vec<Op>> {
        if self.exists(map::job(jid)).await?.is_none() {
            return Ok(Vec::new());
        }
        let lock = JobNode::Lock.of(jid);
        let owner = Owner { node: self.settings.node.clone(), ..Owner::default() };
        Ok(vec![Op::ephemeral(lock.as_str(), owner.write(self.dialect())), Op::delete(lock, None)])
    }

    /// Gives a slot back, if it is as it was read. `false`: it is another's, or gone.
    async fn reclaim(&self, at: &str, stat: &Stat, mut ops: Vec<Op>) -> Result<bool> {
        ops.push(Op::check(at, stat.version));
        ops.push(Op::delete(holder_of(at), None));
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        match settled.answer {
            Ok(_) => Ok(true),
            // Perhaps by the try before this one.
            Err(error) if error.failed_op().is_some() => Ok(settled.repeated),
            Err(error) => Err(Error::from(error)),
        }
    }

    async fn remove_semaphore(&self, dir: &str, slots: &[(String, bytes::Bytes, Stat)]) -> Result<bool> {
        let mut ops: Vec<Op> =
            slots.iter().map(|(at, _, stat)| Op::delete(at.as_str(), stat.version)).collect();
        let last = ops.split_off(ops.len().saturating_sub(900));
        for some in ops.chunks(900).chain([last.as_slice()]).filter(|some| !some.is_empty()) {
            let settled = settle(&self.session, || self.session.multi(some.to_vec())).await;
            match settled.answer {
                Ok(_) => {}
                // Somebody has taken one meanwhile.
                Err(error) if error.failed_op().is_some() => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        match settle(&self.session, || self.session.delete(dir, None)).await.answer {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), StoreKind::NotEmpty | StoreKind::NoNode) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
