//! How fast one node is: `ingestd run` as a process of its own, with steps that do nothing.
//!
//! **The chain.** Jobs are made beforehand, in one batch; the node is started on them and lets them walk from pending to
//! completed. What counts is whole lives: completed jobs per second, times the transitions of a life, or all transitions per
//! second if those are fewer. The baseline is the ceiling: transitions of five operations by the bare client on the server, 64 in flight. The time is cut into
//! slices, baseline and nodes in turn; whoever is not measured is stopped (`SIGSTOP`). The tree itself tells how
//! much was done in each slice: every transition stands in its job's history with its time.
//!
//! "64 in flight" is 64 workers for each state on our side, and 64 requests in flight on the baseline's. So measured, at least 1.0 of
//! the baseline is asked for on ZooKeeper and 1.5 on the embedded engine. In the long tier the same is measured with 64 workers in all
//! states together, which is the other way to read it, and with 128 workers for each state; of these nothing is asked.
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
pub(crate) use self::lives::TRANSITIONS;
use crate::Context;
use crate::ceiling::{Ceiling, IN_FLIGHT};
use crate::deposit::{Deposit, ROWS, new_jobs};
use crate::flame::Flame;
use crate::load::{Span, middle};
use crate::report;
use crate::trees::{EMBEDDED, ENGINES, Trees, ZOOKEEPER};

/// As in `transitions`.
const ROUNDS: u32 = 10;

/// So many times as many jobs are made as the bare client could move, or enough for so many transitions per second: nobody
/// is that much faster.
const ENOUGH: f64 = 3.0;
const MOST: f64 = 45_000.0;

/// Who works on a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crew {
    /// So many workers for each state.
    Each(usize),
    /// So many in all states together.
    All(usize),
}

/// When something is asked of the chain: as many for each state as the baseline has requests in flight.
const ASKED: Crew = Crew::Each(IN_FLIGHT);
/// In the long tier, of which nothing is asked.
const OTHERS: [Crew; 2] = [Crew::All(IN_FLIGHT), Crew::Each(WORKERS)];
/// How many workers each state has where it does not matter much.
const WORKERS: usize = 128;
/// What is asked of the chain, by engine.
const LEAST: [(&str, f64); 2] = [(ZOOKEEPER, 1.0), (EMBEDDED, 1.5)];

/// How much a slice in which too little was completed is extended at a time.
const GRAIN: Duration = Duration::from_millis(10);

/// Before anything is measured, the states of the chain fill.
const FILLING: Duration = Duration::from_secs(5);

fn case(engine: &str, crew: Crew) -> String {
    format!("{engine} chain, {}", crew.name())
}

impl Crew {
    fn name(self) -> String {
        match self {
            Crew::Each(workers) => format!("{workers} workers"),
            Crew::All(workers) => format!("{workers} workers in all"),
        }
    }

    fn pools(self) -> Pools {
        match self {
            Crew::Each(workers) => Pools { pending: workers, others: workers },
            Crew::All(workers) => {
                let others = workers / (daemon::OTHERS.len() + 1);
                Pools { pending: workers - others * daemon::OTHERS.len(), others }
            }
        }
    }
}

