//! Counting what a bulk action would touch, and applying it.

use std::collections::{BTreeMap, HashSet};

use futures::stream::{FuturesUnordered, StreamExt};
use ingest_store::{Kind, Session};

use super::{Bulk, DryRun, EXAMPLES, Phase, Progress, Refusal, Stopped, Summary, report};
use crate::error::{Error, Next, Result};
use crate::ids::Jid;
use crate::list::{self, Filter, Selected, Unread};
use crate::map::JobNode;
use crate::nodes::{History, Node};
use crate::reads;

/// An action on a job has at most so many requests under way at once.
const REQUESTS: usize = 4;

/// How often a job that changes under the action is looked at.
const LOOKS: usize = 4;

/// The dry run: how many jobs a run would try now, in which states, and the first few of them.
pub async fn count(session: &Session, bulk: &Bulk, mut progress: impl FnMut(&Progress)) -> Result<DryRun> {
    let Matching { jobs, unreadable, first_unreadable } = matching(session, bulk, &mut progress).await?;
    let (mut states, mut examples) = (BTreeMap::new(), Vec::new());
    for Selected { jid, state } in &jobs {
        *states.entry(*state).or_default() += 1;
        if examples.len() < EXAMPLES {
            examples.extend(list::job_line(session, *jid).await?);
        }
    }
    Ok(DryRun { what: bulk.to_string(), total: jobs.len(), states, examples, unreadable, first_unreadable })
}

/// The jobs that a filter selects, as they were at one time.
struct Matching {
    jobs: Vec<Selected>,
    unreadable: usize,
    first_unreadable: Vec<Unread>,
}

/// Lists them, and refuses the list if it is not as long as expected.
async fn matching(session: &Session, bulk: &Bulk, progress: &mut impl FnMut(&Progress)) -> Result<Matching> {
    let (mut jobs, mut first_unreadable) = (Vec::new(), Vec::new());
    // What an earlier run did, through another server perhaps, is seen from here on.
    reads::sync(session).await?;
    let mut walk = list::walk(session, bulk.filter(), None).await?;
    let mut at = Progress { candidates: walk.left(), ..Progress::default() };
    while let Some(chunk) = walk.next().await? {
        at.looked_at += chunk.looked_at;
        at.total += chunk.jobs.len();
        at.unreadable += chunk.unreadable.len();
        report(&mut first_unreadable, chunk.unreadable);
        jobs.extend(chunk.jobs);
        progress(&at);
    }
    as_expected(session, bulk, &jobs).await?;
    Ok(Matching { jobs, unreadable: at.unreadable, first_unreadable })
}

async fn as_expected(session: &Session, bulk: &Bulk, jobs: &[Selected]) -> Result<()> {
    let Some(expected) = bulk.expected.filter(|expected| *expected != jobs.len()) else { return Ok(()) };
    let done = if bulk.repeated { done_before(session, bulk, jobs).await? } else { 0 };
    if jobs.len() + done == expected {
        return Ok(());
    }
    Err(Error::NotExpected { what: bulk.to_string(), expected, matching: jobs.len() })
}

