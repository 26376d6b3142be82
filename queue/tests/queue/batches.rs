//! Batches from the deposit to the report, and to their deletion.

use std::sync::Arc;

use ingest_queue::batches::{Ended, Expanded};
use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::map::{self, BatchNode};
use ingest_queue::nodes::{Configuration, Node as _, ReportCounts, Rows, StatusReport, Submission};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::queue::{Queue, SeenNumbers, Settings};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::Faulty;
use ingest_store::recipes::shard;
use ingest_store::{Limits, Mode, Store};

use crate::tree::{Tree, on_both_engines};
use crate::world::{
    MANIFEST, WHO, acquire, all_jobs, batch_of, bring, clean, deposit, new_jobs, queue, queue_on, snapshot,
    submission,
};

on_both_engines!(
    a_repeated_uuid_is_answered_with_its_batch,
    batches_made_at_the_same_time_get_ids_of_their_own,
    jobs_made_at_the_same_time_get_ids_of_their_own,
    another_clients_sequential_ids_do_not_collide,
    no_number_is_given_out_of_a_tree_that_is_older_than_what_the_node_has_seen,
    closed_numbers_are_given_to_nobody_until_they_are_open,
    an_id_is_never_used_again,
    an_expansion_goes_on_where_it_was_and_with_the_same_manifest_only,
    a_manifest_on_disk_is_frozen_and_read_back_as_it_is,
    a_batch_does_not_end_while_a_job_is_left,
    a_batch_does_not_end_before_it_is_expanded,
    a_report_names_every_job_and_is_kept,
    a_report_that_was_sent_is_not_sent_again,
    an_update_tells_only_news,
    an_update_is_refused_while_jobs_are_under_way,
    an_update_of_a_batch_without_jobs_is_refused,
    a_requeued_job_leaves_a_failed_batch_failed,
    a_batch_that_is_being_deleted_refuses_everything,
    a_large_report_is_kept_whole,
    how_much_a_report_names_is_known_without_it,
    bad_uuids_are_refused,
    the_batches_that_name_a_payload_are_found,
);

async fn the_batches_that_name_a_payload_are_found(tree: &Tree) {
    let queue = queue(tree).await;
    let named = |url: &str| url.strip_prefix("https://own.example.org/").map(str::to_owned);
    assert!(queue.batches_by_payload(named).await.unwrap().is_empty());
    let of = |url: &str| Submission { payload_url: Some(url.into()), ..submission() };
    let first = queue.create_batch("u-1", &of("https://own.example.org/a")).await.unwrap().bid;
    queue.create_batch("u-2", &of("https://example.org/a")).await.unwrap();
    queue.create_batch("u-3", &Submission { payload_url: None, ..submission() }).await.unwrap();
    // More than are read together.
    let mut last = first;
    for number in 0..100 {
        let url = format!("https://own.example.org/{number}");
        last = queue.create_batch(&format!("v-{number}"), &of(&url)).await.unwrap().bid;
    }
    let found = queue.batches_by_payload(named).await.unwrap();
    assert_eq!((found.len(), found["a"], found["99"]), (101, first, last));
    // What nobody can read may name anything.
    queue.session().set(BatchNode::Submission.of(last), "no json", None).await.unwrap();
    let unreadable = queue.batches_by_payload(named).await.unwrap_err();
    assert!(matches!(unreadable, Error::Corrupt { .. }), "{unreadable}");
}

async fn a_repeated_uuid_is_answered_with_its_batch(tree: &Tree) {
    let queue = queue(tree).await;
    let first = queue.create_batch("a-b-1", &submission()).await.unwrap();
    let again = queue.create_batch("a-b-1", &submission()).await.unwrap();
    assert_eq!((again.bid, first.known, again.known), (first.bid, false, true));
    assert_eq!(queue.find_batch("a-b-1").await.unwrap(), Some(first.bid));
    assert_eq!(queue.find_batch("a-b-2").await.unwrap(), None);
    let kept: Submission = queue.submission(first.bid).await.unwrap();
    assert_eq!(kept.batch_id.as_deref(), Some("bid0000000000"));
    assert_eq!(kept.insertion_date, Some(queue.now()));
    clean(queue.session(), Dialect::Design).await;
}

