//! The servers go away and come back.

use std::time::Duration;

use ingest_harness::{Ensemble, FileServer, Proxy, Server, ServerConfig, let_pass};
use ingest_queue::map;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;

use crate::checks;
use crate::kit::{self, many, seconds};
use crate::place::Place;

const LOST: &str = "the connection to the tree is lost: nothing is started or committed";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_restarted_under_a_node_and_the_work_goes_on() {
    let server = Server::start(ServerConfig::default()).await;
    let connect = format!("{}{}", server.connect_string(), ingest_harness::chroot());
    let (place, files) = (Place::at(connect, Duration::from_secs(20)), FileServer::start().await);
    let node = place.node("node-1").set("pools.downloading.size", 2).ready().await;
    let queue = place.queue().await;
    files.hold();
    files.pass(1);
    let bid = kit::submit(&queue, many(&files, "restarted", 20)).await;
    files.until("two downloads", |traffic| traffic.open == 2).await;
    server.restart().await;
    node.says(LOST).await;
    node.says("connected again").await;
    files.release();
    checks::completed_once(&queue, bid, 20).await;
    assert_eq!((node.count("connected"), node.count("restarted")), (1, 0), "{}", node.process.tail());
    assert_eq!(files.traffic().asked, 21, "no download was begun twice");
    checks::clean(&queue).await;
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_lost_and_the_quorum_is_lost_and_meanwhile_nothing_is_started() {
    let outage = seconds("INGESTD_OUTAGE_SECONDS", 3);
    let ensemble = Ensemble::start(3).await;
    let connect = format!("{}{}", ensemble.connect_string(), ingest_harness::chroot());
    let (place, files) = (Place::at(connect, Duration::from_secs(8)), FileServer::start().await);
    let mut nodes = Vec::new();
    for name in ["node-1", "node-2"] {
        nodes.push(place.node(name).set("pools.downloading.size", 2).ready().await);
    }
    let queue = place.queue().await;

    files.hold();
    files.pass(1);
    let first = kit::submit(&queue, many(&files, "leader", 20)).await;
    files.until("two downloads of each node", |traffic| traffic.open == 4).await;
    ensemble.kill_leader().await;
    ensemble.leader().await;
    files.release();
    checks::completed_once(&queue, first, 20).await;
    ensemble.heal().await;

    files.hold();
    files.pass(1);
    let second = kit::submit(&queue, many(&files, "quorum", 20)).await;
    files.until("two downloads of each node", |traffic| traffic.open == 4).await;
    let lost: Vec<usize> = nodes.iter().map(|node| node.count(LOST)).collect();
    ensemble.lose_quorum().await;
    for (node, before) in nodes.iter().zip(lost) {
        node.says_again(LOST, before).await;
    }
    // What was begun may come to its end; nobody begins anything.
    let before = files.traffic().asked;
    files.release();
    let_pass(outage).await;
    assert_eq!(files.traffic().asked, before, "nothing is started without a quorum");
    ensemble.heal().await;
    checks::completed_once(&queue, second, 20).await;
    checks::clean(&queue).await;
    checks::one_report_each(&place, &[first, second]);
    let local_ids = ["leader", "quorum"].iter().flat_map(|name| (0..20).map(move |n| format!("{name}-{n}")));
    checks::one_object_each(&place, local_ids).await;
    for node in &nodes {
        assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    }
    place.nothing_left("work").await;
}

/// Waits until a job is in this state.
async fn somebody_is(queue: &Queue, state: JobState) {
    let mut watch = queue.session().watch_tree(map::queue(state)).await.unwrap();
    while queue.session().children(map::queue(state)).await.unwrap().0.is_empty() {
        watch.next().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_jobs_that_ended_elsewhere_while_a_node_was_cut_off_go_when_it_is_back() {
    let server = Server::shared().await;
    let (proxy, chroot) = (Proxy::start(server.address()), ingest_harness::chroot());
    let place = Place::at(format!("{}{chroot}", server.connect_string()), Duration::from_secs(40));
    let files = FileServer::start().await;
    let disk = |name: &str| place.path("work").join(name).to_str().unwrap().to_owned();
    let first = place
        .node("first")
        .set("store.engine.zookeeper.connect", format!("{}{chroot}", proxy.connect_string()))
        .set("work.dir", disk("first"))
        .set("pools.recording.size", 0)
        .ready()
        .await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, many(&files, "apart", 1)).await;
    somebody_is(&queue, JobState::Recording).await;

    proxy.cut();
    first.says(LOST).await;
    let second = place.node("second").set("work.dir", disk("second")).ready().await;
    checks::completed_once(&queue, bid, 1).await;
    proxy.heal();
    first.says("connected again").await;
    place.nothing_left("work/first").await;
    for node in [first, second] {
        assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    }
    checks::clean(&queue).await;
}
