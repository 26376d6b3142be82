//! The end of a batch, proven by the statuses of its jobs.
//!
//! Two things prove it in one multi: `batch-processing` is empty, and no failed job was touched since its status was read. Completed and
//! deleted jobs need no fence, they stay what they are. Our own requeue puts a job into `batch-processing` in the multi that sets its status; a
//! writer of another kind sets the status first, and is noticed by that. A batch with more failed jobs than one multi
//! checks rests on the list alone there: its jobs are read again before its report is drafted.
//!
//! Refs are hints. A job that is under way and that no list names keeps its batch from its end; a ref in `batch-processing` of a job
//! that has ended does not: it is moved to the list where the status puts it.
//!
//! **When things break.** A peer that dies between its requests leaves refs missing or twice. [`Queue::restore_refs`] puts those of a job
//! back that a batch waits for. Whoever moves a job holds its lock, and is not disturbed.

use ingest_store::recipes::settle;
use ingest_store::{Kind, Op};

use super::lease::{BatchLease, misfit};
use super::reported::{Reported, Unended};
use crate::committer::Mark;
use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::journal::{KeyMove, is_about_keys};
use crate::map::{self, BatchNode, JobNode};
use crate::nodes::Expansion;
use crate::plan::{Lock, Plan, Scene, batch};
use crate::queue::Queue;
use crate::reads;
use crate::states::{BatchList, JobState};

/// How often the jobs are read again because one of them was touched meanwhile.
const TRIES: usize = 8;
/// Nodes that are read by one request.
const TOGETHER: usize = 256;
/// So many refs in `batch-processing` are compared with the statuses just to see whether that is all that is left.
const FEW: usize = 256;

/// Whether a batch has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It is reporting now.
    Yes,
    /// It is not expanded.
    Waits(String),
    /// This job has not ended. Until it has, the batch has not, either.
    WaitsFor(Unended),
}

/// What the lists of a batch say of how far it is: hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Jobs in `batch-processing`.
    pub running: usize,
    /// Jobs of the expansion that the other lists do not name.
    pub open: i64,
}

impl Listed {
    /// Whether it may have ended.
    pub fn is_over(&self) -> bool {
        self.running == 0 || self.open <= 0
    }
}

impl Queue {
    /// What the lists say of a batch that is expanded.
    pub async fn listed(&self, bid: Bid, expansion: &Expansion) -> Result<Listed> {
        let sizes = self.list_sizes(bid).await?;
        let of = |wanted: BatchList| {
            BatchList::ALL.iter().zip(sizes).filter(|(list, _)| **list == wanted).map(|(_, size)| size).sum()
        };
        let running: usize = of(BatchList::Processing);
        let ended = sizes.iter().sum::<usize>() - running;
        let total = i64::try_from(expansion.total).unwrap_or(i64::MAX);
        Ok(Listed { running, open: total.saturating_sub(i64::try_from(ended).unwrap_or(i64::MAX)) })
    }

    /// Whether all that `batch-processing` names has ended, if that are few.
    pub async fn is_running_list_stale(&self, bid: Bid, listed: &Listed) -> Result<bool> {
        if listed.running > FEW {
            return Ok(false);
        }
        Ok(self.first_running(bid, &self.running_refs(bid).await?).await?.is_none())
    }

    /// Ends the processing of a batch whose jobs have all ended. The lock is kept, for the report.
    pub async fn end_batch(&self, lease: &mut BatchLease) -> Result<Ended> {
        self.end_batch_telling(lease, &|_| {}).await
    }

