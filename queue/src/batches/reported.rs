//! The jobs of a batch, and what became of each: by their statuses, in one pass.
//!
//! The pass proves that a batch has ended and collects what its report says. Which jobs a batch has, its expansion tells by their
//! numbers; if it does not (too many runs, jobs made by an older version), its lists do. A status tells where a job is. Refs
//! are hints, because a writer of another kind moves them one by one, and may die in between.
//!
//! | a job | counts as |
//! |---|---|
//! | whose status is completed, failed or deleted | what its status says |
//! | that is gone | deleted: ids are never used again. What `batch-deleted` says of it is reported |
//! | whose status says anything else, cannot be read or is missing | not ended |
//!
//! Completed and deleted are final. A failed job can be requeued, so the versions of those statuses are kept as the fence
//! of whatever rests on the pass.
//!
//! **When things break.** If the lists name more or fewer jobs than the expansion says, what they name is looked at, too; if the
//! numbers are not known and the lists name too few, the missing ones are looked for below `/jobs`. A node of a job that cannot
//! be read, other than its status, is left out of the report.

use std::collections::HashSet;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::{Op, Stat};

use crate::error::Result;
use crate::ids::{Bid, Jid};
use crate::map::{self, JobNode};
use crate::nodes::{
    Configuration, Identifiers, JobStatus, Metadata, Node, Other, ReportedJob, Rows, read_id,
};
use crate::plan::job::NOTE;
use crate::queue::Queue;
use crate::reads;
use crate::states::BatchList;

/// Jobs read by one request, and requests at a time.
const TOGETHER: usize = 8;
const AT_ONCE: usize = 16;
/// Nodes that are asked for one thing each, by one request.
const NODES_TOGETHER: usize = 256;
/// What is read of each job.
const NODES: [JobNode; 4] =
    [JobNode::Status, JobNode::Identifiers, JobNode::Configuration, JobNode::Metadata];
/// So many failed jobs are checked with the commit that rests on a pass. Each takes about 50 bytes of its request.
const MAX_FENCED: usize = 4_000;

/// Jobs by what became of them, each in the order of the ids.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reported {
    pub(super) failed: Rows,
    pub(super) successful: Rows,
    pub(super) deleted: Rows,
    /// Of the last two, so that nobody has to unpack them.
    pub(super) successful_jids: Vec<Jid>,
    pub(super) deleted_jids: Vec<Jid>,
    /// How many of the deleted ones were not begun in time.
    pub(super) expired: usize,
    /// The versions of the statuses of failed jobs, [`MAX_FENCED`] at the most.
    fence: Vec<(Jid, i32)>,
}

impl Reported {
    fn push(&mut self, list: BatchList, job: &ReportedJob) {
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
            BatchList::Processing => {}
        }
    }

    /// What a commit checks that rests on this: that no failed job was touched since.
    pub(super) fn fence(&self) -> impl Iterator<Item = Op> + '_ {
        self.fence.iter().map(|(jid, version)| Op::check(JobNode::Status.of(*jid), *version))
    }

    /// Whether that is all of them. If it is not, the pass is made again after the commit.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.len() == self.failed.len()
    }
}

/// A job that has not ended: its batch waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unended {
    pub jid: Jid,
    /// Of its status as it was read; `None`: it is missing.
    pub version: Option<i32>,
    /// It has ended, and whoever moves it still holds its lock.
    pub is_locked: bool,
    /// For people.
    pub why: String,
}

/// A job that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) list: BatchList,
    /// Of its status; `None`: it is gone.
    pub(super) version: Option<i32>,
}

/// Where a job is, by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// With the version of its status, if it has one.
    In(BatchList, Option<i32>),
    Gone,
    Unreadable(Option<i32>),
}

