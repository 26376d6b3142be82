//! How the time that a job takes grows with the number of jobs and of nodes: `bench -- growth [--rows N] [--docs]`.
//!
//! For each number of jobs (1,000, 10,000 and 100,000; with `--rows` those up to N) and of nodes (1, 2, 3) a tree on a ZooKeeper server gets
//! its jobs, in one batch, while the queue is held. Then the nodes are started, each a process with steps that do nothing, and the queue
//! is released. The time counts until the batch has been found done. A row is the time per job: all of the time, by all of the jobs.
//! The jobs are whole lives of seven transitions; afterwards all of them must be completed, and fsck must be clean.
//!
//! `--docs` writes the table and the plot into `docs/performance.md` and `docs/images/growth.svg`.

mod plot;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use ingest_queue::dialect::Dialect;
use ingest_queue::fsck;
use ingest_queue::ids::Bid;
use ingest_queue::map::{self, BatchNode, HeldQueue};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState};
use tokio::time::timeout;

use self::plot::{Line, Plot};
use crate::Context;
use crate::deposit::{Deposit, ROWS, new_jobs};
use crate::node::daemon::{self, Home, Pools};
use crate::trees::{Trees, ZOOKEEPER};

const JOBS: [u64; 3] = [1_000, 10_000, 100_000];
const NODES: [usize; 3] = [1, 2, 3];
const WORKERS: usize = 64;
/// Nobody needs so long for all of them.
const PATIENCE: Duration = Duration::from_mins(20);
/// Up to here the whole tree is checked afterwards.
const CHECKED: u64 = 10_000;

const PAGE: &str = "docs/performance.md";
const PICTURE: &str = "docs/images/growth.svg";
const BEGIN: &str = "<!-- growth: written by `bench -- growth --docs` -->";
const END: &str = "<!-- /growth -->";

