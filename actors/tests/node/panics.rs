//! A worker that panics: its job completes on the retry, the restart log tells everything, and nothing is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use ingest_actors::node::Node;
use ingest_harness::FileServer;
use ingest_queue::ids::Jid;
use ingest_queue::map::AccessSize;
use ingest_queue::states::{AccessState, BatchList, BatchState, JobState, States as _};
use ingest_steps::mail::{Mail, Message};
use ingest_steps::manifest::Kind;
use ingest_steps::outcome::{Cancel, Progress, Result};
use ingest_steps::provision::{Provision, Space, Verdict, Waiting};
use ingest_steps::services::Services;
use ingest_steps::step::assemble;
use ingest_steps::storage::{Audit, Content, Entry, Storage, StoreRequest, Stored, StoredManifest};
use url::Url;

use crate::kit::{self, On, Place};
use crate::made;
use crate::trick::{Act, Trick};

/// An object manifest: the payload that has something to do in every state.
fn object(files: &FileServer) -> Url {
    let rows = [made::file_row(files, "/o/1", b"first", "first.txt")];
    files.put("/object.checkm", made::manifest(Kind::Object, &rows))
}

/// A panic in one state after the other, each of another job.
async fn panics_in_each_state(on: On, act: Act, words: &str) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let node = place.node_with("node-1", Some(trick.clone()), |_, _| {}).await;
    let queue = place.queue().await;
    for (number, state) in kit::STEPS.into_iter().enumerate() {
        trick.next(state, [act]);
        let bid = kit::submit(&queue, kit::submission(&object(&files), None)).await;
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed, "{state}");
        let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
        assert_eq!(kit::timeouts(&queue, jid).await, 1, "{state}");
        let restarts = node.restarts(1_000).unwrap();
        assert_eq!(restarts.len(), number + 1, "{state}: {restarts:?}");
        let restart = &restarts[0];
        let name = Some(state.name());
        assert!(restart.actor.starts_with(&format!("{}-", state.name())), "{restart:?}");
        assert_eq!((restart.pool.as_deref(), restart.state.as_deref()), (name, name));
        assert_eq!(restart.job, Some(jid.to_string()));
        assert_eq!(restart.batch, Some(bid.to_string()));
        assert_eq!((restart.node.as_str(), restart.reason.as_str()), ("node-1", "panic"));
        assert_eq!(restart.message, format!("{words} in {state}"));
        assert!(restart.location.as_deref().unwrap().contains("node/trick.rs:"), "{restart:?}");
        assert_eq!((restart.count, restart.backoff_ms), (1, 0));
        kit::clean(&queue).await;
    }
    // Each object was stored once, under one identifier, and told of once.
    let storage = node.house().life().unwrap().services().storages["default"].clone();
    let arks: Vec<_> = futures::StreamExt::collect::<Vec<_>>(storage.objects()).await;
    assert_eq!(arks.len(), kit::STEPS.len());
    assert_eq!(kit::mails(&place.outbox()).len(), kit::STEPS.len());
    kit::drained(node).await;
    kit::clean(&queue).await;
    kit::nothing_left(&place.work("node-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_before_any_step_costs_one_retry_embedded() {
    panics_in_each_state(On::Embedded, Act::Panic, "no bread").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_before_any_step_costs_one_retry_zookeeper() {
    panics_in_each_state(On::Zookeeper, Act::Panic, "no bread").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_after_all_of_any_step_costs_one_retry_and_repeats_no_effect_embedded() {
    panics_in_each_state(On::Embedded, Act::PanicAfter, "no butter").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_after_all_of_any_step_costs_one_retry_and_repeats_no_effect_zookeeper() {
    panics_in_each_state(On::Zookeeper, Act::PanicAfter, "no butter").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_wants_to_be_taken_again_is_and_nobody_dies() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    let node = place.node_with("node-1", Some(trick.clone()), |_, _| {}).await;
    let queue = place.queue().await;
    for state in kit::STEPS {
        trick.next(state, [Act::Again]);
    }
    let bid = kit::submit(&queue, kit::submission(&object(&files), None)).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
    assert_eq!(kit::timeouts(&queue, jid).await, 0);
    for state in kit::STEPS {
        assert_eq!(trick.seen(|seen| seen.begun(state)), 2, "{state}");
    }
    assert_eq!(node.restarts(9).unwrap(), []);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pauses_grow_when_one_worker_dies_again_and_again() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.next(JobState::Estimating, [Act::Panic; 3]);
    let node = place
        .node_with("node-1", Some(trick.clone()), |node, _| {
            node.pools.estimating.size = 1;
            node.supervision.backoff = std::time::Duration::from_millis(40);
        })
        .await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let restarts = node.restarts(9).unwrap();
    let counts: Vec<_> = restarts.iter().rev().map(|restart| restart.count).collect();
    assert_eq!(counts, [1, 2, 3]);
    let pauses: Vec<_> = restarts.iter().rev().map(|restart| restart.backoff_ms).collect();
    assert!(pauses[0] == 0 && (20..=40).contains(&pauses[1]) && (40..=80).contains(&pauses[2]), "{pauses:?}");
    let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
    assert_eq!(kit::timeouts(&queue, jid).await, 3);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

/// A service that panics once where it is wanted to, and otherwise is the one in it.
#[derive(Debug)]
struct Once<T> {
    inner: T,
    armed: AtomicBool,
}

impl<T> Once<T> {
    fn new(inner: T) -> Arc<Self> {
        Arc::new(Self { inner, armed: AtomicBool::new(true) })
    }

    fn spring(&self) {
        assert!(!self.armed.swap(false, Ordering::SeqCst), "the service had a bad day");
    }
}

impl Provision for Once<Arc<dyn Provision>> {
    fn space(&self, promised: u64, cancel: &Cancel) -> Result<Space> {
        self.inner.space(promised, cancel)
    }

    fn decide(&self, waiting: &[Waiting], space: Space) -> Vec<(Jid, Verdict)> {
        self.spring();
        self.inner.decide(waiting, space)
    }
}

impl Mail for Once<Arc<dyn Mail>> {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<()>> {
        self.spring();
        self.inner.send(message)
    }
}

impl Storage for Once<Arc<dyn Storage>> {
    fn store<'a>(
        &'a self,
        request: &'a StoreRequest,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Stored>> {
        self.inner.store(request, progress, cancel)
    }

    fn version_of<'a>(&'a self, ark: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Stored>>> {
        self.inner.version_of(ark, key)
    }

    fn manifest<'a>(
        &'a self,
        ark: &'a str,
        version: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<StoredManifest>>> {
        self.inner.manifest(ark, version)
    }

    fn open<'a>(&'a self, ark: &'a str, version: u32, path: &'a str) -> BoxFuture<'a, Result<Content>> {
        self.spring();
        self.inner.open(ark, version, path)
    }

    fn audit<'a>(
        &'a self,
        ark: &'a str,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Audit>> {
        self.inner.audit(ark, progress, cancel)
    }

    fn entries(&self) -> BoxStream<'_, Result<Entry>> {
        self.inner.entries()
    }
}