impl Queue {
    /// What became of each job of a batch, or one that has not ended. `told` hears of every few jobs that were read.
    pub(super) async fn reported(
        &self,
        bid: Bid,
        told: &(dyn Fn(usize) + Sync),
    ) -> Result<Result<Reported, Unended>> {
        let jids = self.jobs_of(bid).await?;
        let mut found = Reported::default();
        let mut read = stream::iter(chunks(&jids)).map(|jids| self.placed(bid, jids)).buffered(AT_ONCE);
        while let Some(placed) = read.try_next().await? {
            told(placed.len());
            for (place, job) in placed {
                match place {
                    Place::In(list, version) if list != BatchList::Processing => {
                        if let (BatchList::Failed, Some(version)) = (list, version)
                            && found.fence.len() < MAX_FENCED
                        {
                            found.fence.push((job.jid, version));
                        }
                        found.push(list, &job);
                    }
                    _ => return Ok(Err(unended(job.jid, place))),
                }
            }
        }
        Ok(Ok(found))
    }

    /// Whether a job has not ended, by its status.
    pub(super) async fn unended(&self, jid: Jid) -> Result<Option<Unended>> {
        Ok(self.statuses(&[jid]).await?.pop().and_then(Result::err))
    }

    /// The same of several jobs, and where those are that have ended.
    pub(super) async fn statuses(&self, jids: &[Jid]) -> Result<Vec<Result<Placed, Unended>>> {
        let paths = jids.iter().flat_map(|jid| [JobNode::Status.of(*jid), map::job(*jid)]).collect();
        let found = reads::get_many(&self.session, paths).await?;
        Ok(jids.iter().zip(found.chunks(2)).map(|(jid, found)| standing(*jid, found)).collect())
    }

    /// How many names each list of a batch has, in the order of [`BatchList::ALL`]; as of one moment.
    pub(crate) async fn list_sizes(&self, bid: Bid) -> Result<[usize; 4]> {
        let lists = BatchList::ALL.map(|list| map::batch_list(bid, list));
        let found = reads::get_many(&self.session, lists.into()).await?;
        let mut sizes = [0; 4];
        for (size, found) in sizes.iter_mut().zip(found) {
            *size = found.map_or(0, |(_, stat)| usize::try_from(stat.num_children).unwrap_or(0));
        }
        Ok(sizes)
    }

    /// The jobs of a batch, in the order of their ids.
    async fn jobs_of(&self, bid: Bid) -> Result<Vec<Jid>> {
        let expansion = self.expansion(bid).await?.unwrap_or_default();
        let numbers = expansion.numbers;
        let is_known = numbers.is_sound() && !numbers.is_empty() && numbers.count() == expansion.next;
        let mut jids: Vec<Jid> = if is_known { numbers.jids().collect() } else { Vec::new() };
        if is_known && self.list_sizes(bid).await?.iter().sum::<usize>() == jids.len() {
            return Ok(jids);
        }
        let known: HashSet<Jid> = jids.iter().copied().collect();
        let mut listed = HashSet::new();
        for list in BatchList::ALL {
            let names = crate::list::names_in(&self.session, &map::batch_list(bid, list)).await?;
            listed.extend(names.iter().filter_map(|name| name.parse::<Jid>().ok()));
        }
        listed.retain(|jid| !known.contains(jid));
        // A list can name a job of another batch; one that is gone does not say.
        let listed: Vec<Jid> = listed.into_iter().collect();
        jids.extend(self.belonging(bid, &listed, true).await?);
        let missing = expansion.next.saturating_sub(jids.len() as u64);
        if missing > 0 && expansion.done {
            let known: HashSet<Jid> = jids.iter().copied().collect();
            let names = self.children(map::JOBS).await?;
            let others = names.iter().filter_map(|name| name.parse::<Jid>().ok());
            let others: Vec<Jid> = others.filter(|jid| !known.contains(jid)).collect();
            let found = self.belonging(bid, &others, false).await?;
            tracing::warn!(batch = %bid, missing, found = found.len(), "its lists do not name all its jobs");
            jids.extend(found);
        }
        jids.sort_unstable();
        Ok(jids)
    }

