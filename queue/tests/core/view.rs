//! What a tree says of jobs, batches and access items, read by hand.

use std::collections::{BTreeMap, BTreeSet};

use ingest_queue::ids::{Aid, Bid, Jid};
use ingest_queue::map::{self, AccessSize, BatchNode, JobNode, QueueRef};
use ingest_queue::nodes::{
    AccessStatus, BatchStatus, Configuration, Entry, Expansion, History, JobStatus, Node, Number, Schedule,
    Submission,
};
use ingest_queue::states::{BatchList, BatchState, JobState, States};

use crate::model::Tree;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobView {
    pub(crate) bid: Bid,
    pub(crate) status: JobStatus,
    pub(crate) version: i32,
    pub(crate) priority: i64,
    pub(crate) collection: String,
    pub(crate) history: Vec<Entry>,
    pub(crate) timeouts: u32,
    /// The session that holds its lock.
    pub(crate) lock: Option<i64>,
    pub(crate) refs: Vec<QueueRef>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BatchView {
    pub(crate) status: BatchStatus,
    pub(crate) version: i32,
    pub(crate) submission: Submission,
    pub(crate) expansion: Option<Expansion>,
    pub(crate) lists: BTreeMap<&'static str, BTreeSet<Jid>>,
    pub(crate) lock: Option<i64>,
    pub(crate) deleting: bool,
    /// It failed before it had jobs, and is not told yet.
    pub(crate) owes: bool,
}

impl BatchView {
    pub(crate) fn list(&self, list: BatchList) -> &BTreeSet<Jid> {
        &self.lists[list.name()]
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AccessView {
    pub(crate) status: AccessStatus,
    pub(crate) version: i32,
    pub(crate) lock: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    pub(crate) jobs: BTreeMap<Jid, JobView>,
    pub(crate) batches: BTreeMap<Bid, BatchView>,
    pub(crate) access: BTreeMap<(AccessSize, Aid), AccessView>,
    pub(crate) held_queues: BTreeSet<String>,
    pub(crate) held_collections: BTreeSet<String>,
}

impl View {
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut refs: BTreeMap<Jid, Vec<QueueRef>> = BTreeMap::new();
        for (path, _) in tree.nodes().filter(|(path, _)| path.starts_with(map::JOB_STATES)) {
            if let Some(entry) = QueueRef::from_path(path) {
                refs.entry(entry.jid).or_default().push(entry);
            }
        }
        let jobs =
            ids(tree, map::JOBS).map(|jid| (jid, job(tree, jid, refs.remove(&jid).unwrap_or_default())));
        let batches = ids(tree, map::BATCHES).map(|bid| (bid, batch(tree, bid)));
        let access = AccessSize::ALL
            .into_iter()
            .flat_map(|size| ids(tree, &size.dir()).map(move |aid| ((size, aid), access(tree, size, aid))));
        let names = |dir: &str| tree.children(dir).map(str::to_owned).collect();
        Self {
            jobs: jobs.collect(),
            batches: batches.collect(),
            access: access.collect(),
            held_queues: names(map::QUEUE_HOLDS),
            held_collections: names(map::COLLECTION_HOLDS),
        }
    }
}

fn ids<'a, I: std::str::FromStr + 'a>(tree: &'a Tree, dir: &str) -> impl Iterator<Item = I> + use<'a, I> {
    tree.children(dir).filter_map(|name| name.parse().ok())
}

fn find<N: Node>(tree: &Tree, path: &str) -> Option<(N, i32)> {
    let node = tree.get(path)?;
    let read = N::read(&node.data).unwrap_or_else(|why| panic!("{path}: {why}"));
    Some((read, node.version))
}

fn must<N: Node>(tree: &Tree, path: &str) -> (N, i32) {
    find(tree, path).unwrap_or_else(|| panic!("{path} is missing"))
}

fn text(tree: &Tree, path: &str) -> String {
    String::from_utf8(tree.get(path).unwrap_or_else(|| panic!("{path} is missing")).data.to_vec()).unwrap()
}

fn job(tree: &Tree, jid: Jid, refs: Vec<QueueRef>) -> JobView {
    let (status, version) = must::<JobStatus>(tree, &JobNode::Status.of(jid));
    let configuration = must::<Configuration>(tree, &JobNode::Configuration.of(jid)).0;
    JobView {
        bid: text(tree, &JobNode::Bid.of(jid)).parse().unwrap(),
        status,
        version,
        priority: must::<Number>(tree, &JobNode::Priority.of(jid)).0.0,
        collection: configuration.collection().to_owned(),
        history: find::<History>(tree, &JobNode::History.of(jid))
            .map(|found| found.0.entries)
            .unwrap_or_default(),
        timeouts: find::<Schedule>(tree, &JobNode::Schedule.of(jid)).map_or(0, |found| found.0.timeout_count),
        lock: tree.get(&JobNode::Lock.of(jid)).map(|node| node.owner),
        refs,
    }
}

fn batch(tree: &Tree, bid: Bid) -> BatchView {
    let (status, version) = must::<BatchStatus>(tree, &BatchNode::Status.of(bid));
    let list = |list: BatchList| (list.name(), ids(tree, &map::batch_list(bid, list)).collect());
    let owes = status.status == BatchState::Failed && tree.get(&map::outbox(bid, 1)).is_some();
    BatchView {
        owes,
        status,
        version,
        submission: must(tree, &BatchNode::Submission.of(bid)).0,
        expansion: find(tree, &BatchNode::Expansion.of(bid)).map(|found| found.0),
        lists: BatchList::ALL.into_iter().map(list).collect(),
        lock: tree.get(&BatchNode::Lock.of(bid)).map(|node| node.owner),
        deleting: tree.get(&BatchNode::Deleting.of(bid)).is_some(),
    }
}

fn access(tree: &Tree, size: AccessSize, aid: Aid) -> AccessView {
    let (status, version) = must::<AccessStatus>(tree, &size.status(aid));
    AccessView { status, version, lock: tree.get(&size.lock(aid)).map(|node| node.owner) }
}

impl JobView {
    pub(crate) fn state(&self) -> JobState {
        self.status.status
    }

    pub(crate) fn name(&self) -> &'static str {
        self.state().name()
    }
}
