//! Plans as they are made, without a tree: one multi at the fence, with what belongs to it and nothing else.

use ingest_queue::committer::Mark;
use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::Priority;
use ingest_queue::nodes::{Entry, History, JobStatus, Node, Other};
use ingest_queue::plan::job::{self, Action, Change, Job};
use ingest_queue::plan::{Lock, Scene};
use ingest_queue::states::{JobState, States, Who};
use ingest_store::Op;

use crate::tables::{DIALECTS, JOBS, allows};

const STATUS: &str = "/jobs/jid0000000007/status";
const LOCK: &str = "/jobs/jid0000000007/lock";
const HISTORY: &str = "/jobs/jid0000000007/history";
const LOCKS: [Lock; 5] = [Lock::Keep, Lock::Take, Lock::GiveBack, Lock::Within, Lock::TakeAway];
const EVERYBODY: [Who; 5] = [Who::Queue, Who::Worker, Who::Admin, Who::Timekeeper, Who::Janitor];

fn scene(dialect: Dialect) -> Scene {
    Scene {
        dialect,
        now: Date::from_millis(1_800_000_000_000),
        node: "here".into(),
        commit: "this one".into(),
    }
}

fn job(state: JobState) -> Job {
    let status = JobStatus::new(state, Date::from_millis(0));
    let (jid, bid) = (Jid::new(7), Bid::new(3));
    Job { jid, bid, priority: Priority::DEFAULT, status, version: 41, history: Some(History::default()) }
}

/// All moves of the table that lead to a state, however the lock is held.
fn each_move(mut look: impl FnMut(JobState, JobState, Lock, Dialect, Vec<Op>)) {
    for dialect in DIALECTS {
        for (from, to) in JobState::ALL.iter().flat_map(|from| JobState::ALL.iter().map(|to| (*from, *to))) {
            let by = EVERYBODY
                .into_iter()
                .find(|by| allows(JOBS, from.name(), &by.to_string(), to.name(), dialect));
            let Some(by) = by.filter(|_| to != JobState::Deleted) else { continue };
            for lock in LOCKS {
                let change = Change::message("why");
                let plan = job::advance(&job(from), to, by, &change, lock, &[], &scene(dialect)).unwrap();
                assert_eq!(plan.mark, Mark::holds(HISTORY, "this one"));
                assert_eq!((plan.after.state(), plan.after.version), (to, 42));
                look(from, to, lock, dialect, plan.ops);
            }
        }
    }
}

#[test]
fn a_move_is_one_multi_that_sets_the_status_once_and_at_the_fence() {
    each_move(|from, to, lock, dialect, ops| {
        let at_status: Vec<_> = ops.iter().filter(|op| op.path() == STATUS).collect();
        let [Op::Set { data, version: Some(41), .. }] = at_status[..] else { panic!("{at_status:?}") };
        let status = JobStatus::read(data).unwrap();
        assert_eq!(status.status, to, "from {from} with {lock:?} in {dialect:?}");
    });
}

#[test]
fn a_move_takes_the_job_from_one_queue_to_the_other_and_between_lists_only_if_they_differ() {
    each_move(|from, to, lock, dialect, ops| {
        let mut wanted = vec![
            format!("delete /jobs/states/{from}/05-jid0000000007"),
            format!("create /jobs/states/{to}/05-jid0000000007"),
        ];
        let list = |state| match state {
            JobState::Completed => "batch-completed",
            JobState::Failed => "batch-failed",
            _ => "batch-processing",
        };
        if list(from) != list(to) {
            wanted.push(format!("delete /batches/bid0000000003/states/{}/jid0000000007", list(from)));
            wanted.push(format!("create /batches/bid0000000003/states/{}/jid0000000007", list(to)));
        }
        let refs: Vec<String> = ops
            .iter()
            .filter(|op| op.path().contains("/states/"))
            .map(|op| match op {
                Op::Delete { path, version: None } => format!("delete {path}"),
                Op::Create { path, data, .. } if data.is_empty() => format!("create {path}"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(refs, wanted, "{from} to {to} with {lock:?} in {dialect:?}");
    });
}

#[test]
fn a_lock_is_taken_first_and_given_back_last() {
    each_move(|_, _, lock, _, ops| {
        let is_lock = |op: &Op| op.path() == LOCK;
        let places: Vec<usize> = (0..ops.len()).filter(|at| is_lock(&ops[*at])).collect();
        let last = ops.len() - 1;
        match lock {
            Lock::Keep => assert!(places.is_empty()),
            Lock::Take => {
                assert!(places == [0] && matches!(&ops[0], Op::Create { mode, .. } if mode.is_ephemeral()));
            }
            Lock::GiveBack => assert!(places == [last] && matches!(ops[last], Op::Delete { .. })),
            Lock::TakeAway => assert!(places == [0] && matches!(ops[0], Op::Delete { .. })),
            Lock::Within => {
                assert_eq!(places, [0, last]);
                assert!(matches!(&ops[0], Op::Create { mode, .. } if mode.is_ephemeral()), "{:?}", ops[0]);
            }
        }
    });
}

#[test]
fn a_history_keeps_the_last_transitions_and_the_beginning_of_long_messages() {
    let entry = |number: usize| Entry {
        at: Date::from_millis(0),
        from: Some(JobState::Pending),
        to: JobState::Held,
        node: String::new(),
        attempt: 0,
        commit: format!("c{number}"),
        message: "ä".repeat(5_000),
        other: Other::new(),
    };
    let history = (0..100).fold(History::default(), |history, number| history.and(entry(number)));
    assert_eq!(history.entries.len(), History::KEPT);
    assert!(history.has_commit("c99") && history.has_commit("c76") && !history.has_commit("c75"));
    assert!(history.entries.iter().all(|entry| entry.message.chars().count() == 300));
    assert!(history.entries.len() >= 20, "as many as the design promises");
}

#[test]
fn a_job_that_goes_back_forgets_what_lies_ahead() {
    for (last, to, wanted) in [
        (Some(JobState::Recording), JobState::Downloading, Some(JobState::Provisioning)),
        (Some(JobState::Recording), JobState::Estimating, None),
        (Some(JobState::Estimating), JobState::Notify, Some(JobState::Estimating)),
        (None, JobState::Downloading, None),
        (Some(JobState::Processing), JobState::Recording, Some(JobState::Processing)),
    ] {
        let mut failed = job(JobState::Failed);
        failed.status.last_successful_status = last;
        let action = Action::Requeue(Some(to));
        let plan = job::act(&failed, &action, "", Lock::Within, &[], &scene(Dialect::Design)).unwrap();
        assert_eq!(plan.after.status.last_successful_status, wanted, "after {last:?} to {to}");
        assert_eq!(plan.after.status.retry_count, 1);
    }
}

#[test]
fn a_hand_over_is_one_more_attempt() {
    let change = Change::default();
    for (lock, attempt) in [(Lock::Keep, 1), (Lock::GiveBack, 0)] {
        let from = job(JobState::Estimating);
        let to = JobState::Provisioning;
        let plan = job::advance(&from, to, Who::Worker, &change, lock, &[], &scene(Dialect::Design)).unwrap();
        let status = plan.after.status;
        assert_eq!((status.attempt, status.start_processing_date.is_some()), (attempt, lock == Lock::Keep));
    }
}
