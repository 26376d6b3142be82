//! People hold a queue or a collection, and release it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ingest_harness::let_pass;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::states::{BatchState, JobState};
use reqwest::Method;
use serde_json::json;

use super::super::deposit::COLLECTIONS;
use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::{LOOK, World};
use super::super::{load, people};

const SEEN_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn hold(world: &World, planned: &Planned) -> Result<Outcome> {
    if planned.variant.is_multiple_of(2) {
        queue(world, planned).await
    } else {
        let of = usize::try_from(planned.variant / 2).unwrap_or(0) % COLLECTIONS.len();
        collection(world, planned, COLLECTIONS[of]).await
    }
}

async fn pending(world: &World) -> Result<BTreeSet<Jid>> {
    Ok(world.jobs([JobState::Pending]).await?.into_iter().map(|job| job.jid).collect())
}

/// Nothing leaves pending while the queue is held.
async fn queue(world: &World, planned: &Planned) -> Result<Outcome> {
    const PATH: &str = "/api/v1/holds/queues/ingest";
    people::insist(world, planned.node, Method::PUT, PATH, Some(&json!({"reason": "chaos"}))).await?;
    load::submit(world, None).await?;
    let until = Instant::now() + SEEN_WITHIN;
    let mut before = pending(world).await?;
    while before.is_empty() && Instant::now() < until {
        let_pass(LOOK).await;
        before = pending(world).await?;
    }
    let_pass(planned.lasts).await;
    let after = pending(world).await?;
    let moved: Vec<_> = before.difference(&after).collect();
    people::insist(world, planned.node, Method::DELETE, PATH, None).await?;
    ensure!(moved.is_empty(), "jobs have left pending while the queue was held: {moved:?}");
    let text = format!("the ingest queue, {} jobs waited", before.len());
    Ok(if before.is_empty() { Outcome::Missed(text) } else { Outcome::Witnessed(text) })
}

async fn state(world: &World, bid: Bid) -> Option<BatchState> {
    world.queue.batch(bid).await.ok().map(|batch| batch.state())
}

/// A batch of a collection that is held becomes held, and stays so.
async fn collection(world: &World, planned: &Planned, name: &'static str) -> Result<Outcome> {
    let path = format!("/api/v1/holds/collections/{name}");
    people::insist(world, planned.node, Method::PUT, &path, Some(&json!({"reason": "chaos"}))).await?;
    let bid = load::submit(world, Some(name)).await?;
    let until = Instant::now() + SEEN_WITHIN;
    while state(world, bid).await != Some(BatchState::Held) && Instant::now() < until {
        let_pass(LOOK).await;
    }
    let held = state(world, bid).await == Some(BatchState::Held);
    let_pass(planned.lasts).await;
    let still = !held || state(world, bid).await.is_none_or(|state| state == BatchState::Held);
    let all = format!("{path}?all=true");
    let released = people::insist(world, planned.node, Method::DELETE, &all, None).await?;
    ensure!(still, "{bid} has moved while its collection was held");
    let text = format!("collection {name}, {bid} waited; released {}", released["released"]);
    Ok(if held { Outcome::Witnessed(text) } else { Outcome::Missed(text) })
}
