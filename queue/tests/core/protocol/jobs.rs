//! What nodes decide to do with jobs, from what they read or remember.

use ingest_queue::committer::{Mark, Unit};
use ingest_queue::dialect::Dialect;
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
use super::world::{Decided, Hand, Lease, Meant, Then, World, scene};

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
            self.break_something(at, next);
        }
        self.send_what_is_decided(setup, next);
        self.people(setup, next);
        self.make_other_jobs(next);
        self.end_orphans(next);
    }

    fn decide_on_jobs(&self, setup: &Setup, at: usize, next: &mut Vec<Step<World>>) {
        let node = &self.nodes[at];
        if !node.is_free() {
            return;
        }
        for jid in self.jids() {
            let mine = node.leases.iter().any(|lease| lease.jid == jid);
            let Some(lease) = self.lease(jid).filter(|_| !mine && !self.is_locked(jid)) else { continue };
            self.decide_to_take(setup, at, &lease, next);
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
            for decided in self.moves(setup, lease) {
                if decided.meant.name == "done" {
                    successes.push(decided.clone());
                }
                self.decide(at, vec![decided], next);
            }
        }
        if setup.coalesce && successes.len() > 1 {
            self.decide(at, successes, next);
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
    fn decide_to_take(&self, setup: &Setup, at: usize, read: &Lease, next: &mut Vec<Step<World>>) {
        let job = read.job();
        if !job.state().is_taken_from() || job.state() == setup.until {
            return;
        }
        let (jid, taker) = (job.jid, Taker::default());
        let decided = |name, unit, then| Decided { unit, meant: Meant { name, owner: None, then } };
        let leased = |lease| Then::Lease { instead_of: None, lease };
        let taking = claim::job(&job, Vec::new(), &taker, &self.scene(&format!("take {jid}")));
        let (version, status) = (read.version + 1, taking.claim.data.clone());
        let lease = Lease { version, status, ..read.clone() };
        self.decide(at, vec![decided("take", taking.unit(), leased(lease))], next);
        if job.state() != JobState::Pending {
            return;
        }
        let (to, by) = (JobState::Estimating, Who::Queue);
        let scene = self.scene(&format!("admit {jid}"));
        let taking = claim::admission(&job, to, by, &[], &taker, &scene).unwrap();
        let lease = Lease::of(&taking.after);
        self.decide(at, vec![decided("admit", taking.unit(), leased(lease))], next);
        let scene = self.scene(&format!("let in {jid}"));
        let plan = job::advance(&job, to, by, &Change::default(), Lock::Within, &[], &scene).unwrap();
        self.decide(at, vec![decided("let in", plan.unit(), Then::Nothing)], next);
    }

    /// What can become of a job that a worker has: done and given back, done and handed over, failed.
    fn moves(&self, setup: &Setup, lease: &Lease) -> Vec<Decided> {
        let job = match (setup.broken, lease.released) {
            (Some(Broken::ReleaseFirst), true) => match self.job(lease.jid) {
                // Its token is spent: it commits at what it reads now.
                Some(now) if now.state() == lease.status().status => now,
                _ => return Vec::new(),
            },
            _ => lease.job(),
        };
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
        Some(Decided { unit, meant: Meant { name, owner: Some((jid, lease.status().attempt)), then } })
    }
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
    let owner = Some((lease.jid, status.attempt));
    let status = if dead { status } else { job::given_back(&status, None, scene(String::new()).now) };
    let data = status.write(Dialect::Design);
    let ops = release_ops(&lock, &JobNode::Status.of(lease.jid), lease.version, data);
    let then = Then::LetGo { jid: lease.jid, version: lease.version };
    Decided { unit: Unit::new(ops, Mark::Gone(lock)), meant: Meant { name: "give back", owner, then } }
}

/// The rule that is broken: first the lock, then the commit.
fn release_first(lease: &Lease) -> Decided {
    let mut decided = give_back(lease, true);
    let after = Lease { version: lease.version + 1, released: true, ..lease.clone() };
    let then = Then::Lease { instead_of: Some((lease.jid, lease.version)), lease: after };
    decided.meant = Meant { name: "release first", then, ..decided.meant };
    decided
}
