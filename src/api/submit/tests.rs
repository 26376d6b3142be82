//! Submissions that are struck by every fault at every call of the tree, and sent again.
//!
//! Each is run once to count its calls, and then again for each call and each fault. After that the depositor sends the same with
//! the same uuid: it is acknowledged, there is one batch, and the payload that it names is what was sent.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::to_bytes;
use axum::response::Response;
use bytes::Bytes;
use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::nodes::Submission;
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::queue::{Queue, Settings};
use ingest_steps::fetch::{Fetcher, Rules};
use ingest_steps::upload_nodes::UPLOAD_NODE;
use ingest_steps::urls::Urls;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::{Limits, Store};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use url::Url;

use super::judge::Judged;
use super::known::Place;
use super::orphans::look_through;
use super::room::{Promised, Room};
use super::upload::{self, Upload, Writing};
use super::{Submitting, Undone};
use crate::api::caller::{Caller, Ordered};
use crate::api::problem::{Answer, Kind};
use crate::api::wire::Role;

const CONTENT: &[u8] = b"what was sent";
const UUID: &str = "u-1";
const NODE: &str = "node-1";

/// A tree whose calls can be broken, and a node's uploads.
struct Ground {
    faulty: Faulty,
    store: Store,
    /// The session of the node, and what stands on it.
    life: Mutex<Option<Queue>>,
    dir: TempDir,
    urls: Urls,
    fetcher: Fetcher,
}

#[derive(Debug, Clone, Copy)]
enum On {
    Embedded,
    Zookeeper,
}

impl Ground {
    async fn on(on: On) -> Arc<Self> {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        std::fs::create_dir(dir.path().join("uploads")).unwrap();
        let faulty = match on {
            On::Embedded => {
                Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap())
            }
            On::Zookeeper => {
                let connect = ingest_harness::shared_connect_string_with_chroot().await;
                Faulty::around(Arc::new(Zookeeper::new(ZookeeperConfig::new(connect)).unwrap()))
            }
        };
        let store = Store::new(Arc::new(faulty.clone()), Limits::default());
        let public = Url::parse("http://127.0.0.1:8086/").unwrap();
        let session = store.session().await.unwrap();
        let queue = Queue::open(&session, Settings::new(NODE), Clock::system()).await.unwrap();
        Arc::new(Self {
            faulty,
            store,
            life: Mutex::new(Some(queue)),
            dir,
            urls: Urls::new(public, [7; 32], Duration::from_mins(1)),
            fetcher: Fetcher::new(Rules::default()).unwrap(),
        })
    }

    fn uploads(&self) -> std::path::PathBuf {
        self.dir.path().join("uploads")
    }

    /// On the session of the node, or the next if that is over.
    async fn queue(&self) -> Answer<Queue> {
        let known = self.life.lock().clone().filter(|queue| !queue.session().state().is_final());
        if let Some(queue) = known {
            return Ok(queue);
        }
        let session = self.store.session().await.unwrap();
        let queue = Queue::on(&session, Settings::new(NODE), Clock::system());
        *self.life.lock() = Some(queue.clone());
        Ok(queue)
    }

    /// The node dies, and is started again.
    async fn restart(&self) {
        let life = self.life.lock().take();
        if let Some(queue) = life {
            let _ = queue.session().close().await;
        }
    }

    async fn stored(&self, content: &'static [u8]) -> Upload {
        let room = Room::promise(&self.uploads(), 0, &Promised::default(), 0).await.unwrap();
        let mut writing = Writing::begin(&self.uploads(), room).await.unwrap();
        writing.add(Bytes::from_static(content)).await.unwrap();
        writing.finish().await.unwrap()
    }

    /// What a node does with a submission that it has received.
    async fn submit(&self, content: &'static [u8], uuid: &str, key: Option<&str>) -> Answer<Response> {
        let uploads = self.uploads();
        let place = Place { uploads: &uploads, urls: &self.urls, node: NODE, fetcher: &self.fetcher };
        let caller = caller();
        let submission = Submission {
            profile_name: "p".into(),
            submitter: "ann".into(),
            key: key.map(str::to_owned),
            ..Submission::default()
        };
        let judged = Judged { submission, uuid: Some(uuid.to_owned()), ..Judged::default() };
        let upload = self.stored(content).await;
        let mut submitting = Submitting::new(&place, &caller, judged, Some(upload), false)?;
        submitting.finish(|| self.queue()).await
    }

    fn listed(&self) -> usize {
        std::fs::read_dir(self.uploads()).unwrap().count()
    }

    /// The payload that the batch of a uuid names.
    async fn payload(&self, uuid: &str) -> Option<Vec<u8>> {
        let queue = self.queue().await.unwrap();
        let bid = queue.find_batch(uuid).await.unwrap()?;
        let submission = queue.submission(bid).await.unwrap();
        assert_eq!(submission.other[UPLOAD_NODE], NODE);
        let id = upload::id_in(submission.payload_url.as_deref().unwrap()).unwrap();
        std::fs::read(upload::payload_of(&self.uploads(), &id)).ok()
    }

    /// Two days go by, and the uploads are looked through.
    async fn look_through_later(&self) -> usize {
        for upload in std::fs::read_dir(self.uploads()).unwrap().flatten() {
            age(&upload.path());
        }
        look_through(&self.uploads(), &self.queue().await.unwrap()).await.unwrap()
    }
}

