//! A znode tree in memory: a map from paths to nodes, and ZooKeeper's rules, as simply as they can be
//! said. It is an engine, so that a whole `Queue` runs on it.
//!
//! A test can lose the request or the answer of any call, delay calls so that others get ahead of
//! them, and expire sessions. Watches are not supported. A tree that is asked more often than its
//! budget allows ends all sessions: something went round in circles.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use ingest_store::engine::{Engine, EngineSession};
use ingest_store::node::{Reply, Request};
use ingest_store::path;
use ingest_store::{
    Error, ExistsWatch, Kind, Limits, Mode, Op, OpResult, Result, Session, SessionState, SessionStatus, Stat,
    TreeWatch,
};
use parking_lot::Mutex;
use tokio::sync::watch;

/// A node, without its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct ZNode {
    pub(crate) data: Bytes,
    pub(crate) version: i32,
    /// The session that it ends with, 0 for none.
    pub(crate) owner: i64,
    /// How many children were ever created: the next sequence number.
    pub(crate) creates: i32,
}

/// The tree. The root is there from the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, ZNode>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self { nodes: BTreeMap::from([("/".to_owned(), ZNode::default())]) }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&ZNode> {
        self.nodes.get(path)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, &ZNode)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    pub(crate) fn nodes_mut(&mut self) -> impl Iterator<Item = (&str, &mut ZNode)> {
        self.nodes.iter_mut().map(|(path, node)| (path.as_str(), node))
    }

    /// The names of the children of a node.
    pub(crate) fn children<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        self.nodes
            .range(prefix.clone()..)
            .take_while({
                let prefix = prefix.clone();
                move |(path, _)| path.starts_with(&prefix)
            })
            .map(move |(path, _)| &path[prefix.len()..])
            .filter(|name| !name.is_empty() && !name.contains('/'))
    }

    pub(crate) fn stat(&self, path: &str) -> Option<Stat> {
        let node = self.nodes.get(path)?;
        let num_children = i32::try_from(self.children(path).count()).unwrap();
        Some(Stat {
            version: node.version,
            // Counts creates and deletes.
            cversion: 2 * node.creates - num_children,
            ephemeral_owner: node.owner,
            data_length: i32::try_from(node.data.len()).unwrap(),
            num_children,
            ..Stat::default()
        })
    }

    /// Applies all operations, or none: then the error names the first that refused.
    pub(crate) fn multi(&mut self, ops: &[Op], session: i64) -> Result<Vec<OpResult>> {
        let (after, results) = self.after(ops, session)?;
        *self = after;
        Ok(results)
    }

    /// The tree once all operations are applied.
    pub(crate) fn after(&self, ops: &[Op], session: i64) -> Result<(Self, Vec<OpResult>)> {
        let mut after = self.clone();
        let apply = |(index, op)| after.apply(op, session).map_err(|error: Error| error.with_op(index));
        let results = ops.iter().enumerate().map(apply).collect::<Result<_>>()?;
        Ok((after, results))
    }

    fn apply(&mut self, op: &Op, session: i64) -> Result<OpResult> {
        match op {
            Op::Check { path, version } => self.at_version(path, *version).map(|_| OpResult::Checked),
            Op::Create { path, data, mode } => {
                let path = self.create(path, data.clone(), *mode, session)?;
                Ok(OpResult::Created { path })
            }
            Op::Set { path, data, version } => {
                let node = self.at_version(path, *version)?;
                node.data = data.clone();
                node.version += 1;
                Ok(OpResult::Set { stat: self.stat(path).unwrap() })
            }
            Op::Delete { path, version } => {
                self.at_version(path, *version)?;
                if self.children(path).next().is_some() {
                    return Err(Error::at(Kind::NotEmpty, path));
                }
                self.nodes.remove(path);
                Ok(OpResult::Deleted)
            }
        }
    }

    fn create(&mut self, asked: &str, data: Bytes, mode: Mode, session: i64) -> Result<String> {
        let Some(parent) = self.nodes.get_mut(path::parent(asked)) else {
            return Err(Error::at(Kind::NoNode, asked));
        };
        let sequence = if mode.is_sequential() { format!("{:010}", parent.creates) } else { String::new() };
        let (creates, of_session) = (parent.creates + 1, parent.owner != 0);
        let path = format!("{asked}{sequence}");
        if self.nodes.contains_key(&path) {
            return Err(Error::at(Kind::NodeExists, asked));
        }
        if of_session {
            return Err(Error::at(Kind::NoChildrenForEphemerals, asked));
        }
        self.nodes.get_mut(path::parent(asked)).unwrap().creates = creates;
        let owner = if mode.is_ephemeral() { session } else { 0 };
        self.nodes.insert(path.clone(), ZNode { data, owner, ..ZNode::default() });
        Ok(path)
    }

    fn at_version(&mut self, path: &str, version: Option<i32>) -> Result<&mut ZNode> {
        let node = self.nodes.get_mut(path).ok_or_else(|| Error::at(Kind::NoNode, path))?;
        if version.is_some_and(|version| version != node.version) {
            return Err(Error::at(Kind::BadVersion, path));
        }
        Ok(node)
    }

    pub(crate) fn end_session(&mut self, session: i64) {
        self.nodes.retain(|_, node| node.owner != session);
    }

    /// Answers a request.
    fn answer(&mut self, request: Request, session: i64) -> Result<Reply> {
        let no_node = |path: &str| Error::at(Kind::NoNode, path);
        let alone = |error: Error| Error::at(error.kind(), error.path().unwrap_or("/"));
        match request {
            Request::Get(path) => {
                let stat = self.stat(&path).ok_or_else(|| no_node(&path))?;
                Ok(Reply::Get { data: self.nodes[&path].data.clone(), stat })
            }
            Request::GetMany(paths) => {
                let get = |path: &String| Some((self.nodes.get(path)?.data.clone(), self.stat(path)?));
                Ok(Reply::GetMany(paths.iter().map(get).collect()))
            }
            Request::Exists(path) => Ok(Reply::Exists(self.stat(&path))),
            Request::Children(path) => {
                let stat = self.stat(&path).ok_or_else(|| no_node(&path))?;
                Ok(Reply::Children { names: self.children(&path).map(str::to_owned).collect(), stat })
            }
            Request::Ephemerals(below) => {
                let ours =
                    self.nodes().filter(|(at, node)| node.owner == session && path::is_within(at, &below));
                Ok(Reply::Ephemerals(ours.map(|(at, _)| at.to_owned()).collect()))
            }
            Request::Sync => Ok(Reply::Sync),
            Request::Create { path, data, mode } => {
                let path = self.create(&path, data, mode, session)?;
                let stat = self.stat(&path).unwrap();
                Ok(Reply::Create { path, stat })
            }
            Request::Set { path, data, version } => {
                self.multi(&[Op::Set { path: path.clone(), data, version }], session).map_err(alone)?;
                Ok(Reply::Set(self.stat(&path).unwrap()))
            }
            Request::Delete { path, version } => {
                self.multi(&[Op::Delete { path, version }], session).map_err(alone)?;
                Ok(Reply::Delete)
            }
            Request::Multi(ops) => self.multi(&ops, session).map(Reply::Multi),
        }
    }
}

