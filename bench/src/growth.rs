//! How the time that a job takes grows with the number of jobs and of nodes: `bench -- growth [--rows N] [--docs]`.
//!
//! For each number of jobs (1,000, 10,000 and 100,000; with `--rows` those up to N) and of nodes (1, 2, 3) a ZooKeeper server is
//! started, which holds nothing of the points before. It is warmed up by the bare client and by a node, the same for every point. Then
//! its tree gets the jobs, in one batch, while the queue is held, the nodes are started, each a process with steps that do nothing, and the
//! queue is released. The time counts until the batch has been found done.
//!
//! A point has the time per job: all of the time, by all of the jobs. The jobs are whole lives of seven transitions: all of them per second
//! are compared with the bare client's multis, 64 in flight, on the same server just before and just after. What the nodes count of races
//! that they have lost stands beside that ([`fights`]). Afterwards all jobs must be completed, and fsck must be clean.
//!
//! `--docs` writes the table and the plot into `docs/performance.md` and `docs/images/growth.svg`, and wants all of it measured.

mod fights;
mod page;
mod plot;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ingest_queue::ids::Bid;
use ingest_queue::map::{self, BatchNode, HeldQueue};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState};
use tokio::time::timeout;

use self::fights::Fights;
use crate::Context;
use crate::ceiling::{Ceiling, IN_FLIGHT};
use crate::deposit::{Deposit, ROWS, new_jobs};
use crate::load::Span;
use crate::node::TRANSITIONS;
use crate::node::daemon::{self, Home, Pools};
use crate::trees::{self, Trees, ZOOKEEPER};

const JOBS: [u64; 3] = [1_000, 10_000, 100_000];
const NODES: [usize; 3] = [1, 2, 3];
const WORKERS: usize = IN_FLIGHT;
/// Nobody needs so long for all of them.
const PATIENCE: Duration = Duration::from_mins(20);
/// The longest that the bare client is measured, before and after.
const BASELINE: Duration = Duration::from_secs(3);
/// How many jobs a node works on for each server to compile itself; fewer if nobody judges by it.
const WARM_UP: u64 = 10_000;
const SHORT_WARM_UP: u64 = 1_000;

