//! Keys: one submission waits under each, and one is being processed.
//!
//! `/journal/keys/HASH` names them. It is created, set or deleted in the very multi that makes a batch, begins
//! its expansion, ends it, fails it or marks it as deleted, at the version that was read: of many who
//! submit under one key at the same time one makes a batch, and the others find it.
//!
//! **When things break.** The batch is the truth: a key that leads to one that does not wait (any more) is taken
//! for free, and `fsck` removes it. A merge whose answer was lost is found by its commit in the batch's status.

use ingest_store::{Op, path};

use super::merge::{self, Merge};
use crate::batches::Created;
use crate::committer::commit_alone;
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::map::{self, BatchNode};
use crate::nodes::{Keyed, Keys, Node, Submission};
use crate::plan::batch::{self, Batch};
use crate::plan::{Lock, Scene};
use crate::queue::Queue;
use crate::states::BatchState;

/// In a batch's status: its key.
pub(crate) const KEY: &str = "key";
/// In a batch's status: how often a node that was about to expand it had to begin anew because of a merge.
const DISTURBED: &str = "disturbed";
/// More often than this it is not disturbed: whoever submits faster than a payload can be fetched would keep it waiting
/// for ever.
pub const MOST_DISTURBED: u64 = 10;
/// A key is not longer than this.
pub const LONGEST: usize = 1024;

/// A key as it was read.
#[derive(Debug, Clone)]
pub(crate) struct KeyNode {
    key: String,
    keys: Keys,
    /// `None`: the node is not there.
    version: Option<i32>,
}

/// What becomes of the key of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyMove {
    Begins,
    Ends,
}

impl KeyNode {
    fn path(&self) -> String {
        map::journal_key(&self.key)
    }

    fn keyed(&self) -> Keyed {
        self.keys.of(&self.key).cloned().unwrap_or_default()
    }

    /// The operation after which the node is so.
    fn op(&self, after: &Keys, scene: &Scene) -> Option<Op> {
        match self.version {
            None if after.is_empty() => None,
            None => Some(Op::create(self.path(), after.write(scene.dialect))),
            Some(version) if after.is_empty() => Some(Op::delete(self.path(), version)),
            Some(version) if *after == self.keys => Some(Op::check(self.path(), version)),
            Some(version) => Some(Op::set(self.path(), after.write(scene.dialect), version)),
        }
    }

    /// The operation that puts a new batch there.
    pub(crate) fn taken_by(&self, bid: Bid, scene: &Scene) -> Option<Op> {
        self.op(&self.keys.waits(&self.key, bid), scene)
    }

    fn same(&self) -> Option<Op> {
        self.version.map(|version| Op::check(self.path(), version))
    }
}

/// The key of a batch, as its status says.
pub fn key_of(batch: &Batch) -> Option<&str> {
    batch.status.other.get(KEY)?.as_str()
}

/// Whether a commit was refused because a key was not as it was read.
pub(crate) fn is_about_keys(error: &ingest_store::Error) -> bool {
    error.failed_op().is_some() && error.path().is_some_and(|at| path::is_within(at, map::JOURNAL_KEYS))
}

/// Whether it waits unexpanded.
fn waits(state: BatchState) -> bool {
    matches!(state, BatchState::Pending | BatchState::Held)
}

impl Queue {
    /// The batches that have a key now.
    pub async fn keyed(&self, key: &str) -> Result<Keyed> {
        Ok(self.read_key(key).await?.keyed())
    }

    pub(crate) async fn read_key(&self, key: &str) -> Result<KeyNode> {
        if key.is_empty() || key.len() > LONGEST {
            return Err(Error::Invalid(format!(
                "a key has 1 to {LONGEST} bytes, and this has {}",
                key.len()
            )));
        }
        let found = self.find::<Keys>(map::journal_key(key)).await?;
        let version = found.as_ref().map(|(_, stat)| stat.version);
        let keys = found.map(|(keys, _)| keys).unwrap_or_default();
        Ok(KeyNode { key: key.to_owned(), keys, version })
    }

