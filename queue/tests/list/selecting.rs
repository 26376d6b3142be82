use ingest_queue::error::Error;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::list::{self, Filter, JobLine, PageRequest};
use ingest_queue::map::{JobNode, Priority};
use ingest_queue::nodes::{Configuration, Identifiers};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_queue::{dialect::Dialect, map};
use ingest_store::{Mode, Session};

use crate::planted::{Batch, Job, alike, ground, minute, plant};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    every_field_of_the_filter_selects,
    a_line_shows_the_whole_job,
    a_lock_that_says_nothing_is_a_lock_all_the_same,
    a_reference_that_disagrees_with_the_status_is_not_believed,
    a_completed_job_that_has_left_its_queue_is_listed_and_counted_as_one,
    a_deleted_job_is_shown_by_its_batch,
    a_batch_that_is_not_there_is_said,
    queues_are_counted_by_state,
);

async fn lines(session: &Session, filter: &Filter) -> Vec<JobLine> {
    let page = list::jobs(session, filter, &PageRequest::default()).await.unwrap();
    assert_eq!((page.unreadable, page.next), (Vec::new(), None));
    page.lines
}

async fn selected(session: &Session, json: &str) -> Vec<u32> {
    let filter: Filter = serde_json::from_str(json).unwrap();
    lines(session, &filter).await.iter().map(|line| line.jid.number()).collect()
}

/// A failed job that has everything, among others that have not.
fn special() -> Job {
    let mut job = Job::new(1, JobState::Failed);
    job.bid = Bid::new(2);
    job.priority = Priority::nearest(10);
    job.status.message = "Checksum differs".into();
    job.status.last_modification_date = Some(minute(9));
    job.configuration = Configuration {
        profile_name: "Maps_content".into(),
        collection: Some("maps".into()),
        submitter: "ann".into(),
        payload_url: "https://example.org/Atlas.zip".into(),
        ..Configuration::default()
    };
    job.identifiers = Identifiers {
        primary_id: Some("ark:/99999/Fk4x".into()),
        local_id: vec!["Shelf-12".into()],
        ..Identifiers::default()
    };
    job
}

