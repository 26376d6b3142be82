//! What it costs to acquire one job when few wait, and when very many do.
//!
//! The cost is the time from asking the finder for the next pending job to holding its lease, one at a
//! time. The job is then given back, which is not counted, and waits again. The baseline is the cost with
//! 100 waiting on the same engine, measured in turn: a ratio below 1 says that more jobs make each one
//! dearer.
//!
//! At the end the tree is read back: as many jobs wait as before, none is locked, and what was
//! counted as acquired is the sum of all attempts; fsck is clean. Of a million it would take fsck ten minutes: `scale` has it
//! done once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use ingest_queue::date::Clock;
use ingest_queue::index::Settings;
use ingest_queue::index::finder::Finder;
use ingest_queue::list;
use ingest_queue::map::{self, JobNode, QueueRef};
use ingest_queue::nodes::{JobStatus, Node};
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;

use crate::Context;
use crate::ceiling::IN_FLIGHT;
use crate::deposit::{Deposit, ROWS, plain_jobs};
use crate::load::{Span, middle};
use crate::trees::{self, ENGINES, Opened, Trees};

const FEW: u64 = 100;
const MANY: [u64; 2] = [10_000, 100_000];
/// In the long tier only: it takes minutes to make so many.
const VERY_MANY: u64 = 1_000_000;
/// The time is cut into slices, few and many in turn; the result is the slice in the middle.
const ROUNDS: u32 = 10;
/// Up to here the whole tree is checked afterwards.
const CHECKED: u64 = 100_000;

fn case(engine: &str, waiting: u64) -> String {
    format!("{engine} {waiting} waiting")
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    let mut sizes = MANY.to_vec();
    if context.long {
        sizes.push(VERY_MANY);
    }
    let chosen: Vec<(&str, u64)> = ENGINES
        .into_iter()
        .flat_map(|engine| sizes.iter().map(move |waiting| (engine, *waiting)))
        .filter(|(engine, waiting)| context.wants(&case(engine, *waiting)))
        .collect();
    if chosen.is_empty() {
        let known =
            ENGINES.map(|engine| sizes.iter().map(|n| case(engine, *n)).collect::<Vec<_>>().join(", "));
        bail!("no such case; known are: {}", known.join(", "));
    }
    context.report.plan(chosen.len() * 3);
    let trees = if context.long { Trees::large().await? } else { Trees::start().await? };
    for (number, (engine, waiting)) in chosen.into_iter().enumerate() {
        let case = case(engine, waiting);
        let few = {
            let _part = context.report.part(&format!("{case}: making {FEW} and {waiting} jobs"));
            Queued::make(&trees, engine, &format!("few-{number}"), FEW).await?
        };
        let many = Queued::make(&trees, engine, &format!("many-{number}"), waiting).await?;
        compare(&context, &case, engine, few, many).await?;
    }
    Ok(())
}

/// Acquires one of many in turn with one of few, says what each costs, and gives the ratio.
pub(crate) async fn compare(
    context: &Context,
    case: &str,
    engine: &str,
    few: Queued,
    many: Queued,
) -> Result<f64> {
    let waiting = many.waiting;
    let (few_before, many_before) = (few.attempts().await?, many.attempts().await?);
    let mut costs = [Vec::new(), Vec::new()];
    {
        let _part = context.report.part(&format!("{case}, in turn with {FEW} waiting"));
        let slice = context.span.slice(ROUNDS);
        for _ in 0..ROUNDS {
            for (queued, costs) in [&few, &many].into_iter().zip(&mut costs) {
                costs.push(queued.measure(slice).await.with_context(|| case.to_owned())?);
            }
        }
    }
    let _part = context.report.part(&format!("{case}: reading back"));
    for (queued, before, costs) in [(few, few_before, &costs[0]), (many, many_before, &costs[1])] {
        let acquired = costs.iter().map(|cost| u64::from(cost.all_acquired)).sum::<u64>();
        queued.verify(before + acquired).await.with_context(|| case.to_owned())?;
        queued.close().await?;
    }
    let [baseline, ours] = costs.each_ref().map(|costs| middle(costs.iter().map(Cost::per_s).collect()));
    let row = context.report.row(case, ours, "per_s");
    context.report.print(&row.against(format!("{engine} {FEW} waiting"), baseline))?;
    for (what, costs) in [(FEW, &costs[0]), (waiting, &costs[1])] {
        let us = middle(costs.iter().map(Cost::finding_us).collect());
        let row = context.report.row(format!("{engine} {what} waiting, finding alone"), us, "us");
        context.report.print(&row)?;
    }
    Ok(ours / baseline)
}

