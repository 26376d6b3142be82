//! What a person, the queue and the timekeeper do to jobs, and what they are refused.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use ingest_queue::dialect::Dialect;
use ingest_queue::error::{Error, Next};
use ingest_queue::index::finder::Finder;
use ingest_queue::index::{Seen, Settings};
use ingest_queue::jobs::Write;
use ingest_queue::map::{JobNode, Priority, QueueRef};
use ingest_queue::nodes::{Identifiers, Inventory, Metadata, Number, Schedule, Store, Work};
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::queue::Queue;
use ingest_queue::states::{JobState, Who};

use crate::tree::{Tree, on_both_engines};
use crate::world::{
    WHO, acquire, batch_of, bring, clean, clock, difference, entry, priority, queue, snapshot, status,
    waiting,
};

on_both_engines!(
    a_refused_move_says_from_to_who_and_what_is_allowed,
    a_busy_job_is_refused_to_a_person_and_says_where_and_since_when,
    force_takes_the_lock_away,
    a_job_that_is_locked_elsewhere_is_busy,
    a_ref_that_is_not_true_is_no_reason_to_acquire,
    a_job_whose_priority_changes_before_it_is_acquired_is_worked_on_by_its_new_ref,
    a_job_that_cannot_be_recovered_is_not_requeued,
    a_job_is_requeued_to_where_it_stopped_or_to_a_chosen_state,
    nothing_comes_back_while_the_batch_reports,
    a_priority_is_changed_with_the_ref_in_one_step,
    a_transition_may_change_priority_and_space,
    a_job_that_crashes_its_worker_too_often_fails_as_poison,
    a_worker_that_ends_properly_is_not_counted,
    a_lock_whose_worker_died_before_it_was_taken_is_swept_when_it_has_been,
    a_requeue_forgives_the_crashes,
    what_a_worker_writes_is_there_and_can_be_written_again,
    a_deleted_job_takes_its_belongings_along,
    the_key_of_an_effect_outlives_a_crash_but_not_a_requeue,
    locks_that_nobody_claims_are_swept,
    a_message_of_any_length_ends_in_the_tree,
    a_pending_job_is_taken_and_moved_on_in_one_commit,
    a_transition_puts_right_what_another_program_has_left_out,
);