/// What gets lost of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Request,
    Answer,
}

/// How a call fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Turn {
    /// How often others may go first.
    pub(crate) after: u8,
    pub(crate) loss: Option<Loss>,
}

/// The engine. Clones are the same tree.
#[derive(Debug, Clone)]
pub(crate) struct ModelEngine {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    tree: Tree,
    sessions: BTreeMap<i64, watch::Sender<SessionStatus>>,
    opened: i64,
    /// How the next calls fare; all after them go well at once.
    turns: VecDeque<Turn>,
    budget: usize,
    /// Each multi as it was sent, and whether it was applied: to be asked for by the tests of the committer.
    multis: Vec<(Vec<Op>, bool)>,
    /// What another program writes as soon as something gets lost.
    at_loss: Vec<Op>,
}

impl ModelEngine {
    /// A tree with only its root, that answers so many calls.
    pub(crate) fn new(budget: usize) -> Self {
        let shared = Shared {
            tree: Tree::new(),
            sessions: BTreeMap::new(),
            opened: 0,
            turns: VecDeque::new(),
            budget,
            multis: Vec::new(),
            at_loss: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    pub(crate) async fn session(&self) -> Session {
        Session::open(Arc::new(self.clone()), Limits::default()).await.unwrap()
    }

    /// The tree as it is now.
    pub(crate) fn tree(&self) -> Tree {
        self.shared.lock().tree.clone()
    }

    /// Another program's writes, that ask nobody.
    pub(crate) fn write(&self, ops: &[Op]) {
        self.shared.lock().tree.multi(ops, 0).unwrap();
    }

    /// The same, right after the next call that gets lost: before anybody can react to the loss.
    pub(crate) fn write_at_loss(&self, ops: Vec<Op>) {
        self.shared.lock().at_loss = ops;
    }

    pub(crate) fn live_sessions(&self) -> BTreeSet<i64> {
        self.shared.lock().sessions.keys().copied().collect()
    }

    pub(crate) fn expire(&self, session: i64) {
        self.shared.lock().end(session, SessionState::Expired);
    }

    /// How the next calls fare.
    pub(crate) fn plan(&self, turns: impl IntoIterator<Item = Turn>) {
        self.shared.lock().turns = turns.into_iter().collect();
    }

    pub(crate) fn went_in_circles(&self) -> bool {
        self.shared.lock().budget == 0
    }

    pub(crate) fn multis(&self) -> Vec<(Vec<Op>, bool)> {
        self.shared.lock().multis.clone()
    }
}

impl Shared {
    fn end(&mut self, session: i64, state: SessionState) {
        if let Some(status) = self.sessions.remove(&session) {
            self.tree.end_session(session);
            status.send_replace(SessionStatus { state, connections: 1 });
        }
    }

    fn take(&mut self, session: i64, request: Request) -> Result<Reply> {
        self.budget = self.budget.saturating_sub(1);
        if self.budget == 0 {
            for id in self.sessions.keys().copied().collect::<Vec<_>>() {
                self.end(id, SessionState::Expired);
            }
        }
        if !self.sessions.contains_key(&session) {
            return Err(Error::new(Kind::Expired, "the model has ended it"));
        }
        let ops = if let Request::Multi(ops) = &request { Some(ops.clone()) } else { None };
        let answer = self.tree.answer(request, session);
        self.multis.extend(ops.map(|ops| (ops, answer.is_ok())));
        answer
    }
}

impl Engine for ModelEngine {
    fn open_session(&self) -> BoxFuture<'_, Result<Arc<dyn EngineSession>>> {
        let mut shared = self.shared.lock();
        shared.opened += 1;
        let id = shared.opened;
        let (status, seen) = watch::channel(SessionStatus { state: SessionState::Connected, connections: 1 });
        shared.sessions.insert(id, status);
        let session: Arc<dyn EngineSession> = Arc::new(ModelSession { id, engine: self.clone(), seen });
        std::future::ready(Ok(session)).boxed()
    }

    fn name(&self) -> &'static str {
        "model"
    }
}

