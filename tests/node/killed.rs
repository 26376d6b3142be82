//! Nodes that are killed, again and again.

use std::time::{Duration, Instant};

use ingest_harness::{FileServer, let_pass};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::checks;
use crate::kit::{self, Node, many, seconds};
use crate::place::Place;

const BATCHES: usize = 6;
const JOBS: usize = 50;

fn seed() -> u64 {
    std::env::var("INGESTD_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random)
}

/// All nodes compare their index with the tree, and have nothing to put right.
async fn nothing_is_healed(nodes: &mut [Node]) {
    for node in nodes.iter_mut() {
        node.change("upkeep.every", "1s");
    }
    for node in nodes {
        let swept = node.says("the index was compared with the tree").await;
        assert_eq!(swept["healed"], 0, "{swept}");
        let healed = |line: &&serde_json::Value| line["healed"].as_u64().is_some_and(|count| count > 0);
        assert_eq!(node.all_lines().iter().find(healed), None);
    }
}

/// Where the nodes have their working directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// One for all.
    Shared,
    /// Each its own; jobs follow their files.
    Local,
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_nodes_one_is_killed_every_few_seconds_and_nothing_is_lost_or_doubled() {
    killed_again_and_again(Work::Shared, seconds("INGESTD_KILL_SECONDS", 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_nodes_with_disks_of_their_own_one_is_killed_every_few_seconds() {
    killed_again_and_again(Work::Local, seconds("INGESTD_KILL_SECONDS", 12)).await;
}

async fn killed_again_and_again(work: Work, lasts: Duration) {
    let seed = seed();
    println!("INGESTD_SEED={seed} repeats who is killed when ({work:?} working directories)");
    let mut chance = StdRng::seed_from_u64(seed);
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let place = Place::at(connect, Duration::from_secs(2));
    let files = FileServer::start().await;
    let mut nodes = Vec::new();
    for name in ["node-1", "node-2", "node-3"] {
        let setup = place.node(name);
        let own = place.path("work").join(name);
        nodes.push(match work {
            Work::Shared => setup.start(),
            Work::Local => setup.set("work.dir", own.to_str().unwrap()).start(),
        });
    }
    for node in &nodes {
        node.ready().await;
    }
    let queue = place.queue().await;
    let (began, mut bids, mut kills) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < lasts {
        // So that there is work all the time.
        let each = lasts / u32::try_from(BATCHES).unwrap();
        while bids.len() < BATCHES && each * u32::try_from(bids.len()).unwrap() <= began.elapsed() {
            bids.push(kit::submit(&queue, many(&files, &format!("batch{}", bids.len()), JOBS)).await);
        }
        let_pass(Duration::from_millis(chance.random_range(500..3500))).await;
        let unlucky = chance.random_range(0..nodes.len());
        nodes[unlucky].replace().await;
        kills += 1;
    }
    while bids.len() < BATCHES {
        bids.push(kit::submit(&queue, many(&files, &format!("batch{}", bids.len()), JOBS)).await);
    }
    for bid in &bids {
        checks::completed_once(&queue, *bid, JOBS).await;
    }
    println!("{} jobs, {kills} kills in {lasts:?}, all done after {:?}", BATCHES * JOBS, began.elapsed());
    checks::clean(&queue).await;
    checks::one_report_each(&place, &bids);
    let local_ids = (0..BATCHES).flat_map(|batch| (0..JOBS).map(move |n| format!("batch{batch}-{n}")));
    checks::one_object_each(&place, local_ids).await;
    match work {
        Work::Shared => place.nothing_left("work").await,
        Work::Local => {
            for node in &nodes {
                place.nothing_left(&format!("work/{}", node.name())).await;
            }
        }
    }
    nothing_is_healed(&mut nodes).await;
    for node in &nodes {
        assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    }
    checks::clean(&queue).await;
}
