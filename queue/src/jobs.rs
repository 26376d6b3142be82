//! What can be done with jobs: acquire, move on, give back, write; and what a person, the queue, the
//! timekeeper or the janitor does to them.
//!
//! **When things break.** Whoever holds a [`Lease`] commits at its token. If the job was given to another,
//! taken away or deleted, the commit is refused as [`Error::Lost`] and changes nothing. A lost answer is
//! settled before the call returns, as long as the session lives.

mod actions;
mod known;
mod lease;
mod refs;
mod writes;

use futures::try_join;

pub use actions::{Acted, signed};
pub(crate) use known::Known;
pub use lease::Lease;
pub(crate) use lease::is_about_holds;
pub use writes::Write;

use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::map::{JobNode, Priority};
use crate::nodes::{Configuration, History, JobStatus, Node, Number, Unreadable, read_id};
use crate::plan::job::Job;
use crate::queue::Queue;

impl Queue {
    /// A job with what plans need of it. The status comes first: whatever is read after it is as old
    /// as the fence or newer, and a plan on the old fence is refused.
    pub async fn job(&self, jid: Jid) -> Result<Job> {
        let (status, stat) = self.job_status(jid).await?;
        let (bid, priority, history) = try_join!(self.bid(jid), self.priority(jid), self.history(jid))?;
        Ok(Job { jid, bid, priority, status, version: stat.version, history })
    }

    pub async fn job_status(&self, jid: Jid) -> Result<(JobStatus, ingest_store::Stat)> {
        self.read(JobNode::Status.of(jid), || Error::no_job(jid)).await
    }

    pub async fn configuration(&self, jid: Jid) -> Result<Configuration> {
        Ok(self.read(JobNode::Configuration.of(jid), || Error::no_job(jid)).await?.0)
    }

    pub async fn history(&self, jid: Jid) -> Result<Option<History>> {
        Ok(self.find(JobNode::History.of(jid)).await?.map(|(history, _)| history))
    }

    /// Any node of a job that may be missing.
    pub async fn node<N: Node>(&self, jid: Jid, node: JobNode) -> Result<Option<N>> {
        Ok(self.find(node.of(jid)).await?.map(|(node, _)| node))
    }

    pub(crate) async fn bid(&self, jid: Jid) -> Result<Bid> {
        match self.find::<BatchId>(JobNode::Bid.of(jid)).await? {
            Some((BatchId(bid), _)) => Ok(bid),
            // Deleted since its status was read.
            None if self.exists(JobNode::Status.of(jid)).await?.is_none() => Err(Error::no_job(jid)),
            None => Err(Error::corrupt(JobNode::Bid.of(jid), "it is missing")),
        }
    }

    async fn priority(&self, jid: Jid) -> Result<Priority> {
        let found = self.find::<Number>(JobNode::Priority.of(jid)).await?;
        Ok(found.map_or(Priority::DEFAULT, |(Number(number), _)| Priority::nearest(number)))
    }
}

/// `/jobs/JID/bid`: plain text.
struct BatchId(Bid);

impl Node for BatchId {
    fn read(data: &[u8]) -> Result<Self, Unreadable> {
        read_id(data).map(Self)
    }

    fn write(&self, _: crate::dialect::Dialect) -> bytes::Bytes {
        self.0.to_string().into()
    }
}
