//! Several nodes on one tree: they share all the work, and what is on the disk of one that is gone begins anew.

use std::sync::Arc;
use std::time::Duration;

use ingest_actors::node::{End, Node};
use ingest_harness::FileServer;
use ingest_queue::ids::Bid;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};

use crate::kit::{self, On, Place};
use crate::trick::Trick;

async fn nodes_share_all_work(on: On) {
    const JOBS: usize = 24;
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let work = place.work("all");
    let mut nodes = Vec::new();
    let tricks = [Trick::real(), Trick::real(), Trick::real()];
    for (number, trick) in tricks.iter().enumerate() {
        let name = format!("node-{number}");
        let node = place.node_with(&name, Some(trick.clone()), |node, steps| {
            node.pools.downloading.size = 2;
            steps.work.dir.clone_from(&work);
        });
        nodes.push(node.await);
    }
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, JOBS), None)).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    assert_eq!(kit::jobs(&queue, bid, BatchList::Completed).await.len(), JOBS);
    let downloads = |trick: &Arc<Trick>| trick.seen(|seen| seen.begun(JobState::Downloading));
    let each: Vec<_> = tricks.iter().map(downloads).collect();
    assert_eq!(each.iter().sum::<usize>(), JOBS, "{each:?}");
    assert!(each.iter().all(|count| *count > 0), "{each:?}");
    assert_eq!(kit::mails(&place.outbox()).len(), 1);
    kit::clean(&queue).await;
    for node in nodes {
        assert_eq!(node.restarts(9).unwrap(), []);
        kit::drained(node).await;
    }
    kit::nothing_left(&work);
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_one_working_directory_share_all_work_embedded() {
    nodes_share_all_work(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_one_working_directory_share_all_work_zookeeper() {
    nodes_share_all_work(On::Zookeeper).await;
}

/// A node with a disk of its own, one job in the middle of its download and one in processing.
struct Local {
    place: Place,
    _files: FileServer,
    queue: Queue,
    bid: Bid,
}

const GRACE: Duration = Duration::from_millis(600);

impl Local {
    async fn new(grace: Duration) -> (Self, Node, Arc<Trick>) {
        let place = Place::new(On::Zookeeper).await;
        let files = FileServer::start().await;
        let trick = Trick::real();
        trick.close(JobState::Downloading);
        trick.close(JobState::Processing);
        let node = Self::node(&place, "node-1", &trick, grace).await;
        let queue = place.queue().await;
        let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, 2), None)).await;
        trick.until("both downloads", |seen| seen.running(JobState::Downloading) == 2).await;
        trick.let_through(JobState::Downloading, 1);
        trick.until("one in processing", |seen| seen.running(JobState::Processing) == 1).await;
        (Self { place, _files: files, queue, bid }, node, trick)
    }

    async fn node(place: &Place, name: &str, trick: &Arc<Trick>, grace: Duration) -> Node {
        place.node_with(name, Some(trick.clone()), |_, steps| steps.work.node_grace = grace).await
    }

    /// Both jobs stand aside at a node that does not have their files.
    async fn stands_back(&self, node: &Node) {
        for state in [JobState::Downloading, JobState::Processing] {
            kit::waits(node, state, "one that stands aside", |counts| counts.parked + counts.locked == 1)
                .await;
        }
    }

    async fn completes(&self) {
        assert_eq!(kit::reported(&self.queue, self.bid).await, BatchState::Completed);
        for jid in kit::jobs(&self.queue, self.bid, BatchList::Completed).await {
            assert_eq!(self.queue.job_status(jid).await.unwrap().0.retry_count, 0);
        }
        assert_eq!(kit::mails(&self.place.outbox()).len(), 1);
        kit::clean(&self.queue).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_the_disk_of_a_node_that_stays_away_begins_anew_elsewhere() {
    let (local, first, _) = Local::new(GRACE).await;
    let trick = Trick::real();
    let second = Local::node(&local.place, "node-2", &trick, GRACE).await;
    local.stands_back(&second).await;
    first.stop();
    assert_eq!(first.ended().await, End::AtOnce);
    local.completes().await;
    // Both were fetched there; what was in processing was sent back first.
    assert_eq!(trick.seen(|seen| seen.begun(JobState::Downloading)), 2);
    assert_eq!(second.restarts(9).unwrap(), []);
    kit::drained(second).await;
    kit::nothing_left(&local.place.work("node-2"));
    kit::clean(&local.queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_in_time_goes_on_with_what_is_on_its_disk() {
    let (local, first, _) = Local::new(Duration::from_hours(1)).await;
    let others = Trick::real();
    let second = Local::node(&local.place, "node-2", &others, Duration::from_hours(1)).await;
    local.stands_back(&second).await;
    first.stop();
    assert_eq!(first.ended().await, End::AtOnce);
    let trick = Trick::real();
    let first = Local::node(&local.place, "node-1", &trick, Duration::from_hours(1)).await;
    local.completes().await;
    assert_eq!(
        trick.seen(|seen| (seen.begun(JobState::Downloading), seen.begun(JobState::Processing))),
        (1, 2)
    );
    assert_eq!(
        others.seen(|seen| (seen.begun(JobState::Downloading), seen.begun(JobState::Processing))),
        (0, 0)
    );
    kit::drained(first).await;
    kit::drained(second).await;
    kit::nothing_left(&local.place.work("node-1"));
    kit::clean(&local.queue).await;
}
