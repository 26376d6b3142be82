//! Each story is run once to count its calls, and then again for each call and each fault: killed
//! before and after it, its request or its answer lost, the session expired before and after it. Then it
//! is gone on with by a new node, and the tree is the one of the clean run. Nothing is enumerated by
//! hand, and a fault that never came fails the test.
//!
//! All of it on the embedded engine, where a tree is copied in no time. Stories whose operations depend on the engine
//! (ephemeral nodes, multis with a checkpoint) are also told on a server, with the faults after which the tree knows more
//! than the node.

mod alerts;
mod batches;
mod feeds;
mod jobs;
mod journal;
mod limits;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use ingest_queue::batches::Ended;
use ingest_queue::dialect::Dialect;
use ingest_queue::error::Result;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, QueueRef};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchState, JobState};
use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::recipes::settle;
use ingest_store::{Limits, Session, Store};
use serde_json::Value;
use tempfile::TempDir;

use crate::tree::within;
use crate::world::{WHO, clean, queue_on, snapshot};

/// The tree knows more than the node: it is applied, and the node is not told, is dead, or has no session any more.
const UNTOLD: [Fault; 3] = [Fault::LoseAnswer, Fault::KillAfter, Fault::ExpireAfter];

/// A tree whose calls can be broken.
struct Ground {
    faulty: Faulty,
    store: Store,
    /// Of an embedded one.
    _dir: Option<TempDir>,
}

/// Where the trees of a story come from.
enum Soil {
    /// Copies of a tree that was prepared once.
    Embedded(TempDir),
    /// Each in a place of its own on the server.
    Server,
}

/// In memory if the machine has a place for that: hundreds of trees are made and thrown away.
fn place() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl Ground {
    fn new(faulty: Faulty, dir: Option<TempDir>) -> Self {
        let store = Store::new(Arc::new(faulty.clone()), Limits::default());
        Self { faulty, store, _dir: dir }
    }

    /// A tree like one that was prepared and closed.
    fn like(prepared: &Path) -> Self {
        let dir = place();
        for file in std::fs::read_dir(prepared).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
        Self::new(Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap()), Some(dir))
    }

    async fn on<G: Future<Output = Result<()>>>(soil: &Soil, prepare: &impl Fn(Queue) -> G) -> Self {
        match soil {
            Soil::Embedded(prepared) => Self::like(prepared.path()),
            Soil::Server => {
                let connect = ingest_harness::shared_connect_string_with_chroot().await;
                let engine = Arc::new(Zookeeper::new(ZookeeperConfig::new(connect)).unwrap());
                make(engine.clone(), prepare).await;
                Self::new(Faulty::around(engine), None)
            }
        }
    }

    async fn node(&self) -> Queue {
        queue_on(&self.store.session().await.unwrap(), Dialect::Design).await
    }
}

async fn make<G: Future<Output = Result<()>>>(engine: Arc<dyn Engine>, prepare: &impl Fn(Queue) -> G) {
    let session = Store::new(engine, Limits::default()).session().await.unwrap();
    prepare(queue_on(&session, Dialect::Design).await).await.unwrap();
    session.close().await.unwrap();
}

/// Runs a story without faults, and then with each fault at each call.
pub(crate) async fn through_every_fault<P, S, F, G>(prepare: P, story: S)
where
    P: Fn(Queue) -> G,
    G: Future<Output = Result<()>>,
    S: Fn(Queue) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let dir = place();
    let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
    make(Arc::new(tree.clone()), &prepare).await;
    tree.close().await;
    through(&Soil::Embedded(dir), &Fault::ALL, prepare, story).await;
}

/// The same on a server, with fewer faults.
pub(crate) async fn through_faults_on_a_server<P, S, F, G>(prepare: P, story: S)
where
    P: Fn(Queue) -> G,
    G: Future<Output = Result<()>>,
    S: Fn(Queue) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    through(&Soil::Server, &UNTOLD, prepare, story).await;
}

async fn through<P, S, F, G>(soil: &Soil, faults: &[Fault], prepare: P, story: S)
where
    P: Fn(Queue) -> G,
    G: Future<Output = Result<()>>,
    S: Fn(Queue) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (calls, expected) = {
        let ground = Ground::on(soil, &prepare).await;
        let node = ground.node().await;
        let before = ground.faulty.calls();
        within(story(node.clone())).await.unwrap();
        let calls = ground.faulty.calls() - before;
        clean(node.session(), Dialect::Design).await;
        let expected = essence(node.session()).await;
        node.session().close().await.unwrap();
        (calls, expected)
    };
    assert!(calls > 3, "the story makes only {calls} calls");
    for (number, fault) in (0..calls).flat_map(|number| faults.iter().map(move |fault| (number, *fault))) {
        let what = format!("{fault:?} at call {number} of {calls}");
        let ground = Ground::on(soil, &prepare).await;
        if !strike(&ground, number, fault, &story, &what).await {
            continue;
        }
        let next = ground.node().await;
        // Before anything is gone on with, nothing is lost or double.
        clean(next.session(), Dialect::Design).await;
        if !survivable(fault) {
            within(story(next.clone())).await.unwrap_or_else(|error| panic!("{what}: gone on with: {error}"));
            clean(next.session(), Dialect::Design).await;
        }
        let found = essence(next.session()).await;
        for at in found.keys().chain(expected.keys()) {
            assert_eq!(found.get(at), expected.get(at), "{what}: {at}");
        }
        next.session().close().await.unwrap();
    }
}

