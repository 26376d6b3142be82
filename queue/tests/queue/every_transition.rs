//! Every row of every table is run, and the tree is compared node by node before and after.

use std::collections::BTreeMap;

use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, AccessSize, BatchNode, JobNode, QueueRef};
use ingest_queue::nodes::{AccessToken, BatchStatus, Entry, History, JobStatus, Node};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::queue::Queue;
use ingest_queue::states::{AccessState, BatchList, BatchState, JobState, Move, States, To, Who, Why};

use crate::tree::{Tree, on_both_engines};
use crate::world::{
    Difference, MANIFEST, WHO, acquire, batch_of, bring, clean, difference, path_of_work, priority, queue_on,
    read, snapshot, status, submission,
};

on_both_engines!(
    every_move_of_a_job_changes_what_the_map_says_and_nothing_else,
    every_move_of_a_batch_changes_what_the_map_says_and_nothing_else,
    every_move_of_an_access_item_changes_what_the_map_says_and_nothing_else,
    an_acquire_and_a_release_touch_the_lock_and_the_status_only,
    a_hand_over_keeps_the_lock_and_is_the_next_attempt,
);

async fn every_move_of_a_job_changes_what_the_map_says_and_nothing_else(tree: &Tree) {
    every_job_move(tree, Dialect::Design).await;
}

#[tokio::test]
async fn every_move_of_a_job_in_the_other_dialect() {
    let tree = Tree::embedded();
    every_job_move(&tree, Dialect::MrtZk).await;
    tree.close().await;
}

async fn every_job_move(tree: &Tree, dialect: Dialect) {
    let queue = queue_on(&tree.session().await, dialect).await;
    let session = queue.session().clone();
    let mut moves = 0;
    for state in JobState::queues(dialect).collect::<Vec<_>>() {
        for row in state.moves(dialect) {
            let chosen: Vec<Option<JobState>> = match row.to {
                To::Restart(states) => {
                    let here =
                        states.iter().filter(|to| JobState::queues(dialect).any(|state| state == **to));
                    std::iter::once(None).chain(here.copied().map(Some)).collect()
                }
                _ => vec![None],
            };
            for chosen in chosen {
                let (bid, jids) = batch_of(&queue, 1).await;
                bring(&queue, jids[0], state).await;
                if row.by == Who::Queue && row.why == Why::Hold {
                    queue.hold_collection("demo_content", "an operator", "moving disks").await.unwrap();
                }
                let before = snapshot(&session).await;
                make_move(&queue, jids[0], row, chosen).await;
                let after = snapshot(&session).await;
                check_job_move(&before, &after, (bid, jids[0]), row, chosen, dialect);
                clean(&session, dialect).await;
                queue.release_collection("demo_content").await.unwrap();
                moves += 1;
            }
        }
    }
    assert!(moves >= 30, "only {moves} moves were tried");
}

/// Makes the move of a row as whoever makes it does.
async fn make_move(queue: &Queue, jid: Jid, row: &Move<JobState>, chosen: Option<JobState>) {
    let action = match (row.by, row.why) {
        (Who::Queue | Who::Worker, Why::Success) => {
            let mut lease = acquire(queue, jid).await;
            queue.succeed(&mut lease, &Change::message("done")).await.unwrap();
            return;
        }
        (Who::Queue | Who::Worker, Why::Failure) => {
            let mut lease = acquire(queue, jid).await;
            let change = Change { hopeless: row.by == Who::Queue, ..Change::message("it broke") };
            queue.fail(&mut lease, &change).await.unwrap();
            return;
        }
        (Who::Queue, Why::Hold) => Action::HoldForCollection,
        (Who::Queue, Why::StartOver) => Action::StartOver,
        (Who::Admin, Why::Hold) => Action::Hold,
        (Who::Admin, Why::Release) => Action::Release,
        (Who::Admin, Why::Requeue) => Action::Requeue(chosen),
        (Who::Admin, Why::Delete) => Action::Delete,
        (Who::Timekeeper, Why::Failure) => Action::Poison,
        (Who::Timekeeper, Why::Delete) => Action::Expire,
        (Who::Janitor, Why::Clean) => Action::Clean,
        other => panic!("nobody knows how to make the move {other:?}"),
    };
    queue.act(jid, &action, "by a test", false).await.unwrap();
}

