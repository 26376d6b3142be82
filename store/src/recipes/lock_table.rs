//! The locks of one session: who holds what here, and with which token.
//!
//! A lock is an ephemeral node, made together with a set of its *fence*: a persistent node whose
//! version is the token. Whoever commits under the lock does so at the token. The lock itself fences
//! nothing (made anew, it has version 0 again); it tells people and other nodes who is at work.
//!
//! The table records the intent before the create is sent and forgets a lock only after its release
//! is certain, so at every moment it knows at least what the session owns. A lock that is in the
//! table is never asked for again on this session.
//!
//! **When things break.**
//! - A lost answer to an acquire is settled on the same session: the lock is there and this session's,
//!   or it is not ours. A lost answer to a release likewise.
//! - A release is a multi at the token: it *sets* the fence, so the token is worth nothing afterwards,
//!   and deletes the lock. If the fence has moved, the lock was taken away by somebody entitled to
//!   (an operator's force), and there is nothing to release.
//! - A caller that gives up waiting (its future is dropped) leaves an entry that [`LockTable::sweep`]
//!   finds: it releases every lock of the session that nobody here claims.
//! - After expiry all locks are gone: [`LockTable::revoke_all`] forgets them, and nothing is sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::error::{Error, Kind, Result};
use crate::node::Op;
use crate::path;
use crate::session::Session;

/// What to lock and how.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The lock's path.
    pub lock: String,
    /// What people read in it: node, incarnation, attempt.
    pub owner: Bytes,
    /// The fence's path, its version as it was read, and what it is set to.
    pub fence: String,
    pub version: i32,
    pub data: Bytes,
    /// More operations of the same multi.
    pub more: Vec<Op>,
    /// Who asks, here: everything of one holder can be released together.
    pub holder: String,
}

impl Claim {
    /// The multi: the lock, the fence at the version that was read, and the rest.
    pub fn ops(&self) -> Vec<Op> {
        let mut ops = vec![
            Op::ephemeral(self.lock.as_str(), self.owner.clone()),
            Op::set(self.fence.as_str(), self.data.clone(), self.version),
        ];
        ops.extend(self.more.iter().cloned());
        ops
    }
}

/// The multi of a release without a transition: it spends the token, and deletes the lock.
pub fn release_ops(lock: &str, fence: &str, version: i32, data: Bytes) -> Vec<Op> {
    vec![Op::set(fence, data, version), Op::delete(lock, None)]
}

/// The right to commit: the fence at this version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Token {
    lock: String,
    fence: String,
    version: i32,
    /// Tells two claims of the same lock apart, in the table.
    claim: u64,
}

impl Token {
    pub fn lock(&self) -> &str {
        &self.lock
    }

    pub fn fence(&self) -> &str {
        &self.fence
    }

    /// The fence's version.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// Refuses a multi whose token is no longer good.
    pub fn check(&self) -> Op {
        Op::check(self.fence.as_str(), self.version)
    }

    /// Sets the fence at the token: what a transition begins with.
    pub fn set(&self, data: impl Into<Bytes>) -> Op {
        Op::set(self.fence.as_str(), data, self.version)
    }
}

/// The table. Clones are the same table.
#[derive(Debug, Clone)]
pub struct LockTable {
    session: Session,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    entries: Mutex<HashMap<String, Entry>>,
    claims: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    claim: u64,
    fence: String,
    holder: String,
    stage: Stage,
}

/// Where a lock is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The acquire was or will be sent.
    Intended,
    Held(i32),
    /// Nobody here waits for it any more, and what became of it is not known.
    Abandoned,
}

/// What a release found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The lock was ours and is gone.
    Now,
    /// The token was not good any more: somebody else has taken the lock away, or had it released.
    Before,
}

impl LockTable {
    pub fn new(session: &Session) -> Self {
        Self { session: session.clone(), shared: Arc::default() }
    }

    /// Takes a lock. `NodeExists` at the lock: it is held, here or elsewhere. `BadVersion` at the
    /// fence: what the caller has read is old.
    pub async fn acquire(&self, claim: Claim) -> Result<Token> {
        let look = claim.clone();
        self.acquire_by(claim, async |ops| {
            let settled = super::settle(&self.session, || self.session.multi(ops.clone())).await;
            match settled.answer {
                Ok(_) => Ok(()),
                Err(error) => self.ours_after_all(&look, settled.repeated, error).await,
            }
        })
        .await
    }