/// As if nothing had been written below a directory for two days.
fn age(dir: &Path) {
    let long_ago = SystemTime::now() - Duration::from_hours(48);
    let files = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    for path in files.chain([dir.to_owned()]) {
        std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
}

fn caller() -> Caller {
    let from = std::net::Ipv4Addr::LOCALHOST.into();
    Caller { name: "ann".into(), role: Role::Depositor, has_token: true, from, ordered: Ordered::default() }
}

async fn answer(response: Answer<Response>) -> (u16, Value) {
    let response = response.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap())
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(2), what).await.unwrap()
}

/// One fault at one call; `false` if there is no such call.
async fn struck(on: On, key: Option<&'static str>, number: usize, fault: Fault) -> bool {
    let what = format!("{fault:?} at call {number}");
    let ground = Ground::on(on).await;
    if key.is_some() {
        answer(ground.submit(b"of another", "u-0", key).await).await;
    }
    ground.queue().await.unwrap();
    ground.faulty.break_call(number, fault);
    let node = ground.clone();
    let mut run = tokio::spawn(async move { node.submit(CONTENT, UUID, key).await });
    let killed = matches!(fault, Fault::KillBefore | Fault::KillAfter);
    let answered = tokio::select! {
        answered = within(&mut run) => Some(answered.unwrap()),
        () = ground.faulty.happened(), if killed => {
            run.abort();
            let _ = run.await;
            ground.restart().await;
            None
        }
    };
    if !ground.faulty.has_happened() {
        assert!(answered.unwrap().is_ok(), "{what}");
        return false;
    }
    if let Some(Ok(response)) = answered {
        let (status, body) = answer(Ok(response)).await;
        assert!([200, 201].contains(&status), "{what}: {body}");
        assert_eq!(body["payload"], "present", "{what}: {body}");
        assert_eq!(ground.payload(UUID).await.as_deref(), Some(CONTENT), "{what}: it was acknowledged");
    }
    // What is not acknowledged is sent again.
    let (_, body) = answer(within(ground.submit(CONTENT, UUID, key)).await).await;
    assert_eq!(body["payload"], "present", "{what}: {body}");
    assert_eq!(ground.payload(UUID).await.as_deref(), Some(CONTENT), "{what}");
    ground.look_through_later().await;
    assert_eq!(ground.payload(UUID).await.as_deref(), Some(CONTENT), "{what}: it stays");
    assert_eq!(ground.listed(), 1, "{what}: what no batch names goes");
    let queue = ground.queue().await.unwrap();
    let batches = queue.batches_by_payload(upload::id_in).await.unwrap();
    assert_eq!(batches.len(), 1, "{what}");
    ingest_queue::fsck::clean(queue.session(), Dialect::default()).await.unwrap();
    true
}

async fn every_fault(on: On, key: Option<&'static str>, faults: &[Fault]) {
    for fault in faults {
        let mut number = 0;
        while struck(on, key, number, *fault).await {
            number += 1;
        }
        assert!(number >= 3, "{fault:?}: only {number} calls");
    }
}

#[tokio::test]
async fn whatever_happens_during_a_commit_the_payload_of_an_acknowledged_batch_is_there() {
    every_fault(On::Embedded, None, &Fault::ALL).await;
}

#[tokio::test]
async fn whatever_happens_during_a_merge_the_payload_of_the_batch_is_there() {
    every_fault(On::Embedded, Some("k"), &Fault::ALL).await;
}

#[tokio::test]
async fn whatever_happens_during_a_commit_on_a_server_the_payload_of_an_acknowledged_batch_is_there() {
    every_fault(On::Zookeeper, None, &[Fault::LoseAnswer, Fault::KillAfter, Fault::ExpireAfter]).await;
}

#[tokio::test]
async fn a_commit_whose_outcome_nobody_knows_keeps_its_upload() {
    let ground = Ground::on(On::Embedded).await;
    let queue = ground.queue().await.unwrap();
    let (uploads, caller) = (ground.uploads(), caller());
    let place = Place { uploads: &uploads, urls: &ground.urls, node: NODE, fetcher: &ground.fetcher };
    let judged = Judged { uuid: Some(UUID.into()), ..Judged::default() };
    let upload = ground.stored(CONTENT).await;
    let mut submitting = Submitting::new(&place, &caller, judged, Some(upload), false).unwrap();
    ground.faulty.break_write("/batches", Fault::ExpireAfter);
    let undone = submitting.create(&queue).await.unwrap_err();
    assert!(matches!(undone, Undone::Doubt(_)), "{undone:?}");
    // As if there were never another session.
    drop(submitting);
    assert_eq!(ground.payload(UUID).await.as_deref(), Some(CONTENT));
    assert_eq!(ground.look_through_later().await, 0);
}

