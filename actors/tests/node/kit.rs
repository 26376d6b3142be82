//! What the tests of nodes stand on: a tree, nodes on it in directories of their own, submissions, and waiting for
//! what becomes of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ingest_actors::node::{Config, End, Node};
use ingest_actors::registrar::Info;
use ingest_actors::restart_log::Restart;
use ingest_actors::settings::Settings;
use ingest_actors::work::Work;
use ingest_harness::{FileServer, Proxy, Server};
use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::fsck;
use ingest_queue::ids::{Aid, Bid, Jid};
use ingest_queue::index::Counts;
use ingest_queue::map::{self, AccessSize, BatchNode};
use ingest_queue::nodes::{Identifiers, JobStatus, Schedule, Submission};
use ingest_queue::queue::Queue;
use ingest_queue::states::{AccessState, BatchList, BatchState, JobState};
use ingest_steps::fetch::Allowed;
use ingest_steps::manifest::Kind;
use ingest_steps::services::Services;
use ingest_steps::settings as steps;
use ingest_steps::step::assemble::{self, Form, Request, Requested};
use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::faults::Faulty;
use ingest_store::{Event, Limits, Session, Store};
use tempfile::TempDir;
use url::Url;

use crate::made;
use crate::recorder::Recorder;

/// The states whose steps are done by workers one by one.
pub(crate) const STEPS: [JobState; 6] = [
    JobState::Pending,
    JobState::Estimating,
    JobState::Downloading,
    JobState::Processing,
    JobState::Recording,
    JobState::Notify,
];

/// How long anything is waited for that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) const PROFILE: &str = "test_content";

const PROFILE_TEXT: &str = r#"
name = "test_content"
collection = "tests"
title = "Things to test with"
owner = "ark:/99999/fk4tests"

[notify]
to = ["curators@example.org"]
"#;

/// Which tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Embedded,
    Zookeeper,
}

/// A tree and a directory, for nodes that share them.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    engine: Arc<dyn Engine>,
    /// The way of the test itself, where the nodes' way may be broken.
    own_way: Option<Arc<dyn Engine>>,
}