async fn batches_made_at_the_same_time_get_ids_of_their_own(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let made = futures::future::join_all((0..20).map(|n| {
        let queue = if n % 2 == 0 { here.clone() } else { there.clone() };
        async move { queue.create_batch(&format!("u-{n}"), &submission()).await.unwrap().bid.number() }
    }));
    let mut ids = made.await;
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<u32>>());
    // The same uuid from both sides is one batch.
    let submission = submission();
    let (a, b) =
        tokio::join!(here.create_batch("same", &submission), there.create_batch("same", &submission));
    assert_eq!(a.unwrap().bid, b.unwrap().bid);
    clean(here.session(), Dialect::Design).await;
}

/// Those of one node do not refuse each other: each looks for its uuid, asks for the number and makes its batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_made_at_the_same_time_on_one_node_cost_no_more_than_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let calls = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
    let session = Store::new(Arc::new(calls.clone()), Limits::default()).session().await.unwrap();
    let queue = queue_on(&session, Dialect::Design).await;
    let before = calls.calls();
    let made = (0..50).map(|n| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.create_batch(&format!("u-{n}"), &submission()).await.unwrap() })
    });
    for made in futures::future::join_all(made).await {
        assert!(!made.unwrap().known);
    }
    assert_eq!(calls.calls() - before, 50 * 3);
    clean(&session, Dialect::Design).await;
}

async fn jobs_made_at_the_same_time_get_ids_of_their_own(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (a, b) = (new_jobs(150), new_jobs(150));
    let (a, b) = tokio::join!(deposit(&here, "a", &a), deposit(&there, "b", &b));
    assert_ne!(a.unwrap(), b.unwrap());
    let numbers: Vec<u32> = all_jobs(here.session()).await.iter().map(|jid| jid.number()).collect();
    assert_eq!(numbers, (1..=300).collect::<Vec<u32>>(), "contiguous from the counter on");
    let stat = here.session().exists(map::JOBS).await.unwrap().unwrap();
    assert_eq!(stat.next_sequence(), 301, "never ahead of it");
    clean(here.session(), Dialect::Design).await;
}

async fn another_clients_sequential_ids_do_not_collide(tree: &Tree) {
    let queue = queue(tree).await;
    batch_of(&queue, 3).await;
    let foreign = queue.session().create("/jobs/jid", "", Mode::PersistentSequential).await.unwrap().0;
    assert_eq!(foreign, "/jobs/jid0000000004");
    queue.session().delete(foreign.as_str(), None).await.unwrap();
    let (_, jids) = batch_of(&queue, 2).await;
    assert_eq!(jids.iter().map(|jid| jid.number()).collect::<Vec<_>>(), [5, 6]);
    clean(queue.session(), Dialect::Design).await;
}

async fn no_number_is_given_out_of_a_tree_that_is_older_than_what_the_node_has_seen(tree: &Tree) {
    let seen = Arc::<SeenNumbers>::default();
    let settings = || Settings { seen: seen.clone(), ..Settings::new("node-1") };
    let before = Queue::open(&tree.session().await, settings(), Clock::system()).await.unwrap();
    batch_of(&before, 3).await;
    let (bid, _) = batch_of(&before, 2).await;
    // The same node on a tree that knows nothing of this.
    let older = Tree::embedded();
    let after = Queue::open(&older.session().await, settings(), Clock::system()).await.unwrap();
    let refused = after.create_batch("u", &submission()).await.unwrap_err();
    assert!(matches!(&refused, Error::Forbidden { why, .. } if why.contains("fsck --repair")), "{refused}");
    let (batches, jobs) = after.seen_numbers();
    assert!(batches == bid.number() + 1 && jobs >= 6, "{batches} {jobs}");
    after.raise_numbers(batches, jobs).await.unwrap();
    let (next, _) = batch_of(&after, 1).await;
    assert!(next > bid, "{next}");
    clean(after.session(), Dialect::Design).await;
    older.close().await;
}

async fn closed_numbers_are_given_to_nobody_until_they_are_open(tree: &Tree) {
    let queue = queue(tree).await;
    queue.close_numbers("the tree is not ours");
    let refused = queue.create_batch("u", &submission()).await.unwrap_err();
    assert!(matches!(&refused, Error::Forbidden { why, .. } if why == "the tree is not ours"), "{refused}");
    queue.open_numbers();
    batch_of(&queue, 1).await;
    clean(queue.session(), Dialect::Design).await;
}

