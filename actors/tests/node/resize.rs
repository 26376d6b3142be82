//! Pools change their sizes while they work, and nobody's work is ended for it.

use std::collections::BTreeMap;

use ingest_actors::node::Node;
use ingest_harness::FileServer;
use ingest_queue::states::{BatchList, BatchState, JobState};

use crate::kit::{self, On, Place};
use crate::trick::Trick;

fn resize(node: &Node, place: &Place, size: usize) {
    let mut settings = (**node.house().settings.load()).clone();
    settings.pools.downloading.size = size;
    node.apply(settings, place.steps("node-1"));
}

async fn downloads_follow_the_size_of_their_pool(on: On) {
    const JOBS: usize = 14;
    let state = JobState::Downloading;
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.close(state);
    let node =
        place.node_with("node-1", Some(trick.clone()), |node, _| node.pools.downloading.size = 2).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, JOBS), None)).await;
    trick.until("two downloads", |seen| seen.running(state) == 2).await;
    kit::waits(&node, state, "all others in line", |counts| counts.ready == JOBS - 2).await;
    assert_eq!(trick.seen(|seen| seen.most(state)), 2);
    resize(&node, &place, 8);
    trick.until("eight downloads", |seen| seen.running(state) == 8).await;
    resize(&node, &place, 1);
    // They run on, and nobody takes the place of those who end.
    for left in (1..8).rev() {
        trick.let_through(state, 1);
        trick.until("one less", |seen| seen.running(state) == left).await;
    }
    assert_eq!(trick.seen(|seen| seen.begun(state)), 8);
    trick.forget_the_most();
    trick.open(state);
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    assert_eq!(trick.seen(|seen| seen.most(state)), 1);
    let mut times = BTreeMap::new();
    trick.seen(|seen| seen.begun.clone()).iter().for_each(|begun| {
        *times.entry((begun.jid, begun.state.to_string())).or_insert(0) += 1;
    });
    assert!(times.values().all(|count| *count == 1), "{times:?}");
    for jid in kit::jobs(&queue, bid, BatchList::Completed).await {
        assert_eq!(kit::timeouts(&queue, jid).await, 0);
    }
    assert_eq!(node.restarts(9).unwrap(), []);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_follow_the_size_of_their_pool_embedded() {
    downloads_follow_the_size_of_their_pool(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_follow_the_size_of_their_pool_zookeeper() {
    downloads_follow_the_size_of_their_pool(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_nobody_takes_nothing_until_it_has_somebody() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let node = place
        .node_with("node-1", Some(trick.clone()), |node, _| {
            node.pools.downloading.size = 0;
            node.pools.provisioning.size = 0;
        })
        .await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    kit::waits(&node, JobState::Provisioning, "a job without room", |counts| counts.ready == 1).await;
    let mut settings = (**node.house().settings.load()).clone();
    settings.pools.provisioning.size = 1;
    node.apply(settings, place.steps("node-1"));
    kit::waits(&node, JobState::Downloading, "a job without a worker", |counts| counts.ready == 1).await;
    assert_eq!(trick.seen(|seen| seen.begun(JobState::Downloading)), 0);
    resize(&node, &place, 1);
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}
