//! What nodes and people decide to do with jobs, from what they read or remember.

use bytes::Bytes;
use ingest_queue::committer::Mark;
use ingest_queue::dialect::Dialect;
use ingest_queue::map::{BatchNode, JobNode, Priority};
use ingest_queue::nodes::Node as _;
use ingest_queue::plan::Lock;
use ingest_queue::plan::job::{self, Action, Change, Job};
use ingest_queue::states::{BatchList, JobState, States, Who};
use ingest_store::recipes::lock_table::{Claim, release_ops};
use ingest_store::{Op, path};

use super::explore::Step;
use super::world::{Broken, Hand, Lease, Setup, Then, Unit, World, bid, scene};

impl World {
    /// Whatever can happen next.
    pub(super) fn steps(&self, setup: &Setup, next: &mut Vec<Step<World>>) {
        if self.wrong.is_some() {
            return;
        }
        for at in 0..self.nodes.len() {
            self.decide_on_jobs(setup, at, next);
            if setup.batch {
                self.decide_on_the_batch(setup, at, next);
            }
            self.send_what_is_decided(setup, at, next);
            self.break_something(at, next);
        }
        self.people(setup, next);
        self.make_other_jobs(next);
        self.end_orphans(next);
    }

    fn decide_on_jobs(&self, setup: &Setup, at: usize, next: &mut Vec<Step<World>>) {
        let node = &self.nodes[at];
        if !self.is_free(at) {
            return;
        }
        for jid in self.jids() {
            let Some(lease) = self.lease(jid) else { continue };
            let mine = node.leases.iter().any(|lease| lease.jid == jid);
            if lease.job().state().is_working() && !self.is_locked(jid) && !mine {
                self.decide(at, vec![take(at, &lease)], next);
            }
        }
        let mut successes = Vec::new();
        for lease in &node.leases {
            if lease.dead {
                self.decide(at, vec![give_back(lease, true)], next);
                continue;
            }
            if setup.broken == Some(Broken::ReleaseFirst) && !lease.released {
                self.decide(at, vec![release_first(lease)], next);
                continue;
            }
            for unit in self.moves(setup, at, lease) {
                if unit.name == "done" {
                    successes.push(unit.clone());
                }
                self.decide(at, vec![unit], next);
            }
        }
        if setup.coalesce && successes.len() > 1 {
            self.decide(at, successes, next);
        }
    }

    /// Whether a node may decide on something: nothing else of its is under way, but for what dead workers have left.
    pub(super) fn is_free(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        let is_of_the_dead = |unit: &Unit| match &unit.then {
            Then::Lease { instead_of: Some((jid, version)), .. } | Then::LetGo { jid, version } => {
                !node.leases.iter().any(|lease| !lease.dead && lease.jid == *jid && lease.version == *version)
            }
            _ => false,
        };
        node.hands.len() < 2 && node.hands.iter().all(|hand| hand.units.iter().all(is_of_the_dead))
    }

    pub(super) fn decide(&self, at: usize, units: Vec<Unit>, next: &mut Vec<Step<World>>) {
        let hand = Hand { units, repeated: false };
        if self.nodes[at].hands.contains(&hand) {
            return;
        }
        let mut to = self.clone();
        let names: Vec<_> = hand.units.iter().map(|unit| unit.name).collect();
        let name = format!("node {at} decides: {}", names.join(" + "));
        to.nodes[at].hands.push(hand);
        next.push(Step { name, fault: false, to });
    }

    /// What can become of a job that a worker has: done and given back, done and handed over, failed.
    fn moves(&self, setup: &Setup, at: usize, lease: &Lease) -> Vec<Unit> {
        let job = match (setup.broken, lease.released) {
            (Some(Broken::ReleaseFirst), true) => match self.job(lease.jid) {
                // Its token is spent: it commits at what it reads now.
                Some(now) if now.state() == lease.job().state() => now,
                _ => return Vec::new(),
            },
            _ => lease.job(),
        };
        let Some(to) = job.state().success(Dialect::Design) else { return Vec::new() };
        let mut moves = vec![("done", to, Lock::GiveBack), ("failed", JobState::Failed, Lock::GiveBack)];
        if to.is_working() && !lease.released {
            moves.push(("done and handed over", to, Lock::Keep));
        }
        let unit = |(name, to, lock)| moved(setup, at, name, lease, &job, to, lock);
        moves.into_iter().map(unit).collect()
    }

