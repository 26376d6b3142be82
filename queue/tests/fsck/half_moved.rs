//! Trees that a writer has left half-moved: its status is the truth, and the refs follow it.

use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::Outcome;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, Priority, QueueRef};
use ingest_queue::nodes::{BatchStatus, History, JobStatus, Node};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::{Mode, Session};

use crate::planted::{empty, now, status};
use crate::snapshot::Snapshot;
use crate::tree::{Tree, on_both_engines};
use crate::{BOTH, check, found, repair, repair_all};

on_both_engines!(
    a_ref_that_was_left_behind_follows_the_status,
    a_ref_that_was_not_made_again_is_made,
    a_job_in_two_queues_is_left_in_one,
    a_job_in_two_lists_is_left_in_one,
    a_ref_that_was_made_again_in_a_queue_the_job_has_left_goes,
    a_ref_with_another_priority_goes,
    a_completed_job_whose_ref_was_left_behind_goes_the_other_half,
    a_ref_that_was_made_again_does_not_make_a_completed_batch_fail,
    a_locked_job_is_left_alone,
    the_history_tells_what_was_repaired,
);

/// A batch with one job of priority 7 that is downloading.
async fn one_job(session: &Session, dialect: Dialect) -> (Bid, Jid) {
    let nothing = Snapshot(std::collections::BTreeMap::new());
    nothing.restore(session).await;
    let mut planted = empty(session, dialect).await;
    let bid = planted.batch(BatchState::Processing, Some((1, 1))).await;
    let jid = planted.job_with(bid, JobState::Downloading, Priority::nearest(7)).await;
    (bid, jid)
}

fn entry(state: JobState, jid: Jid) -> QueueRef {
    QueueRef::new(state, Priority::nearest(7), jid)
}

async fn set_status(session: &Session, jid: Jid, state: JobState, dialect: Dialect) {
    let data = JobStatus::new(state, now()).write(dialect);
    session.set(JobNode::Status.of(jid), data, None).await.unwrap();
}

async fn make(session: &Session, path: String) {
    session.create(path, "", Mode::Persistent).await.unwrap();
}

/// The job is in this queue and in this list, and nowhere else.
async fn is_only_in(session: &Session, queue: QueueRef, list: String) {
    let jid = queue.jid.to_string();
    let snapshot = Snapshot::take(session).await;
    let named: Vec<_> =
        snapshot.0.keys().filter(|at| at.contains(&jid) && !at.starts_with(&map::job(queue.jid))).collect();
    assert_eq!(named, [&list, &queue.path()]);
}

async fn a_ref_that_was_left_behind_follows_the_status(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let (bid, jid) = one_job(&session, dialect).await;
        set_status(&session, jid, JobState::Processing, dialect).await;
        let (old, new) = (entry(JobState::Downloading, jid), entry(JobState::Processing, jid));
        assert_eq!(found(&session, dialect).await, [("J06", old.path()), ("J05", new.path())]);
        repair_all(&session, dialect).await;
        is_only_in(&session, new, map::batch_ref(bid, BatchList::Processing, jid)).await;
    }
}

async fn a_ref_that_was_not_made_again_is_made(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let (bid, jid) = one_job(&session, dialect).await;
        let own = entry(JobState::Downloading, jid);
        session.delete(own.path(), None).await.unwrap();
        assert_eq!(found(&session, dialect).await, [("J05", own.path())]);
        repair_all(&session, dialect).await;
        is_only_in(&session, own, map::batch_ref(bid, BatchList::Processing, jid)).await;
    }
}

async fn a_ref_that_was_made_again_does_not_make_a_completed_batch_fail(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let nothing = Snapshot(std::collections::BTreeMap::new());
        nothing.restore(&session).await;
        let mut planted = empty(&session, dialect).await;
        let bid = planted.batch(BatchState::Completed, Some((1, 1))).await;
        let jid = planted.job_with(bid, JobState::Completed, Priority::nearest(7)).await;
        let stale = map::batch_ref(bid, BatchList::Processing, jid);
        make(&session, stale.clone()).await;
        assert_eq!(found(&session, dialect).await, [("J08", stale)]);
        repair_all(&session, dialect).await;
        let (data, _) = session.get(BatchNode::Status.of(bid)).await.unwrap();
        assert_eq!(BatchStatus::read(&data).unwrap().status, BatchState::Completed);
    }
}

async fn a_job_in_two_queues_is_left_in_one(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let (bid, jid) = one_job(&session, dialect).await;
        let (own, other) = (entry(JobState::Downloading, jid), entry(JobState::Failed, jid));
        make(&session, other.path()).await;
        assert_eq!(found(&session, dialect).await, [("J06", other.path())]);
        repair_all(&session, dialect).await;
        is_only_in(&session, own, map::batch_ref(bid, BatchList::Processing, jid)).await;
    }
}

