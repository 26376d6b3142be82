//! The `mrt-zk` dialect: what other programs find in the tree, and what they do to it.

use ingest_queue::batches::Expanded;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, JobNode, QueueRef};
use ingest_queue::plan::job::Change;
use ingest_queue::states::{BatchState, JobState};
use ingest_store::{Mode, Session};
use serde_json::{Value, json};

use crate::tree::{Tree, on_both_engines};
use crate::world::{
    MANIFEST, WHO, acquire, all_jobs, batch_of, bring, clean, deposit, entry, new_jobs, priority, queue_on,
    snapshot, status, submission,
};

on_both_engines!(
    the_tree_is_the_one_that_other_programs_expect,
    a_job_and_a_batch_by_another_program_are_worked_on,
    what_others_have_written_survives_our_writes,
    a_job_stored_by_an_outside_service_goes_on,
    refs_that_a_foreign_load_has_made_do_not_stop_a_transition,
    a_ref_that_disagrees_twice_is_repaired_under_the_lock,
    an_expansion_waits_while_the_lists_are_full,
);

async fn the_tree_is_the_one_that_other_programs_expect(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::MrtZk).await;
    deposit(&queue, "uuid-1", &new_jobs(1)).await.unwrap();
    let tree = snapshot(queue.session()).await;
    for state in [
        "pending",
        "held",
        "estimating",
        "provisioning",
        "downloading",
        "processing",
        "storing",
        "recording",
        "notify",
        "failed",
        "completed",
        "deleted",
    ] {
        assert_eq!(tree[&format!("/jobs/states/{state}")], "", "{state}");
    }
    for dir in [
        "/access/small",
        "/access/large",
        "/locks/queue",
        "/locks/localid",
        "/locks/storage",
        "/locks/inventory",
        "/locks/collections",
    ] {
        assert_eq!(tree[dir], "", "{dir}");
    }
    assert_eq!(tree["/batch-uuids/uuid-1"], "bid0000000000");
    let job = "/jobs/jid0000000001";
    assert_eq!(tree[&format!("{job}/bid")], "bid0000000000");
    assert_eq!(
        (tree[&format!("{job}/priority")].as_str(), tree[&format!("{job}/space_needed")].as_str()),
        ("5", "0")
    );
    let status: Value = serde_json::from_str(&tree[&format!("{job}/status")]).unwrap();
    for (name, value) in [
        ("status", json!("Pending")),
        ("last_successful_status", json!(null)),
        ("last_modified", json!("2025-11-16 01:43:45 +0000")),
        ("retry_count", json!(0)),
        ("message", json!("")),
    ] {
        assert_eq!(status[name], value, "{name} in {status}");
    }
    let batch: Value = serde_json::from_str(&tree["/batches/bid0000000000/status"]).unwrap();
    assert_eq!(
        (&batch["status"], &batch["last_modified"]),
        (&json!("Processing"), &json!("2025-11-16 01:43:45 +0000"))
    );
    assert_eq!(tree["/jobs/states/pending/05-jid0000000001"], "");
    assert_eq!(tree["/batches/bid0000000000/states/batch-processing/jid0000000001"], "");
    clean(queue.session(), Dialect::MrtZk).await;
}

