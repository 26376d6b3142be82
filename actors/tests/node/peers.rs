//! Nodes beside programs of another kind, which move a job by several requests: its status first, then its refs, one by one.
//!
//! The invariant: a batch ends when the statuses of all its jobs say so, whatever its lists say meanwhile, and it is reported
//! once, with what became of each job.

use std::sync::Arc;
use std::time::Duration;

use ingest_actors::node::Node;
use ingest_harness::{FileServer, eventually};
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, QueueRef};
use ingest_queue::nodes::{JobStatus, Node as _};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::Mode;

use crate::kit::{self, On, Place};
use crate::trick::Trick;

/// Nothing is found by looking from time to time.
const LONG: Duration = Duration::from_hours(12);
const SHORT: Duration = Duration::from_millis(200);

/// A node, a batch with one job, and the peer's way to the tree.
struct Stage {
    place: Place,
    node: Node,
    trick: Arc<Trick>,
    queue: Queue,
    bid: Bid,
    jid: Jid,
    _files: FileServer,
}

impl Stage {
    async fn new(on: On, change: impl FnOnce(&mut ingest_actors::settings::Settings)) -> Self {
        let place = Place::new(on).await;
        let (files, trick) = (FileServer::start().await, Trick::real());
        trick.close(JobState::Downloading);
        let node = place.node_with("node-1", Some(trick.clone()), |node, _| change(node)).await;
        let queue = place.queue().await;
        let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
        let jid = eventually("a job", kit::PATIENCE, || async {
            let list = map::batch_list(bid, BatchList::Processing);
            let (names, _) = queue.session().children(list).await.ok()?;
            names.first().map(|name| name.parse().unwrap())
        })
        .await;
        Self { place, node, trick, queue, bid, jid, _files: files }
    }

    fn running_ref(&self) -> String {
        map::batch_ref(self.bid, BatchList::Processing, self.jid)
    }

    async fn delete(&self, at: String) {
        self.queue.session().delete(at, None).await.unwrap();
    }

    async fn create(&self, at: String) {
        self.queue.session().create(at, "", Mode::Persistent).await.unwrap();
    }

    /// Waits until the node has taken the batch since its status had this version, and has given it back.
    async fn was_looked_at_since(&self, version: i32) {
        eventually("a look at the batch", kit::PATIENCE, || async {
            let lock = self.queue.session().exists(BatchNode::Lock.of(self.bid)).await.unwrap();
            let now = self.queue.batch(self.bid).await.unwrap().version;
            (now > version && lock.is_none()).then_some(())
        })
        .await;
    }

    async fn version(&self) -> i32 {
        self.queue.batch(self.bid).await.unwrap().version
    }

    async fn ends_reported_as_completed_once(self) {
        assert_eq!(kit::reported(&self.queue, self.bid).await, BatchState::Completed);
        let report = self.queue.last_report(self.bid).await.unwrap().unwrap();
        assert_eq!((report.number, report.successful_jobs.len(), report.failed_jobs.len()), (1, 1, 0));
        assert_eq!(kit::mails(&self.place.outbox()).len(), 1);
        kit::drained(self.node).await;
    }
}

async fn a_job_whose_ref_is_on_its_way_keeps_its_batch_from_the_end(on: On) {
    let stage = Stage::new(on, |node| node.upkeep.every = LONG).await;
    stage.trick.until("a download", |seen| seen.running(JobState::Downloading) == 1).await;
    let version = stage.version().await;
    stage.delete(stage.running_ref()).await;
    stage.was_looked_at_since(version).await;
    assert_eq!(stage.queue.batch(stage.bid).await.unwrap().state(), BatchState::Processing);
    assert_eq!(kit::mails(&stage.place.outbox()), Vec::<String>::new());
    // It is there again, and goes again, and nobody makes it any more: what the job itself says is enough.
    stage.create(stage.running_ref()).await;
    stage.delete(stage.running_ref()).await;
    stage.trick.open(JobState::Downloading);
    kit::reported(&stage.queue, stage.bid).await;
    kit::clean(&stage.queue).await;
    stage.ends_reported_as_completed_once().await;
}

