//! What can be done with batches: make, find, hold, expand into jobs, end, report, delete.
//!
//! A node that works on a batch holds its lock and commits at the version of its status, as with jobs.
//!
//! **When things break.** Everything long (expansion, deletion) goes in steps that are one multi each and
//! says in the tree how far it is, so that any node goes on with it.

mod actions;
mod delete;
mod ended;
mod expansion;
mod lease;
mod parts;
mod payloads;
mod report;
mod reported;

use ingest_store::Kind;

pub use delete::{Deletion, may_be_cleaned};
pub use ended::{Ended, Listed};
pub use expansion::Expanded;
pub(crate) use expansion::HELD_BY_PROFILE;
pub use lease::BatchLease;
pub use report::{NOTE, ReportDraft, WHY, not_kept};
pub use reported::Unended;

use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::journal::is_about_keys;
use crate::map::{self, BatchNode};
use crate::nodes::{BatchStatus, Expansion, Submission, read_id};
use crate::numbers::ahead;
use crate::plan::Lock;
use crate::plan::batch::{self, Batch};
use crate::queue::Queue;

/// A batch that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    pub bid: Bid,
    /// The uuid was known: this is its batch, and nothing was made.
    pub known: bool,
    /// Another submission waited under the same key: this one has become part of its batch.
    pub merged: bool,
    /// Another submission waits under the same key, and is newer: nothing was made or changed.
    pub stale: bool,
}

impl Queue {
    /// Makes a batch, findable by the uuid that the depositor is given. A uuid that is known is answered
    /// with its batch; a key that another submission waits under, with the batch of that one.
    pub async fn create_batch(&self, uuid: &str, submission: &Submission) -> Result<Created> {
        check_uuid(uuid)?;
        let scene = self.scene();
        let (mut taken, mut lock) = (None, Lock::Within);
        loop {
            if let Some(bid) = self.find_batch(uuid).await? {
                return Ok(Created { bid, known: true, merged: false, stale: false });
            }
            let key = match submission.key.as_deref() {
                Some(key) => Some(self.read_key(key).await?),
                None => None,
            };
            if let Some(key) = &key {
                match self.merge(key, uuid, submission, &scene, &mut lock).await {
                    Ok(None) => {}
                    Ok(Some(created)) => return Ok(created),
                    Err(Error::Changed { .. }) => continue,
                    Err(error) => return Err(error),
                }
            }
            let turn = self.turn_of_batches().await?;
            let bid = Bid::new(turn.number());
            if taken == Some(bid) {
                return Err(ahead(map::batch(bid)));
            }
            let mut ops = batch::create(bid, uuid, submission, &scene);
            ops.push(turn.fence());
            ops.extend(key.and_then(|key| key.taken_by(bid, &scene)));
            let mark = Mark::holds(BatchNode::Status.of(bid), scene.commit.as_str());
            match commit_alone(&self.session, Unit::new(ops, mark)).await {
                Ok(()) => {
                    turn.used(1);
                    return Ok(Created { bid, known: false, merged: false, stale: false });
                }
                // Another has made a batch meanwhile: the next number, or its batch.
                Err(error)
                    if matches!(error.kind(), Kind::NodeExists | Kind::BadVersion)
                        || is_about_keys(&error) =>
                {
                    taken = (error.path() == Some(map::batch(bid).as_str())).then_some(bid);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The batch that has this uuid.
    pub async fn find_batch(&self, uuid: &str) -> Result<Option<Bid>> {
        check_uuid(uuid)?;
        let path = map::batch_uuid(uuid);
        match self.get(&path).await {
            Ok((data, _)) => Ok(Some(read_id(&data).map_err(|why| Error::corrupt(path, why))?)),
            Err(error) if error.kind() == Kind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub async fn batch(&self, bid: Bid) -> Result<Batch> {
        let (status, stat) =
            self.read::<BatchStatus>(BatchNode::Status.of(bid), || Error::no_batch(bid)).await?;
        Ok(Batch { bid, status, version: stat.version })
    }

    pub async fn submission(&self, bid: Bid) -> Result<Submission> {
        Ok(self.read(BatchNode::Submission.of(bid), || Error::no_batch(bid)).await?.0)
    }

    pub async fn expansion(&self, bid: Bid) -> Result<Option<Expansion>> {
        Ok(self.find(BatchNode::Expansion.of(bid)).await?.map(|(expansion, _)| expansion))
    }
}

/// A uuid is a name in a path.
fn check_uuid(uuid: &str) -> Result<()> {
    if uuid.is_empty() || uuid.len() > 64 || !uuid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        let shown: String = uuid.chars().take(64).collect();
        return Err(Error::Invalid(format!("`{shown}` is not a uuid")));
    }
    Ok(())
}
