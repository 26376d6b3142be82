//! Jobs that become ready by themselves. Time is paused once the store has nothing to do any more.

use std::time::Duration;

use ingest_queue::index::finder::Finder;
use ingest_queue::index::{Seen, Settings};
use ingest_queue::map::QueueRef;
use ingest_queue::states::JobState;
use ingest_store::Session;
use tokio::time::Instant;

use crate::queues::{finder, make_queues, pending, put};
use crate::tree::Tree;

const HOUR: Duration = Duration::from_hours(1);

/// Ends a test that has time paused.
async fn end(tree: Tree, finder: Finder) {
    drop(finder);
    tokio::time::resume();
    tree.close().await;
}

async fn with_jobs(tree: &Tree, entries: &[QueueRef]) -> Session {
    let session = tree.session().await;
    make_queues(&session).await;
    put(&session, entries).await;
    session
}

/// The next job, and how long it took.
async fn timed(finder: &Finder) -> (QueueRef, Duration) {
    let start = Instant::now();
    let entry = finder.next(JobState::Pending).await.unwrap().entry;
    (entry, start.elapsed())
}

/// A timer may be a millisecond late.
fn assert_took(took: Duration, expected: Duration) {
    assert!(took >= expected && took <= expected + Duration::from_millis(2), "{took:?}, not {expected:?}");
}

#[tokio::test]
async fn a_delayed_job_is_offered_when_its_time_has_come() {
    let tree = Tree::embedded();
    let session = with_jobs(&tree, &[pending(5, 1), pending(5, 2)]).await;
    let finder = finder(&session).await;
    tokio::time::pause();
    let now = Instant::now();
    for until in [now + 2 * HOUR, now + HOUR] {
        let (entry, _) = timed(&finder).await;
        finder.delay(entry.jid, until);
        // The timer goes to sleep for what it knows, and has to learn of what comes earlier. Paused time moves on only
        // when every task waits: when this sleep ends, the timer sleeps.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (entry, _) = timed(&finder).await;
    assert_eq!(entry, pending(5, 2));
    assert_took(now.elapsed(), HOUR);
    assert_eq!(timed(&finder).await.0, pending(5, 1));
    end(tree, finder).await;
}

#[tokio::test]
async fn a_dated_job_is_offered_when_it_is_due() {
    let tree = Tree::embedded();
    let session = with_jobs(&tree, &[pending(5, 1)]).await;
    let finder = finder(&session).await;
    tokio::time::pause();
    finder.date(pending(5, 1).jid, Some(Instant::now() + HOUR));
    let (entry, took) = timed(&finder).await;
    assert_eq!(entry, pending(5, 1));
    assert_took(took, HOUR);
    end(tree, finder).await;
}

#[tokio::test]
async fn a_job_of_another_node_is_offered_when_that_one_had_its_time() {
    let tree = Tree::embedded();
    let jobs: Vec<_> = (1..=20).map(|number| pending(5, number)).collect();
    let session = with_jobs(&tree, &jobs).await;
    // Long enough that the listing lies within it.
    let rank_delay = HOUR;
    let finder = Finder::start(&session, Settings { rank_delay, ..Settings::default() }).await.unwrap();
    finder.components(vec!["here".into(), "there".into()], "here");
    tokio::time::pause();
    let mut ranks = Vec::new();
    let start = Instant::now();
    for _ in &jobs {
        let candidate = finder.next(JobState::Pending).await.unwrap();
        assert!(candidate.rank == 0 || start.elapsed() > rank_delay / 2);
        ranks.push(candidate.rank);
    }
    assert!(ranks.is_sorted() && ranks.contains(&0) && ranks.contains(&1), "{ranks:?}");
    end(tree, finder).await;
}

#[tokio::test]
async fn a_doubtful_ref_is_offered_again_after_a_moment() {
    let tree = Tree::embedded();
    let session = with_jobs(&tree, &[pending(5, 1)]).await;
    let finder = finder(&session).await;
    tokio::time::pause();
    let (entry, _) = timed(&finder).await;
    assert_eq!(finder.disagrees(entry), Seen::Once);
    let (again, took) = timed(&finder).await;
    assert_eq!(again, entry);
    assert_took(took, Settings::default().doubt);
    assert_eq!(finder.disagrees(entry), Seen::Twice);
    end(tree, finder).await;
}
