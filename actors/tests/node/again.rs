//! How long it takes from a worker's panic until the same job runs again: a few round trips to the tree, and no timer.

use std::time::{Duration, Instant};

use ingest_harness::{Direction, FileServer, Proxy, RequestKind};
use ingest_queue::states::{BatchState, JobState};

use crate::kit::{self, Place};
use crate::trick::{Act, Trick};

/// The median time of a look at a node through the proxy.
async fn round_trip(place: &Place) -> Duration {
    let session = place.store().session().await.unwrap();
    let mut times = Vec::new();
    for _ in 0..15 {
        let begin = Instant::now();
        session.exists("/jobs").await.unwrap();
        times.push(begin.elapsed());
    }
    session.close().await.unwrap();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Requests of the node, without pings.
fn requests(proxy: &Proxy) -> u64 {
    proxy.counts().iter().filter(|(kind, _)| **kind != RequestKind::Ping).map(|(_, count)| *count).sum()
}

/// Each way is made longer, so that round trips and nothing else are what takes time. A pause of the node's own would
/// not fit into what is allowed: the shortest that it has is half a second, which is all of it.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_panic_the_same_job_runs_again_within_ten_round_trips() {
    let (place, proxy) = Place::behind_a_proxy().await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let node = place
        .node_with("node-1", Some(trick.clone()), |node, _| {
            // What would be a pause after each death but the first.
            node.supervision.backoff = Duration::from_secs(30);
        })
        .await;
    let queue = place.queue().await;
    proxy.delay(Direction::Both, Duration::from_millis(25));
    let one = round_trip(&place).await;
    let mut all = Vec::new();
    // Each state has a pool of its own, so that each death is the first.
    for state in [
        JobState::Notify,
        JobState::Downloading,
        JobState::Processing,
        JobState::Recording,
        JobState::Estimating,
    ] {
        trick.next(state, [Act::Panic]);
        let before = trick.seen(|seen| seen.begun(state));
        let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
        trick.until("the panic", |seen| seen.begun(state) == before + 1).await;
        let sent = requests(&proxy);
        trick.until("the next try", |seen| seen.begun(state) == before + 2).await;
        let sent = requests(&proxy) - sent;
        let [first, second] = trick.seen(|seen| {
            let mut of = seen.begun.iter().rev().filter(|begun| begun.state == state);
            let second = *of.next().unwrap();
            [*of.next().unwrap(), second]
        });
        assert_eq!(first.jid, second.jid);
        assert_eq!(second.attempt, first.attempt + 1);
        let trips = (second.at - first.at).as_secs_f64() / one.as_secs_f64();
        println!("{state}: {trips:.1} round trips of {one:?}, {sent} requests of the whole node meanwhile");
        all.push(trips);
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    // Others work on this machine, too: most of them, not each.
    all.sort_by(f64::total_cmp);
    assert!(all[all.len() / 2] <= 10.0, "{all:?}");
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}
