//! Dates and keys.
//!
//! Invariants: no job is acquired before its process date or after its expiration date; a date is kept exactly as
//! long as its job waits for it; under one key at most one batch waits and at most one is processed, and no
//! submission under it is lost: each is in the batch that it was answered with.

use std::time::Duration;

use ingest_queue::batches::{Created, Ended, may_be_cleaned};
use ingest_queue::dialect::Dialect;
use ingest_queue::error::{Error, Result};
use ingest_queue::ids::Bid;
use ingest_queue::journal::{Begin, MOST_DISTURBED};
use ingest_queue::map;
use ingest_queue::nodes::{Keys, Node, Schedule, Submission};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, Change, NewJob};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchState, JobState};
use ingest_store::Mode;

use crate::tree::{Tree, on_both_engines};
use crate::world::{
    MANIFEST, WHO, acquire, after, all_jobs, bring, clean, deposit, entry, new_job, new_jobs, queue, status,
    submission,
};

on_both_engines!(
    a_job_is_not_taken_before_its_date_and_the_date_goes_with_it,
    a_date_that_has_passed_is_not_kept,
    an_expired_job_is_never_begun_and_the_report_names_it,
    a_held_job_expires_and_one_that_was_begun_does_not,
    a_job_that_expires_while_it_is_worked_on_goes_when_it_waits_again,
    a_requeued_job_does_not_expire,
    an_expired_batch_fails_and_leaves_the_tree_by_itself,
    a_second_submission_becomes_part_of_the_one_that_waits,
    a_uuid_that_was_merged_is_known,
    an_older_submission_is_stale,
    a_key_of_another_is_refused,
    a_submission_is_queued_behind_the_one_that_is_processed,
    a_batch_with_a_key_waits_for_its_date_unexpanded,
    a_key_is_free_when_its_batch_has_failed_or_is_deleted,
    keys_with_the_same_hash_are_told_apart,
    eight_sessions_on_one_key_make_one_waiting_submission,
    whoever_submits_faster_than_a_payload_is_fetched_does_not_keep_it_waiting,
    the_stores_clock_counts,
);

const MINUTE: Duration = Duration::from_mins(1);

fn dated(number: usize, process: Option<Duration>, expiration: Option<Duration>, queue: &Queue) -> NewJob {
    let schedule = Schedule {
        insertion_date: Some(queue.now()),
        process_date: process.map(|wait| after(queue, wait)),
        expiration_date: expiration.map(|wait| after(queue, wait)),
        ..Schedule::default()
    };
    NewJob { schedule: Some(schedule), ..new_job(number) }
}

async fn names(queue: &Queue, dir: &str) -> Vec<String> {
    queue.session().children(dir).await.unwrap().0
}