fn check_job_move(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    (bid, jid): (Bid, Jid),
    row: &Move<JobState>,
    chosen: Option<JobState>,
    dialect: Dialect,
) {
    let was: JobStatus = read(before, &JobNode::Status.of(jid));
    let from = was.status;
    let what = format!("{from} to {:?} by {} in {dialect:?}", row.to, row.by);
    let old_ref = QueueRef::new(from, priority(5), jid).path();
    let mut expected = Difference::default();
    let to = match row.to {
        To::State(to) => to,
        To::Restart(_) => chosen.unwrap_or_else(|| JobState::restart(was.last_successful_status, dialect)),
        To::Cleaned => {
            expected.went.push(old_ref);
            // The status is set to what it was: still completed.
            expected.set.push(JobNode::History.of(jid));
            assert_eq!(sorted(difference(before, after)), sorted(expected), "{what}");
            return;
        }
        To::Deleted => {
            let below = before.keys().filter(|at| ingest_store::path::is_within(at, &map::job(jid)));
            expected.went.extend(below.cloned());
            expected.went.extend([old_ref, map::batch_ref(bid, from.list(), jid)]);
            expected.came.push(map::batch_ref(bid, BatchList::Deleted, jid));
            assert_eq!(sorted(difference(before, after)), sorted(expected), "{what}");
            return;
        }
    };
    expected.went.push(old_ref);
    expected.came.push(QueueRef::new(to, priority(5), jid).path());
    expected.set.push(JobNode::Status.of(jid));
    if from.list() != to.list() {
        expected.went.push(map::batch_ref(bid, from.list(), jid));
        expected.came.push(map::batch_ref(bid, to.list(), jid));
    }
    if row.by == Who::Timekeeper {
        // Of what nobody survives the administrators hear.
        let of_job = map::alert(&format!("{jid}-"));
        let alerts: Vec<String> = after.keys().filter(|at| at.starts_with(&of_job)).cloned().collect();
        assert_eq!(alerts.len(), 1, "{what}");
        expected.came.extend(alerts);
    }
    let history = JobNode::History.of(jid);
    if before.contains_key(&history) {
        expected.set.push(history.clone());
    } else {
        expected.came.push(history.clone());
    }
    assert_eq!(sorted(difference(before, after)), sorted(expected), "{what}");

    let now: JobStatus = read(after, &JobNode::Status.of(jid));
    let acquired = matches!((row.by, row.why), (Who::Queue | Who::Worker, Why::Success | Why::Failure));
    assert_eq!(now.status, to, "{what}");
    assert_eq!(now.attempt, was.attempt + u32::from(acquired), "{what}");
    assert_eq!(now.retry_count, was.retry_count + u32::from(row.why == Why::Requeue), "{what}");
    assert_eq!(now.recoverable, (row.by, row.why) != (Who::Queue, Why::Failure), "{what}");
    assert_eq!(now.start_processing_date, None, "{what}");
    let last = match row.why {
        Why::Success if from.is_working() => Some(from),
        Why::Requeue | Why::StartOver => {
            let working = path_of_work(dialect);
            let before = working.iter().position(|state| *state == to).map(|at| working[at - 1]);
            was.last_successful_status.min(before.filter(|state| state.is_working()))
        }
        _ => was.last_successful_status,
    };
    assert_eq!(now.last_successful_status, last, "{what}");
    let entries: History = read(after, &history);
    let Some(Entry { from: said_from, to: said_to, node, commit, .. }) = entries.entries.last() else {
        panic!("{what}: no history");
    };
    assert_eq!((*said_from, *said_to, node.as_str()), (Some(from), to, "node-1"), "{what}");
    assert!(!commit.is_empty(), "{what}");
    let json = &after[&JobNode::Status.of(jid)];
    assert!(json.contains(&format!("\"status\":\"{}\"", to.json_name(dialect))), "{what}: {json}");
}

fn sorted(mut difference: Difference) -> Difference {
    difference.came.sort();
    difference.went.sort();
    difference.set.sort();
    difference
}

