//! Whoever dies too often takes its supervisor along, and at last the node, which says why.

use std::time::Duration;

use ingest_actors::node::End;
use ingest_actors::settings::Settings;
use ingest_harness::FileServer;
use ingest_queue::states::{BatchList, BatchState, JobState};

use crate::kit::{self, On, Place};
use crate::trick::{Act, Trick};

fn impatient(node: &mut Settings) {
    node.pools.downloading.size = 1;
    node.queue.max_timeouts = 1_000;
    node.supervision.max_restarts = 1;
    node.supervision.backoff = Duration::from_millis(1);
}

async fn a_worker_that_cannot_live_ends_the_node(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.next(JobState::Downloading, [Act::Panic; 100]);
    let node = place.node_with("node-1", Some(trick.clone()), |node, _| impatient(node)).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    let End::GaveUp(why) = node.ended().await else { panic!("it did not give up") };
    assert_eq!(
        why,
        "pools died 2 times, most recently: the pool downloading died 2 times, most recently: \
         downloading-0 died 2 times, most recently: no bread in downloading"
    );
    // Two workers for each life of a pool, two pools for each life of Pools, two of those.
    assert_eq!(trick.seen(|seen| seen.begun(JobState::Downloading)), 8);
    let restarts = node.restarts(1_000).unwrap();
    let of = |actor: &str| restarts.iter().filter(|restart| restart.actor == actor).count();
    assert_eq!((of("downloading-0"), of("pool downloading"), of("pools")), (8, 4, 2));
    assert!(restarts.iter().all(|restart| restart.location.as_deref().unwrap().contains("trick.rs:")));
    assert_eq!(kit::components(&queue).await, []);
    kit::clean(&queue).await;
    // It was the node's fault, not the job's.
    let work = place.work("node-1");
    let next = place.node_with("node-2", None, |_, steps| steps.work.dir = work).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
    assert_eq!(kit::timeouts(&queue, jid).await, 8);
    kit::clean(&queue).await;
    kit::drained(next).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_live_ends_the_node_with_a_last_word_embedded() {
    a_worker_that_cannot_live_ends_the_node(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_live_ends_the_node_with_a_last_word_zookeeper() {
    a_worker_that_cannot_live_ends_the_node(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_the_root_that_dies_too_often_ends_the_node() {
    let place = Place::new(On::Embedded).await;
    let node = place.node_with("node-1", None, |node, _| impatient(node)).await;
    for _ in 0..2 {
        assert!(node.ready().await);
        let tree = node.tree();
        tree.children.iter().find(|child| child.name == "janitor").unwrap().cell.kill();
        kit::restarted(&node, "janitor").await;
        ingest_harness::eventually("a new janitor, or the end", kit::PATIENCE, || async {
            let before = tree.children.iter().find(|child| child.name == "janitor")?.cell.get_id();
            let now = node.tree();
            let now =
                now.children.iter().find(|child| child.name == "janitor").map(|child| child.cell.get_id());
            (now != Some(before)).then_some(())
        })
        .await;
    }
    assert_eq!(node.ended().await, End::GaveUp("janitor died 2 times, most recently: it was killed".into()));
    kit::clean(&place.queue().await).await;
}