    /// The same; `told` hears of every few jobs that were read for it.
    pub async fn end_batch_telling(
        &self,
        lease: &mut BatchLease,
        told: &(dyn Fn(usize) + Sync),
    ) -> Result<Ended> {
        let bid = lease.bid();
        let found = self.find::<Expansion>(BatchNode::Expansion.of(bid)).await?;
        let cursor = match batch::is_expanded(found.as_ref().map(|(cursor, stat)| (cursor, stat.version))) {
            Ok(version) => version,
            Err(why) => return Ok(Ended::Waits(why)),
        };
        let scene = self.scene();
        batch::end(&lease.batch, cursor, &scene).map_err(|refused| Error::refused(bid, refused))?;
        for _ in 0..TRIES {
            let found = match self.clear_running_list(bid).await? {
                Some(unended) => Err(unended),
                None => self.reported(bid, told).await?,
            };
            let reported = match found {
                Ok(reported) => reported,
                Err(unended) => {
                    // Somebody else may have ended it.
                    let check = settle(&self.session, || self.session.multi(vec![lease.token.check()])).await;
                    check.answer.map_err(|error| misfit(bid, error))?;
                    return Ok(Ended::WaitsFor(unended));
                }
            };
            match self.commit_end(lease, cursor, &reported, &scene).await {
                // Its report is drafted from the same pass.
                Ok(()) => {
                    lease.reported = reported.is_fenced().then(|| Box::new(reported));
                    return Ok(Ended::Yes);
                }
                Err(Error::Store(error)) if is_about_jobs(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::changed(bid, format!("jobs of it were touched {TRIES} times in a row")))
    }

    /// A job of a batch that has not ended. `None`: all have, and the next draft of a report needs no look at them.
    pub async fn unended_of(
        &self,
        lease: &mut BatchLease,
        told: &(dyn Fn(usize) + Sync),
    ) -> Result<Option<Unended>> {
        if lease.reported.is_none() {
            match self.reported(lease.bid(), told).await? {
                Ok(reported) => lease.reported = Some(Box::new(reported)),
                Err(unended) => return Ok(Some(unended)),
            }
        }
        Ok(None)
    }

    /// Whether a batch still waits for a job, and for what of it.
    pub async fn still_waits(&self, unended: &Unended) -> Result<Option<Unended>> {
        if unended.is_locked && self.exists(JobNode::Lock.of(unended.jid)).await?.is_some() {
            let status = self.exists(JobNode::Status.of(unended.jid)).await?;
            return Ok(Some(Unended { version: status.map(|stat| stat.version), ..unended.clone() }));
        }
        self.unended(unended.jid).await
    }

    /// Puts the refs of a job back that has not ended: into its queue and into `batch-processing`. `false`: they are there, somebody
    /// works on it, or it is gone.
    pub async fn restore_refs(&self, jid: Jid) -> Result<bool> {
        let job = match self.job(jid).await {
            Err(Error::NotFound(_) | Error::Corrupt { .. }) => return Ok(false),
            job => job?,
        };
        let refs = [job.entry().path(), map::batch_ref(job.bid, job.state().list(), jid)];
        let found = reads::get_many(&self.session, refs.to_vec()).await?;
        let missing = refs.into_iter().zip(found).filter(|(_, found)| found.is_none());
        let creates: Vec<Op> = missing.map(|(at, _)| Op::create(at, "")).collect();
        if creates.is_empty() || job.state().list() != BatchList::Processing {
            return Ok(false);
        }
        tracing::warn!(%jid, state = %job.state(), "it was in no queue or in no list of its batch, and is put back");
        self.commit_under_lock(jid, job.version, creates).await
    }

    async fn commit_end(
        &self,
        lease: &mut BatchLease,
        cursor: i32,
        reported: &Reported,
        scene: &Scene,
    ) -> Result<()> {
        loop {
            let mut plan = batch::end(&lease.batch, cursor, scene)
                .map_err(|refused| Error::refused(lease.bid(), refused))?;
            plan.ops.extend(reported.fence());
            // Whoever waits behind it may begin.
            plan.ops.extend(self.key_ops(&lease.batch, KeyMove::Ends, scene).await?);
            match self.commit_batch(lease, plan, Lock::Keep).await {
                Err(Error::Store(error)) if is_about_keys(&error) => {}
                answer => return answer,
            }
        }
    }

    /// The jobs that `batch-processing` names.
    async fn running_refs(&self, bid: Bid) -> Result<Vec<Jid>> {
        let list = map::batch_list(bid, BatchList::Processing);
        // Most batches end with an empty list, and that costs no listing.
        if self.exists(&list).await?.is_none_or(|stat| stat.num_children == 0) {
            return Ok(Vec::new());
        }
        let names = crate::list::names_in(&self.session, &list).await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The first of the jobs that has not ended.
    async fn first_running(&self, bid: Bid, jids: &[Jid]) -> Result<Option<Unended>> {
        for jids in jids.chunks(TOGETHER) {
            for placed in self.statuses(jids).await? {
                if let Err(unended) = placed {
                    let why = self.what_is_left(bid).await?;
                    return Ok(Some(Unended { why, ..unended }));
                }
            }
        }
        Ok(None)
    }

    /// Moves refs from `batch-processing` to where the status puts them. Answers what keeps one there: a job that has not ended, or
    /// whose lock is held.
    async fn clear_running_list(&self, bid: Bid) -> Result<Option<Unended>> {
        let jids = self.running_refs(bid).await?;
        if let Some(unended) = self.first_running(bid, &jids).await? {
            return Ok(Some(unended));
        }
        for jid in jids {
            let Ok(placed) = self.statuses(&[jid]).await?.remove(0) else { continue };
            let stale = map::batch_ref(bid, BatchList::Processing, jid);
            let right = map::batch_ref(bid, placed.list, jid);
            let mut ops = vec![Op::delete(stale.as_str(), None)];
            if self.exists(&right).await?.is_none() {
                ops.push(Op::create(right, ""));
            }
            let Some(version) = placed.version else {
                // It is gone, and stays so.
                let plan = Plan { ops, mark: Mark::Gone(stale), after: () };
                self.commit_job(jid, &plan).await?;
                continue;
            };
            tracing::warn!(batch = %bid, job = %jid, "it has ended, and was still listed as under way");
            if !self.commit_under_lock(jid, version, ops).await? {
                let why = format!("{jid} has ended, and somebody still moves it");
                return Ok(Some(Unended { jid, version: Some(version), why, is_locked: true }));
            }
        }
        Ok(None)
    }

    /// Changes refs of a job at the version of its status. `false`: somebody has its lock, or it has moved on.
    async fn commit_under_lock(&self, jid: Jid, version: i32, changes: Vec<Op>) -> Result<bool> {
        let lock = JobNode::Lock.of(jid);
        let mut ops = vec![
            Op::ephemeral(lock.as_str(), self.owner(0, &self.scene())),
            Op::check(JobNode::Status.of(jid), version),
        ];
        ops.extend(changes);
        ops.push(Op::delete(lock.as_str(), None));
        // If it was not applied after all, the next look finds the same again.
        let plan = Plan { ops, mark: Mark::Gone(lock), after: () };
        match self.commit_job(jid, &plan).await {
            Ok(()) => Ok(true),
            Err(Error::Store(error)) if error.kind() == Kind::NodeExists => Ok(false),
            Err(Error::Lost { .. } | Error::Changed { .. } | Error::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How many jobs of a batch are under way, and how many of them a person holds.
    pub(crate) async fn what_is_left(&self, bid: Bid) -> Result<String> {
        let list = self.exists(&map::batch_list(bid, BatchList::Processing)).await?;
        let left = list.map_or(0, |stat| stat.num_children);
        let here = crate::list::held_jobs(&self.session, bid).await?;
        Ok(if here == 0 {
            format!("{left} jobs are under way")
        } else {
            format!("{left} jobs are under way, {here} of them {}", JobState::Held)
        })
    }
}

/// A job has come back, or was touched.
fn is_about_jobs(error: &ingest_store::Error) -> bool {
    error.kind() == Kind::NotEmpty
        || matches!(error.kind(), Kind::BadVersion | Kind::NoNode)
            && error.path().is_some_and(|at| ingest_store::path::is_within(at, map::JOBS))
}