#[tokio::test]
async fn a_definite_refusal_removes_the_upload() {
    let ground = Ground::on(On::Embedded).await;
    answer(ground.submit(b"of another", "u-0", Some("k")).await).await;
    let uploads = ground.uploads();
    let place = Place { uploads: &uploads, urls: &ground.urls, node: NODE, fetcher: &ground.fetcher };
    let submission = Submission { submitter: "bob".into(), key: Some("k".into()), ..Submission::default() };
    let judged = Judged { submission, uuid: Some(UUID.into()), ..Judged::default() };
    let upload = ground.stored(CONTENT).await;
    let caller = caller();
    let mut submitting = Submitting::new(&place, &caller, judged, Some(upload), false).unwrap();
    let refused = submitting.finish(|| ground.queue()).await.unwrap_err();
    assert_eq!(refused.kind, Kind::REFUSED);
    assert_eq!(ground.listed(), 1, "only the other's is left");
}

#[tokio::test]
async fn a_retry_supplies_a_payload_that_is_missing_if_it_is_the_same() {
    let ground = Ground::on(On::Embedded).await;
    let (status, first) = answer(ground.submit(CONTENT, UUID, None).await).await;
    assert_eq!((status, &first["payload"]), (201, &"present".into()), "{first}");
    let (status, again) = answer(ground.submit(b"other", UUID, None).await).await;
    assert_eq!((status, &again["payload"], &again["known"]), (200, &"present".into(), &true.into()));
    assert_eq!(ground.payload(UUID).await.as_deref(), Some(CONTENT), "what is there is not replaced");
    for whole in [true, false] {
        let upload = std::fs::read_dir(ground.uploads()).unwrap().flatten().next().unwrap().path();
        if whole {
            std::fs::remove_dir_all(upload).unwrap();
        } else {
            std::fs::remove_file(upload.join("payload")).unwrap();
        }
        let refused = ground.submit(b"something else", UUID, None).await.unwrap_err();
        assert_eq!((refused.kind, refused.problems[0].field.as_str()), (Kind::INVALID, "file"));
        assert_eq!(ground.payload(UUID).await, None);
        let (_, again) = answer(ground.submit(CONTENT, UUID, None).await).await;
        assert_eq!((&again["bid"], &again["payload"]), (&first["bid"], &"supplied".into()));
        assert_eq!(ground.payload(UUID).await.as_deref(), Some(CONTENT));
        assert_eq!((ground.look_through_later().await, ground.listed()), (0, 1));
    }
}

#[tokio::test]
async fn an_upload_that_is_being_written_is_never_removed_however_long_it_takes() {
    let ground = Ground::on(On::Embedded).await;
    let room = Room::promise(&ground.uploads(), 0, &Promised::default(), 0).await.unwrap();
    let mut writing = Writing::begin(&ground.uploads(), room).await.unwrap();
    assert_eq!(ground.look_through_later().await, 0);
    writing.add(Bytes::from_static(CONTENT)).await.unwrap();
    let mut upload = writing.finish().await.unwrap();
    assert_eq!(ground.look_through_later().await, 0);
    upload.leave_to_tree(UUID).await.unwrap();
    assert_eq!((ground.look_through_later().await, ground.listed()), (0, 1));
    // Its node has died, and no batch names it.
    drop(upload);
    assert_eq!((ground.look_through_later().await, ground.listed()), (1, 0));
}

#[tokio::test]
async fn the_tree_decides_whose_an_upload_is_whatever_stands_beside_it() {
    let ground = Ground::on(On::Embedded).await;
    answer(ground.submit(CONTENT, UUID, None).await).await;
    let upload = std::fs::read_dir(ground.uploads()).unwrap().flatten().next().unwrap().path();
    for note in ["batch", "uuid"] {
        std::fs::remove_file(upload.join(note)).unwrap();
        assert_eq!(ground.look_through_later().await, 0, "without its {note}");
    }
    // Beside it stands the name of another's batch.
    std::fs::write(upload.join("uuid"), "u-2").unwrap();
    answer(ground.submit(b"of another", "u-2", None).await).await;
    assert_eq!((ground.look_through_later().await, ground.listed()), (0, 2));
    // What is named by a batch that is gone goes.
    let queue = ground.queue().await.unwrap();
    for uuid in [UUID, "u-2"] {
        let bid = queue.find_batch(uuid).await.unwrap().unwrap();
        queue.act_on_batch(bid, BatchAction::Hold, "", false).await.unwrap();
        queue.delete_batch(bid, "ann", "", true, |_| ()).await.unwrap();
    }
    assert_eq!((ground.look_through_later().await, ground.listed()), (2, 0));
}