async fn a_refused_move_says_from_to_who_and_what_is_allowed(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Downloading).await;
    let before = snapshot(queue.session()).await;
    let error = queue.act(jids[0], &Action::Hold, "", false).await.unwrap_err();
    assert_eq!(error.next(), Next::Tell);
    let text = error.to_string();
    for part in ["jid", "downloading", "held", "admin", "processing (by worker)", "failed (by worker)"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let Error::Refused { refused, .. } = error else { panic!("{error:?}") };
    assert_eq!((refused.from, refused.to.as_str(), refused.by), ("downloading", "held", Who::Admin));
    let mut lease = acquire(&queue, jids[0]).await;
    let skip = queue.advance(&mut lease, JobState::Completed, Who::Worker, &Change::default()).await;
    assert!(matches!(skip, Err(Error::Refused { .. })), "{skip:?}");
    queue.give_back(&mut lease, None).await.unwrap();
    let changed = difference(&before, &snapshot(queue.session()).await);
    assert_eq!((changed.came, changed.went), (vec![], vec![]));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_busy_job_is_refused_to_a_person_and_says_where_and_since_when(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    let _lease = acquire(&here, jids[0]).await;
    let error = there.act(jids[0], &Action::Hold, "", false).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{} is busy on node-1 since {}", jids[0], here.now()));
    clean(here.session(), Dialect::Design).await;
}

async fn force_takes_the_lock_away(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    let mut lease = acquire(&here, jids[0]).await;
    there.act(jids[0], &Action::Hold, "by an operator", true).await.unwrap();
    assert_eq!(status(&there, jids[0]).await.status, JobState::Held);
    let late = here.succeed(&mut lease, &Change::default()).await;
    assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
    // Nobody has it: force is the same as without.
    there.act(jids[0], &Action::Release, "", true).await.unwrap();
    clean(here.session(), Dialect::Design).await;
}

async fn a_job_that_is_locked_elsewhere_is_busy(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    let _lease = acquire(&here, jids[0]).await;
    for queue in [&here, &there] {
        let answer = queue.acquire(entry(queue, jids[0]).await, "other").await;
        assert!(matches!(answer, Err(Error::Busy { .. })), "{answer:?}");
    }
    assert_eq!((here.locks().len(), there.locks().len()), (1, 0));
}

async fn a_ref_that_is_not_true_is_no_reason_to_acquire(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    let before = snapshot(queue.session()).await;
    let ghost = QueueRef::new(JobState::Notify, priority(5), jids[0]);
    let answer = queue.acquire(ghost, WHO).await;
    assert!(matches!(&answer, Err(Error::Changed { .. })), "{answer:?}");
    assert_eq!(answer.unwrap_err().next(), Next::LookAgain);
    let nobody = QueueRef::new(JobState::Notify, priority(5), ingest_queue::ids::Jid::new(4711));
    assert!(matches!(queue.acquire(nobody, WHO).await, Err(Error::NotFound(_))));
    assert_eq!(snapshot(queue.session()).await, before);
}

async fn a_job_whose_priority_changes_before_it_is_acquired_is_worked_on_by_its_new_ref(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Downloading).await;
    let finder = Finder::start(queue.session(), Settings::default()).await.unwrap();
    let old = finder.next(JobState::Downloading).await.unwrap().entry;
    queue.act(jids[0], &Action::SetPriority(priority(44)), "", false).await.unwrap();
    let answer = queue.acquire(old, WHO).await;
    assert!(matches!(&answer, Err(Error::Changed { .. })), "{answer:?}");
    assert!(queue.locks().is_empty());
    assert_eq!(finder.disagrees(old), Seen::Once);
    let new = finder.next(JobState::Downloading).await.unwrap().entry;
    assert_eq!(new, QueueRef::new(JobState::Downloading, priority(44), jids[0]));
    let mut lease = queue.acquire(new, WHO).await.unwrap();
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    finder.finished(new);
    // Nothing of the old one is left: the node that did this goes on with the job.
    let next = finder.next(JobState::Processing).await.unwrap().entry;
    assert_eq!(next, QueueRef::new(JobState::Processing, priority(44), jids[0]));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_job_that_cannot_be_recovered_is_not_requeued(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    let mut lease = acquire(&queue, jids[0]).await;
    let change = Change { hopeless: true, ..Change::message("the digest differs") };
    queue.fail(&mut lease, &change).await.unwrap();
    let error = queue.act(jids[0], &Action::Requeue(None), "", false).await.unwrap_err();
    assert!(error.to_string().contains("the digest differs"), "{error}");
    assert!(error.to_string().contains("submit it again"), "{error}");
    clean(queue.session(), Dialect::Design).await;
}

async fn a_job_is_requeued_to_where_it_stopped_or_to_a_chosen_state(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 2).await;
    for jid in &jids {
        bring(&queue, *jid, JobState::Recording).await;
        let mut lease = acquire(&queue, *jid).await;
        queue.fail(&mut lease, &Change::message("no inventory")).await.unwrap();
    }
    let acted = queue.act(jids[0], &Action::Requeue(None), "", false).await.unwrap();
    assert_eq!((acted.from, acted.to), (JobState::Failed, Some(JobState::Recording)));
    queue.act(jids[1], &Action::Requeue(Some(JobState::Downloading)), "", false).await.unwrap();
    let again = status(&queue, jids[1]).await;
    assert_eq!((again.status, again.retry_count), (JobState::Downloading, 1));
    for refused in [JobState::Pending, JobState::Completed, JobState::Storing] {
        bring_to_failed(&queue, jids[1]).await;
        let answer = queue.act(jids[1], &Action::Requeue(Some(refused)), "", false).await;
        assert!(matches!(answer, Err(Error::Refused { .. })), "{refused}: {answer:?}");
    }
    clean(queue.session(), Dialect::Design).await;
}

async fn bring_to_failed(queue: &ingest_queue::queue::Queue, jid: ingest_queue::ids::Jid) {
    if status(queue, jid).await.status != JobState::Failed {
        let mut lease = acquire(queue, jid).await;
        queue.fail(&mut lease, &Change::default()).await.unwrap();
    }
}

async fn nothing_comes_back_while_the_batch_reports(tree: &Tree) {
    let queue = queue(tree).await;
    let (bid, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Failed).await;
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.end_batch(&mut lease).await.unwrap();
    for action in [Action::Requeue(None), Action::Delete] {
        let error = queue.act(jids[0], &action, "", false).await.unwrap_err();
        assert!(error.to_string().contains("is reporting; try again when its report is sent"), "{error}");
    }
    clean(queue.session(), Dialect::Design).await;
}

