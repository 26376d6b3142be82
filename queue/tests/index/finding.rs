//! Jobs that arrive, and those who wait for them.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ingest_harness::RequestKind;
use ingest_queue::index::finder::{Finder, Ignored};
use ingest_queue::states::JobState;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::Faulty;
use ingest_store::{Limits, Mode, Store};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use crate::queues::{at, behind_a_proxy, finder, make_queues, next, pending, put, ready, remove};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    jobs_that_wait_at_the_start_are_found_in_their_order,
    a_job_that_arrives_is_found,
    a_ref_that_is_deleted_is_not_offered,
    queues_that_are_made_later_are_followed_too,
    one_arrival_wakes_one_of_many_waiters,
    many_waiters_share_many_jobs,
    jobs_that_come_back_together_wake_as_many_waiters,
    a_wait_that_is_given_up_loses_no_job,
    a_finished_job_is_offered_in_its_next_queue,
    names_that_nobody_understands_are_left_alone,
    a_sweep_puts_right_what_the_index_has_wrong,
    a_sweep_of_a_true_index_heals_nothing,
);

async fn jobs_that_wait_at_the_start_are_found_in_their_order(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let order = [pending(0, 9), pending(5, 2), pending(5, 10), pending(80, 1)];
    put(&session, &[order[2], order[0], order[3], order[1]]).await;
    let finder = finder(&session).await;
    for entry in order {
        assert_eq!(next(&finder).await, entry);
    }
}

async fn a_job_that_arrives_is_found(tree: &Tree) {
    let (session, other) = (tree.session().await, tree.session().await);
    make_queues(&session).await;
    let finder = finder(&session).await;
    let mut waiting = pin!(finder.next(JobState::Pending));
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    put(&other, &[at(JobState::Estimating, 0, 1), pending(5, 2)]).await;
    let found = within(waiting).await.unwrap();
    assert_eq!((found.entry, found.rank), (pending(5, 2), 0));
}

async fn a_ref_that_is_deleted_is_not_offered(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    put(&session, &[pending(5, 1), pending(5, 2)]).await;
    let finder = finder(&session).await;
    remove(&session, pending(5, 1)).await;
    assert!(within(finder.gone(pending(5, 1))).await);
    assert_eq!(next(&finder).await, pending(5, 2));
    assert_eq!(ready(&finder), 0);
}

async fn queues_that_are_made_later_are_followed_too(tree: &Tree) {
    let session = tree.session().await;
    let finder = finder(&session).await;
    make_queues(&session).await;
    put(&session, &[pending(5, 1)]).await;
    assert_eq!(next(&finder).await, pending(5, 1));
    assert_eq!(finder.ignored(), Ignored::default());
}

/// Starts as many waiters, each for one job, and returns when all of them wait.
async fn wait_in_many(
    finder: &Arc<Finder>,
    count: usize,
) -> (Arc<AtomicUsize>, mpsc::UnboundedReceiver<ingest_queue::map::QueueRef>) {
    let (polls, (found, finds)) = (Arc::new(AtomicUsize::new(0)), mpsc::unbounded_channel());
    for _ in 0..count {
        let (finder, found, polls) = (Arc::clone(finder), found.clone(), Arc::clone(&polls));
        tokio::spawn(async move {
            let mut waiting = pin!(finder.next(JobState::Pending));
            let counted = std::future::poll_fn(|context| {
                polls.fetch_add(1, Ordering::SeqCst);
                waiting.as_mut().poll(context)
            });
            if let Some(candidate) = counted.await {
                found.send(candidate.entry).unwrap();
            }
        });
    }
    while polls.load(Ordering::SeqCst) < count {
        yield_now().await;
    }
    (polls, finds)
}

async fn one_arrival_wakes_one_of_many_waiters(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let finder = Arc::new(finder(&session).await);
    let (polls, mut finds) = wait_in_many(&finder, 100).await;
    // Each waiter is polled when it begins to wait and when it gets its job. A waiter that an arrival woke in vain is
    // polled once more before it gets a job of its own.
    for number in 1..=100 {
        put(&session, &[pending(5, number)]).await;
        assert_eq!(within(finds.recv()).await, Some(pending(5, number)));
    }
    assert_eq!(polls.load(Ordering::SeqCst), 200);
}

async fn many_waiters_share_many_jobs(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let finder = Arc::new(finder(&session).await);
    let (_, mut finds) = wait_in_many(&finder, 300).await;
    let jobs: Vec<_> = (0..300).map(|number| pending(i64::from(number % 7), number)).collect();
    for some in jobs.chunks(70) {
        put(&session, some).await;
    }
    let mut found = BTreeSet::new();
    for _ in &jobs {
        assert!(found.insert(within(finds.recv()).await.unwrap()), "a job was handed out twice");
    }
    assert_eq!(found, jobs.into_iter().collect());
}

async fn jobs_that_come_back_together_wake_as_many_waiters(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let jobs: Vec<_> = (0..10).map(|number| pending(5, number)).collect();
    put(&session, &jobs).await;
    let finder = Arc::new(finder(&session).await);
    for _ in &jobs {
        finder.park(next(&finder).await.jid, "full");
    }
    let (_, mut finds) = wait_in_many(&finder, 20).await;
    assert_eq!(finder.unpark("full"), 10);
    for _ in &jobs {
        within(finds.recv()).await.unwrap();
    }
}

