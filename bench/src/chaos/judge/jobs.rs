//! Every submission is accounted for: one batch, one job for each row, one state for each job, one life.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use anyhow::Result;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, JobNode, QueueRef};
use ingest_queue::nodes::{Configuration, History, JobStatus, Node as _};
use ingest_queue::states::{BatchList, JobState};

use super::super::deposit::{Fate, Row};
use super::super::kind::Kind;
use super::super::load::Made;
use super::super::witness::Outcome;
use super::super::world::World;

/// A job, as the tree has it.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) jid: Jid,
    pub(crate) bid: Option<Bid>,
    pub(crate) state: Option<JobState>,
    pub(crate) message: String,
    /// The path of its file on its server.
    pub(crate) payload: String,
    /// The queues that it is in.
    pub(crate) queues: Vec<JobState>,
    /// The lists of batches that it is in.
    pub(crate) lists: Vec<(Bid, BatchList)>,
    pub(crate) history: Option<History>,
    pub(crate) locked: bool,
}

/// All jobs of the tree.
pub(crate) async fn all(world: &World) -> Result<Vec<Job>> {
    let (names, _) = world.patiently("the jobs", || world.session().children(map::JOBS)).await?;
    let jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let queues = queues(world).await?;
    let lists = lists(world).await?;
    let read = async |node: JobNode| world.get_all(jids.iter().map(|jid| node.of(*jid)).collect()).await;
    let statuses = read(JobNode::Status).await?;
    let configurations = read(JobNode::Configuration).await?;
    let bids = read(JobNode::Bid).await?;
    let histories = read(JobNode::History).await?;
    let locks = read(JobNode::Lock).await?;
    let job = |(at, jid): (usize, &Jid)| {
        let status = statuses[at].as_ref().and_then(|data| JobStatus::read(data).ok());
        let configuration = configurations[at].as_ref().and_then(|data| Configuration::read(data).ok());
        let url = configuration.map(|configuration| configuration.payload_url).unwrap_or_default();
        let bid = bids[at].as_ref().and_then(|data| String::from_utf8_lossy(data).parse().ok());
        Job {
            jid: *jid,
            bid,
            state: status.as_ref().map(|status| status.status),
            message: status.map(|status| status.message).unwrap_or_default(),
            payload: url::Url::parse(&url).map(|url| url.path().to_owned()).unwrap_or(url),
            queues: queues.get(jid).cloned().unwrap_or_default(),
            lists: lists.get(jid).cloned().unwrap_or_default(),
            history: histories[at].as_ref().and_then(|data| History::read(data).ok()),
            locked: locks[at].is_some(),
        }
    };
    Ok(jids.iter().enumerate().map(job).collect())
}

async fn queues(world: &World) -> Result<BTreeMap<Jid, Vec<JobState>>> {
    let mut found = BTreeMap::<Jid, Vec<JobState>>::new();
    for QueueRef { state, jid, .. } in world.jobs(JobState::queues(Dialect::Design)).await? {
        found.entry(jid).or_default().push(state);
    }
    Ok(found)
}

async fn lists(world: &World) -> Result<BTreeMap<Jid, Vec<(Bid, BatchList)>>> {
    let (names, _) = world.patiently("the batches", || world.session().children(map::BATCHES)).await?;
    let mut found = BTreeMap::<Jid, Vec<(Bid, BatchList)>>::new();
    for bid in names.iter().filter_map(|name| name.parse::<Bid>().ok()) {
        for list in BatchList::ALL {
            let path = map::batch_list(bid, list);
            let (names, _) = world.patiently("a batch", || world.session().children(path.clone())).await?;
            for jid in names.iter().filter_map(|name| name.parse().ok()) {
                found.entry(jid).or_default().push((bid, list));
            }
        }
    }
    Ok(found)
}

/// The rows of all deposits, by the path of their file.
pub(crate) fn rows(made: &[Made]) -> BTreeMap<&str, &Row> {
    made.iter().flat_map(|made| &made.deposit.rows).map(|row| (row.path.as_str(), row)).collect()
}

/// The jobs that have failed although their rows have one of these fates.
pub(crate) async fn failed(world: &World, fates: &[Fate]) -> Result<Vec<Job>> {
    let made = world.ledger.made();
    let rows = rows(&made);
    let mut jobs = all(world).await?;
    jobs.retain(|job| {
        let fate = rows.get(job.payload.as_str()).map(|row| row.fate);
        job.state == Some(JobState::Failed) && fate.is_none_or(|fate| fates.contains(&fate))
    });
    Ok(jobs)
}