    /// Those of the jobs that say that they are of this batch; with `or_gone` also those that are not there.
    async fn belonging(&self, bid: Bid, jids: &[Jid], or_gone: bool) -> Result<Vec<Jid>> {
        let mut found = Vec::new();
        for jids in jids.chunks(NODES_TOGETHER) {
            let paths = jids.iter().map(|jid| JobNode::Bid.of(*jid)).collect();
            let read = reads::get_many(&self.session, paths).await?;
            let is_of_it = |said: &Option<(Bytes, Stat)>| match said {
                // One that cannot be read may be.
                Some((data, _)) => read_id::<Bid>(data).map_or(or_gone, |said| said == bid),
                None => or_gone,
            };
            found.extend(jids.iter().zip(&read).filter(|(_, said)| is_of_it(said)).map(|(jid, _)| *jid));
        }
        Ok(found)
    }

    /// The jobs with their places. What the batch itself says of one that is gone is taken over.
    async fn placed(&self, bid: Bid, jids: Vec<Jid>) -> Result<Vec<(Place, ReportedJob)>> {
        let mut read = self.read_for_report(jids).await?;
        let gone: Vec<_> = read.iter_mut().filter(|(place, _)| *place == Place::Gone).collect();
        if gone.is_empty() {
            return Ok(read);
        }
        let mut paths = Vec::new();
        for (_, job) in &gone {
            paths.extend([map::job(job.jid), map::batch_ref(bid, BatchList::Deleted, job.jid)]);
        }
        let found = reads::get_many(&self.session, paths).await?;
        for ((place, job), found) in gone.into_iter().zip(found.chunks(2)) {
            match found {
                // It is there, and has no status.
                [Some(_), _] => *place = Place::Unreadable(None),
                [None, said] => {
                    *place = Place::In(BatchList::Deleted, None);
                    if let Some((said, _)) = said {
                        remembered(job, said);
                    }
                }
                _ => {}
            }
        }
        Ok(read)
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

/// Whether a job has ended, by its status and its directory.
fn standing(jid: Jid, found: &[Option<(Bytes, Stat)>]) -> Result<Placed, Unended> {
    let place = match found {
        [Some((data, stat)), ..] => match JobStatus::read(data) {
            Ok(status) => Place::In(status.status.list(), Some(stat.version)),
            Err(_) => Place::Unreadable(Some(stat.version)),
        },
        [None, None] => Place::In(BatchList::Deleted, None),
        _ => Place::Unreadable(None),
    };
    match place {
        Place::In(list, version) if list != BatchList::Processing => Ok(Placed { list, version }),
        place => Err(unended(jid, place)),
    }
}

fn unended(jid: Jid, place: Place) -> Unended {
    let (version, why) = match place {
        Place::In(_, version) => (version, format!("{jid} is under way")),
        Place::Unreadable(Some(version)) => {
            (Some(version), format!("the status of {jid} cannot be read; see `ingestd fsck`"))
        }
        Place::Unreadable(None) | Place::Gone => {
            (None, format!("the status of {jid} is missing; see `ingestd fsck`"))
        }
    };
    Unended { jid, version, is_locked: false, why }
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
fn chunks(jids: &[Jid]) -> impl Iterator<Item = Vec<Jid>> {
    jids.chunks(TOGETHER).map(<[Jid]>::to_vec)
}

/// What a report says of a job, and where it is.
fn told(jid: Jid, nodes: &[Option<(Bytes, Stat)>]) -> (Place, ReportedJob) {
    let status: Option<JobStatus> = readable(jid, nodes, JobNode::Status);
    let version = found(nodes, JobNode::Status).map(|(_, stat)| stat.version);
    let place = match (&status, version) {
        (Some(status), _) => Place::In(status.status.list(), version),
        (None, None) => Place::Gone,
        (None, Some(_)) => Place::Unreadable(version),
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

fn found(nodes: &[Option<(Bytes, Stat)>], node: JobNode) -> Option<&(Bytes, Stat)> {
    let at = NODES.iter().position(|known| *known == node)?;
    nodes.get(at)?.as_ref()
}

fn readable<N: Node>(jid: Jid, nodes: &[Option<(Bytes, Stat)>], node: JobNode) -> Option<N> {
    match N::read(&found(nodes, node)?.0) {
        Ok(read) => Some(read),
        Err(why) => {
            tracing::warn!(path = node.of(jid), %why, "a report leaves out what cannot be read");
            None
        }
    }
}
