//! The jobs that wait for room, as their nodes say.

use std::collections::HashSet;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_queue::date::Date;
use ingest_queue::error::Error;
use ingest_queue::ids::Jid;
use ingest_queue::map::{JobNode, QueueRef};
use ingest_queue::nodes::{History, JobStatus, Node as _, Number, Work};
use ingest_queue::states::JobState;
use ingest_store::recipes::settle;

use super::Run;
use super::books::{JOBS_A_READ, READS};
use super::ledger::Ledger;
use crate::outcome::Result;
use crate::provision::Waiting;

/// A job that waits, and what it wants.
#[derive(Debug)]
pub(super) struct Wanting {
    pub(super) entry: QueueRef,
    pub(super) asks: Waiting,
    /// What an earlier admission has left, if it can be read.
    pub(super) work: Option<Work>,
    pub(super) has_work: bool,
}

const NODES: [JobNode; 4] = [JobNode::Status, JobNode::SpaceNeeded, JobNode::History, JobNode::Work];

/// What a job asks for, as long as it waits.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    needs: u64,
    since: Option<Date>,
    work: Option<Work>,
    has_work: bool,
}

impl Asked {
    fn wanting(&self, entry: QueueRef, now: Date) -> Wanting {
        let waited = self.since.map_or(std::time::Duration::ZERO, |since| since.until(now));
        let asks = Waiting { jid: entry.jid, needs: self.needs, waited };
        Wanting { entry, asks, work: self.work.clone(), has_work: self.has_work }
    }
}

/// Those that wait, in their order; what is not known of them is read. One that waits no more, or cannot be
/// read, goes to `skipped`.
pub(super) async fn read(
    run: &Run<'_>,
    waiting: &[QueueRef],
    ledger: &mut Ledger,
    skipped: &mut Vec<(Jid, String)>,
) -> Result<Vec<Wanting>> {
    let here: HashSet<QueueRef> = waiting.iter().copied().collect();
    ledger.asked.retain(|entry, _| here.contains(entry));
    let new: Vec<QueueRef> =
        waiting.iter().copied().filter(|entry| !ledger.asked.contains_key(entry)).collect();
    let groups: Vec<Vec<QueueRef>> = new.chunks(JOBS_A_READ).map(<[QueueRef]>::to_vec).collect();
    let mut reads = stream::iter(groups).map(|group| read_group(run, group)).buffered(READS);
    while let Some(group) = reads.try_next().await? {
        for (entry, answer) in group {
            match answer {
                Ok(asked) => {
                    ledger.asked.insert(entry, asked);
                }
                Err(why) => skipped.push((entry.jid, why)),
            }
        }
        run.progress.beat();
        run.go_on()?;
    }
    let now = run.queue.now();
    let asked = |entry: &QueueRef| ledger.asked.get(entry).map(|asked| asked.wanting(*entry, now));
    Ok(waiting.iter().filter_map(asked).collect())
}

type Answer = std::result::Result<Asked, String>;

async fn read_group(run: &Run<'_>, group: Vec<QueueRef>) -> Result<Vec<(QueueRef, Answer)>> {
    let paths = group.iter().flat_map(|entry| NODES.map(|node| node.of(entry.jid))).collect();
    let found = get_many(run, paths).await?;
    Ok(group.into_iter().zip(found.chunks(NODES.len())).map(|(entry, nodes)| (entry, asked(nodes))).collect())
}

pub(super) async fn get_many(run: &Run<'_>, paths: Vec<String>) -> Result<Vec<Option<Bytes>>> {
    let session = run.queue.session();
    let found = settle(session, || session.get_many(paths.clone())).await.answer.map_err(Error::from)?;
    Ok(found.into_iter().map(|found| found.map(|(data, _)| data)).collect())
}

fn asked(nodes: &[Option<Bytes>]) -> Answer {
    let [Some(status), needs, history, work] = nodes else { return Err("it is gone".into()) };
    let status = JobStatus::read(status).map_err(|why| format!("its status cannot be read: {why}"))?;
    if status.status != JobState::Provisioning {
        return Err(format!("it is {} by now", status.status));
    }
    // A size that cannot be read is one that nobody knows.
    let needs = needs.as_ref().and_then(|data| Number::read(data).ok()).map_or(0, |Number(bytes)| bytes);
    let history = history.as_ref().and_then(|data| History::read(data).ok());
    let since = since(&status, history.as_ref());
    let has_work = work.is_some();
    let work = work.as_ref().and_then(|data| Work::read(data).ok());
    Ok(Asked { needs: u64::try_from(needs).unwrap_or(0), since, work, has_work })
}

/// Since when it waits for room: when it came, not when somebody changed its priority.
fn since(status: &JobStatus, history: Option<&History>) -> Option<Date> {
    let here = JobState::Provisioning;
    let came = history.and_then(|history| {
        history.entries.iter().rev().find(|entry| entry.to == here && entry.from != Some(here))
    });
    came.map(|entry| entry.at).or(status.last_modification_date)
}

#[cfg(test)]
mod tests {
    use ingest_queue::nodes::{Entry, Other};

    use super::*;

    fn entry(at: i64, from: JobState, to: JobState) -> Entry {
        let (node, commit, message) = (String::new(), String::new(), String::new());
        let (at, from) = (Date::from_millis(at), Some(from));
        Entry { at, from, to, node, attempt: 0, commit, message, other: Other::new() }
    }

    #[test]
    fn a_job_waits_since_it_came_the_last_time() {
        use JobState::{Downloading, Estimating, Failed, Provisioning};
        let status = JobStatus::new(Provisioning, Date::from_millis(9_000));
        let entries = vec![
            entry(1, Estimating, Provisioning),
            entry(2, Provisioning, Downloading),
            entry(3, Failed, Provisioning),
            // Another priority.
            entry(4, Provisioning, Provisioning),
        ];
        assert_eq!(since(&status, Some(&History { entries })), Some(Date::from_millis(3)));
        assert_eq!(since(&status, None), Some(Date::from_millis(9_000)));
    }
}
