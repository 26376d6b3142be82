//! What the queue commits per second when jobs live their whole lives, from pending to completed, with
//! work that takes no time and 64 of them in flight.
//!
//! Two ways: every state takes the job's lock and gives it back with its transition; or the lock is
//! taken once, with the first transition, and handed over from state to state. The baseline of both is the ceiling: transitions of
//! five operations by the bare client.
//!
//! The jobs are made beforehand and not searched for. After each part the tree is read back: each job's
//! history is the beginning of a life, all histories together hold what was acknowledged, every job
//! is in one queue and one list, no lock is left, and fsck is clean.

use std::collections::HashMap;
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
use crate::load::{self, Span, Worker, middle};
use crate::trees::{self, ENGINES, Trees};

/// How a job gets from state to state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    LockPerState,
    HandOver,
}

const WAYS: [Way; 2] = [Way::LockPerState, Way::HandOver];

/// The time is cut into slices, baseline and ours in turn: what is slow for some seconds is slow for
/// both. The result is the slice in the middle.
const ROUNDS: u32 = 10;

/// More transitions per second than are ever reached, on the machines that this is run on: enough jobs
/// are made for so many.
const MOST: f64 = 60_000.0;

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
    context.report.plan(1 + chosen.iter().map(|(_, engines)| engines.len() * 2 + 1).sum::<usize>());
    let trees = Trees::start().await?;
    let ceiling = Ceiling::warmed_up(&trees, &context).await?;
    for (way, engines) in chosen {
        compare(&context, &trees, &ceiling, way, &engines).await?;
    }
    ceiling.reader.close().await?;
    Ok(())
}

/// One way on some engines, in turn with the baseline.
async fn compare(
    context: &Context,
    trees: &Trees,
    ceiling: &Ceiling,
    way: Way,
    engines: &[&'static str],
) -> Result<()> {
    let warm_up = context.server_warm_up();
    let mut ours = Vec::new();
    for engine in engines {
        let case = way.case(engine);
        let _part = context.report.part(&format!("{case}: making the jobs, warming up"));
        let tree = trees.open(engine, &format!("{way:?}-{engine}")).await?;
        let jobs = enough(MOST, warm_up) + enough(MOST, context.span);
        let mut running = Running::begin(&tree.session, way, jobs).await.context(case.clone())?;
        running.go_on(warm_up).await.context(case)?;
        ours.push((tree, running, Vec::new()));
    }
    let mut bare = ceiling.begin().await?;
    let mut baseline = Vec::new();
    {
        let cases = engines.iter().map(|engine| way.case(engine)).collect::<Vec<_>>().join(" and ");
        let _part = context.report.part(&format!("{cases}, in turn with {}", Ceiling::name()));
        let slice = context.span.slice(ROUNDS);
        for _ in 0..ROUNDS {
            baseline.push(bare.go_on(slice).await.with_context(Ceiling::name)?);
            for (engine, (_, running, slices)) in engines.iter().zip(&mut ours) {
                slices.push(running.go_on(slice).await.with_context(|| way.case(engine))?);
            }
        }
        baseline.push(bare.go_on(slice).await.with_context(Ceiling::name)?);
    }
    bare.end().await?;
    let baseline = middle(baseline);
    for (engine, (tree, running, slices)) in engines.iter().zip(ours) {
        let case = way.case(engine);
        let _part = context.report.part(&format!("{case}: reading back"));
        let plans = running.end().await.context(case.clone())?;
        tree.close().await?;
        let row = context.report.row(case.as_str(), middle(slices), "per_s");
        context.report.print(&row.against(Ceiling::name(), baseline))?;
        context.report.print(&context.report.row(format!("{case} plans"), plans, "per_multi"))?;
    }
    Ok(())
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
    JobState::Pending.way(Dialect::Design)
}

/// Jobs that live, in one slice of time or in several.
#[derive(Debug)]
struct Running {
    queue: Queue,
    bid: Bid,
    waiting: Arc<Waiting>,
    workers: Vec<Life>,
    completed: u64,
}

impl Running {
    /// Makes the jobs.
    async fn begin(session: &Session, way: Way, jobs: u64) -> Result<Self> {
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
        let life = |number| Life {
            queue: queue.clone(),
            way,
            waiting: waiting.clone(),
            name: format!("worker-{number}"),
            lease: None,
            left: None,
        };
        let workers = (0..IN_FLIGHT).map(life).collect();
        Ok(Self { queue, bid, waiting, workers, completed: 0 })
    }

    /// Transitions per second.
    async fn go_on(&mut self, span: Span) -> Result<f64> {
        let outcome = load::run(std::mem::take(&mut self.workers), span).await?;
        self.workers = outcome.workers;
        self.completed += outcome.completed;
        Ok(outcome.per_s)
    }

    /// Checks that all of it happened; tells how many plans went together, on average.
    async fn end(self) -> Result<f64> {
        // Whoever holds a job in the middle of its life gives it back.
        for worker in self.workers {
            if let Some(mut lease) = worker.lease {
                self.queue.give_back(&mut lease, None).await?;
            }
        }
        verify(&self.queue, self.bid, &self.waiting.jobs, self.completed).await?;
        let counts = self.queue.committed();
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let plans = counts.units() as f64 / counts.multis() as f64;
        Ok(plans)
    }
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
    trees::check(session).await
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
            let mut running = Running::begin(&tree.session, way, 100).await.unwrap();
            assert!(running.go_on(SHORT).await.unwrap() > 0.0);
            let plans = running.end().await.unwrap();
            assert!(plans > 1.0, "{plans}");
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
