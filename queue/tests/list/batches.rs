use ingest_queue::error::Error;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::list::{self, BatchFilter, PageRequest};
use ingest_queue::map::{self, BatchNode};
use ingest_queue::nodes::{Expansion, Submission};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::{Mode, Session};

use crate::planted::{Batch, alike, ground, minute, plant};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_line_shows_the_whole_batch,
    every_field_of_the_filter_selects_batches,
    pages_of_batches_are_stable_while_they_come,
    the_newest_batches_come_first_if_asked_for_and_new_ones_do_not_disturb_the_pages,
    the_held_jobs_of_a_batch_are_counted_when_asked_for,
);

fn special() -> Batch {
    let mut batch = Batch::new(1, BatchState::Failed);
    batch.status.message = "2 jobs failed".into();
    batch.status.last_modified = Some(minute(9));
    batch.submission = Submission {
        profile_name: "Maps_content".into(),
        collection: Some("maps".into()),
        submitter: "ann".into(),
        payload_url: Some("https://example.org/Atlas.checkm".into()),
        payload_filename: Some("Sheets.zip".into()),
        ..Submission::default()
    };
    batch.submission.other.insert("uuid".into(), "5E1F-77".into());
    batch.expansion = Some(Expansion { next: 7, total: 9, ..Expansion::default() });
    batch
}

async fn selected(session: &Session, json: &str) -> Vec<u32> {
    let filter: BatchFilter = serde_json::from_str(json).unwrap();
    let page = list::batches(session, &filter, &PageRequest::default()).await.unwrap();
    page.lines.iter().map(|line| line.bid.number()).collect()
}

async fn a_line_shows_the_whole_batch(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    special().plant(&session).await;
    plant(&session, &alike(0..3, JobState::Failed)).await;
    plant(&session, &alike(3..5, JobState::Completed)).await;
    plant(&session, &alike(5..6, JobState::Held)).await;
    let gone = map::batch_ref(Bid::new(1), BatchList::Deleted, Jid::new(6));
    session.create(gone, "", Mode::Persistent).await.unwrap();
    session.create(BatchNode::Deleting.of(Bid::new(1)), "{}", Mode::Persistent).await.unwrap();
    let owner = r#"{"node": "ingest03", "since": "1970-01-01T00:08:00Z"}"#;
    session.create(BatchNode::Lock.of(Bid::new(1)), owner, Mode::Ephemeral).await.unwrap();
    let page = list::batches(&session, &BatchFilter::default(), &PageRequest::default()).await.unwrap();
    assert_eq!(
        serde_json::to_value(&page.lines).unwrap(),
        serde_json::json!([{
            "bid": "bid0000000001", "uuid": "5E1F-77", "state": "failed", "message": "2 jobs failed",
            "last_modified": "1970-01-01T00:09:00.000Z", "profile": "Maps_content", "collection": "maps",
            "submitter": "ann",
            "jobs": {
                "batch-processing": 1, "batch-failed": 3, "batch-completed": 2, "batch-deleted": 1,
            },
            "expansion": {"next": 7, "total": 9, "done": false},
            "deleting": true,
            "locked_by": {"node": "ingest03", "since": "1970-01-01T00:08:00.000Z"},
        }])
    );
}

async fn every_field_of_the_filter_selects_batches(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    Batch::new(0, BatchState::Pending).plant(&session).await;
    special().plant(&session).await;
    Batch::new(2, BatchState::Held).plant(&session).await;
    for json in [
        r#"{"states": ["failed"]}"#,
        r#"{"collection": "maps"}"#,
        r#"{"submitter": "ann"}"#,
        r#"{"newer_than": "1970-01-01T00:05:00Z"}"#,
        r#"{"text": "JOBS FAILED"}"#,
        r#"{"text": "bid0000000001"}"#,
        r#"{"text": "5e1f"}"#,
        r#"{"text": "maps_content"}"#,
        r#"{"text": "atlas"}"#,
        r#"{"text": "sheets.ZIP"}"#,
    ] {
        assert_eq!(selected(&session, json).await, [1], "{json}");
    }
    for (json, numbers) in [
        ("{}", vec![0, 1, 2]),
        (r#"{"states": ["held", "pending"]}"#, vec![0, 2]),
        (r#"{"older_than": "1970-01-01T00:05:00Z"}"#, vec![0, 2]),
        (r#"{"collection": "maps", "text": "bid0000000002"}"#, vec![]),
    ] {
        assert_eq!(selected(&session, json).await, numbers, "{json}");
    }
    assert!(serde_json::from_str::<BatchFilter>(r#"{"batch": "bid0000000001"}"#).is_err());
}

async fn pages_of_batches_are_stable_while_they_come(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    for number in 0..3 {
        Batch::new(number, BatchState::Pending).plant(&session).await;
    }
    let page = async |after| {
        let page = PageRequest { limit: 2, after, ..PageRequest::default() };
        let page = list::batches(&session, &BatchFilter::default(), &page).await.unwrap();
        (page.lines.iter().map(|line| line.bid.number()).collect::<Vec<_>>(), page.next)
    };
    let (first, next) = page(None).await;
    Batch::new(3, BatchState::Pending).plant(&session).await;
    let (second, end) = page(next).await;
    assert_eq!((first, second, end), (vec![0, 1], vec![2, 3], None));
}

async fn the_newest_batches_come_first_if_asked_for_and_new_ones_do_not_disturb_the_pages(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    for number in 0..5 {
        Batch::new(number, BatchState::Pending).plant(&session).await;
    }
    let page = async |after| {
        let page = PageRequest { limit: 2, after, newest_first: true };
        let page = list::batches(&session, &BatchFilter::default(), &page).await.unwrap();
        (page.lines.iter().map(|line| line.bid.number()).collect::<Vec<_>>(), page.next, page.left)
    };
    let (first, next, left) = page(None).await;
    assert_eq!((first, left), (vec![4, 3], 3));
    Batch::new(5, BatchState::Pending).plant(&session).await;
    let (second, next, _) = page(next).await;
    let (third, end, left) = page(next).await;
    assert_eq!((second, third, end, left), (vec![2, 1], vec![0], None, 0));
}

async fn the_held_jobs_of_a_batch_are_counted_when_asked_for(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    Batch::new(1, BatchState::Processing).plant(&session).await;
    Batch::new(2, BatchState::Processing).plant(&session).await;
    let mut jobs = alike(0..4, JobState::Held);
    jobs[3].bid = Bid::new(2);
    plant(&session, &jobs).await;
    plant(&session, &alike(4..9, JobState::Estimating)).await;
    assert_eq!(list::held_jobs(&session, Bid::new(1)).await.unwrap(), 3);
    assert_eq!(list::held_jobs(&session, Bid::new(2)).await.unwrap(), 1);
    assert!(matches!(list::held_jobs(&session, Bid::new(3)).await, Err(Error::NotFound(_))));
}
