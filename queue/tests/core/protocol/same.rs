//! When two states are the same one.
//!
//! - **Nodes have no names.** What a node does depends on what it remembers and on which locks are its session's, never on its number. So
//!   the fingerprint of a state adds up those of its nodes, whatever their order, and a session is named by the locks that it has.
//! - **What a node has under way has no order.** Each is sent when it is.
//! - **Versions have no size.** A version is compared with the one that is there now, and with nothing else; it only grows. So it
//!   counts by how much older it is than that.
//! - **A commit that nobody looks for has no name.** Its text is taken out of the tree ([`World::tidied`]).
//!
//! Each of these maps a state to one that can do the same steps, to states that are the same again: whatever is wrong with one
//! is wrong with the other, and whatever end one comes to the other does, too.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use ingest_queue::dialect::Dialect;
use ingest_queue::map::{self, BatchNode, JobNode};
use ingest_queue::nodes::{BatchStatus, Expansion, History, Node as _};
use ingest_store::{Op, path};

use super::world::{BatchWork, Hand, Lease, Meant, Node, Right, TURN, Then, World, bid};
use crate::model::Tree;

fn print(of: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}

/// A tree that many states have in common, and its fingerprint: without versions, and without the owners of locks.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    tree: Arc<Tree>,
    print: u64,
    /// The locks with their sessions.
    locks: Arc<[(String, i64)]>,
}

impl Shared {
    pub(super) fn new(tree: Tree) -> Self {
        let mut hasher = DefaultHasher::new();
        let mut locks = Vec::new();
        for (at, node) in tree.nodes() {
            (at, &node.data, node.creates).hash(&mut hasher);
            if node.owner != 0 {
                locks.push((at.to_owned(), node.owner));
            }
        }
        Self { tree: Arc::new(tree), print: hasher.finish(), locks: locks.into() }
    }

    pub(super) fn print(&self) -> u64 {
        self.print
    }

    /// The fingerprint of a session: which locks are its.
    fn print_of(&self, session: i64) -> u64 {
        let locks = self.locks.iter().filter(|(_, owner)| *owner == session).map(|(path, _)| path.as_str());
        print(&locks.collect::<Vec<_>>())
    }

    pub(super) fn has_locks_of(&self, session: i64) -> bool {
        self.locks.iter().any(|(_, owner)| *owner == session)
    }

    /// How much older a version is than the one that is there; `None`: there is none.
    fn age(&self, at: &str, version: i32) -> Option<i32> {
        self.tree.get(at).map(|node| node.version - version)
    }
}

impl std::ops::Deref for Shared {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

/// A hand that many states have in common, and its fingerprint without versions.
#[derive(Debug, Clone)]
pub(super) struct Given {
    hand: Arc<Hand>,
    print: u64,
    /// The versions that its operations rest on.
    fences: Arc<[(String, i32)]>,
    /// The names of commits in what it writes: its own, and those before it in a history.
    names: Arc<[String]>,
}

impl Given {
    pub(super) fn new(hand: Hand) -> Self {
        let mut hasher = DefaultHasher::new();
        let (mut fences, mut names) = (Vec::new(), Vec::new());
        for op in hand.units.iter().flat_map(|unit| &unit.ops) {
            let (kind, data, version) = match op {
                Op::Check { version, .. } => ("check", None, version),
                Op::Create { data, .. } => ("create", Some(data), &None),
                Op::Set { data, version, .. } => ("set", Some(data), version),
                Op::Delete { version, .. } => ("delete", None, version),
            };
            (kind, op.path(), data, version.is_some()).hash(&mut hasher);
            fences.extend(version.map(|version| (op.path().to_owned(), version)));
            names.extend(data.into_iter().flat_map(|data| names_in(data)));
        }
        for unit in &hand.units {
            (unit.ops.len(), &unit.mark).hash(&mut hasher);
        }
        (&hand.sending, &hand.look).hash(&mut hasher);
        Self { hand: Arc::new(hand), print: hasher.finish(), fences: fences.into(), names: names.into() }
    }

