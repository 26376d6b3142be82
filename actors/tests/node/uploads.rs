//! Jobs and batches whose upload is on a node that is away: they wait for it, and fail only when `work.node_grace` is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ingest_actors::node::Node;
use ingest_harness::bad_server::{Act, BadServer, answer};
use ingest_harness::{FileServer, eventually};
use ingest_queue::ids::Bid;
use ingest_queue::map::BatchNode;
use ingest_queue::nodes::Submission;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_steps::manifest::Kind;
use ingest_steps::upload_nodes::UPLOAD_NODE;
use ingest_store::Event;

use crate::kit::{self, On, Place};
use crate::made;

const AWAY: &str = "node-1";
const WAITS: &str = "waiting for the node node-1, which has the upload";
const LONG: Duration = Duration::from_hours(1);
const SHORT: Duration = Duration::from_millis(600);
const PATH: &str = "/files/uploads/1/a.txt";

/// A server of uploads that answers or does not.
struct Uploads {
    server: BadServer,
    is_there: Arc<AtomicBool>,
}

impl Uploads {
    async fn away(content: impl Into<Vec<u8>>) -> Self {
        let (server, is_there) = (BadServer::start().await, Arc::new(AtomicBool::new(false)));
        let (there, content) = (is_there.clone(), content.into());
        server.on(PATH, move |_| {
            let (status, body) =
                if there.load(Ordering::SeqCst) { (200, content.as_slice()) } else { (503, &b""[..]) };
            vec![Act::send(answer(status, &[], body))]
        });
        Self { server, is_there }
    }

    fn come_back(&self) {
        self.is_there.store(true, Ordering::SeqCst);
    }

    fn submission(&self, kind: &str) -> Submission {
        let mut submission = kit::submission(&self.server.url(PATH), Some(kind));
        submission.other.insert(UPLOAD_NODE.into(), AWAY.into());
        submission
    }
}

async fn node(place: &Place, name: &str, grace: Duration) -> Node {
    place
        .node_with(name, None, |_, steps| {
            steps.work.node_grace = grace;
            steps.fetch.retries = 0;
        })
        .await
}

async fn job_waits(queue: &Queue, bid: Bid) {
    let jid = eventually("a job", Duration::from_mins(1), || async {
        kit::jobs(queue, bid, BatchList::Processing).await.first().copied()
    })
    .await;
    let status = kit::job_is(queue, jid, |status| status.message == WAITS).await;
    assert_eq!(status.status, JobState::Downloading);
    assert_eq!(status.retry_count, 0);
}

/// Waits for what a batch says of itself.
async fn batch_says(queue: &Queue, bid: Bid, says: &str) {
    let mut watch = queue.session().watch_tree(BatchNode::Status.of(bid)).await.unwrap();
    loop {
        let batch = queue.batch(bid).await.unwrap();
        if batch.status.message.contains(says) {
            return;
        }
        let event = tokio::time::timeout(Duration::from_mins(3), watch.next()).await;
        assert!(!matches!(event.unwrap(), Event::Ended(_)), "{batch:?}");
    }
}

async fn a_job_waits_and_goes_on(on: On) {
    let place = Place::new(on).await;
    let uploads = Uploads::away("abc").await;
    let other = node(&place, "node-2", LONG).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, uploads.submission("file")).await;
    job_waits(&queue, bid).await;
    kit::waits(&other, JobState::Downloading, "a job that stands aside", |counts| counts.parked == 1).await;
    uploads.come_back();
    let first = node(&place, AWAY, LONG).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    kit::clean(&queue).await;
    kit::drained(first).await;
    kit::drained(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_the_node_that_has_its_upload_and_goes_on_when_that_is_back_embedded() {
    a_job_waits_and_goes_on(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_the_node_that_has_its_upload_and_goes_on_when_that_is_back_zookeeper() {
    a_job_waits_and_goes_on(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_answers_again_is_found_by_asking_it() {
    let place = Place::new(On::Embedded).await;
    let uploads = Uploads::away("abc").await;
    let other = node(&place, "node-2", LONG).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, uploads.submission("file")).await;
    job_waits(&queue, bid).await;
    uploads.come_back();
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    kit::clean(&queue).await;
    kit::drained(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_left_is_not_asked_before_it_is_back() {
    let place = Place::new(On::Embedded).await;
    let uploads = Uploads::away("abc").await;
    let other = node(&place, "node-2", LONG).await;
    let first = node(&place, AWAY, LONG).await;
    kit::drained(first).await;
    eventually("the other to know", Duration::from_mins(1), || async {
        other.house().life()?.services().upload_nodes.is_any_away().then_some(())
    })
    .await;
    let queue = place.queue().await;
    let mut submission = uploads.submission("file");
    submission.other.insert("size".into(), 3.into());
    let bid = kit::submit(&queue, submission).await;
    job_waits(&queue, bid).await;
    kit::waits(&other, JobState::Downloading, "a job that stands aside", |counts| counts.parked == 1).await;
    assert!(uploads.server.requests(PATH) <= 1, "it is asked once at most");
    uploads.come_back();
    let first = node(&place, AWAY, LONG).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    kit::clean(&queue).await;
    kit::drained(first).await;
    kit::drained(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fails_when_the_node_that_has_its_upload_stays_away() {
    let place = Place::new(On::Embedded).await;
    let uploads = Uploads::away("abc").await;
    let other = node(&place, "node-2", SHORT).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, uploads.submission("file")).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Failed);
    let [jid] = kit::jobs(&queue, bid, BatchList::Failed).await[..] else { panic!("no job has failed") };
    let status = queue.job_status(jid).await.unwrap().0;
    assert!(
        status.message.contains("the node node-1, which has the upload, did not answer for 600ms")
            && status.message.contains("work.node_grace"),
        "{}",
        status.message
    );
    kit::clean(&queue).await;
    kit::drained(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_waits_for_the_node_that_has_its_manifest_and_is_expanded_when_that_is_back() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let row = |n: usize| {
        let path = format!("/single/{n}");
        made::row(&files, &path, path.as_bytes(), &format!("name-{n}"), &format!("single:{n}"))
    };
    let rows: Vec<String> = (0..3).map(row).collect();
    let uploads = Uploads::away(made::manifest(Kind::SingleFileBatch, &rows)).await;
    let other = node(&place, "node-2", LONG).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, uploads.submission("single_file_batch_manifest")).await;
    batch_says(&queue, bid, WAITS).await;
    assert_eq!(queue.batch(bid).await.unwrap().state(), BatchState::Pending);
    uploads.come_back();
    let first = node(&place, AWAY, LONG).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    assert_eq!(kit::jobs(&queue, bid, BatchList::Completed).await.len(), 3);
    kit::clean(&queue).await;
    kit::drained(first).await;
    kit::drained(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_fails_when_the_node_that_has_its_manifest_stays_away() {
    let place = Place::new(On::Embedded).await;
    let uploads = Uploads::away("").await;
    let other = node(&place, "node-2", SHORT).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, uploads.submission("single_file_batch_manifest")).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Failed);
    let message = queue.batch(bid).await.unwrap().status.message;
    assert!(message.contains("node-1") && message.contains("work.node_grace"), "{message}");
    kit::clean(&queue).await;
    kit::drained(other).await;
}
