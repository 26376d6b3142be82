//! What can be done with jobs: acquire, move on, give back, write; and what a person, the queue, the
//! timekeeper or the janitor does to them.
//!
//! **When things break.** Whoever holds a [`Lease`] commits at its token. If the job was given to another,
//! taken away or deleted, the commit is refused as [`Error::Lost`] and changes nothing. A lost answer is
//! settled before the call returns, as long as the session lives.

mod actions;
mod clean;
mod known;
mod lease;
mod refs;
mod writes;

use bytes::Bytes;
use ingest_store::Stat;

pub(crate) use actions::given_up;
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
        let nodes = [JobNode::Status, JobNode::Bid, JobNode::Priority, JobNode::History];
        let found = self.reads.get_many(nodes.map(|node| node.of(jid)).into()).await?;
        let [status, bid, priority, history] = found.as_slice() else {
            return Err(Error::corrupt(crate::map::job(jid), "not as many answers as questions"));
        };
        let (status, stat): (JobStatus, _) =
            parsed(jid, JobNode::Status, status.as_ref())?.ok_or_else(|| Error::no_job(jid))?;
        let bid = match parsed(jid, JobNode::Bid, bid.as_ref())? {
            Some((BatchId(bid), _)) => bid,
            // Deleted since its status was read.
            None if self.exists(JobNode::Status.of(jid)).await?.is_none() => {
                return Err(Error::no_job(jid));
            }
            None => return Err(Error::corrupt(JobNode::Bid.of(jid), "it is missing")),
        };
        let priority = parsed(jid, JobNode::Priority, priority.as_ref())?
            .map_or(Priority::DEFAULT, |(Number(number), _)| Priority::nearest(number));
        let history = parsed(jid, JobNode::History, history.as_ref())?.map(|(history, _)| history);
        Ok(Job { jid, bid, priority, status, version: stat.version, history })
    }

    pub async fn job_status(&self, jid: Jid) -> Result<(JobStatus, Stat)> {
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
}

fn parsed<N: Node>(jid: Jid, node: JobNode, found: Option<&(Bytes, Stat)>) -> Result<Option<(N, Stat)>> {
    let parse = |(data, stat): &(Bytes, Stat)| Ok((N::read(data)?, *stat));
    found.map(parse).transpose().map_err(|why: Unreadable| Error::corrupt(node.of(jid), why))
}

/// `/jobs/JID/bid`: plain text.
struct BatchId(Bid);

impl Node for BatchId {
    fn read(data: &[u8]) -> Result<Self, Unreadable> {
        read_id(data).map(Self)
    }

    fn write(&self, _: crate::dialect::Dialect) -> Bytes {
        self.0.to_string().into()
    }
}