    /// A person decides from what is there now; it is sent later.
    fn people(&self, setup: &Setup, next: &mut Vec<Step<World>>) {
        if let Some(hand) = &self.person {
            self.send_of_a_person(setup, hand, next);
            return;
        }
        if self.asks == 0 {
            return;
        }
        let batch = self.batch();
        for jid in self.jids() {
            let Some(job) = self.job(jid) else { continue };
            let mut units = Vec::new();
            let open = Op::check(BatchNode::Status.of(bid()), batch.version);
            if job.state() == JobState::Failed && !batch.state().is_reporting() {
                units.push(self.asked(
                    &job,
                    "requeue",
                    &Action::Requeue(Some(setup.from)),
                    Lock::Within,
                    std::slice::from_ref(&open),
                ));
                units.push(self.asked(&job, "delete", &Action::Delete, Lock::Within, &[open]));
            }
            if job.state().is_working() && self.is_locked(jid) {
                let action = Action::SetPriority(Priority::DEFAULT);
                units.push(self.asked(&job, "take away", &action, Lock::TakeAway, &[]));
            }
            for unit in units {
                let mut to = self.clone();
                to.asks -= 1;
                let name = format!("a person decides: {} {jid}", unit.name);
                to.person = Some(Hand { units: vec![unit], repeated: false });
                next.push(Step { name, fault: false, to });
            }
        }
    }

    fn asked(&self, job: &Job, name: &'static str, action: &Action, lock: Lock, checks: &[Op]) -> Unit {
        let scene = scene(format!("{name} {} {}", job.jid, job.version));
        let (ops, mark) = if action.deletes() {
            let dir = ingest_queue::map::job(job.jid);
            let below: Vec<_> = self.tree.children(&dir).map(|name| path::join(&dir, name)).collect();
            let plan = job::delete(
                job,
                &below,
                lock,
                Some((BatchList::Deleted, bytes::Bytes::new())),
                checks,
                &[],
                &scene,
            );
            (plan.ops, plan.mark)
        } else {
            let plan = job::act(job, action, "", lock, checks, &scene).unwrap();
            (plan.ops, plan.mark)
        };
        Unit { name, ops, mark, owner: None, then: Then::Nothing }
    }
}

fn take(at: usize, read: &Lease) -> Unit {
    let (job, commit) = (read.job(), format!("take {at} {} {}", read.jid, read.version));
    let scene = scene(commit);
    let status = job::acquired(&job.status, scene.now);
    let claim = Claim {
        lock: JobNode::Lock.of(read.jid),
        owner: Bytes::from(scene.commit.clone()),
        fence: JobNode::Status.of(read.jid),
        version: read.version,
        data: status.write(scene.dialect),
        more: Vec::new(),
        holder: String::new(),
    };
    let lease = Lease { version: read.version + 1, status: claim.data.clone(), ..read.clone() };
    let mark = Mark::holds(claim.lock.as_str(), scene.commit);
    Unit { name: "take", ops: claim.ops(), mark, owner: None, then: Then::Lease { instead_of: None, lease } }
}

fn moved(
    setup: &Setup,
    at: usize,
    name: &'static str,
    lease: &Lease,
    job: &Job,
    to: JobState,
    lock: Lock,
) -> Unit {
    let scene = scene(format!("{name} {at} {} {}", job.jid, job.version));
    let plan = job::advance(job, to, Who::Worker, &Change::default(), lock, &[], &scene).unwrap();
    let (jid, version) = (lease.jid, lease.version);
    let then = match lock {
        Lock::Keep => Then::Lease { instead_of: Some((jid, version)), lease: Lease::of(&plan.after) },
        _ => Then::LetGo { jid, version },
    };
    let ops = broken(setup, plan.ops, lease);
    Unit { name, ops, mark: plan.mark, owner: Some((jid, lease.attempt())), then }
}

/// The operations without the rule that is broken.
fn broken(setup: &Setup, ops: Vec<Op>, lease: &Lease) -> Vec<Op> {
    let (status, lock) = (JobNode::Status.of(lease.jid), JobNode::Lock.of(lease.jid));
    let unfenced = |op: Op| match op {
        Op::Set { path, data, .. } if path == status => Op::set(path, data, None),
        op => op,
    };
    match setup.broken {
        Some(Broken::NoVersion) => ops.into_iter().map(unfenced).collect(),
        Some(Broken::FenceByLock) => {
            let mut ops: Vec<_> = ops.into_iter().map(unfenced).collect();
            ops.insert(0, Op::check(lock, 0));
            ops
        }
        Some(Broken::ReleaseFirst) => ops.into_iter().filter(|op| op.path() != lock).collect(),
        _ => ops,
    }
}

/// Gives a job back without a transition: because its worker has died, or properly.
pub(super) fn give_back(lease: &Lease, dead: bool) -> Unit {
    let (job, lock) = (lease.job(), JobNode::Lock.of(lease.jid));
    let status = if dead { job.status } else { job::given_back(&job.status, None, scene(String::new()).now) };
    let data = status.write(Dialect::Design);
    let ops = release_ops(&lock, &JobNode::Status.of(lease.jid), lease.version, data);
    let then = Then::LetGo { jid: lease.jid, version: lease.version };
    Unit { name: "give back", ops, mark: Mark::Gone(lock), owner: Some((lease.jid, lease.attempt())), then }
}

/// The rule that is broken: first the lock, then the commit.
fn release_first(lease: &Lease) -> Unit {
    let unit = give_back(lease, true);
    let after = Lease { version: lease.version + 1, released: true, ..lease.clone() };
    let then = Then::Lease { instead_of: Some((lease.jid, lease.version)), lease: after };
    Unit { name: "release first", then, ..unit }
}