/// How many jobs the same run has done before that do not match any more.
async fn done_before(session: &Session, bulk: &Bulk, matching: &[Selected]) -> Result<usize> {
    let all = Filter { batch: bulk.filter().batch, ..Filter::default() };
    let matching: HashSet<Jid> = matching.iter().map(|job| job.jid).collect();
    let (mut walk, mut done) = (list::walk(session, &all, None).await?, 0);
    while let Some(chunk) = walk.next().await? {
        for Selected { jid, .. } in chunk.jobs.into_iter().filter(|job| !matching.contains(&job.jid)) {
            match history(session, jid).await {
                Ok(history) => done += usize::from(history.has_commit(&bulk.commit_id(jid))),
                // Whoever cannot be read has not been touched either.
                Err(error) if error.next() == Next::Quarantine => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(done)
}

/// Applies the action to each job that the filter selects, and that this run has not done before.
///
/// `apply` gets the job and the commit id, which must be in the job's history when it has done its work;
/// it has at most four requests under way. Dropping the run is like killing it.
pub async fn run<A, F>(
    session: &Session,
    bulk: &Bulk,
    apply: A,
    mut progress: impl FnMut(&Progress),
) -> Result<Summary, Stopped>
where
    A: Fn(Jid, String) -> F,
    F: Future<Output = Result<()>>,
{
    let mut summary = Summary::new(bulk);
    match go(session, bulk, &apply, &mut progress, &mut summary).await {
        Ok(()) => Ok(summary),
        Err(error) => Err(Stopped { summary, error }),
    }
}

async fn go<A, F>(
    session: &Session,
    bulk: &Bulk,
    apply: &A,
    progress: &mut impl FnMut(&Progress),
    summary: &mut Summary,
) -> Result<()>
where
    A: Fn(Jid, String) -> F,
    F: Future<Output = Result<()>>,
{
    let Matching { jobs, unreadable, first_unreadable } = matching(session, bulk, &mut *progress).await?;
    summary.first_unreadable = first_unreadable;
    summary.progress = Progress {
        phase: Phase::Running,
        candidates: jobs.len(),
        total: jobs.len(),
        unreadable,
        ..Progress::default()
    };
    progress(&summary.progress);
    // Those that were counted and no others; each is read again when its turn comes.
    let mut walk = list::walk_again(session, bulk.filter(), &jobs);
    while let Some(chunk) = walk.next().await? {
        summary.progress.looked_at += chunk.looked_at;
        summary.progress.gone += chunk.looked_at - chunk.jobs.len() - chunk.unreadable.len();
        summary.progress.unreadable += chunk.unreadable.len();
        report(&mut summary.first_unreadable, chunk.unreadable);
        apply_to(session, bulk, apply, chunk.jobs, |jid, outcome| {
            summary.add(jid, outcome);
            progress(&summary.progress);
        })
        .await?;
        progress(&summary.progress);
    }
    Ok(())
}

/// Applies the action to a chunk of jobs, side by side. After an error no more are begun, and those that
/// were are waited for: what is said to be done is done.
async fn apply_to<A, F>(
    session: &Session,
    bulk: &Bulk,
    apply: &A,
    jobs: Vec<Selected>,
    mut ended: impl FnMut(Jid, Outcome),
) -> Result<()>
where
    A: Fn(Jid, String) -> F,
    F: Future<Output = Result<()>>,
{
    let width = (session.limits().max_requests / 4 / REQUESTS).max(1);
    let (mut jobs, mut under_way, mut result) = (jobs.into_iter(), FuturesUnordered::new(), Ok(()));
    loop {
        while result.is_ok()
            && under_way.len() < width
            && let Some(job) = jobs.next()
        {
            under_way.push(async move { (job.jid, outcome(session, bulk, apply, job.jid).await) });
        }
        match under_way.next().await {
            None => return result,
            Some((jid, Ok(outcome))) => ended(jid, outcome),
            Some((_, Err(error))) => result = result.and(Err(error)),
        }
    }
}

/// What became of a job.
#[derive(Debug)]
enum Outcome {
    Done,
    DoneBefore,
    Gone,
    Refused(String),
}

impl Summary {
    fn add(&mut self, jid: Jid, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.progress.done += 1,
            Outcome::DoneBefore => self.progress.skipped += 1,
            Outcome::Gone => self.progress.gone += 1,
            Outcome::Refused(why) => {
                self.progress.refused += 1;
                report(&mut self.refusals, [Refusal { jid, why }]);
            }
        }
    }
}

async fn outcome<A, F>(session: &Session, bulk: &Bulk, apply: &A, jid: Jid) -> Result<Outcome>
where
    A: Fn(Jid, String) -> F,
    F: Future<Output = Result<()>>,
{
    let commit = bulk.commit_id(jid);
    let mut changed = String::new();
    for look in 0..LOOKS {
        if look > 0 {
            // The change that got in the way may be known to another server only.
            reads::sync(session).await?;
        }
        match history(session, jid).await {
            Ok(history) if history.has_commit(&commit) => return Ok(Outcome::DoneBefore),
            Ok(_) => {}
            Err(error) if error.next() == Next::Quarantine => return Ok(Outcome::Refused(error.to_string())),
            Err(error) => return Err(error),
        }
        if look > 0 && !list::still_selects(session, bulk.filter(), jid).await? {
            return Ok(Outcome::Gone);
        }
        match apply(jid, commit.clone()).await {
            Ok(()) => return Ok(Outcome::Done),
            Err(error) => match error.next() {
                Next::Store(_) => return Err(error),
                Next::LookAgain => changed = error.to_string(),
                Next::Tell | Next::LetGo | Next::Quarantine => {
                    return Ok(Outcome::Refused(error.to_string()));
                }
            },
        }
    }
    Ok(Outcome::Refused(changed))
}

/// A job without a history has none.
async fn history(session: &Session, jid: Jid) -> Result<History> {
    let path = JobNode::History.of(jid);
    match reads::get(session, &path).await {
        Ok((data, _)) => History::read(&data).map_err(|why| Error::Corrupt { path, why: why.to_string() }),
        Err(error) if error.kind() == Kind::NoNode => Ok(History::default()),
        Err(error) => Err(error.into()),
    }
}
