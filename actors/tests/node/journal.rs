//! Dates and keys, as whole nodes keep them.
//!
//! Invariants: no job is begun before its process date or after its expiration; a submission under a key is not begun
//! before the one ahead of it has ended.

use std::time::Duration;

use ingest_harness::FileServer;
use ingest_queue::date::Date;
use ingest_queue::nodes::Submission;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};

use crate::kit::{self, On, Place};
use crate::trick::Trick;

fn with(mut submission: Submission, name: &str, date: Date) -> Submission {
    submission.other.insert(name.into(), date.to_string().into());
    submission
}

fn soon(queue: &Queue, wait: u64) -> Date {
    queue.now().after(Duration::from_millis(wait))
}

/// Two nodes, so that each date is known to both.
async fn dates_and_keys(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let (one, other) = (place.node("node-1").await, place.node("node-2").await);
    let queue = place.queue().await;
    let thing =
        |name: &str| kit::submission(&files.put(&format!("/{name}.txt"), name.to_owned()), Some("file"));

    // Begun at its date.
    let date = soon(&queue, 1500);
    let scheduled = kit::submit(&queue, with(thing("scheduled"), "process_date", date)).await;
    // Too late when its date comes.
    let late = with(thing("late"), "expiration_date", soon(&queue, 1000));
    let late = kit::submit(&queue, with(late, "process_date", soon(&queue, 3_600_000))).await;
    // Two under one key, of which the second waits for its date: a third becomes part of it.
    let keyed = |name: &str| Submission { key: Some("k".into()), ..thing(name) };
    let waits = kit::submit(&queue, with(keyed("first"), "process_date", soon(&queue, 1500))).await;
    let merged = queue.create_batch("merged", &keyed("second")).await.unwrap();
    assert!(merged.merged && merged.bid == waits, "{merged:?}");

    assert_eq!(kit::reported(&queue, scheduled).await, BatchState::Completed);
    let jid = kit::jobs(&queue, scheduled, BatchList::Completed).await[0];
    let history = queue.history(jid).await.unwrap().unwrap();
    assert!(history.entries.iter().all(|entry| entry.at >= date), "{history:?}");
    assert_eq!(kit::reported(&queue, waits).await, BatchState::Completed);
    assert_eq!(queue.submission(waits).await.unwrap().payload_url, keyed("second").payload_url);
    assert_eq!(kit::reported(&queue, late).await, BatchState::Failed);
    let message = queue.batch(late).await.unwrap().status.message;
    assert!(message.contains("expired"), "{message}");
    kit::clean(&queue).await;
    for node in [one, other] {
        kit::drained(node).await;
    }
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dates_and_keys_are_kept_embedded() {
    dates_and_keys(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dates_and_keys_are_kept_zookeeper() {
    dates_and_keys(On::Zookeeper).await;
}

async fn a_job_that_waits_too_long_is_removed_by_the_timekeeper_and_its_batch_says_so(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    // Nobody takes anything.
    let node = place.node_with("node-1", None, |node, _| node.pools.pending.size = 0).await;
    let queue = place.queue().await;
    let thing = kit::submission(&files.put("/late.txt", "late"), Some("file"));
    let bid = kit::submit(&queue, with(thing, "expiration_date", soon(&queue, 3000))).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Failed);
    let message = queue.batch(bid).await.unwrap().status.message;
    assert!(message == "0 completed, 0 failed, 1 expired" || message.starts_with("expired"), "{message}");
    assert_eq!(kit::mails(&place.outbox()).len(), 1, "the depositor is told");
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_too_long_is_removed_by_the_timekeeper_and_its_batch_says_so_embedded() {
    a_job_that_waits_too_long_is_removed_by_the_timekeeper_and_its_batch_says_so(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_too_long_is_removed_by_the_timekeeper_and_its_batch_says_so_zookeeper() {
    a_job_that_waits_too_long_is_removed_by_the_timekeeper_and_its_batch_says_so(On::Zookeeper).await;
}

async fn a_submission_behind_another_begins_when_that_has_ended(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.close(JobState::Downloading);
    let node = place.node_with("node-1", Some(trick.clone()), |_, _| {}).await;
    let queue = place.queue().await;
    let keyed = |name: &str| Submission {
        key: Some("k".into()),
        ..kit::submission(&files.put(&format!("/{name}.txt"), name.to_owned()), Some("file"))
    };
    let first = kit::submit(&queue, keyed("first")).await;
    trick.until("the first at its door", |seen| seen.running(JobState::Downloading) == 1).await;
    let behind = kit::submit(&queue, keyed("behind")).await;
    assert_ne!(behind, first, "what is processed takes up nothing more");
    // One without a key comes after it, and passes it.
    let other = kit::submit(&queue, kit::submission(&files.put("/other.txt", "other"), Some("file"))).await;
    trick.until("the other at its door", |seen| seen.running(JobState::Downloading) == 2).await;
    assert_eq!(queue.batch(behind).await.unwrap().state(), BatchState::Pending);
    trick.open(JobState::Downloading);
    for bid in [first, behind, other] {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    let ended =
        queue.history(kit::jobs(&queue, first, BatchList::Completed).await[0]).await.unwrap().unwrap();
    let begun =
        queue.history(kit::jobs(&queue, behind, BatchList::Completed).await[0]).await.unwrap().unwrap();
    let last = ended.entries.iter().rev().find(|entry| entry.to == JobState::Completed).unwrap();
    assert!(begun.entries[0].at >= last.at, "begun before the first had ended");
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_behind_another_begins_when_that_has_ended_embedded() {
    a_submission_behind_another_begins_when_that_has_ended(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_behind_another_begins_when_that_has_ended_zookeeper() {
    a_submission_behind_another_begins_when_that_has_ended(On::Zookeeper).await;
}
