//! `ingestd states` and `ingestd fsck`, as an operator runs them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use ingest_queue::date::Clock;
use ingest_queue::map::{JobNode, QueueRef};
use ingest_queue::nodes::Submission;
use ingest_queue::plan::job::NewJob;
use ingest_queue::queue::{Queue, Settings};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Limits, Store};
use serde_json::Value;

fn ingestd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ingestd")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A tree with a batch of three jobs, of which one was left half moved and one has a damaged status.
async fn damaged(dir: &Path) {
    let tree = Embedded::open(&EmbeddedConfig::new(dir)).unwrap();
    let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
    let queue = Queue::open(&session, Settings::new("node"), Clock::system()).await.unwrap();
    let bid = queue.create_batch("uuid-1", &Submission::default()).await.unwrap().bid;
    let mut lease = queue.acquire_batch(bid, "test").await.unwrap();
    queue.begin_expansion(&mut lease, b"manifest", 3).await.unwrap();
    queue.expand(&mut lease, 0, &vec![NewJob::default(); 3]).await.unwrap();
    queue.release_batch(&mut lease).await.unwrap();
    let jids = [1, 2].map(ingest_queue::ids::Jid::new);
    let entry = queue.job(jids[0]).await.unwrap().entry();
    session.delete(QueueRef::path(entry), None).await.unwrap();
    session.set(JobNode::Status.of(jids[1]), "}garbage", None).await.unwrap();
    session.close().await.unwrap();
    tree.close().await;
}

#[test]
fn the_tables_are_printed_in_every_form() {
    let output = ingestd(&["states", "batches", "--format", "markdown"]);
    assert!(output.status.success());
    assert!(text(&output).contains("| processing | reporting | queue |"), "{}", text(&output));
    let json: Value = serde_json::from_slice(&ingestd(&["states", "--format", "json"]).stdout).unwrap();
    assert!(json["jobs"].as_array().unwrap().len() > 20 && json["access"].as_array().unwrap().len() > 4);
    let diagram = text(&ingestd(&["states", "jobs", "--format", "diagram", "--dialect", "mrt-zk"]));
    assert!(
        diagram.contains("stateDiagram-v2") && diagram.contains("processing --> storing: worker"),
        "{diagram}"
    );
}

#[tokio::test]
async fn a_damaged_tree_is_told_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    damaged(dir.path()).await;
    let at = dir.path().to_str().unwrap();
    let found = ingestd(&["fsck", "--embedded", at]);
    assert_eq!(found.status.code(), Some(1), "{}", text(&found));
    for part in ["jid0000000001", "J05", "jid0000000002", "J01", "--repair puts right what is safe"] {
        assert!(text(&found).contains(part), "{part} is not in\n{}", text(&found));
    }
    let json: Value = serde_json::from_slice(&ingestd(&["fsck", "--embedded", at, "--json"]).stdout).unwrap();
    assert!(json["report"]["findings"].as_array().unwrap().len() >= 2, "{json}");
    let repaired = ingestd(&["fsck", "--embedded", at, "--repair"]);
    assert!(repaired.status.success(), "{}", text(&repaired));
    let again = ingestd(&["fsck", "--embedded", at]);
    assert!(again.status.success(), "{}", text(&again));
    assert!(text(&again).contains("3 jobs, 1 batches"), "{}", text(&again));
}

#[test]
fn a_tree_that_is_not_there_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nowhere");
    let output = ingestd(&["fsck", "--embedded", missing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("is not a directory"), "{}", text(&output));
    assert!(!missing.exists());
}