/// A batch and a job as another program makes them: node by node, with ids from the sequence.
async fn foreign_job(session: &Session) -> Jid {
    let make = async |at: String, data: &str| {
        session.create_with_parents(at, data.to_owned(), Mode::Persistent).await.unwrap();
    };
    let batch = session.create("/batches/bid", "", Mode::PersistentSequential).await.unwrap().0;
    let bid = batch.rsplit('/').next().unwrap().to_owned();
    make(format!("{batch}/submission"), r#"{"profile_name":"foreign","batchID":"x"}"#).await;
    make(
        format!("{batch}/status"),
        r#"{"message":"","last_modified":"2026-11-16 01:43:45 +0000","status":"Processing"}"#,
    )
    .await;
    let job = session.create("/jobs/jid", "", Mode::PersistentSequential).await.unwrap().0;
    let jid: Jid = job.rsplit('/').next().unwrap().parse().unwrap();
    make(format!("{job}/bid"), &bid).await;
    make(format!("{job}/priority"), "3").await;
    make(format!("{job}/space_needed"), "0").await;
    make(format!("{job}/configuration"), r#"{"profile_name":"foreign","submitter":"s","local_id":"a;b"}"#)
        .await;
    make(
        format!("{job}/status"),
        r#"{"retry_count":0,"last_successful_status":null,"message":"","last_modified":"2026-11-16 01:43:45 +0000","status":"Pending","theirs":[1]}"#,
    )
    .await;
    make(format!("/jobs/states/pending/03-{jid}"), "").await;
    make(format!("{batch}/states/batch-processing/{jid}"), "").await;
    jid
}

async fn a_job_and_a_batch_by_another_program_are_worked_on(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::MrtZk).await;
    let jid = foreign_job(queue.session()).await;
    clean(queue.session(), Dialect::MrtZk).await;
    assert_eq!(entry(&queue, jid).await, QueueRef::new(JobState::Pending, priority(3), jid));
    bring(&queue, jid, JobState::Completed).await;
    // Its batch had no lists but one: they were made.
    let bid = queue.job(jid).await.unwrap().bid;
    let tree = snapshot(queue.session()).await;
    assert!(tree.contains_key(&map::batch_ref(bid, ingest_queue::states::BatchList::Completed, jid)));
    clean(queue.session(), Dialect::MrtZk).await;
}

async fn what_others_have_written_survives_our_writes(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::MrtZk).await;
    let jid = foreign_job(queue.session()).await;
    let store = r#"{"mode":"add/9501/ark_1","manifest_url":"https://example.org/m","delete":null}"#;
    queue.session().create(JobNode::Store.of(jid), store, Mode::Persistent).await.unwrap();
    bring(&queue, jid, JobState::Processing).await;
    let tree = snapshot(queue.session()).await;
    assert_eq!(tree[&JobNode::Store.of(jid)], store);
    let status: Value = serde_json::from_str(&tree[&JobNode::Status.of(jid)]).unwrap();
    assert_eq!(status["theirs"], json!([1]));
    clean(queue.session(), Dialect::MrtZk).await;
}

async fn a_job_stored_by_an_outside_service_goes_on(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::MrtZk).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Storing).await;
    // The storage service: status at any version, then the refs, one by one.
    let session = queue.session();
    let done = r#"{"status":"Recording","last_successful_status":"Storing","last_modified":"2026-11-16 02:00:00 +0000","retry_count":0,"message":""}"#;
    session.set(JobNode::Status.of(jids[0]), done, None).await.unwrap();
    session.delete(QueueRef::new(JobState::Storing, priority(5), jids[0]).path(), None).await.unwrap();
    let recording = QueueRef::new(JobState::Recording, priority(5), jids[0]);
    session.create(recording.path(), "", Mode::Persistent).await.unwrap();
    let mut lease = queue.acquire(recording, WHO).await.unwrap();
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    assert_eq!(status(&queue, jids[0]).await.status, JobState::Notify);
    clean(session, Dialect::MrtZk).await;
}

async fn refs_that_a_foreign_load_has_made_do_not_stop_a_transition(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::MrtZk).await;
    let (bid, jids) = batch_of(&queue, 2).await;
    let session = queue.session();
    // The ref is gone: somebody was killed between a delete and a create.
    let mut lease = acquire(&queue, jids[0]).await;
    session.delete(QueueRef::new(JobState::Pending, priority(5), jids[0]).path(), None).await.unwrap();
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    // The next one is there already.
    let mut lease = acquire(&queue, jids[1]).await;
    session
        .create(QueueRef::new(JobState::Estimating, priority(5), jids[1]).path(), "", Mode::Persistent)
        .await
        .unwrap();
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    clean(session, Dialect::MrtZk).await;
    assert_eq!(queue.batch(bid).await.unwrap().state(), BatchState::Processing);
}

