//! What there is: the tree, the nodes and what they remember, and how much more may happen.

use bytes::Bytes;
use ingest_queue::committer::{self, Mark, Sending};
use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, Priority};
use ingest_queue::nodes::{BatchStatus, Expansion, History, JobStatus, Node as _, Number, Outgoing};
use ingest_queue::plan::Scene;
use ingest_queue::plan::batch::{self, Batch};
use ingest_queue::plan::job::{self, Job, NewJob};
use ingest_queue::states::{BatchState, JobState};
use ingest_store::{Kind, Op};

use super::same::{Given, Shared};
use super::setup::Setup;
use crate::model::Tree;

pub(super) const BID: u32 = 0;

/// A node of the model's own, that the product knows nothing of: its version moves with whatever takes the batch or gives it back, so
/// that everybody's turn has a number of its own. Nothing is fenced by it.
pub(super) const TURN: &str = "/turn";

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) tree: Shared,
    pub(super) nodes: Vec<Node>,
    /// Sessions of nodes that crashed, which the server has not ended yet.
    pub(super) orphans: Vec<i64>,
    /// What a person has asked for, decided and not answered yet.
    pub(super) person: Option<Given>,
    /// How much more may break, be asked for, be made by others.
    pub(super) faults: u8,
    pub(super) asks: u8,
    pub(super) others: u8,
    /// The reports that were sent.
    pub(super) mails: Vec<Report>,
    /// What must never have happened.
    pub(super) wrong: Option<String>,
}

/// A node, as far as it remembers.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) session: i64,
    pub(super) leases: Vec<Lease>,
    pub(super) batch: Option<BatchWork>,
    /// What is decided and not answered yet.
    pub(super) hands: Vec<Given>,
}

/// A job that a node works on, or thinks that it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) jid: Jid,
    pub(super) version: i32,
    pub(super) priority: Priority,
    pub(super) status: Bytes,
    pub(super) history: Option<Bytes>,
    /// Its worker has died.
    pub(super) dead: bool,
    /// Its lock was given back before its work is committed: only where that rule is broken.
    pub(super) released: bool,
}

/// A batch that a node works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BatchWork {
    pub(super) version: i32,
    pub(super) turn: i32,
    pub(super) status: Bytes,
    pub(super) report: Option<Report>,
    /// Where the report has come to.
    pub(super) stage: Stage,
    /// There is something left, so it does not end.
    pub(super) waits: bool,
    /// Rows that have jobs and are not counted: only where that rule is broken.
    pub(super) owed: u64,
}

/// Where a report has come to, as far as its node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// In the outbox.
    Posted,
    Mailed,
    /// The outbox says that it was sent.
    Sent,
}

/// A report as it is drafted and sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Report {
    pub(super) number: u32,
    pub(super) completed: Vec<Jid>,
    pub(super) failed: Vec<Jid>,
    pub(super) deleted: Vec<Jid>,
}

/// Plans that are decided, and are sent until they are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hand {
    pub(super) units: Vec<committer::Unit>,
    /// What they are, in the same order.
    pub(super) meant: Vec<Meant>,
    pub(super) sending: Sending,
    /// The marks are being looked at.
    pub(super) look: Option<Look>,
}

/// What was sent again is refused, and perhaps an earlier try was applied: one mark after the other is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Look {
    /// What has refused it, and why.
    pub(super) op: usize,
    pub(super) kind: Kind,
    /// Which of the marks so far were there.
    pub(super) found: Vec<bool>,
}

/// A plan as it is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) unit: committer::Unit,
    pub(super) meant: Meant,
}

/// What a plan means to whoever sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meant {
    pub(super) name: &'static str,
    /// What gives the right to it, where one is needed.
    pub(super) right: Option<Right>,
    pub(super) then: Then,
}

/// A right that ends when somebody else gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Right {
    /// To a job: the attempt that it was taken with.
    Job(Jid, u32),
    /// To the batch: whose turn that is (see [`TURN`]).
    Batch(i32),
}

/// What a node remembers once its operations are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The report is in the outbox: by this, or already.
    Posted(BatchWork),
    Nothing,
}

pub(super) fn bid() -> Bid {
    Bid::new(BID)
}

impl Hand {
    pub(super) fn of(decided: Vec<Decided>) -> Self {
        let sending = Sending::new(decided.len());
        let (units, meant) = decided.into_iter().map(|decided| (decided.unit, decided.meant)).unzip();
        Self { units, meant, sending, look: None }
    }