impl Place {
    pub(crate) async fn new(on: On) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine: Arc<dyn Engine> = match on {
            On::Embedded => Arc::new(Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap()),
            On::Zookeeper => {
                let connect = ingest_harness::shared_connect_string_with_chroot().await;
                Arc::new(Zookeeper::new(zookeeper(connect)).unwrap())
            }
        };
        Self { dir, engine, own_way: None }
    }

    /// On the shared server, with the nodes behind a proxy and the test beside it.
    pub(crate) async fn behind_a_proxy() -> (Self, Proxy) {
        let server = Server::shared().await;
        let (proxy, chroot) = (Proxy::start(server.address()), ingest_harness::chroot());
        let engine = |connect: String| Arc::new(Zookeeper::new(zookeeper(connect + &chroot)).unwrap());
        let (engine, own_way) = (engine(proxy.connect_string()), engine(server.connect_string()));
        let dir = tempfile::tempdir().unwrap();
        (Self { dir, engine, own_way: Some(own_way) }, proxy)
    }

    /// With a record of what the nodes do to feeds; and a way of the test's own that is patient, however busy the machine is.
    pub(crate) async fn recorded(on: On) -> (Self, Recorder) {
        let dir = tempfile::tempdir().unwrap();
        let (engine, own_way): (Arc<dyn Engine>, Arc<dyn Engine>) = match on {
            On::Embedded => {
                let tree = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
                (Arc::new(tree.clone()), Arc::new(tree))
            }
            On::Zookeeper => {
                let connect = ingest_harness::shared_connect_string_with_chroot().await;
                let patient =
                    ZookeeperConfig { session_timeout: Duration::from_mins(1), ..zookeeper(connect.clone()) };
                let engine = |config| Arc::new(Zookeeper::new(config).unwrap());
                (engine(zookeeper(connect)), engine(patient))
            }
        };
        let recorder = Recorder::around(engine);
        (Self { dir, engine: Arc::new(recorder.clone()), own_way: Some(own_way) }, recorder)
    }

    /// On an embedded tree, with calls of the nodes that can be broken.
    pub(crate) fn with_faults() -> (Self, Faulty) {
        let dir = tempfile::tempdir().unwrap();
        let tree = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
        let faulty = Faulty::new(tree.clone());
        (Self { dir, engine: Arc::new(faulty.clone()), own_way: Some(Arc::new(tree)) }, faulty)
    }

    /// The same on either tree; a session cannot be made to expire on a server this way.
    pub(crate) async fn with_faults_on(on: On) -> (Self, Faulty) {
        if on == On::Embedded {
            return Self::with_faults();
        }
        let Self { dir, engine, .. } = Self::new(on).await;
        let faulty = Faulty::around(engine.clone());
        (Self { dir, engine: Arc::new(faulty.clone()), own_way: Some(engine) }, faulty)
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(self.engine.clone(), Limits::default())
    }

    pub(crate) async fn session(&self) -> Session {
        let engine = self.own_way.as_ref().unwrap_or(&self.engine);
        Store::new(engine.clone(), Limits::default()).session().await.unwrap()
    }

    /// A queue of its own, to look and to submit with.
    pub(crate) async fn queue(&self) -> Queue {
        let settings = ingest_queue::queue::Settings::new("test");
        Queue::open(&self.session().await, settings, Clock::system()).await.unwrap()
    }

    /// The settings of the steps, with everything but the work shared by all nodes of the place.
    pub(crate) fn steps(&self, node: &str) -> steps::Settings {
        let dir = self.dir.path();
        let mut settings = steps::Settings::default();
        settings.work.dir = dir.join(node).join("work");
        // No result depends on how full the disk of the machine is.
        settings.provisioning.max_used = 1.0;
        settings.profiles.dir = dir.join("profiles");
        std::fs::create_dir_all(&settings.profiles.dir).unwrap();
        std::fs::write(settings.profiles.dir.join(format!("{PROFILE}.toml")), PROFILE_TEXT).unwrap();
        settings.fetch.allowed = vec![Allowed::Network("127.0.0.0/8".parse().unwrap())];
        settings.fetch.backoff = Duration::from_millis(10);
        let storage = steps::Ocfl { dir: dir.join("storage"), staging: None };
        settings.storage.insert("default".into(), steps::Storage::Ocfl(storage));
        settings.inventory = steps::Inventory::Sqlite { path: dir.join("inventory.sqlite") };
        settings.mail.by = steps::MailBy::Outbox { dir: self.outbox() };
        settings.access.dir = dir.join("access");
        settings
    }

    pub(crate) fn outbox(&self) -> PathBuf {
        self.dir.path().join("outbox")
    }

    pub(crate) fn work(&self, node: &str) -> PathBuf {
        self.dir.path().join(node).join("work")
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        self.node_with(name, None, |_, _| {}).await
    }

    /// A node that is ready.
    pub(crate) async fn node_with(
        &self,
        name: &str,
        work: Option<Arc<dyn Work>>,
        change: impl FnOnce(&mut Settings, &mut steps::Settings),
    ) -> Node {
        let mut node = Settings::default();
        node.node.name = name.into();
        node.node.dir = self.dir.path().join(name).join("node");
        node.queue.rank_delay = Duration::from_millis(20);
        let mut steps = self.steps(name);
        change(&mut node, &mut steps);
        let node = Node::start(Config { store: self.store(), node, steps, work }).await.unwrap();
        assert!(node.ready().await, "it ended before it was ready");
        node
    }
}

fn zookeeper(connect: String) -> ZookeeperConfig {
    ZookeeperConfig { session_timeout: Duration::from_secs(6), ..ZookeeperConfig::new(connect) }
}

/// Ends a node properly.
pub(crate) async fn drained(node: Node) {
    node.drain();
    assert_eq!(node.ended().await, End::Drained);
}

pub(crate) fn submission(url: &Url, kind: Option<&str>) -> Submission {
    Submission {
        profile_name: PROFILE.into(),
        collection: Some("tests".into()),
        submitter: "depositor".into(),
        payload_url: Some(url.to_string()),
        payload_type: kind.map(str::to_owned),
        erc_who: Some("Lindqvist, A.".into()),
        erc_what: Some("A thing".into()),
        ..Submission::default()
    }
}

