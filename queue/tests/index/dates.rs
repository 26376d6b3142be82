//! Process dates: from the refs in the tree, without a request in between. Where time is paused it is so once the store has
//! nothing to do any more, on the embedded engine: a server's client has timers of its own.
//!
//! Invariants: no job is offered before its process date, and none is forgotten when it has come. The order is priority, then
//! process date, whether the date came while the node looked or before it began.

use std::time::Duration;

use ingest_queue::date::{Clock, Date};
use ingest_queue::index::Settings;
use ingest_queue::index::finder::Finder;
use ingest_queue::map::{self, QueueRef};
use ingest_queue::states::JobState;
use ingest_store::{Mode, Session};
use tokio::time::Instant;

use crate::queues::{make_queues, pending, put};
use crate::tree::{PATIENCE, Tree, on_both_engines};

on_both_engines!(
    a_date_that_goes_or_that_a_better_clock_has_passed_keeps_nobody_waiting,
    dates_that_a_better_clock_has_passed_keep_their_order,
    dates_that_came_before_the_node_began_keep_their_order,
);

const HOUR: Duration = Duration::from_hours(1);

fn clock() -> Clock {
    Clock::fixed(Date::from_millis(1_763_257_425_000))
}

/// A job that is not due before so much time.
async fn date(session: &Session, entry: QueueRef, wait: Duration) {
    let date = clock().now().after(wait);
    let at = map::journal_date(date.millis(), entry.jid);
    session.create_with_parents(at, "", Mode::Persistent).await.unwrap();
}

async fn timed(finder: &Finder) -> (QueueRef, Duration) {
    let start = Instant::now();
    let entry = finder.next(JobState::Pending).await.unwrap().entry;
    (entry, start.elapsed())
}

/// In the order of their dates, each at its own and none before. `start` is from before the finder learned of the dates, and
/// the pause is after it, so whatever the test takes in real time lies between the two bounds.
async fn as_dated(finder: &Finder, tree: Tree, start: Instant) {
    assert_eq!(timed(finder).await.0, pending(5, 3), "it has no date");
    tokio::time::pause();
    let paused = Instant::now();
    for (expected, due) in [(pending(5, 2), HOUR), (pending(5, 1), 2 * HOUR)] {
        assert_eq!(timed(finder).await.0, expected);
        assert!(start.elapsed() >= due, "{expected:?} came too early: {:?}", start.elapsed());
        // A timer may be a millisecond late.
        let late = due + Duration::from_millis(2);
        assert!(paused.elapsed() <= late, "{expected:?} came too late: {:?}", paused.elapsed());
    }
    tokio::time::resume();
    tree.close().await;
}

#[tokio::test]
async fn dates_that_are_there_are_kept() {
    let tree = Tree::embedded();
    let session = tree.session().await;
    make_queues(&session).await;
    date(&session, pending(5, 1), 2 * HOUR).await;
    date(&session, pending(5, 2), HOUR).await;
    put(&session, &[pending(5, 1), pending(5, 2), pending(5, 3)]).await;
    let start = Instant::now();
    let finder = Finder::start_by(&session, Settings::default(), clock()).await.unwrap();
    as_dated(&finder, tree, start).await;
}

#[tokio::test]
async fn dates_that_come_are_kept() {
    let tree = Tree::embedded();
    let session = tree.session().await;
    make_queues(&session).await;
    let start = Instant::now();
    let finder = Finder::start_by(&session, Settings::default(), clock()).await.unwrap();
    date(&session, pending(5, 1), 2 * HOUR).await;
    date(&session, pending(5, 2), HOUR).await;
    put(&session, &[pending(5, 1), pending(5, 2), pending(5, 3)]).await;
    for number in 1..=3 {
        assert!(finder.seen(pending(5, number)).await);
    }
    as_dated(&finder, tree, start).await;
}

