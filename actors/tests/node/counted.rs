//! What a node counts: every move that it has committed, whoever has ordered it, steps that are tried again, and what a
//! sweep has healed.

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_actors::actions::order::{DeleteJob, RequeueJob};
use ingest_actors::actions::{By, Order};
use ingest_actors::node::Node;
use ingest_harness::{FileServer, eventually};
use ingest_queue::ids::Jid;
use ingest_queue::index::Counts;
use ingest_queue::map::{HeldQueue, JobNode};
use ingest_queue::nodes::History;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState, States as _};
use serde_json::json;

use crate::kit::{self, On, Place};
use crate::trick::{Act, Trick};

fn metrics(node: &Node) -> String {
    let (mut registry, mut text) = (prometheus_client::registry::Registry::default(), String::new());
    node.house().meters.register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

#[track_caller]
fn tells(node: &Node, line: &str) {
    let text = metrics(node);
    assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
}

/// The moves that the metrics tell, by their labels.
fn told(node: &Node) -> BTreeMap<String, usize> {
    let text = metrics(node);
    let moves = text.lines().filter_map(|line| line.strip_prefix("transitions_total{")?.split_once("} "));
    moves.map(|(labels, count)| (labels.to_owned(), count.parse().unwrap())).collect()
}

/// Those that stand in the histories of jobs.
async fn made(queue: &Queue, jobs: &[Jid]) -> BTreeMap<String, usize> {
    let mut moves = BTreeMap::new();
    for jid in jobs {
        let history: History = queue.node(*jid, JobNode::History).await.unwrap().unwrap();
        for entry in history.entries.iter().filter(|entry| entry.from != Some(entry.to)) {
            let labels = format!("from=\"{}\",to=\"{}\"", entry.from.unwrap().name(), entry.to.name());
            *moves.entry(labels).or_default() += 1;
        }
    }
    moves
}

/// A move is in the tree a moment before the node that made it has heard so, and counts it.
async fn agree(node: &Node, queue: &Queue, jobs: &[Jid]) {
    eventually("counts of all that was made", kit::PATIENCE, || async {
        (told(node) == made(queue, jobs).await).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_move_of_a_job_is_counted_whoever_makes_it() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    let good = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, good).await, BatchState::Completed);
    let mut jobs = kit::jobs(&queue, good, BatchList::Completed).await;
    agree(&node, &queue, &jobs).await;
    tells(&node, "transitions_total{from=\"pending\",to=\"estimating\"} 1");
    tells(&node, "transitions_total{from=\"provisioning\",to=\"downloading\"} 1");
    tells(&node, "step_seconds_count{state=\"provisioning\"} 1");
    tells(&node, "waiting_seconds_count{state=\"provisioning\"} 1");
    assert_eq!(node.snapshot().await.unwrap().moved, 7);

    // By a person, twice, and then it goes.
    let bad = kit::submit(&queue, kit::submission(&files.url("/b.txt"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, bad).await, BatchState::Failed);
    let jid = kit::jobs(&queue, bad, BatchList::Failed).await[0];
    jobs.push(jid);
    let by = By { who: "ann".into(), ..By::default() };
    let requeue = RequeueJob { jid, state: None, reason: String::new(), force: false };
    node.perform(&Order::RequeueJob(requeue), &by).await.unwrap().unwrap();
    kit::job_is(&queue, jid, |status| status.status == JobState::Failed && status.retry_count == 1).await;
    agree(&node, &queue, &jobs).await;
    tells(&node, "transitions_total{from=\"failed\",to=\"downloading\"} 1");
    let delete = DeleteJob { jid, confirm: true, reason: String::new(), force: false };
    node.perform(&Order::DeleteJob(delete), &by).await.unwrap().unwrap();
    tells(&node, "transitions_total{from=\"failed\",to=\"deleted\"} 1");

    // By the timekeeper.
    let soon = queue.now().after(Duration::from_millis(300)).to_string();
    queue.hold_queue(HeldQueue::Ingest, "ann", "").await.unwrap();
    let mut late = kit::submission(&files.put("/c.txt", "c"), Some("file"));
    late.other.insert("expiration_date".into(), json!(soon));
    kit::submit(&queue, late).await;
    eventually("the end of what expires", kit::PATIENCE, || async {
        told(&node).get("from=\"pending\",to=\"deleted\"").copied().filter(|count| *count == 1)
    })
    .await;
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_to_be_tried_again_is_counted() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.next(JobState::Recording, [Act::Again, Act::Again]);
    let node = place.node_with("node-1", Some(trick), |_, _| {}).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    tells(&node, "retries_total{state=\"recording\"} 2");
    tells(&node, "step_seconds_count{state=\"recording\"} 3");
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_the_index_has_lost_is_found_by_a_sweep_which_counts_it() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let node =
        place.node_with("node-1", None, |node, _| node.upkeep.every = Duration::from_millis(200)).await;
    let queue = place.queue().await;
    // So that nobody takes it before it is lost.
    queue.hold_queue(HeldQueue::Ingest, "ann", "").await.unwrap();
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    let waiting = |counts: &Counts| counts.ready + counts.parked == 1;
    kit::waits(&node, JobState::Pending, "a job that waits for the hold", waiting).await;
    assert_eq!(node.snapshot().await.unwrap().sweep_healed, 0);
    let jid = kit::jobs(&queue, bid, BatchList::Processing).await[0];
    let finder = node.house().life().unwrap().finder().unwrap();
    // As if an event had been missed.
    finder.finished(queue.job(jid).await.unwrap().entry());
    eventually("a sweep that heals", kit::PATIENCE, || async {
        node.snapshot().await.filter(|now| now.sweep_healed == 1).map(|_| ())
    })
    .await;
    queue.release_queue(HeldQueue::Ingest).await.unwrap();
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    kit::clean(&queue).await;
    kit::drained(node).await;
}
