//! A node is killed, and another takes its jobs over by the event that its session is over.
//!
//! Nothing here is measured. Everything else that could bring a worker to a job without a lock is set so far away
//! (`queue.rank_delay`, `upkeep.every`) that only the event can do it while the test waits.

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_harness::clock::PATIENCE;
use ingest_harness::{FileServer, Proxy, Server};
use ingest_queue::map::JobNode;
use ingest_queue::states::BatchList;
use ingest_store::Event;

use crate::checks;
use crate::kit::{self, many};
use crate::place::Place;

const JOBS: usize = 4;
/// So long that no node loses its session because the machine is busy. The session of the killed node is ended by the test.
const SESSION: Duration = Duration::from_secs(40);
/// Longer than any test waits.
const FAR: &str = "12h";

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_node_that_was_killed_run_elsewhere_as_soon_as_its_session_is_over() {
    let server = Server::shared().await;
    let (proxy, chroot) = (Proxy::start(server.address()), ingest_harness::chroot());
    let place = Place::at(format!("{}{chroot}", server.connect_string()), SESSION);
    let (queue, files) = (place.queue().await, FileServer::start().await);
    let node = |name: &str| place.node(name).set("queue.rank_delay", FAR);
    let connect = format!("{}{chroot}", proxy.connect_string());
    let unlucky = node("unlucky").set("store.engine.zookeeper.connect", connect).ready().await;
    let [session] = &proxy.sessions()[..] else { panic!("{:?}", proxy.sessions()) };
    assert_eq!(session.timeout, SESSION, "the server ends the session of a dead node after this time");
    files.hold();
    files.pass(1);
    let bid = kit::submit(&queue, many(&files, "taken-over", JOBS)).await;
    files.until("downloads", |traffic| traffic.open == JOBS as u64).await;
    let other = node("other").ready().await;
    let mut watches = BTreeMap::new();
    for jid in kit::jobs(&queue, bid, BatchList::Processing).await {
        watches.insert(jid, queue.session().watch_tree(JobNode::Lock.of(jid)).await.unwrap());
    }
    assert_eq!(watches.len(), JOBS);
    unlucky.process.kill().await;
    proxy.expire_session(session.id).await;
    let waits = watches.into_iter().map(|(jid, mut watch)| async move {
        let mut is_gone = false;
        loop {
            match watch.next().await {
                Event::Deleted(_) => is_gone = true,
                Event::Created(_) if is_gone => return,
                Event::Created(_) => panic!("{jid} was locked twice"),
                Event::Ended(state) => panic!("the session is {state:?}"),
                _ => {}
            }
        }
    });
    let taken = tokio::time::timeout(4 * PATIENCE, futures::future::join_all(waits)).await;
    taken.expect("the other node takes the jobs when their locks are gone");
    files.release();
    checks::completed_once(&queue, bid, JOBS).await;
    checks::clean(&queue).await;
    assert_eq!(other.drained().await, 0, "{}", other.process.tail());
}
