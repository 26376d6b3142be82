//! How long a depositor waits until something happens: one batch of one job after another, on a node that has nothing
//! else to do.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use ingest_queue::date::Clock;
use ingest_queue::ids::Bid;
use ingest_queue::map::{self, QueueRef};
use ingest_queue::nodes::Submission;
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::{BatchState, JobState};
use ingest_store::{Event, TreeWatch};

use super::WORKERS;
use super::daemon::{Daemon, Pools};
use super::lives::Lives;
use crate::Context;
use crate::trees::{Trees, ZOOKEEPER};

/// At least so many are measured, and more while there is time.
const FEWEST: u64 = 50;

pub(super) fn case() -> String {
    format!("{ZOOKEEPER} latency")
}

pub(super) async fn measure(context: &Context, trees: &Trees, program: &Path) -> Result<()> {
    let _part = context.report.part(&case());
    let name = "latency";
    let tree = trees.open(ZOOKEEPER, name).await?;
    let queue = Queue::open(&tree.session, Settings::new("depositor"), Clock::system()).await?;
    let pools = Pools { pending: WORKERS, others: WORKERS };
    let daemon = Daemon::start(program, &trees.engine(ZOOKEEPER, name), pools).await?;
    let mut jobs = tree.session.watch_tree(map::JOB_STATES).await?;
    let mut batches = tree.session.watch_tree(map::BATCHES).await?;
    let (begun, mut times) = (Instant::now(), Vec::new());
    let (mut number, mut warm) = (0, false);
    while times.len() < usize::try_from(FEWEST)? || begun.elapsed() < context.span.measured {
        let asked = Instant::now();
        let bid = submit(&queue, number).await?;
        number += 1;
        arrives_in(JobState::Estimating, &mut jobs).await?;
        times.push(asked.elapsed());
        arrives_in(JobState::Completed, &mut jobs).await?;
        completed(&queue, bid, &mut batches).await?;
        if !warm && begun.elapsed() >= context.span.warm_up {
            (warm, times) = (true, Vec::new());
        }
    }
    drop(daemon.drain().await?);
    drop((jobs, batches, queue));
    Lives::read(&tree.session, number).await?;
    tree.close().await?;
    times.sort_unstable();
    for (what, percent) in [("median", 50), ("p99", 99)] {
        let at = (times.len() * percent / 100).min(times.len() - 1);
        let ms = times[at].as_secs_f64() * 1e3;
        let case = format!("{ZOOKEEPER} latency to the first transition, {what}");
        context.report.print(&context.report.row(case, ms, "ms"))?;
    }
    Ok(())
}

async fn submit(queue: &Queue, number: u64) -> Result<Bid> {
    let submission = Submission {
        profile_name: "herbarium_content".into(),
        submitter: "herbarium/curators".into(),
        payload_url: Some(format!("https://sheets.herbarium.example.org/{number:08}/sheet.tif")),
        payload_type: Some("file".into()),
        ..Submission::default()
    };
    let uuid = format!("6b1c2a1e-8d0a-4f2a-9d5e-{number:012x}");
    Ok(queue.create_batch(&uuid, &submission).await?.bid)
}

/// Waits until a job comes to a state.
async fn arrives_in(state: JobState, events: &mut TreeWatch) -> Result<()> {
    loop {
        match events.next().await {
            Event::Created(path) if QueueRef::from_path(&path).is_some_and(|entry| entry.state == state) => {
                return Ok(());
            }
            Event::Relist(_) | Event::Ended(_) => bail!("the events of the tree were interrupted"),
            _ => {}
        }
    }
}

/// Waits until a batch has been reported.
async fn completed(queue: &Queue, bid: Bid, events: &mut TreeWatch) -> Result<()> {
    let status = map::BatchNode::Status.of(bid);
    loop {
        match events.next().await {
            Event::Changed(path) if path == status => {
                let state = queue.batch(bid).await.context("the batch cannot be read")?.state();
                if state == BatchState::Completed {
                    return Ok(());
                }
                if state == BatchState::Failed {
                    bail!("{bid} has failed: {:?}", queue.batch(bid).await?);
                }
            }
            Event::Relist(_) | Event::Ended(_) => bail!("the events of the tree were interrupted"),
            _ => {}
        }
    }
}
