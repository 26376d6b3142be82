//! A node is killed, and another goes on: how soon.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ingest_harness::{FileServer, Server, ServerConfig};
use ingest_queue::map::JobNode;
use ingest_queue::queue::Queue;
use ingest_queue::states::BatchList;
use ingest_store::Event;

use crate::checks;
use crate::kit::{self, many};
use crate::place::Place;

const JOBS: usize = 4;
const TICK: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(2);
/// A machine that is busy with other things may be slow once, and hardly so often.
const TRIES: usize = 4;

/// A write and its answer, on average.
async fn round_trip(queue: &Queue) -> Duration {
    const WRITES: u32 = 100;
    let session = queue.session();
    session.make_dirs("/pace").await.unwrap();
    let began = Instant::now();
    for number in 0..WRITES {
        session.set("/pace", number.to_string(), None).await.unwrap();
    }
    let took = began.elapsed();
    session.delete("/pace", None).await.unwrap();
    took / WRITES
}

/// How long the slowest job was without a worker after the server had ended its node's session, and how long it was
/// since its node was killed.
async fn took_over(place: &Place, queue: &Queue, name: &str) -> (Duration, Duration) {
    let files = FileServer::start().await;
    let unlucky = place.node(&format!("{name}-unlucky")).set("queue.rank_delay", "200ms").ready().await;
    files.hold();
    files.pass(1);
    let bid = kit::submit(queue, many(&files, name, JOBS)).await;
    files.until("downloads", |traffic| traffic.open == JOBS as u64).await;
    let other = place.node(&format!("{name}-other")).set("queue.rank_delay", "200ms").ready().await;
    let mut watches = BTreeMap::new();
    for jid in kit::jobs(queue, bid, BatchList::Processing).await {
        watches.insert(jid, queue.session().watch_tree(JobNode::Lock.of(jid)).await.unwrap());
    }
    assert_eq!(watches.len(), JOBS);
    let killed = Instant::now();
    unlucky.process.kill().await;
    let waits = watches.into_values().map(|mut watch| async move {
        let mut gone = None;
        loop {
            match watch.next().await {
                Event::Deleted(_) => gone = Some(Instant::now()),
                Event::Created(_) => return (gone.expect("a lock that went").elapsed(), killed.elapsed()),
                Event::Ended(state) => panic!("the session is {state:?}"),
                _ => {}
            }
        }
    });
    let took = futures::future::join_all(waits).await;
    files.release();
    checks::completed_once(queue, bid, JOBS).await;
    checks::clean(queue).await;
    assert_eq!(other.drained().await, 0, "{}", other.process.tail());
    let slowest = |times: Vec<Duration>| times.into_iter().max().unwrap();
    let (without, since): (Vec<_>, Vec<_>) = took.into_iter().unzip();
    (slowest(without), slowest(since))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_node_that_was_killed_run_elsewhere_as_soon_as_its_session_is_over() {
    let server = Server::start(ServerConfig::default().tick(TICK)).await;
    let connect = format!("{}{}", server.connect_string(), ingest_harness::chroot());
    let place = Place::at(connect, TIMEOUT);
    let queue = place.queue().await;
    for number in 0..TRIES {
        let before = round_trip(&queue).await;
        let (without, since) = took_over(&place, &queue, &format!("try{number}")).await;
        let pace = before.max(round_trip(&queue).await);
        println!("a round trip {pace:?}; without a worker {without:?}; since the kill {since:?}");
        // The server ends sessions at its ticks.
        if without <= 20 * pace && since <= TIMEOUT + TICK + 20 * pace {
            return;
        }
    }
    panic!("not once within the session's timeout and 20 round trips");
}