async fn with_services(node: &Node, change: impl FnOnce(&mut Services)) {
    let life = node.life().await.unwrap();
    let mut services = (*life.services()).clone();
    change(&mut services);
    life.services.store(Arc::new(services));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_room_is_given_costs_a_restart_and_no_job() {
    let place = Place::new(On::Zookeeper).await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    with_services(&node, |services| services.provision = Once::new(services.provision.clone())).await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let restart = kit::restarted(&node, "provisioning-0").await;
    assert_eq!((restart.reason.as_str(), restart.message.as_str()), ("panic", "the service had a bad day"));
    assert_eq!((restart.pool.as_deref(), restart.count), (Some("provisioning"), 1));
    assert!(restart.location.as_deref().unwrap().contains("node/panics.rs:"), "{restart:?}");
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_batchs_actor_costs_a_restart_and_the_depositor_is_told_once() {
    let place = Place::new(On::Zookeeper).await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    with_services(&node, |services| services.mail = Once::new(services.mail.clone())).await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let restart = kit::restarted(&node, &format!("batch {bid}")).await;
    assert_eq!((restart.reason.as_str(), restart.message.as_str()), ("panic", "the service had a bad day"));
    assert_eq!((restart.batch, restart.count, restart.backoff_ms), (Some(bid.to_string()), 1, 0));
    assert!(restart.location.as_deref().unwrap().contains("node/panics.rs:"), "{:?}", restart.location);
    assert_eq!(kit::mails(&place.outbox()).len(), 1);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_an_access_worker_costs_a_restart_and_the_object_goes_out() {
    let place = Place::new(On::Zookeeper).await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
    let ark = kit::ark_of(&queue, jid).await;
    with_services(&node, |services| {
        let storage = services.storages["default"].clone();
        services.storages.insert("default".into(), Once::new(storage));
    })
    .await;
    let services = node.life().await.unwrap().services();
    let asked = kit::ask(&queue, &services, &ark).await;
    assert_eq!(asked.size, AccessSize::Small);
    let item = kit::access_ended(&queue, asked.size, asked.aid).await;
    assert_eq!(item, AccessState::Completed);
    let restarts = node.restarts(9).unwrap();
    assert_eq!(restarts.len(), 1, "{restarts:?}");
    let restart = &restarts[0];
    assert!(restart.actor.starts_with("access_small-"), "{restart:?}");
    assert_eq!((restart.pool.as_deref(), restart.reason.as_str()), (Some("access_small"), "panic"));
    let found = assemble::find(&queue, &services, &asked.token).await.unwrap();
    assert!(matches!(found, assemble::Found::Ready { .. }), "{found:?}");
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}