/// What acquiring has cost.
#[derive(Debug, Default)]
struct Cost {
    acquired: u32,
    /// With those of the warm-up.
    all_acquired: u32,
    finding: Duration,
    all: Duration,
}

impl Cost {
    fn per_s(&self) -> f64 {
        f64::from(self.acquired) / self.all.as_secs_f64()
    }

    fn finding_us(&self) -> f64 {
        self.finding.as_secs_f64() * 1e6 / f64::from(self.acquired.max(1))
    }
}

/// A tree in which so many jobs wait.
#[derive(Debug)]
pub(crate) struct Queued {
    tree: Opened,
    queue: Queue,
    finder: Finder,
    waiting: u64,
}

impl Queued {
    async fn make(trees: &Trees, engine: &str, name: &str, waiting: u64) -> Result<Self> {
        let tree = trees.open(engine, name).await?;
        let mut deposit = Deposit::begin(&tree.session, waiting).await?;
        while deposit.next() < waiting {
            let rows = usize::try_from(waiting - deposit.next())?.min(ROWS);
            deposit.expand(&plain_jobs(deposit.next(), rows)).await?;
        }
        drop(deposit.end().await?);
        Self::open(tree, waiting).await
    }

    /// A tree in which so many jobs were made wait by somebody else.
    pub(crate) async fn open(tree: Opened, waiting: u64) -> Result<Self> {
        let settings = ingest_queue::queue::Settings::new("node-1");
        let queue = Queue::open(&tree.session, settings, Clock::system()).await?;
        let finder = Finder::start(queue.session(), Settings::default()).await?;
        ensure!(
            finder.waiting(JobState::Pending) as u64 == waiting,
            "the finder does not see all {waiting} jobs"
        );
        Ok(Self { tree, queue, finder, waiting })
    }

    async fn measure(&self, span: Span) -> Result<Cost> {
        let warmed_up = self.acquire_for(span.warm_up).await?;
        let cost = self.acquire_for(span.measured).await?;
        Ok(Cost { all_acquired: warmed_up.acquired + cost.acquired, ..cost })
    }

    async fn acquire_for(&self, span: Duration) -> Result<Cost> {
        let (started, mut cost) = (Instant::now(), Cost::default());
        // At least one: a cost without an acquire is no number.
        while cost.acquired == 0 || started.elapsed() < span {
            let asked = Instant::now();
            let candidate = self.finder.next(JobState::Pending).await.context("the finder has ended")?;
            cost.finding += asked.elapsed();
            let mut lease = self.queue.acquire(candidate.entry, "bench").await?;
            cost.all += asked.elapsed();
            cost.acquired += 1;
            self.queue.give_back(&mut lease, None).await?;
            self.finder.put_back(candidate.entry.jid);
        }
        Ok(cost)
    }

    /// How often the jobs at the head of the queue were acquired: nobody takes another.
    async fn attempts(&self) -> Result<u64> {
        let session = &self.tree.session;
        let mut names = session.children(map::queue(JobState::Pending)).await?.0;
        names.sort_unstable();
        let heads = names.iter().take(IN_FLIGHT).filter_map(|name| QueueRef::parse(JobState::Pending, name));
        stream::iter(heads.collect::<Vec<_>>())
            .map(|entry| async move {
                let (data, _) = session.get(JobNode::Status.of(entry.jid)).await?;
                let status = JobStatus::read(&data)?;
                anyhow::Ok(u64::from(status.attempt))
            })
            .buffer_unordered(IN_FLIGHT)
            .try_fold(0, async |sum, attempts| Ok(sum + attempts))
            .await
    }

    async fn verify(&self, acquired: u64) -> Result<()> {
        let session = &self.tree.session;
        session.sync().await?;
        let attempts = self.attempts().await?;
        ensure!(attempts == acquired, "{acquired} acquires were counted, and the jobs say {attempts}");
        let left = list::counts(session).await?.get(&JobState::Pending).copied().unwrap_or(0);
        ensure!(left as u64 == self.waiting, "{left} jobs wait, and not {}", self.waiting);
        ensure!(self.queue.locks().is_empty(), "a lock is left");
        if self.waiting <= CHECKED {
            trees::check(session).await?;
        }
        Ok(())
    }

    async fn close(self) -> Result<()> {
        drop(self.finder);
        drop(self.queue);
        self.tree.close().await
    }
}
