//! What the queue commits per second when jobs live their whole lives, from pending to completed, with
//! work that takes no time and 64 of them in flight.
//!
//! Two ways: every state takes the job's lock and gives it back with its transition; or the lock is
//! taken once, with the first transition, and handed over from state to state. The baseline of both is the ceiling: transitions of
//! five operations by the bare client.
//!
//! The jobs are made beforehand and not searched for. After each part the tree is read back: each job's
//! history is the beginning of a life, all histories together hold what was acknowledged, every job
//! is in one queue and one list, and no lock is left.

use std::collections::HashMap;
use std::iter::successors;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::jobs::Lease;
use ingest_queue::map::{self, JobNode, QueueRef};
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, JobState, States, Who};
use ingest_store::Session;

use crate::Context;
use crate::ceiling::{Ceiling, IN_FLIGHT};
use crate::deposit::{Deposit, ROWS, new_jobs};
use crate::load::{self, Span, Worker};
use crate::trees::{ENGINES, Trees, ZOOKEEPER};

/// How a job gets from state to state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    LockPerState,
    HandOver,
}

const WAYS: [Way; 2] = [Way::LockPerState, Way::HandOver];

/// The time is cut into slices, baseline and ours in turn: a disk that is slow for some seconds is slow for
/// both.
const ROUNDS: u32 = 4;

/// More transitions per second than are ever reached, on the machines that this is run on: enough jobs
/// are made for so many.
const MOST: f64 = 20_000.0;

impl Way {
    fn case(self, engine: &str) -> String {
        let way = match self {
            Way::LockPerState => "lock per state",
            Way::HandOver => "hand-over",
        };
        format!("{engine} {way} c={IN_FLIGHT}")
    }

    fn engines(self, context: &Context) -> Vec<&'static str> {
        ENGINES.into_iter().filter(|engine| context.wants(&self.case(engine))).collect()
    }
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    let chosen: Vec<_> = WAYS
        .into_iter()
        .map(|way| (way, way.engines(&context)))
        .filter(|(_, engines)| !engines.is_empty())
        .collect();
    if chosen.is_empty() {
        let known: Vec<_> = WAYS.iter().flat_map(|way| ENGINES.map(|engine| way.case(engine))).collect();
        bail!("no such case; known are: {}", known.join(", "));
    }
    let rounds: usize = ROUNDS.try_into()?;
    let parts = chosen.iter().map(|(_, engines)| 2 + (engines.len() + 1) * rounds).sum::<usize>();
    context.report.plan(1 + parts);
    let trees = Trees::start().await?;
    let ceiling = Ceiling::warmed_up(&trees, &context).await?;
    let slice = Span { warm_up: context.span.warm_up / ROUNDS, measured: context.span.measured / ROUNDS };
    for (way, engines) in chosen {
        let mut baseline = vec![ceiling.measure(&context, slice).await?];
        let part = async |engine: &'static str, name: &str, span| {
            let case = way.case(engine);
            let _part = context.report.part(&case);
            let tree = trees.open(engine, &format!("{way:?}-{engine}-{name}")).await?;
            let measured = measure(&tree.session, way, enough(MOST, span), span).await;
            tree.close().await?;
            measured.context(case)
        };
        part(ZOOKEEPER, "first", context.server_warm_up()).await?;
        let mut ours: HashMap<&str, Vec<Measured>> = HashMap::new();
        for round in 0..ROUNDS {
            for engine in &engines {
                let measured = part(engine, &round.to_string(), slice).await?;
                ours.entry(engine).or_default().push(measured);
            }
            baseline.push(ceiling.measure(&context, slice).await?);
        }
        let baseline = mean(baseline.into_iter());
        for engine in engines {
            let case = way.case(engine);
            let measured = ours.remove(engine).unwrap_or_default();
            let row =
                context.report.row(case.as_str(), mean(measured.iter().map(|part| part.per_s)), "per_s");
            context.report.print(&row.against(Ceiling::name(), baseline))?;
            let plans = mean(measured.iter().map(|part| part.plans));
            context.report.print(&context.report.row(format!("{case} plans"), plans, "per_multi"))?;
        }
    }
    ceiling.reader.close().await?;
    Ok(())
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// What came of one part.
#[derive(Debug)]
struct Measured {
    /// Transitions.
    per_s: f64,
    /// How many plans went together, on average.
    plans: f64,
}