async fn a_priority_is_changed_with_the_ref_in_one_step(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 2).await;
    queue.act(jids[1], &Action::SetPriority(Priority::FIRST), "by an operator", false).await.unwrap();
    let order: Vec<_> =
        waiting(queue.session(), JobState::Pending).await.iter().map(|entry| entry.jid).collect();
    assert_eq!(order, [jids[1], jids[0]]);
    assert_eq!(queue.node::<Number>(jids[1], JobNode::Priority).await.unwrap(), Some(Number(0)));
    clean(queue.session(), Dialect::Design).await;
    let mut lease = acquire(&queue, jids[1]).await;
    queue.set_priority(&mut lease, priority(44)).await.unwrap();
    assert_eq!(entry(&queue, jids[1]).await.priority, priority(44));
    clean(queue.session(), Dialect::Design).await;
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    assert_eq!(waiting(queue.session(), JobState::Estimating).await[0].priority, priority(44));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_transition_may_change_priority_and_space(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Estimating).await;
    let mut lease = acquire(&queue, jids[0]).await;
    let change = Change { priority: Some(Priority::SLOW), space_needed: Some(1 << 40), ..Change::default() };
    queue.succeed(&mut lease, &change).await.unwrap();
    assert_eq!(
        waiting(queue.session(), JobState::Provisioning).await,
        [QueueRef::new(JobState::Provisioning, Priority::SLOW, jids[0])]
    );
    assert_eq!(queue.node::<Number>(jids[0], JobNode::SpaceNeeded).await.unwrap(), Some(Number(1 << 40)));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_job_that_crashes_its_worker_too_often_fails_as_poison(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Processing).await;
    let place = entry(&queue, jids[0]).await;
    for _ in 0..queue.settings().max_timeouts {
        queue.acquire(place, "pool").await.unwrap();
        assert_eq!(queue.release_all_of("pool").await.unwrap(), 1);
        clean(queue.session(), Dialect::Design).await;
    }
    let error = queue.acquire(place, "pool").await.unwrap_err();
    assert!(error.to_string().contains("poison: its worker crashed or stalled 4 times"), "{error}");
    let now = status(&queue, jids[0]).await;
    assert_eq!(now.status, JobState::Failed);
    assert!(now.message.contains("most recently in processing"), "{}", now.message);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_worker_that_ends_properly_is_not_counted(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    for _ in 0..queue.settings().max_timeouts + 2 {
        let mut lease = acquire(&queue, jids[0]).await;
        queue.give_back(&mut lease, Some("no room yet")).await.unwrap();
    }
    assert_eq!(queue.node::<Schedule>(jids[0], JobNode::Schedule).await.unwrap(), None);
    assert_eq!(status(&queue, jids[0]).await.message, "no room yet");
}

/// A worker can be ended while its commit waits for its turn: then nobody waits for the answer, and it is still sent.
async fn a_lock_whose_worker_died_before_it_was_taken_is_swept_when_it_has_been(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Downloading).await;
    let place = entry(&queue, jids[0]).await;
    let session = tree.session().await;
    let (late, serving) = Queue::with_committer(&session, queue.settings().clone(), clock());
    // The worker reads the job and hands in its plan; nothing serves the committer. The plan is handed in while the
    // future is polled, so the count is checked after each poll: no wait, and no guess at how many polls it takes.
    {
        let mut acquire = pin!(late.acquire(place, "pool"));
        poll_fn(|context| match acquire.as_mut().poll(context) {
            Poll::Ready(answer) => panic!("{answer:?}"),
            Poll::Pending if late.unanswered_commits() == 1 => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        })
        .await;
    }
    assert_eq!(late.release_all_of("pool").await.unwrap(), 0);
    let swept = tokio::select! {
        swept = late.sweep_locks() => swept.unwrap(),
        () = serving.run() => panic!("nobody sends any more"),
    };
    assert_eq!(swept, [JobNode::Lock.of(jids[0])]);
    assert!(late.locks().is_empty());
    queue.acquire(place, WHO).await.unwrap();
    assert_eq!(timeouts(&queue, jids[0]).await, 1);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_requeue_forgives_the_crashes(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Downloading).await;
    let place = entry(&queue, jids[0]).await;
    for _ in 0..3 {
        queue.acquire(place, "pool").await.unwrap();
        queue.release_all_of("pool").await.unwrap();
    }
    let mut lease = queue.acquire(place, WHO).await.unwrap();
    queue.fail(&mut lease, &Change::default()).await.unwrap();
    assert_eq!(timeouts(&queue, jids[0]).await, 3);
    queue.act(jids[0], &Action::Requeue(None), "", false).await.unwrap();
    assert_eq!(timeouts(&queue, jids[0]).await, 0);
    clean(queue.session(), Dialect::Design).await;
}

