//! How fast one node is: `ingestd run` as a process of its own, with steps that do nothing.
//!
//! **The chain.** Jobs are made beforehand, in one batch; the node is started on them and lets them walk from pending to
//! completed. What counts is whole lives: completed jobs per second, times the transitions of a life, or all transitions per
//! second if those are fewer. The baseline is the ceiling: transitions of five operations by the bare client on the server, 64 in flight. The time is cut into
//! slices, baseline and nodes in turn; whoever is not measured is stopped (`SIGSTOP`). The tree itself tells how
//! much was done in each slice: every transition stands in its job's history with its time.
//!
//! **Latency.** A running node with nothing to do is given one batch of one job after another: how long from the
//! submission until another session sees the job's first transition.
//!
//! **Memory.** What a node takes that knows of 100,000 waiting jobs, and, in the long tier, what the index
//! of a million takes.
//!
//! At the end the node is drained, and the tree read back: see [`lives`]. A run whose counts the tree does not
//! confirm fails.

pub(crate) mod daemon;
mod index;
mod latency;
mod lives;
mod memory;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ingest_harness::let_pass;
use ingest_queue::date::{Clock, Date};

pub(crate) use self::daemon::program;
use self::daemon::{Daemon, Pools};
use self::lives::Lives;
use crate::Context;
use crate::ceiling::Ceiling;
use crate::deposit::{Deposit, ROWS, new_jobs};
use crate::flame::Flame;
use crate::load::{Span, middle};
use crate::trees::{ENGINES, Trees};

/// As in `transitions`.
const ROUNDS: u32 = 10;

/// So many times as many jobs are made as the bare client could move, or enough for so many transitions per second: nobody
/// is that much faster.
const ENOUGH: f64 = 3.0;
const MOST: f64 = 20_000.0;

/// How many workers each state has.
const WORKERS: usize = 128;

/// Before anything is measured, the states of the chain fill.
const FILLING: Duration = Duration::from_secs(5);

fn case(engine: &str) -> String {
    format!("{engine} chain")
}

/// What this program does as a child of itself.
pub(crate) fn child() -> Option<ExitCode> {
    index::child()
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    let chain: Vec<_> = ENGINES.into_iter().filter(|engine| context.wants(&case(engine))).collect();
    let with_latency = context.wants(&latency::case());
    let waiting: Vec<_> = ENGINES.into_iter().filter(|engine| context.wants(&memory::case(engine))).collect();
    let with_index = context.long && context.wants(&index::case());
    let parts = [chain.len() * 2 + 2 * usize::from(!chain.is_empty()), waiting.len()].iter().sum::<usize>()
        + usize::from(with_latency)
        + usize::from(with_index);
    if parts == 0 {
        let mut known: Vec<_> = ENGINES.into_iter().flat_map(|e| [case(e), memory::case(e)]).collect();
        known.extend([latency::case(), format!("with --long {}", index::case())]);
        bail!("no such case; known are: {}", known.join(", "));
    }
    let program = daemon::program()?;
    context.report.plan(parts);
    if with_index {
        index::measure(&context)?;
    }
    if chain.is_empty() && waiting.is_empty() && !with_latency {
        return Ok(());
    }
    let trees = Trees::start().await?;
    if !chain.is_empty() {
        compare(&context, &trees, &program, &chain).await?;
    }
    if with_latency {
        latency::measure(&context, &trees, &program).await?;
    }
    for engine in waiting {
        memory::measure(&context, &trees, &program, engine).await?;
    }
    Ok(())
}

/// A node in the middle of its work, stopped whenever it is not measured.
#[derive(Debug)]
struct Chain {
    engine: &'static str,
    jobs: u64,
    daemon: Daemon,
    slices: Vec<Slice>,
}

/// A stretch of time, by the clock that histories are written with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    from: Date,
    to: Date,
}

impl Slice {
    fn has(&self, at: Date) -> bool {
        self.from <= at && at < self.to
    }

    fn seconds(&self) -> f64 {
        self.from.until(self.to).as_secs_f64()
    }
}

