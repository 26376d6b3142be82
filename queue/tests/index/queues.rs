//! Queues to find jobs in, written as plainly as anybody could.

use std::sync::Arc;

use ingest_harness::{Proxy, Server, chroot};
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::index::Settings;
use ingest_queue::index::finder::Finder;
use ingest_queue::map::{self, JobNode, Priority, QueueRef};
use ingest_queue::states::JobState;
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Mode, Op, Session, Store};

use crate::tree::within;

pub(crate) fn at(state: JobState, priority: i64, number: u32) -> QueueRef {
    QueueRef::new(state, Priority::new(priority).unwrap(), Jid::new(number))
}

pub(crate) fn pending(priority: i64, number: u32) -> QueueRef {
    at(JobState::Pending, priority, number)
}

/// Empty queues.
pub(crate) async fn make_queues(session: &Session) {
    for dir in map::directories(Dialect::Design) {
        session.make_dirs(&dir).await.unwrap();
    }
}

pub(crate) async fn put(session: &Session, entries: &[QueueRef]) {
    let ops = entries.iter().map(|entry| Op::create(entry.path(), "")).collect();
    session.multi(ops).await.unwrap();
}

pub(crate) async fn remove(session: &Session, entry: QueueRef) {
    session.delete(entry.path(), None).await.unwrap();
}

/// Takes a job's lock, as another node does.
pub(crate) async fn lock(session: &Session, jid: Jid) -> String {
    let lock = JobNode::Lock.of(jid);
    session.create_with_parents(lock.as_str(), "", Mode::Ephemeral).await.unwrap();
    lock
}

pub(crate) async fn finder(session: &Session) -> Finder {
    Finder::start(session, Settings::default()).await.unwrap()
}

pub(crate) async fn next(finder: &Finder) -> QueueRef {
    within(finder.next(JobState::Pending)).await.expect("the finder has not ended").entry
}

/// What is in line just now.
pub(crate) fn ready(finder: &Finder) -> usize {
    finder.counts(JobState::Pending).ready
}

/// A session on a real server behind a proxy, and one beside it, on the same tree with queues.
pub(crate) async fn behind_a_proxy() -> (Proxy, Session, Session) {
    let (server, chroot) = (Server::shared().await, chroot());
    let proxy = Proxy::start(server.address());
    let open = async |address: String| {
        let engine = Zookeeper::new(ZookeeperConfig::new(format!("{address}{chroot}"))).unwrap();
        Store::new(Arc::new(engine), Limits::default()).session().await.unwrap()
    };
    let (through, beside) = (open(proxy.connect_string()).await, open(server.connect_string()).await);
    make_queues(&beside).await;
    (proxy, through, beside)
}
