//! How a node ends: with everything done, hurried, at once, or because it cannot work. Each has its exit code, and a
//! last word on stderr.
//!
//! Invariants: whichever way a node ends, no lock of it is left, no job is lost or done twice, and the next node goes on
//! where it stopped. Only a job whose worker was not let to its end counts that.

use ingest_harness::FileServer;
use ingest_queue::ids::Bid;
use ingest_queue::queue::Queue;
use ingest_queue::states::BatchList;
use rustix::process::Signal;

use crate::checks;
use crate::kit::{self, ENDING, Node, Setup, many};
use crate::place::Place;

const JOBS: usize = 4;

/// A node whose downloads wait for the file server.
async fn busy(place: &Place, setup: Setup) -> (FileServer, Node, Queue, Bid) {
    let files = FileServer::start().await;
    let node = setup.ready().await;
    let queue = place.queue().await;
    files.hold();
    files.pass(1);
    let bid = kit::submit(&queue, many(&files, "ending", JOBS)).await;
    files.until("downloads", |traffic| traffic.open == JOBS as u64).await;
    (files, node, queue, bid)
}

/// Nothing is locked, no worker is counted as crashed, and another node has all that is left.
async fn another_goes_on(place: &Place, files: &FileServer, queue: &Queue, bid: Bid) {
    assert_eq!(checks::unlocked(queue, bid).await, JOBS);
    checks::clean(queue).await;
    for list in [BatchList::Processing, BatchList::Completed] {
        for jid in kit::jobs(queue, bid, list).await {
            assert_eq!(checks::timeouts(queue, jid).await, 0, "{jid}");
        }
    }
    files.release();
    let next = place.node("next").ready().await;
    checks::completed_once(queue, bid, JOBS).await;
    assert_eq!(next.drained().await, 0, "{}", next.process.tail());
    for jid in kit::jobs(queue, bid, BatchList::Completed).await {
        assert_eq!(checks::timeouts(queue, jid).await, 0, "{jid}");
    }
}

fn last_word(node: &Node) -> String {
    node.process.output().lines().last().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_lets_what_runs_come_to_its_end_and_takes_nothing_new() {
    let place = Place::shared().await;
    let (files, node, queue, bid) = busy(&place, place.node("node-1")).await;
    node.process.signal(Signal::TERM);
    let draining = node.says("draining: nothing new is taken").await;
    assert_eq!(draining["busy"], JOBS, "{draining}");
    files.release();
    assert_eq!(node.process.exited(ENDING).await, 0, "{}", node.process.tail());
    for jid in kit::jobs(&queue, bid, BatchList::Processing).await {
        let moves = checks::history(&queue, jid).await.entries.len();
        assert_eq!(moves, 4, "{jid} was downloaded, and no further");
    }
    another_goes_on(&place, &files, &queue, bid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_grace_is_over_what_runs_is_given_back_and_the_exit_code_is_6() {
    let place = Place::shared().await;
    let (files, node, queue, bid) = busy(&place, place.node("node-1").set("shutdown.grace", "500ms")).await;
    assert_eq!(node.drained().await, 6, "{}", node.process.tail());
    node.says("the grace is over: what runs is stopped, and given back").await;
    assert_eq!(
        last_word(&node),
        "ingestd: the grace was over before everything that ran had come to its end"
    );
    another_goes_on(&place, &files, &queue, bid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_signal_ends_a_node_at_once_with_exit_code_7() {
    let place = Place::shared().await;
    let (files, node, queue, bid) = busy(&place, place.node("node-1")).await;
    node.process.signal(Signal::TERM);
    node.says("draining: nothing new is taken").await;
    node.process.signal(Signal::INT);
    assert_eq!(node.process.exited(ENDING).await, 7, "{}", node.process.tail());
    assert_eq!(last_word(&node), "ingestd: it was told to end at once");
    files.release();
    let next = place.node("next").ready().await;
    checks::completed_once(&queue, bid, JOBS).await;
    checks::clean(&queue).await;
    assert_eq!(next.drained().await, 0, "{}", next.process.tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_is_exit_code_3_and_every_problem_is_told() {
    let place = Place::embedded();
    let node = place.node("node-1").set("pools.downloading.sise", 1).set("fetch.retrys", 2).start();
    assert_eq!(node.process.exited(ENDING).await, 3, "{}", node.process.tail());
    let said = node.process.output();
    for part in ["pools.downloading.sise", "did you mean `size`", "fetch.retrys", "did you mean `retries`"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    assert!(!place.tree_dir().exists(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_or_a_service_that_cannot_be_had_is_exit_code_4() {
    let place = Place::embedded();
    let queue = place.queue().await;
    let node = place.node("node-1").start();
    assert_eq!(node.process.exited(ENDING).await, 4, "{}", node.process.tail());
    let word = last_word(&node);
    assert!(word.starts_with("ingestd: it cannot work: ") && word.contains("the store is in use"), "{word}");
    drop(queue);
    let other = Place::embedded();
    std::fs::write(other.path("storage"), "no directory").unwrap();
    let node = other.node("node-1").start();
    assert_eq!(node.process.exited(ENDING).await, 4, "{}", node.process.tail());
    let word = last_word(&node);
    assert!(word.contains("a service cannot be opened: storage.default: "), "{word}");
}

#[tokio::test(flavor = "multi_thread")]
async fn something_that_dies_too_often_ends_the_node_with_exit_code_5_and_its_reason() {
    let place = Place::shared().await;
    // A download that makes no progress is ended, and nobody is patient.
    let setup = place.node("node-1").set("pools.downloading.stall", "1s").set("supervision.max_restarts", 0);
    let (files, node, queue, bid) = busy(&place, setup).await;
    assert_eq!(node.process.exited(ENDING).await, 5, "{}", node.process.tail());
    let word = last_word(&node);
    assert!(word.starts_with("ingestd: it gave up: pools died 1 times"), "{word}");
    assert!(word.contains("downloading-") && word.contains("no progress"), "{word}");
    assert_eq!(checks::unlocked(&queue, bid).await, JOBS);
    checks::clean(&queue).await;
    files.release();
    let next = place.node("next").ready().await;
    checks::completed_once(&queue, bid, JOBS).await;
    assert_eq!(next.drained().await, 0, "{}", next.process.tail());
}