/// What this program does as a child of itself.
pub(crate) fn child() -> Option<ExitCode> {
    index::child()
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    let others: &[Crew] = if context.long { &OTHERS } else { &[] };
    let all = [&[ASKED], others].concat();
    let all = all.iter().flat_map(|crew| ENGINES.map(|engine| (engine, *crew)));
    let chain: Vec<_> = all.filter(|(engine, crew)| context.wants(&case(engine, *crew))).collect();
    let with_latency = context.wants(&latency::case());
    let waiting: Vec<_> = ENGINES.into_iter().filter(|engine| context.wants(&memory::case(engine))).collect();
    let with_index = context.long && context.wants(&index::case());
    let parts = [chain.len() * 3 + 2 * usize::from(!chain.is_empty()), waiting.len()].iter().sum::<usize>()
        + usize::from(with_latency)
        + usize::from(with_index);
    if parts == 0 {
        let mut known: Vec<_> = ENGINES.into_iter().flat_map(|e| [case(e, ASKED), memory::case(e)]).collect();
        known.push(latency::case());
        let long = OTHERS.iter().flat_map(|crew| ENGINES.map(|engine| case(engine, *crew)));
        known.extend(long.map(|case| format!("with --long {case}")));
        known.push(format!("with --long {}", index::case()));
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
    let mut short = Vec::new();
    if !chain.is_empty() {
        short = compare(&context, &trees, &program, &chain).await?;
    }
    if with_latency {
        latency::measure(&context, &trees, &program).await?;
    }
    for engine in waiting {
        memory::measure(&context, &trees, &program, engine).await?;
    }
    report::judge(&short)
}

/// A node in the middle of its work, stopped whenever it is not measured.
#[derive(Debug)]
struct Chain {
    engine: &'static str,
    crew: Crew,
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

/// Says how fast each chain is, and which of them is slower than what is asked for.
async fn compare(
    context: &Context,
    trees: &Trees,
    program: &std::path::Path,
    chosen: &[(&'static str, Crew)],
) -> Result<Vec<String>> {
    let (ceiling, first) = Ceiling::measured(trees, context).await?;
    let filling = Span { warm_up: Duration::ZERO, measured: FILLING.min(context.span.measured) };
    let jobs = enough(first, filling) + enough(first, context.span);
    // All jobs before the first node: one that is stopped for longer than its session loses it.
    for (engine, crew) in chosen {
        let _part = context.report.part(&format!("{}: making the jobs", case(engine, *crew)));
        let tree = trees.open(engine, &tree_of(engine, *crew)).await?;
        let mut deposit = Deposit::begin(&tree.session, jobs).await?;
        while deposit.next() < jobs {
            let rows = usize::try_from(jobs - deposit.next())?.min(ROWS);
            deposit.expand(&new_jobs(deposit.next(), rows)).await?;
        }
        drop(deposit.end().await?);
        tree.close().await?;
    }
    let mut chains = Vec::new();
    for (engine, crew) in chosen.iter().copied() {
        let case = case(engine, crew);
        let _part = context.report.part(&format!("{case}: filling the chain"));
        let tree = trees.engine(engine, &tree_of(engine, crew));
        let daemon = Daemon::start(program, &tree, crew.pools()).await.context(case)?;
        let mut chain = Chain { engine, crew, jobs, daemon, slices: Vec::new() };
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
        let cases = chains.iter().map(Chain::case).collect::<Vec<_>>().join(" and ");
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
        let (engine, crew) = (chain.engine, chain.crew);
        let each = if matches!(crew, Crew::Each(_)) { " in each state" } else { "" };
        let title = format!("A node on {engine}, steps that do nothing, {}{each}", crew.name());
        let name = if crew == ASKED { engine.to_owned() } else { tree_of(engine, crew) };
        let samples = flame.draw(&title, &dir.join(format!("flame-{name}.svg")))?;
        eprintln!("{}: {samples} samples", chain.case());
    }
    bare.end().await?;
    ceiling.reader.close().await?;
    let baseline = middle(baseline);
    let mut short = Vec::new();
    for chain in chains {
        let case = chain.case();
        let _part = context.report.part(&format!("{case}: draining, reading back"));
        drop(chain.daemon.drain().await.context(case.clone())?);
        let tree = trees.open(chain.engine, &tree_of(chain.engine, chain.crew)).await?;
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
        let lived = transitions.min(completed * f64::from(lives::TRANSITIONS));
        let row = report.row(case, lived, "per_s").against(Ceiling::name(), baseline);
        report.print(&row)?;
        for (what, per_s) in [("jobs completed", completed), ("transitions of all kinds", transitions)] {
            let case = format!("{} {what}, {}", chain.engine, chain.crew.name());
            report.print(&report.row(case, per_s, "per_s"))?;
        }
        if context.judges() && chain.crew == ASKED {
            let least = LEAST.iter().filter(|(engine, _)| *engine == chain.engine);
            short.extend(least.filter_map(|(_, least)| row.falls_short(*least)));
        }
    }
    Ok(short)
}

/// The name of a chain's tree.
fn tree_of(engine: &str, crew: Crew) -> String {
    format!("chain-{engine}-{}", crew.name().replace(' ', "-"))
}

impl Chain {
    fn case(&self) -> String {
        case(self.engine, self.crew)
    }

    /// Lets the node work for a while.
    async fn go_on(&mut self, span: Span) -> Result<()> {
        self.daemon.go_on()?;
        let_pass(span.warm_up).await;
        let before = self.daemon.completed().await?;
        let from = now();
        let_pass(span.measured).await;
        let mut to = now();
        // On a slow machine a short slice can end before a job does. Those that were being completed when it began do not count.
        let wanted = (before + self.crew.pools().others as u64 + 1).min(self.jobs);
        while self.daemon.completed().await? < wanted {
            let_pass(GRAIN).await;
            to = now();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crew_is_as_large_as_its_name_says() {
        let all = |crew: Crew| crew.pools().pending + crew.pools().others * daemon::OTHERS.len();
        assert_eq!((all(Crew::All(64)), Crew::All(64).name().as_str()), (64, "64 workers in all"));
        assert!(Crew::All(64).pools().others >= 10, "{:?}", Crew::All(64).pools());
        assert_eq!((all(ASKED), ASKED.name().as_str()), (6 * 64, "64 workers"));
    }
}
