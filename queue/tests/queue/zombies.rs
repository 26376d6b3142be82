//! A worker whose job was given to another tries everything that it could do: each is refused, and the
//! other is undisturbed.

use ingest_queue::dialect::Dialect;
use ingest_queue::error::{Error, Result};
use ingest_queue::jobs::{Lease, Write};
use ingest_queue::names::Side;
use ingest_queue::nodes::{Identifiers, Work};
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchState, JobState, Who};

use crate::tree::{Tree, on_both_engines};
use crate::world::{
    MANIFEST, acquire, batch_of, bring, clean, entry, priority, queue, queue_on, snapshot, status,
};

on_both_engines!(
    a_zombie_in_the_same_session_is_refused,
    a_zombie_in_another_session_is_refused,
    a_zombie_of_an_expired_session_is_refused,
    a_zombie_whose_job_was_deleted_is_refused,
    a_zombie_that_works_on_a_batch_is_refused,
);

/// Everything that a worker does, in turn, by the name of it.
async fn everything(queue: &Queue, lease: &mut Lease) -> Vec<(&'static str, Result<()>)> {
    let change = Change::message("from the grave");
    let identifiers = Identifiers { primary_id: Some("ark:/99999/zombie".into()), ..Identifiers::default() };
    let ids = ["l".to_owned()];
    vec![
        ("advance", queue.advance(lease, JobState::Processing, Who::Worker, &change).await),
        ("hand over", queue.hand_over(lease, JobState::Processing, Who::Worker, &change).await),
        ("succeed", queue.succeed(lease, &change).await.map(|_| ())),
        ("fail", queue.fail(lease, &change).await),
        ("write identifiers", queue.write(lease, &[Write::Identifiers(identifiers.clone())]).await),
        ("write work", queue.write(lease, &[Write::Work(Work::default())]).await),
        ("set priority", queue.set_priority(lease, priority(99)).await),
        ("lock an object", queue.lock_object(lease, Side::Storage, "ark:/99999/zombie").await),
        ("claim a local id", queue.claim_local_ids(lease, "demo", &ids, &identifiers).await.map(|_| ())),
        ("assign an identifier", queue.assign(lease, &identifiers).await),
        ("pass the gate", queue.gate(lease).await),
        ("give back", queue.give_back(lease, Some("from the grave")).await),
    ]
}

/// All of it is refused as lost, and changes nothing.
async fn all_is_refused(zombie: &Queue, lease: &mut Lease, watcher: &Queue) {
    let before = snapshot(watcher.session()).await;
    for (what, answer) in everything(zombie, lease).await {
        assert!(matches!(answer, Err(Error::Lost { .. })), "{what}: {answer:?}");
    }
    assert_eq!(snapshot(watcher.session()).await, before);
}

/// The other goes on as if nothing had happened.
async fn the_other_finishes(queue: &Queue, lease: &mut Lease) {
    queue.gate(lease).await.unwrap();
    queue.succeed(lease, &Change::default()).await.unwrap();
    assert_eq!(status(queue, lease.jid()).await.status, JobState::Processing);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_zombie_in_the_same_session_is_refused(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Downloading).await;
    let mut zombie = queue.acquire(entry(&queue, jids[0]).await, "pool-1").await.unwrap();
    // Its pool has died: what it held was released.
    assert_eq!(queue.release_all_of("pool-1").await.unwrap(), 1);
    clean(queue.session(), Dialect::Design).await;
    let mut other = queue.acquire(entry(&queue, jids[0]).await, "pool-2").await.unwrap();
    all_is_refused(&queue, &mut zombie, &queue).await;
    the_other_finishes(&queue, &mut other).await;
}

async fn a_zombie_in_another_session_is_refused(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    bring(&here, jids[0], JobState::Downloading).await;
    let mut zombie = acquire(&here, jids[0]).await;
    // An operator takes it away by force, and another node takes it up.
    there.act(jids[0], &Action::SetPriority(priority(1)), "by an operator", true).await.unwrap();
    clean(there.session(), Dialect::Design).await;
    let mut other = acquire(&there, jids[0]).await;
    all_is_refused(&here, &mut zombie, &there).await;
    the_other_finishes(&there, &mut other).await;
    assert!(here.locks().is_empty(), "what was given back is not held");
}

async fn a_zombie_of_an_expired_session_is_refused(tree: &Tree) {
    let session = tree.mortal_session().await;
    let here = queue_on(&session, Dialect::Design).await;
    let there = queue(tree).await;
    let (_, jids) = batch_of(&here, 1).await;
    bring(&here, jids[0], JobState::Downloading).await;
    let mut zombie = acquire(&here, jids[0]).await;
    tree.expire(&session).await;
    clean(there.session(), Dialect::Design).await;
    let mut other = acquire(&there, jids[0]).await;
    // Its worker did not end properly: that was counted.
    let schedule: ingest_queue::nodes::Schedule =
        there.node(jids[0], ingest_queue::map::JobNode::Schedule).await.unwrap().unwrap();
    assert_eq!(schedule.timeout_count, 1);
    let before = snapshot(there.session()).await;
    for (what, answer) in everything(&here, &mut zombie).await {
        assert!(answer.is_err(), "{what}");
    }
    assert_eq!(here.locks().revoke_all().len(), 1);
    assert_eq!(snapshot(there.session()).await, before);
    the_other_finishes(&there, &mut other).await;
}

async fn a_zombie_whose_job_was_deleted_is_refused(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Failed).await;
    queue.act(jids[0], &Action::Requeue(None), "", false).await.unwrap();
    let mut zombie = acquire(&queue, jids[0]).await;
    queue.fail(&mut zombie, &Change::default()).await.unwrap();
    queue.act(jids[0], &Action::Delete, "", false).await.unwrap();
    all_is_refused_but_moves(&queue, &mut zombie).await;
    clean(queue.session(), Dialect::Design).await;
}

/// A lease that has ended in failed has no moves left in the table: those are refused as such.
async fn all_is_refused_but_moves(queue: &Queue, lease: &mut Lease) {
    let before = snapshot(queue.session()).await;
    for (what, answer) in everything(queue, lease).await {
        let right = matches!(answer, Err(Error::Lost { .. } | Error::Refused { .. }));
        assert!(right, "{what}: {answer:?}");
    }
    assert_eq!(snapshot(queue.session()).await, before);
}

async fn a_zombie_that_works_on_a_batch_is_refused(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let bid = here.create_batch("one", &crate::world::submission()).await.unwrap().bid;
    let mut zombie = here.acquire_batch(bid, "batch").await.unwrap();
    here.begin_expansion(&mut zombie, MANIFEST, 3).await.unwrap();
    assert_eq!(here.release_all_of("batch").await.unwrap(), 1);
    let mut other = there.acquire_batch(bid, "batch").await.unwrap();
    let before = snapshot(there.session()).await;
    let jobs = crate::world::new_jobs(3);
    let lost = |answer: &Result<()>| matches!(answer, Err(Error::Lost { .. }));
    assert!(lost(&here.expand(&mut zombie, 0, &jobs).await.map(|_| ())));
    assert!(lost(&here.note_batch(&mut zombie, "").await));
    assert!(lost(&here.release_batch(&mut zombie).await));
    assert_eq!(snapshot(there.session()).await, before);
    there.expand(&mut other, 0, &jobs).await.unwrap();
    assert!(lost(&here.end_batch(&mut zombie).await.map(|_| ())));
    assert_eq!(there.batch(bid).await.unwrap().state(), BatchState::Processing);
    clean(there.session(), Dialect::Design).await;
}
