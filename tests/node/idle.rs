//! What a node asks of the server: nothing while it is idle, and little for each job.

use std::time::Duration;

use ingest_harness::{FileServer, Proxy, RequestKind, Server, let_pass};

use crate::checks;
use crate::kit::{self, many, seconds};
use crate::place::Place;

const JOBS: usize = 1000;
/// Long enough that a machine which is busy with other things loses no connection.
const SESSION: Duration = Duration::from_secs(15);

/// Waits until a second has passed without anything but pings.
async fn quiet(proxy: &Proxy) {
    for _ in 0..30 {
        proxy.reset_counts();
        let_pass(Duration::from_secs(1)).await;
        if proxy.counts().keys().all(|kind| *kind == RequestKind::Ping) {
            return;
        }
    }
    panic!("it does not come to rest: {:?}", proxy.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_node_pings_and_a_busy_one_lists_nothing() {
    let proxy = Proxy::start(Server::shared().await.address());
    let chroot = ingest_harness::chroot();
    let place = Place::at(format!("{}{chroot}", proxy.connect_string()), SESSION);
    let beside = Place::at(format!("{}{chroot}", Server::shared().await.connect_string()), SESSION);
    let files = FileServer::start().await;
    let node = place.node("node-1").set("node.work", false).ready().await;
    let queue = beside.queue().await;

    quiet(&proxy).await;
    let lasts = seconds("INGESTD_IDLE_SECONDS", 10);
    proxy.reset_counts();
    let_pass(lasts).await;
    let idle = proxy.counts();
    println!("idle for {lasts:?}: {idle:?}");
    assert_eq!(idle.keys().collect::<Vec<_>>(), [&RequestKind::Ping]);

    let listings = || proxy.count(RequestKind::GetChildren) + proxy.count(RequestKind::GetChildren2);
    proxy.reset_counts();
    let bid = kit::submit(&queue, many(&files, "busy", JOBS)).await;
    checks::completed_once(&queue, bid, JOBS).await;
    let busy = proxy.counts();
    let requests: u64 = busy.iter().filter(|(kind, _)| **kind != RequestKind::Ping).map(|(_, n)| n).sum();
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let each = requests as f64 / JOBS as f64;
    println!("{JOBS} jobs: {requests} requests, {each:.2} for the life of a job: {busy:?}");
    // With the batch, its expansion and its report.
    assert_eq!(listings(), 0, "{busy:?}");
    quiet(&proxy).await;
    checks::clean(&queue).await;
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
}