fn case(jobs: u64, nodes: usize) -> String {
    format!("{ZOOKEEPER} {jobs} jobs, {nodes} node{}", if nodes == 1 { "" } else { "s" })
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
struct Point {
    jobs: u64,
    nodes: usize,
    ms: f64,
}

/// Runs the benchmark.
pub(crate) async fn run(context: Context) -> Result<()> {
    let most = context.rows.unwrap_or(u64::MAX);
    let all = || JOBS.into_iter().flat_map(|jobs| NODES.map(|nodes| (jobs, nodes)));
    let chosen: Vec<_> =
        all().filter(|(jobs, nodes)| *jobs <= most && context.wants(&case(*jobs, *nodes))).collect();
    if chosen.is_empty() {
        let known: Vec<_> = all().map(|(jobs, nodes)| case(jobs, nodes)).collect();
        bail!("no such case; known are: {}", known.join(", "));
    }
    let program = daemon::program()?;
    // One more, which warms the server up.
    context.report.plan(chosen.len() + 1);
    let trees = Trees::start().await?;
    {
        let _part = context.report.part("warming up");
        measure(&trees, &program, "warm", JOBS[0], 1).await?;
    }
    let mut points = Vec::new();
    for (jobs, nodes) in chosen {
        let case = case(jobs, nodes);
        let _part = context.report.part(&case);
        let took = measure(&trees, &program, &format!("growth-{jobs}-{nodes}"), jobs, nodes).await;
        // Far below the 2^52 that a float counts exactly.
        #[allow(clippy::cast_precision_loss)]
        let ms = took.with_context(|| case.clone())?.as_secs_f64() * 1e3 / jobs as f64;
        points.push(Point { jobs, nodes, ms });
        let row = context.report.row(format!("{case}, a job"), ms * 1e3, "us");
        context.report.print(&row)?;
    }
    if context.docs {
        write(Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no directory above")?, &points)?;
    }
    Ok(())
}

/// How long so many nodes take for so many jobs.
async fn measure(trees: &Trees, program: &Path, name: &str, jobs: u64, nodes: usize) -> Result<Duration> {
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
    for daemon in daemons {
        drop(daemon.drain().await?);
    }
    let list = map::batch_list(bid, BatchList::Completed);
    let completed = tree.session.exists(list).await?.map_or(0, |stat| stat.num_children);
    ensure!(u64::try_from(completed)? == jobs, "{completed} of {jobs} jobs are completed");
    if jobs <= CHECKED {
        let clean = fsck::clean(&tree.session, Dialect::Design).await;
        ensure!(clean.is_ok(), "the tree is not clean: {clean:?}");
    }
    drop(queue);
    tree.close().await?;
    Ok(took)
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

/// Writes the table into the page, and the plot beside it.
fn write(root: &Path, points: &[Point]) -> Result<()> {
    let page = root.join(PAGE);
    let text = std::fs::read_to_string(&page).with_context(|| PAGE.to_owned())?;
    let (before, rest) =
        text.split_once(BEGIN).with_context(|| format!("{PAGE} has no place for it: {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no {END}"))?;
    std::fs::write(&page, format!("{before}{BEGIN}\n{}\n{END}{after}", table(points)))?;
    std::fs::write(root.join(PICTURE), picture(points).svg())?;
    Ok(())
}

fn table(points: &[Point]) -> String {
    let mut nodes: Vec<usize> = points.iter().map(|point| point.nodes).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let heads: Vec<String> =
        nodes.iter().map(|nodes| format!("{nodes} node{}", if *nodes == 1 { "" } else { "s" })).collect();
    let mut table = format!("| jobs | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    let mut jobs: Vec<u64> = points.iter().map(|point| point.jobs).collect();
    jobs.sort_unstable();
    jobs.dedup();
    for jobs in jobs {
        let cell = |nodes: &usize| {
            let found = points.iter().find(|point| point.jobs == jobs && point.nodes == *nodes);
            found.map_or_else(|| "–".to_owned(), |point| format!("{:.2} ms", point.ms))
        };
        let cells: Vec<String> = nodes.iter().map(cell).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {jobs} | {} |", cells.join(" | "));
    }
    table + "\n![The time that a job takes, by the number of jobs and of nodes](images/growth.svg)"
}

fn picture(points: &[Point]) -> Plot {
    let line = |nodes: usize| Line {
        name: format!("{nodes} node{}", if nodes == 1 { "" } else { "s" }),
        // A thousand to a million: exact in a float.
        #[allow(clippy::cast_precision_loss)]
        points: points
            .iter()
            .filter(|point| point.nodes == nodes)
            .map(|point| (point.jobs as f64, point.ms))
            .collect(),
    };
    Plot {
        title: "Time per job".to_owned(),
        across: "jobs in the batch".to_owned(),
        up: "ms".to_owned(),
        lines: NODES.map(line).into_iter().filter(|line| !line.points.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Point> {
        let point = |jobs, nodes, ms| Point { jobs, nodes, ms };
        vec![point(1_000, 1, 0.51), point(1_000, 2, 0.6), point(10_000, 1, 0.5)]
    }

    #[test]
    fn the_table_and_the_plot_go_into_their_place_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("docs/images")).unwrap();
        let page = dir.path().join(PAGE);
        std::fs::write(&page, format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        write(dir.path(), &points()).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.starts_with(&format!("before\n{BEGIN}\n| jobs | 1 node | 2 nodes |\n")), "{text}");
        assert!(text.contains("| 1000 | 0.51 ms | 0.60 ms |\n| 10000 | 0.50 ms | – |\n"), "{text}");
        assert!(text.ends_with(&format!("{END}\nafter\n")) && !text.contains("old"), "{text}");
        let svg = std::fs::read_to_string(dir.path().join(PICTURE)).unwrap();
        assert_eq!(svg.matches("<polyline").count(), 2);
        std::fs::write(&page, "no place").unwrap();
        assert!(write(dir.path(), &points()).unwrap_err().to_string().contains("no place for it"));
    }
}
