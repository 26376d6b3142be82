//! Jobs whose lock somebody else holds.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::index::Until;
use ingest_queue::map::JobNode;
use ingest_queue::names::Side;
use ingest_queue::nodes::{JobStatus, Node as _};
use ingest_queue::states::JobState;
use ingest_store::{Mode, Op, Session};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::queues::{at, finder, lock, make_queues, next, pending, put, ready, remove};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    a_job_that_is_locked_elsewhere_comes_back_when_its_lock_goes,
    a_lock_that_is_written_to_is_still_a_lock,
    a_job_whose_lock_has_gone_meanwhile_comes_back_at_once,
    a_job_whose_holder_dies_comes_back,
    a_job_comes_back_when_the_other_job_that_it_waits_for_is_in_another_state,
    a_job_that_waits_for_a_lock_on_an_object_comes_back_when_it_goes,
    each_parked_job_has_one_watch_and_no_longer_than_it_is_parked,
    what_is_locked_elsewhere_is_tried_again_when_a_component_vanishes,
);

async fn with_queues(tree: &Tree) -> (Session, Session) {
    let (session, other) = (tree.session().await, tree.session().await);
    make_queues(&session).await;
    (session, other)
}

async fn a_job_that_is_locked_elsewhere_comes_back_when_its_lock_goes(tree: &Tree) {
    let (session, other) = with_queues(tree).await;
    put(&session, &[pending(5, 1), pending(5, 2)]).await;
    let lock = lock(&other, pending(5, 1).jid).await;
    let finder = finder(&session).await;
    finder.locked_elsewhere(next(&finder).await);
    assert_eq!(next(&finder).await, pending(5, 2), "it blocks no other");
    let mut waiting = pin!(finder.next(JobState::Pending));
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    other.delete(lock, None).await.unwrap();
    assert_eq!(within(waiting).await.unwrap().entry, pending(5, 1));
    assert_eq!(finder.lock_watches(), 0);
}

async fn a_lock_that_is_written_to_is_still_a_lock(tree: &Tree) {
    let (session, other) = with_queues(tree).await;
    put(&session, &[pending(5, 1)]).await;
    let lock = lock(&other, pending(5, 1).jid).await;
    let finder = finder(&session).await;
    finder.locked_elsewhere(next(&finder).await);
    other.set(lock.as_str(), "attempt 2", None).await.unwrap();
    put(&other, &[pending(5, 2)]).await;
    assert_eq!(next(&finder).await, pending(5, 2));
    assert_eq!(finder.counts(JobState::Pending).locked, 1);
    other.delete(lock, None).await.unwrap();
    assert_eq!(next(&finder).await, pending(5, 1));
}

async fn a_job_whose_lock_has_gone_meanwhile_comes_back_at_once(tree: &Tree) {
    let (session, _) = with_queues(tree).await;
    put(&session, &[pending(5, 1)]).await;
    let finder = finder(&session).await;
    for _ in 0..3 {
        finder.locked_elsewhere(next(&finder).await);
    }
    assert_eq!(next(&finder).await, pending(5, 1));
}

/// Writes the status of a job, as a commit on it does.
async fn write_status(session: &Session, jid: Jid, state: JobState) {
    let status = JobStatus::new(state, Date::from_millis(0)).write(Dialect::Design);
    let at = JobNode::Status.of(jid);
    if session.exists(at.as_str()).await.unwrap().is_some() {
        session.set(at, status, None).await.unwrap();
    } else {
        session.create_with_parents(at.as_str(), status, Mode::Persistent).await.unwrap();
    }
}

async fn a_job_comes_back_when_the_other_job_that_it_waits_for_is_in_another_state(tree: &Tree) {
    let (session, other) = with_queues(tree).await;
    put(&session, &[pending(5, 1)]).await;
    let first = pending(5, 77).jid;
    write_status(&other, first, JobState::Recording).await;
    let finder = finder(&session).await;
    let until = || Until::Moved(first, JobState::Recording);
    finder.wait_until(next(&finder).await.jid, until());
    // Somebody takes it and gives it back: that is no news.
    write_status(&other, first, JobState::Recording).await;
    put(&other, &[pending(5, 2)]).await;
    assert_eq!(next(&finder).await, pending(5, 2), "it blocks no other");
    assert_eq!((finder.counts(JobState::Pending).locked, finder.lock_watches()), (1, 1));
    write_status(&other, first, JobState::Notify).await;
    assert_eq!(next(&finder).await, pending(5, 1));
    assert_eq!(finder.lock_watches(), 0);
    // It has moved on already, or is deleted.
    finder.wait_until(pending(5, 1).jid, until());
    assert_eq!(next(&finder).await, pending(5, 1));
    other.delete(JobNode::Status.of(first), None).await.unwrap();
    finder.wait_until(pending(5, 1).jid, until());
    assert_eq!(next(&finder).await, pending(5, 1));
}