    /// The operations by which the key of a batch follows its move; none for a batch without one.
    pub(crate) async fn key_ops(&self, batch: &Batch, to: KeyMove, scene: &Scene) -> Result<Vec<Op>> {
        match key_of(batch) {
            // Rarely needed, and large.
            Some(key) => Box::pin(self.ops_of_key(batch, key, to, scene)).await,
            None => Ok(Vec::new()),
        }
    }

    async fn ops_of_key(&self, batch: &Batch, key: &str, to: KeyMove, scene: &Scene) -> Result<Vec<Op>> {
        let node = self.read_key(key).await?;
        let after = match to {
            KeyMove::Begins => {
                if let Some(first) = self.ahead_of(batch.bid, &node.keyed()).await? {
                    let why = format!("{first} has the same key, and is still being processed");
                    return Err(Error::forbidden(batch.bid, why));
                }
                node.keys.begins(key, batch.bid)
            }
            KeyMove::Ends => node.keys.without(key, batch.bid),
        };
        Ok(node.op(&after, scene).into_iter().collect())
    }

    /// The batch with the same key that is being processed.
    pub(crate) async fn ahead_of(&self, bid: Bid, keyed: &Keyed) -> Result<Option<Bid>> {
        let Some(first) = keyed.running.filter(|first| *first != bid) else { return Ok(None) };
        match self.batch(first).await {
            Ok(batch) if batch.state() == BatchState::Processing => Ok(Some(first)),
            // Its key is taken for free.
            Ok(_) | Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a submission part of the one that waits under the same key. `None`: nobody waits there (any more).
    pub(crate) async fn merge(
        &self,
        node: &KeyNode,
        uuid: &str,
        new: &Submission,
        scene: &Scene,
        lock: &mut Lock,
    ) -> Result<Option<Created>> {
        let Some(bid) = node.keyed().waiting else { return Ok(None) };
        let found = match self.batch(bid).await {
            Ok(found) if waits(found.state()) => found,
            Ok(_) | Err(Error::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        if self.exists(BatchNode::Deleting.of(bid)).await?.is_some() {
            return Ok(None);
        }
        let at = BatchNode::Submission.of(bid);
        let Some((stored, stat)) = self.find::<Submission>(at.clone()).await? else { return Ok(None) };
        if (&stored.submitter, &stored.profile_name) != (&new.submitter, &new.profile_name) {
            let why = "another submission waits under it, of another submitter or for another profile: take another key";
            return Err(Error::forbidden(format!("the key `{}`", shown(&node.key)), why));
        }
        let (merged, forgotten) = match merge::merge(&stored, new, uuid, scene.now) {
            Merge::Stale => return Ok(Some(Created { bid, known: false, merged: false, stale: true })),
            Merge::Merged(merged, forgotten) => (merged, forgotten),
        };
        let mut more = vec![
            Op::set(at, merged.write(scene.dialect), stat.version),
            Op::create(map::batch_uuid(uuid), bid.to_string()),
        ];
        more.extend(node.same());
        if let Some(forgotten) = forgotten.map(|uuid| map::batch_uuid(&uuid))
            && self.exists(&forgotten).await?.is_some()
        {
            more.push(Op::delete(forgotten, None));
        }
        let mut marked = found.clone();
        if *lock == Lock::TakeAway {
            let disturbed =
                found.status.other.get(DISTURBED).and_then(serde_json::Value::as_u64).unwrap_or(0);
            if disturbed >= MOST_DISTURBED {
                return Err(self.busy(bid.to_string(), &BatchNode::Lock.of(bid)).await?);
            }
            marked.status.other.insert(DISTURBED.to_owned(), (disturbed + 1).into());
        }
        // Whoever released it has seen something else.
        marked.status.other.remove(crate::batches::HELD_BY_PROFILE);
        let plan = batch::set(&marked, found.state(), &found.status.message, *lock, &more, scene);
        match commit_alone(&self.session, plan.unit()).await {
            Ok(()) => Ok(Some(Created { bid, known: false, merged: true, stale: false })),
            Err(error) if error.failed_op().is_some() => {
                // A node that is about to expand it begins anew, with what it is now.
                *lock = self.lock_after(&error, bid, &BatchNode::Lock.of(bid), *lock, true).await?;
                Err(Error::changed(bid, error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn shown(key: &str) -> String {
    key.chars().take(60).collect()
}
