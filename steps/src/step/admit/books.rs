//! What is promised on this file system: `/space/FSID`, and the jobs that were admitted.

use std::collections::HashMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, JobNode};
use ingest_queue::nodes::{Node, Other, Work, read_id};
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_store::recipes::settle;
use ingest_store::{Op, path};
use serde::{Deserialize, Serialize};

use super::Run;
use super::ledger::{Admitted, Kept, Ledger};
use crate::outcome::Result;
use crate::provision::size_below;
use crate::services::blocking;

/// Jobs that are read with one request, and requests at a time.
pub(super) const JOBS_A_READ: usize = 32;
pub(super) const READS: usize = 4;

/// `/space/FSID`: what was reserved when the last job was admitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reserved {
    /// Bytes that all admitted jobs were promised, written or not.
    pub reserved: u64,
    pub jobs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Date>,
    #[serde(flatten)]
    pub other: Other,
}

impl ingest_queue::nodes::Json for Reserved {}

impl Reserved {
    /// `/space/FSID`.
    pub fn path(file_system: &str) -> String {
        path::join(map::SPACE, file_system)
    }
}

/// What the next admission is written on.
pub(super) struct Books {
    path: String,
    /// Of `/space/FSID`; `None`: it has to be made.
    pub(super) version: Option<i32>,
    sum: Reserved,
    /// Bytes that were promised and are not on the disk yet.
    pub(super) promised: u64,
}

impl Books {
    pub(super) async fn read(run: &Run<'_>, ledger: &mut Ledger) -> Result<Self> {
        let path = Reserved::path(run.services.work.file_system());
        if let Some(kept) = &ledger.kept {
            let session = run.queue.session();
            let found = settle(session, || session.exists(path.as_str())).await.answer;
            // An old answer is no harm: nothing is admitted at an old version.
            if found.map_err(Error::from)?.map(|stat| stat.version) != kept.version {
                ledger.kept = None;
            }
        }
        let kept = match ledger.kept.take() {
            Some(kept) => kept,
            None => Kept { version: version_of(run.queue, &path).await?, jobs: admitted(run).await? },
        };
        let mut sum = Reserved { jobs: kept.jobs.len() as u64, ..Reserved::default() };
        sum.reserved = kept.jobs.values().fold(0, |sum, job| sum.saturating_add(job.reserved));
        let version = kept.version;
        let measured: Vec<_> = kept.jobs.iter().map(|(jid, job)| (*jid, *job)).collect();
        ledger.kept = Some(kept);
        let promised = unwritten(run, measured).await?;
        Ok(Self { path, version, sum, promised })
    }

    /// The operation that goes along with the admission of a job that needs so much; the next one's stands
    /// on it.
    pub(super) fn promise(&mut self, needs: u64, queue: &Queue) -> Op {
        self.sum.reserved = self.sum.reserved.saturating_add(needs);
        self.sum.jobs += 1;
        self.sum.at = Some(queue.now());
        let data = self.sum.write(Dialect::Design);
        match self.version {
            None => {
                self.version = Some(0);
                Op::create(self.path.as_str(), data)
            }
            Some(version) => {
                self.version = Some(version.wrapping_add(1));
                Op::set(self.path.as_str(), data, version)
            }
        }
    }
}

/// The version of the books. What this session reads from now on is as new as they are, or newer.
async fn version_of(queue: &Queue, path: &str) -> Result<Option<i32>> {
    let session = queue.session();
    // Another server may have seen more than ours.
    settle(session, || session.sync()).await.answer.map_err(Error::from)?;
    let found = settle(session, || session.exists(path)).await.answer.map_err(Error::from)?;
    if found.is_none() {
        settle(session, || session.make_dirs(map::SPACE)).await.answer.map_err(Error::from)?;
    }
    Ok(found.map(|stat| stat.version))
}

/// The jobs that have room on this file system, each once.
async fn admitted(run: &Run<'_>) -> Result<HashMap<Jid, Admitted>> {
    let behind = |state: &JobState| state.is_working() && *state > JobState::Provisioning;
    let mut states: Vec<_> = JobState::queues(run.queue.dialect()).filter(behind).collect();
    states.sort_unstable();
    // In the order in which jobs go: whoever moves on meanwhile is seen twice and not missed. Back they only
    // go to downloading, which is looked at again.
    states.extend(states.first().copied());
    let mut jids = Vec::new();
    for state in states {
        jids.extend(super::listed(run.queue, state).await?.into_iter().map(|entry| entry.jid));
        run.go_on()?;
    }
    jids.sort_unstable();
    jids.dedup();
    let groups: Vec<Vec<Jid>> = jids.chunks(JOBS_A_READ).map(<[Jid]>::to_vec).collect();
    let found: Vec<Vec<(Jid, Admitted)>> =
        stream::iter(groups).map(|jids| read_admitted(run, jids)).buffered(READS).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

async fn read_admitted(run: &Run<'_>, jids: Vec<Jid>) -> Result<Vec<(Jid, Admitted)>> {
    let nodes = [JobNode::Work, JobNode::Bid];
    let paths = jids.iter().flat_map(|jid| nodes.map(|node| node.of(*jid))).collect();
    let found = super::wanting::get_many(run, paths).await?;
    let mut admitted = Vec::new();
    for (jid, nodes) in jids.iter().zip(found.chunks(nodes.len())) {
        let [Some(work), bid] = nodes else { continue };
        let work = match Work::read(work) {
            Ok(work) => work,
            Err(why) => {
                tracing::warn!(%jid, %why, "where a job's files are cannot be read, and it counts for nothing");
                continue;
            }
        };
        if work.file_system == run.services.work.file_system() {
            let bid = bid.as_ref().and_then(|data| read_id(data).ok());
            admitted.push((*jid, Admitted { bid, reserved: work.reserved }));
        }
    }
    run.progress.beat();
    Ok(admitted)
}

/// What was promised and is not on the disk. Measured before the free space is: what is written in between
/// counts twice and never not at all.
async fn unwritten(run: &Run<'_>, admitted: Vec<(Jid, Admitted)>) -> Result<u64> {
    let (work, cancel) = (run.services.work.clone(), run.cancel.clone());
    blocking("measuring what jobs have written", move || {
        let mut promised = 0_u64;
        for (jid, job) in admitted.iter().filter(|(_, job)| job.reserved > 0) {
            let written = match job.bid {
                Some(bid) => size_below(&work.job(bid, *jid), &cancel)?,
                None => 0,
            };
            promised = promised.saturating_add(job.reserved.saturating_sub(written));
        }
        Ok(promised)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_books_are_read_as_they_are_written() {
        let sum = Reserved { reserved: 10, jobs: 1, at: None, other: Other::new() };
        let written = sum.write(Dialect::Design);
        assert_eq!(written, r#"{"reserved":10,"jobs":1}"#);
        assert_eq!(Reserved::read(&written).unwrap(), sum);
        assert!(
            matches!(Op::create(Reserved::path("fs"), written), Op::Create { path, .. } if path == "/space/fs")
        );
    }
}
