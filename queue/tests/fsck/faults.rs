//! A repair that is interrupted at any call.

use std::sync::Arc;

use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::{self, Options, Report};
use ingest_queue::map::{self, JobNode, QueueRef};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::{Limits, Session, Store};

use crate::planted::{PRIORITY, empty};
use crate::tree::within;

const DESIGN: Dialect = Dialect::Design;

/// A tree with a job that is half-moved and another whose status is lost.
async fn broken(session: &Session) {
    let mut planted = empty(session, DESIGN).await;
    let bid = planted.batch(BatchState::Processing, Some((2, 2))).await;
    let moved = planted.job(bid, JobState::Downloading).await;
    session.delete(QueueRef::new(JobState::Downloading, PRIORITY, moved).path(), None).await.unwrap();
    session.delete(map::batch_ref(bid, BatchList::Processing, moved), None).await.unwrap();
    let lost = planted.job(bid, JobState::Notify).await;
    session.set(JobNode::Status.of(lost), "?", None).await.unwrap();
}

async fn check(session: &Session) -> Report {
    fsck::check(session, &Options::new(DESIGN), &mut |_| ()).await.unwrap()
}

async fn repair(session: &Session, report: &Report) -> ingest_queue::error::Result<()> {
    fsck::repair(session, &Options::new(DESIGN), report, &mut |_| ()).await.map(drop)
}

/// A broken tree whose repair meets a fault at this call; how many calls there were, and whether the
/// repair came to its end.
async fn interrupted(fault: Option<(usize, Fault)>) -> (usize, bool) {
    let dir = tempfile::tempdir().unwrap();
    let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
    broken(&session).await;
    let report = check(&session).await;
    let faulty = Faulty::new(tree.clone());
    if let Some((number, fault)) = fault {
        faulty.break_call(number, fault);
    }
    let victim = Store::new(Arc::new(faulty.clone()), Limits::default()).session().await.unwrap();
    let ended = tokio::select! {
        biased;
        answer = repair(&victim, &report) => answer.is_ok(),
        // Killed: nobody waits for its answer any more.
        () = killed(&faulty, fault) => false,
    };
    assert!(fault.is_none() || faulty.has_happened(), "{fault:?} never came");
    let calls = faulty.calls();
    // Whatever happened, another repair ends it.
    let report = check(&session).await;
    within(repair(&session, &report)).await.unwrap();
    fsck::clean(&session, DESIGN).await.unwrap_or_else(|text| panic!("after {fault:?}: {text}"));
    session.close().await.unwrap();
    tree.close().await;
    (calls, ended)
}

async fn killed(faulty: &Faulty, fault: Option<(usize, Fault)>) {
    match fault {
        Some((_, Fault::KillAfter)) => faulty.happened().await,
        _ => std::future::pending().await,
    }
}

#[tokio::test]
async fn a_repair_that_is_interrupted_anywhere_is_whole_or_not_there_and_can_be_run_again() {
    let (calls, ended) = interrupted(None).await;
    assert!(ended && calls > 30, "{calls}");
    for number in 0..calls {
        for fault in [Fault::LoseRequest, Fault::LoseAnswer, Fault::KillAfter] {
            let (_, ended) = interrupted(Some((number, fault))).await;
            let survivable = fault != Fault::KillAfter;
            assert_eq!(ended, survivable, "call {number}, {fault:?}");
        }
    }
}
