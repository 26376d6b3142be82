//! What was missed, and the end.
//!
//! Invariants: whatever happened while the tree could not be followed, after it nothing is offered that is not there or
//! not due, nothing that waits is forgotten, and what was taken stays taken. With the session every wait ends.

use std::pin::pin;
use std::time::Duration;

use ingest_queue::date::{Clock, Date};
use ingest_queue::index::Settings;
use ingest_queue::index::finder::Ended;
use ingest_queue::index::finder::Finder;
use ingest_queue::map::{self, QueueRef};
use ingest_queue::states::JobState;
use ingest_store::{Limits, Mode, SessionState};

use crate::queues::{at, behind_a_proxy, finder, lock, make_queues, next, pending, put, remove};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    a_finder_that_reads_too_slowly_lists_again,
    when_the_session_ends_so_does_every_wait,
    a_session_that_is_over_cannot_be_followed,
);

async fn a_finder_that_reads_too_slowly_lists_again(tree: &Tree) {
    let session = tree.session_with(Limits { watch_backlog: 4, ..Limits::default() }).await;
    make_queues(&session).await;
    put(&session, &[pending(5, 0)]).await;
    let finder = finder(&session).await;
    assert_eq!(next(&finder).await, pending(5, 0));
    let jobs: Vec<_> = (1..=200).map(|number| pending(5, number)).collect();
    put(&session, &jobs).await;
    remove(&session, jobs[0]).await;
    for entry in &jobs[1..] {
        assert!(within(finder.seen(*entry)).await);
    }
    assert!(within(finder.gone(jobs[0])).await);
    for entry in &jobs[1..] {
        assert_eq!(next(&finder).await, *entry);
    }
    assert_eq!(finder.counts(JobState::Pending).taken, 200, "what was taken is still taken");
}

async fn when_the_session_ends_so_does_every_wait(tree: &Tree) {
    let session = tree.mortal_session().await;
    make_queues(&session).await;
    let finder = finder(&session).await;
    let mut waits: Vec<_> = (0..10).map(|_| Box::pin(finder.next(JobState::Pending))).collect();
    for wait in &mut waits {
        assert!(futures::poll!(wait).is_pending());
    }
    let mut seen = pin!(finder.seen(pending(5, 1)));
    assert!(futures::poll!(seen.as_mut()).is_pending());
    tree.expire(&session).await;
    for wait in waits {
        assert_eq!(within(wait).await, None);
    }
    assert!(!within(seen).await);
    assert!(matches!(finder.ended(), Some(Ended::Session(SessionState::Expired))));
    assert_eq!(within(finder.next(JobState::Pending)).await, None);
    assert_eq!(within(finder.sweep()).await, None);
}

async fn a_session_that_is_over_cannot_be_followed(tree: &Tree) {
    let session = tree.mortal_session().await;
    tree.expire(&session).await;
    let error = within(Finder::start(&session, Settings::default())).await.unwrap_err();
    assert_eq!(error.kind(), Some(ingest_store::Kind::Expired));
}

#[tokio::test]
async fn what_happened_while_disconnected_is_seen_after_the_reconnect() {
    let (proxy, session, other) = behind_a_proxy().await;
    let (kept, gone) = (pending(5, 2), pending(5, 1));
    put(&other, &[gone, kept, pending(0, 9)]).await;
    let finder = finder(&session).await;
    assert_eq!(next(&finder).await, pending(0, 9));
    proxy.cut();
    within(session.states().wait_for(|status| status.state == SessionState::Suspended)).await.unwrap();
    remove(&other, gone).await;
    put(&other, &[pending(4, 3), at(JobState::Notify, 5, 4)]).await;
    proxy.heal();
    assert!(within(finder.seen(pending(4, 3))).await);
    assert!(within(finder.gone(gone)).await);
    assert_eq!(next(&finder).await, pending(4, 3));
    assert_eq!(next(&finder).await, kept);
    let notify = within(finder.next(JobState::Notify)).await.unwrap();
    assert_eq!(notify.entry, at(JobState::Notify, 5, 4));
    assert_eq!(finder.waiting(JobState::Pending), 0, "what was taken before is not offered again");
    // And it goes on from there.
    put(&other, &[pending(5, 5)]).await;
    assert_eq!(next(&finder).await, pending(5, 5));
}

#[tokio::test]
async fn dates_that_came_and_went_while_disconnected_are_kept_after_the_reconnect() {
    const HOUR: Duration = Duration::from_hours(1);
    let (proxy, session, other) = behind_a_proxy().await;
    let clock = Clock::fixed(Date::from_millis(1_763_257_425_000));
    let at = |entry: QueueRef, wait| map::journal_date(clock.now().after(wait).millis(), entry.jid);
    let (freed, kept, moved, made) = (pending(5, 1), pending(5, 2), pending(5, 3), pending(5, 4));
    for (entry, wait) in [(freed, HOUR), (kept, HOUR), (moved, HOUR)] {
        other.create_with_parents(at(entry, wait), "", Mode::Persistent).await.unwrap();
    }
    put(&other, &[freed, kept, moved]).await;
    let finder = Finder::start_by(&session, Settings::default(), clock.clone()).await.unwrap();
    assert_eq!(finder.counts(JobState::Pending).not_due, 3);
    proxy.cut();
    within(session.states().wait_for(|status| status.state == SessionState::Suspended)).await.unwrap();
    other.delete(at(freed, HOUR), None).await.unwrap();
    other.delete(at(moved, HOUR), None).await.unwrap();
    for (entry, wait) in [(moved, 3 * HOUR), (made, 2 * HOUR)] {
        other.create(at(entry, wait), "", Mode::Persistent).await.unwrap();
    }
    put(&other, &[made]).await;
    proxy.heal();
    // None forgotten, and none early.
    assert_eq!(next(&finder).await, freed);
    assert!(within(finder.seen(made)).await);
    let counts = finder.counts(JobState::Pending);
    assert_eq!((counts.ready, counts.not_due), (0, 3), "{counts:?}");
    for (due, expected) in [(HOUR, kept), (HOUR, made), (HOUR, moved)] {
        clock.advance(due);
        finder.reckon_dates();
        assert_eq!(next(&finder).await, expected);
        assert_eq!(finder.counts(JobState::Pending).ready, 0);
    }
}

#[tokio::test]
async fn a_lock_that_went_while_disconnected_is_tried_again() {
    let (proxy, session, other) = behind_a_proxy().await;
    put(&other, &[pending(5, 1), pending(5, 2)]).await;
    let finder = finder(&session).await;
    let released = lock(&other, pending(5, 1).jid).await;
    lock(&other, pending(5, 2).jid).await;
    for _ in 0..2 {
        finder.locked_elsewhere(next(&finder).await);
    }
    proxy.cut();
    within(session.states().wait_for(|status| status.state == SessionState::Suspended)).await.unwrap();
    other.delete(released, None).await.unwrap();
    proxy.heal();
    assert_eq!(next(&finder).await, pending(5, 1));
    assert_eq!(next(&finder).await, pending(5, 2), "whatever was locked is looked at anew");
    assert_eq!(finder.lock_watches(), 0);
}