async fn a_job_that_waits_for_a_lock_on_an_object_comes_back_when_it_goes(tree: &Tree) {
    let (session, other) = with_queues(tree).await;
    put(&session, &[pending(5, 1)]).await;
    let lock = Side::Storage.path("ark:/13030/m5");
    other.create_with_parents(lock.as_str(), "", Mode::Ephemeral).await.unwrap();
    let finder = finder(&session).await;
    finder.wait_until(next(&finder).await.jid, Until::Gone(lock.clone()));
    let mut waiting = pin!(finder.next(JobState::Pending));
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    other.delete(lock, None).await.unwrap();
    assert_eq!(within(waiting).await.unwrap().entry, pending(5, 1));
    assert_eq!(finder.lock_watches(), 0);
}

async fn a_job_whose_holder_dies_comes_back(tree: &Tree) {
    let (session, _) = with_queues(tree).await;
    let other = tree.mortal_session().await;
    put(&session, &[pending(5, 1)]).await;
    lock(&other, pending(5, 1).jid).await;
    let finder = finder(&session).await;
    finder.locked_elsewhere(next(&finder).await);
    tree.expire(&other).await;
    assert_eq!(next(&finder).await, pending(5, 1));
}

async fn each_parked_job_has_one_watch_and_no_longer_than_it_is_parked(tree: &Tree) {
    let (session, other) = with_queues(tree).await;
    let double = at(JobState::Estimating, 5, 0);
    let jobs: Vec<_> = (0..10).map(|number| pending(5, number)).collect();
    put(&session, &jobs).await;
    put(&session, &[double]).await;
    let finder = finder(&session).await;
    for entry in &jobs {
        lock(&other, entry.jid).await;
        finder.locked_elsewhere(next(&finder).await);
    }
    let entry = within(finder.next(JobState::Estimating)).await.unwrap().entry;
    finder.locked_elsewhere(entry);
    assert_eq!(finder.lock_watches(), 10, "one for each lock, not for each ref");
    for entry in &jobs {
        remove(&other, *entry).await;
        assert!(within(finder.gone(*entry)).await);
    }
    assert_eq!(finder.lock_watches(), 1, "the other ref of the first");
    remove(&other, double).await;
    assert!(within(finder.gone(double)).await);
    assert_eq!(finder.lock_watches(), 0);
}

async fn what_is_locked_elsewhere_is_tried_again_when_a_component_vanishes(tree: &Tree) {
    let (session, other) = with_queues(tree).await;
    put(&session, &[pending(5, 1)]).await;
    lock(&other, pending(5, 1).jid).await;
    let finder = finder(&session).await;
    finder.locked_elsewhere(next(&finder).await);
    finder.components(vec!["here".into(), "there".into()], "here");
    assert_eq!(finder.lock_watches(), 1);
    finder.components(vec!["here".into()], "here");
    assert_eq!(next(&finder).await, pending(5, 1));
    assert_eq!(finder.lock_watches(), 0);
}

/// A lock that goes with its job's move is no news: the move is seen first.
#[tokio::test]
async fn a_job_that_moved_on_elsewhere_is_not_offered_where_it_was() {
    let tree = Tree::embedded();
    let (session, other) = with_queues(&tree).await;
    let finder = finder(&session).await;
    for number in 0..50 {
        let (old, new) = (pending(5, number), at(JobState::Completed, 5, number));
        put(&session, &[old]).await;
        let lock = lock(&other, old.jid).await;
        finder.locked_elsewhere(next(&finder).await);
        let mut waiting = pin!(finder.next(JobState::Pending));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        let moved = vec![Op::delete(old.path(), None), Op::create(new.path(), ""), Op::delete(lock, None)];
        other.multi(moved).await.unwrap();
        assert!(within(finder.gone(old)).await);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
    }
    assert_eq!((ready(&finder), finder.lock_watches()), (0, 0));
    drop(finder);
    tree.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_job_stays_parked_without_a_watch_whatever_the_threads_do() {
    const ROUNDS: usize = 300;
    let tree = Tree::embedded();
    let (session, _) = with_queues(&tree).await;
    let jobs: Vec<_> = (0..8).map(|number| pending(5, number)).collect();
    put(&session, &jobs).await;
    let finder = Arc::new(finder(&session).await);
    let (found, mut finds) = mpsc::unbounded_channel();
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (finder, found) = (Arc::clone(&finder), found.clone());
        workers.spawn(async move {
            while let Some(candidate) = finder.next(JobState::Pending).await {
                found.send(candidate.entry).unwrap();
                // There is no lock, so each comes back as soon as it is looked for.
                finder.locked_elsewhere(candidate.entry);
            }
        });
    }
    let mut rounds: HashMap<_, usize> = HashMap::new();
    while jobs.iter().any(|entry| rounds.get(entry).is_none_or(|count| *count < ROUNDS)) {
        *rounds.entry(within(finds.recv()).await.unwrap()).or_default() += 1;
    }
    workers.shutdown().await;
    drop(finder);
    tree.close().await;
}