    /// The same, with the operations committed by the caller, perhaps together with others. Its answer
    /// must be settled: `Ok` if they were applied, an error whose index counts from the first of
    /// them if they were not.
    pub async fn acquire_by(
        &self,
        claim: Claim,
        commit: impl AsyncFnOnce(Vec<Op>) -> Result<()>,
    ) -> Result<Token> {
        let id = self.intend(&claim)?;
        // Not disarmed if this future is dropped: then the entry stays for the sweep.
        let mut abandoned = Abandon { table: self, lock: &claim.lock, claim: id, armed: true };
        if let Err(error) = commit(claim.ops()).await {
            if error.failed_op().is_some() || error.outcome() == crate::error::Outcome::NotApplied {
                self.forget(&claim.lock, id);
                abandoned.armed = false;
            }
            return Err(error);
        }
        abandoned.armed = false;
        // A set at a version leads to the next one.
        let version = claim.version.wrapping_add(1);
        self.hold(&claim.lock, id, version);
        Ok(Token { lock: claim.lock.clone(), fence: claim.fence.clone(), version, claim: id })
    }

    /// After a lost answer, "exists already" may be our own doing: this session's lock, and the fence
    /// one further than it was read.
    async fn ours_after_all(&self, claim: &Claim, repeated: bool, error: Error) -> Result<()> {
        if !repeated || error.kind() != Kind::NodeExists || error.failed_op() != Some(0) {
            return Err(error);
        }
        let lock = super::look(&self.session, || self.session.exists(claim.lock.as_str())).await?;
        let fence = super::look(&self.session, || self.session.exists(claim.fence.as_str())).await?;
        match (lock, fence) {
            (Some(lock), Some(fence))
                if lock.ephemeral_owner == self.session.id() && fence.version == claim.version + 1 =>
            {
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Gives a lock back without a transition. The fence gets `data`, or what it already has.
    pub async fn release(&self, token: &Token, data: Option<Bytes>) -> Result<Released> {
        self.release_and(token, data, Vec::new()).await
    }

    /// The same, with more operations of the same multi. One of those that is refused is left out.
    pub async fn release_and(&self, token: &Token, data: Option<Bytes>, also: Vec<Op>) -> Result<Released> {
        let released = self.release_at(&token.lock, &token.fence, token.version, data, also).await?;
        self.forget(&token.lock, token.claim);
        Ok(released)
    }

    /// A commit has kept the lock and set the fence: the next token.
    pub fn kept(&self, token: &Token, version: i32) -> Token {
        self.hold(&token.lock, token.claim, version);
        Token { version, ..token.clone() }
    }

    /// The same, and from now on it is another holder's.
    pub fn passed(&self, token: &Token, version: i32, holder: &str) -> Token {
        if let Some(entry) = self.shared.entries.lock().get_mut(&token.lock)
            && entry.claim == token.claim
        {
            entry.stage = Stage::Held(version);
            holder.clone_into(&mut entry.holder);
        }
        Token { version, ..token.clone() }
    }

    /// A commit has deleted the lock.
    pub fn gone(&self, token: &Token) {
        self.forget(&token.lock, token.claim);
    }

    /// Releases everything of a holder that has died; returns how many locks that were.
    pub async fn release_all_of(&self, holder: &str) -> Result<usize> {
        let held = self.tokens(|entry| entry.holder == holder);
        for token in &held {
            self.release(token, None).await?;
        }
        Ok(held.len())
    }

    /// Releases the locks of this session that nobody here claims, among those that `fence_of` knows a
    /// fence for; returns their paths.
    pub async fn sweep(&self, below: &str, fence_of: impl Fn(&str) -> Option<String>) -> Result<Vec<String>> {
        let abandoned = self.abandoned(below);
        // Behind everything that the abandoned claims had sent: what is not there now never will be.
        super::settle(&self.session, || self.session.sync()).await.answer?;
        let listed = super::settle(&self.session, || self.session.ephemerals(below)).await.answer?;
        let mut swept = Vec::new();
        for lock in listed {
            let Some(fence) = fence_of(&lock).filter(|_| !self.is_claimed(&lock)) else { continue };
            // The version first, the table second: whoever acquires in between moves the fence.
            let Some(stat) = self.session.exists(fence.as_str()).await? else { continue };
            if self.is_claimed(&lock) {
                continue;
            }
            if self.release_at(&lock, &fence, stat.version, None, Vec::new()).await? == Released::Now {
                tracing::warn!(lock, "released a lock that nobody claims");
                swept.push(lock);
            }
        }
        for (lock, claim) in abandoned {
            self.forget(&lock, claim);
        }
        Ok(swept)
    }

    /// Forgets everything, because the session is over. Returns what was held: all of it is lost.
    pub fn revoke_all(&self) -> Vec<Token> {
        let lost = self.tokens(|_| true);
        self.shared.entries.lock().clear();
        lost
    }

    /// How many locks are held or on their way.
    pub fn len(&self) -> usize {
        self.shared.entries.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    async fn release_at(
        &self,
        lock: &str,
        fence: &str,
        version: i32,
        data: Option<Bytes>,
        also: Vec<Op>,
    ) -> Result<Released> {
        let data = match data {
            Some(data) => data,
            None => match super::settle(&self.session, || self.session.get(fence)).await.answer {
                Ok((_, stat)) if stat.version != version => return Ok(Released::Before),
                Ok((data, _)) => data,
                Err(error) if error.kind() == Kind::NoNode => return Ok(Released::Before),
                Err(error) => return Err(error),
            },
        };
        let mut ops = release_ops(lock, fence, version, data);
        let own = ops.len();
        ops.extend(also);
        let mut settled = super::settle(&self.session, || self.session.multi(ops.clone())).await;
        while let Err(Some(op)) = settled.answer.as_ref().map_err(Error::failed_op)
            && op >= own
            && op < ops.len()
        {
            ops.remove(op);
            settled = super::settle(&self.session, || self.session.multi(ops.clone())).await;
        }
        match settled.answer {
            Ok(_) => Ok(Released::Now),
            // The fence has moved: by the try before this one, or by somebody else.
            Err(error) if error.failed_op() == Some(0) => {
                Ok(if settled.repeated { self.released_by_us(lock).await? } else { Released::Before })
            }
            Err(error) if error.failed_op() == Some(1) => Ok(Released::Before),
            Err(error) => Err(error),
        }
    }

    async fn released_by_us(&self, lock: &str) -> Result<Released> {
        let stat = super::look(&self.session, || self.session.exists(lock)).await?;
        Ok(if stat.is_none() { Released::Now } else { Released::Before })
    }

    fn intend(&self, claim: &Claim) -> Result<u64> {
        path::validate(&claim.lock, false)?;
        let mut entries = self.shared.entries.lock();
        if let Some(entry) = entries.get(&claim.lock) {
            let why = format!("held in this session by {}", entry.holder);
            return Err(Error::new(Kind::NodeExists, why).with_path(&claim.lock));
        }
        let id = self.shared.claims.fetch_add(1, Ordering::Relaxed);
        let (fence, holder) = (claim.fence.clone(), claim.holder.clone());
        entries.insert(claim.lock.clone(), Entry { claim: id, fence, holder, stage: Stage::Intended });
        Ok(id)
    }

    fn hold(&self, lock: &str, claim: u64, version: i32) {
        if let Some(entry) = self.shared.entries.lock().get_mut(lock)
            && entry.claim == claim
        {
            entry.stage = Stage::Held(version);
        }
    }

    fn forget(&self, lock: &str, claim: u64) {
        let mut entries = self.shared.entries.lock();
        if entries.get(lock).is_some_and(|entry| entry.claim == claim) {
            entries.remove(lock);
        }
    }

    /// Whether somebody here has a lock, wants it, or has lost it and not given it back yet.
    pub fn is_claimed(&self, lock: &str) -> bool {
        self.shared.entries.lock().get(lock).is_some_and(|entry| entry.stage != Stage::Abandoned)
    }

    fn abandoned(&self, below: &str) -> Vec<(String, u64)> {
        let entries = self.shared.entries.lock();
        let abandoned = entries
            .iter()
            .filter(|(lock, entry)| entry.stage == Stage::Abandoned && path::is_within(lock, below));
        abandoned.map(|(lock, entry)| (lock.clone(), entry.claim)).collect()
    }

    fn tokens(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<Token> {
        let entries = self.shared.entries.lock();
        let held =
            entries.iter().filter(|(_, entry)| wanted(entry)).filter_map(|(lock, entry)| match entry.stage {
                Stage::Held(version) => {
                    let (lock, fence, claim) = (lock.clone(), entry.fence.clone(), entry.claim);
                    Some(Token { lock, fence, version, claim })
                }
                Stage::Intended | Stage::Abandoned => None,
            });
        held.collect()
    }
}

/// Marks the entry of an acquire that was given up before its answer came.
struct Abandon<'a> {
    table: &'a LockTable,
    lock: &'a str,
    claim: u64,
    armed: bool,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        if let Some(entry) = self.table.shared.entries.lock().get_mut(self.lock)
            && entry.claim == self.claim
        {
            entry.stage = Stage::Abandoned;
        }
    }
}
