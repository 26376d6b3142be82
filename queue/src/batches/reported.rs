//! The jobs that a report names, and what became of each.
//!
//! The expansion of a batch tells the numbers of its jobs, and the status of a job in which list it is: with both
//! nothing is listed. A job that is gone must be among the deleted ones.
//!
//! **When things break.** What was found by the numbers must be as many jobs as each list has. If it is not, if a
//! status cannot be read or says that the job has not ended, or if the numbers are not known (too many runs, another
//! dialect, jobs made by an older version), the lists are read, and they count. A job that is gone, or a node that
//! cannot be read, is named all the same.

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::Stat;

use crate::dialect::Dialect;
use crate::error::Result;
use crate::ids::{Bid, Jid};
use crate::map::{self, JobNode};
use crate::nodes::{Configuration, Identifiers, JobStatus, Metadata, Node, Other, ReportedJob, Rows};
use crate::plan::job::NOTE;
use crate::queue::Queue;
use crate::reads;
use crate::states::BatchList;

/// Jobs read by one request, and requests at a time.
const TOGETHER: usize = 8;
const AT_ONCE: usize = 16;
/// What is read of each job.
const NODES: [JobNode; 4] =
    [JobNode::Status, JobNode::Identifiers, JobNode::Configuration, JobNode::Metadata];
/// The lists that a report is about.
const LISTS: [BatchList; 3] = [BatchList::Failed, BatchList::Completed, BatchList::Deleted];

/// Jobs by what became of them, each in the order of the ids.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reported {
    pub(super) failed: Rows,
    pub(super) successful: Rows,
    pub(super) deleted: Rows,
    /// Of the last two, so that nobody has to unpack them.
    pub(super) successful_jids: Vec<Jid>,
    pub(super) deleted_jids: Vec<Jid>,
    /// How many of the deleted ones were not begun in time.
    pub(super) expired: usize,
}

impl Reported {
    /// `false`: no report has a place for it.
    fn push(&mut self, list: BatchList, job: &ReportedJob) -> bool {
        match list {
            BatchList::Failed => self.failed.push(job),
            BatchList::Completed => {
                self.successful.push(job);
                self.successful_jids.push(job.jid);
            }
            BatchList::Deleted => {
                self.deleted.push(job);
                self.deleted_jids.push(job.jid);
                self.expired += usize::from(job.expired().is_some());
            }
            BatchList::Processing => return false,
        }
        true
    }

    fn counts(&self) -> [usize; 3] {
        [self.failed.len(), self.successful.len(), self.deleted.len()]
    }
}

/// Where a job is, by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    In(BatchList),
    Gone,
    Unreadable,
}

impl Queue {
    /// `told` hears of every few jobs that were read.
    pub(super) async fn reported(&self, bid: Bid, told: &(dyn Fn(usize) + Sync)) -> Result<Reported> {
        match self.by_numbers(bid, told).await? {
            Some(found) => Ok(found),
            None => self.by_lists(bid, told).await,
        }
    }

    /// `None`: the lists have to be read.
    async fn by_numbers(&self, bid: Bid, told: &(dyn Fn(usize) + Sync)) -> Result<Option<Reported>> {
        if self.dialect() != Dialect::Design {
            return Ok(None);
        }
        let Some(counts) = self.counts(bid).await? else { return Ok(None) };
        let count: usize = counts.iter().sum();
        if count == 0 {
            return Ok(Some(Reported::default()));
        }
        let Some(expansion) = self.expansion(bid).await? else { return Ok(None) };
        let numbers = expansion.numbers;
        if !numbers.is_sound() || numbers.count() != count as u64 {
            return Ok(None);
        }
        let jids: Vec<Jid> = numbers.jids().collect();
        let mut found = Reported::default();
        let mut read = stream::iter(chunks(&jids)).map(|jids| self.placed(bid, jids)).buffered(AT_ONCE);
        while let Some(placed) = read.try_next().await? {
            told(placed.len());
            for (place, job) in placed {
                let Place::In(list) = place else { return Ok(None) };
                if !found.push(list, &job) {
                    return Ok(None);
                }
            }
        }
        Ok((found.counts() == counts).then_some(found))
    }

    /// How many names each list has. `None`: one is missing.
    async fn counts(&self, bid: Bid) -> Result<Option<[usize; 3]>> {
        let mut counts = [0; 3];
        for (count, list) in counts.iter_mut().zip(LISTS) {
            let Some(stat) = self.exists(map::batch_list(bid, list)).await? else { return Ok(None) };
            *count = usize::try_from(stat.num_children).unwrap_or(0);
        }
        Ok(Some(counts))
    }

    /// The jobs with their places. One that is gone is looked for among the deleted ones.
    async fn placed(&self, bid: Bid, jids: Vec<Jid>) -> Result<Vec<(Place, ReportedJob)>> {
        let mut read = self.read_for_report(jids).await?;
        let gone: Vec<_> = read.iter_mut().filter(|(place, _)| *place == Place::Gone).collect();
        let refs = gone.iter().map(|(_, job)| map::batch_ref(bid, BatchList::Deleted, job.jid)).collect();
        let found = reads::get_many(&self.session, refs).await?;
        for ((place, job), found) in gone.into_iter().zip(found) {
            if let Some((said, _)) = found {
                *place = Place::In(BatchList::Deleted);
                remembered(job, &said);
            }
        }
        Ok(read)
    }

