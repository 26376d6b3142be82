//! Two nodes on a model tree, with all the leases that they ever had.

use ingest_queue::access::AccessLease;
use ingest_queue::batches::BatchLease;
use ingest_queue::date::{Clock, Date};
use ingest_queue::dialect::Dialect;
use ingest_queue::jobs::Lease;
use ingest_queue::map::{Priority, QueueRef};
use ingest_queue::queue::{Queue, Settings};

use crate::call::{Call, Held, Left, collection, submission};
use crate::event::{BatchStep, Event, NEWEST};
use crate::model::ModelEngine;
use crate::view::View;

/// More calls than any sequence needs.
const BUDGET: usize = 200_000;
pub(crate) const MAX_TIMEOUTS: u32 = 3;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) engine: ModelEngine,
    pub(crate) dialect: Dialect,
    /// What the tree said when it was last looked at.
    pub(crate) view: View,
    clock: Clock,
    nodes: Vec<Queue>,
    /// Newest last. Spent ones stay: somebody may try them.
    jobs: Vec<Held<Lease>>,
    batches: Vec<Held<BatchLease>>,
    access: Vec<Held<AccessLease>>,
    commits: u32,
}

impl World {
    pub(crate) async fn new(dialect: Dialect) -> Self {
        let engine = ModelEngine::new(BUDGET);
        let clock = Clock::fixed(Date::from_millis(1_800_000_000_000));
        let (jobs, batches, access) = (Vec::new(), Vec::new(), Vec::new());
        let view = View::of(&engine.tree());
        let nodes = Vec::new();
        let mut world = Self { engine, dialect, view, clock, nodes, jobs, batches, access, commits: 0 };
        for number in 0..2 {
            let node = world.start_node(number).await;
            world.nodes.push(node);
        }
        world.look();
        world
    }

    async fn start_node(&self, number: usize) -> Queue {
        let session = self.engine.session().await;
        let mut settings = Settings::new(format!("node-{number}"));
        settings.incarnation = format!("life-{}", session.id());
        settings.dialect = self.dialect;
        settings.max_timeouts = MAX_TIMEOUTS;
        Queue::open(&session, settings, self.clock.clone()).await.unwrap()
    }

    /// A session ends without a word; its node begins a new life. What it leased is still in somebody's
    /// hands.
    pub(crate) async fn restart(&mut self, node: u8) {
        let number = usize::from(node) % self.nodes.len();
        self.engine.expire(self.nodes[number].session().id());
        self.nodes[number] = self.start_node(number).await;
    }

    /// Looks at the tree; the view before is given back.
    pub(crate) fn look(&mut self) -> View {
        std::mem::replace(&mut self.view, View::of(&self.engine.tree()))
    }

    /// What an event comes to here and now; `None` if there is nothing that it could be about.
    pub(crate) fn call(&mut self, event: &Event) -> Option<Call> {
        let view = &self.view;
        let node = |node: u8| self.nodes[usize::from(node) % self.nodes.len()].clone();
        let of = |pick: u8, len: usize| {
            let from_the_end = usize::from(NEWEST - pick);
            let at = if from_the_end < 10 {
                len.saturating_sub(1 + from_the_end)
            } else {
                usize::from(pick) % len.max(1)
            };
            (len > 0).then_some(at)
        };
        let job = |pick: u8| of(pick, view.jobs.len()).and_then(|at| view.jobs.iter().nth(at));
        let batch =
            |pick: u8| of(pick, view.batches.len()).and_then(|at| view.batches.keys().nth(at).copied());
        Some(match event.clone() {
            Event::CreateBatch { node: at, uuid, collection: of } => Call::CreateBatch {
                queue: node(at),
                uuid: format!("uuid-{uuid}"),
                submission: submission(collection(of)),
            },
            Event::AcquireBatch { node: at, batch: pick } => {
                Call::AcquireBatch { queue: node(at), bid: batch(pick)? }
            }
            Event::WithBatch { lease, step } => {
                let held = take(&mut self.batches, lease)?;
                let cursor = view.batches.get(&held.lease.bid()).and_then(|batch| batch.expansion.as_ref());
                let cursor = cursor.map_or(0, |expansion| expansion.next);
                let astray = matches!(step, BatchStep::Expand { astray: true, .. });
                Call::WithBatch { held, step, first: cursor + u64::from(astray) }
            }
            Event::Acquire { node: at, job: pick, stale } => {
                let (jid, job) = job(pick)?;
                let priority = stale.unwrap_or(Priority::nearest(job.priority));
                let entry = QueueRef::new(job.state(), priority, *jid);
                Call::Acquire { queue: node(at), entry, holder: holder(pick) }
            }
            Event::WithJob { lease, step } => Call::WithJob { held: take(&mut self.jobs, lease)?, step },
            Event::WorkerDies { node: at, holder: pick } => {
                Call::WorkerDies { queue: node(at), holder: holder(pick) }
            }
            Event::SessionDies { .. } => return None,
            Event::Act { node: at, job: pick, action, force } => {
                let (queue, jid) = (node(at), *job(pick)?.0);
                self.commits += 1;
                Call::Act { queue, jid, action, force, commit: format!("act-{}", self.commits) }
            }
            Event::ActOnBatch { node: at, batch: pick, action, force } => {
                Call::ActOnBatch { queue: node(at), bid: batch(pick)?, action, force }
            }
            Event::RemoveBatch { node: at, batch: pick, janitor, force } => {
                Call::RemoveBatch { queue: node(at), bid: batch(pick)?, janitor, force }
            }
            Event::HoldCollection { node: at, collection: of, hold } => {
                Call::HoldCollection { queue: node(at), name: collection(of), hold }
            }
            Event::HoldQueue { node: at, queue: which, hold } => {
                Call::HoldQueue { queue: node(at), which, hold }
            }
            Event::CreateAccess { node: at, size } => Call::CreateAccess { queue: node(at), size },
            Event::AcquireAccess { node: at, size } => Call::AcquireAccess { queue: node(at), size },
            Event::WithAccess { lease, step } => {
                Call::WithAccess { held: take(&mut self.access, lease)?, step }
            }
            Event::ActOnAccess { node: at, item, act } => {
                let (size, aid) = *of(item, view.access.len()).and_then(|at| view.access.keys().nth(at))?;
                Call::ActOnAccess { queue: node(at), size, aid, act }
            }
        })
    }

    pub(crate) fn take_back(&mut self, left: Left) {
        self.jobs.extend(left.job);
        self.batches.extend(left.batch);
        self.access.extend(left.access);
    }

    /// Whether a lease on this job is in somebody's hands, of the same session.
    pub(crate) fn is_in_hand(&self, queue: &Queue, lock: &str) -> bool {
        let same = |other: &Queue| other.session().id() == queue.session().id();
        self.jobs.iter().any(|held| same(&held.queue) && held.lease.token().lock() == lock)
            || self.batches.iter().any(|held| same(&held.queue) && held.lease.token().lock() == lock)
    }
}

/// The one at this place from the end.
fn take<L>(held: &mut Vec<Held<L>>, pick: u8) -> Option<Held<L>> {
    if held.is_empty() {
        return None;
    }
    let at = held.len() - 1 - usize::from(pick) % held.len();
    Some(held.remove(at))
}

fn holder(pick: u8) -> String {
    format!("worker-{}", pick % 2)
}
