//! What there is: the tree, the nodes and what they remember, and how much more may happen.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use ingest_queue::committer::Mark;
use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, Priority};
use ingest_queue::nodes::{BatchStatus, Expansion, History, JobStatus, Node as _};
use ingest_queue::plan::Scene;
use ingest_queue::plan::batch::{self, Batch};
use ingest_queue::plan::job::{self, Job, NewJob};
use ingest_queue::states::{BatchState, JobState};
use ingest_store::Op;

use crate::model::Tree;

pub(super) const BID: u32 = 0;

/// What is explored.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) nodes: u8,
    /// Jobs that are there from the beginning, in this state.
    pub(super) jobs: u8,
    pub(super) from: JobState,
    /// Rows that have no job yet.
    pub(super) rows: u8,
    /// How many things may break.
    pub(super) faults: u8,
    /// What a person may do.
    pub(super) asks: u8,
    /// Jobs of other batches that somebody makes meanwhile.
    pub(super) others: u8,
    /// Whether somebody looks after the batch.
    pub(super) batch: bool,
    /// Whether commits of two jobs go together.
    pub(super) coalesce: bool,
    pub(super) broken: Option<Broken>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            nodes: 2,
            jobs: 0,
            from: JobState::Notify,
            rows: 0,
            faults: 1,
            asks: 0,
            others: 0,
            batch: false,
            coalesce: false,
            broken: None,
        }
    }
}

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The version of the lock fences instead of that of the status.
    FenceByLock,
    /// Nothing fences.
    NoVersion,
    /// The lock is given back before the commit and not with it.
    ReleaseFirst,
    /// The end of a batch is not proved.
    NoProofOfTheEnd,
    /// The cursor of an expansion moves after the jobs are made.
    CursorApart,
    /// What was refused the second time was not applied the first time, either.
    LostIsRefused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) tree: Shared,
    pub(super) nodes: Vec<Node>,
    /// Sessions of nodes that crashed, which the server has not ended yet.
    pub(super) orphans: Vec<i64>,
    /// What a person has asked for, decided and not sent yet.
    pub(super) person: Option<Hand>,
    /// How much more may break, be asked for, be made by others.
    pub(super) faults: u8,
    pub(super) asks: u8,
    pub(super) others: u8,
    /// The reports that were sent.
    pub(super) mails: Vec<Report>,
    /// What must never have happened.
    pub(super) wrong: Option<String>,
}

/// A tree that many states have in common, and its fingerprint.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    tree: Arc<Tree>,
    print: u64,
}

impl Shared {
    pub(super) fn new(tree: Tree) -> Self {
        let print = BuildHasherDefault::<DefaultHasher>::default().hash_one(&tree);
        Self { tree: Arc::new(tree), print }
    }
}

impl std::ops::Deref for Shared {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl Eq for Shared {}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.print.hash(to);
    }
}

/// A node, as far as it remembers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) session: i64,
    pub(super) leases: Vec<Lease>,
    pub(super) batch: Option<BatchWork>,
    /// What is decided and not answered yet.
    pub(super) hands: Vec<Hand>,
}

/// A job that a node works on, or thinks that it does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) jid: Jid,
    pub(super) version: i32,
    pub(super) status: Bytes,
    pub(super) history: Option<Bytes>,
    /// Its worker has died.
    pub(super) dead: bool,
    /// Its lock was given back before its work is committed: only where that rule is broken.
    pub(super) released: bool,
}

/// A batch that a node works on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct BatchWork {
    pub(super) version: i32,
    pub(super) status: Bytes,
    pub(super) report: Option<Report>,
    pub(super) mailed: bool,
    /// There is something left, so it does not end.
    pub(super) waits: bool,
    /// Rows that have jobs and are not counted: only where that rule is broken.
    pub(super) owed: u64,
}

/// A report as it is drafted and sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Report {
    pub(super) number: u32,
    pub(super) completed: Vec<Jid>,
    pub(super) failed: Vec<Jid>,
    pub(super) deleted: Vec<Jid>,
}

/// A multi that is decided, and is sent until it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hand {
    pub(super) units: Vec<Unit>,
    /// An answer was lost.
    pub(super) repeated: bool,
}

/// The operations of one thing, and what they mean to whoever sent them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) ops: Vec<Op>,
    pub(super) mark: Mark,
    /// Whose right to the job this rests on: the attempt that it was taken with.
    pub(super) owner: Option<(Jid, u32)>,
    pub(super) then: Then,
}

/// What a node remembers once its operations are applied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Then {
    /// It works on the job, as it is then.
    Lease {
        instead_of: Option<(Jid, i32)>,
        lease: Lease,
    },
    /// It has no part in the job any more.
    LetGo {
        jid: Jid,
        version: i32,
    },
    Batch(Option<BatchWork>),
    Nothing,
}

pub(super) fn bid() -> Bid {
    Bid::new(BID)
}

