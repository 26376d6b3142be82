//! The model is a true tree: it answers as the embedded engine does, which is compared with a real server
//! elsewhere.

use std::sync::Arc;

use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Kind, Limits, Mode, Op, Session, Stat};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::ModelEngine;
use crate::runs::{cases, check};

const PATHS: [&str; 8] = ["/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f", "/e/f/g", "/a/d/h"];

/// By one of two sessions: operations together, or its end.
#[derive(Debug, Clone)]
enum Step {
    Multi(usize, Vec<Op>),
    Sequential(usize, String),
    Expire(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let path = || prop::sample::select(PATHS.to_vec());
    let version = || prop::option::weighted(0.4, 0..3_i32);
    let data = prop::sample::select(vec!["", "x"]);
    prop_oneof![
        4 => (path(), data.clone(), any::<bool>()).prop_map(|(path, data, lasts)| {
            if lasts { Op::create(path, data) } else { Op::ephemeral(path, data) }
        }),
        2 => (path(), data, version()).prop_map(|(path, data, version)| Op::set(path, data, version)),
        2 => (path(), version()).prop_map(|(path, version)| Op::delete(path, version)),
        1 => (path(), version()).prop_map(|(path, version)| Op::check(path, version)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..2_usize, vec(op(), 1..4)).prop_map(|(session, ops)| Step::Multi(session, ops)),
        2 => (0..2_usize, prop::sample::select(vec!["/a/s-", "/s-"]))
            .prop_map(|(session, path)| Step::Sequential(session, path.to_owned())),
        1 => (0..2_usize).prop_map(Step::Expire),
    ]
}

/// What a tree says of itself: every node with its data and counters.
async fn everything(session: &Session) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec!["/".to_owned()];
    while let Some(dir) = dirs.pop() {
        let (data, stat) = session.get(dir.as_str()).await.unwrap();
        let Stat { version, cversion, ephemeral_owner, num_children, .. } = stat;
        let ends = ephemeral_owner != 0;
        found.push(format!(
            "{dir} {data:?} {version} {cversion} {ends} {num_children} {}",
            stat.next_sequence()
        ));
        let (mut names, _) = session.children(dir.as_str()).await.unwrap();
        names.sort_unstable();
        dirs.extend(names.iter().map(|name| ingest_store::path::join(&dir, name)));
    }
    found
}

#[derive(Debug)]
struct Side<E> {
    engine: E,
    sessions: Vec<Session>,
}

impl<E: Engine + Clone> Side<E> {
    async fn new(engine: E) -> Self {
        let mut side = Self { engine, sessions: Vec::new() };
        for _ in 0..2 {
            let session = side.open().await;
            side.sessions.push(session);
        }
        side
    }

    async fn open(&self) -> Session {
        Session::open(Arc::new(self.engine.clone()), Limits::default()).await.unwrap()
    }

    async fn take(&mut self, step: &Step) -> String {
        let answer = match step {
            Step::Multi(session, ops) => self.sessions[*session]
                .multi(ops.clone())
                .await
                .map(|results| format!("{} done", results.len())),
            Step::Sequential(session, path) => {
                let mode = Mode::PersistentSequential;
                self.sessions[*session].create(path.as_str(), "", mode).await.map(|(path, _)| path)
            }
            Step::Expire(session) => {
                self.sessions[*session].close().await.unwrap();
                self.sessions[*session] = self.open().await;
                Ok(String::new())
            }
        };
        let why = |kind: Kind, op, path: Option<&str>| format!("{kind:?} {op:?} {path:?}");
        answer.unwrap_or_else(|error| why(error.kind(), error.failed_op(), error.path()))
    }
}

async fn compare(steps: Vec<Step>) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(&EmbeddedConfig::new(dir.path().join("tree"))).unwrap();
    let mut truth = Side::new(embedded.clone()).await;
    let mut model = Side::new(ModelEngine::new(100_000)).await;
    for step in &steps {
        let (wanted, found) = (truth.take(step).await, model.take(step).await);
        if wanted != found {
            return Err(format!("{step:?}: the engine says {wanted}, the model {found}"));
        }
    }
    let (wanted, found) = (everything(&truth.sessions[0]).await, everything(&model.sessions[0]).await);
    embedded.close().await;
    if wanted == found { Ok(()) } else { Err(format!("the engine has {wanted:#?}, the model {found:#?}")) }
}

#[test]
fn the_model_answers_as_the_embedded_engine_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    check(cases(40), &vec(step(), 1..40), |steps| runtime.block_on(compare(steps)));
}
