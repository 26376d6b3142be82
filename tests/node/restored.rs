//! A tree that was restored from a backup, or begun anew, beside a storage, an inventory and an outbox that were not.
//!
//! Invariants: no number of a batch and no name of an object is given out twice, and every report is written.

use ingest_harness::FileServer;
use ingest_queue::ids::Bid;

use crate::checks;
use crate::kit::{self, many};
use crate::place::Place;

const JOBS: usize = 3;

/// Submits a batch while no node runs, and lets a node work until it is reported.
async fn ingest(place: &Place, files: &FileServer, name: &str) -> Bid {
    let queue = place.queue().await;
    let bid = kit::submit(&queue, many(files, name, JOBS)).await;
    queue.session().close().await.unwrap();
    drop(queue);
    let node = place.node("node-1").ready().await;
    node.says_with("reported", |line| line["batch"] == bid.to_string()).await;
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    bid
}

/// Starts a node on a tree that is behind, and drains it.
async fn visit(place: &Place) {
    let node = place.node("node-1").ready().await;
    let message =
        "the tree is older than the inventory, or another tree; its counter was moved past the used numbers";
    let line = node.says_with(message, |line| line["counter"] == "batches").await;
    assert!(line["tree"].as_u64() < line["inventory"].as_u64(), "{line}");
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restored_backup_and_an_empty_tree_no_name_is_used_twice_and_every_report_is_written() {
    let (place, files) = (Place::embedded(), FileServer::start().await);
    let first = ingest(&place, &files, "first").await;
    let (tree, backup) = (place.tree_dir().join("tree.redb"), place.path("backup.redb"));
    std::fs::copy(&tree, &backup).unwrap();
    let second = ingest(&place, &files, "second").await;

    std::fs::copy(&backup, &tree).unwrap();
    visit(&place).await;
    let third = ingest(&place, &files, "third").await;

    std::fs::remove_file(&tree).unwrap();
    visit(&place).await;
    let fourth = ingest(&place, &files, "fourth").await;

    assert!(first < second && second < third && third < fourth, "{first} {second} {third} {fourth}");
    let queue = place.queue().await;
    checks::completed_once(&queue, fourth, JOBS).await;
    checks::clean(&queue).await;
    checks::one_report_each(&place, &[first, second, third, fourth]);
    let names = ["first", "second", "third", "fourth"];
    let local_ids = names.iter().flat_map(|name| (0..JOBS).map(move |n| format!("{name}-{n}")));
    checks::one_object_each(&place, local_ids).await;
}
