use std::sync::Arc;

use ingest_queue::dialect::Dialect;
use ingest_queue::list::{self, Filter, PageRequest};
use ingest_queue::states::JobState;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::Faulty;
use ingest_store::{Limits, Session, Store};
use tempfile::TempDir;

use crate::planted::{alike, ground, plant};

/// A tree that counts the calls.
async fn counting() -> (TempDir, Faulty, Session) {
    let dir = tempfile::tempdir().unwrap();
    let faulty = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
    let session = Store::new(Arc::new(faulty.clone()), Limits::default()).session().await.unwrap();
    ground(&session).await;
    (dir, faulty, session)
}

#[tokio::test]
async fn a_page_costs_the_same_whether_hundreds_or_thousands_wait() {
    let (_dir, calls, session) = counting().await;
    let page = PageRequest::default();
    let filters = [Filter::default(), Filter { states: vec![JobState::Pending], ..Filter::default() }];
    let cost = async |filter| {
        let before = calls.calls();
        let page = list::jobs(&session, filter, &page).await.unwrap();
        assert_eq!(page.lines.len(), 50);
        calls.calls() - before
    };
    plant(&session, &alike(0..500, JobState::Pending)).await;
    let hundreds = [cost(&filters[0]).await, cost(&filters[1]).await];
    plant(&session, &alike(500..5_000, JobState::Pending)).await;
    let thousands = [cost(&filters[0]).await, cost(&filters[1]).await];
    for (few, many) in hundreds.into_iter().zip(thousands) {
        // One listing, and seven nodes of each job shown; some reads are ahead when the page is full.
        assert!((351..=351 + 16 * 7).contains(&many), "{many}");
        assert!(many.abs_diff(few) <= 16 * 7, "{few} and {many}");
    }
}

#[tokio::test]
async fn a_filter_on_the_status_reads_nothing_else_of_jobs_that_do_not_match() {
    let (_dir, calls, session) = counting().await;
    plant(&session, &alike(0..300, JobState::Pending)).await;
    let filter = Filter { newer_than: Some(crate::planted::minute(5)), ..Filter::default() };
    let before = calls.calls();
    let page = list::jobs(&session, &filter, &PageRequest::default()).await.unwrap();
    assert_eq!((page.lines.len(), page.looked_at), (0, 300));
    assert_eq!(calls.calls() - before, 1 + 300);
}

#[tokio::test]
async fn all_states_are_counted_by_one_call() {
    let (_dir, calls, session) = counting().await;
    plant(&session, &alike(0..300, JobState::Pending)).await;
    let before = calls.calls();
    let counts = list::counts(&session).await.unwrap();
    assert_eq!(calls.calls() - before, 1);
    assert_eq!(counts.len(), JobState::queues(Dialect::Design).count());
}
