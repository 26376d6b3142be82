//! The end of the faults: everything is healed, and whatever can still come to its end does.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ingest_harness::let_pass;
use ingest_queue::ids::Bid;
use ingest_queue::map::{BatchNode, QueueRef};
use ingest_queue::states::JobState;
use reqwest::Method;
use serde_json::{Value, json};

use super::deposit::{COLLECTIONS, Fate};
use super::faults::bulk::bulk;
use super::judge::jobs::{self, Job};
use super::people;
use super::world::{WAITING, World, working};

/// So long nothing may change while something is under way.
const STALL: Duration = Duration::from_mins(5);
const LOOK: Duration = Duration::from_millis(300);
/// How often what failed is requeued.
const ROUNDS: usize = 3;

/// How many reports each batch may have: one, and one for each time that somebody wanted another.
pub(crate) type Reports = BTreeMap<Bid, u32>;

/// Heals everything, and waits until nothing is under way any more.
pub(crate) async fn settle(world: &World) -> Result<Reports> {
    world.members.iter().for_each(super::member::Member::heal);
    world.ensemble.heal().await;
    people::insist(world, 0, Method::DELETE, "/api/v1/holds/queues/ingest", None).await?;
    for name in COLLECTIONS {
        let path = format!("/api/v1/holds/collections/{name}?all=true");
        people::insist(world, 0, Method::DELETE, &path, None).await?;
    }
    world.ledger.repair_sources();
    quiet(world).await?;
    for round in 0..ROUNDS {
        let failed = jobs::failed(world, &[Fate::Good, Fate::Missing]).await?;
        if failed.is_empty() {
            break;
        }
        world.book.tell(&format!("{} jobs have failed that can be done; requeued", failed.len()));
        bulk(world, round, &format!("chaos-end-{round}"), "requeue", &["failed"], json!({})).await?;
        quiet(world).await?;
    }
    report_again(world).await
}

/// Asks for another report of every batch that has failed.
async fn report_again(world: &World) -> Result<Reports> {
    let mut reports: Reports = world.ledger.made().iter().map(|made| (made.bid, 1)).collect();
    for (bid, state) in batches(world).await? {
        if state == "failed" {
            let path = format!("/api/v1/batches/{bid}/update-report");
            let answer = people::settle(world, 0, Method::POST, &path, Some(&json!({}))).await?;
            if answer.status.is_success() {
                *reports.entry(bid).or_default() += 1;
            }
        }
    }
    quiet(world).await?;
    Ok(reports)
}

/// The states of all batches.
pub(crate) async fn batches(world: &World) -> Result<Vec<(Bid, String)>> {
    let bids: Vec<Bid> = world.ledger.made().iter().map(|made| made.bid).collect();
    let paths: Vec<String> = bids.iter().map(|bid| BatchNode::Status.of(*bid)).collect();
    let found = world.get_all(paths).await?;
    let state = |node: Option<bytes::Bytes>| {
        let status = node.and_then(|data| serde_json::from_slice::<Value>(&data).ok());
        status.and_then(|status| Some(status["status"].as_str()?.to_owned())).unwrap_or_default()
    };
    Ok(bids.into_iter().zip(found.into_iter().map(state)).collect())
}

/// Waits until no job is under way, and every batch has been reported.
async fn quiet(world: &World) -> Result<()> {
    let (mut last, mut since) = (String::new(), Instant::now());
    loop {
        let under_way = world.jobs(WAITING.into_iter().chain(working())).await?;
        let mut left: Vec<String> = under_way.into_iter().map(QueueRef::path).collect();
        if left.is_empty() {
            let open = batches(world).await?.into_iter();
            let open = open.filter(|(_, state)| !matches!(state.as_str(), "completed" | "failed"));
            left.extend(open.map(|(bid, state)| format!("{bid} is {state:?}")));
        }
        if left.is_empty() {
            return Ok(());
        }
        let now = left.join("\n");
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > STALL {
            bail!("this does not come to its end:\n{}", explain(world, &left).await);
        }
        let_pass(LOOK).await;
    }
}

/// What is known of the first of those that are left.
async fn explain(world: &World, left: &[String]) -> String {
    let mut text = left.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    let all = jobs::all(world).await.unwrap_or_default();
    let stuck = |job: &&Job| !matches!(job.state, Some(JobState::Completed | JobState::Failed));
    for job in all.iter().filter(stuck).take(3) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{job:#?}");
    }
    text
}