pub(crate) async fn submit(queue: &Queue, mut submission: Submission) -> Bid {
    submission.insertion_date = Some(queue.now());
    let uuid = uuid::Uuid::new_v4().to_string();
    queue.create_batch(&uuid, &submission).await.unwrap().bid
}

/// Waits until the status of a batch is as wanted, by its events.
pub(crate) async fn batch_is(queue: &Queue, bid: Bid, wanted: impl Fn(BatchState) -> bool) -> BatchState {
    let mut watch = queue.session().watch_tree(BatchNode::Status.of(bid)).await.unwrap();
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let state = queue.batch(bid).await.unwrap().state();
        if wanted(state) {
            return state;
        }
        match tokio::time::timeout_at(end, watch.next()).await {
            Ok(Event::Ended(state)) => panic!("{bid} was waited for, and the session is {state:?}"),
            Ok(_) => {}
            Err(late) => {
                panic!("{bid} was waited for in vain ({late}): {state:?}; {:?}", jobs_of(queue, bid).await)
            }
        }
    }
}

/// Every job of a batch that is not completed, with its status and whether it is locked, for whoever waited in vain.
async fn jobs_of(queue: &Queue, bid: Bid) -> Vec<(Jid, JobStatus, bool)> {
    let mut found = Vec::new();
    for list in [BatchList::Processing, BatchList::Failed] {
        for jid in jobs(queue, bid, list).await {
            let locked = queue.session().exists(map::JobNode::Lock.of(jid)).await.unwrap().is_some();
            found.push((jid, queue.job_status(jid).await.unwrap().0, locked));
        }
    }
    found
}

/// Waits until a batch has been reported.
pub(crate) async fn reported(queue: &Queue, bid: Bid) -> BatchState {
    let ended = |state| matches!(state, BatchState::Completed | BatchState::Failed);
    let state = batch_is(queue, bid, ended).await;
    // One that could not be expanded is failed before it is told.
    let owed = map::outbox(bid, 1);
    let mut watch = queue.session().watch_tree(owed.as_str()).await.unwrap();
    while queue.session().exists(owed.as_str()).await.unwrap().is_some() {
        watch.next().await;
    }
    state
}

/// Waits until a job is in a state, by its events.
pub(crate) async fn job_is(queue: &Queue, jid: Jid, wanted: impl Fn(&JobStatus) -> bool) -> JobStatus {
    let status = map::JobNode::Status.of(jid);
    let mut watch = queue.session().watch_tree(status).await.unwrap();
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (status, _) = queue.job_status(jid).await.unwrap();
        if wanted(&status) {
            return status;
        }
        let event = tokio::time::timeout_at(end, watch.next()).await;
        assert!(event.is_ok(), "{jid} was waited for in vain: {status:?}");
    }
}

/// How often a job has crashed or stalled its worker.
pub(crate) async fn timeouts(queue: &Queue, jid: Jid) -> u32 {
    let schedule: Option<Schedule> = queue.node(jid, map::JobNode::Schedule).await.unwrap();
    schedule.unwrap_or_default().timeout_count
}

/// Waits for an actor's first line in the restart log.
pub(crate) async fn restarted(node: &Node, actor: &str) -> Restart {
    ingest_harness::eventually(&format!("a restart of {actor}"), PATIENCE, || async {
        node.restarts(1_000).unwrap().into_iter().find(|restart| restart.actor == actor)
    })
    .await
}

pub(crate) async fn jobs(queue: &Queue, bid: Bid, list: BatchList) -> Vec<Jid> {
    let (names, _) = queue.session().children(map::batch_list(bid, list)).await.unwrap();
    let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    jids.sort_unstable();
    jids
}

