//! From the rows of a manifest to jobs.
//!
//! Each chunk of jobs is made in one multi together with the cursor, at the cursor's version: killed
//! anywhere, an expansion goes on at the first row that has no job, and ends with exactly one job per
//! row. The jobs get their numbers at the store's counter, contiguous, and nobody else gets them.

use ingest_store::recipes::shard;
use ingest_store::{Kind, Op};
use sha2::{Digest, Sha256};

use super::lease::{BatchLease, misfit};
use crate::committer::{MAX_BYTES, MAX_OPS, Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::map::{self, BatchNode};
use crate::nodes::{Expansion, Node};
use crate::plan::Lock;
use crate::plan::batch;
use crate::plan::job::{self, NewJob};
use crate::queue::Queue;
use crate::states::{BatchList, BatchState, JobState, Who};

/// How far an expansion came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expanded {
    /// All rows that were given have jobs; the cursor is at this row.
    To(u64),
    /// The lists hold as many refs as the dialect allows. Go on from this row when some are gone.
    Full(u64),
}

impl Queue {
    /// Begins an expansion, or goes on with one: the row to go on from. The manifest, which has `total`
    /// rows and was validated whole, is frozen in the tree in the same step; only the same one goes on.
    pub async fn begin_expansion(&self, lease: &mut BatchLease, manifest: &[u8], total: u64) -> Result<u64> {
        let bid = lease.bid();
        if total == 0 {
            return Err(Error::Invalid(format!(
                "{bid} has no rows: there is nothing to expand, and it fails"
            )));
        }
        let digest = sha256(manifest);
        if let Some(expansion) = self.expansion(bid).await? {
            if expansion.digest != digest || expansion.total != total {
                let why = format!(
                    "it was begun with a manifest of {} rows and digest {}, and cannot go on with another",
                    expansion.total, expansion.digest
                );
                return Err(Error::forbidden(bid, why));
            }
            return Ok(expansion.next);
        }
        let scene = self.scene();
        let expansion = Expansion { digest, total, ..Expansion::default() };
        let mut holds = self.known_holds().await?;
        if holds.any_collection() {
            let collection = self.submission(bid).await?.collection().to_owned();
            holds = self.holds_where(bid, &collection, false).await?;
        }
        let path = BatchNode::Manifest.of(bid);
        let prepared = shard::prepare(&self.session, &path, manifest).await?;
        let frozen = match self.exists(&path).await? {
            Some(stat) => prepared.op(path, stat.version),
            None => Op::create(path, prepared.announcement()),
        };
        let node = Op::create(BatchNode::Expansion.of(bid), expansion.write(scene.dialect));
        let more = [node, frozen, holds.collection_check()];
        let to = BatchState::Processing;
        let plan = batch::advance(&lease.batch, to, Who::Queue, "", Lock::Keep, &more, &scene)
            .map_err(|refused| Error::refused(bid, refused))?;
        match self.commit_batch(lease, plan, Lock::Keep).await {
            Err(Error::Store(error)) if crate::jobs::is_about_holds(&error) => {
                self.forget_holds();
                Box::pin(self.begin_expansion(lease, manifest, total)).await
            }
            answer => answer.map(|()| 0),
        }
    }

    /// The frozen manifest of a batch; `limit` is the most bytes that the caller takes.
    pub async fn manifest(&self, bid: Bid, limit: u64) -> Result<Option<Vec<u8>>> {
        self.sharded(BatchNode::Manifest.of(bid), limit).await
    }