#[derive(Debug)]
struct ModelSession {
    id: i64,
    engine: ModelEngine,
    seen: watch::Receiver<SessionStatus>,
}

impl EngineSession for ModelSession {
    fn id(&self) -> i64 {
        self.id
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn status(&self) -> watch::Receiver<SessionStatus> {
        self.seen.clone()
    }

    fn send(&self, request: Request) -> BoxFuture<'static, Result<Reply>> {
        let (id, engine) = (self.id, self.engine.clone());
        let turn = engine.shared.lock().turns.pop_front().unwrap_or_default();
        async move {
            for _ in 0..turn.after {
                tokio::task::yield_now().await;
            }
            let lost = || {
                let shared = &mut *engine.shared.lock();
                shared.tree.multi(&std::mem::take(&mut shared.at_loss), 0).unwrap();
                Err(Error::new(Kind::ConnectionLoss, "planned"))
            };
            match turn.loss {
                Some(Loss::Request) => lost(),
                Some(Loss::Answer) => {
                    // Its answer is what gets lost.
                    let _ = engine.shared.lock().take(id, request);
                    lost()
                }
                None => engine.shared.lock().take(id, request),
            }
        }
        .boxed()
    }

    fn watch_exists(&self, _: String) -> BoxFuture<'static, Result<(Option<Stat>, ExistsWatch)>> {
        unsupported()
    }

    fn watch_tree(&self, _: String, _: usize) -> BoxFuture<'static, Result<TreeWatch>> {
        unsupported()
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.engine.shared.lock().end(self.id, SessionState::Closed);
        std::future::ready(Ok(())).boxed()
    }
}

fn unsupported<T: Send + 'static>() -> BoxFuture<'static, Result<T>> {
    std::future::ready(Err(Error::new(Kind::BadArguments, "the model has no watches"))).boxed()
}