async fn a_ref_that_disagrees_twice_is_repaired_under_the_lock(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::MrtZk).await;
    let (_, jids) = batch_of(&queue, 3).await;
    let session = queue.session();
    bring(&queue, jids[0], JobState::Downloading).await;
    bring(&queue, jids[1], JobState::Downloading).await;
    // A load has re-created the ref of a queue that the job has left; of the second the true one is lost, too.
    let stray = |jid| QueueRef::new(JobState::Pending, priority(5), jid);
    session.create(stray(jids[0]).path(), "", Mode::Persistent).await.unwrap();
    session.create(stray(jids[1]).path(), "", Mode::Persistent).await.unwrap();
    session.delete(QueueRef::new(JobState::Downloading, priority(5), jids[1]).path(), None).await.unwrap();
    let nobody = stray(Jid::new(77));
    session.create(nobody.path(), "", Mode::Persistent).await.unwrap();

    let doubt = std::time::Duration::from_millis(1);
    let settings = ingest_queue::index::Settings { doubt, ..ingest_queue::index::Settings::default() };
    let finder = ingest_queue::index::finder::Finder::start(session, settings).await.unwrap();
    let (mut repaired, mut taken) = (0, None);
    while repaired < 3 || taken.is_none() {
        let entry = crate::tree::within(finder.next(JobState::Pending)).await.unwrap().entry;
        match queue.acquire(entry, WHO).await {
            Ok(lease) => taken = Some(lease.jid()),
            Err(ingest_queue::error::Error::Changed { .. } | ingest_queue::error::Error::NotFound(_)) => {
                if finder.disagrees(entry) == ingest_queue::index::Seen::Twice {
                    assert!(queue.repair_ref(entry).await.unwrap());
                    finder.finished(entry);
                    repaired += 1;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(taken, Some(jids[2]));
    clean(session, Dialect::MrtZk).await;
    // One that is right is left alone, one that is worked on is busy.
    assert!(!queue.repair_ref(entry(&queue, jids[0]).await).await.unwrap());
    session
        .create(QueueRef::new(JobState::Notify, priority(5), jids[2]).path(), "", Mode::Persistent)
        .await
        .unwrap();
    let busy = queue.repair_ref(QueueRef::new(JobState::Notify, priority(5), jids[2])).await;
    assert!(matches!(busy, Err(ingest_queue::error::Error::Busy { .. })), "{busy:?}");
}

async fn an_expansion_waits_while_the_lists_are_full(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::MrtZk).await;
    let session = queue.session();
    // As many refs as the other listing can take.
    let most = Dialect::MrtZk.max_refs().unwrap();
    let refs: Vec<_> = (0..most)
        .map(|n| {
            QueueRef::new(JobState::Pending, priority(5), Jid::new(1_000_000 + u32::try_from(n).unwrap()))
        })
        .collect();
    for chunk in refs.chunks(2_000) {
        session
            .multi(chunk.iter().map(|entry| ingest_store::Op::create(entry.path(), "")).collect())
            .await
            .unwrap();
    }
    let bid = queue.create_batch("one", &submission()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.begin_expansion(&mut lease, MANIFEST, 3).await.unwrap();
    let jobs = new_jobs(3);
    assert_eq!(queue.expand(&mut lease, 0, &jobs).await.unwrap(), Expanded::Full(0));
    for entry in &refs[..3] {
        session.delete(entry.path(), None).await.unwrap();
    }
    assert_eq!(queue.expand(&mut lease, 0, &jobs).await.unwrap(), Expanded::To(3));
    assert_eq!(all_jobs(session).await.len(), 3);
}
