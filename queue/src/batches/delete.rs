//! The end of a batch in the tree: with all its jobs, of any size.
//!
//! First the batch is marked: from then on everything refuses it. Then its jobs go, each as a whole;
//! one that is being worked on loses its lock in the same multi, and its worker's next commit is
//! refused. Last goes the batch itself, with its uuids. Its key is free from the moment it is marked.
//!
//! **When things break.** A deletion that was stopped anywhere is gone on with by calling it again, on
//! any node: the mark is in the tree, and what is gone is gone.

use futures::stream::{self, StreamExt};
use ingest_store::{Kind, Op, path};

use super::lease::misfit;
use crate::committer::{MAX_BYTES, MAX_OPS, Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::journal::{EXPIRED, KeyMove};
use crate::map::{self, BatchNode, JobNode};
use crate::nodes::{Hold, Node, Submission, read_id};
use crate::plan::batch::Batch;
use crate::plan::job;
use crate::plan::{Lock, batch};
use crate::queue::Queue;
use crate::states::{BatchList, BatchState, JobState, States, Who, Why};

/// Jobs that are deleted at a time; the committer puts them together.
const AT_ONCE: usize = 32;
const TRIES: usize = 20;

/// How far a deletion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deletion {
    pub jobs: u64,
    /// Refs to jobs that were gone before.
    pub refs: u64,
}

impl Queue {
    /// Deletes a failed or held batch with all its jobs, or goes on with a deletion. The depositor will
    /// not be told.
    pub async fn delete_batch(
        &self,
        bid: Bid,
        who: &str,
        why: &str,
        force: bool,
        progress: impl FnMut(Deletion),
    ) -> Result<Deletion> {
        self.remove_batch(bid, Who::Admin, Why::Delete, who, why, force, progress).await
    }

    /// Cleans up a completed or expired batch, or goes on with that.
    pub async fn clean_batch(&self, bid: Bid, progress: impl FnMut(Deletion)) -> Result<Deletion> {
        let why = "its time in the tree is over";
        self.remove_batch(bid, Who::Janitor, Why::Clean, "the janitor", why, false, progress).await
    }

    #[allow(clippy::too_many_arguments)] // the two callers above are the interface
    async fn remove_batch(
        &self,
        bid: Bid,
        by: Who,
        kind: Why,
        who: &str,
        why: &str,
        force: bool,
        mut progress: impl FnMut(Deletion),
    ) -> Result<Deletion> {
        self.mark_deleting(bid, by, kind, who, why, force).await?;
        let mut so_far = Deletion::default();
        loop {
            let mut left = 0;
            for list in BatchList::ALL {
                left += self.empty_list(bid, list, &mut so_far, &mut progress).await?;
            }
            // A worker may have moved a job into a list that was empty already.
            if left == 0 && self.remove_the_rest(bid).await? {
                return Ok(so_far);
            }
        }
    }

    async fn mark_deleting(
        &self,
        bid: Bid,
        by: Who,
        kind: Why,
        who: &str,
        why: &str,
        force: bool,
    ) -> Result<()> {
        let scene = self.scene();
        let mut lock = Lock::Within;
        let at = BatchNode::Deleting.of(bid);
        for _ in 0..TRIES {
            if self.exists(&at).await?.is_some() {
                return Ok(());
            }
            let found = self.batch(bid).await?;
            found.state().may(kind, by, scene.dialect).map_err(|refused| Error::refused(bid, refused))?;
            let hold = Hold {
                name: bid.to_string(),
                who: who.to_owned(),
                why: why.to_owned(),
                when: Some(scene.now),
                ..Hold::default()
            };
            if kind == Why::Clean && !may_be_cleaned(&found) {
                let why = "it has failed: a person deletes it, or has its jobs tried again";
                return Err(Error::forbidden(bid, why));
            }
            let mut more = vec![Op::create(at.as_str(), hold.write(scene.dialect))];
            // Nothing becomes part of it any more.
            more.extend(self.key_ops(&found, KeyMove::Ends, &scene).await?);
            let message = format!("being deleted by {who}");
            let plan = batch::set(&found, found.state(), &message, lock, &more, &scene);
            let Err(error) = commit_alone(&self.session, plan.unit()).await else { return Ok(()) };
            lock = self.lock_after(&error, bid, &BatchNode::Lock.of(bid), lock, force).await?;
            if error.failed_op().is_none() {
                return Err(misfit(bid, error));
            }
        }
        Err(Error::changed(bid, "again and again; try once more"))
    }

