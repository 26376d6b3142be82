//! Breaks each call to the tree in each way, for steps whose work on the tree is a story of many calls.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use ingest_queue::date::{Clock, Date};
use ingest_queue::queue::Queue;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::faults::{Fault, Faulty};
use ingest_store::{Limits, Session, Store};
use tempfile::TempDir;

use crate::tree::within;

/// A tree that was prepared and closed; all runs start from a copy of it.
pub(crate) struct Prepared {
    dir: TempDir,
}

impl Prepared {
    /// Whatever `prepare` makes of its session stays.
    pub(crate) async fn with<T, F: Future<Output = T>>(prepare: impl FnOnce(Session) -> F) -> (Self, T) {
        let dir = place();
        let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
        let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
        let made = prepare(session.clone()).await;
        session.close().await.unwrap();
        tree.close().await;
        (Self { dir }, made)
    }

    /// Runs a story whole to count its calls, and then with each fault at each call. Afterwards `then` is
    /// called with a new node, whether the story was cut off or not.
    pub(crate) async fn through_every_fault<S, F, E, T, G>(&self, story: S, then: T)
    where
        S: Fn(Queue) -> F,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Debug + Send + 'static,
        T: Fn(Queue, String) -> G,
        G: Future<Output = ()>,
    {
        let ground = Ground::like(self.dir.path());
        let node = ground.node().await;
        let before = ground.faulty.calls();
        within(story(node.clone())).await.unwrap();
        let calls = ground.faulty.calls() - before;
        assert!(calls > 3, "the story makes only {calls} calls");
        then(node, "whole".into()).await;
        let mut struck = 0;
        for (number, fault) in (0..calls).flat_map(|number| Fault::ALL.map(|fault| (number, fault))) {
            let what = format!("{fault:?} at call {number} of {calls}");
            let ground = Ground::like(self.dir.path());
            if ground.strike(number, fault, &story, &what).await {
                struck += 1;
                then(ground.node().await, what).await;
            }
        }
        // What is committed side by side shares a multi or not, so that a run may make fewer calls.
        assert!(struck * 5 >= calls * 6 * 4, "only {struck} of {} faults came", calls * 6);
    }
}

fn place() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

struct Ground {
    faulty: Faulty,
    store: Store,
    _dir: TempDir,
}

impl Ground {
    fn like(prepared: &Path) -> Self {
        let dir = place();
        for file in std::fs::read_dir(prepared).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
        let faulty = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
        let store = Store::new(Arc::new(faulty.clone()), Limits::default());
        Self { faulty, store, _dir: dir }
    }

    async fn node(&self) -> Queue {
        let settings = ingest_queue::queue::Settings {
            max_timeouts: 1_000,
            ..ingest_queue::queue::Settings::new("node-1")
        };
        let clock = Clock::fixed(Date::from_millis(1_763_257_425_000));
        Queue::open(&self.store.session().await.unwrap(), settings, clock).await.unwrap()
    }

    /// Runs a story until its fault has struck it; `false` if it ended before that call.
    async fn strike<S, F, E>(&self, number: usize, fault: Fault, story: &S, what: &str) -> bool
    where
        S: Fn(Queue) -> F,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Debug + Send + 'static,
    {
        let node = self.node().await;
        self.faulty.break_call(number, fault);
        let mut run = tokio::spawn(story(node.clone()));
        let answer = tokio::select! {
            answer = within(&mut run) => answer.unwrap(),
            () = self.faulty.happened(), if matches!(fault, Fault::KillBefore | Fault::KillAfter) => {
                run.abort();
                let _ = run.await;
                // What dies with its process loses its session.
                let _ = node.session().close().await;
                return true;
            }
        };
        if answer.is_ok() && !self.faulty.has_happened() {
            return false;
        }
        within(self.faulty.happened()).await;
        let survivable = matches!(fault, Fault::LoseRequest | Fault::LoseAnswer);
        assert!(answer.is_ok() || !survivable, "{what}: {answer:?}");
        if survivable {
            // It has done its work and ends as it should.
            node.session().close().await.unwrap();
        }
        true
    }
}