/// How many jobs are made for a part.
fn enough(per_s: f64, span: Span) -> u64 {
    let transitions = per_s * (span.warm_up + span.measured).as_secs_f64();
    // A positive number, and far below what an integer holds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let transitions = transitions as u64;
    (transitions / (life().count() as u64 - 1)).max(IN_FLIGHT as u64)
}

/// The states of a life without failures.
fn life() -> impl Iterator<Item = JobState> {
    successors(Some(JobState::Pending), |state| state.success(Dialect::Design))
}

async fn measure(session: &Session, way: Way, jobs: u64, span: Span) -> Result<Measured> {
    let mut deposit = Deposit::begin(session, jobs).await?;
    while deposit.next() < jobs {
        let rows = usize::try_from(jobs - deposit.next())?.min(ROWS);
        deposit.expand(&new_jobs(deposit.next(), rows)).await?;
    }
    let bid = deposit.bid();
    let queue = deposit.end().await?;
    let names = session.children(map::queue(JobState::Pending)).await?.0;
    let mut waiting: Vec<_> =
        names.iter().filter_map(|name| QueueRef::parse(JobState::Pending, name)).collect();
    waiting.sort_unstable();
    ensure!(waiting.len() as u64 == jobs, "{} of {jobs} jobs are pending", waiting.len());

    let waiting = Arc::new(Waiting { jobs: waiting, taken: AtomicUsize::new(0) });
    let workers = (0..IN_FLIGHT).map(|number| Life {
        queue: queue.clone(),
        way,
        waiting: waiting.clone(),
        name: format!("worker-{number}"),
        lease: None,
        left: None,
    });
    let outcome = load::run(workers.collect(), span).await?;
    // Whoever holds a job in the middle of its life gives it back.
    for worker in outcome.workers {
        if let Some(mut lease) = worker.lease {
            queue.give_back(&mut lease, None).await?;
        }
    }
    verify(&queue, bid, &waiting.jobs, outcome.completed).await?;
    let counts = queue.committed();
    // Far below the 2^52 that a float counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let plans = counts.units() as f64 / counts.multis() as f64;
    Ok(Measured { per_s: outcome.per_s, plans })
}

/// The jobs that nobody has begun with.
#[derive(Debug)]
struct Waiting {
    jobs: Vec<QueueRef>,
    taken: AtomicUsize,
}

