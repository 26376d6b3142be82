//! When feeds are divided anew: not with every coming and going, and not never.
//!
//! Invariants: a node that goes and comes back before it has been quiet for `workers.settle` costs nobody else a feed, and the
//! division moves once. However often workers come and go meanwhile, feeds are divided after five times that at the latest.

use std::time::Duration;

use ingest_actors::node::Node;
use ingest_harness::eventually;
use ingest_queue::feeds::Qid;
use ingest_queue::map;
use ingest_queue::nodes::WorkerNode;
use ingest_queue::queue::Queue;

use crate::feeds::{Boxes, even, settled, worker};
use crate::kit::{self, On, PATIENCE, Place};

const FEEDS: usize = 6;

/// From now on the first node waits so long until it has been quiet.
fn settle_for(place: &Place, boxes: &Boxes, first: &Node, settle: Duration) {
    let (mut node, mut steps) = ((**first.house().settings.load()).clone(), place.steps("first"));
    boxes.configure(&mut node, &mut steps);
    node.workers.settle = settle;
    first.apply(node, steps);
}

/// How often the feeds have been divided.
async fn divisions(queue: &Queue) -> i32 {
    queue.session().exists(map::WORKERS).await.unwrap().unwrap().version
}

/// A feed that a node consumes is asked: what the node was told before that it has done when this returns.
async fn has_heard(queue: &Queue, node: &str) {
    let owned = eventually(&format!("a feed of {node}"), PATIENCE, || async {
        let listed = queue.list_feeds().await.ok()?;
        listed.into_iter().find(|one| one.owner.as_ref().is_some_and(|owner| owner.node == node))
    })
    .await;
    let qid = owned.feed.qid;
    queue.ask_feed(qid, "ann").await.unwrap();
    eventually(&format!("{node} to ask a feed"), PATIENCE, || async {
        let listed = queue.list_feeds().await.ok()?;
        listed.iter().any(|one| one.feed.qid == qid && !one.asked).then_some(())
    })
    .await;
}

async fn a_node_that_comes_back_in_time_takes_its_own_feeds_and_nobody_elses(on: On) {
    let (place, recorder) = Place::recorded(on).await;
    let boxes = Boxes::new(&place, FEEDS);
    let (first, other) = (worker(&place, &boxes, "first").await, worker(&place, &boxes, "other").await);
    let queue = place.queue().await;
    even(&settled(&queue, 2, FEEDS).await);
    // What is in the tree is seen there before the node that put it there has its answer, and counts it.
    for node in ["first", "other"] {
        has_heard(&queue, node).await;
    }
    let (divided, taken) = (divisions(&queue).await, recorder.taken());
    // Nobody here waits for that long: what is divided before it is back is divided too early.
    settle_for(&place, &boxes, &first, 100 * PATIENCE);
    kit::drained(other).await;
    eventually("only the first", PATIENCE, || async {
        (queue.workers().await.ok()?.all.len() == 1).then_some(())
    })
    .await;
    // It looks at the workers, and then at what it is asked after that.
    settle_for(&place, &boxes, &first, 100 * PATIENCE);
    has_heard(&queue, "first").await;
    assert_eq!((divisions(&queue).await, recorder.taken()), (divided, taken));
    settle_for(&place, &boxes, &first, Duration::from_millis(50));
    let other = worker(&place, &boxes, "other").await;
    even(&settled(&queue, 2, FEEDS).await);
    eventually("half of the feeds to be taken", PATIENCE, || async {
        (recorder.taken() >= taken + FEEDS / 2).then_some(())
    })
    .await;
    assert_eq!((divisions(&queue).await, recorder.taken()), (divided + 1, taken + FEEDS / 2));
    kit::clean(&queue).await;
    for node in [first, other] {
        kit::drained(node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_in_time_takes_its_own_feeds_and_nobody_elses_embedded() {
    a_node_that_comes_back_in_time_takes_its_own_feeds_and_nobody_elses(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_in_time_takes_its_own_feeds_and_nobody_elses_zookeeper() {
    a_node_that_comes_back_in_time_takes_its_own_feeds_and_nobody_elses(On::Zookeeper).await;
}

async fn feeds_are_divided_though_it_is_never_quiet(on: On) {
    let place = Place::new(on).await;
    let boxes = Boxes::new(&place, FEEDS);
    let first = worker(&place, &boxes, "first").await;
    let (queue, restless) = (place.queue().await, place.queue().await);
    settled(&queue, 1, FEEDS).await;
    settle_for(&place, &boxes, &first, Duration::from_millis(500));
    // It offers something else all the time, far more often than that.
    let offers =
        |qids: &[Qid]| WorkerNode { offers: qids.to_vec(), node: "restless".into(), ..WorkerNode::default() };
    let at = restless.register_worker(&offers(&[])).await.unwrap();
    let divided = divisions(&queue).await;
    let other = worker(&place, &boxes, "other").await;
    let nowhere = [Qid::of("nowhere")];
    eventually("another division", PATIENCE, || async {
        for some in [&nowhere[..], &[]] {
            restless.update_worker(&at, &offers(some)).await.unwrap();
        }
        (divisions(&queue).await > divided).then_some(())
    })
    .await;
    restless.session().close().await.unwrap();
    even(&settled(&queue, 2, FEEDS).await);
    kit::clean(&queue).await;
    for node in [first, other] {
        kit::drained(node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_are_divided_though_it_is_never_quiet_embedded() {
    feeds_are_divided_though_it_is_never_quiet(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_are_divided_though_it_is_never_quiet_zookeeper() {
    feeds_are_divided_though_it_is_never_quiet(On::Zookeeper).await;
}