async fn a_wait_that_is_given_up_loses_no_job(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let finder = finder(&session).await;
    {
        let mut given_up = pin!(finder.next(JobState::Pending));
        assert!(futures::poll!(given_up.as_mut()).is_pending());
        let mut waiting = Box::pin(finder.next(JobState::Pending));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        put(&session, &[pending(5, 1)]).await;
        assert!(within(finder.seen(pending(5, 1))).await);
        // It has been woken, and goes before it runs.
        drop(waiting);
    }
    assert_eq!(next(&finder).await, pending(5, 1));
}

async fn a_finished_job_is_offered_in_its_next_queue(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let finder = finder(&session).await;
    let (old, new) = (pending(5, 1), at(JobState::Estimating, 5, 1));
    put(&session, &[old]).await;
    next(&finder).await;
    put(&session, &[new]).await;
    remove(&session, old).await;
    assert!(within(finder.gone(old)).await);
    assert_eq!(finder.counts(JobState::Estimating).ready, 0, "its task has not ended");
    let mut waiting = pin!(finder.next(JobState::Estimating));
    assert!(futures::poll!(waiting.as_mut()).is_pending());
    finder.finished(old);
    assert_eq!(within(waiting).await.unwrap().entry, new);
}

async fn names_that_nobody_understands_are_left_alone(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let make = async |path: &str| session.create_with_parents(path, "x", Mode::Persistent).await.unwrap();
    let before = ["/jobs/states/paused", "/jobs/states/pending/junk", "/jobs/states/pending/5-jid0000000001"];
    for path in before {
        make(path).await;
    }
    put(&session, &[at(JobState::Completed, 5, 7)]).await;
    let finder = finder(&session).await;
    assert_eq!(finder.ignored(), Ignored { foreign: 3, not_taken_from: 0 });
    make("/jobs/states/paused/05-jid0000000001").await;
    make("/jobs/states/pending/05-jid0000000002/child").await;
    make("/jobs/states/Pending").await;
    put(&session, &[at(JobState::Failed, 5, 8), pending(6, 3)]).await;
    assert_eq!(next(&finder).await, pending(5, 2));
    assert_eq!(next(&finder).await, pending(6, 3));
    assert_eq!(finder.ignored(), Ignored { foreign: 6, not_taken_from: 1 });
    assert_eq!(finder.waiting(JobState::Pending), 0);
}

async fn a_sweep_puts_right_what_the_index_has_wrong(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    put(&session, &[pending(5, 1), pending(5, 2)]).await;
    let finder = finder(&session).await;
    // Said too early: it is still there.
    finder.finished(pending(5, 1));
    assert_eq!(within(finder.sweep()).await, Some(1));
    assert_eq!(within(finder.sweep()).await, Some(0));
    assert_eq!(next(&finder).await, pending(5, 1));
}

async fn a_sweep_of_a_true_index_heals_nothing(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let finder = finder(&session).await;
    for number in 0..20 {
        // Events are on their way while the sweep lists.
        put(&session, &[pending(5, number)]).await;
        assert_eq!(within(finder.sweep()).await, Some(0));
    }
    assert_eq!(ready(&finder), 20);
}

#[tokio::test]
async fn finding_a_job_sends_no_request_to_the_embedded_store() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
    let counted = Faulty::new(engine.clone());
    let open = async |store: Store| store.session().await.unwrap();
    let session = open(Store::new(Arc::new(counted.clone()), Limits::default())).await;
    let other = open(Store::new(Arc::new(engine.clone()), Limits::default())).await;
    make_queues(&other).await;
    let finder = finder(&session).await;
    let at_the_start = counted.calls();
    assert!(at_the_start > 0, "the calls of the start are counted");
    for number in 0..10 {
        put(&other, &[pending(5, number)]).await;
        finder.finished(next(&finder).await);
        remove(&other, pending(5, number)).await;
    }
    assert_eq!(counted.calls(), at_the_start);
    drop(finder);
    session.close().await.unwrap();
    other.close().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn finding_a_job_sends_nothing_but_pings_to_a_server() {
    let (proxy, session, other) = behind_a_proxy().await;
    let finder = finder(&session).await;
    proxy.reset_counts();
    for number in 0..10 {
        put(&other, &[pending(5, number)]).await;
        finder.finished(next(&finder).await);
        remove(&other, pending(5, number)).await;
    }
    let mut sent = proxy.counts();
    sent.remove(&RequestKind::Ping);
    assert!(sent.is_empty(), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_waiter_sleeps_while_a_job_is_ready_whatever_the_threads_do() {
    const JOBS: u32 = 3000;
    let tree = Tree::embedded();
    let session = tree.session().await;
    make_queues(&session).await;
    let finder = Arc::new(finder(&session).await);
    let (found, mut finds) = mpsc::unbounded_channel();
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..16 {
        let (finder, found) = (Arc::clone(&finder), found.clone());
        workers.spawn(async move {
            while let Some(candidate) = finder.next(JobState::Pending).await {
                // Some come back once, on all the ways that there are.
                match candidate.entry.jid.number() % 4 {
                    1 if candidate.entry.priority.number() == number => finder.put_back(candidate.entry.jid),
                    _ => {
                        finder.finished(candidate.entry);
                        found.send(candidate.entry).unwrap();
                    }
                }
            }
        });
    }
    let jobs: Vec<_> = (0..JOBS).map(|number| pending(i64::from(number % 5), number)).collect();
    for some in jobs.chunks(7) {
        put(&session, some).await;
    }
    let mut seen = BTreeSet::new();
    while seen.len() < jobs.len() {
        assert!(seen.insert(within(finds.recv()).await.unwrap()), "a job was handed out twice");
    }
    workers.shutdown().await;
    drop(finder);
    tree.close().await;
}
