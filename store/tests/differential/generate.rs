//! Random steps that mostly make sense: what is known of the tree makes some of them succeed, and
//! what is known to be there, or not, makes others fail in each way there is.

use std::collections::BTreeMap;

use ingest_store::path::{join, parent};
use ingest_store::{Mode, Op};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::canon::Answer;

pub(crate) const SESSIONS: usize = 3;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Get(usize, String),
    Exists(usize, String),
    Children(usize, String),
    Ephemerals(usize, String),
    /// Create, set or delete, alone.
    One(usize, Op),
    Multi(usize, Vec<Op>),
    WatchExists(usize, String),
    /// The session is closed and another takes its place.
    EndSession(usize),
    /// A call on a handle whose session was closed before.
    OldHandle(usize, String),
}

/// What the generator believes of a node.
#[derive(Debug, Clone, Copy)]
struct Node {
    version: i32,
    owner: Option<usize>,
    /// How many children were ever created in it: the next sequence number.
    creates: i32,
}

#[derive(Debug)]
pub(crate) struct Generator {
    random: StdRng,
    nodes: BTreeMap<String, Node>,
    /// A directory whose next sequential child has a name that is taken.
    trapped: Option<String>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "s-"];

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        // The root has one child before the first step.
        let nodes = BTreeMap::from([("/".to_owned(), Node { version: 0, owner: None, creates: 1 })]);
        Self { random: StdRng::seed_from_u64(seed), nodes, trapped: None }
    }

    pub(crate) fn next(&mut self) -> Step {
        let session = self.random.random_range(0..SESSIONS);
        match self.random.random_range(0..100) {
            0..8 => Step::Get(session, self.mostly_there()),
            8..13 => Step::Exists(session, self.mostly_there()),
            13..19 => Step::Children(session, self.mostly_there()),
            19..21 => Step::Ephemerals(session, self.mostly_there()),
            21..60 => Step::One(session, self.op(false)),
            60..90 => {
                let length = self.random.random_range(1..6);
                let mut ops: Vec<Op> = (0..length).map(|_| self.op(true)).collect();
                ops.extend(self.replace());
                Step::Multi(session, ops)
            }
            90..95 => Step::WatchExists(session, self.mostly_there()),
            95..98 => Step::EndSession(session),
            _ => Step::OldHandle(session, self.mostly_there()),
        }
    }

    fn op(&mut self, in_multi: bool) -> Op {
        match self.random.random_range(0..if in_multi { 12 } else { 10 }) {
            0..5 => self.create(),
            5..7 => {
                let (path, version) = self.versioned();
                Op::Set { path, data: self.data().into(), version }
            }
            7..10 => {
                let (path, version) = self.versioned();
                Op::Delete { path, version }
            }
            _ => {
                let (path, version) = self.versioned();
                Op::Check { path, version }
            }
        }
    }

    /// Now and then a node is deleted and made again in the same multi.
    fn replace(&mut self) -> Vec<Op> {
        if !self.random.random_bool(0.15) {
            return Vec::new();
        }
        let path = self.mostly_there();
        if path == "/" {
            return Vec::new();
        }
        vec![Op::delete(path.clone(), None), Op::create(path, self.data())]
    }

    fn create(&mut self) -> Op {
        if let Some(parent) = self.trapped.take()
            && self.random.random_bool(0.8)
        {
            let mode =
                *[Mode::PersistentSequential, Mode::EphemeralSequential].choose(&mut self.random).unwrap();
            return Op::Create { path: join(&parent, "s-"), data: self.data().into(), mode };
        }
        let parent = match self.random.random_range(0..100) {
            0..12 => self.anything(),
            12..24 => self.ephemeral(),
            _ => self.parent(),
        };
        let (plain, sequential) =
            ([Mode::Persistent, Mode::Ephemeral], [Mode::PersistentSequential, Mode::EphemeralSequential]);
        let modes = if self.random.random_bool(0.6) { plain } else { sequential };
        let mode = *modes.choose(&mut self.random).unwrap();
        let name = if mode.is_sequential() {
            "s-".to_owned()
        } else if self.random.random_bool(0.2) {
            // This one moves the counter to its own number: the next sequential name is taken.
            self.trapped = Some(parent.clone());
            format!("s-{:010}", self.nodes.get(&parent).map_or(0, |node| node.creates + 1))
        } else {
            (*NAMES.choose(&mut self.random).unwrap()).to_owned()
        };
        Op::Create { path: join(&parent, &name), data: self.data().into(), mode }
    }

    fn versioned(&mut self) -> (String, Option<i32>) {
        let path = match self.mostly_there() {
            path if path == "/" => "/a".to_owned(),
            path => path,
        };
        let version = self.nodes.get(&path).map_or(0, |node| node.version);
        let version = match self.random.random_range(0..10) {
            0..4 => None,
            4..8 => Some(version),
            _ => Some(version + self.random.random_range(-1..3)),
        };
        // -1 is how the wire says "any": not a version.
        (path, version.filter(|version| *version >= 0))
    }

    fn mostly_there(&mut self) -> String {
        if self.random.random_bool(0.1) {
            return self.anything();
        }
        let paths: Vec<&String> = self.nodes.keys().collect();
        (*paths.choose(&mut self.random).unwrap()).clone()
    }

    /// A node that can have children, as far as is known.
    fn parent(&mut self) -> String {
        let known =
            self.nodes.iter().filter(|(path, node)| path.matches('/').count() < 4 && node.owner.is_none());
        let paths: Vec<&String> = known.map(|(path, _)| path).collect();
        (*paths.choose(&mut self.random).unwrap()).clone()
    }

    /// A node that cannot.
    fn ephemeral(&mut self) -> String {
        let known = self.nodes.iter().filter(|(_, node)| node.owner.is_some());
        let paths: Vec<&String> = known.map(|(path, _)| path).collect();
        paths.choose(&mut self.random).map_or_else(|| "/".to_owned(), |path| (*path).clone())
    }

    fn anything(&mut self) -> String {
        let depth = self.random.random_range(0..4);
        let names = (0..depth).map(|_| *NAMES.choose(&mut self.random).unwrap()).collect::<Vec<_>>();
        format!("/{}", names.join("/"))
    }

    fn data(&mut self) -> Vec<u8> {
        vec![b'x'; self.random.random_range(0..40)]
    }

    /// Believes what was answered.
    pub(crate) fn learn(&mut self, step: &Step, answer: &Answer) {
        match (step, answer) {
            (Step::One(session, op), Answer::Created(path, _)) => self.apply(*session, op, path),
            (Step::One(session, op), Answer::Set(_) | Answer::Done) => self.apply(*session, op, op.path()),
            (Step::Multi(session, ops), Answer::Multi(parts)) => {
                for (op, part) in ops.iter().zip(parts) {
                    let path = match part {
                        crate::canon::Part::Created(path) => path,
                        _ => op.path(),
                    };
                    self.apply(*session, op, path);
                }
            }
            (Step::EndSession(session), _) => self.nodes.retain(|_, node| node.owner != Some(*session)),
            _ => {}
        }
    }

    fn apply(&mut self, session: usize, op: &Op, path: &str) {
        match op {
            Op::Create { mode, .. } => {
                let owner = mode.is_ephemeral().then_some(session);
                self.nodes.insert(path.to_owned(), Node { version: 0, owner, creates: 0 });
                if let Some(parent) = self.nodes.get_mut(parent(path)) {
                    parent.creates += 1;
                }
            }
            Op::Set { .. } => {
                if let Some(node) = self.nodes.get_mut(path) {
                    node.version += 1;
                }
            }
            Op::Delete { .. } => {
                self.nodes.remove(path);
            }
            Op::Check { .. } => {}
        }
    }
}
