//! How a node ends, and what it leaves to the next.
//!
//! Invariants: a node that has ended has no component and no lock in the tree, and its jobs are done by the next one, each
//! once. Only a step that did not hear that it was to stop counts as a crash.

use std::sync::Arc;
use std::time::Duration;

use ingest_actors::node::{End, Node};
use ingest_harness::FileServer;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::JobNode;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};

use crate::kit::{self, On, Place};
use crate::trick::{Act, Trick};

/// A node with one worker for downloads, who is at his door, and one job behind it in line.
struct Busy {
    place: Place,
    _files: FileServer,
    trick: Arc<Trick>,
    queue: Queue,
    bid: Bid,
    jids: Vec<Jid>,
}

impl Busy {
    async fn new(on: On, grace: Duration, acts: &[Act]) -> (Self, Node) {
        let place = Place::new(on).await;
        let files = FileServer::start().await;
        let trick = Trick::real();
        trick.close(JobState::Downloading);
        trick.next(JobState::Downloading, acts.iter().copied());
        let node = place
            .node_with("node-1", Some(trick.clone()), |node, _| {
                node.pools.downloading.size = 1;
                node.shutdown.grace = grace;
            })
            .await;
        let queue = place.queue().await;
        let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, 2), None)).await;
        trick.until("a download", |seen| seen.running(JobState::Downloading) == 1).await;
        kit::waits(&node, JobState::Downloading, "one in line", |counts| counts.ready == 1).await;
        let jids = kit::jobs(&queue, bid, BatchList::Processing).await;
        (Self { place, _files: files, trick, queue, bid, jids }, node)
    }

    /// The node has left: no component, no lock, and the tree is clean.
    async fn has_left(&self) {
        assert_eq!(kit::components(&self.queue).await, []);
        for jid in &self.jids {
            let lock = self.queue.session().exists(JobNode::Lock.of(*jid)).await.unwrap();
            assert_eq!(lock, None, "{jid} is locked");
        }
        kit::clean(&self.queue).await;
    }

    /// Another node does the rest; so often did a worker not end properly.
    async fn another_goes_on(self, counted: u32) {
        let work = self.place.work("node-1");
        let node = self.place.node_with("node-2", None, |_, steps| steps.work.dir = work).await;
        assert_eq!(kit::reported(&self.queue, self.bid).await, BatchState::Completed);
        let mut timeouts = 0;
        for jid in &self.jids {
            timeouts += kit::timeouts(&self.queue, *jid).await;
        }
        assert_eq!(timeouts, counted);
        kit::clean(&self.queue).await;
        kit::drained(node).await;
        kit::nothing_left(&self.place.work("node-1"));
        kit::clean(&self.queue).await;
    }
}

async fn a_drained_node_ends_its_steps(on: On) {
    let (busy, node) = Busy::new(on, Duration::from_mins(1), &[]).await;
    node.drain();
    ingest_harness::eventually("draining", kit::PATIENCE, || async {
        let found = kit::components(&busy.queue).await;
        found.iter().any(|info| info.state == "draining").then_some(())
    })
    .await;
    busy.trick.open(JobState::Downloading);
    assert_eq!(node.ended().await, End::Drained);
    // What ran came to its end, was not handed over, and nothing else was begun.
    assert_eq!(busy.trick.seen(|seen| seen.begun(JobState::Downloading)), 1);
    assert_eq!(busy.trick.seen(|seen| seen.begun(JobState::Processing)), 0);
    let mut states = Vec::new();
    for jid in &busy.jids {
        states.push(busy.queue.job_status(*jid).await.unwrap().0.status);
    }
    states.sort_unstable();
    assert_eq!(states, [JobState::Downloading, JobState::Processing]);
    busy.has_left().await;
    busy.another_goes_on(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_ends_its_steps_begins_nothing_and_leaves_embedded() {
    a_drained_node_ends_its_steps(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_ends_its_steps_begins_nothing_and_leaves_zookeeper() {
    a_drained_node_ends_its_steps(On::Zookeeper).await;
}

async fn when_the_grace_is_over_what_runs_is_given_back_and_does_not_count(on: On) {
    let (busy, node) = Busy::new(on, Duration::from_millis(200), &[]).await;
    node.drain();
    assert_eq!(node.ended().await, End::Hurried);
    for jid in &busy.jids {
        let (status, _) = busy.queue.job_status(*jid).await.unwrap();
        assert_eq!((status.status, status.start_processing_date), (JobState::Downloading, None));
    }
    busy.has_left().await;
    busy.another_goes_on(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_grace_is_over_what_runs_is_given_back_and_does_not_count_embedded() {
    when_the_grace_is_over_what_runs_is_given_back_and_does_not_count(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_grace_is_over_what_runs_is_given_back_and_does_not_count_zookeeper() {
    when_the_grace_is_over_what_runs_is_given_back_and_does_not_count(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_hear_that_it_is_to_stop_is_ended_and_counts() {
    let (busy, node) = Busy::new(On::Zookeeper, Duration::from_millis(200), &[Act::Hang]).await;
    node.drain();
    assert_eq!(node.ended().await, End::Hurried);
    busy.has_left().await;
    busy.another_goes_on(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_stopped_at_once_leaves_no_lock() {
    let (busy, node) = Busy::new(On::Zookeeper, Duration::from_mins(1), &[Act::Hang]).await;
    node.stop();
    assert_eq!(node.ended().await, End::AtOnce);
    busy.has_left().await;
    busy.another_goes_on(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_node_that_is_told_to_stop_does_so_at_once() {
    let (busy, node) = Busy::new(On::Embedded, Duration::from_mins(10), &[Act::Hang]).await;
    node.drain();
    node.stop();
    assert_eq!(node.ended().await, End::AtOnce);
    busy.has_left().await;
    busy.another_goes_on(1).await;
}
