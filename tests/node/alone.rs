//! A node on one machine, with nothing but itself.

use std::process::Command;

use ingest_harness::FileServer;

use crate::checks;
use crate::kit::{self, many};
use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_an_embedded_tree_that_was_killed_goes_on_where_it_was() {
    let (place, files) = (Place::embedded(), FileServer::start().await);
    let queue = place.queue().await;
    let bid = kit::submit(&queue, many(&files, "alone", 12)).await;
    queue.session().close().await.unwrap();
    drop(queue);
    files.hold();
    // The manifest, which is read first, and then some of the files.
    files.pass(1);
    let mut node = place.node("node-1").ready().await;
    files.until("downloads", |traffic| traffic.open == 8).await;
    node.replace().await;
    files.release();
    node.ready().await;
    node.says_with("reported", |line| line["batch"] == bid.to_string()).await;
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    place.nothing_left("work").await;
    let fsck = Command::new(env!("CARGO_BIN_EXE_ingestd"))
        .args(["fsck", "--embedded", place.tree_dir().to_str().unwrap()])
        .output()
        .unwrap();
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stdout));
    let queue = place.queue().await;
    checks::completed_once(&queue, bid, 12).await;
    checks::one_report_each(&place, &[bid]);
    checks::one_object_each(&place, (0..12).map(|n| format!("alone-{n}"))).await;
}