async fn an_acquire_and_a_release_touch_the_lock_and_the_status_only(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::Design).await;
    let (_, jids) = batch_of(&queue, 1).await;
    for state in path_of_work(Dialect::Design) {
        if !state.is_taken_from() {
            continue;
        }
        bring(&queue, jids[0], state).await;
        let before = snapshot(queue.session()).await;
        let mut lease = acquire(&queue, jids[0]).await;
        let held = snapshot(queue.session()).await;
        let expected = Difference {
            came: vec![JobNode::Lock.of(jids[0])],
            set: vec![JobNode::Status.of(jids[0])],
            ..Difference::default()
        };
        assert_eq!(difference(&before, &held), expected, "{state}");
        clean(queue.session(), Dialect::Design).await;
        let owner: ingest_queue::nodes::Owner = read(&held, &JobNode::Lock.of(jids[0]));
        assert_eq!((owner.node.as_str(), owner.attempt), ("node-1", lease.job().status.attempt));
        queue.give_back(&mut lease, None).await.unwrap();
        let after = snapshot(queue.session()).await;
        assert_eq!(
            difference(&before, &after),
            Difference { set: vec![JobNode::Status.of(jids[0])], ..Difference::default() },
            "{state}"
        );
        assert_eq!(status(&queue, jids[0]).await.start_processing_date, None);
        assert!(queue.locks().is_empty());
    }
}

async fn a_hand_over_keeps_the_lock_and_is_the_next_attempt(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::Design).await;
    let (bid, jids) = batch_of(&queue, 1).await;
    let jid = jids[0];
    let mut lease = acquire(&queue, jid).await;
    let states = path_of_work(Dialect::Design);
    for pair in states.windows(2) {
        let by = if pair[0] == JobState::Pending { Who::Queue } else { Who::Worker };
        if pair[1] == JobState::Completed {
            queue.advance(&mut lease, pair[1], by, &Change::default()).await.unwrap();
            break;
        }
        queue.hand_over(&mut lease, pair[1], by, &Change::default()).await.unwrap();
        assert!(queue.session().exists(JobNode::Lock.of(jid)).await.unwrap().is_some());
        let now = status(&queue, jid).await;
        assert_eq!((now.status, now.start_processing_date), (pair[1], Some(queue.now())));
        clean(queue.session(), Dialect::Design).await;
    }
    let after = snapshot(queue.session()).await;
    assert!(!after.contains_key(&JobNode::Lock.of(jid)));
    assert!(after.contains_key(&map::batch_ref(bid, BatchList::Completed, jid)));
    let history: History = read(&after, &JobNode::History.of(jid));
    let walked: Vec<JobState> = history.entries.iter().map(|entry| entry.to).collect();
    assert_eq!(walked, states[1..]);
    let attempts: Vec<u32> = history.entries.iter().map(|entry| entry.attempt).collect();
    assert_eq!(attempts, (1..=7).collect::<Vec<u32>>());
}

async fn every_move_of_a_batch_changes_what_the_map_says_and_nothing_else(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::Design).await;
    let session = queue.session().clone();
    let mut number = 0;
    for state in BatchState::ALL {
        for row in state.moves(Dialect::Design) {
            number += 1;
            let bid = bring_batch(&queue, *state, number).await;
            if row.by == Who::Queue && row.why == Why::Hold {
                queue.hold_collection("demo_content", "an operator", "moving disks").await.unwrap();
            }
            if let (Who::Worker, To::State(to)) = (row.by, row.to) {
                end_jobs_for(&queue, bid, to).await;
            }
            let before = snapshot(&session).await;
            make_batch_move(&queue, bid, row).await;
            let after = snapshot(&session).await;
            let what = format!("{state} to {:?} by {}", row.to, row.by);
            clean(&session, Dialect::Design).await;
            let change = difference(&before, &after);
            match row.to {
                To::State(to) => {
                    let now: BatchStatus = read(&after, &BatchNode::Status.of(bid));
                    assert_eq!(now.status, to, "{what}");
                    let ours = map::batch(bid);
                    let mut change = change;
                    if matches!(row.by, Who::Queue | Who::Timekeeper) && row.why == Why::Failure {
                        // The depositor is to be told: that is owed from this moment on.
                        assert_eq!(change.came, [map::outbox(bid, 1)], "{what}");
                        change.came.clear();
                    }
                    let all = change.came.iter().chain(&change.went).chain(&change.set);
                    assert!(
                        all.clone().all(|at| ingest_store::path::is_within(at, &ours)),
                        "{what}: {change:?}"
                    );
                    assert!(!after.contains_key(&BatchNode::Lock.of(bid)), "{what}");
                }
                To::Deleted => {
                    assert!(change.came.is_empty() && change.set.is_empty(), "{what}: {change:?}");
                    assert!(!after.keys().any(|at| at.contains(&bid.to_string())), "{what}");
                    assert!(!after.values().any(|data| data == &bid.to_string()), "{what}");
                }
                To::Restart(_) | To::Cleaned => panic!("no batch does that"),
            }
            queue.release_collection("demo_content").await.unwrap();
        }
    }
    assert!(number >= 14, "only {number} moves were tried");
}