async fn a_job_that_a_dead_peer_has_left_in_no_list_is_put_back(on: On) {
    let stage = Stage::new(on, |node| {
        node.upkeep.every = SHORT;
        node.pools.downloading.size = 0;
    })
    .await;
    stage.trick.open(JobState::Downloading);
    kit::job_is(&stage.queue, stage.jid, |status| status.status == JobState::Downloading).await;
    let entry = eventually("a job that nobody works on", kit::PATIENCE, || async {
        let lock = stage.queue.session().exists(JobNode::Lock.of(stage.jid)).await.unwrap();
        let job = stage.queue.job(stage.jid).await.unwrap();
        lock.is_none().then(|| job.entry())
    })
    .await;
    stage.delete(entry.path()).await;
    stage.delete(stage.running_ref()).await;
    eventually("both refs", kit::PATIENCE, || async {
        let there = async |at: String| stage.queue.session().exists(at).await.unwrap();
        let both = (there(entry.path()).await, there(stage.running_ref()).await);
        (both.0.is_some() && both.1.is_some()).then_some(())
    })
    .await;
    let mut settings = (**stage.node.house().settings.load()).clone();
    settings.pools.downloading.size = 1;
    stage.node.apply(settings, stage.place.steps("node-1"));
    kit::reported(&stage.queue, stage.bid).await;
    kit::clean(&stage.queue).await;
    stage.ends_reported_as_completed_once().await;
}

/// The storage and the inventory are other programs, as in a shared tree.
async fn a_batch_ends_after_the_last_request_of_the_peer_that_completes_its_job(on: On) {
    let stage = Stage::new(on, |node| {
        node.upkeep.every = LONG;
        node.queue.dialect = Dialect::MrtZk;
        node.pools.recording.size = 0;
        node.pools.notify.size = 0;
    })
    .await;
    stage.trick.open(JobState::Downloading);
    let peer = &stage.queue;
    for to in [JobState::Recording, JobState::Notify, JobState::Completed] {
        let from = match to {
            JobState::Recording => JobState::Storing,
            JobState::Notify => JobState::Recording,
            _ => JobState::Notify,
        };
        let status = kit::job_is(peer, stage.jid, |status| status.status == from).await;
        let priority = peer.job(stage.jid).await.unwrap().priority;
        let entry = |state| QueueRef::new(state, priority, stage.jid).path();
        let moved = JobStatus { status: to, ..status };
        // It holds the lock for as long as it moves the job.
        let lock = JobNode::Lock.of(stage.jid);
        peer.session().create(lock.as_str(), "", Mode::Ephemeral).await.unwrap();
        let version = stage.version().await;
        if to != JobState::Completed {
            // The delete and the create of the ref, with all the time in between that a node needs to look.
            stage.delete(stage.running_ref()).await;
            if from == JobState::Storing {
                stage.was_looked_at_since(version).await;
            }
            stage.create(stage.running_ref()).await;
        }
        assert_eq!(stage.queue.batch(stage.bid).await.unwrap().state(), BatchState::Processing);
        let data = moved.write(Dialect::MrtZk);
        peer.session().set(JobNode::Status.of(stage.jid), data, None).await.unwrap();
        stage.delete(entry(from)).await;
        stage.create(entry(to)).await;
        if to == JobState::Completed {
            assert_eq!(kit::mails(&stage.place.outbox()), Vec::<String>::new());
            // It dies before it makes the last ref.
            stage.delete(stage.running_ref()).await;
        }
        stage.delete(lock).await;
    }
    stage.ends_reported_as_completed_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_ref_is_on_its_way_keeps_its_batch_from_the_end_embedded() {
    a_job_whose_ref_is_on_its_way_keeps_its_batch_from_the_end(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_ref_is_on_its_way_keeps_its_batch_from_the_end_zookeeper() {
    a_job_whose_ref_is_on_its_way_keeps_its_batch_from_the_end(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_dead_peer_has_left_in_no_list_is_put_back_embedded() {
    a_job_that_a_dead_peer_has_left_in_no_list_is_put_back(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_dead_peer_has_left_in_no_list_is_put_back_zookeeper() {
    a_job_that_a_dead_peer_has_left_in_no_list_is_put_back(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_after_the_last_request_of_the_peer_that_completes_its_job_embedded() {
    a_batch_ends_after_the_last_request_of_the_peer_that_completes_its_job(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_ends_after_the_last_request_of_the_peer_that_completes_its_job_zookeeper() {
    a_batch_ends_after_the_last_request_of_the_peer_that_completes_its_job(On::Zookeeper).await;
}