async fn a_date_that_goes_or_that_a_better_clock_has_passed_keeps_nobody_waiting(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let clock = clock();
    date(&session, pending(5, 1), HOUR).await;
    date(&session, pending(5, 2), 2 * HOUR).await;
    put(&session, &[pending(5, 1), pending(5, 2)]).await;
    let finder = Finder::start_by(&session, Settings::default(), clock.clone()).await.unwrap();
    let name = map::journal_date(clock.now().after(HOUR).millis(), pending(5, 1).jid);
    session.delete(name, None).await.unwrap();
    assert_eq!(timed(&finder).await.0, pending(5, 1));
    // This machine's clock was behind.
    clock.advance(2 * HOUR);
    finder.reckon_dates();
    assert_eq!(timed(&finder).await.0, pending(5, 2));
}

async fn dates_that_a_better_clock_has_passed_keep_their_order(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let clock = clock();
    let jobs: Vec<_> = (1..=20).map(|number| pending(5, number)).collect();
    for entry in &jobs {
        date(&session, *entry, HOUR * (30 - entry.jid.number())).await;
    }
    put(&session, &jobs).await;
    let finder = Finder::start_by(&session, Settings::default(), clock.clone()).await.unwrap();
    assert_eq!(finder.counts(JobState::Pending).not_due, 20);
    clock.advance(30 * HOUR);
    finder.reckon_dates();
    for expected in jobs.iter().rev() {
        assert_eq!(timed(&finder).await.0, *expected);
    }
}

/// Waits until a date has passed by the store's clock, and until the finder has put the job of that date in line.
async fn until(finder: &Finder, date: i64, entry: QueueRef) {
    ingest_harness::eventually("a date that passes", PATIENCE, || async {
        let passed = Clock::system().now().millis() > date;
        (passed && finder.line(JobState::Pending).contains(&entry)).then_some(())
    })
    .await;
}

/// One node looks all the time, one begins when all is over: both have the same order.
async fn dates_that_came_before_the_node_began_keep_their_order(tree: &Tree) {
    let session = tree.session().await;
    make_queues(&session).await;
    let living = Finder::start(&session, Settings::default()).await.unwrap();
    let insert = async |entry: QueueRef, due: Option<i64>| {
        let (_, stat) = session.create_with_parents(map::job(entry.jid), "", Mode::Persistent).await.unwrap();
        if let Some(due) = due {
            session.create(map::journal_date(due, entry.jid), "", Mode::Persistent).await.unwrap();
        }
        put(&session, &[entry]).await;
        stat.ctime
    };
    let (urgent, before, between, after) = (pending(4, 8), pending(5, 3), pending(5, 5), pending(5, 7));
    let (late, early, last) = (pending(5, 1), pending(5, 2), pending(5, 6));
    let date = insert(before, None).await + 20;
    insert(early, Some(date)).await;
    insert(late, Some(date + 1)).await;
    until(&living, date + 1, late).await;
    let date = insert(between, None).await + 20;
    insert(last, Some(date)).await;
    until(&living, date, last).await;
    insert(after, None).await;
    insert(urgent, None).await;
    let order = [urgent, before, early, late, between, last, after];
    ingest_harness::eventually("all in line", PATIENCE, || async {
        (living.line(JobState::Pending).len() == order.len()).then_some(())
    })
    .await;
    assert_eq!(living.line(JobState::Pending), order);
    let begins = Finder::start(&session, Settings::default()).await.unwrap();
    assert_eq!(begins.line(JobState::Pending), order);
    // A job that gets another priority keeps the place of its date.
    for finder in [&living, &begins] {
        assert!(finder.seen(urgent).await);
    }
    session.delete(late.path(), None).await.unwrap();
    put(&session, &[pending(4, 1)]).await;
    for finder in [living, begins] {
        assert!(finder.seen(pending(4, 1)).await);
        assert!(finder.gone(late).await);
        let urgent_first = [pending(4, 1), urgent, before, early, between, last, after];
        assert_eq!(finder.line(JobState::Pending), urgent_first);
    }
}
