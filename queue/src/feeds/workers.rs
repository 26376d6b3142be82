//! Those who consume feeds, and who of them is to have which.
//!
//! A worker is an ephemeral node that says which feeds it could consume (`offers`) and which it consumes (`queues`). The
//! first of them, by number, divides the feeds and writes that into `/workers` at its version; all do as it says. A feed
//! that is to go to another is given up by whoever has it, and taken by the other when its lock is free: never two at a
//! time, because of the lock, and whoever comes late has its commits refused.
//!
//! **When things break.** A worker goes with its session, and its locks with it. If the first one goes, the next is the
//! first. Two that both believe to be the first write at the same version: one is refused, and looks again.

use std::collections::{BTreeMap, BTreeSet};

use ingest_store::error::Outcome;
use ingest_store::recipes::settle;
use ingest_store::{Kind, Mode, Op, path};

use super::{Qid, assignment, worker_name};
use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::map;
use crate::nodes::{AssignmentNode, Node, WorkerNode};
use crate::queue::Queue;

/// All workers at one time, and what was said of who has what.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Workers {
    /// By name, which is in the order of their coming.
    pub all: BTreeMap<String, WorkerNode>,
    pub assigned: AssignmentNode,
    /// Of what was said: whoever says something else does so at this version.
    version: i32,
}

impl Workers {
    /// The one who divides the feeds.
    pub fn first(&self) -> Option<&str> {
        self.all.keys().next().map(String::as_str)
    }

    /// What a worker is to have.
    pub fn share(&self, worker: &str) -> BTreeSet<Qid> {
        self.assigned.assigned.get(worker).into_iter().flatten().copied().collect()
    }

    /// Who is to have a feed.
    pub fn assigned_to(&self, qid: Qid) -> Option<&str> {
        let has = |(_, feeds): &(&String, &Vec<Qid>)| feeds.contains(&qid);
        self.assigned.assigned.iter().find(has).map(|(worker, _)| worker.as_str())
    }

    /// The feeds as they should be divided, if that is not as it was said.
    pub fn divided(&self) -> Option<BTreeMap<String, Vec<Qid>>> {
        let offers: BTreeMap<&str, BTreeSet<Qid>> = self
            .all
            .iter()
            .map(|(name, worker)| (name.as_str(), worker.offers.iter().copied().collect()))
            .collect();
        let before = self.assigned.assigned.iter();
        let before = before.flat_map(|(worker, feeds)| feeds.iter().map(|qid| (*qid, worker.as_str())));
        let after = assignment::divide(&before.collect(), &offers);
        let mut shares: BTreeMap<String, Vec<Qid>> = BTreeMap::new();
        for (qid, worker) in after {
            shares.entry(worker.to_owned()).or_default().push(qid);
        }
        (shares != self.assigned.assigned).then_some(shares)
    }
}

impl Queue {
    /// Registers this session as a worker, or finds the one that it has; answers its path.
    pub async fn register_worker(&self, worker: &WorkerNode) -> Result<String> {
        let own = async || {
            let listed = settle(&self.session, || self.session.ephemerals(map::WORKERS)).await.answer?;
            Ok::<_, Error>(listed.into_iter().find(|at| is_worker(path::name(at))))
        };
        loop {
            // One from before, or a create whose answer was lost.
            if let Some(at) = own().await? {
                self.update_worker(&at, worker).await?;
                return Ok(at);
            }
            let at = path::join(map::WORKERS, map::WORKER);
            match self.session.create(at, worker.write(self.dialect()), Mode::EphemeralSequential).await {
                Ok((at, _)) => return Ok(at),
                Err(error) if error.outcome() == Outcome::NotApplied => return Err(error.into()),
                Err(error) if self.session.state().is_final() => return Err(error.into()),
                Err(_) => {}
            }
        }
    }

    /// Says what has changed; only the worker itself does so.
    pub async fn update_worker(&self, at: &str, worker: &WorkerNode) -> Result<()> {
        let data = worker.write(self.dialect());
        settle(&self.session, || self.session.set(at, data.clone(), None)).await.answer?;
        Ok(())
    }

    /// All workers, and what was said.
    pub async fn workers(&self) -> Result<Workers> {
        // What was said first: whoever says something else meanwhile moves the version.
        let (assigned, version) = match self.get(map::WORKERS).await {
            // Nobody can read it: it is said anew.
            Ok((data, stat)) => (AssignmentNode::read(&data).unwrap_or_default(), stat.version),
            Err(error) if error.kind() == Kind::NoNode => return Ok(Workers::default()),
            Err(error) => return Err(error.into()),
        };
        let names: Vec<String> = self.children(map::WORKERS).await?;
        let names: Vec<String> = names.into_iter().filter(|name| is_worker(name)).collect();
        let paths = names.iter().map(|name| path::join(map::WORKERS, name)).collect();
        let found = crate::reads::get_many(&self.session, paths).await?;
        let mut all = BTreeMap::new();
        for (name, found) in names.into_iter().zip(found) {
            let Some((data, _)) = found else { continue };
            all.insert(name, WorkerNode::read(&data).unwrap_or_default());
        }
        Ok(Workers { all, assigned, version })
    }

    /// Says who is to have what; `false` if somebody else has said something meanwhile.
    pub async fn assign_feeds(&self, seen: &Workers, shares: BTreeMap<String, Vec<Qid>>) -> Result<bool> {
        let scene = self.scene();
        let other = seen.assigned.other.clone();
        let node = AssignmentNode { assigned: shares, commit: scene.commit.clone(), other };
        let set = Op::set(map::WORKERS, node.write(scene.dialect), seen.version);
        let unit = Unit::new(vec![set], Mark::holds(map::WORKERS, scene.commit));
        match commit_alone(&self.session, unit).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == Kind::BadVersion => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The name of a worker by its path.
    pub fn worker_name(at: &str) -> String {
        worker_name(at)
    }
}

/// `worker-` and ten digits.
pub(crate) fn is_worker(name: &str) -> bool {
    let digits = name.strip_prefix(map::WORKER);
    digits.is_some_and(|digits| digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit()))
}