impl Waiting {
    fn take(&self) -> Option<QueueRef> {
        self.jobs.get(self.taken.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// One of those at work, with one job at a time.
#[derive(Debug)]
struct Life {
    queue: Queue,
    way: Way,
    waiting: Arc<Waiting>,
    name: String,
    /// Of a job that was handed over.
    lease: Option<Lease>,
    /// Where its job was left, with its lock given back.
    left: Option<QueueRef>,
}

impl Worker for Life {
    async fn step(&mut self) -> Result<ControlFlow<()>> {
        let mut lease = match self.lease.take() {
            Some(lease) => lease,
            None => match self.left.take().or_else(|| self.waiting.take()) {
                // Its first transition, with the lock.
                Some(entry) if self.way == Way::HandOver => {
                    self.lease = Some(self.queue.admit(entry, &self.name).await?);
                    return Ok(ControlFlow::Continue(()));
                }
                Some(entry) => self.queue.acquire(entry, &self.name).await?,
                None => return Ok(ControlFlow::Break(())),
            },
        };
        let from = lease.job().state();
        let to = from.success(Dialect::Design).with_context(|| format!("{from} is the end"))?;
        let by = if from == JobState::Pending { Who::Queue } else { Who::Worker };
        let change = Change::message("3 files, 1048576 bytes");
        let is_last = to == JobState::Completed;
        if self.way == Way::HandOver && !is_last {
            self.queue.hand_over(&mut lease, to, by, &change).await?;
            self.lease = Some(lease);
        } else {
            self.queue.advance(&mut lease, to, by, &change).await?;
            self.left = (!is_last).then(|| lease.job().entry());
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Reads everything back.
async fn verify(queue: &Queue, bid: Bid, jobs: &[QueueRef], acknowledged: u64) -> Result<()> {
    let session = queue.session();
    session.sync().await?;
    let mut queues: HashMap<Jid, Vec<JobState>> = HashMap::new();
    for state in JobState::queues(Dialect::Design) {
        for name in session.children(map::queue(state)).await?.0 {
            let entry = QueueRef::parse(state, &name).with_context(|| format!("{name} is no ref"))?;
            queues.entry(entry.jid).or_default().push(state);
        }
    }
    let mut lists: HashMap<Jid, Vec<BatchList>> = HashMap::new();
    for list in BatchList::ALL {
        for name in session.children(map::batch_list(bid, list)).await?.0 {
            lists.entry(name.parse()?).or_default().push(list);
        }
    }
    let found: u64 = stream::iter(jobs)
        .map(async |entry| {
            let jid = entry.jid;
            let (state, transitions) = lived(queue, jid).await?;
            let (in_queues, in_lists) = (queues.get(&jid), lists.get(&jid));
            ensure!(in_queues.is_some_and(|found| *found == [state]), "{jid}, {state}, is in {in_queues:?}");
            ensure!(in_lists.is_some_and(|f| *f == [state.list()]), "{jid}, {state}, is in {in_lists:?}");
            Ok(transitions)
        })
        .buffer_unordered(IN_FLIGHT)
        .try_fold(0, async |sum, transitions| Ok(sum + transitions))
        .await?;
    ensure!(
        found == acknowledged,
        "the histories hold {found} transitions, but {acknowledged} were acknowledged"
    );
    ensure!(queues.len() == jobs.len(), "{} jobs are in the queues, of {}", queues.len(), jobs.len());
    let locks = session.ephemerals("/").await?;
    ensure!(locks.is_empty(), "these locks are left: {locks:?}");
    Ok(())
}

/// A job's state and how many transitions it has made, if its history is the beginning of a life.
async fn lived(queue: &Queue, jid: Jid) -> Result<(JobState, u64)> {
    let (status, _) = queue.job_status(jid).await?;
    let history = queue.history(jid).await?.unwrap_or_default();
    let moves = history.entries.iter().map(|entry| (entry.from, Some(entry.to)));
    let life = life().map(Some).zip(life().skip(1).map(Some));
    ensure!(moves.eq(life.take(history.entries.len())), "the history of {jid} is no life: {history:?}");
    let last = history.entries.last().map_or(JobState::Pending, |entry| entry.to);
    ensure!(last == status.status, "{jid} is {}, but its history ends with {last}", status.status);
    let (names, _) = queue.session().children(map::job(jid)).await?;
    ensure!(!names.iter().any(|name| name == JobNode::Lock.name()), "{jid} is locked after the work");
    Ok((last, history.entries.len() as u64))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scratch;
    use crate::trees::embedded_at;

    const SHORT: Span = Span { warm_up: Duration::ZERO, measured: Duration::from_hours(1) };

    #[tokio::test]
    async fn all_jobs_are_completed_if_there_is_time_enough() {
        for way in WAYS {
            let dir = scratch::directory().unwrap();
            let tree = embedded_at(dir.path()).await.unwrap();
            let measured = measure(&tree.session, way, 100, SHORT).await.unwrap();
            assert!(measured.per_s > 0.0 && measured.plans > 1.0, "{measured:?}");
            tree.close().await.unwrap();
        }
    }

    #[tokio::test]
    async fn what_the_tree_does_not_confirm_is_refused() {
        let dir = scratch::directory().unwrap();
        let session = embedded_at(dir.path()).await.unwrap().session;
        let mut deposit = Deposit::begin(&session, 1).await.unwrap();
        deposit.expand(&new_jobs(0, 1)).await.unwrap();
        let bid = deposit.bid();
        let queue = deposit.end().await.unwrap();
        let entry = QueueRef::new(JobState::Pending, map::Priority::DEFAULT, Jid::new(1));
        let refused =
            async |acknowledged| verify(&queue, bid, &[entry], acknowledged).await.unwrap_err().to_string();
        assert!(refused(1).await.contains("hold 0 transitions, but 1"), "{}", refused(1).await);
        let mut lease = queue.acquire(entry, "worker").await.unwrap();
        assert!(refused(0).await.contains("locked after the work"), "{}", refused(0).await);
        queue.succeed(&mut lease, &Change::default()).await.unwrap();
        verify(&queue, bid, &[entry], 1).await.unwrap();
        session.create(entry.path(), "", ingest_store::Mode::Persistent).await.unwrap();
        assert!(refused(1).await.contains("is in Some([Pending, Estimating])"), "{}", refused(1).await);
    }

    #[test]
    fn a_life_has_seven_transitions() {
        assert_eq!(life().count(), 8);
        let span = Span { warm_up: Duration::from_secs(2), measured: Duration::from_secs(5) };
        assert_eq!(enough(1_000.0, span), 1_000);
    }
}