    pub(super) fn names_a_commit(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    fn print(&self, tree: &Shared) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.print.hash(&mut hasher);
        for (at, version) in self.fences.iter() {
            tree.age(at, *version).hash(&mut hasher);
        }
        for meant in &self.hand.meant {
            print_of_meant(meant, tree).hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl std::ops::Deref for Given {
    type Target = Hand;

    fn deref(&self) -> &Hand {
        &self.hand
    }
}

fn print_of_meant(meant: &Meant, tree: &Shared) -> u64 {
    let age = |jid, version| tree.age(&JobNode::Status.of(jid), version);
    let then = match &meant.then {
        Then::Lease { instead_of, lease } => print(&(
            0,
            instead_of.map(|(jid, version)| (jid, age(jid, version))),
            print_of_lease(lease, tree),
        )),
        Then::LetGo { jid, version } => print(&(1, jid, age(*jid, *version))),
        Then::Batch(work) => print(&(2, work.as_ref().map(|work| print_of_work(work, tree)))),
        Then::Posted(work) => print(&(3, print_of_work(work, tree))),
        Then::Nothing => 4,
    };
    let right = meant.right.map(|right| match right {
        Right::Job(..) => print(&right),
        Right::Batch(turn) => print(&tree.age(TURN, turn)),
    });
    print(&(meant.name, right, then))
}

fn print_of_lease(lease: &Lease, tree: &Shared) -> u64 {
    let Lease { jid, version, priority, status, history, dead, released } = lease;
    let age = tree.age(&JobNode::Status.of(*jid), *version);
    print(&(jid, age, priority, status, history, dead, released))
}

fn print_of_work(work: &BatchWork, tree: &Shared) -> u64 {
    let BatchWork { version, turn, status, report, stage, waits, owed } = work;
    let ages = (tree.age(&BatchNode::Status.of(bid()), *version), tree.age(TURN, *turn));
    print(&(ages, status, report, stage, waits, owed))
}

fn print_of_node(node: &Node, tree: &Shared) -> u64 {
    let leases: Vec<u64> = node.leases.iter().map(|lease| print_of_lease(lease, tree)).collect();
    let batch = node.batch.as_ref().map(|work| print_of_work(work, tree));
    let hands = node.hands.iter().map(|hand| hand.print(tree)).fold(0, u64::wrapping_add);
    print(&(leases, batch, hands, tree.print_of(node.session)))
}

impl Hash for World {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self { tree, nodes, orphans, person, faults, asks, others, mails, wrong } = self;
        let nodes = nodes.iter().map(|node| print_of_node(node, tree)).fold(0, u64::wrapping_add);
        let orphans = orphans.iter().map(|session| tree.print_of(*session)).fold(0, u64::wrapping_add);
        let person = person.as_ref().map(|hand| hand.print(tree));
        (tree.print, nodes, orphans, person, faults, asks, others, mails, wrong).hash(to);
    }
}

impl World {
    /// With this tree, and without what nothing can depend on.
    pub(super) fn tidied(mut self, tree: Tree) -> Self {
        self.put_tree(tree);
        self.forget();
        self
    }

    /// The texts of commits that somebody may look for.
    fn awaited(&self) -> Vec<String> {
        self.hands().flat_map(|hand| hand.texts().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    pub(super) fn put_tree(&mut self, mut tree: Tree) {
        let awaited = self.awaited();
        for (at, node) in tree.nodes_mut() {
            if at != map::JOBS {
                node.creates = 0;
            }
            if !names_a_commit(&node.data) {
                continue;
            }
            node.data = match path::name(at) {
                "history" => without(&node.data, &awaited),
                "lock" if !is_in(&node.data, &awaited) => Bytes::new(),
                "status" if at.starts_with(map::BATCHES) => without_commits(&node.data, &awaited),
                "expansion" => without_commit(&node.data, &awaited),
                _ => continue,
            };
        }
        self.tree = Shared::new(tree);
    }

    /// What nodes remember, too.
    pub(super) fn forget(&mut self) {
        let awaited = self.awaited();
        for node in &mut self.nodes {
            for history in node.leases.iter_mut().filter_map(|lease| lease.history.as_mut()) {
                *history = without(history, &awaited);
            }
            if let Some(work) = &mut node.batch {
                work.status = without_commits(&work.status, &awaited);
            }
        }
        // A session that has nothing can end without anybody noticing.
        let tree = &self.tree;
        self.orphans.retain(|session| tree.has_locks_of(*session));
    }
}

fn names_a_commit(data: &[u8]) -> bool {
    data.contains(&b'<')
}

/// What is in pointed brackets.
fn names_in(data: &[u8]) -> Vec<String> {
    let mut parts = data.split(|byte| *byte == b'<');
    parts.next();
    let end = |part: &[u8]| part.iter().position(|byte| *byte == b'>');
    let name = |part: &[u8]| Some(format!("<{}>", std::str::from_utf8(&part[..end(part)?]).unwrap()));
    parts.filter_map(name).collect()
}

fn is_in(data: &[u8], texts: &[String]) -> bool {
    texts.iter().any(|text| data.windows(text.len()).any(|window| window == text.as_bytes()))
}

fn without(history: &Bytes, awaited: &[String]) -> Bytes {
    if !names_a_commit(history) {
        return history.clone();
    }
    let mut history = History::read(history).unwrap();
    history.entries.retain(|entry| awaited.contains(&entry.commit));
    history.write(Dialect::Design)
}

fn without_commits(status: &Bytes, awaited: &[String]) -> Bytes {
    if !names_a_commit(status) {
        return status.clone();
    }
    let mut read = BatchStatus::read(status).unwrap();
    if read.commits.iter().all(|commit| awaited.contains(commit)) {
        return status.clone();
    }
    read.commits.retain(|commit| awaited.contains(commit));
    read.write(Dialect::Design)
}

fn without_commit(expansion: &Bytes, awaited: &[String]) -> Bytes {
    let mut read = Expansion::read(expansion).unwrap();
    if awaited.contains(&read.commit) {
        return expansion.clone();
    }
    read.commit.clear();
    read.write(Dialect::Design)
}
