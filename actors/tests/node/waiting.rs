//! Jobs that wait for another one occupy no worker: whatever they wait for, others go on.

use ingest_harness::FileServer;
use ingest_queue::map::JobNode;
use ingest_queue::names::Side;
use ingest_queue::nodes::Submission;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::Mode;

use crate::kit::{self, On, Place};
use crate::trick::Trick;

fn deposit(files: &FileServer, name: &str, local_id: &str) -> Submission {
    let url = files.put(&format!("/{name}"), format!("the content of {name}"));
    let mut submission = kit::submission(&url, Some("file"));
    submission.other.insert("local_id".into(), vec![local_id].into());
    submission
}

async fn only_job(queue: &Queue, submission: Submission) -> (ingest_queue::ids::Bid, ingest_queue::ids::Jid) {
    let bid = kit::submit(queue, submission).await;
    let jid = ingest_harness::eventually("a job", kit::PATIENCE, || async {
        kit::jobs(queue, bid, BatchList::Processing).await.first().copied()
    })
    .await;
    (bid, jid)
}

/// As many as there are workers wait for an object that is locked, and then one more.
async fn waiters_do_not_stop_a_node_with_small_pools(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let small = |node: &mut ingest_actors::settings::Settings, _: &mut ingest_steps::settings::Settings| {
        node.pools.processing.size = 1;
        node.pools.recording.size = 1;
    };
    let node = place.node_with("node-1", None, small).await;
    let queue = place.queue().await;
    let first = kit::submit(&queue, deposit(&files, "first", "shared")).await;
    assert_eq!(kit::reported(&queue, first).await, BatchState::Completed);
    let jid = kit::jobs(&queue, first, BatchList::Completed).await[0];
    let ark = kit::ark_of(&queue, jid).await;
    // Another node stores it, for hours.
    let lock = Side::Storage.path(&ark);
    queue.session().create(lock.as_str(), "", Mode::Ephemeral).await.unwrap();
    let mut waiting = Vec::new();
    for number in 0..3 {
        let (bid, jid) = only_job(&queue, deposit(&files, &format!("next-{number}"), "shared")).await;
        let status =
            kit::job_is(&queue, jid, |status| status.message.contains("waits for another job")).await;
        assert_eq!(status.status, JobState::Processing);
        assert!(status.message.contains(&ark), "{status:?}");
        kit::waits(&node, JobState::Processing, "the job to be parked", |counts| counts.locked == number + 1)
            .await;
        waiting.push(bid);
    }
    // Nobody is occupied, and others go on.
    let other = kit::submit(&queue, deposit(&files, "other", "its own")).await;
    assert_eq!(kit::reported(&queue, other).await, BatchState::Completed);
    queue.session().delete(lock, None).await.unwrap();
    for bid in waiting {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    let services = node.life().await.unwrap().services();
    let object = services.inventory.clone().unwrap().object(&ark.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(object.versions.len(), 4);
    assert!(object.versions.iter().all(|version| !version.superseded));
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_do_not_stop_a_node_with_small_pools_on_the_embedded_tree() {
    waiters_do_not_stop_a_node_with_small_pools(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_do_not_stop_a_node_with_small_pools_on_a_server() {
    waiters_do_not_stop_a_node_with_small_pools(On::Zookeeper).await;
}

/// The job of the version before is held up in recording; those behind it come in their turn when it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_woken_when_the_version_before_its_own_is_recorded() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let node = place
        .node_with("node-1", Some(trick.clone()), |node, _| {
            node.pools.processing.size = 1;
        })
        .await;
    let queue = place.queue().await;
    trick.close(JobState::Recording);
    let (one, first) = only_job(&queue, deposit(&files, "one", "shared")).await;
    trick.until("the first in recording", |seen| seen.running(JobState::Recording) == 1).await;
    let (two, second) = only_job(&queue, deposit(&files, "two", "shared")).await;
    let waits = format!("waits for {first}, which is recording");
    kit::job_is(&queue, second, |status| status.message.contains(&waits)).await;
    kit::waits(&node, JobState::Processing, "the job to be parked", |counts| counts.locked == 1).await;
    assert!(queue.session().exists(JobNode::Lock.of(second)).await.unwrap().is_none());
    trick.open(JobState::Recording);
    for bid in [one, two] {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    kit::clean(&queue).await;
    kit::drained(node).await;
}