fn case(jobs: u64, nodes: usize) -> String {
    format!("{ZOOKEEPER} {jobs} jobs, {nodes} node{}", if nodes == 1 { "" } else { "s" })
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
struct Point {
    jobs: u64,
    nodes: usize,
    ms: f64,
    /// Of all transitions, to those of the bare client.
    ratio: f64,
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    if context.docs {
        page::is_whole(context.rows, context.case.as_deref())?;
    }
    let most = context.rows.unwrap_or(u64::MAX);
    let all = || JOBS.into_iter().flat_map(|jobs| NODES.map(|nodes| (jobs, nodes)));
    let chosen: Vec<_> =
        all().filter(|(jobs, nodes)| *jobs <= most && context.wants(&case(*jobs, *nodes))).collect();
    if chosen.is_empty() {
        let known: Vec<_> = all().map(|(jobs, nodes)| case(jobs, nodes)).collect();
        bail!("no such case; known are: {}", known.join(", "));
    }
    let program = daemon::program()?;
    // Each after its server has been warmed up.
    context.report.plan(2 * chosen.len());
    let mut points = Vec::new();
    for (jobs, nodes) in chosen {
        points.push(point(&context, &program, jobs, nodes).await.with_context(|| case(jobs, nodes))?);
    }
    if context.docs {
        page::write(Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no directory above")?, &points)?;
    }
    Ok(())
}

/// One point on a server of its own.
async fn point(context: &Context, program: &Path, jobs: u64, nodes: usize) -> Result<Point> {
    let case = case(jobs, nodes);
    let trees = Trees::start().await?;
    let mut ceiling = Ceiling::warmed_up(&trees, context).await?;
    let _part = context.report.part(&case);
    let warm_up = if context.judges() { WARM_UP } else { SHORT_WARM_UP };
    lived(&trees, program, "warm", warm_up, 1).await?;
    let before = bare(&trees, &mut ceiling, context).await?;
    let lived = lived(&trees, program, "growth", jobs, nodes).await?;
    let after = bare(&trees, &mut ceiling, context).await?;
    ceiling.reader.close().await?;
    verify(&trees, "growth", lived.bid, jobs).await?;
    // Far below the 2^52 that a float counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let count = jobs as f64;
    let seconds = lived.took.as_secs_f64();
    let report = &context.report;
    report.print(&report.row(format!("{case}, a job"), seconds * 1e6 / count, "us"))?;
    let transitions = count * f64::from(TRANSITIONS) / seconds;
    let row = report
        .row(format!("{case}, transitions"), transitions, "per_s")
        .against(Ceiling::name(), f64::midpoint(before, after));
    report.print(&row)?;
    report.print(&report.row(format!("{case}, commits refused"), lived.fights.refused, "commits"))?;
    report.print(&report.row(format!("{case}, handed over"), lived.fights.handed_over, "moves"))?;
    let ratio = row.ratio.context("a row without a ratio")?;
    Ok(Point { jobs, nodes, ms: seconds * 1e3 / count, ratio })
}

/// Transitions per second by the bare client, on the same server.
async fn bare(trees: &Trees, ceiling: &mut Ceiling, context: &Context) -> Result<f64> {
    // Its session would have to last while the nodes are at work.
    ceiling.bare = trees.bare("ceiling").await?;
    let mut running = ceiling.begin().await?;
    let span = Span::measuring(context.span.measured.min(BASELINE));
    let per_s = running.go_on(span).await.with_context(Ceiling::name)?;
    running.end().await?;
    Ok(per_s)
}

/// What became of a batch.
struct Lived {
    bid: Bid,
    took: Duration,
    fights: Fights,
}

/// Lets so many nodes work on so many jobs.
async fn lived(trees: &Trees, program: &Path, name: &str, jobs: u64, nodes: usize) -> Result<Lived> {
    let tree = trees.open(ZOOKEEPER, name).await?;
    let mut deposit = Deposit::begin(&tree.session, jobs).await?;
    deposit.queue.hold_queue(HeldQueue::Ingest, "bench", "until all nodes are there").await?;
    while deposit.next() < jobs {
        let rows = usize::try_from(jobs - deposit.next())?.min(ROWS);
        deposit.expand(&new_jobs(deposit.next(), rows)).await?;
    }
    let bid = deposit.bid();
    let queue = deposit.end().await?;
    let pools = Pools { pending: WORKERS, others: WORKERS };
    let mut daemons = Vec::new();
    for number in 1..=nodes {
        let home = Home::of(&format!("node-{number}"), &trees.engine(ZOOKEEPER, name))?;
        daemons.push(home.start(program, pools).await?);
    }
    let began = Instant::now();
    queue.release_queue(HeldQueue::Ingest).await?;
    timeout(PATIENCE, done(&queue, bid)).await.context("they do not come to an end")??;
    let took = began.elapsed();
    let fights = Fights::of(&daemons).await?;
    for daemon in daemons {
        drop(daemon.drain().await?);
    }
    drop(queue);
    tree.close().await?;
    Ok(Lived { bid, took, fights })
}

/// Waits until all jobs of a batch have ended.
async fn done(queue: &Queue, bid: Bid) -> Result<()> {
    loop {
        let (_, changed) = queue.session().watch_exists(BatchNode::Status.of(bid)).await?;
        if queue.batch(bid).await?.state() != BatchState::Processing {
            return Ok(());
        }
        changed.woken().await;
    }
}

/// All jobs of the batch are completed, and nothing is wrong with the tree.
async fn verify(trees: &Trees, name: &str, bid: Bid, jobs: u64) -> Result<()> {
    let tree = trees.open(ZOOKEEPER, name).await?;
    let list = map::batch_list(bid, BatchList::Completed);
    let completed = tree.session.exists(list).await?.map_or(0, |stat| stat.num_children);
    ensure!(u64::try_from(completed)? == jobs, "{completed} of {jobs} jobs are completed");
    trees::check(&tree.session).await?;
    tree.close().await
}