pub(super) fn scene(commit: String) -> Scene {
    Scene { dialect: Dialect::Design, now: Date::from_millis(0), node: "node".into(), commit }
}

impl World {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut tree = Tree::new();
        let dirs = [map::JOBS, "/jobs/states", map::BATCHES, map::OUTBOX].map(str::to_owned);
        for dir in dirs.into_iter().chain(JobState::queues(Dialect::Design).map(map::queue)) {
            tree.multi(&[Op::create(dir, Bytes::new())], 0).unwrap();
        }
        tree.multi(&first_ops(setup), 0).unwrap();
        let node = |number: u8| Node {
            session: i64::from(number + 1) * 100,
            leases: Vec::new(),
            batch: None,
            hands: Vec::new(),
        };
        Self {
            tree: Shared::new(tree),
            nodes: (0..setup.nodes).map(node).collect(),
            orphans: Vec::new(),
            person: None,
            faults: setup.faults,
            asks: setup.asks,
            others: setup.others,
            mails: Vec::new(),
            wrong: None,
        }
    }

    pub(super) fn jids(&self) -> Vec<Jid> {
        self.tree.children(map::JOBS).filter_map(|name| name.parse().ok()).collect()
    }

    /// A job as it would be read now.
    pub(super) fn job(&self, jid: Jid) -> Option<Job> {
        let lease = self.lease(jid)?;
        Some(lease.job())
    }

    /// What is read of a job before it is taken.
    pub(super) fn lease(&self, jid: Jid) -> Option<Lease> {
        let status = self.tree.get(&JobNode::Status.of(jid))?;
        let history = self.tree.get(&JobNode::History.of(jid)).map(|node| node.data.clone());
        Some(Lease {
            jid,
            version: status.version,
            status: status.data.clone(),
            history,
            dead: false,
            released: false,
        })
    }

    pub(super) fn is_locked(&self, jid: Jid) -> bool {
        self.tree.get(&JobNode::Lock.of(jid)).is_some()
    }

    /// The batch as it would be read now.
    pub(super) fn batch(&self) -> Batch {
        let node = self.tree.get(&BatchNode::Status.of(bid())).unwrap();
        Batch { bid: bid(), status: BatchStatus::read(&node.data).unwrap(), version: node.version }
    }

    pub(super) fn expansion(&self) -> (Expansion, i32) {
        let node = self.tree.get(&BatchNode::Expansion.of(bid())).unwrap();
        (Expansion::read(&node.data).unwrap(), node.version)
    }
}

impl Lease {
    pub(super) fn job(&self) -> Job {
        Job {
            jid: self.jid,
            bid: bid(),
            priority: Priority::DEFAULT,
            status: JobStatus::read(&self.status).unwrap(),
            version: self.version,
            history: self.history.as_ref().map(|data| History::read(data).unwrap()),
        }
    }

    pub(super) fn of(job: &Job) -> Self {
        Self {
            jid: job.jid,
            version: job.version,
            status: job.status.write(Dialect::Design),
            history: job.history.as_ref().map(|history| history.write(Dialect::Design)),
            dead: false,
            released: false,
        }
    }

    pub(super) fn attempt(&self) -> u32 {
        self.job().status.attempt
    }
}

impl BatchWork {
    pub(super) fn batch(&self) -> Batch {
        Batch { bid: bid(), status: BatchStatus::read(&self.status).unwrap(), version: self.version }
    }

    pub(super) fn of(batch: &Batch) -> Self {
        let status = batch.status.write(Dialect::Design);
        Self { version: batch.version, status, report: None, mailed: false, waits: false, owed: 0 }
    }
}

/// What the tree begins with: a batch whose expansion has begun, and its first jobs.
fn first_ops(setup: &Setup) -> Vec<Op> {
    let scene = scene("first".into());
    let total = u64::from(setup.jobs + setup.rows);
    let status = BatchStatus::new(BatchState::Processing, scene.now);
    let next = u64::from(setup.jobs);
    let expansion = Expansion { next, total, done: next == total, ..Expansion::default() };
    let mut ops = vec![
        Op::create(map::batch(bid()), Bytes::new()),
        Op::create(BatchNode::Status.of(bid()), status.write(scene.dialect)),
        Op::create(BatchNode::Expansion.of(bid()), expansion.write(scene.dialect)),
    ];
    ops.extend(batch::lists(bid()));
    for number in 0..setup.jobs {
        let jid = Jid::new(u32::from(number));
        ops.extend(job::create(jid, bid(), &NewJob::default(), &scene));
        // As if it had come so far without anything to tell.
        let status = JobStatus::new(setup.from, scene.now);
        let pending = map::QueueRef::new(JobState::Pending, Priority::DEFAULT, jid);
        let there = map::QueueRef::new(setup.from, Priority::DEFAULT, jid);
        ops.push(Op::set(JobNode::Status.of(jid), status.write(scene.dialect), None));
        ops.push(Op::delete(pending.path(), None));
        ops.push(Op::create(there.path(), Bytes::new()));
    }
    ops
}