/// Judges all jobs and batches.
pub(crate) async fn judge(world: &World, jobs: &[Job]) -> Result<()> {
    let made = world.ledger.made();
    each_submission_once(world, &made, jobs).await?;
    let rows = rows(&made);
    for job in jobs {
        for wrong in wrongs(job, rows.get(job.payload.as_str()).copied(), world.ledger.is_spoilt(job.jid)) {
            world.book.breach(format!("{}: {wrong}", job.jid));
        }
    }
    Ok(())
}

async fn each_submission_once(world: &World, made: &[Made], jobs: &[Job]) -> Result<()> {
    let (names, _) = world.patiently("the batches", || world.session().children(map::BATCHES)).await?;
    let there: BTreeSet<Bid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let wanted: BTreeSet<Bid> = made.iter().map(|made| made.bid).collect();
    for bid in there.difference(&wanted) {
        world.book.breach(format!("{bid} was submitted by nobody"));
    }
    for made in made {
        let path = map::batch_uuid(&made.deposit.uuid);
        let found = world.get_all(vec![path]).await?.remove(0);
        if found.as_deref() != Some(made.bid.to_string().as_bytes()) {
            world
                .book
                .breach(format!("{} was answered {}, and leads to {found:?}", made.deposit.uuid, made.bid));
        }
        let mut of: Vec<&str> =
            jobs.iter().filter(|job| job.bid == Some(made.bid)).map(|job| job.payload.as_str()).collect();
        let mut rows: Vec<&str> = made.deposit.rows.iter().map(|row| row.path.as_str()).collect();
        of.sort_unstable();
        rows.sort_unstable();
        if of != rows {
            world.book.breach(format!("{} has jobs for {of:?}, and {rows:?} were submitted", made.bid));
        }
    }
    Ok(())
}

/// What is wrong with a job.
fn wrongs(job: &Job, row: Option<&Row>, spoilt: bool) -> Vec<String> {
    let mut wrongs = Vec::new();
    let end = match row.map(|row| row.fate) {
        None => return vec![format!("nobody has deposited {}", job.payload)],
        Some(Fate::Wrong) => JobState::Failed,
        Some(Fate::Good | Fate::Missing) => JobState::Completed,
    };
    if job.state != Some(end) {
        wrongs.push(format!("it is {:?} and not {end}: {}", job.state, job.message));
    }
    if job.queues != job.state.into_iter().collect::<Vec<_>>() {
        wrongs.push(format!("it is {:?}, and in the queues {:?}", job.state, job.queues));
    }
    if job.lists.len() != 1 || Some(job.lists[0].0) != job.bid {
        wrongs.push(format!("it belongs to {:?}, and is in the lists {:?}", job.bid, job.lists));
    }
    if job.locked {
        wrongs.push("it is locked".to_owned());
    }
    if !spoilt && let Some(broken) = job.history.as_ref().and_then(broken_life) {
        wrongs.push(broken);
    }
    wrongs
}

/// Where a history does not go from one state to the next, or has a commit twice.
fn broken_life(history: &History) -> Option<String> {
    let entries = &history.entries;
    let commits: BTreeSet<&str> = entries.iter().map(|entry| entry.commit.as_str()).collect();
    if commits.len() != entries.len() {
        return Some(format!("a commit stands twice in its history: {history:?}"));
    }
    let torn = entries.windows(2).find(|pair| pair[1].from.is_some_and(|from| from != pair[0].to))?;
    Some(format!("its history is torn between {:?} and {:?}", torn[0], torn[1]))
}

/// Files that were served badly, and whose jobs are completed.
pub(crate) fn count_misdeeds(world: &World, jobs: &[Job]) {
    let done: BTreeSet<&str> = jobs
        .iter()
        .filter(|job| job.state == Some(JobState::Completed))
        .map(|job| job.payload.as_str())
        .collect();
    for made in world.ledger.made() {
        for (row, served) in made.deposit.rows.iter().zip(&made.served) {
            for _ in 0..served.misdeeds.load(Ordering::SeqCst) {
                let outcome = if done.contains(row.path.as_str()) {
                    Outcome::Witnessed(row.path.clone())
                } else {
                    Outcome::Missed(row.path.clone())
                };
                world.book.enter(Kind::BadServer, &outcome);
            }
        }
    }
}