/// A batch in a state; from processing on it has two jobs, one of them failed if the batch is to fail.
async fn bring_batch(queue: &Queue, state: BatchState, number: usize) -> Bid {
    let uuid = format!("batch-{number}");
    if matches!(state, BatchState::Pending | BatchState::Held) {
        let bid = queue.create_batch(&uuid, &submission()).await.unwrap().bid;
        if state == BatchState::Held {
            queue.act_on_batch(bid, BatchAction::Hold, "by a test", false).await.unwrap();
        }
        return bid;
    }
    let (bid, jids) = batch_of(queue, 2).await;
    let last = if matches!(state, BatchState::Failed | BatchState::UpdateReporting) {
        JobState::Failed
    } else {
        JobState::Completed
    };
    bring(queue, jids[0], JobState::Completed).await;
    bring(queue, jids[1], last).await;
    if state == BatchState::Processing {
        return bid;
    }
    let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
    queue.end_batch(&mut lease).await.unwrap();
    if state == BatchState::Reporting {
        queue.release_batch(&mut lease).await.unwrap();
        return bid;
    }
    report(queue, &mut lease).await;
    if state == BatchState::UpdateReporting {
        queue.act_on_batch(bid, BatchAction::UpdateReport, "by a test", false).await.unwrap();
    }
    assert_eq!(queue.batch(bid).await.unwrap().state(), state);
    bid
}

async fn report(queue: &Queue, lease: &mut ingest_queue::batches::BatchLease) -> BatchState {
    let mut draft = queue.draft_report(lease).await.unwrap();
    queue.report_sent(lease, &mut draft).await.unwrap();
    queue.finish_report(lease, &draft).await.unwrap()
}

async fn make_batch_move(queue: &Queue, bid: Bid, row: &Move<BatchState>) {
    match (row.by, row.why, row.to) {
        (Who::Queue, Why::Success, To::State(BatchState::Processing)) => {
            let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
            queue.begin_expansion(&mut lease, MANIFEST, 1).await.unwrap();
            queue.release_batch(&mut lease).await.unwrap();
        }
        (Who::Queue, Why::Success, _) => {
            let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
            assert_eq!(queue.end_batch(&mut lease).await.unwrap(), ingest_queue::batches::Ended::Yes);
            queue.release_batch(&mut lease).await.unwrap();
        }
        (Who::Queue, Why::Failure, _) => {
            let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
            queue.fail_batch(&mut lease, "the manifest is empty").await.unwrap();
        }
        (Who::Timekeeper, Why::Failure, _) => {
            let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
            queue.expire_batch(&mut lease, queue.now()).await.unwrap();
        }
        (Who::Queue, Why::Hold, _) => {
            queue.act_on_batch(bid, BatchAction::HoldForCollection, "held", false).await.unwrap();
        }
        (Who::Admin, Why::Hold, _) => {
            queue.act_on_batch(bid, BatchAction::Hold, "by a test", false).await.unwrap();
        }
        (Who::Admin, Why::Release, _) => {
            queue.act_on_batch(bid, BatchAction::Release, "by a test", false).await.unwrap();
        }
        (Who::Admin, Why::Requeue, _) => {
            queue.act_on_batch(bid, BatchAction::UpdateReport, "by a test", false).await.unwrap();
        }
        (Who::Worker, _, To::State(to)) => {
            let mut lease = queue.acquire_batch(bid, WHO).await.unwrap();
            assert_eq!(report(queue, &mut lease).await, to);
        }
        (Who::Admin, Why::Delete, _) => {
            queue.delete_batch(bid, "a test", "no need", false, |_| ()).await.unwrap();
        }
        (Who::Janitor, Why::Clean, _) => {
            let mut batch = queue.batch(bid).await.unwrap();
            if batch.state() == BatchState::Failed {
                // As if nothing but time had been wrong with it.
                batch.status.other.insert("expired".into(), true.into());
                let (at, data) = (BatchNode::Status.of(bid), batch.status.write(Dialect::Design));
                queue.session().set(at, data, None).await.unwrap();
            }
            queue.clean_batch(bid, |_| ()).await.unwrap();
        }
        other => panic!("nobody knows how to make the move {other:?}"),
    }
}

