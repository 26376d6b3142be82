//! Long lists are asked for rarely, and say the same.

use std::sync::Arc;

use ingest_queue::ids::Jid;
use ingest_queue::list::{self, Filter, Kept, Names, PageRequest};
use ingest_queue::states::JobState;
use ingest_store::Session;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::Faulty;
use ingest_store::{Limits, Store};
use tempfile::TempDir;

use crate::planted::{alike, ground, plant};

/// From so many names on a list is long here.
const LONG: usize = 20;

struct Node {
    session: Session,
    calls: Faulty,
    kept: Kept,
    index: Option<Vec<Jid>>,
    _dir: TempDir,
}

impl Names for Node {
    fn session(&self) -> &Session {
        &self.session
    }

    fn kept(&self) -> Option<&Kept> {
        Some(&self.kept)
    }

    fn waiting(&self, _: JobState) -> Option<Vec<Jid>> {
        self.index.clone()
    }
}

impl Node {
    /// A tree with so many jobs, and a node that keeps lists so many times as long as they took.
    async fn with(jobs: u32, share: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let calls = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
        let session = Store::new(Arc::new(calls.clone()), Limits::default()).session().await.unwrap();
        ground(&session).await;
        plant(&session, &alike(1..=jobs, JobState::Pending)).await;
        Self { session, calls, kept: Kept::new(LONG, share), index: None, _dir: dir }
    }

    /// The ids of a page of one, how many are left, and how many calls it took.
    async fn page(&self, filter: &Filter, newest_first: bool) -> (String, usize, usize) {
        let before = self.calls.calls();
        let page = PageRequest { limit: 1, newest_first, ..PageRequest::default() };
        let found = list::jobs(self, filter, &page).await.unwrap();
        let calls = self.calls.calls() - before;
        (found.lines[0].jid.to_string(), found.left, calls)
    }
}

fn pending() -> Filter {
    Filter { states: vec![JobState::Pending], ..Filter::default() }
}

#[tokio::test]
async fn a_long_list_is_asked_for_once_as_long_as_nothing_changes() {
    let node = Node::with(50, 0).await;
    for filter in [Filter::default(), pending()] {
        let (first, left, asked) = node.page(&filter, false).await;
        assert_eq!((first.as_str(), left), ("jid0000000001", 49));
        let (again, left, kept) = node.page(&filter, false).await;
        assert_eq!((again.as_str(), left), ("jid0000000001", 49));
        // Some reads are ahead when the page is full.
        assert!(kept < asked, "{kept} calls, and {asked} with the list");
    }
}

#[tokio::test]
async fn what_has_changed_is_listed_again_after_its_time() {
    let node = Node::with(50, 0).await;
    assert_eq!(node.page(&pending(), true).await.0, "jid0000000050");
    plant(&node.session, &alike(51..53, JobState::Pending)).await;
    let (newest, left, _) = node.page(&pending(), true).await;
    assert_eq!((newest.as_str(), left), ("jid0000000052", 51));
}

#[tokio::test]
async fn a_job_that_was_just_made_is_known_by_its_number_before_the_next_list() {
    let node = Node::with(50, u32::MAX).await;
    assert_eq!(node.page(&Filter::default(), true).await.0, "jid0000000050");
    plant(&node.session, &alike(51..53, JobState::Pending)).await;
    let (newest, left, _) = node.page(&Filter::default(), true).await;
    assert_eq!((newest.as_str(), left), ("jid0000000052", 51));
    // The list of a state is the one that is kept.
    let kept = node.page(&pending(), true).await;
    plant(&node.session, &alike(53..54, JobState::Pending)).await;
    assert_eq!(node.page(&pending(), true).await.0, kept.0);
}

#[tokio::test]
async fn what_the_index_knows_is_not_asked_for_if_it_is_long() {
    let mut node = Node::with(50, 0).await;
    node.index = Some(vec![Jid::new(9), Jid::new(7)]);
    let (first, left, _) = node.page(&pending(), false).await;
    assert_eq!((first.as_str(), left), ("jid0000000007", 1));
    let mut short = Node::with(5, 0).await;
    short.index = node.index.clone();
    let (first, left, _) = short.page(&pending(), false).await;
    assert_eq!((first.as_str(), left), ("jid0000000001", 4), "a short list is asked for");
}
