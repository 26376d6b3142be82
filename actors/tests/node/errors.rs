//! A worker that errs, and does not panic: what its step wants to be committed is refused for no reason that it knows.

use ingest_harness::FileServer;
use ingest_queue::states::{BatchList, BatchState, States as _};
use ingest_steps::manifest::Kind;

use crate::kit::{self, On, Place};
use crate::made;
use crate::trick::{Act, Trick};

/// An error in one state after the other, each of another job.
async fn errs_in_each_state(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let node = place.node_with("node-1", Some(trick.clone()), |_, _| {}).await;
    let queue = place.queue().await;
    for (number, state) in kit::STEPS.into_iter().enumerate() {
        trick.next(state, [Act::Err]);
        let begun = trick.seen(|seen| seen.begun(state));
        let rows = [made::file_row(&files, &format!("/o/{number}"), b"first", "first.txt")];
        let url = files.put(&format!("/{number}.checkm"), made::manifest(Kind::Object, &rows));
        let bid = kit::submit(&queue, kit::submission(&url, None)).await;
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed, "{state}");
        let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
        // Its lock was given away within the same session, so that it could be taken again: once.
        assert_eq!(trick.seen(|seen| seen.begun(state)), begun + 2, "{state}");
        assert_eq!(kit::timeouts(&queue, jid).await, 1, "{state}");
        let restarts = node.restarts(1_000).unwrap();
        assert_eq!(restarts.len(), number + 1, "one entry: {restarts:?}");
        let restart = &restarts[0];
        let name = Some(state.name());
        assert!(restart.actor.starts_with(&format!("{}-", state.name())), "{restart:?}");
        assert_eq!((restart.pool.as_deref(), restart.state.as_deref()), (name, name));
        assert_eq!(
            (restart.job.clone(), restart.batch.clone()),
            (Some(jid.to_string()), Some(bid.to_string()))
        );
        assert_eq!((restart.reason.as_str(), restart.location.as_deref()), ("error", None));
        assert!(restart.message.contains("/no-such-node"), "{restart:?}");
        assert_eq!((restart.count, restart.backoff_ms), (1, 0));
        kit::clean(&queue).await;
    }
    let snapshot = node.snapshot().await.unwrap();
    assert_eq!((snapshot.restarts, snapshot.sessions), (kit::STEPS.len() as u64, 1));
    kit::drained(node).await;
    kit::clean(&queue).await;
    kit::nothing_left(&place.work("node-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_errs_is_replaced_and_its_job_is_taken_again_embedded() {
    errs_in_each_state(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_errs_is_replaced_and_its_job_is_taken_again_zookeeper() {
    errs_in_each_state(On::Zookeeper).await;
}