fn survivable(fault: Fault) -> bool {
    matches!(fault, Fault::LoseRequest | Fault::LoseAnswer)
}

/// Runs a story until its fault has struck it; `false` if it made no such call: jobs that are committed side by side share a
/// multi or not, so a run may make fewer calls than another.
async fn strike<S, F>(ground: &Ground, number: usize, fault: Fault, story: &S, what: &str) -> bool
where
    S: Fn(Queue) -> F,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let node = ground.node().await;
    ground.faulty.break_call(number, fault);
    let mut run = tokio::spawn(story(node.clone()));
    let answer = tokio::select! {
        answer = within(&mut run) => answer.unwrap(),
        () = ground.faulty.happened(), if matches!(fault, Fault::KillBefore | Fault::KillAfter) => {
            run.abort();
            let _ = run.await;
            // What dies with its process loses its session.
            let _ = node.session().close().await;
            return true;
        }
    };
    let calls = ground.faulty.calls();
    if answer.is_ok() && calls <= number {
        assert!(calls > 3, "{what}: the story makes only {calls} calls");
        return false;
    }
    // The call was made. Its fault may still be on its way, if another call of the story ended it.
    within(ground.faulty.happened()).await;
    // A read that nobody waited for may be the one that was struck.
    assert!(answer.is_ok() || !survivable(fault), "{what}: {answer:?}");
    true
}

/// The tree without what a second try may change: who made a commit, how many attempts there were.
async fn essence(session: &Session) -> BTreeMap<String, Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for name in ["commit", "commits", "attempt", "timeout_count"] {
                    map.remove(name);
                }
                map.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut tree = BTreeMap::new();
    for (at, data) in snapshot(session).await {
        // Made for the count of crashes alone.
        if at.ends_with("/schedule") {
            continue;
        }
        let mut value = serde_json::from_str(&data).unwrap_or(Value::String(data));
        strip(&mut value);
        // Who has had a slot is nothing that remains.
        if at.starts_with("/semaphores/") {
            value = Value::Null;
        }
        // A large value has an id of its own each time it is written.
        if at.ends_with("/status-report") || at.ends_with("/manifest") {
            value = Value::Null;
        }
        // The name of an alert is made of the version of its fence, and that of how often something was tried.
        let at = if at.starts_with("/alerts/") { "/alerts/one".to_owned() } else { at };
        if at == "/alerts/one" {
            assert!(!tree.contains_key(&at), "two alerts");
        }
        let parts = ["/status-report/", "/manifest/"].iter().any(|of| at.contains(of));
        // So have the documents that all nodes share; what they say is looked at by their story.
        let shared = at.starts_with("/profiles/") || at.starts_with(map::CONF);
        if !parts && !shared {
            tree.insert(at, value);
        }
    }
    tree
}

/// What waits in a queue. Unlike the other looks of these tests it is part of the story, and may fail.
async fn waiting(queue: &Queue, state: JobState) -> Result<Vec<QueueRef>> {
    let session = queue.session();
    let (names, _) = settle(session, || session.children(map::queue(state))).await.answer?;
    let mut refs: Vec<_> = names.iter().filter_map(|name| QueueRef::parse(state, name)).collect();
    refs.sort_unstable();
    Ok(refs)
}

async fn jobs(queue: &Queue) -> Result<Vec<Jid>> {
    let session = queue.session();
    let (names, _) = settle(session, || session.children(map::JOBS)).await.answer?;
    let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    jids.sort_unstable();
    Ok(jids)
}

async fn nothing(_: Queue) -> Result<()> {
    Ok(())
}

fn the_batch() -> Bid {
    Bid::new(0)
}

async fn report(queue: &Queue, bid: Bid) -> Result<()> {
    let mut lease = queue.acquire_batch(bid, WHO).await?;
    if lease.batch().state() == BatchState::Processing {
        assert_eq!(queue.end_batch(&mut lease).await?, Ended::Yes);
    }
    if lease.batch().state().is_reporting() {
        let mut draft = queue.draft_report(&mut lease).await?;
        if draft.is_news() && draft.sent.is_none() {
            queue.report_sent(&mut lease, &mut draft).await?;
        }
        queue.finish_report(&mut lease, &draft).await?;
    } else {
        queue.release_batch(&mut lease).await?;
    }
    Ok(())
}
