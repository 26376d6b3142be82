//! Slots of a semaphore, taken and given back.
//!
//! Invariants: at no moment more slots are held than the limit says, whoever takes them at the same time. A slot comes back
//! with its owner or its session, and somebody who waits gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use ingest_store::recipes::semaphore::Semaphore;
use ingest_store::{Kind, Mode};

use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    slots_end_at_the_limit,
    never_more_than_the_limit_hold_a_slot,
    a_waiter_gets_the_slot_that_comes_back,
    the_slots_of_a_dead_session_come_back,
    a_dropped_slot_comes_back,
    a_larger_limit_lets_waiters_in_and_a_smaller_one_takes_nothing_away,
    a_semaphore_without_a_limit_says_so,
    a_foreign_node_is_not_taken_for_a_semaphore,
    what_others_keep_on_the_semaphore_stays,
);

const NAME: &str = "/semaphores/collection";

async fn slots_end_at_the_limit(tree: &Tree) {
    let session = tree.mortal_session().await;
    let semaphore = Semaphore::new(&session, NAME);
    semaphore.set_limit(2).await.unwrap();
    let first = semaphore.try_acquire("a").await.unwrap().unwrap();
    let _second = semaphore.try_acquire("b").await.unwrap().unwrap();
    assert!(semaphore.try_acquire("c").await.unwrap().is_none());
    session.multi(vec![first.fence()]).await.unwrap();
    first.release().await.unwrap();
    assert_eq!(semaphore.held().await.unwrap(), 1);
    semaphore.try_acquire("c").await.unwrap().unwrap().release().await.unwrap();
}

async fn never_more_than_the_limit_hold_a_slot(tree: &Tree) {
    const LIMIT: i32 = 3;
    let session = tree.mortal_session().await;
    Semaphore::new(&session, NAME).set_limit(3).await.unwrap();
    let (inside, most) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicI32::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let session = tree.mortal_session().await;
        for _ in 0..4 {
            let semaphore = Semaphore::new(&session, NAME);
            let (inside, most) = (inside.clone(), most.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..3 {
                    let slot = semaphore.acquire("worker").await.unwrap();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    assert!(semaphore.held().await.unwrap() <= LIMIT);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    slot.release().await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    assert!((1..=LIMIT).contains(&most.load(Ordering::SeqCst)));
    assert_eq!(Semaphore::new(&session, NAME).held().await.unwrap(), 0);
}

async fn a_waiter_gets_the_slot_that_comes_back(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    let semaphore = Semaphore::new(&one, NAME);
    semaphore.set_limit(1).await.unwrap();
    let held = semaphore.acquire("a").await.unwrap();
    let waiting = tokio::spawn(async move { Semaphore::new(&two, NAME).acquire("b").await.unwrap() });
    held.release().await.unwrap();
    within(waiting).await.unwrap();
}

async fn the_slots_of_a_dead_session_come_back(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    let semaphore = Semaphore::new(&two, NAME);
    semaphore.set_limit(1).await.unwrap();
    let _held = Semaphore::new(&one, NAME).acquire("a").await.unwrap();
    let waiting = tokio::spawn(async move { semaphore.acquire("b").await.unwrap() });
    tree.expire(&one).await;
    within(waiting).await.unwrap();
}

async fn a_dropped_slot_comes_back(tree: &Tree) {
    let session = tree.mortal_session().await;
    let semaphore = Semaphore::new(&session, NAME);
    semaphore.set_limit(1).await.unwrap();
    drop(semaphore.acquire("a").await.unwrap());
    within(semaphore.acquire("b")).await.unwrap();
}

async fn a_larger_limit_lets_waiters_in_and_a_smaller_one_takes_nothing_away(tree: &Tree) {
    let session = tree.mortal_session().await;
    let semaphore = Semaphore::new(&session, NAME);
    semaphore.set_limit(1).await.unwrap();
    let first = semaphore.acquire("a").await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire("b").await.unwrap() }
    });
    semaphore.set_limit(2).await.unwrap();
    let second = within(waiting).await.unwrap();
    semaphore.set_limit(1).await.unwrap();
    session.multi(vec![first.fence(), second.fence()]).await.unwrap();
    first.release().await.unwrap();
    assert!(semaphore.try_acquire("c").await.unwrap().is_none());
}

async fn a_semaphore_without_a_limit_says_so(tree: &Tree) {
    let semaphore = Semaphore::new(&tree.mortal_session().await, NAME);
    let error = semaphore.try_acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), Kind::NoNode);
    assert!(error.to_string().contains("no limit"), "{error}");
}

async fn a_foreign_node_is_not_taken_for_a_semaphore(tree: &Tree) {
    let session = tree.mortal_session().await;
    session.create_with_parents(NAME, "garbage", Mode::Persistent).await.unwrap();
    let error = Semaphore::new(&session, NAME).try_acquire("a").await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::Corrupt, Some(NAME)));
}

async fn what_others_keep_on_the_semaphore_stays(tree: &Tree) {
    let session = tree.mortal_session().await;
    session.create_with_parents(NAME, r#"{"limit":1,"note":"night"}"#, Mode::Persistent).await.unwrap();
    let semaphore = Semaphore::new(&session, NAME);
    semaphore.set_limit(2).await.unwrap();
    let _slot = semaphore.acquire("a").await.unwrap();
    assert_eq!(&session.get(NAME).await.unwrap().0[..], br#"{"limit":2,"note":"night"}"#);
}
