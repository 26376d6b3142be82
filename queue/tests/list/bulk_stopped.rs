use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ingest_queue::bulk::{self, Progress, Summary};
use ingest_queue::error::Result;
use ingest_queue::ids::Jid;
use ingest_queue::states::JobState;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::{Kind, Limits, Session, Store};
use tokio::sync::{Barrier, Notify};

use crate::bulk::requeue;
use crate::planted::{Job, alike, go, ground, history, plant, status};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    an_error_of_the_store_ends_a_run_that_says_how_far_it_came,
    what_is_under_way_when_the_store_fails_is_waited_for_and_counted,
    a_run_that_stopped_in_the_middle_goes_on_without_touching_a_job_twice,
    a_job_that_has_failed_again_is_not_touched_again_by_the_same_run,
);

fn silent(_: &Progress) {}

fn timed_out(count: u32) -> Vec<Job> {
    let mut jobs = alike(0..count, JobState::Failed);
    for job in &mut jobs {
        job.status.message = "timeout".into();
    }
    jobs
}

async fn apply(session: &Session, jid: Jid, commit: String) -> Result<()> {
    go(session, jid, JobState::Estimating, &commit).await
}

async fn run_through(session: &Session, id: &str) -> Summary {
    let apply = async |jid, commit| apply(session, jid, commit).await;
    within(bulk::run(session, &requeue(id), apply, silent)).await.unwrap()
}

/// How often each job was requeued by this run, and by anybody.
async fn requeued(session: &Session, id: &str, count: u32) -> Vec<(usize, u32)> {
    let mut times = Vec::new();
    for jid in (0..count).map(Jid::new) {
        let commit = requeue(id).commit_id(jid);
        let entries = history(session, jid).await.entries;
        let by_it = entries.iter().filter(|entry| entry.commit == commit).count();
        times.push((by_it, status(session, jid).await.0.retry_count));
    }
    times
}

/// A session whose runs do one job after the other.
async fn narrow(tree: &Tree) -> Session {
    tree.session_with(Limits { max_requests: 4, ..Limits::default() }).await
}

/// A run that meets a broken store once, after so many jobs.
async fn stop_after(session: &Session, jobs: usize, id: &str) -> bulk::Stopped {
    let begun = AtomicUsize::new(0);
    let apply = async |jid, commit| {
        if begun.fetch_add(1, Ordering::SeqCst) == jobs {
            session.get("/nowhere").await?;
        }
        apply(session, jid, commit).await
    };
    within(bulk::run(session, &requeue(id), apply, silent)).await.unwrap_err()
}

async fn an_error_of_the_store_ends_a_run_that_says_how_far_it_came(tree: &Tree) {
    let session = narrow(tree).await;
    ground(&session).await;
    plant(&session, &timed_out(9)).await;
    let stopped = stop_after(&session, 4, "b7").await;
    assert_eq!(stopped.error.kind(), Some(Kind::NoNode));
    assert_eq!((stopped.summary.progress.total, stopped.summary.progress.done), (9, 4));
    let words = stopped.to_string();
    for part in ["bulk run b7", "after 4 of 9 jobs", "/nowhere: no such node", "again with the same id"] {
        assert!(words.contains(part), "{words}");
    }
}

async fn what_is_under_way_when_the_store_fails_is_waited_for_and_counted(tree: &Tree) {
    let session = tree.session_with(Limits { max_requests: 32, ..Limits::default() }).await;
    ground(&session).await;
    plant(&session, &timed_out(5)).await;
    let (begun, both, failed) = (AtomicUsize::new(0), Barrier::new(2), Notify::new());
    let apply = async |jid, commit| {
        begun.fetch_add(1, Ordering::SeqCst);
        both.wait().await;
        if jid == Jid::new(0) {
            let refused = session.get("/nowhere").await;
            failed.notify_one();
            refused?;
        } else {
            // A job that ends before the first one has failed would make room for a third, however fast the store is.
            failed.notified().await;
        }
        apply(&session, jid, commit).await
    };
    let stopped = within(bulk::run(&session, &requeue("b"), apply, silent)).await.unwrap_err();
    assert_eq!((stopped.summary.progress.done, begun.into_inner()), (1, 2));
    assert!(history(&session, Jid::new(1)).await.has_commit("bulk-b-jid0000000001"));
}