async fn a_job_in_two_lists_is_left_in_one(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        for other in [BatchList::Failed, BatchList::Completed, BatchList::Deleted] {
            let (bid, jid) = one_job(&session, dialect).await;
            let other = map::batch_ref(bid, other, jid);
            make(&session, other.clone()).await;
            assert_eq!(found(&session, dialect).await, [("J08", other)]);
            repair_all(&session, dialect).await;
            let own = map::batch_ref(bid, BatchList::Processing, jid);
            is_only_in(&session, entry(JobState::Downloading, jid), own).await;
        }
    }
}

async fn a_ref_that_was_made_again_in_a_queue_the_job_has_left_goes(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let (bid, jid) = one_job(&session, dialect).await;
        // What merely loading a job does in the other library: refs as of a status read before.
        let stale = [entry(JobState::Pending, jid).path(), map::batch_ref(bid, BatchList::Failed, jid)];
        for path in stale.clone() {
            make(&session, path).await;
        }
        let [queue, list] = stale;
        assert_eq!(found(&session, dialect).await, [("J08", list), ("J06", queue)]);
        repair_all(&session, dialect).await;
        let own = map::batch_ref(bid, BatchList::Processing, jid);
        is_only_in(&session, entry(JobState::Downloading, jid), own).await;
    }
}

async fn a_ref_with_another_priority_goes(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let (bid, jid) = one_job(&session, dialect).await;
        session.set(JobNode::Priority.of(jid), "3", None).await.unwrap();
        let own = QueueRef { priority: Priority::nearest(3), ..entry(JobState::Downloading, jid) };
        let old = entry(JobState::Downloading, jid);
        assert_eq!(found(&session, dialect).await, [("J05", own.path()), ("J06", old.path())]);
        repair_all(&session, dialect).await;
        is_only_in(&session, own, map::batch_ref(bid, BatchList::Processing, jid)).await;
    }
}

async fn a_completed_job_whose_ref_was_left_behind_goes_the_other_half(tree: &Tree) {
    let session = tree.session().await;
    for dialect in BOTH {
        let (bid, jid) = one_job(&session, dialect).await;
        set_status(&session, jid, JobState::Completed, dialect).await;
        repair_all(&session, dialect).await;
        let own = map::batch_ref(bid, BatchList::Completed, jid);
        is_only_in(&session, entry(JobState::Completed, jid), own).await;
    }
}

async fn a_locked_job_is_left_alone(tree: &Tree) {
    let session = tree.session().await;
    let (_, jid) = one_job(&session, Dialect::Design).await;
    set_status(&session, jid, JobState::Processing, Dialect::Design).await;
    let owner = r#"{"node":"node-7","since":"2026-11-16T01:43:45.000Z"}"#;
    session.create(JobNode::Lock.of(jid), owner, Mode::Ephemeral).await.unwrap();
    let before = Snapshot::take(&session).await;
    let repaired = repair(&session, Dialect::Design).await;
    assert_eq!(repaired.len(), 2);
    for repaired in repaired {
        assert_eq!(repaired.outcome, Outcome::Busy, "{repaired}");
        assert!(repaired.what.contains("busy on node-7 since 2026-11-16T01:43:45"), "{repaired}");
    }
    assert_eq!(Snapshot::take(&session).await, before);
    session.delete(JobNode::Lock.of(jid), None).await.unwrap();
    repair_all(&session, Dialect::Design).await;
}

async fn the_history_tells_what_was_repaired(tree: &Tree) {
    let session = tree.session().await;
    let (_, jid) = one_job(&session, Dialect::Design).await;
    let data = r#"{"status":"processing","retry_count":3,"attempt":9,"theirs":{"kept":true}}"#;
    let before = session.set(JobNode::Status.of(jid), data, None).await.unwrap();
    repair_all(&session, Dialect::Design).await;
    let (history, _) = session.get(JobNode::History.of(jid)).await.unwrap();
    let history = History::read(&history).unwrap();
    let last = history.entries.last().unwrap();
    assert_eq!((last.from, last.to), (Some(JobState::Processing), JobState::Processing));
    assert!(last.message.contains("put into the queue processing 07"), "{}", last.message);
    let after = status(&session, jid).await;
    assert_eq!((after.retry_count, after.attempt, after.other.contains_key("theirs")), (3, 9, true));
    // Whoever has read the job before must read it again.
    let (_, stat) = session.get(JobNode::Status.of(jid)).await.unwrap();
    assert!(stat.version > before.version);
    assert!(check(&session, Dialect::Design).await.findings.is_empty());
}
