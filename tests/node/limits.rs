//! A limit of five over three node processes.
//!
//! The invariant: at no moment more than five slots are held, as a witness sees who follows every change of them; and
//! whatever happens to a node that holds some, all five are in use again when its session is over, and what it did
//! with them before is not committed any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ingest_harness::clock::PATIENCE;
use ingest_harness::{FileServer, Proxy, Server};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::limits::rules::{Kind, Semaphore};
use ingest_queue::limits::set::Wanted;
use ingest_queue::map;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_store::{Event, Session};
use tokio::sync::watch;

use crate::checks;
use crate::kit::{self, Node, many};
use crate::place::Place;

const LIMIT: usize = 5;
const JOBS: usize = 20;
/// So long that no node loses its session because the machine is busy. The tests end the session of the node that is gone.
const SESSION: Duration = Duration::from_secs(40);

fn semaphore() -> Semaphore {
    Semaphore::new(Kind::Collection, "tests")
}

/// What the witness has seen.
#[derive(Debug, Clone, Default)]
struct Seen {
    held: BTreeSet<String>,
    /// How many were held after each change.
    trail: Vec<usize>,
    /// How many were given back, by their holders or with their sessions.
    freed: usize,
    /// It was told that it may have missed something.
    blind: bool,
}

/// Follows every change of the slots, in the order of the tree's transactions.
struct Witness {
    seen: watch::Receiver<Seen>,
    // It sees as long as its session lives.
    _session: Session,
}

impl Witness {
    async fn new(place: &Place) -> Self {
        let session = place.queue().await.session().clone();
        let mut events = session.watch_tree(map::SEMAPHORES).await.unwrap();
        let (tell, seen) = watch::channel(Seen::default());
        tokio::spawn(async move {
            loop {
                let event = events.next().await;
                let over = matches!(event, Event::Ended(_));
                tell.send_modify(|seen| match event {
                    Event::Created(path) if path.ends_with("/holder") => {
                        seen.held.insert(path);
                        seen.trail.push(seen.held.len());
                    }
                    Event::Deleted(path) if path.ends_with("/holder") => {
                        seen.held.remove(&path);
                        seen.trail.push(seen.held.len());
                        seen.freed += 1;
                    }
                    Event::Relist(_) | Event::Ended(_) => seen.blind = true,
                    _ => {}
                });
                if over || tell.is_closed() {
                    return;
                }
            }
        });
        Self { seen, _session: session }
    }

    fn now(&self) -> Seen {
        self.seen.borrow().clone()
    }

    async fn until(&mut self, what: &str, wanted: impl FnMut(&Seen) -> bool) -> Seen {
        let seen = tokio::time::timeout(PATIENCE, self.seen.wait_for(wanted)).await;
        let seen = seen.map(|seen| seen.unwrap().clone());
        seen.unwrap_or_else(|_| panic!("waited in vain for {what}: {:?}", self.now()))
    }

    /// From that change on never above, all of it used, and nothing missed.
    fn never_above(&self, limit: usize, from: usize) {
        let seen = self.now();
        assert!(!seen.blind, "the witness may have missed something");
        assert_eq!(seen.trail[from..].iter().max(), Some(&limit), "{:?}", &seen.trail[from..]);
    }
}

struct Three {
    place: Place,
    files: FileServer,
    nodes: Vec<Node>,
    /// The link of each node to the server, by its name.
    links: BTreeMap<&'static str, Proxy>,
    queue: Queue,
    witness: Witness,
}

impl Three {
    /// Nodes that share a limit of five, and downloads that wait at their door.
    async fn new() -> Self {
        let (server, chroot) = (Server::shared().await, ingest_harness::chroot());
        let place = Place::at(format!("{}{chroot}", server.connect_string()), SESSION);
        let files = FileServer::start().await;
        let queue = place.queue().await;
        let witness = Witness::new(&place).await;
        let (mut nodes, mut links) = (Vec::new(), BTreeMap::new());
        for name in ["node-1", "node-2", "node-3"] {
            let limit = i64::try_from(LIMIT).unwrap();
            let link = Proxy::start(server.address());
            let connect = format!("{}{chroot}", link.connect_string());
            links.insert(name, link);
            let setup = place.node(name).set("store.engine.zookeeper.connect", connect);
            let setup = setup.set("limits.collections.tests", limit);
            nodes.push(setup.set("pools.downloading.size", 4).start());
        }
        for node in &nodes {
            node.ready().await;
        }
        files.hold();
        Self { place, files, nodes, links, queue, witness }
    }

    /// Submits more than there are slots, and waits until all of those are in use.
    async fn full(&mut self) -> Bid {
        // The manifest.
        self.files.pass(1);
        let bid = kit::submit(&self.queue, many(&self.files, "thing", JOBS)).await;
        self.files.until("downloads", |traffic| traffic.open == LIMIT as u64).await;
        self.witness.until("all slots in use", |seen| seen.held.len() == LIMIT).await;
        bid
    }

    /// Who holds slots now, by name.
    async fn holders(&self) -> Vec<String> {
        let holders = self.queue.holders(&semaphore()).await.unwrap();
        holders.into_iter().map(|holding| holding.node).collect()
    }