    pub(super) fn names(&self) -> String {
        let left = self.sending.rest().iter().map(|at| self.meant[*at].name);
        left.collect::<Vec<_>>().join(" + ")
    }

    pub(super) fn is_about_the_batch(&self) -> bool {
        self.meant.iter().any(|meant| matches!(meant.then, Then::Batch(_) | Then::Posted(_)))
    }

    /// The texts that it looks for in the tree if an answer gets lost.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.units.iter().filter_map(|unit| match &unit.mark {
            Mark::Holds { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
    }
}

impl World {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut tree = Tree::new();
        let dirs = [map::JOBS, "/jobs/states", map::BATCHES, map::OUTBOX, TURN].map(str::to_owned);
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

    pub(super) fn hands(&self) -> impl Iterator<Item = &Given> {
        self.nodes.iter().flat_map(|node| &node.hands).chain(&self.person)
    }

    /// The circumstances of a plan, whose commit has a name that is in nothing which is under way. Names of commits that nobody
    /// looks for are forgotten (see `same`), so it is not in the tree, either.
    pub(super) fn scene(&self, what: &str) -> Scene {
        let name = |number: usize| format!("<{what} {number}>");
        let is_free = |name: &String| !self.hands().any(|hand| hand.names_a_commit(name));
        scene((0..10).map(name).find(is_free).unwrap())
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
        let Number(priority) = Number::read(&self.tree.get(&JobNode::Priority.of(jid))?.data).unwrap();
        Some(Lease {
            jid,
            version: status.version,
            priority: Priority::new(priority).unwrap(),
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

    /// Whose turn it is with the batch; also that of nobody has a number.
    pub(super) fn turn(&self) -> i32 {
        self.tree.get(TURN).unwrap().version
    }

    pub(super) fn expansion(&self) -> (Expansion, i32) {
        let node = self.tree.get(&BatchNode::Expansion.of(bid())).unwrap();
        (Expansion::read(&node.data).unwrap(), node.version)
    }

    /// A report in the outbox.
    pub(super) fn outgoing(&self, number: u32) -> Option<Outgoing> {
        self.tree.get(&map::outbox(bid(), number)).map(|node| Outgoing::read(&node.data).unwrap())
    }

    /// The number of the last report.
    pub(super) fn last_report(&self) -> Option<u32> {
        self.tree.get(&BatchNode::StatusReport.of(bid())).map(|node| u32::from(node.data[0]))
    }
}

impl Lease {
    pub(super) fn job(&self) -> Job {
        Job {
            jid: self.jid,
            bid: bid(),
            priority: self.priority,
            status: JobStatus::read(&self.status).unwrap(),
            version: self.version,
            history: self.history.as_ref().map(|data| History::read(data).unwrap()),
        }
    }

    pub(super) fn of(job: &Job) -> Self {
        Self {
            jid: job.jid,
            version: job.version,
            priority: job.priority,
            status: job.status.write(Dialect::Design),
            history: job.history.as_ref().map(|history| history.write(Dialect::Design)),
            dead: false,
            released: false,
        }
    }

    pub(super) fn status(&self) -> JobStatus {
        JobStatus::read(&self.status).unwrap()
    }
}

impl BatchWork {
    pub(super) fn batch(&self) -> Batch {
        Batch { bid: bid(), status: BatchStatus::read(&self.status).unwrap(), version: self.version }
    }

    pub(super) fn of(batch: &Batch, turn: i32) -> Self {
        let (version, status) = (batch.version, batch.status.write(Dialect::Design));
        Self { version, turn, status, report: None, stage: Stage::Posted, waits: false, owed: 0 }
    }

    /// Its right to the batch, as the check that it holds.
    pub(super) fn check(&self) -> Op {
        Op::check(BatchNode::Status.of(bid()), self.version)
    }
}

pub(super) fn scene(commit: String) -> Scene {
    Scene { dialect: Dialect::Design, now: Date::from_millis(0), node: "node".into(), commit }
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
        ops.extend(come_so_far(jid, setup.from));
    }
    ops
}

/// A new job, as if it had come so far without anything to tell.
pub(super) fn come_so_far(jid: Jid, to: JobState) -> Vec<Op> {
    if to == JobState::Pending {
        return Vec::new();
    }
    let there = |state| map::QueueRef::new(state, Priority::DEFAULT, jid).path();
    let status = JobStatus::new(to, Date::from_millis(0));
    vec![
        Op::set(JobNode::Status.of(jid), status.write(Dialect::Design), None),
        Op::delete(there(JobState::Pending), None),
        Op::create(there(to), Bytes::new()),
    ]
}