async fn timeouts(queue: &ingest_queue::queue::Queue, jid: ingest_queue::ids::Jid) -> u32 {
    queue.node::<Schedule>(jid, JobNode::Schedule).await.unwrap().unwrap().timeout_count
}

async fn what_a_worker_writes_is_there_and_can_be_written_again(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    let mut lease = acquire(&queue, jids[0]).await;
    let ark = Identifiers { primary_id: Some("ark:/13030/m5rn35s8".into()), ..Identifiers::default() };
    let work = Work { node: "node-1".into(), directory: "bid/jid".into(), attempt: 1, ..Work::default() };
    let writes = [
        Write::Identifiers(ark.clone()),
        Write::Metadata(Metadata { erc_who: Some("somebody".into()), ..Metadata::default() }),
        Write::Inventory(Inventory { manifest_url: "https://example.org/m".into(), ..Inventory::default() }),
        Write::Schedule(Schedule { timeout_count: 2, ..Schedule::default() }),
        Write::Store(Store { mode: "add".into(), ..Store::default() }),
        Write::Work(work.clone()),
        Write::SpaceNeeded(77),
    ];
    for _ in 0..2 {
        queue.write(&mut lease, &writes).await.unwrap();
        assert_eq!(queue.node(jids[0], JobNode::Identifiers).await.unwrap(), Some(ark.clone()));
        assert_eq!(queue.node(jids[0], JobNode::Work).await.unwrap(), Some(work.clone()));
        assert_eq!(queue.node(jids[0], JobNode::SpaceNeeded).await.unwrap(), Some(Number(77)));
    }
    // The writes have not spent the token.
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn a_deleted_job_takes_its_belongings_along(tree: &Tree) {
    let queue = queue(tree).await;
    let mut new = crate::world::new_job(0);
    new.schedule = Some(Schedule {
        process_date: Some(crate::world::after(&queue, std::time::Duration::from_mins(1))),
        ..Schedule::default()
    });
    crate::world::deposit(&queue, "one", &[new]).await.unwrap();
    let jid = crate::world::all_jobs(queue.session()).await[0];
    let (dates, _) = queue.session().children(ingest_queue::map::JOURNAL_DATES).await.unwrap();
    assert_eq!(dates.len(), 1);
    queue.clock().advance(std::time::Duration::from_mins(2));
    let mut lease = acquire(&queue, jid).await;
    let ids = ["local-0".to_owned()];
    queue.claim_local_ids(&mut lease, "an owner", &ids, &Identifiers::default()).await.unwrap();
    assert_eq!(queue.session().children(ingest_queue::map::LOCAL_IDS).await.unwrap().0.len(), 1);
    // Another program's node, with a child.
    queue
        .session()
        .create_with_parents(format!("/jobs/{jid}/foreign/deep"), "x", ingest_store::Mode::Persistent)
        .await
        .unwrap();
    queue.give_back(&mut lease, None).await.unwrap();
    queue.act(jid, &Action::Hold, "", false).await.unwrap();
    let acted = queue.act(jid, &Action::Delete, "", false).await.unwrap();
    assert_eq!((acted.to, acted.warning), (None, Some("the depositor will not be told")));
    let left = snapshot(queue.session()).await;
    let named: Vec<_> = left.keys().filter(|at| at.contains(&jid.to_string())).collect();
    assert_eq!(named, [&format!("/batches/bid0000000000/states/batch-deleted/{jid}")]);
    assert!(queue.session().children(ingest_queue::map::LOCAL_IDS).await.unwrap().0.is_empty());
    clean(queue.session(), Dialect::Design).await;
}

async fn the_key_of_an_effect_outlives_a_crash_but_not_a_requeue(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Downloading).await;
    let first = queue.acquire(entry(&queue, jids[0]).await, "pool").await.unwrap().effect_key();
    queue.release_all_of("pool").await.unwrap();
    let mut lease = acquire(&queue, jids[0]).await;
    assert_eq!(lease.effect_key(), first);
    queue.fail(&mut lease, &Change::default()).await.unwrap();
    queue.act(jids[0], &Action::Requeue(None), "", false).await.unwrap();
    assert_ne!(acquire(&queue, jids[0]).await.effect_key(), first);
}