async fn a_run_that_stopped_in_the_middle_goes_on_without_touching_a_job_twice(tree: &Tree) {
    let session = narrow(tree).await;
    ground(&session).await;
    plant(&session, &timed_out(10)).await;
    stop_after(&session, 4, "b").await;
    let summary = run_through(&session, "b").await;
    assert_eq!((summary.progress.total, summary.progress.done), (6, 6));
    assert_eq!(requeued(&session, "b", 10).await, [(1, 1); 10]);
}

async fn a_job_that_has_failed_again_is_not_touched_again_by_the_same_run(tree: &Tree) {
    let session = narrow(tree).await;
    ground(&session).await;
    plant(&session, &timed_out(5)).await;
    stop_after(&session, 3, "b").await;
    assert_eq!(fail_again(&session, 5).await, 3);
    let summary = run_through(&session, "b").await;
    assert_eq!((summary.progress.total, summary.progress.skipped, summary.progress.done), (5, 3, 2));
    assert_eq!(requeued(&session, "b", 5).await, [(1, 1); 5]);
    // Another run is another intention.
    let summary = run_through(&session, "c").await;
    assert_eq!((summary.progress.total, summary.progress.done), (3, 3));
}

/// Makes those fail again that have left the failed ones; says how many.
async fn fail_again(session: &Session, count: u32) -> usize {
    let mut again = 0;
    for jid in (0..count).map(Jid::new) {
        if status(session, jid).await.0.status == JobState::Estimating {
            go(session, jid, JobState::Failed, "worker").await.unwrap();
            again += 1;
        }
    }
    again
}

/// Interrupts a run at one of its calls, lets its jobs fail again, and runs it again. Says whether there
/// was such a call.
async fn interrupt(faulty: &Faulty, session: &Session, call: usize, fault: Fault) -> (bool, Session) {
    let (case, run) = (format!("{fault:?} at call {call}"), requeue(&format!("b{call}")));
    faulty.break_call(call, fault);
    let outcome = tokio::select! {
        biased;
        outcome = bulk::run(session, &run, async |jid, commit| apply(session, jid, commit).await, silent) => {
            Some(outcome)
        }
        () = faulty.happened(), if matches!(fault, Fault::KillBefore | Fault::KillAfter) => None,
    };
    let happened = faulty.calls() > call;
    if happened {
        // The call was made. Its fault may still be on its way, if another call of the run ended it.
        within(faulty.happened()).await;
    }
    // A fault that the run did not meet must not meet what follows.
    faulty.break_call(usize::MAX, fault);
    let ended_well = outcome.is_some_and(|outcome| outcome.is_ok());
    // A read that was lost is asked again, so that the run may survive it.
    let survivable = matches!(fault, Fault::LoseRequest | Fault::LoseAnswer);
    assert!(if happened { survivable || !ended_well } else { ended_well }, "{case}");
    let session = session.rebuild().await.unwrap();
    let before = fail_again(&session, JOBS).await;
    let summary = run_through(&session, run.id()).await;
    assert_eq!((summary.progress.skipped, summary.progress.refused), (before, 0), "{case}");
    let times = requeued(&session, run.id(), JOBS).await;
    assert!(times.iter().all(|(by_it, _)| *by_it == 1), "{case}: {times:?}");
    fail_again(&session, JOBS).await;
    (happened, session)
}

const JOBS: u32 = 3;

#[tokio::test]
async fn a_run_that_is_interrupted_anywhere_touches_each_job_once_when_it_is_run_again() {
    for fault in Fault::ALL {
        let dir = tempfile::tempdir().unwrap();
        let faulty = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
        let mut session = Store::new(Arc::new(faulty.clone()), Limits::default()).session().await.unwrap();
        ground(&session).await;
        plant(&session, &timed_out(JOBS)).await;
        let mut calls = 0;
        loop {
            let (happened, next) = interrupt(&faulty, &session, calls, fault).await;
            session = next;
            if !happened {
                break;
            }
            calls += 1;
        }
        assert!(calls > 15, "only {calls} calls were interrupted by {fault:?}");
    }
}
