//! Each call of the tree broken in each way: killed before and after it, its request or its answer lost, the
//! session expired. Then another node goes on, and the end is the one of a clean run.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use ingest_queue::date::{Clock, Date};
use ingest_queue::fsck;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map;
use ingest_queue::nodes::Submission;
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::BatchState;
use ingest_steps::manifest::Kind;
use ingest_steps::outcome::{Cancel, Progress, Result};
use ingest_steps::services::Services;
use ingest_steps::step::expand::{self, Expansion};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::{Limits, Store};
use serde_json::json;
use tempfile::TempDir;

use crate::expand::{manifest, submission};
use crate::kit::{FileServer, Stage, WHO};
use crate::tree::{Tree, within};

/// A tree whose calls can be broken.
struct Ground {
    faulty: Faulty,
    store: Store,
    _dir: TempDir,
}

impl Ground {
    /// In memory if the machine has a place for that: hundreds of trees are made and thrown away.
    fn place() -> TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    fn like(prepared: &Path) -> Self {
        let dir = Self::place();
        for file in std::fs::read_dir(prepared).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
        let faulty = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
        let store = Store::new(Arc::new(faulty.clone()), Limits::default());
        Self { faulty, store, _dir: dir }
    }

    /// Nodes have clocks of their own.
    async fn node(&self, number: i64) -> Queue {
        queue_on(&self.store, number).await
    }
}

async fn queue_on(store: &Store, number: i64) -> Queue {
    let session = store.session().await.unwrap();
    let clock = Clock::fixed(Date::from_millis(1_763_257_425_000 + number * 60_000));
    Queue::open(&session, Settings::new(format!("node-{number}")), clock).await.unwrap()
}

/// A tree that was prepared once, and services that do not depend on it.
pub(crate) struct Prepared {
    dir: TempDir,
    pub(crate) stage: Stage,
    _tree: Tree,
}

impl Prepared {
    pub(crate) async fn new(stage: Stage, tree: Tree, prepare: impl AsyncFnOnce(Queue)) -> Self {
        let dir = Ground::place();
        let engine = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
        let store = Store::new(Arc::new(engine.clone()), Limits::default());
        let queue = queue_on(&store, 0).await;
        prepare(queue.clone()).await;
        queue.session().close().await.unwrap();
        engine.close().await;
        Self { dir, stage, _tree: tree }
    }

    /// Runs a story once to count its calls, and then with each fault at each of them; `judge` looks at the
    /// end of each run.
    pub(crate) async fn through_every_fault<F>(
        &self,
        story: impl Fn(Queue, Services) -> F,
        judge: impl AsyncFn(Queue),
    ) where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let services = &self.stage.services;
        let ground = Ground::like(self.dir.path());
        let node = ground.node(1).await;
        let before = ground.faulty.calls();
        within(story(node.clone(), services.clone())).await.unwrap();
        let calls = ground.faulty.calls() - before;
        judge(node).await;
        assert!(calls > 5, "the story makes only {calls} calls");
        let mut missed = 0;
        for (number, fault) in (0..calls).flat_map(|number| Fault::ALL.map(|fault| (number, fault))) {
            let what = format!("{fault:?} at call {number} of {calls}");
            let ground = Ground::like(self.dir.path());
            let node = ground.node(1).await;
            ground.faulty.break_call(number, fault);
            let mut run = tokio::spawn(story(node.clone(), services.clone()));
            let killed = tokio::select! {
                answer = within(&mut run) => { let _ = answer.unwrap(); false }
                () = ground.faulty.happened(), if matches!(fault, Fault::KillBefore | Fault::KillAfter) => true,
            };
            if killed {
                run.abort();
                let _ = run.await;
            }
            missed += usize::from(!ground.faulty.has_happened());
            // What dies loses its session.
            let _ = node.session().close().await;
            let next = ground.node(2).await;
            fsck::clean(next.session(), next.dialect())
                .await
                .unwrap_or_else(|found| panic!("{what}: {found}"));
            within(story(next.clone(), services.clone()))
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            fsck::clean(next.session(), next.dialect())
                .await
                .unwrap_or_else(|found| panic!("{what}: {found}"));
            judge(next).await;
        }
        assert!(missed * 5 <= calls * 6, "{missed} of {} faults never came", calls * 6);
    }
}

pub(crate) fn the_batch() -> Bid {
    Bid::new(0)
}

async fn story(queue: Queue, services: Services) -> Result<()> {
    let mut lease = queue.acquire_batch(the_batch(), WHO).await?;
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let answer = expand::run(&queue, &mut lease, &services, &progress, &cancel).await?;
    assert_eq!(answer, Expansion::Done { jobs: 12 });
    Ok(queue.release_batch(&mut lease).await?)
}

/// One job for each row, in their order.
async fn one_job_per_row(queue: Queue) {
    let (names, _) = queue.session().children(map::JOBS).await.unwrap();
    let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    jids.sort_unstable();
    let mut urls = Vec::new();
    for jid in jids {
        urls.push(queue.configuration(jid).await.unwrap().payload_url);
    }
    assert_eq!(urls, (0..12).map(|n| format!("https://example.org/{n}")).collect::<Vec<_>>());
    assert_eq!(queue.batch(the_batch()).await.unwrap().state(), BatchState::Processing);
    assert!(queue.expansion(the_batch()).await.unwrap().unwrap().done);
}

async fn prepared(submission: Submission) -> Prepared {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| settings.expanding.rows_at_once = 5).await;
    let prepare = async |queue: Queue| {
        assert_eq!(queue.create_batch("uuid-1", &submission).await.unwrap().bid, the_batch());
    };
    Prepared::new(stage, tree, prepare).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_is_fetched_becomes_one_job_per_row() {
    let server = FileServer::start().await;
    let rows = (0..12).map(|n| format!("https://example.org/{n} | | | | | n{n}"));
    let url = server.put("/m", manifest(Kind::SingleFileBatch, rows));
    let prepared = prepared(submission(url.as_str())).await;
    prepared.through_every_fault(story, one_job_per_row).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_inside_a_submission_become_one_job_each() {
    let rows: Vec<_> = (0..12).map(|n| format!("https://example.org/{n}")).collect();
    let prepared = prepared(Submission { manifest: Some(json!(rows)), ..submission("") }).await;
    prepared.through_every_fault(story, one_job_per_row).await;
}
