//! The session of a node expires or is suspended in the middle of work.
//!
//! Invariants: while the tree is away nothing is begun and nothing committed; after it every job is done, each state of it
//! committed once, and nothing is stored or told twice.

use std::collections::BTreeSet;

use ingest_harness::FileServer;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::SessionState;

use crate::kit::{self, Place};
use crate::trick::Trick;

#[tokio::test(flavor = "multi_thread")]
async fn after_its_session_has_expired_a_node_comes_back_and_loses_and_doubles_nothing() {
    const JOBS: usize = 6;
    let (place, proxy) = Place::behind_a_proxy().await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let states = [JobState::Downloading, JobState::Processing];
    for state in &states {
        trick.close(*state);
    }
    let node = place.node_with("node-1", Some(trick.clone()), |_, _| {}).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, JOBS), None)).await;
    trick.until("all downloads", |seen| seen.running(JobState::Downloading) == JOBS).await;
    trick.let_through(JobState::Downloading, 3);
    trick.until("some further on", |seen| seen.running(JobState::Processing) == 3).await;
    proxy.expire_latest_session().await;
    // All of them again, after everything of before has ended.
    trick.until("all again", |seen| seen.begun(JobState::Processing) == 6).await;
    trick.until("all again", |seen| seen.begun(JobState::Downloading) == JOBS + 3).await;
    assert_eq!(trick.seen(|seen| seen.running(JobState::Downloading)), 3);
    assert_eq!(trick.seen(|seen| seen.running(JobState::Processing)), 3);
    for state in &states {
        trick.open(*state);
    }
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let done = kit::jobs(&queue, bid, BatchList::Completed).await;
    assert_eq!(done.len(), JOBS);
    let mut arks = BTreeSet::new();
    for jid in done {
        arks.insert(kit::ark_of(&queue, jid).await);
        assert_eq!(kit::timeouts(&queue, jid).await, 1, "{jid}");
        // Each state was committed once.
        let history = queue.history(jid).await.unwrap().unwrap();
        let to: Vec<_> = history.entries.iter().map(|one| one.to).collect();
        let each: BTreeSet<_> = to.iter().collect();
        assert_eq!(each.len(), to.len(), "{jid}: {to:?}");
    }
    assert_eq!(arks.len(), JOBS);
    let storage = node.life().await.unwrap().services().storages["default"].clone();
    let stored: Vec<_> = futures::StreamExt::collect::<Vec<_>>(storage.objects()).await;
    assert_eq!(stored.len(), JOBS);
    assert_eq!(kit::mails(&place.outbox()).len(), 1);
    kit::registered(&queue, &["node-1"]).await;
    let restart = kit::restarted(&node, "session").await;
    assert_eq!((restart.reason.as_str(), restart.backoff_ms), ("expired", 0));
    assert_eq!(node.snapshot().await.unwrap().sessions, 2);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
    kit::nothing_left(&place.work("node-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_begins_while_the_tree_comes_and_goes_waits_for_it() {
    let (place, proxy) = Place::behind_a_proxy().await;
    proxy.cut();
    let node = async {
        let node = place.node("node-1").await;
        assert_eq!(node.restarts(9).unwrap(), []);
        node
    };
    let come_and_go = async {
        ingest_harness::let_pass(std::time::Duration::from_millis(300)).await;
        proxy.heal();
        // In the middle of what it makes first.
        proxy.drop_request(ingest_harness::Matcher::any().skip(3)).happened().await;
    };
    let (node, ()) = tokio::join!(node, come_and_go);
    kit::drained(node).await;
    kit::clean(&place.queue().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_tree_is_away_nothing_begins_downloads_go_on_and_others_are_told_to_stop() {
    let (place, proxy) = Place::behind_a_proxy().await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let states = [JobState::Downloading, JobState::Processing];
    for state in &states {
        trick.close(*state);
    }
    let node = place.node_with("node-1", Some(trick.clone()), |_, _| {}).await;
    let queue = place.queue().await;
    let first = kit::submit(&queue, kit::submission(&kit::single_files(&files, 2), None)).await;
    trick.until("two downloads", |seen| seen.running(JobState::Downloading) == 2).await;
    trick.let_through(JobState::Downloading, 1);
    trick.until("one further on", |seen| seen.running(JobState::Processing) == 1).await;
    proxy.cut();
    ingest_harness::eventually("suspended", kit::PATIENCE, || async {
        (node.house().link() == SessionState::Suspended).then_some(())
    })
    .await;
    assert!(!node.is_ready());
    let begun = trick.seen(|seen| seen.begun.len());
    let second = kit::submit(&queue, kit::submission(&files.put("/b.txt", "b"), Some("file"))).await;
    // Half a session timeout later.
    trick.until("the others to stop", |seen| seen.running(JobState::Processing) == 0).await;
    assert_eq!(trick.seen(|seen| seen.running(JobState::Downloading)), 1);
    assert_eq!(trick.seen(|seen| seen.begun.len()), begun);
    proxy.heal();
    for state in &states {
        trick.open(*state);
    }
    for bid in [first, second] {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
        for jid in kit::jobs(&queue, bid, BatchList::Completed).await {
            assert_eq!(kit::timeouts(&queue, jid).await, 0, "{jid}");
        }
    }
    assert_eq!(node.snapshot().await.unwrap().sessions, 1);
    assert_eq!(node.restarts(9).unwrap(), []);
    assert_eq!(kit::mails(&place.outbox()).len(), 2);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}
