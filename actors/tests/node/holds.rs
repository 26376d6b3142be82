//! Holds and pauses, set while nodes run: nothing new begins, what runs goes on, and the release is an event.

use std::sync::Arc;

use ingest_actors::node::Node;
use ingest_harness::FileServer;
use ingest_queue::ids::Bid;
use ingest_queue::index::Counts;
use ingest_queue::map::{BatchNode, HeldQueue};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};

use crate::kit::{self, On, Place};
use crate::trick::Trick;

/// Two nodes that share everything, and a download that waits at its door.
struct Two {
    place: Place,
    files: FileServer,
    tricks: [Arc<Trick>; 2],
    nodes: [Node; 2],
    queue: Queue,
    running: Bid,
}

impl Two {
    async fn new(on: On) -> Self {
        let place = Place::new(on).await;
        let files = FileServer::start().await;
        let tricks = [Trick::real(), Trick::real()];
        for trick in &tricks {
            trick.close(JobState::Downloading);
        }
        let work = place.work("both");
        let node = async |name: &str, trick: &Arc<Trick>| {
            place.node_with(name, Some(trick.clone()), |_, steps| steps.work.dir.clone_from(&work)).await
        };
        let nodes = [node("node-1", &tricks[0]).await, node("node-2", &tricks[1]).await];
        let queue = place.queue().await;
        let running = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
        let two = Self { place, files, tricks, nodes, queue, running };
        ingest_harness::eventually("a download", kit::PATIENCE, || async {
            (two.downloads() == 1).then_some(())
        })
        .await;
        two
    }

    /// How many downloads run.
    fn downloads(&self) -> usize {
        self.tricks.iter().map(|trick| trick.seen(|seen| seen.running(JobState::Downloading))).sum()
    }

    /// How many steps were ever begun.
    fn begun(&self) -> usize {
        self.tricks.iter().map(|trick| trick.seen(|seen| seen.begun.len())).sum()
    }

    async fn submit(&self) -> Bid {
        kit::submit(&self.queue, kit::submission(&self.files.put("/b.txt", "b"), Some("file"))).await
    }

    /// What ran goes on and completes.
    async fn the_running_one_completes(&self) {
        for trick in &self.tricks {
            trick.open(JobState::Downloading);
        }
        assert_eq!(kit::reported(&self.queue, self.running).await, BatchState::Completed);
    }

    async fn end(self) {
        kit::clean(&self.queue).await;
        for node in self.nodes {
            assert_eq!(node.restarts(9).unwrap(), []);
            kit::drained(node).await;
        }
        kit::clean(&self.queue).await;
        kit::nothing_left(&self.place.work("both"));
    }
}

