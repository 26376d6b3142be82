//! A tree with one batch and its jobs, for single behaviours.

use ingest_queue::batches::BatchLease;
use ingest_queue::date::{Clock, Date};
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::jobs::Lease;
use ingest_queue::map::QueueRef;
use ingest_queue::nodes::{Configuration, Submission};
use ingest_queue::plan::job::{Change, NewJob};
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::{JobState, States};

use crate::invariants::broken;
use crate::model::ModelEngine;
use crate::view::{BatchView, JobView, View};

pub(crate) const COLLECTION: &str = "demo";

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) engine: ModelEngine,
    /// The first node.
    pub(crate) queue: Queue,
    pub(crate) bid: Bid,
    pub(crate) jobs: Vec<Jid>,
}

pub(crate) fn change() -> Change {
    Change::message("a test")
}

pub(crate) async fn node(engine: &ModelEngine, name: &str) -> Queue {
    let session = engine.session().await;
    let clock = Clock::fixed(Date::from_millis(1_800_000_000_000));
    let mut settings = Settings::new(name);
    settings.max_timeouts = 3;
    Queue::open(&session, settings, clock).await.unwrap()
}

impl Stage {
    /// A batch that is pending.
    pub(crate) async fn empty() -> Self {
        let engine = ModelEngine::new(100_000);
        let queue = node(&engine, "first").await;
        let submission = Submission { profile_name: COLLECTION.into(), ..Submission::default() };
        let bid = queue.create_batch("uuid", &submission).await.unwrap().bid;
        Self { engine, queue, bid, jobs: Vec::new() }
    }

    /// A batch with so many jobs, all pending.
    pub(crate) async fn with_jobs(count: usize) -> Self {
        let mut stage = Self::empty().await;
        let mut lease = stage.batch_lease().await;
        stage.queue.begin_expansion(&mut lease, b"digest", count as u64).await.unwrap();
        let configuration = Configuration { profile_name: COLLECTION.into(), ..Configuration::default() };
        let new = NewJob { configuration, ..NewJob::default() };
        stage.queue.expand(&mut lease, 0, &vec![new; count]).await.unwrap();
        stage.queue.release_batch(&mut lease).await.unwrap();
        stage.jobs = stage.view().jobs.keys().copied().collect();
        stage
    }

    /// A batch with one job, in this state and with nobody at work on it.
    pub(crate) async fn with_job(to: JobState) -> (Self, Jid) {
        let stage = Self::with_jobs(1).await;
        let jid = stage.jobs[0];
        stage.walk(jid, to).await;
        (stage, jid)
    }

    /// Takes a job from where it is to a state that lies ahead.
    pub(crate) async fn walk(&self, jid: Jid, to: JobState) {
        while self.job(jid).state() != to {
            let mut lease = self.acquire(jid).await;
            if to == JobState::Failed && lease.job().state().may_fail() {
                self.queue.fail(&mut lease, &change()).await.unwrap();
            } else {
                self.queue.succeed(&mut lease, &change()).await.unwrap();
            }
        }
    }

    pub(crate) async fn acquire(&self, jid: Jid) -> Lease {
        self.queue.acquire(self.entry(jid), "worker").await.unwrap()
    }

    pub(crate) async fn batch_lease(&self) -> BatchLease {
        self.queue.acquire_batch(self.bid, "batches").await.unwrap()
    }

    pub(crate) async fn second(&self) -> Queue {
        node(&self.engine, "second").await
    }

    pub(crate) fn view(&self) -> View {
        View::of(&self.engine.tree())
    }

    pub(crate) fn job(&self, jid: Jid) -> JobView {
        self.view().jobs[&jid].clone()
    }

    pub(crate) fn batch(&self) -> BatchView {
        self.view().batches[&self.bid].clone()
    }

    /// The ref of a job.
    pub(crate) fn entry(&self, jid: Jid) -> QueueRef {
        self.job(jid).refs[0]
    }

    /// The tree is whole.
    pub(crate) fn assert_whole(&self) {
        assert_eq!(broken(&self.engine, &self.view(), Dialect::Design), Vec::<String>::new());
    }
}

trait MayFail {
    fn may_fail(self) -> bool;
}

impl MayFail for JobState {
    /// Whether its worker can say that it failed, and a person can try it again.
    fn may_fail(self) -> bool {
        self.is_working() && self != JobState::Estimating && self.failure(Dialect::Design).is_some()
    }
}