/// The tree is as it should be, and nobody holds a lock on an object.
pub(crate) async fn clean(queue: &Queue) {
    fsck::clean(queue.session(), Dialect::Design).await.unwrap();
    for dir in [map::STORAGE_LOCKS, map::INVENTORY_LOCKS, map::LOCAL_IDS] {
        assert_eq!(queue.session().children(dir).await.unwrap().0, Vec::<String>::new(), "{dir}");
    }
    for state in JobState::queues(Dialect::Design).filter(|state| state.is_taken_from()) {
        let waiting = queue.session().children(map::queue(state)).await.unwrap().0;
        for name in waiting {
            let entry = map::QueueRef::parse(state, &name).unwrap();
            let lock = map::JobNode::Lock.of(entry.jid);
            assert_eq!(queue.session().exists(lock).await.unwrap(), None, "{name} is locked");
        }
    }
}

/// Nothing is left in a working directory but what names its file system.
pub(crate) fn nothing_left(work: &Path) {
    let names: Vec<_> = std::fs::read_dir(work)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    assert_eq!(names, Vec::<String>::new(), "{}", work.display());
}

/// Messages in the outbox, by their Message-ID.
pub(crate) fn mails(outbox: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(outbox) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mails = paths.filter(|path| path.extension().is_some_and(|end| end == "eml"));
    let texts = mails.map(|path| std::fs::read_to_string(path).unwrap());
    let id = |text: String| {
        let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with("message-id:"));
        line.unwrap_or_default().to_owned()
    };
    let mut ids: Vec<String> = texts.map(id).collect();
    ids.sort();
    ids
}

/// Waits until a node's own count of what waits in a state is as wanted.
pub(crate) async fn waits(node: &Node, state: JobState, what: &str, wanted: impl Fn(&Counts) -> bool) {
    ingest_harness::eventually(what, PATIENCE, || async {
        let finder = node.house().life()?.finder()?;
        wanted(&finder.counts(state)).then_some(())
    })
    .await;
}

/// Puts a manifest of so many single files where it can be fetched.
pub(crate) fn single_files(files: &FileServer, count: usize) -> Url {
    let row = |n: usize| {
        let (path, name) = (format!("/single/{n}"), format!("name-{n}"));
        made::row(files, &path, path.as_bytes(), &name, &format!("single:{n}"))
    };
    let rows: Vec<String> = (0..count).map(row).collect();
    files.put("/single.checkm", made::manifest(Kind::SingleFileBatch, &rows))
}

/// The components that are registered.
pub(crate) async fn components(queue: &Queue) -> Vec<Info> {
    let (names, _) = queue.session().children(map::NODES).await.unwrap();
    let mut found = Vec::new();
    for name in names {
        if let Ok((data, _)) = queue.session().get(format!("{}/{name}", map::NODES)).await {
            found.push(serde_json::from_slice(&data).unwrap());
        }
    }
    found
}

/// Waits until these nodes and no others are registered, in this order. A node is ready before it is registered.
pub(crate) async fn registered(queue: &Queue, nodes: &[&str]) -> Vec<Info> {
    ingest_harness::eventually(&format!("{nodes:?} and no other node"), PATIENCE, || async {
        let mut all = components(queue).await;
        all.sort_by(|one, other| one.node.cmp(&other.node));
        all.iter().map(|one| one.node.as_str()).eq(nodes.iter().copied()).then_some(all)
    })
    .await
}

/// The identifier that a job's object got.
pub(crate) async fn ark_of(queue: &Queue, jid: Jid) -> String {
    let identifiers: Option<Identifiers> = queue.node(jid, map::JobNode::Identifiers).await.unwrap();
    identifiers.unwrap().primary_id.unwrap()
}

/// Asks for an object, as a zip.
pub(crate) async fn ask(queue: &Queue, services: &Services, ark: &str) -> Requested {
    let wanted = Request { ark: ark.into(), version: None, form: Form::Zip };
    assemble::request(queue, services, &wanted).await.unwrap()
}

/// Waits until an access item has ended, by its events.
pub(crate) async fn access_ended(queue: &Queue, size: AccessSize, aid: Aid) -> AccessState {
    let mut watch = queue.session().watch_tree(size.status(aid)).await.unwrap();
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let state = queue.access_item(size, aid).await.unwrap().status.status;
        if matches!(state, AccessState::Completed | AccessState::Failed) {
            return state;
        }
        let event = tokio::time::timeout_at(end, watch.next()).await;
        assert!(event.is_ok(), "the item {aid} was waited for in vain: {state:?}");
    }
}