    /// Makes the jobs of the next rows, in as few multis as they fit into. `first` is the row of the
    /// first of them, and must be the cursor's.
    pub async fn expand(&self, lease: &mut BatchLease, first: u64, jobs: &[NewJob]) -> Result<Expanded> {
        let bid = lease.bid();
        let path = BatchNode::Expansion.of(bid);
        let (mut cursor, stat) = self
            .read::<Expansion>(path.clone(), || Error::forbidden(bid, "its expansion has not begun"))
            .await?;
        if cursor.next != first {
            let why = format!("its expansion is at row {}, and not at {first}", cursor.next);
            return Err(Error::changed(bid, why));
        }
        if first + jobs.len() as u64 > cursor.total {
            return Err(Error::Invalid(format!("{bid} has {} rows, and no more", cursor.total)));
        }
        let mut version = stat.version;
        let mut rest = jobs;
        let (mut numbers, mut taken) = (None, None);
        while !rest.is_empty() {
            if !self.has_room(lease, rest.len()).await? {
                return Ok(Expanded::Full(cursor.next));
            }
            let (number, fence) = match numbers.take() {
                Some(numbers) => numbers,
                None => self.next_number(map::JOBS).await?,
            };
            if let Some((_, at)) = taken.take_if(|(same, _)| *same == number) {
                return Err(super::ahead(at));
            }
            let scene = self.scene();
            let mut ops = vec![lease.token.check()];
            let next_fence = following(&fence);
            ops.push(fence);
            let (count, creates) = chunk(number, bid, rest, &scene);
            let mut after = Expansion { next: cursor.next + count as u64, ..cursor.clone() };
            after.done = after.next == after.total;
            after.commit.clone_from(&scene.commit);
            ops.push(Op::set(path.as_str(), after.write(scene.dialect), version));
            ops.extend(creates);
            let mark = Mark::holds(path.as_str(), scene.commit.as_str());
            match commit_alone(&self.session, Unit::new(ops, mark)).await {
                Ok(()) => {
                    cursor = after;
                    version += 1;
                    rest = &rest[count..];
                    let next = number + u32::try_from(count).unwrap_or(u32::MAX);
                    numbers = next_fence.map(|fence| (next, fence));
                }
                // Somebody else has made jobs meanwhile: at the next numbers, then.
                Err(error) if is_about_numbers(&error) => {
                    let exists = error.kind() == Kind::NodeExists;
                    taken = error.path().filter(|_| exists).map(|at| (number, at.to_owned()));
                }
                Err(error) => return Err(misfit(bid, error)),
            }
        }
        Ok(Expanded::To(cursor.next))
    }

    /// Whether the lists take so many more refs in this dialect.
    async fn has_room(&self, lease: &BatchLease, more: usize) -> Result<bool> {
        let Some(most) = self.dialect().max_refs() else { return Ok(true) };
        let more = more.min(MAX_OPS / 8);
        let lists = [map::queue(JobState::Pending), map::batch_list(lease.bid(), BatchList::Processing)];
        for list in lists {
            let stat = self.exists(&list).await?;
            let there = stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0));
            if there + more > most {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// As many jobs as one multi holds, and at least one.
fn chunk(number: u32, bid: Bid, jobs: &[NewJob], scene: &crate::plan::Scene) -> (usize, Vec<Op>) {
    // What stands before the jobs: the fence, the numbers, the cursor.
    let (mut ops, mut count, mut bytes) = (Vec::new(), 0, 4096);
    for new in jobs {
        let jid = Jid::new(number + u32::try_from(count).unwrap_or(u32::MAX));
        let job = job::create(jid, bid, new, scene);
        bytes += job.iter().map(Op::size).sum::<usize>();
        if count > 0 && (ops.len() + job.len() + 3 > MAX_OPS || bytes > MAX_BYTES) {
            break;
        }
        ops.extend(job);
        count += 1;
    }
    (count, ops)
}

/// The fence of the numbers that follow those of a chunk.
fn following(fence: &Op) -> Option<Op> {
    match fence {
        Op::Set { path, data, version: Some(version) } => {
            Some(Op::set(path.as_str(), data.clone(), version.wrapping_add(1)))
        }
        _ => None,
    }
}

/// A number that somebody else has taken.
fn is_about_numbers(error: &ingest_store::Error) -> bool {
    match (error.kind(), error.path()) {
        (Kind::BadVersion, Some(map::JOBS)) => true,
        (Kind::NodeExists, Some(path)) => ingest_store::path::parent(path) == map::JOBS,
        _ => false,
    }
}

fn sha256(data: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(data).iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