async fn an_id_is_never_used_again(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Failed).await;
    queue.act(jids[0], &Action::Delete, "", false).await.unwrap();
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.end_batch(&mut lease).await.unwrap();
    let mut draft = queue.draft_report(&mut lease).await.unwrap();
    queue.report_sent(&mut lease, &mut draft).await.unwrap();
    assert_eq!(queue.finish_report(&mut lease, &draft).await.unwrap(), BatchState::Completed);
    queue.clean_batch(bid, |_| ()).await.unwrap();
    let (next, next_jobs) = batch_of(&queue, 1).await;
    assert!(next > bid && next_jobs[0] > jids[0]);
    clean(queue.session(), Dialect::Design).await;
}

async fn an_expansion_goes_on_where_it_was_and_with_the_same_manifest_only(tree: &Tree) {
    let queue = queue(tree).await;
    let bid = queue.create_batch("one", &submission()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(queue.begin_expansion(&mut lease, MANIFEST, 5).await.unwrap(), 0);
    let jobs = new_jobs(5);
    assert_eq!(queue.expand(&mut lease, 0, &jobs[..2]).await.unwrap(), Expanded::To(2));
    let ahead = queue.expand(&mut lease, 3, &jobs[3..]).await;
    assert!(matches!(ahead, Err(Error::Changed { .. })), "{ahead:?}");
    queue.release_batch(&mut lease).await.unwrap();
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    let other = queue.begin_expansion(&mut lease, b"another", 5).await.unwrap_err();
    assert!(other.to_string().contains("cannot go on with another"), "{other}");
    assert_eq!(queue.begin_expansion(&mut lease, MANIFEST, 5).await.unwrap(), 2);
    assert_eq!(queue.expand(&mut lease, 2, &jobs[2..]).await.unwrap(), Expanded::To(5));
    let more = queue.expand(&mut lease, 5, &jobs[..1]).await.unwrap_err();
    assert!(more.to_string().contains("has 5 rows, and no more"), "{more}");
    assert!(queue.expansion(bid).await.unwrap().unwrap().done);
    for (number, jid) in all_jobs(queue.session()).await.into_iter().enumerate() {
        let configuration: Configuration = queue.configuration(jid).await.unwrap();
        assert_eq!(configuration.payload_url, format!("https://example.org/objects/{number}"));
        assert_eq!(configuration.batch_id, Some(bid));
    }
    clean(queue.session(), Dialect::Design).await;
}

async fn a_manifest_on_disk_is_frozen_and_read_back_as_it_is(tree: &Tree) {
    let queue = queue(tree).await;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut bytes = vec![0; 2 << 20];
    rand::RngCore::fill_bytes(&mut rand::rng(), &mut bytes);
    std::fs::write(at("a"), &bytes).unwrap();
    let bid = queue.create_batch("one", &submission()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(queue.manifest_to(bid, 4 << 20, Vec::new()).await.unwrap(), None);
    let missing = queue.begin_expansion_from(&mut lease, &at("none"), 5).await.unwrap_err();
    assert!(missing.to_string().contains("none cannot be read"), "{missing}");
    assert_eq!(queue.begin_expansion_from(&mut lease, &at("a"), 5).await.unwrap(), 0);
    queue.expand(&mut lease, 0, &new_jobs(3)).await.unwrap();
    let mut back = Vec::new();
    assert_eq!(queue.manifest_to(bid, 4 << 20, &mut back).await.unwrap(), Some(2 << 20));
    assert!(back == bytes, "what was frozen is what was there");
    // From memory or from the disk is the same; another one is refused.
    assert_eq!(queue.begin_expansion_from(&mut lease, &at("a"), 5).await.unwrap(), 3);
    assert_eq!(queue.begin_expansion(&mut lease, &bytes, 5).await.unwrap(), 3);
    std::fs::write(at("b"), &bytes[1..]).unwrap();
    let other = queue.begin_expansion_from(&mut lease, &at("b"), 5).await.unwrap_err();
    assert!(matches!(other, Error::Forbidden { .. }), "{other}");
    // A whole value, but another than the one that was begun with.
    ingest_store::recipes::shard::write(queue.session(), &BatchNode::Manifest.of(bid), b"x", None)
        .await
        .unwrap();
    let error = queue.manifest_to(bid, 4 << 20, Vec::new()).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

async fn a_batch_does_not_end_while_a_job_is_left(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = batch_of(&queue, 3).await;
    bring(&queue, jids[0], JobState::Completed).await;
    bring(&queue, jids[1], JobState::Held).await;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    let before = snapshot(queue.session()).await;
    let waits = queue.end_batch(&mut lease).await.unwrap();
    let Ended::WaitsFor(unended) = waits else { panic!("{waits:?}") };
    assert_eq!((unended.jid, unended.why.as_str()), (jids[1], "2 jobs are under way, 1 of them held"));
    assert_eq!(snapshot(queue.session()).await, before);
    // The lease is still good.
    queue.note_batch(&mut lease, "waits for 2 jobs").await.unwrap();
    assert_eq!(queue.batch(bid).await.unwrap().status.message, "waits for 2 jobs");
    queue.act(jids[1], &Action::Release, "", false).await.unwrap();
    for jid in &jids[1..] {
        bring(&queue, *jid, JobState::Completed).await;
    }
    assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_batch_does_not_end_before_it_is_expanded(tree: &Tree) {
    let queue = queue(tree).await;
    let bid = queue.create_batch("one", &submission()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(
        queue.end_batch(&mut lease).await.unwrap(),
        Ended::Waits("its expansion has not begun".into())
    );
    let empty = queue.begin_expansion(&mut lease, MANIFEST, 0).await.unwrap_err();
    assert!(empty.to_string().contains("has no rows"), "{empty}");
    queue.begin_expansion(&mut lease, MANIFEST, 2).await.unwrap();
    queue.expand(&mut lease, 0, &new_jobs(1)).await.unwrap();
    bring(&queue, all_jobs(queue.session()).await[0], JobState::Completed).await;
    assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Waits("1 of 2 rows are expanded".into()));
    clean(queue.session(), Dialect::Design).await;
}

/// A batch of three that has failed: one completed, one failed, one deleted.
async fn reported(
    queue: &ingest_queue::queue::Queue,
) -> (ingest_queue::ids::Bid, Vec<ingest_queue::ids::Jid>) {
    let (bid, jids) = batch_of(queue, 3).await;
    bring(queue, jids[0], JobState::Completed).await;
    bring(queue, jids[1], JobState::Failed).await;
    bring(queue, jids[2], JobState::Failed).await;
    queue.act(jids[2], &Action::Delete, "", false).await.unwrap();
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
    let mut draft = queue.draft_report(&mut lease).await.unwrap();
    assert!(draft.is_news() && !draft.is_update);
    assert_eq!(draft.key(), format!("{bid}-1"));
    let early = queue.finish_report(&mut lease, &draft).await.unwrap_err();
    assert!(early.to_string().contains("not sent yet"), "{early}");
    queue.report_sent(&mut lease, &mut draft).await.unwrap();
    assert_eq!(queue.finish_report(&mut lease, &draft).await.unwrap(), BatchState::Failed);
    (bid, jids)
}

async fn a_report_names_every_job_and_is_kept(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = reported(&queue).await;
    let report = queue.last_report(bid).await.unwrap().unwrap();
    assert_eq!(report.number, 1);
    let named = |rows: &Rows| rows.iter().map(|job| job.unwrap().jid).collect::<Vec<_>>();
    assert_eq!((named(&report.successful_jobs), named(&report.deleted_jobs)), (vec![jids[0]], vec![jids[2]]));
    let failed = report.failed_jobs.iter().next().unwrap().unwrap();
    assert_eq!((failed.jid, failed.message.as_str()), (jids[1], "no route to host"));
    assert_eq!(failed.local_id, ["local-1"]);
    assert_eq!(failed.payload_url, "https://example.org/objects/1");
    let message = queue.batch(bid).await.unwrap().status.message;
    assert_eq!(message, "1 completed, 1 failed, 1 deleted");
    assert!(queue.session().children(map::OUTBOX).await.unwrap().0.is_empty());
    clean(queue.session(), Dialect::Design).await;
}

async fn a_report_that_was_sent_is_not_sent_again(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Completed).await;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.end_batch(&mut lease).await.unwrap();
    let mut draft = queue.draft_report(&mut lease).await.unwrap();
    assert_eq!(draft.sent, None);
    queue.report_sent(&mut lease, &mut draft).await.unwrap();
    // The node dies here; the next one drafts the same report, and knows.
    queue.release_all_of(WHO).await.unwrap();
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    let again = queue.draft_report(&mut lease).await.unwrap();
    assert_eq!((again.sent, &again.report), (Some(queue.now()), &draft.report));
    queue.finish_report(&mut lease, &again).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn an_update_tells_only_news(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = reported(&queue).await;
    // Nothing has changed: nothing is to be sent, and the last report stays the last.
    queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap();
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    let draft = queue.draft_report(&mut lease).await.unwrap();
    assert!(!draft.is_news());
    assert_eq!(queue.finish_report(&mut lease, &draft).await.unwrap(), BatchState::Failed);
    assert_eq!(queue.last_report(bid).await.unwrap().unwrap().number, 1);
    let counts = async || {
        let ReportCounts { number, completed, failed, .. } = queue.report_counts(bid).await.unwrap().unwrap();
        (number, completed, failed)
    };
    assert_eq!(counts().await, (1, 1, 1));
    clean(queue.session(), Dialect::Design).await;
    // One has succeeded since.
    queue.act(jids[1], &Action::Requeue(None), "", false).await.unwrap();
    bring(&queue, jids[1], JobState::Completed).await;
    queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap();
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    let mut draft = queue.draft_report(&mut lease).await.unwrap();
    assert_eq!((draft.newly_successful.as_slice(), draft.report.number), (&jids[1..2], 2));
    queue.report_sent(&mut lease, &mut draft).await.unwrap();
    assert_eq!(queue.finish_report(&mut lease, &draft).await.unwrap(), BatchState::Completed);
    assert_eq!(queue.last_report(bid).await.unwrap().unwrap().number, 2);
    assert_eq!(counts().await, (2, 2, 0));
    clean(queue.session(), Dialect::Design).await;
}

async fn an_update_of_a_batch_without_jobs_is_refused(tree: &Tree) {
    let queue = queue(tree).await;
    let bid = queue.create_batch("one", &submission()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.fail_batch(&mut lease, "the manifest is empty").await.unwrap();
    let error = queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap_err();
    assert!(error.to_string().contains("it has no jobs (the manifest is empty); submit it again"), "{error}");
    clean(queue.session(), Dialect::Design).await;
}

async fn an_update_is_refused_while_jobs_are_under_way(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = reported(&queue).await;
    queue.act(jids[1], &Action::Requeue(None), "", false).await.unwrap();
    let error = queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap_err();
    assert!(error.to_string().contains("1 jobs are under way"), "{error}");
    clean(queue.session(), Dialect::Design).await;
}

async fn a_requeued_job_leaves_a_failed_batch_failed(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = reported(&queue).await;
    queue.act(jids[1], &Action::Requeue(None), "", false).await.unwrap();
    assert_eq!(queue.batch(bid).await.unwrap().state(), BatchState::Failed);
    bring(&queue, jids[1], JobState::Completed).await;
    assert_eq!(queue.batch(bid).await.unwrap().state(), BatchState::Failed);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_batch_that_is_being_deleted_refuses_everything(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = reported(&queue).await;
    queue.act(jids[1], &Action::Requeue(None), "", false).await.unwrap();
    let mut running = acquire(&queue, jids[1]).await;
    // As a deletion leaves it that was killed after its first step.
    queue.session().create(BatchNode::Deleting.of(bid), "{}", Mode::Persistent).await.unwrap();
    assert!(matches!(queue.acquire_batch(bid, WHO).await, Err(Error::Deleting(_))));
    assert!(matches!(
        queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await,
        Err(Error::Deleting(_))
    ));
    queue.fail(&mut running, &Change::default()).await.unwrap();
    assert!(matches!(queue.act(jids[1], &Action::Requeue(None), "", false).await, Err(Error::Deleting(_))));
    let mut seen = Vec::new();
    let done = queue.delete_batch(bid, "an operator", "", false, |so_far| seen.push(so_far)).await.unwrap();
    assert_eq!((done.jobs, done.refs), (2, 1));
    assert_eq!(seen.last(), Some(&done));
    let left = snapshot(queue.session()).await;
    assert!(left.keys().all(|at| !at.contains("bid0") && !at.contains("jid0")), "{left:?}");
    assert!(matches!(
        queue.delete_batch(bid, "an operator", "", false, |_| ()).await,
        Err(Error::NotFound(_))
    ));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_large_report_is_kept_whole(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = batch_of(&queue, 40).await;
    for (number, jid) in jids.iter().enumerate() {
        // Messages that do not compress well, together more than a node holds.
        let seed = number as u64 + 3;
        let noise: Vec<String> = (7..20_007u64).map(|at| (at * 0x9E37_79B9 * seed).to_string()).collect();
        let noise = noise.concat();
        let mut lease = acquire(&queue, *jid).await;
        queue.fail(&mut lease, &Change::message(&noise[..30_000])).await.unwrap();
    }
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.end_batch(&mut lease).await.unwrap();
    let mut draft = queue.draft_report(&mut lease).await.unwrap();
    queue.report_sent(&mut lease, &mut draft).await.unwrap();
    queue.finish_report(&mut lease, &draft).await.unwrap();
    assert_eq!(queue.last_report(bid).await.unwrap().unwrap(), draft.report);
    clean(queue.session(), Dialect::Design).await;
    let lists = map::batch_list(bid, BatchList::Failed);
    assert_eq!(queue.session().exists(lists).await.unwrap().unwrap().num_children, 40);
    queue.delete_batch(bid, "an operator", "", false, |_| ()).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn how_much_a_report_names_is_known_without_it(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, _) = batch_of(&queue, 1).await;
    assert_eq!(queue.report_counts(bid).await.unwrap(), None);
    let (bid, _) = reported(&queue).await;
    let report = queue.last_report(bid).await.unwrap().unwrap();
    let counts = queue.report_counts(bid).await.unwrap().unwrap();
    let ReportCounts { number, last_modified, completed, failed, deleted } = counts;
    assert_eq!((number, completed, failed, deleted), (1, 1, 1, 1));
    assert!(last_modified.is_some() && last_modified == report.last_modified);
    clean(queue.session(), Dialect::Design).await;
    // Older versions did not note it, and it is counted.
    let at = BatchNode::Status.of(bid);
    let noted = queue.batch(bid).await.unwrap().status;
    let mut older = noted.clone();
    assert!(older.other.remove("reported").is_some());
    queue.session().set(at.as_str(), older.write(Dialect::Design), None).await.unwrap();
    assert_eq!(queue.report_counts(bid).await.unwrap(), Some(counts));
    queue.session().set(at.as_str(), noted.write(Dialect::Design), None).await.unwrap();
    let report_at = BatchNode::StatusReport.of(bid);
    let (announced, _) = queue.session().get(report_at.as_str()).await.unwrap();
    queue.session().delete(report_at.as_str(), None).await.unwrap();
    assert_eq!(queue.report_counts(bid).await.unwrap(), None);
    queue.session().create(report_at.as_str(), "damaged", Mode::Persistent).await.unwrap();
    assert!(matches!(queue.last_report(bid).await, Err(Error::Corrupt { .. })));
    assert_eq!(queue.report_counts(bid).await.unwrap(), Some(counts), "it is not read for that");
    // Somebody else has written it: what was noted is not of this one.
    let other = StatusReport { number: 2, ..report };
    shard::write(queue.session(), &report_at, &other.write(Dialect::Design), None).await.unwrap();
    assert_eq!(queue.report_counts(bid).await.unwrap(), Some(ReportCounts { number: 2, ..counts }));
    queue.session().set(report_at.as_str(), announced, None).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn bad_uuids_are_refused(tree: &Tree) {
    let queue = queue(tree).await;
    for bad in ["", "a/b", "../x", "a b", &"x".repeat(65)] {
        let error = queue.create_batch(bad, &submission()).await.unwrap_err();
        assert!(error.to_string().contains("is not a uuid"), "{error}");
        assert!(queue.find_batch(bad).await.is_err());
    }
}