async fn a_held_collection_waits(on: On) {
    let two = Two::new(on).await;
    two.queue.hold_collection("tests", "operator", "a recount").await.unwrap();
    let held = two.submit().await;
    kit::batch_is(&two.queue, held, |state| state == BatchState::Held).await;
    let before = two.begun();
    two.the_running_one_completes().await;
    // From download to notify, and nothing of the other.
    assert_eq!(two.begun(), before + 3);
    assert_eq!(two.queue.batch(held).await.unwrap().state(), BatchState::Held);
    let released = two.queue.release_collection_and_all("tests", "operator", |_| {}).await.unwrap();
    assert_eq!(released.batches, 1, "{released:?}");
    assert_eq!(kit::reported(&two.queue, held).await, BatchState::Completed);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_collection_waits_and_what_runs_goes_on_embedded() {
    a_held_collection_waits(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_collection_waits_and_what_runs_goes_on_zookeeper() {
    a_held_collection_waits(On::Zookeeper).await;
}

async fn a_held_queue_waits(on: On) {
    let two = Two::new(on).await;
    two.queue.hold_queue(HeldQueue::Ingest, "operator", "a new disk").await.unwrap();
    let waiting = two.submit().await;
    // Both nodes have seen it, and stand back.
    for node in &two.nodes {
        let one = |counts: &Counts| counts.ready + counts.parked + counts.delayed == 1;
        kit::waits(node, JobState::Pending, "a job that waits", one).await;
    }
    let before = two.begun();
    two.the_running_one_completes().await;
    assert_eq!(two.begun(), before + 3);
    let jid = kit::jobs(&two.queue, waiting, BatchList::Processing).await[0];
    assert_eq!(two.queue.job_status(jid).await.unwrap().0.status, JobState::Pending);
    two.queue.release_queue(HeldQueue::Ingest).await.unwrap();
    assert_eq!(kit::reported(&two.queue, waiting).await, BatchState::Completed);
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_queue_waits_and_what_runs_goes_on_embedded() {
    a_held_queue_waits(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_queue_waits_and_what_runs_goes_on_zookeeper() {
    a_held_queue_waits(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_node_takes_nothing_ends_what_it_has_and_leaves_the_rest_to_the_other() {
    let two = Two::new(On::Zookeeper).await;
    let at = |node: usize| two.tricks[node].seen(|seen| seen.begun.len());
    let paused = usize::from(two.tricks[1].seen(|seen| seen.running(JobState::Downloading)) == 1);
    assert_eq!(two.nodes[paused].pause().await, Some(true));
    assert_eq!(two.nodes[paused].pause().await, Some(false), "it was so already");
    ingest_harness::eventually("the paused component", kit::PATIENCE, || async {
        let found = kit::components(&two.queue).await;
        found.iter().any(|info| info.state == "paused").then_some(())
    })
    .await;
    let before = at(paused);
    let other = two.submit().await;
    two.the_running_one_completes().await;
    assert_eq!(kit::reported(&two.queue, other).await, BatchState::Completed);
    // Its download came to its end there, and nothing was begun there any more.
    assert_eq!(at(paused), before);
    assert_eq!(two.nodes[paused].resume().await, Some(true));
    assert_eq!(two.nodes[1 - paused].pause().await, Some(true));
    let third = two.submit().await;
    assert_eq!(kit::reported(&two.queue, third).await, BatchState::Completed);
    assert!(at(paused) > before);
    two.end().await;
}

/// Whatever waits is not even looked at while the queue is held: it costs the same whether few wait or many.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_queue_asks_nothing_about_what_waits_in_it() {
    const MANY: usize = 60;
    let (place, calls) = Place::with_faults();
    let files = FileServer::start().await;
    let trick = Trick::real();
    let node = place.node_with("node-1", Some(trick.clone()), |_, _| {}).await;
    let queue = place.queue().await;
    queue.hold_queue(HeldQueue::Ingest, "operator", "a new disk").await.unwrap();
    let mut costs = Vec::new();
    let mut waiting = 0;
    let mut bids = Vec::new();
    // The first lets the node learn of the hold.
    for count in [1, 2, MANY] {
        let before = calls.calls();
        let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, count), None)).await;
        waiting += count;
        let all = |counts: &Counts| counts.ready + counts.parked == waiting;
        kit::waits(&node, JobState::Pending, "all jobs to wait", all).await;
        // The batch's own actor has nothing to do any more when nobody has its lock.
        let lock = BatchNode::Lock.of(bid);
        ingest_harness::eventually("the batch to be expanded", kit::PATIENCE, || async {
            let lock = queue.session().exists(lock.as_str()).await.unwrap();
            (lock.is_none() && queue.expansion(bid).await.unwrap()?.done).then_some(())
        })
        .await;
        // Until nothing is asked any more.
        let mut asked = usize::MAX;
        while std::mem::replace(&mut asked, calls.calls()) != calls.calls() {
            ingest_harness::let_pass(std::time::Duration::from_millis(200)).await;
        }
        costs.push(calls.calls() - before);
        bids.push(bid);
    }
    assert!(costs[2] <= costs[1] + MANY / 4, "{costs:?} calls for 1, 2 and {MANY} jobs");
    assert_eq!(trick.seen(|seen| seen.begun.len()), 0);
    queue.release_queue(HeldQueue::Ingest).await.unwrap();
    for bid in bids {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    kit::drained(node).await;
    kit::clean(&queue).await;
}
