//! What nodes decide to do with jobs, from what they read or remember.

use ingest_queue::committer::{Mark, Unit};
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::map::JobNode;
use ingest_queue::nodes::Node as _;
use ingest_queue::plan::Lock;
use ingest_queue::plan::claim::{self, Taker};
use ingest_queue::plan::job::{self, Change, Job};
use ingest_queue::states::{JobState, States, Who};
use ingest_store::Op;
use ingest_store::recipes::lock_table::release_ops;

use super::explore::Step;
use super::same::Given;
use super::setup::{Broken, Setup};
use super::world::{Decided, Hand, Lease, Meant, Right, Then, World, scene};

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
            self.break_something(setup, at, next);
        }
        self.send_what_is_decided(setup, next);
        self.people(setup, next);
        self.make_other_jobs(next);
        self.end_orphans(next);
    }

    fn decide_on_jobs(&self, setup: &Setup, at: usize, next: &mut Vec<Step<World>>) {
        let node = &self.nodes[at];
        if !node.is_free_for_jobs(setup) {
            return;
        }
        // What can be decided on each job.
        let mut on_each: Vec<(Jid, Vec<Decided>)> = Vec::new();
        for jid in self.jids() {
            let mine = node.leases.iter().any(|lease| lease.jid == jid);
            let Some(lease) = self.lease(jid).filter(|_| !mine && !self.is_locked(jid)) else { continue };
            on_each.push((jid, self.takings(setup, &lease)));
        }
        for lease in &node.leases {
            if lease.dead {
                self.decide(at, vec![give_back(lease, true)], next);
            } else if setup.broken == Some(Broken::ReleaseFirst) && !lease.released {
                self.decide(at, vec![release_first(lease)], next);
            } else {
                on_each.push((lease.jid, self.moves(setup, lease)));
            }
        }
        on_each.sort_by_key(|(jid, _)| *jid);
        for together in combined(&on_each, setup.coalesce) {
            self.decide(at, together, next);
        }
    }

    pub(super) fn decide(&self, at: usize, decided: Vec<Decided>, next: &mut Vec<Step<World>>) {
        let hand = Hand::of(decided);
        let mut to = self.clone();
        let name = format!("node {at} decides: {}", hand.names());
        to.nodes[at].hands.push(Given::new(hand));
        next.push(Step { name, fault: false, seen: None, to });
    }

    /// A job that waits is taken; a pending one is also taken and moved on in one, or only moved on.
    fn takings(&self, setup: &Setup, read: &Lease) -> Vec<Decided> {
        let job = read.job();
        if !job.state().is_taken_from() || job.state() == setup.until {
            return Vec::new();
        }
        let (jid, taker) = (job.jid, Taker::default());
        let decided = |name, unit, then| Decided { unit, meant: Meant { name, right: None, then } };
        let leased = |lease| Then::Lease { instead_of: None, lease };
        let taking = claim::job(&job, Vec::new(), &taker, &self.scene(&format!("take {jid}")));
        let (version, status) = (read.version + 1, taking.claim.data.clone());
        let lease = Lease { version, status, ..read.clone() };
        let take = decided("take", taking.unit(), leased(lease));
        if job.state() != JobState::Pending {
            return vec![take];
        }
        let (to, by) = (JobState::Estimating, Who::Queue);
        let scene = self.scene(&format!("admit {jid}"));
        let taking = claim::admission(&job, to, by, &[], &taker, &scene).unwrap();
        let lease = Lease::of(&taking.after);
        let admit = decided("admit", taking.unit(), leased(lease));
        let scene = self.scene(&format!("let in {jid}"));
        let plan = job::advance(&job, to, by, &Change::default(), Lock::Within, &[], &scene).unwrap();
        vec![take, admit, decided("let in", plan.unit(), Then::Nothing)]
    }

    /// What can become of a job that a worker has: done and given back, done and handed over, failed.
    fn moves(&self, setup: &Setup, lease: &Lease) -> Vec<Decided> {
        let job = lease.job();
        let Some(to) = job.state().success(Dialect::Design) else { return Vec::new() };
        let mut moves = vec![("done", to, Lock::GiveBack), ("failed", JobState::Failed, Lock::GiveBack)];
        if to.is_working() && to != setup.until && !lease.released {
            moves.push(("done and handed over", to, Lock::Keep));
        }
        let decided = |(name, to, lock)| self.moved(setup, name, lease, &job, to, lock);
        moves.into_iter().filter_map(decided).collect()
    }

    /// `None`: no table has that move.
    fn moved(
        &self,
        setup: &Setup,
        name: &'static str,
        lease: &Lease,
        job: &Job,
        to: JobState,
        lock: Lock,
    ) -> Option<Decided> {
        let scene = self.scene(&format!("{name} {}", job.jid));
        let by = if job.state() == JobState::Pending { Who::Queue } else { Who::Worker };
        let plan = job::advance(job, to, by, &Change::default(), lock, &[], &scene).ok()?;
        let (jid, version) = (lease.jid, lease.version);
        let then = match lock {
            Lock::Keep => Then::Lease { instead_of: Some((jid, version)), lease: Lease::of(&plan.after) },
            _ => Then::LetGo { jid, version },
        };
        let unit = Unit::new(broken(setup, plan.ops, lease), plan.mark);
        Some(Decided {
            unit,
            meant: Meant { name, right: Some(Right::Job(jid, lease.status().attempt)), then },
        })
    }
}

/// What is decided alone, and what goes together, in the order of the jobs: at most one of what can be decided on each. Another order is
/// not explored: it is this one with the jobs in each other's place.
fn combined(on_each: &[(Jid, Vec<Decided>)], together: bool) -> Vec<Vec<Decided>> {
    let mut all: Vec<Vec<Decided>> = vec![Vec::new()];
    for (_, choices) in on_each {
        let with = |before: &Vec<Decided>| {
            let with = |choice: &Decided| before.iter().chain([choice]).cloned().collect();
            choices.iter().map(with).collect::<Vec<_>>()
        };
        let more: Vec<_> = all.iter().filter(|before| together || before.is_empty()).flat_map(with).collect();
        all.extend(more);
    }
    all.retain(|decided| !decided.is_empty());
    all
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
pub(super) fn give_back(lease: &Lease, dead: bool) -> Decided {
    let (status, lock) = (lease.status(), JobNode::Lock.of(lease.jid));
    let right = Some(Right::Job(lease.jid, status.attempt));
    let status = if dead { status } else { job::given_back(&status, None, scene(String::new()).now) };
    let data = status.write(Dialect::Design);
    let ops = release_ops(&lock, &JobNode::Status.of(lease.jid), lease.version, data);
    let then = Then::LetGo { jid: lease.jid, version: lease.version };
    Decided { unit: Unit::new(ops, Mark::Gone(lock)), meant: Meant { name: "give back", right, then } }
}

/// The rule that is broken: first the lock, then the commit.
fn release_first(lease: &Lease) -> Decided {
    let mut decided = give_back(lease, true);
    let after = Lease { version: lease.version + 1, released: true, ..lease.clone() };
    let then = Then::Lease { instead_of: Some((lease.jid, lease.version)), lease: after };
    decided.meant = Meant { name: "release first", then, ..decided.meant };
    decided
}