    /// The jobs that a node holds slots for.
    async fn jobs_of(&self, node: &str) -> Vec<Jid> {
        let holders = self.queue.holders(&semaphore()).await.unwrap();
        holders.into_iter().filter(|holding| holding.node == node).filter_map(|holding| holding.job).collect()
    }

    /// The node that holds most, taken out of the others, and how many it holds.
    async fn unlucky(&mut self) -> (Node, usize) {
        let holders = self.holders().await;
        let of = |node: &Node| holders.iter().filter(|holder| *holder == node.name()).count();
        let most = (0..self.nodes.len()).max_by_key(|at| of(&self.nodes[*at])).unwrap();
        let had = of(&self.nodes[most]);
        assert!(had > 0, "{holders:?}");
        (self.nodes.remove(most), had)
    }

    /// Ends the session of one that is gone, and waits until its slots are all in use again, by others.
    async fn full_again(&mut self, without: &str, had: usize, freed: usize) {
        self.links[without].expire_latest_session().await;
        let wanted = |seen: &Seen| seen.freed >= freed + had && seen.held.len() == LIMIT;
        self.witness.until("all slots in use again", wanted).await;
        let holders = self.holders().await;
        assert_eq!(holders.len(), LIMIT);
        assert!(holders.iter().all(|node| node != without), "{holders:?}");
    }

    async fn ended(self) {
        self.witness.never_above(LIMIT, 0);
        assert!(self.holders().await.is_empty());
        checks::clean(&self.queue).await;
        for node in &self.nodes {
            assert_eq!(node.drained().await, 0, "{}", node.process.tail());
        }
        checks::clean(&self.queue).await;
        self.place.nothing_left("work").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slots_of_a_node_that_is_killed_are_used_again_when_its_session_is_over() {
    let mut three = Three::new().await;
    let bid = three.full().await;
    let (unlucky, had) = three.unlucky().await;
    let freed = three.witness.now().freed;
    unlucky.process.kill().await;
    three.full_again(unlucky.name(), had, freed).await;
    three.files.release();
    checks::completed_once(&three.queue, bid, JOBS).await;
    three.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_frozen_past_its_session_loses_its_slots_and_commits_nothing_with_them() {
    let mut three = Three::new().await;
    let bid = three.full().await;
    let (frozen, had) = three.unlucky().await;
    let mut attempts = Vec::new();
    for jid in three.jobs_of(frozen.name()).await {
        attempts.push((jid, three.queue.job_status(jid).await.unwrap().0.attempt));
    }
    let freed = three.witness.now().freed;
    frozen.process.pause().await;
    three.full_again(frozen.name(), had, freed).await;
    // It wakes up while all slots are others', and now its downloads get their answers.
    frozen.process.resume();
    three.files.release();
    let over = frozen.says("the session is over: everything is built anew").await;
    assert!(over["locks"].as_u64().is_some_and(|locks| locks >= had as u64), "{over}");
    frozen.says_with("connected", |line| line["number"] == 2).await;
    checks::completed_once(&three.queue, bid, JOBS).await;
    // Whoever has committed what it had begun has begun it anew.
    assert_eq!(attempts.len(), had);
    for (jid, attempt) in attempts {
        let history = checks::history(&three.queue, jid).await;
        let done = history.entries.iter().find(|entry| entry.from == Some(JobState::Downloading)).unwrap();
        assert!(done.attempt > attempt, "{jid}: {history:?}");
        assert_eq!(checks::timeouts(&three.queue, jid).await, 1, "{jid}");
    }
    three.nodes.push(frozen);
    three.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_full_is_raised_lowered_and_removed_over_all_nodes() {
    let mut three = Three::new().await;
    let bid = three.full().await;
    let set = async |queue: &Queue, wanted| {
        assert!(queue.set_limit(Kind::Collection, "tests", wanted).await.unwrap());
    };
    set(&three.queue, Wanted::AtMost(7)).await;
    three.witness.until("seven", |seen| seen.held.len() == 7).await;
    three.files.until("seven downloads", |traffic| traffic.open == 7).await;
    // Lowered: whoever works goes on, and nobody begins before fewer than three are left.
    set(&three.queue, Wanted::AtMost(3)).await;
    let freed = three.witness.now().freed;
    three.files.pass(4);
    let seen = three.witness.until("four that are done", |seen| seen.freed == freed + 4).await;
    assert_eq!(seen.held.len(), 3, "nobody has begun meanwhile");
    let lowered = seen.trail.len() - 1;
    three.files.pass(1);
    three.witness.until("one for one", |seen| seen.freed > freed + 4 && seen.held.len() == 3).await;
    three.witness.never_above(3, lowered);
    three.witness.never_above(7, 0);
    // Removed: whoever waits begins, as many as there are workers.
    set(&three.queue, Wanted::NoLimit).await;
    three.files.until("all workers", |traffic| traffic.open == 12).await;
    three.files.release();
    checks::completed_once(&three.queue, bid, JOBS).await;
    three.witness.never_above(7, 0);
    assert!(three.holders().await.is_empty());
    checks::clean(&three.queue).await;
    for node in &three.nodes {
        assert_eq!(node.drained().await, 0, "{}", node.process.tail());
    }
}
