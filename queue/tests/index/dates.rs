//! Process dates: from the refs in the tree, without a request in between. Time is paused once the store has nothing
//! to do any more.

use std::time::Duration;

use ingest_queue::date::{Clock, Date};
use ingest_queue::index::Settings;
use ingest_queue::index::finder::Finder;
use ingest_queue::map::{self, QueueRef};
use ingest_queue::states::JobState;
use ingest_store::{Mode, Session};
use tokio::time::Instant;

use crate::queues::{make_queues, pending, put};
use crate::tree::Tree;

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

/// In the order of their dates, each at its own and none before.
async fn as_dated(finder: &Finder, tree: Tree) {
    assert_eq!(timed(finder).await.0, pending(5, 3), "it has no date");
    tokio::time::pause();
    for expected in [pending(5, 2), pending(5, 1)] {
        let (entry, took) = timed(finder).await;
        assert_eq!(entry, expected);
        assert!(
            took <= HOUR + Duration::from_millis(2) && took + Duration::from_secs(20) >= HOUR,
            "{took:?}"
        );
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
    let finder = Finder::start_by(&session, Settings::default(), clock()).await.unwrap();
    as_dated(&finder, tree).await;
}

#[tokio::test]
async fn dates_that_come_are_kept() {
    let tree = Tree::embedded();
    let session = tree.session().await;
    make_queues(&session).await;
    let finder = Finder::start_by(&session, Settings::default(), clock()).await.unwrap();
    date(&session, pending(5, 1), 2 * HOUR).await;
    date(&session, pending(5, 2), HOUR).await;
    put(&session, &[pending(5, 1), pending(5, 2), pending(5, 3)]).await;
    for number in 1..=3 {
        assert!(finder.seen(pending(5, number)).await);
    }
    as_dated(&finder, tree).await;
}

#[tokio::test]
async fn a_date_that_goes_or_that_a_better_clock_has_passed_keeps_nobody_waiting() {
    let tree = Tree::embedded();
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
    tree.close().await;
}