async fn every_field_of_the_filter_selects(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    Batch::new(1, BatchState::Processing).plant(&session).await;
    Batch::new(2, BatchState::Processing).plant(&session).await;
    plant(&session, &[Job::new(0, JobState::Pending), special(), Job::new(2, JobState::Held)]).await;
    for json in [
        r#"{"states": ["failed"]}"#,
        r#"{"batch": "bid0000000002"}"#,
        r#"{"batch": "bid0000000002", "states": ["failed", "held"]}"#,
        r#"{"collection": "maps"}"#,
        r#"{"submitter": "ann"}"#,
        r#"{"newer_than": "1970-01-01T00:05:00Z"}"#,
        r#"{"min_priority": 6}"#,
        r#"{"min_priority": 10, "max_priority": 10}"#,
        r#"{"text": "CHECKSUM"}"#,
        r#"{"text": "jid0000000001"}"#,
        r#"{"text": "maps_CONTENT"}"#,
        r#"{"text": "atlas.zip"}"#,
        r#"{"text": "shelf-12"}"#,
        r#"{"text": "ark:/99999/fk4"}"#,
    ] {
        assert_eq!(selected(&session, json).await, [1], "{json}");
    }
    for (json, numbers) in [
        ("{}", vec![0, 1, 2]),
        (r#"{"states": ["held", "pending", "held"]}"#, vec![0, 2]),
        (r#"{"older_than": "1970-01-01T00:05:00Z"}"#, vec![0, 2]),
        (r#"{"max_priority": 9}"#, vec![0, 2]),
        (r#"{"batch": "bid0000000001"}"#, vec![0, 2]),
        (r#"{"batch": "bid0000000001", "states": ["held"]}"#, vec![2]),
        (r#"{"batch": "bid0000000002", "states": ["held"]}"#, vec![]),
        (r#"{"collection": "maps", "submitter": "bob"}"#, vec![]),
        (r#"{"collection": "map"}"#, vec![]),
        (r#"{"states": ["storing"]}"#, vec![]),
        (r#"{"text": "nowhere"}"#, vec![]),
    ] {
        assert_eq!(selected(&session, json).await, numbers, "{json}");
    }
}

async fn a_line_shows_the_whole_job(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    let mut job = special();
    (job.status.retry_count, job.status.attempt, job.status.recoverable) = (2, 7, false);
    plant(&session, &[job]).await;
    session.create(JobNode::SpaceNeeded.of(Jid::new(1)), "4096", Mode::Persistent).await.unwrap();
    let owner = r#"{"node": "ingest03", "since": "1970-01-01T00:08:00Z"}"#;
    session.create(JobNode::Lock.of(Jid::new(1)), owner, Mode::Ephemeral).await.unwrap();
    let [line] = lines(&session, &Filter::default()).await.try_into().unwrap();
    assert_eq!(
        serde_json::to_value(&line).unwrap(),
        serde_json::json!({
            "jid": "jid0000000001", "bid": "bid0000000002", "state": "failed", "priority": 10,
            "space_needed": 4096, "profile": "Maps_content", "collection": "maps", "submitter": "ann",
            "message": "Checksum differs", "retry_count": 2, "attempt": 7, "recoverable": false,
            "last_modified": "1970-01-01T00:09:00.000Z", "primary_id": "ark:/99999/Fk4x",
            "local_ids": ["Shelf-12"], "process_date": null, "expiration_date": null,
            "locked_by": {"node": "ingest03", "since": "1970-01-01T00:08:00.000Z"},
        })
    );
}

async fn a_lock_that_says_nothing_is_a_lock_all_the_same(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..2, JobState::Processing)).await;
    let (_, stat) = session.create(JobNode::Lock.of(Jid::new(0)), "", Mode::Ephemeral).await.unwrap();
    let lines = lines(&session, &Filter::default()).await;
    let lock = lines[0].locked_by.as_ref().unwrap();
    assert_eq!((lock.node.as_deref(), lock.since.millis()), (None, stat.ctime));
    assert_eq!(lines[1].locked_by, None);
}

async fn a_reference_that_disagrees_with_the_status_is_not_believed(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..2, JobState::Failed)).await;
    let stray = map::QueueRef::new(JobState::Held, Priority::DEFAULT, Jid::new(0));
    session.create(stray.path(), "", Mode::Persistent).await.unwrap();
    assert_eq!(selected(&session, r#"{"states": ["held"]}"#).await, [] as [u32; 0]);
    assert_eq!(selected(&session, r#"{"states": ["held", "failed"]}"#).await, [0, 1]);
}

async fn a_completed_job_that_has_left_its_queue_is_listed_and_counted_as_one(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    Batch::new(1, BatchState::Completed).plant(&session).await;
    let jobs = alike(0..2, JobState::Completed);
    plant(&session, &jobs).await;
    plant(&session, &alike(2..4, JobState::Failed)).await;
    plant(&session, &alike(4..5, JobState::Pending)).await;
    session.delete(jobs[0].entry().path(), None).await.unwrap();
    assert_eq!(selected(&session, r#"{"states": ["completed"]}"#).await, [0, 1]);
    assert_eq!(selected(&session, r#"{"states": ["completed", "pending"]}"#).await, [0, 1, 4]);
    assert_eq!(selected(&session, r#"{"states": ["failed"]}"#).await, [2, 3]);
    assert_eq!(selected(&session, r#"{"states": ["completed"], "batch": "bid0000000001"}"#).await, [0, 1]);
    let counts = list::counts(&session).await.unwrap();
    let of = |state| counts[&state];
    assert_eq!((of(JobState::Completed), of(JobState::Failed), of(JobState::Pending)), (2, 2, 1));
}

async fn a_deleted_job_is_shown_by_its_batch(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    Batch::new(1, BatchState::Processing).plant(&session).await;
    plant(&session, &alike(0..1, JobState::Pending)).await;
    let gone = map::batch_ref(Bid::new(1), BatchList::Deleted, Jid::new(7));
    session.create(gone, "", Mode::Persistent).await.unwrap();
    assert_eq!(selected(&session, r#"{"batch": "bid0000000001"}"#).await, [0, 7]);
    assert_eq!(selected(&session, r#"{"batch": "bid0000000001", "states": ["pending"]}"#).await, [0]);
    assert_eq!(selected(&session, r#"{"batch": "bid0000000001", "text": "jid"}"#).await, [0]);
    let filter = Filter { batch: Some(Bid::new(1)), states: vec![JobState::Deleted], ..Filter::default() };
    let [line] = lines(&session, &filter).await.try_into().unwrap();
    assert_eq!((line.jid, line.state), (Jid::new(7), JobState::Deleted));
}

async fn a_batch_that_is_not_there_is_said(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    let filter = Filter { batch: Some(Bid::new(4)), ..Filter::default() };
    let error = list::jobs(&session, &filter, &PageRequest::default()).await.unwrap_err();
    assert!(matches!(&error, Error::NotFound(what) if what == "batch bid0000000004"), "{error}");
}

async fn queues_are_counted_by_state(tree: &Tree) {
    let session = tree.session().await;
    ground(&session).await;
    plant(&session, &alike(0..3, JobState::Failed)).await;
    plant(&session, &alike(3..5, JobState::Held)).await;
    let counts = list::counts(&session).await.unwrap();
    assert_eq!((counts[&JobState::Failed], counts[&JobState::Held], counts[&JobState::Notify]), (3, 2, 0));
    assert!(counts.keys().copied().eq(JobState::queues(Dialect::Design)), "{counts:?}");
}
