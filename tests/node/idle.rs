//! What a node asks of the server: nothing while it is idle, and little for each job.

use std::time::Duration;

use ingest_harness::clock::PATIENCE;
use ingest_harness::{FileServer, Proxy, RequestKind, Server, eventually, let_pass};
use ingest_queue::map;

use crate::checks;
use crate::kit::{self, many, seconds};
use crate::place::{PROFILE, Place};

const JOBS: usize = 1000;
/// Long enough that a machine which is busy with other things loses no connection.
const SESSION: Duration = Duration::from_secs(15);

/// Waits until a second has passed without anything but pings.
async fn quiet(proxy: &Proxy) {
    eventually("a second with nothing but pings", 2 * PATIENCE, || async {
        proxy.reset_counts();
        let_pass(Duration::from_secs(1)).await;
        proxy.counts().keys().all(|kind| *kind == RequestKind::Ping).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_node_pings_and_a_busy_one_lists_nothing() {
    let proxy = Proxy::start(Server::shared().await.address());
    let chroot = ingest_harness::chroot();
    let place = Place::at(format!("{}{chroot}", proxy.connect_string()), SESSION);
    let beside = Place::at(format!("{}{chroot}", Server::shared().await.connect_string()), SESSION);
    let files = FileServer::start().await;
    let drops = tempfile::tempdir().unwrap();
    let node = place
        .node("node-1")
        .set("node.work", false)
        .set("feeds.drops.kind", "drop_box")
        .set("feeds.drops.path", drops.path().to_str().unwrap())
        .set("feeds.drops.profile", PROFILE)
        .set("feeds.drops.submitter", "scanner")
        .ready()
        .await;
    let queue = beside.queue().await;
    eventually("a feed that is consumed", PATIENCE, || async {
        queue.list_feeds().await.unwrap().first().is_some_and(|feed| feed.owner.is_some()).then_some(())
    })
    .await;

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

/// What all threads of a process have used of the processors.
fn used(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        text.split(' ')
            .next()
            .and_then(|nanos| nanos.parse().ok())
            .map_or(Duration::ZERO, Duration::from_nanos)
    };
    threads.map(|thread| of(thread.unwrap())).sum()
}

/// What a process uses while time passes, and what it asks meanwhile.
async fn while_it_waits(pid: u32, proxy: &Proxy, lasts: Duration) -> Duration {
    quiet(proxy).await;
    proxy.reset_counts();
    let before = used(pid);
    let_pass(lasts).await;
    let after = used(pid);
    assert_eq!(proxy.counts().keys().find(|kind| **kind != RequestKind::Ping), None, "{:?}", proxy.counts());
    after.saturating_sub(before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_scheduled_jobs_does_no_more_between_their_dates_than_an_idle_one() {
    const SCHEDULED: usize = 200;
    let proxy = Proxy::start(Server::shared().await.address());
    let chroot = ingest_harness::chroot();
    let place = Place::at(format!("{}{chroot}", proxy.connect_string()), SESSION);
    let beside = Place::at(format!("{}{chroot}", Server::shared().await.connect_string()), SESSION);
    let files = FileServer::start().await;
    let node = place.node("node-1").ready().await;
    let (queue, pid) = (beside.queue().await, node.process.pid().unwrap());
    let lasts = Duration::from_secs(5);
    let idle = while_it_waits(pid, &proxy, lasts).await;

    let mut later = many(&files, "later", SCHEDULED);
    let date = queue.now().after(Duration::from_hours(1));
    later.other.insert("process_date".into(), date.to_string().into());
    kit::submit(&queue, later).await;
    eventually("all dates", PATIENCE, || async {
        (queue.session().children(map::JOURNAL_DATES).await.unwrap().0.len() == SCHEDULED).then_some(())
    })
    .await;
    let waiting = while_it_waits(pid, &proxy, lasts).await;
    println!(
        "of {lasts:?}: {idle:?} of a processor while idle, {waiting:?} with {SCHEDULED} jobs that wait for their dates"
    );
    // Near to nothing: a fiftieth of the time is what the machine's own noise can be.
    assert!(waiting <= idle * 2 + lasts / 50, "{waiting:?}, and {idle:?} when idle");
    checks::clean(&queue).await;
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
}
