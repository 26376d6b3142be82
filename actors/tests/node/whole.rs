//! From a submission to its report.

use ingest_harness::FileServer;
use ingest_queue::states::{BatchList, BatchState};

use crate::kit::{self, On, Place};

async fn a_file_is_stored_and_reported(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let url = files.put("/letter.txt", "Dear reader,\n");
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&url, Some("file"))).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    assert_eq!(kit::jobs(&queue, bid, BatchList::Completed).await.len(), 1);
    assert_eq!(kit::mails(&place.outbox()).len(), 1);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::nothing_left(&place.work("node-1"));
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_stored_and_reported_embedded() {
    a_file_is_stored_and_reported(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_stored_and_reported_zookeeper() {
    a_file_is_stored_and_reported(On::Zookeeper).await;
}