    /// The same for jobs of which the list says that they are gone.
    async fn gone(&self, bid: Bid, jids: Vec<Jid>) -> Result<Vec<(Place, ReportedJob)>> {
        let refs = jids.iter().map(|jid| map::batch_ref(bid, BatchList::Deleted, *jid)).collect();
        let mut read = self.read_for_report(jids).await?;
        let found = reads::get_many(&self.session, refs).await?;
        for ((_, job), found) in read.iter_mut().zip(found) {
            if let Some((said, _)) = found {
                remembered(job, &said);
            }
        }
        Ok(read)
    }

    async fn by_lists(&self, bid: Bid, told: &(dyn Fn(usize) + Sync)) -> Result<Reported> {
        let mut reported = Reported::default();
        for list in LISTS {
            let names = self.children(map::batch_list(bid, list)).await?;
            let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
            jids.sort_unstable();
            let look = async |jids| match list {
                BatchList::Deleted => self.gone(bid, jids).await,
                _ => self.read_for_report(jids).await,
            };
            let mut read = stream::iter(chunks(&jids)).map(look).buffered(AT_ONCE);
            while let Some(placed) = read.try_next().await? {
                told(placed.len());
                for (_, job) in placed {
                    reported.push(list, &job);
                }
            }
        }
        Ok(reported)
    }

    /// What a report says of a job as it is now.
    pub(crate) async fn reported_job(&self, jid: Jid) -> Result<ReportedJob> {
        let mut read = self.read_for_report(vec![jid]).await?;
        let (_, job) = read.pop().ok_or_else(|| crate::error::Error::no_job(jid))?;
        Ok(job)
    }

    async fn read_for_report(&self, jids: Vec<Jid>) -> Result<Vec<(Place, ReportedJob)>> {
        let paths = jids.iter().flat_map(|jid| NODES.map(|node| node.of(*jid))).collect();
        let found = reads::get_many(&self.session, paths).await?;
        Ok(jids.iter().zip(found.chunks(NODES.len())).map(|(jid, nodes)| told(*jid, nodes)).collect())
    }
}

/// What the batch itself says of a job that is gone; mostly nothing.
fn remembered(job: &mut ReportedJob, said: &[u8]) {
    if let Ok(told) = ReportedJob::read(said)
        && told.jid == job.jid
    {
        *job = told;
    }
}

/// As they are read together.
fn chunks(jids: &[Jid]) -> Vec<Vec<Jid>> {
    jids.chunks(TOGETHER).map(<[Jid]>::to_vec).collect()
}

/// What a report says of a job, and where it is.
fn told(jid: Jid, nodes: &[Option<(Bytes, Stat)>]) -> (Place, ReportedJob) {
    let status: Option<JobStatus> = readable(jid, nodes, JobNode::Status);
    let place = match &status {
        Some(status) => Place::In(status.status.list()),
        None if data(nodes, JobNode::Status).is_none() => Place::Gone,
        None => Place::Unreadable,
    };
    let metadata: Metadata = readable(jid, nodes, JobNode::Metadata).unwrap_or_default();
    let configuration: Configuration = readable(jid, nodes, JobNode::Configuration).unwrap_or_default();
    let identifiers: Identifiers = readable(jid, nodes, JobNode::Identifiers).unwrap_or_default();
    let local_id =
        if identifiers.local_id.is_empty() { configuration.local_id } else { identifiers.local_id };
    let job = ReportedJob {
        jid,
        primary_id: identifiers.primary_id,
        local_id,
        payload_url: configuration.payload_url,
        payload_type: configuration.payload_type,
        erc_who: metadata.erc_who,
        erc_what: metadata.erc_what,
        erc_when: metadata.erc_when,
        message: status.map(message).unwrap_or_default(),
        other: Other::new(),
    };
    (place, job)
}

/// With what is to be told of the job whatever became of it.
fn message(status: JobStatus) -> String {
    match status.other.get(NOTE).and_then(serde_json::Value::as_str) {
        Some(note) if status.message.is_empty() => note.to_owned(),
        Some(note) => format!("{}; {note}", status.message),
        None => status.message,
    }
}

fn data(nodes: &[Option<(Bytes, Stat)>], node: JobNode) -> Option<&Bytes> {
    let at = NODES.iter().position(|known| *known == node)?;
    nodes.get(at)?.as_ref().map(|(data, _)| data)
}

fn readable<N: Node>(jid: Jid, nodes: &[Option<(Bytes, Stat)>], node: JobNode) -> Option<N> {
    match N::read(data(nodes, node)?) {
        Ok(read) => Some(read),
        Err(why) => {
            tracing::warn!(path = node.of(jid), %why, "a report leaves out what cannot be read");
            None
        }
    }
}