async fn compare(
    context: &Context,
    trees: &Trees,
    program: &std::path::Path,
    engines: &[&'static str],
) -> Result<()> {
    let (ceiling, first) = Ceiling::measured(trees, context).await?;
    let filling = Span { warm_up: Duration::ZERO, measured: FILLING.min(context.span.measured) };
    let mut chains = Vec::new();
    for engine in engines {
        let case = case(engine);
        let _part = context.report.part(&format!("{case}: making the jobs, filling the chain"));
        let name = format!("chain-{engine}");
        let jobs = enough(first, filling) + enough(first, context.span);
        let tree = trees.open(engine, &name).await?;
        let mut deposit = Deposit::begin(&tree.session, jobs).await?;
        while deposit.next() < jobs {
            let rows = usize::try_from(jobs - deposit.next())?.min(ROWS);
            deposit.expand(&new_jobs(deposit.next(), rows)).await?;
        }
        drop(deposit.end().await?);
        tree.close().await?;
        let pools = Pools { pending: WORKERS, others: WORKERS };
        let daemon = Daemon::start(program, &trees.engine(engine, &name), pools).await.context(case)?;
        let mut chain = Chain { engine, jobs, daemon, slices: Vec::new() };
        chain.go_on(filling).await?;
        chain.slices.clear();
        chains.push(chain);
    }
    let mut bare = ceiling.begin().await?;
    let flames = match &context.flame {
        Some(_) => chains.iter().map(|chain| Flame::of(chain.daemon.pid())).collect::<Result<Vec<_>>>()?,
        None => Vec::new(),
    };
    let mut baseline = Vec::new();
    {
        let cases = engines.iter().map(|engine| case(engine)).collect::<Vec<_>>().join(" and ");
        let _part = context.report.part(&format!("{cases}, in turn with {}", Ceiling::name()));
        let slice = context.span.slice(ROUNDS);
        for _ in 0..ROUNDS {
            baseline.push(bare.go_on(slice).await.with_context(Ceiling::name)?);
            for chain in &mut chains {
                chain.go_on(slice).await?;
            }
        }
        baseline.push(bare.go_on(slice).await.with_context(Ceiling::name)?);
    }
    for (flame, chain) in flames.into_iter().zip(&chains) {
        let dir = context.flame.clone().unwrap_or_default();
        let title = format!("A node on {}, steps that do nothing, 128 workers in each state", chain.engine);
        let samples = flame.draw(&title, &dir.join(format!("flame-{}.svg", chain.engine)))?;
        eprintln!("{}: {samples} samples", case(chain.engine));
    }
    bare.end().await?;
    ceiling.reader.close().await?;
    let baseline = middle(baseline);
    for chain in chains {
        let case = case(chain.engine);
        let _part = context.report.part(&format!("{case}: draining, reading back"));
        let name = format!("chain-{}", chain.engine);
        drop(chain.daemon.drain().await.context(case.clone())?);
        let tree = trees.open(chain.engine, &name).await?;
        let lives = Lives::read(&tree.session, chain.jobs).await.context(case.clone())?;
        tree.close().await?;
        ensure!(
            !lives.all_are_completed(),
            "{case}: the jobs were too few, and the end was measured with nothing to do"
        );
        let of_each = |count: &dyn Fn(&Slice) -> u64| {
            // Far below the 2^52 that a float counts exactly.
            #[allow(clippy::cast_precision_loss)]
            let per_s = |slice: &Slice| count(slice) as f64 / slice.seconds();
            middle(chain.slices.iter().map(per_s).collect())
        };
        let completed = of_each(&|slice| lives.completed(slice));
        let transitions = of_each(&|slice| lives.transitions(slice));
        let report = &context.report;
        let row =
            report.row(case.as_str(), transitions.min(completed * f64::from(lives::TRANSITIONS)), "per_s");
        report.print(&row.against(Ceiling::name(), baseline))?;
        report.print(&report.row(format!("{} jobs completed", chain.engine), completed, "per_s"))?;
        report.print(&report.row(
            format!("{} transitions of all kinds", chain.engine),
            transitions,
            "per_s",
        ))?;
    }
    Ok(())
}

impl Chain {
    /// Lets the node work for a while.
    async fn go_on(&mut self, span: Span) -> Result<()> {
        self.daemon.go_on()?;
        let_pass(span.warm_up).await;
        let from = now();
        let_pass(span.measured).await;
        let to = now();
        self.daemon.stop()?;
        self.slices.push(Slice { from, to });
        Ok(())
    }
}

fn now() -> Date {
    Clock::system().now()
}

/// How many jobs are made for a part, if the bare client makes so many transitions.
fn enough(per_s: f64, span: Span) -> u64 {
    let per_s = (per_s * ENOUGH).max(MOST);
    let jobs = per_s * (span.warm_up + span.measured).as_secs_f64() / f64::from(lives::TRANSITIONS);
    // A positive number, and far below what an integer holds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let jobs = jobs as u64;
    jobs.max(WORKERS as u64)
}