/// What the jobs became decides where a report leads: as if they had become so before it began.
async fn end_jobs_for(queue: &Queue, bid: Bid, to: BatchState) {
    let jobs = async |list| {
        let (names, _) = queue.session().children(map::batch_list(bid, list)).await.unwrap();
        names.into_iter().map(|name| name.parse::<Jid>().unwrap()).collect::<Vec<_>>()
    };
    let failed = jobs(BatchList::Failed).await;
    if to == BatchState::Completed {
        for jid in failed {
            rewrite(queue, bid, jid, JobState::Failed, JobState::Completed).await;
        }
    } else if failed.is_empty() {
        let completed = jobs(BatchList::Completed).await;
        rewrite(queue, bid, completed[0], JobState::Completed, JobState::Failed).await;
    }
}

async fn rewrite(queue: &Queue, bid: Bid, jid: Jid, from: JobState, to: JobState) {
    use ingest_store::Op;
    let mut status = status(queue, jid).await;
    status.status = to;
    queue
        .session()
        .multi(vec![
            Op::set(JobNode::Status.of(jid), status.write(Dialect::Design), None),
            Op::delete(QueueRef::new(from, priority(5), jid).path(), None),
            Op::create(QueueRef::new(to, priority(5), jid).path(), ""),
            Op::delete(map::batch_ref(bid, from.list(), jid), None),
            Op::create(map::batch_ref(bid, to.list(), jid), ""),
        ])
        .await
        .unwrap();
}

async fn every_move_of_an_access_item_changes_what_the_map_says_and_nothing_else(tree: &Tree) {
    let queue = queue_on(&tree.session().await, Dialect::Design).await;
    for size in AccessSize::ALL {
        for state in AccessState::ALL {
            for row in state.moves(Dialect::Design) {
                let token =
                    AccessToken { token: "token-1".into(), delivery_node: 7, ..AccessToken::default() };
                let aid = queue.create_access(size, &token).await.unwrap();
                if *state != AccessState::Pending {
                    let mut lease = queue.acquire_access(size, WHO).await.unwrap().unwrap();
                    assert_eq!(lease.item().aid, aid);
                    match state {
                        AccessState::Processing => queue.give_back_access(&mut lease).await.unwrap(),
                        end => queue.finish_access(&mut lease, *end, "").await.unwrap(),
                    }
                }
                let before = snapshot(queue.session()).await;
                match (row.by, row.why, row.to) {
                    (Who::Queue, ..) => {
                        let mut lease = queue.acquire_access(size, WHO).await.unwrap().unwrap();
                        queue.give_back_access(&mut lease).await.unwrap();
                    }
                    (Who::Worker, _, To::State(to)) => {
                        let mut lease = queue.acquire_access(size, WHO).await.unwrap().unwrap();
                        queue.finish_access(&mut lease, to, "").await.unwrap();
                    }
                    (Who::Admin, Why::Requeue, _) => queue.requeue_access(size, aid, "").await.unwrap(),
                    (Who::Admin, Why::Delete, _) => queue.delete_access(size, aid).await.unwrap(),
                    (Who::Janitor, ..) => queue.clean_access(size, aid).await.unwrap(),
                    other => panic!("nobody knows how to make the move {other:?}"),
                }
                let after = snapshot(queue.session()).await;
                clean(queue.session(), Dialect::Design).await;
                let change = difference(&before, &after);
                if let To::State(to) = row.to {
                    assert_eq!(queue.access_item(size, aid).await.unwrap().status.status, to);
                    let set = vec![size.status(aid)];
                    assert_eq!(change, Difference { set, ..Difference::default() });
                    // So that the next one is the first that waits.
                    if to == AccessState::Processing {
                        let mut lease = queue.acquire_access(size, WHO).await.unwrap().unwrap();
                        queue.finish_access(&mut lease, AccessState::Completed, "").await.unwrap();
                    }
                } else {
                    let mut went = vec![size.item(aid), size.status(aid), size.token(aid)];
                    went.sort();
                    assert_eq!(change, Difference { went, ..Difference::default() });
                }
            }
        }
    }
}