async fn a_job_is_not_taken_before_its_date_and_the_date_goes_with_it(tree: &Tree) {
    let queue = queue(tree).await;
    let wait = Some(MINUTE);
    let jobs = [dated(0, wait, None, &queue), dated(1, wait, None, &queue), dated(2, wait, None, &queue)];
    deposit(&queue, "one", &jobs).await.unwrap();
    let jids = all_jobs(queue.session()).await;
    for jid in &jids {
        let place = entry(&queue, *jid).await;
        for refused in [
            queue.acquire(place, WHO).await.map(|_| ()),
            queue.admit(place, WHO).await.map(|_| ()),
            queue.let_in(place).await,
        ] {
            assert!(matches!(refused, Err(Error::NotDue { .. })), "{refused:?}");
        }
    }
    // A hold does not make it forget.
    queue.act(jids[0], &Action::Hold, "", false).await.unwrap();
    queue.act(jids[0], &Action::Release, "", false).await.unwrap();
    assert_eq!(names(&queue, map::JOURNAL_DATES).await.len(), 3);
    clean(queue.session(), Dialect::Design).await;
    queue.clock().advance(MINUTE);
    // By each of the ways out of pending.
    queue.let_in(entry(&queue, jids[0]).await).await.unwrap();
    queue.admit(entry(&queue, jids[1]).await, WHO).await.unwrap();
    let mut lease = acquire(&queue, jids[2]).await;
    assert_eq!(names(&queue, map::JOURNAL_DATES).await.len(), 1, "taken, and still pending");
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    assert!(names(&queue, map::JOURNAL_DATES).await.is_empty());
    assert_eq!(status(&queue, jids[2]).await.process_date, None);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_date_that_has_passed_is_not_kept(tree: &Tree) {
    let queue = queue(tree).await;
    let job = dated(0, Some(MINUTE), None, &queue);
    queue.clock().advance(2 * MINUTE);
    deposit(&queue, "one", &[job]).await.unwrap();
    assert!(names(&queue, map::JOURNAL_DATES).await.is_empty());
    acquire(&queue, all_jobs(queue.session()).await[0]).await;
    clean(queue.session(), Dialect::Design).await;
}

/// Ends a batch as its actor does; the message of its end.
async fn ended(queue: &Queue, bid: Bid) -> (BatchState, String) {
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    if lease.batch().state() == BatchState::Processing {
        assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
    }
    let mut draft = queue.draft_report(&mut lease).await.unwrap();
    queue.report_sent(&mut lease, &mut draft).await.unwrap();
    queue.finish_report(&mut lease, &draft).await.unwrap();
    let batch = queue.batch(bid).await.unwrap();
    (batch.state(), batch.status.message)
}

async fn an_expired_job_is_never_begun_and_the_report_names_it(tree: &Tree) {
    let queue = queue(tree).await;
    let jobs = [dated(0, None, Some(MINUTE), &queue), new_job(1), dated(2, None, Some(MINUTE), &queue)];
    let bid = deposit(&queue, "one", &jobs).await.unwrap();
    let jids = all_jobs(queue.session()).await;
    bring(&queue, jids[1], JobState::Completed).await;
    assert!(!queue.expire(jids[0]).await.unwrap(), "it is not late yet");
    queue.clock().advance(MINUTE);
    // By whoever wants to take it, and by the timekeeper.
    let refused = queue.acquire(entry(&queue, jids[0]).await, WHO).await.unwrap_err();
    assert!(refused.to_string().contains("expired"), "{refused}");
    assert!(queue.expire(jids[2]).await.unwrap());
    assert!(!queue.expire(jids[2]).await.unwrap(), "once");
    assert!(names(&queue, map::JOURNAL_EXPIRATIONS).await.is_empty());
    clean(queue.session(), Dialect::Design).await;
    let (state, message) = ended(&queue, bid).await;
    assert_eq!((state, message.as_str()), (BatchState::Failed, "1 completed, 0 failed, 2 expired"));
    let report = queue.last_report(bid).await.unwrap().unwrap();
    let told = report.deleted_jobs.iter().next().unwrap().unwrap();
    assert_eq!((told.jid, told.local_id.as_slice()), (jids[0], ["local-0".to_owned()].as_slice()));
    assert!(told.message.starts_with("expired: it was to be begun before"), "{}", told.message);
    assert!(told.expired().is_some() && told.payload_url.ends_with("/objects/0"));
    // Nobody can do anything about it.
    assert!(may_be_cleaned(&queue.batch(bid).await.unwrap()));
    queue.clean_batch(bid, |_| ()).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn a_held_job_expires_and_one_that_was_begun_does_not(tree: &Tree) {
    let queue = queue(tree).await;
    let late = Some(MINUTE);
    let jobs = [dated(0, None, late, &queue), dated(1, None, late, &queue), dated(2, None, late, &queue)];
    deposit(&queue, "one", &jobs).await.unwrap();
    let jids = all_jobs(queue.session()).await;
    queue.act(jids[0], &Action::Hold, "", false).await.unwrap();
    bring(&queue, jids[1], JobState::Provisioning).await;
    bring(&queue, jids[2], JobState::Downloading).await;
    assert_eq!(names(&queue, map::JOURNAL_EXPIRATIONS).await.len(), 2, "one is begun");
    queue.clock().advance(MINUTE);
    for (jid, expires) in jids.iter().zip([true, true, false]) {
        assert_eq!(queue.expire(*jid).await.unwrap(), expires, "{jid}");
    }
    bring(&queue, jids[2], JobState::Completed).await;
    clean(queue.session(), Dialect::Design).await;
}

async fn a_job_that_expires_while_it_is_worked_on_goes_when_it_waits_again(tree: &Tree) {
    let queue = queue(tree).await;
    let jobs = [dated(0, None, Some(MINUTE), &queue), dated(1, None, Some(MINUTE), &queue)];
    deposit(&queue, "one", &jobs).await.unwrap();
    let jids = all_jobs(queue.session()).await;
    for jid in &jids {
        bring(&queue, *jid, JobState::Estimating).await;
    }
    let (mut one, mut other) = (acquire(&queue, jids[0]).await, acquire(&queue, jids[1]).await);
    queue.clock().advance(MINUTE);
    assert!(matches!(queue.expire(jids[0]).await, Err(Error::Busy { .. })));
    queue.succeed(&mut one, &Change::default()).await.unwrap();
    queue.give_back(&mut other, None).await.unwrap();
    assert!(all_jobs(queue.session()).await.is_empty());
    clean(queue.session(), Dialect::Design).await;
}

async fn a_requeued_job_does_not_expire(tree: &Tree) {
    let queue = queue(tree).await;
    deposit(&queue, "one", &[dated(0, None, Some(MINUTE), &queue)]).await.unwrap();
    let jid = all_jobs(queue.session()).await[0];
    bring(&queue, jid, JobState::Failed).await;
    queue.clock().advance(2 * MINUTE);
    queue.act(jid, &Action::Requeue(Some(JobState::Estimating)), "wanted", false).await.unwrap();
    bring(&queue, jid, JobState::Completed).await;
    clean(queue.session(), Dialect::Design).await;
}

fn until(queue: &Queue, wait: Duration) -> Submission {
    let mut submission = submission();
    submission.other.insert("expiration_date".into(), after(queue, wait).to_string().into());
    submission
}

async fn an_expired_batch_fails_and_leaves_the_tree_by_itself(tree: &Tree) {
    let queue = queue(tree).await;
    let held = queue.create_batch("held", &until(&queue, MINUTE)).await.unwrap().bid;
    queue.act_on_batch(held, BatchAction::Hold, "", false).await.unwrap();
    let keyed = Submission { key: Some("k".into()), ..until(&queue, MINUTE) };
    let pending = queue.create_batch("pending", &keyed).await.unwrap().bid;
    for (bid, begin) in [(held, Begin::Until(Some(after(&queue, MINUTE)))), (pending, Begin::Now)] {
        assert_eq!(queue.may_begin(&queue.batch(bid).await.unwrap()).await.unwrap(), begin);
    }
    queue.clock().advance(MINUTE);
    for bid in [held, pending] {
        let Begin::Expired(date) = queue.may_begin(&queue.batch(bid).await.unwrap()).await.unwrap() else {
            panic!("{bid} has not expired");
        };
        let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
        queue.expire_batch(&mut lease, date).await.unwrap();
        clean(queue.session(), Dialect::Design).await;
        let (state, message) = ended(&queue, bid).await;
        assert_eq!(state, BatchState::Failed);
        assert!(message.starts_with("expired: it was to be begun before"), "{message}");
        queue.clean_batch(bid, |_| ()).await.unwrap();
    }
    assert!(names(&queue, map::JOURNAL_KEYS).await.is_empty());
    // One that failed for another reason is a person's.
    let failed = queue.create_batch("failed", &submission()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(failed, WHO).await.unwrap();
    queue.fail_batch(&mut lease, "no such host").await.unwrap();
    let refused = queue.clean_batch(failed, |_| ()).await.unwrap_err();
    assert!(refused.to_string().contains("a person deletes it"), "{refused}");
    clean(queue.session(), Dialect::Design).await;
}

pub(crate) fn keyed(key: &str, title: &str) -> Submission {
    Submission { key: Some(key.into()), erc_what: Some(title.into()), ..submission() }
}

pub(crate) async fn begin(queue: &Queue, bid: Bid, jobs: usize) -> Result<()> {
    let mut lease = queue.acquire_batch(bid, WHO).await?;
    if lease.batch().state() == BatchState::Pending || lease.batch().state() == BatchState::Processing {
        let from = match queue.begin_expansion(&mut lease, MANIFEST, jobs as u64).await {
            Ok(from) => from,
            Err(error) => {
                queue.release_batch(&mut lease).await?;
                return Err(error);
            }
        };
        let rest = usize::try_from(from).unwrap_or(jobs);
        queue.expand(&mut lease, from, &new_jobs(jobs)[rest..]).await?;
    }
    queue.release_batch(&mut lease).await
}

async fn a_second_submission_becomes_part_of_the_one_that_waits(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let first = here.create_batch("u-1", &keyed("k", "one")).await.unwrap();
    assert_eq!(first, Created { bid: first.bid, known: false, merged: false, stale: false });
    // A node that is about to expand it begins anew.
    let mut lease = there.acquire_batch(first.bid, WHO).await.unwrap();
    let second = here.create_batch("u-2", &keyed("k", "two")).await.unwrap();
    assert_eq!(second, Created { bid: first.bid, known: false, merged: true, stale: false });
    let lost = there.begin_expansion(&mut lease, MANIFEST, 1).await.unwrap_err();
    assert!(matches!(lost, Error::Lost { .. }), "{lost}");
    let kept = here.submission(first.bid).await.unwrap();
    assert_eq!((kept.erc_what.as_deref(), kept.key.as_deref()), (Some("two"), Some("k")));
    assert_eq!(names(&here, map::BATCHES).await.len(), 1);
    // While it is held, too.
    here.act_on_batch(first.bid, BatchAction::Hold, "", false).await.unwrap();
    assert!(here.create_batch("u-3", &keyed("k", "three")).await.unwrap().merged);
    here.act_on_batch(first.bid, BatchAction::Release, "", false).await.unwrap();
    clean(here.session(), Dialect::Design).await;
    begin(&here, first.bid, 1).await.unwrap();
    assert_eq!(here.submission(first.bid).await.unwrap().erc_what.as_deref(), Some("three"));
    clean(here.session(), Dialect::Design).await;
}

async fn a_uuid_that_was_merged_is_known(tree: &Tree) {
    let queue = queue(tree).await;
    let first = queue.create_batch("u-1", &keyed("k", "one")).await.unwrap().bid;
    queue.create_batch("u-2", &keyed("k", "two")).await.unwrap();
    for uuid in ["u-1", "u-2"] {
        let again = queue.create_batch(uuid, &keyed("k", "again")).await.unwrap();
        assert_eq!((again.bid, again.known, again.merged), (first, true, false), "{uuid}");
    }
    assert_eq!(queue.submission(first).await.unwrap().erc_what.as_deref(), Some("two"));
    queue.act_on_batch(first, BatchAction::Hold, "", false).await.unwrap();
    queue.delete_batch(first, "me", "", false, |_| ()).await.unwrap();
    assert!(names(&queue, map::BATCH_UUIDS).await.is_empty());
    clean(queue.session(), Dialect::Design).await;
}

async fn an_older_submission_is_stale(tree: &Tree) {
    let queue = queue(tree).await;
    let first = queue.create_batch("u-1", &keyed("k", "one")).await.unwrap().bid;
    let yesterday = ingest_queue::date::Date::from_millis(queue.now().millis() - 1);
    let older = Submission { insertion_date: Some(yesterday), ..keyed("k", "older") };
    let answer = queue.create_batch("u-2", &older).await.unwrap();
    assert_eq!(answer, Created { bid: first, known: false, merged: false, stale: true });
    assert_eq!(queue.submission(first).await.unwrap().erc_what.as_deref(), Some("one"));
    assert_eq!(queue.find_batch("u-2").await.unwrap(), None, "nothing was made");
    clean(queue.session(), Dialect::Design).await;
}

async fn a_key_of_another_is_refused(tree: &Tree) {
    let queue = queue(tree).await;
    queue.create_batch("u-1", &keyed("k", "one")).await.unwrap();
    let stranger = Submission { submitter: "a stranger".into(), ..keyed("k", "two") };
    let other_profile = Submission { profile_name: "other".into(), ..keyed("k", "two") };
    for submission in [stranger, other_profile] {
        let refused = queue.create_batch("u-2", &submission).await.unwrap_err();
        assert!(refused.to_string().contains("take another key"), "{refused}");
    }
    for key in ["", &"x".repeat(2000)] {
        let refused = queue.create_batch("u-3", &keyed(key, "")).await.unwrap_err();
        assert!(refused.to_string().contains("a key has 1 to 1024 bytes"), "{refused}");
    }
    assert_eq!(names(&queue, map::BATCHES).await.len(), 1);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_submission_is_queued_behind_the_one_that_is_processed(tree: &Tree) {
    let queue = queue(tree).await;
    let first = queue.create_batch("u-1", &keyed("k", "one")).await.unwrap().bid;
    begin(&queue, first, 1).await.unwrap();
    let second = queue.create_batch("u-2", &keyed("k", "two")).await.unwrap();
    assert_ne!(second.bid, first);
    assert!(!second.merged, "the first is not changed any more");
    // One waits: a third becomes part of that.
    let third = queue.create_batch("u-3", &keyed("k", "three")).await.unwrap();
    assert_eq!((third.bid, third.merged), (second.bid, true));
    clean(queue.session(), Dialect::Design).await;
    let waiting = queue.batch(second.bid).await.unwrap();
    assert_eq!(queue.may_begin(&waiting).await.unwrap(), Begin::Behind(first, None));
    let refused = begin(&queue, second.bid, 1).await.unwrap_err();
    assert!(refused.to_string().contains("is still being processed"), "{refused}");
    bring(&queue, all_jobs(queue.session()).await[0], JobState::Completed).await;
    // The end of its processing, and not of its report.
    let mut lease = queue.acquire_batch(first, WHO).await.unwrap();
    assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
    clean(queue.session(), Dialect::Design).await;
    let waiting = queue.batch(second.bid).await.unwrap();
    assert_eq!(queue.may_begin(&waiting).await.unwrap(), Begin::Now);
    begin(&queue, second.bid, 1).await.unwrap();
    let keyed = queue.keyed("k").await.unwrap();
    assert_eq!((keyed.waiting, keyed.running), (None, Some(second.bid)));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_batch_with_a_key_waits_for_its_date_unexpanded(tree: &Tree) {
    let queue = queue(tree).await;
    let mut later = keyed("k", "one");
    later.other.insert("process_date".into(), after(&queue, MINUTE).to_string().into());
    let bid = queue.create_batch("u-1", &later).await.unwrap().bid;
    let waiting = queue.batch(bid).await.unwrap();
    assert_eq!(queue.may_begin(&waiting).await.unwrap(), Begin::NotBefore(after(&queue, MINUTE)));
    let plain = Submission { key: None, ..later };
    let plain = queue.create_batch("u-2", &plain).await.unwrap().bid;
    let begin = queue.may_begin(&queue.batch(plain).await.unwrap()).await.unwrap();
    assert_eq!(begin, Begin::Now, "its jobs wait instead");
    queue.clock().advance(MINUTE);
    assert_eq!(queue.may_begin(&waiting).await.unwrap(), Begin::Now);
}

async fn a_key_is_free_when_its_batch_has_failed_or_is_deleted(tree: &Tree) {
    let queue = queue(tree).await;
    let first = queue.create_batch("u-1", &keyed("k", "one")).await.unwrap().bid;
    let mut lease = queue.acquire_batch(first, WHO).await.unwrap();
    queue.fail_batch(&mut lease, "no such host").await.unwrap();
    clean(queue.session(), Dialect::Design).await;
    let second = queue.create_batch("u-2", &keyed("k", "two")).await.unwrap();
    assert!(!second.merged && second.bid != first);
    queue.act_on_batch(second.bid, BatchAction::Hold, "", false).await.unwrap();
    queue.delete_batch(second.bid, "me", "not wanted", false, |_| ()).await.unwrap();
    assert!(names(&queue, map::JOURNAL_KEYS).await.is_empty());
    clean(queue.session(), Dialect::Design).await;
}

async fn keys_with_the_same_hash_are_told_apart(tree: &Tree) {
    let queue = queue(tree).await;
    let other = queue.create_batch("u-1", &keyed("another", "one")).await.unwrap().bid;
    // As if `another` had the hash of `k`.
    let there = Keys::default().waits("another", other).write(Dialect::Design);
    queue.session().create(map::journal_key("k"), there, Mode::Persistent).await.unwrap();
    let made = queue.create_batch("u-2", &keyed("k", "two")).await.unwrap();
    assert!(!made.merged && made.bid != other);
    assert!(queue.create_batch("u-3", &keyed("k", "three")).await.unwrap().merged);
    assert_eq!(queue.submission(other).await.unwrap().erc_what.as_deref(), Some("one"));
    begin(&queue, made.bid, 1).await.unwrap();
    let (data, _) = queue.session().get(map::journal_key("k")).await.unwrap();
    assert_eq!(Keys::read(&data).unwrap().of("another").unwrap().waiting, Some(other));
}

async fn eight_sessions_on_one_key_make_one_waiting_submission(tree: &Tree) {
    const EACH: usize = 6;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(queue(tree).await);
    }
    let submitting = sessions.iter().enumerate().map(|(session, queue)| async move {
        let mut answers = Vec::new();
        for number in 0..EACH {
            let uuid = format!("u-{session}-{number}");
            answers.push((uuid.clone(), queue.create_batch(&uuid, &keyed("k", &uuid)).await.unwrap()));
        }
        answers
    });
    let answers: Vec<(String, Created)> =
        futures::future::join_all(submitting).await.into_iter().flatten().collect();
    let queue = &sessions[0];
    assert_eq!(names(queue, map::BATCHES).await.len(), 1, "one batch waits");
    assert_eq!(answers.iter().filter(|(_, answer)| !answer.merged).count(), 1, "one made it");
    let bid = answers[0].1.bid;
    for (uuid, answer) in &answers {
        assert_eq!((answer.bid, queue.find_batch(uuid).await.unwrap()), (bid, Some(bid)), "{uuid}");
    }
    clean(queue.session(), Dialect::Design).await;
    // Those who submit race with the one who begins.
    let beginning = async {
        while begin(&sessions[1], bid, 1).await.is_err() {}
        assert_eq!(sessions[1].batch(bid).await.unwrap().state(), BatchState::Processing);
    };
    let late = async {
        let mut made = Vec::new();
        for number in 0..EACH {
            let answer = sessions[2].create_batch(&format!("late-{number}"), &keyed("k", "late")).await;
            made.push(answer.unwrap());
        }
        made
    };
    let ((), late) = tokio::join!(beginning, late);
    let batches: std::collections::BTreeSet<Bid> = late.iter().map(|answer| answer.bid).collect();
    let new = batches.iter().filter(|other| **other != bid).count();
    assert!(new <= 1, "at most one waits behind: {batches:?}");
    clean(queue.session(), Dialect::Design).await;
}

/// Invariant: an expansion is disturbed a bounded number of times, and no submission is lost on the way: each is in the batch
/// that it was answered with, or was told that it is in none.
async fn whoever_submits_faster_than_a_payload_is_fetched_does_not_keep_it_waiting(tree: &Tree) {
    let (queue, other) = (queue(tree).await, queue(tree).await);
    let first = other.create_batch("u-first", &keyed("k", "first")).await.unwrap().bid;
    for number in 0..MOST_DISTURBED {
        // It fetches, and meanwhile there is something newer.
        let mut lease = queue.acquire_batch(first, WHO).await.unwrap();
        let answer = other.create_batch(&format!("u-{number}"), &keyed("k", "newer")).await.unwrap();
        assert!(answer.merged && answer.bid == first, "{answer:?}");
        assert!(matches!(queue.begin_expansion(&mut lease, MANIFEST, 1).await, Err(Error::Lost { .. })));
        let _ = queue.release_batch(&mut lease).await;
    }
    // One that waits takes as many as come.
    assert!(other.create_batch("u-waits", &keyed("k", "newest")).await.unwrap().merged);
    let mut lease = queue.acquire_batch(first, WHO).await.unwrap();
    let refused = other.create_batch("u-late", &keyed("k", "late")).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    assert_eq!(other.find_batch("u-late").await.unwrap(), None);
    queue.begin_expansion(&mut lease, MANIFEST, 1).await.unwrap();
    queue.expand(&mut lease, 0, &new_jobs(1)).await.unwrap();
    queue.release_batch(&mut lease).await.unwrap();
    assert_eq!(queue.submission(first).await.unwrap().erc_what.as_deref(), Some("newest"));
    // Tried again it is queued behind.
    let behind = other.create_batch("u-late", &keyed("k", "late")).await.unwrap();
    assert!(!behind.merged && behind.bid != first);
    clean(queue.session(), Dialect::Design).await;
}

async fn the_stores_clock_counts(tree: &Tree) {
    // Its own clock stands still, a long time ago.
    let queue = queue(tree).await;
    let own = queue.now();
    let before = queue.session().set(map::JOURNAL, "", None).await.unwrap().mtime;
    let started = std::time::Instant::now();
    let off = queue.correct_clock().await.unwrap();
    let took = i64::try_from(started.elapsed().as_millis()).unwrap();
    assert!(off > 0 && queue.now() > own, "{off}");
    // It stands still where the store's clock was between two writes around the correction. When the store's clock was
    // read is known up to half the way to the store and back, in whole milliseconds.
    let after = queue.session().set(map::JOURNAL, "", None).await.unwrap().mtime;
    let (corrected, from) = (queue.now().millis(), before - took / 2 - 2);
    assert!((from..=after).contains(&corrected), "{corrected} is not in {from}..={after}");
    // What the way explains is nothing.
    let settings = ingest_queue::queue::Settings::new("n");
    let clock = ingest_queue::date::Clock::system();
    let near = Queue::open(queue.session(), settings, clock).await.unwrap();
    assert_eq!(near.correct_clock().await.unwrap(), 0);
}
