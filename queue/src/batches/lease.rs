//! A batch that this node works on.

use ingest_store::Kind;
use ingest_store::recipes::lock_table::{Released, Token};

use super::reported::Reported;
use crate::committer::{Unit, commit_alone};
use crate::date::Date;
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::journal::{EXPIRED, KeyMove, is_about_keys};
use crate::map::BatchNode;
use crate::plan::Lock;
use crate::plan::batch::{self, Batch};
use crate::plan::claim::{self, Taking};
use crate::plan::report;
use crate::queue::Queue;
use crate::states::{BatchState, Who};

/// The right to work on a batch. There is at most one commit of it under way.
#[derive(Debug)]
pub struct BatchLease {
    pub(crate) batch: Batch,
    pub(crate) token: Token,
    /// Collections whose hold keeps it from being expanded; that of its submission, if nobody has named others.
    pub(crate) collections: Vec<String>,
    /// What became of its jobs, if it was read and rests on nothing that can change: its next report says so.
    pub(crate) reported: Option<Box<Reported>>,
}

impl BatchLease {
    pub fn bid(&self) -> Bid {
        self.batch.bid
    }

    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Notes what is not kept of what was submitted, a line each: it is written with the next commit of the batch, and told
    /// in its report. None: nothing is.
    pub fn note_not_kept(&mut self, mut lines: Vec<String>) {
        let more = lines.len().saturating_sub(MAX_NOT_KEPT);
        lines.truncate(MAX_NOT_KEPT);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        let other = &mut self.batch.status.other;
        match lines[..] {
            [] => drop(other.remove(NOT_KEPT)),
            _ => drop(other.insert(NOT_KEPT.to_owned(), lines.into())),
        }
    }
}

/// In a batch's status, and in its report: what is not kept of what was submitted, a list of lines.
pub(super) const NOT_KEPT: &str = "not_kept";
/// So many lines of that are kept.
const MAX_NOT_KEPT: usize = 50;

impl Queue {
    /// Takes a batch to work on it. Its lists are made if another writer has left them out.
    pub async fn acquire_batch(&self, bid: Bid, holder: &str) -> Result<BatchLease> {
        let found = self.batch(bid).await?;
        if self.exists(BatchNode::Deleting.of(bid)).await?.is_some() {
            return Err(Error::Deleting(bid));
        }
        let more = match self.exists(BatchNode::States.of(bid)).await? {
            Some(_) => Vec::new(),
            None => batch::lists(bid),
        };
        let scene = self.scene();
        let Taking { claim, mark, after } = claim::batch(&found, more, &self.taker(holder), &scene);
        let lock = claim.lock.clone();
        let commit = async |ops| commit_alone(&self.session, Unit::new(ops, mark)).await;
        match self.locks.acquire_by(claim, commit).await {
            Ok(token) => Ok(BatchLease { batch: after, token, collections: Vec::new(), reported: None }),
            Err(error) if error.kind() == Kind::NodeExists && error.path().is_none_or(|at| at == lock) => {
                Err(self.busy(bid.to_string(), &lock).await?)
            }
            Err(error) => Err(misfit(bid, error)),
        }
    }

    pub async fn release_batch(&self, lease: &mut BatchLease) -> Result<()> {
        match self.locks.release(&lease.token, None).await? {
            Released::Now => Ok(()),
            Released::Before => Err(Error::lost(lease.bid(), "its status has moved on")),
        }
    }

    /// Says something about a batch that stays as it is, and keeps its lock.
    pub async fn note_batch(&self, lease: &mut BatchLease, message: &str) -> Result<()> {
        let to = lease.batch.state();
        let plan = batch::set(&lease.batch, to, message, Lock::Keep, &[], &self.scene());
        self.commit_batch(lease, plan, Lock::Keep).await
    }

    /// A batch that cannot be expanded: the depositor is told. That is owed from here on: its report is in
    /// the outbox.
    pub async fn fail_batch(&self, lease: &mut BatchLease, message: &str) -> Result<()> {
        let batch = lease.batch.clone();
        self.fail_as(lease, &batch, Who::Queue, message).await
    }

    /// A batch that was to be expanded before this date, and was not: as [`Queue::fail_batch`]. It leaves the
    /// tree by itself, as a completed one does.
    pub async fn expire_batch(&self, lease: &mut BatchLease, date: Date) -> Result<()> {
        let mut batch = lease.batch.clone();
        batch.status.other.insert(EXPIRED.into(), date.to_string().into());
        let message = format!("expired: it was to be begun before {date}, and was {} then", batch.state());
        self.fail_as(lease, &batch, Who::Timekeeper, &message).await
    }

    async fn fail_as(&self, lease: &mut BatchLease, batch: &Batch, by: Who, message: &str) -> Result<()> {
        let (to, scene) = (BatchState::Failed, self.scene());
        loop {
            let mut more = vec![report::first(lease.bid(), &scene)];
            more.extend(self.key_ops(batch, KeyMove::Ends, &scene).await?);
            let plan = batch::advance(batch, to, by, message, Lock::GiveBack, &more, &scene)
                .map_err(|refused| Error::refused(lease.bid(), refused))?;
            match self.commit_batch(lease, plan, Lock::GiveBack).await {
                Err(Error::Store(error)) if is_about_keys(&error) => {}
                answer => return answer,
            }
        }
    }

    /// Commits a plan of a batch that is leased, and takes over what it leads to.
    pub(crate) async fn commit_batch(
        &self,
        lease: &mut BatchLease,
        plan: crate::plan::Plan<Batch>,
        lock: Lock,
    ) -> Result<()> {
        // A commit that gives the lock back leaves the token behind.
        if lease.token.version() != lease.batch.version {
            return Err(Error::lost(lease.bid(), "it was given back"));
        }
        commit_alone(&self.session, plan.unit()).await.map_err(|error| misfit(lease.bid(), error))?;
        lease.batch = plan.after;
        if lock == Lock::Keep {
            lease.token = self.locks.kept(&lease.token, lease.batch.version);
        } else {
            self.locks.gone(&lease.token);
        }
        Ok(())
    }
}

/// What the refusal of a commit on a batch means.
pub(crate) fn misfit(bid: Bid, error: ingest_store::Error) -> Error {
    let at_fence = error.path().is_some_and(|at| at == BatchNode::Status.of(bid));
    match error.kind() {
        Kind::BadVersion if at_fence => Error::lost(bid, "its status has moved on"),
        Kind::NoNode if at_fence => Error::lost(bid, "it was deleted"),
        _ => error.into(),
    }
}
