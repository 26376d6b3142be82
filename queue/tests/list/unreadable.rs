use ingest_queue::ids::{Bid, Jid};
use ingest_queue::list::{self, BatchFilter, Filter, PageRequest};
use ingest_queue::map::{self, BatchNode, JobNode};
use ingest_queue::states::{BatchState, JobState};
use ingest_store::{Mode, Session};

use crate::planted::{Batch, alike, ground, plant};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_job_whose_status_cannot_be_read_is_reported_and_the_others_are_listed,
    a_part_that_cannot_be_read_is_reported_beside_its_line,
    a_job_that_the_filter_cannot_judge_is_reported_and_not_listed,
    names_that_are_no_ids_are_reported_once,
    a_batch_that_cannot_be_read_is_reported_and_the_others_are_listed,
);

/// The ids that are listed and the paths that could not be read.
async fn listed(session: &Session, filter: Filter) -> (Vec<u32>, Vec<String>) {
    let page = list::jobs(session, &filter, &PageRequest::default()).await.unwrap();
    (
        page.lines.iter().map(|line| line.jid.number()).collect(),
        page.unreadable.into_iter().map(|bad| bad.path).collect(),
    )
}

async fn a_job_whose_status_cannot_be_read_is_reported_and_the_others_are_listed(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..6, JobState::Failed)).await;
    let path = |number| JobNode::Status.of(Jid::new(number));
    session.set(path(1), "{", None).await.unwrap();
    session.set(path(2), r#"{"status": "lost"}"#, None).await.unwrap();
    session.delete(path(3), None).await.unwrap();
    session.set(path(4), vec![0xff, 0xfe], None).await.unwrap();
    let page = list::jobs(&session, &Filter::default(), &PageRequest::default()).await.unwrap();
    assert_eq!(page.lines.iter().map(|line| line.jid.number()).collect::<Vec<_>>(), [0, 5]);
    let bad: Vec<_> = page.unreadable.iter().map(|bad| bad.path.as_str()).collect();
    assert_eq!(bad, [path(1), path(2), path(3), path(4)]);
    assert!(page.unreadable[1].why.contains("`lost` is not a state"), "{:?}", page.unreadable);
    assert!(page.unreadable[2].why.contains("missing"), "{:?}", page.unreadable);
    let states = vec![JobState::Failed];
    assert_eq!(listed(&session, Filter { states, ..Filter::default() }).await.0, [0, 5]);
}

async fn a_part_that_cannot_be_read_is_reported_beside_its_line(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..2, JobState::Failed)).await;
    let parts = [JobNode::Bid, JobNode::Priority, JobNode::Configuration, JobNode::Identifiers].map(|node| {
        let path = node.of(Jid::new(0));
        (node, path)
    });
    for (_, path) in &parts {
        session.set(path.as_str(), "[1", None).await.unwrap();
    }
    let (jobs, bad) = listed(&session, Filter::default()).await;
    assert_eq!(jobs, [0, 1]);
    assert_eq!(bad, parts.map(|(_, path)| path));
}

async fn a_job_that_the_filter_cannot_judge_is_reported_and_not_listed(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..2, JobState::Failed)).await;
    let path = JobNode::Configuration.of(Jid::new(0));
    session.set(path.as_str(), "", None).await.unwrap();
    let collection = Some(String::new());
    let (jobs, bad) = listed(&session, Filter { collection, ..Filter::default() }).await;
    assert_eq!((jobs, bad), (vec![1], vec![path]));
}

async fn names_that_are_no_ids_are_reported_once(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..3, JobState::Failed)).await;
    for stray in ["/jobs/readme", "/jobs/states/failed/x", "/jobs/states/failed/100-jid0000000001"] {
        session.create(stray, "", Mode::Persistent).await.unwrap();
    }
    let (jobs, bad) = listed(&session, Filter::default()).await;
    assert_eq!((jobs, bad), (vec![0, 1, 2], vec!["/jobs/readme".to_owned()]));
    let filter = Filter { states: vec![JobState::Failed], ..Filter::default() };
    let first = PageRequest { limit: 2, ..PageRequest::default() };
    let first = list::jobs(&session, &filter, &first).await.unwrap();
    let bad: Vec<_> = first.unreadable.iter().map(|bad| bad.path.as_str()).collect();
    assert_eq!(bad, ["/jobs/states/failed/100-jid0000000001", "/jobs/states/failed/x"]);
    let second = PageRequest { limit: 2, after: first.next, ..PageRequest::default() };
    let second = list::jobs(&session, &filter, &second).await.unwrap();
    assert_eq!((second.lines.len(), second.unreadable.len()), (1, 0));
}

async fn a_batch_that_cannot_be_read_is_reported_and_the_others_are_listed(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    for number in 0..3 {
        Batch::new(number, BatchState::Processing).plant(&session).await;
    }
    session.create("/batches/stray", "", Mode::Persistent).await.unwrap();
    let (status, submission) = (BatchNode::Status.of(Bid::new(0)), BatchNode::Submission.of(Bid::new(1)));
    session.set(status.as_str(), "nonsense", None).await.unwrap();
    session.set(submission.as_str(), "nonsense", None).await.unwrap();
    let listed = async |filter: BatchFilter| {
        let page = list::batches(&session, &filter, &PageRequest::default()).await.unwrap();
        let bids: Vec<_> = page.lines.iter().map(|line| line.bid.number()).collect();
        (bids, page.unreadable.into_iter().map(|bad| bad.path).collect::<Vec<_>>())
    };
    let bad = vec![format!("{}/stray", map::BATCHES), status, submission];
    assert_eq!(listed(BatchFilter::default()).await, (vec![1, 2], bad.clone()));
    let submitter = Some(String::new());
    assert_eq!(listed(BatchFilter { submitter, ..BatchFilter::default() }).await, (vec![2], bad));
}