    /// Removes the jobs of a list; returns how many refs it had.
    async fn empty_list(
        &self,
        bid: Bid,
        list: BatchList,
        so_far: &mut Deletion,
        progress: &mut impl FnMut(Deletion),
    ) -> Result<usize> {
        let dir = map::batch_list(bid, list);
        let names = match self.children(&dir).await {
            Ok(names) => names,
            Err(error) if error.kind() == Kind::NoNode => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let count = names.len();
        let dir = dir.as_str();
        let mut removals = stream::iter(names)
            .map(|name| async move {
                match name.parse::<Jid>() {
                    Ok(jid) => self.remove_job(bid, jid, list).await,
                    Err(_) => self.remove_ref(path::join(dir, &name)).await.map(|()| false),
                }
            })
            .buffer_unordered(AT_ONCE);
        while let Some(removed) = removals.next().await {
            if removed? {
                so_far.jobs += 1;
            } else {
                so_far.refs += 1;
            }
            if (so_far.jobs + so_far.refs).is_multiple_of(100) {
                progress(*so_far);
            }
        }
        if count > 0 {
            progress(*so_far);
        }
        Ok(count)
    }

    /// Removes a job of a batch that is being deleted, whoever works on it. `false`: it was gone.
    async fn remove_job(&self, bid: Bid, jid: Jid, list: BatchList) -> Result<bool> {
        let mut why = Error::changed(jid, "");
        for attempt in 0..TRIES {
            let job = match self.job(jid).await {
                Ok(job) if job.bid == bid => job,
                // Of another batch: only the ref is this one's.
                Ok(_) | Err(Error::NotFound(_)) => {
                    self.remove_ref(map::batch_ref(bid, list, jid)).await?;
                    return Ok(false);
                }
                Err(error @ Error::Corrupt { .. }) => {
                    return self.remove_corrupt_job(bid, jid, list, error).await;
                }
                Err(error) => return Err(error),
            };
            let below = self.below(&map::job(jid), attempt > 0).await?;
            let lock_path = JobNode::Lock.of(jid);
            let lock = if below.contains(&lock_path) { Lock::TakeAway } else { Lock::Within };
            let more = self.belongings(jid).await?;
            let scene = self.scene();
            let plan = job::delete(&job, &below, lock, None, &[], &more, &scene);
            match self.commit_job(jid, &plan).await {
                Ok(()) => {
                    // What is completed goes with its batch, as it is.
                    if job.state() != JobState::Completed {
                        self.committer.counts().moved(job.state(), JobState::Deleted);
                    }
                    // If the ref was in another list than the status says.
                    if list != job.state().list() {
                        self.remove_ref(map::batch_ref(bid, list, jid)).await?;
                    }
                    return Ok(true);
                }
                Err(error @ (Error::Lost { .. } | Error::Changed { .. })) => why = error,
                Err(Error::Store(error)) if error.failed_op().is_some() => why = error.into(),
                Err(error) => return Err(error),
            }
        }
        Err(Error::changed(jid, format!("{TRIES} times in a row; the last time: {why}")))
    }

    /// A job that cannot be read goes too: its nodes, and the refs that name it.
    async fn remove_corrupt_job(&self, bid: Bid, jid: Jid, list: BatchList, why: Error) -> Result<bool> {
        tracing::warn!(%jid, %why, "deleting a job that cannot be read");
        let mut ops: Vec<Op> = Vec::new();
        for state in JobState::queues(self.dialect()) {
            let names = self.children(map::queue(state)).await?;
            let suffix = format!("-{jid}");
            let refs = names.iter().filter(|name| name.ends_with(&suffix));
            ops.extend(refs.map(|name| Op::delete(path::join(&map::queue(state), name), None)));
        }
        let below = self.below(&map::job(jid), true).await?;
        ops.extend(below.into_iter().map(|path| Op::delete(path, None)));
        ops.push(Op::delete(map::job(jid), None));
        ops.push(Op::delete(map::batch_ref(bid, list, jid), None));
        match commit_alone(&self.session, Unit::new(ops, Mark::Gone(map::job(jid)))).await {
            Ok(()) => Ok(true),
            // Another node is at it too: the next look at the list tells what is left.
            Err(error) if error.kind() == Kind::NoNode => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn remove_ref(&self, at: String) -> Result<()> {
        let unit = Unit::new(vec![Op::delete(at.as_str(), None)], Mark::Gone(at));
        match self.committer.commit(unit).await {
            Err(error) if error.kind() != Kind::NoNode => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The batch itself. `false`: something came up, look again.
    async fn remove_the_rest(&self, bid: Bid) -> Result<bool> {
        let dir = map::batch(bid);
        // The mark and the status go last of all: until then the deletion can be gone on with.
        let last = [BatchNode::Status, BatchNode::Submission, BatchNode::Deleting].map(|node| node.of(bid));
        let is_late = |at: &String| {
            let name = at.strip_prefix(&dir).unwrap_or("").trim_start_matches('/');
            last.contains(at)
                || name == "states"
                || (name.starts_with("states/") && name.matches('/').count() == 1)
        };
        let (late, early): (Vec<_>, Vec<_>) = self.below(&dir, true).await?.into_iter().partition(is_late);
        let early: Vec<Op> = early.into_iter().map(|path| Op::delete(path, None)).collect();
        for chunk in chunks(&early) {
            let Some(first) = chunk.first() else { continue };
            let mark = Mark::Gone(first.path().to_owned());
            match commit_alone(&self.session, Unit::new(chunk.to_vec(), mark)).await {
                Err(error) if error.failed_op().is_some() => return Ok(false),
                answer => answer?,
            }
        }
        let mut ops: Vec<Op> = late.into_iter().map(|path| Op::delete(path, None)).collect();
        ops.push(Op::delete(dir.as_str(), None));
        ops.extend(self.belongings_of_batch(bid).await?);
        match commit_alone(&self.session, Unit::new(ops, Mark::Gone(dir))).await {
            Ok(()) => Ok(true),
            // Another node has finished it, or something was added.
            Err(error) if error.failed_op().is_some() => Ok(self.exists(map::batch(bid)).await?.is_none()),
            Err(error) => Err(error.into()),
        }
    }

    /// What a batch has elsewhere: its uuids, reports on their way. Its key went when it was marked.
    async fn belongings_of_batch(&self, bid: Bid) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        let submission = match self.find::<Submission>(BatchNode::Submission.of(bid)).await {
            Ok(found) => found.map(|(submission, _)| submission).unwrap_or_default(),
            // What it named stays behind, and fsck finds it.
            Err(Error::Corrupt { .. }) => Submission::default(),
            Err(error) => return Err(error),
        };
        for at in submission.uuids().map(map::batch_uuid) {
            match self.get(&at).await {
                Ok((data, stat)) if read_id::<Bid>(&data) == Ok(bid) => {
                    ops.push(Op::delete(at, stat.version));
                }
                Ok(_) => {}
                Err(error) if error.kind() == Kind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
        let prefix = format!("{bid}-");
        let outgoing = self.children(map::OUTBOX).await?;
        let ours = outgoing.iter().filter(|name| name.starts_with(&prefix));
        ops.extend(ours.map(|name| Op::delete(path::join(map::OUTBOX, name), None)));
        Ok(ops)
    }
}

/// Whether a batch leaves the tree by itself: completed, or failed only because it, or jobs of it, expired.
pub fn may_be_cleaned(batch: &Batch) -> bool {
    match batch.state() {
        BatchState::Completed => true,
        BatchState::Failed => batch.status.other.contains_key(EXPIRED),
        _ => false,
    }
}

/// Pieces that fit into a multi.
fn chunks(mut ops: &[Op]) -> Vec<&[Op]> {
    let mut pieces = Vec::new();
    while !ops.is_empty() {
        let mut bytes = 0;
        let fits = ops.iter().take(MAX_OPS).take_while(|op| {
            bytes += op.size();
            bytes <= MAX_BYTES
        });
        let (piece, rest) = ops.split_at(fits.count().max(1));
        pieces.push(piece);
        ops = rest;
    }
    pieces
}
