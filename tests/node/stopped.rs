//! A node that is frozen until its session is over, and then goes on.
//!
//! Invariants: what it held is done by others meanwhile, each job once; and when it wakes up, nothing that it still has in
//! hand is committed.

use std::time::Duration;

use ingest_harness::{Direction, FileServer, Proxy, RequestKind, Server};
use ingest_queue::states::{BatchList, JobState};

use crate::checks;
use crate::kit::{self, many};
use crate::place::Place;

const JOBS: usize = 4;
/// So long that no node loses its session because the machine is busy. The test ends the session of the frozen node.
const SESSION: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_wakes_up_after_its_session_commits_nothing_and_begins_anew() {
    let server = Server::shared().await;
    let (proxy, chroot) = (Proxy::start(server.address()), ingest_harness::chroot());
    let place = Place::at(format!("{}{chroot}", server.connect_string()), SESSION);
    let files = FileServer::start().await;
    let connect = format!("{}{chroot}", proxy.connect_string());
    let frozen = place.node("frozen").set("store.engine.zookeeper.connect", connect).ready().await;
    let queue = place.queue().await;
    files.hold();
    files.pass(1);
    let bid = kit::submit(&queue, many(&files, "early", JOBS)).await;
    let before = files.until("downloads of the first node", |traffic| traffic.open == JOBS as u64).await;
    frozen.process.pause().await;
    proxy.expire_latest_session().await;

    // Its successor gets every job when the server has ended its session.
    let other = place.node("other").ready().await;
    files.until("downloads of the other", |now| now.asked == before.asked + JOBS as u64).await;
    files.release();
    checks::completed_once(&queue, bid, JOBS).await;
    // By now there are answers for it, and nothing that it may do with them.
    assert_eq!(frozen.count("connected"), 1);
    frozen.process.resume();
    let over = frozen.says("the session is over: everything is built anew").await;
    assert_eq!(over["locks"], JOBS, "{over}");
    frozen.says_with("connected", |line| line["number"] == 2).await;
    frozen.says_with("restarted", |line| line["reason"] == "expired" && line["actor"] == "session").await;
    checks::completed_once(&queue, bid, JOBS).await;
    for jid in kit::jobs(&queue, bid, BatchList::Completed).await {
        let history = checks::history(&queue, jid).await;
        let late = |entry: &&ingest_queue::nodes::Entry| entry.from == Some(JobState::Downloading);
        let nodes: Vec<_> = history.entries.iter().filter(late).map(|entry| entry.node.as_str()).collect();
        assert_eq!(nodes, ["other"], "{jid}: {history:?}");
        assert_eq!(checks::timeouts(&queue, jid).await, 1, "a worker of {jid} has not ended properly, once");
    }
    assert_eq!(frozen.count("completed"), 0);

    // It works again, alone.
    assert_eq!(other.drained().await, 0, "{}", other.process.tail());
    let second = kit::submit(&queue, many(&files, "late", JOBS)).await;
    checks::completed_once(&queue, second, JOBS).await;
    assert_eq!(frozen.count("completed"), JOBS);
    checks::clean(&queue).await;
    checks::one_report_each(&place, &[bid, second]);
    let local_ids = ["early", "late"].iter().flat_map(|name| (0..JOBS).map(move |n| format!("{name}-{n}")));
    checks::one_object_each(&place, local_ids).await;
    place.nothing_left("work").await;
    assert_eq!(frozen.drained().await, 0, "{}", frozen.process.tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_on_its_way_when_a_node_was_frozen_is_refused() {
    let server = Server::shared().await;
    let (proxy, chroot) = (Proxy::start(server.address()), ingest_harness::chroot());
    let place = Place::at(format!("{}{chroot}", server.connect_string()), SESSION);
    let files = FileServer::start().await;
    let connect = format!("{}{chroot}", proxy.connect_string());
    let frozen = place.node("frozen").set("store.engine.zookeeper.connect", connect).ready().await;
    let queue = place.queue().await;
    files.hold();
    files.pass(1);
    let bid = kit::submit(&queue, many(&files, "early", JOBS)).await;
    files.until("downloads of the first node", |traffic| traffic.open == JOBS as u64).await;

    // One of them is done; its commit has left the node, and does not come to the server.
    proxy.stall(Direction::ToServer);
    proxy.reset_counts();
    files.pass(1);
    proxy.wait_for(RequestKind::Multi, 1).await;
    frozen.process.pause().await;
    proxy.expire_latest_session().await;
    let other = place.node("other").ready().await;
    files.release();
    checks::completed_once(&queue, bid, JOBS).await;

    proxy.heal();
    frozen.process.resume();
    let refused = frozen.says("a commit came too late, and was refused: the session is over").await;
    let late = kit::jobs(&queue, bid, BatchList::Completed).await;
    let path = refused["path"].as_str().unwrap();
    assert!(late.iter().any(|jid| path.contains(&jid.to_string())), "{refused}");
    frozen.says_with("connected", |line| line["number"] == 2).await;
    for jid in late {
        let history = checks::history(&queue, jid).await;
        let of_other = |entry: &&ingest_queue::nodes::Entry| entry.from == Some(JobState::Downloading);
        let nodes: Vec<_> = history.entries.iter().filter(of_other).map(|one| one.node.as_str()).collect();
        assert_eq!(nodes, ["other"], "{jid}: {history:?}");
    }
    checks::completed_once(&queue, bid, JOBS).await;
    checks::clean(&queue).await;
    for node in [frozen, other] {
        assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    }
    checks::clean(&queue).await;
}