async fn locks_that_nobody_claims_are_swept(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 2).await;
    let mut kept = acquire(&queue, jids[0]).await;
    let lock = JobNode::Lock.of(jids[1]);
    queue.session().create(lock.as_str(), "", ingest_store::Mode::Ephemeral).await.unwrap();
    assert_eq!(queue.sweep_locks().await.unwrap(), [lock]);
    queue.succeed(&mut kept, &Change::default()).await.unwrap();
    acquire(&queue, jids[1]).await;
}

async fn a_transition_puts_right_what_another_program_has_left_out(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    let session = queue.session();
    session.delete(JobNode::Priority.of(jids[0]), None).await.unwrap();
    let mut lease = acquire(&queue, jids[0]).await;
    session.delete(JobNode::Lock.of(jids[0]), None).await.unwrap();
    let change = Change { priority: Some(priority(30)), ..Change::default() };
    queue.succeed(&mut lease, &change).await.unwrap();
    assert_eq!(entry(&queue, jids[0]).await, QueueRef::new(JobState::Estimating, priority(30), jids[0]));
    clean(session, Dialect::Design).await;
}

async fn a_pending_job_is_taken_and_moved_on_in_one_commit(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 3).await;
    let before = status_version(&here, jids[0]).await;
    let mut lease = here.admit(entry(&here, jids[0]).await, WHO).await.unwrap();
    let now = status(&here, jids[0]).await;
    assert_eq!(
        (now.status, now.attempt, now.start_processing_date),
        (JobState::Estimating, 1, Some(here.now()))
    );
    assert_eq!(status_version(&here, jids[0]).await, before + 1);
    clean(here.session(), Dialect::Design).await;
    here.gate(&lease).await.unwrap();
    here.succeed(&mut lease, &Change::default()).await.unwrap();
    // Not for another, not for what has moved on, not past a hold, not without its crash being counted.
    let _busy = acquire(&here, jids[1]).await;
    let answer = there.admit(entry(&there, jids[1]).await, WHO).await;
    assert!(matches!(answer, Err(Error::Busy { .. })), "{answer:?}");
    let answer = there.admit(QueueRef::new(JobState::Pending, priority(5), jids[0]), WHO).await;
    assert!(matches!(answer, Err(Error::Changed { .. })), "{answer:?}");
    let place = entry(&here, jids[2]).await;
    there.read_holds().await.unwrap();
    here.hold_collection("demo_content", "an operator", "").await.unwrap();
    let answer = there.admit(place, WHO).await;
    assert!(matches!(answer, Err(Error::Forbidden { .. })), "{answer:?}");
    assert!(there.locks().is_empty());
    here.release_collection("demo_content").await.unwrap();
    here.hold_queue(ingest_queue::map::HeldQueue::Ingest, "an operator", "").await.unwrap();
    let answer = there.admit(place, WHO).await;
    assert!(matches!(answer, Err(Error::Forbidden { .. })), "{answer:?}");
    here.release_queue(ingest_queue::map::HeldQueue::Ingest).await.unwrap();
    here.acquire(place, "pool").await.unwrap();
    here.release_all_of("pool").await.unwrap();
    there.admit(place, WHO).await.unwrap();
    assert_eq!(timeouts(&there, jids[2]).await, 1);
    clean(here.session(), Dialect::Design).await;
}

async fn status_version(queue: &ingest_queue::queue::Queue, jid: ingest_queue::ids::Jid) -> i32 {
    queue.job_status(jid).await.unwrap().1.version
}

async fn a_message_of_any_length_ends_in_the_tree(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 1).await;
    bring(&queue, jids[0], JobState::Downloading).await;
    let mut lease = acquire(&queue, jids[0]).await;
    queue.fail(&mut lease, &Change::message("ä".repeat(1 << 20))).await.unwrap();
    let message = status(&queue, jids[0]).await.message;
    assert!(
        message.len() < 20_000 && message.contains("… (2097152 bytes, group g1-"),
        "{} bytes",
        message.len()
    );
    clean(queue.session(), Dialect::Design).await;
}
