//! An engine around an engine that keeps what was done to feeds, in the order of the tree's transactions.
//!
//! Each taking, each commit and each giving back of a feed sets its node at a version, and the answer says which version
//! that made: the versions are the order in which the tree has applied them, whatever clock or thread saw them when. So
//! who owned a feed at each of its commits is known for certain, and not by looking from time to time.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ingest_queue::feeds::Qid;
use ingest_queue::{map, queue::Queue};
use ingest_store::engine::{Engine, EngineSession};
use ingest_store::error::Outcome;
use ingest_store::manner::Manner;
use ingest_store::node::{Reply, Request};
use ingest_store::{Op, OpResult, Result};
use parking_lot::Mutex;

/// What a transaction did to a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    /// Made its lock.
    Took,
    Released,
    /// Set it, with so many batches made in the same transaction.
    Set(usize),
}

#[derive(Debug, Clone, Copy)]
struct Step {
    session: i64,
    did: Did,
}

#[derive(Debug, Default)]
struct Log {
    /// By feed, and by the version that came of it.
    feeds: BTreeMap<Qid, BTreeMap<i32, Step>>,
    /// Of how many of each nobody knows what became.
    unknown: BTreeMap<Qid, usize>,
    /// What should never be.
    wrong: Vec<String>,
}

/// Clones keep one record.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    engine: Arc<dyn Engine>,
    log: Arc<Mutex<Log>>,
}

impl Recorder {
    pub(crate) fn around(engine: Arc<dyn Engine>) -> Self {
        Self { engine, log: Arc::default() }
    }

    /// Every commit of every feed was made by whoever had taken it last and not given it back. Answers how many items
    /// have become batches.
    pub(crate) fn one_owner_each(&self) -> usize {
        let log = self.log.lock();
        assert!(log.wrong.is_empty(), "{:?}", log.wrong);
        let mut items = 0;
        for (qid, steps) in &log.feeds {
            items += one_owner(*qid, steps, log.unknown.get(qid).copied().unwrap_or(0));
        }
        items
    }

    /// How often feeds were taken.
    pub(crate) fn taken(&self) -> usize {
        let log = self.log.lock();
        log.feeds.values().flat_map(BTreeMap::values).filter(|step| step.did == Did::Took).count()
    }

    fn note(&self, session: i64, ops: &[Op], answer: &Result<Reply>) {
        let made = |path: &str| ops.iter().any(|op| matches!(op, Op::Create { path: at, .. } if at == path));
        let gone = |path: &str| ops.iter().any(|op| matches!(op, Op::Delete { path: at, .. } if at == path));
        for (at, op) in ops.iter().enumerate() {
            let Op::Set { path, .. } = op else { continue };
            let Some((qid, None)) = Queue::feed_of(path) else { continue };
            let lock = map::feed_lock(qid);
            let did = if made(&lock) {
                Did::Took
            } else if gone(&lock) {
                Did::Released
            } else {
                let is_batch = |op: &&Op| matches!(op, Op::Create { path, .. } if path.starts_with(map::BATCHES) && path.matches('/').count() == 2);
                Did::Set(ops.iter().filter(is_batch).count())
            };
            let log = &mut *self.log.lock();
            match answer {
                Ok(Reply::Multi(results)) => {
                    let Some(OpResult::Set { stat }) = results.get(at) else { continue };
                    let steps = log.feeds.entry(qid).or_default();
                    if let Some(other) = steps.insert(stat.version, Step { session, did }) {
                        log.wrong.push(format!("{qid}: version {} twice, also of {other:?}", stat.version));
                    }
                }
                Ok(_) => {}
                Err(error) if error.outcome() == Outcome::NotApplied => {}
                Err(_) => *log.unknown.entry(qid).or_default() += 1,
            }
        }
    }
}

/// Answers how many batches were made. `unknown`: of so many steps the answer was lost; they may be those that are missing.
fn one_owner(qid: Qid, steps: &BTreeMap<i32, Step>, unknown: usize) -> usize {
    let (mut owner, mut before, mut missing, mut items) = (None, 0, 0, 0);
    for (version, step) in steps {
        let gap = usize::try_from(version - before - 1).unwrap();
        if gap > 0 {
            missing += gap;
            // Whoever did what is missing: it may have been taken by whoever goes on here.
            owner = Some(step.session);
        }
        before = *version;
        match step.did {
            Did::Took => owner = Some(step.session),
            Did::Set(batches) => {
                assert_eq!(owner, Some(step.session), "{qid} at version {version}: {steps:?}");
                items += batches;
            }
            Did::Released => {
                assert_eq!(owner, Some(step.session), "{qid} at version {version}: {steps:?}");
                owner = None;
            }
        }
    }
    assert!(missing <= unknown, "{qid}: {missing} versions of nobody, and {unknown} lost answers: {steps:?}");
    items
}

impl Manner for Recorder {
    fn below(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    fn send(&self, below: &Arc<dyn EngineSession>, request: Request) -> BoxFuture<'static, Result<Reply>> {
        let Request::Multi(ops) = &request else { return below.send(request) };
        if !ops.iter().any(|op| op.path().starts_with(map::QUEUES)) {
            return below.send(request);
        }
        let (ops, id, recorder) = (ops.clone(), below.id(), self.clone());
        let answer = below.send(request);
        // Noted whether or not anybody waits for the answer.
        let noted = tokio::spawn(async move {
            let answer = answer.await;
            recorder.note(id, &ops, &answer);
            answer
        });
        async move { noted.await.expect("it only notes") }.boxed()
    }
}
