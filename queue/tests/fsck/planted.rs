//! A healthy tree with batches and jobs in every state, made by hand: what is checked is the tree, and
//! not the code that usually makes it.

use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Aid, Bid, Jid};
use ingest_queue::map::{self, AccessSize, BatchNode, JobNode, Priority, QueueRef};
use ingest_queue::nodes::{
    AccessStatus, AccessToken, BatchStatus, Configuration, Entry, Expansion, History, Hold, Identifiers,
    Inventory, JobStatus, Keys, LocalId, Metadata, Node, Outgoing, Owner, Schedule, StatusReport, Submission,
    Work,
};
use ingest_queue::states::{AccessState, BatchList, BatchState, JobState};
use ingest_store::recipes::shard;
use ingest_store::{Mode, Op, Session};
use rand::RngCore;

pub(crate) const PRIORITY: Priority = Priority::DEFAULT;

/// What was planted.
pub(crate) struct Planted {
    session: Session,
    dialect: Dialect,
    next: u32,
    /// The jobs of the batch that is being processed, with their states.
    pub(crate) jobs: Vec<(Jid, JobState)>,
    /// One batch in each of the states.
    pub(crate) batches: Vec<(Bid, BatchState)>,
}

pub(crate) fn now() -> Date {
    Date::from_millis(1_763_000_000_000)
}

pub(crate) fn uuid(bid: Bid) -> String {
    format!("0000-{bid}")
}

/// Makes the tree with everything in it.
pub(crate) async fn plant(session: &Session, dialect: Dialect) -> Planted {
    let mut planted = empty(session, dialect).await;
    for state in [BatchState::Pending, BatchState::Held, BatchState::Failed] {
        planted.batch(state, None).await;
    }
    planted.processing().await;
    for state in
        [BatchState::Reporting, BatchState::Completed, BatchState::Failed, BatchState::UpdateReporting]
    {
        planted.ended(state).await;
    }
    planted.everything_of_a_job().await;
    planted.marks().await;
    planted.access().await;
    planted
}

/// Makes the directories.
pub(crate) async fn empty(session: &Session, dialect: Dialect) -> Planted {
    for dir in map::directories(dialect) {
        session.make_dirs(&dir).await.unwrap();
    }
    // What is planted has numbers that the counters have given out.
    for dir in [map::BATCHES, map::JOBS] {
        let child = format!("{dir}/skipped");
        let pair = || [Op::create(child.as_str(), ""), Op::delete(child.as_str(), None)];
        for _ in 0..2 {
            session.multi((0..400).flat_map(|_| pair()).collect()).await.unwrap();
        }
    }
    Planted { session: session.clone(), dialect, next: 0, jobs: Vec::new(), batches: Vec::new() }
}

impl Planted {
    pub(crate) fn bid(&self, state: BatchState) -> Bid {
        self.batches.iter().find(|(_, planted)| *planted == state).unwrap().0
    }

    pub(crate) fn jid(&self, state: JobState) -> Jid {
        self.jobs.iter().find(|(_, planted)| *planted == state).unwrap().0
    }

    pub(crate) async fn batch(&mut self, state: BatchState, expansion: Option<(u64, u64)>) -> Bid {
        let bid = Bid::new(u32::try_from(self.batches.len()).unwrap());
        let mut submission = Submission { profile_name: "p".into(), ..Submission::default() };
        submission.other.insert("uuid".into(), uuid(bid).into());
        let mut ops = vec![
            Op::create(map::batch(bid), ""),
            Op::create(BatchNode::Submission.of(bid), submission.write(self.dialect)),
            Op::create(BatchNode::Status.of(bid), BatchStatus::new(state, now()).write(self.dialect)),
            Op::create(BatchNode::States.of(bid), ""),
            Op::create(map::batch_uuid(&uuid(bid)), bid.to_string()),
        ];
        ops.extend(BatchList::ALL.map(|list| Op::create(map::batch_list(bid, list), "")));
        if let Some((next, total)) = expansion {
            let expansion = Expansion { next, total, done: next == total, ..Expansion::default() };
            ops.push(Op::create(BatchNode::Expansion.of(bid), expansion.write(self.dialect)));
        }
        self.session.multi(ops).await.unwrap();
        self.batches.push((bid, state));
        bid
    }

    pub(crate) async fn job(&mut self, bid: Bid, state: JobState) -> Jid {
        self.job_with(bid, state, PRIORITY).await
    }

    pub(crate) async fn job_with(&mut self, bid: Bid, state: JobState, priority: Priority) -> Jid {
        let jid = Jid::new(self.next);
        self.next += 1;
        self.session.multi(job_ops(jid, bid, state, priority, self.dialect)).await.unwrap();
        jid
    }

    /// A batch with a job in every state, of which one is gone and one cleaned up; not yet expanded to
    /// its end.
    async fn processing(&mut self) {
        let states: Vec<_> = JobState::queues(self.dialect).collect();
        let next = states.len() as u64 + 2;
        let bid = self.batch(BatchState::Processing, Some((next, next + 5))).await;
        for state in states {
            let jid = self.job(bid, state).await;
            self.jobs.push((jid, state));
        }
        let cleaned = self.job(bid, JobState::Completed).await;
        let entry = QueueRef::new(JobState::Completed, PRIORITY, cleaned);
        self.session.delete(entry.path(), None).await.unwrap();
        let gone = map::batch_ref(bid, BatchList::Deleted, Jid::new(900));
        self.session.create(gone, "", Mode::Persistent).await.unwrap();
        // Beyond what lies in one node, and not beyond what is read whole.
        let mut manifest = vec![0; 300 << 10];
        rand::rng().fill_bytes(&mut manifest);
        shard::write(&self.session, &BatchNode::Manifest.of(bid), &manifest, None).await.unwrap();
        let lock = Op::ephemeral(BatchNode::Lock.of(bid), Owner::default().write(self.dialect));
        self.session.multi(vec![lock]).await.unwrap();
    }

    async fn ended(&mut self, state: BatchState) {
        let bid = self.batch(state, Some((2, 2))).await;
        self.job(bid, JobState::Completed).await;
        // A job that was requeued leaves a failed batch failed.
        let second = match state {
            BatchState::Failed => JobState::Recording,
            BatchState::Completed => JobState::Completed,
            _ => JobState::Failed,
        };
        self.job(bid, second).await;
        if state == BatchState::Reporting {
            let report =
                Outgoing { bid, number: 1, composed: now(), sent: None, other: serde_json::Map::new() };
            let data = report.write(self.dialect);
            self.session.create(map::outbox(bid, 1), data, Mode::Persistent).await.unwrap();
        } else {
            let report = StatusReport { number: 1, ..StatusReport::default() }.write(self.dialect);
            shard::write(&self.session, &BatchNode::StatusReport.of(bid), &report, None).await.unwrap();
            shard::write(&self.session, &BatchNode::Manifest.of(bid), b"rows", None).await.unwrap();
        }
    }

    /// A job with every node that a job can have.
    async fn everything_of_a_job(&self) {
        let (jid, dialect) = (self.jid(JobState::Downloading), self.dialect);
        let entry = Entry {
            at: now(),
            from: Some(JobState::Provisioning),
            to: JobState::Downloading,
            node: "n".into(),
            attempt: 1,
            commit: "c".into(),
            message: String::new(),
            other: serde_json::Map::new(),
        };
        let create = |node: JobNode, data: bytes::Bytes| Op::create(node.of(jid), data);
        let ops = vec![
            create(JobNode::SpaceNeeded, "1000".into()),
            create(JobNode::Identifiers, Identifiers::default().write(dialect)),
            create(JobNode::Metadata, Metadata::default().write(dialect)),
            create(JobNode::Inventory, Inventory::default().write(dialect)),
            create(JobNode::Schedule, Schedule::default().write(dialect)),
            create(JobNode::Work, Work::default().write(dialect)),
            create(JobNode::History, History { entries: vec![entry] }.write(dialect)),
            create(JobNode::Store, "anything".into()),
            Op::create(format!("{}/foreign", map::job(jid)), "anything"),
            Op::ephemeral(JobNode::Lock.of(self.jid(JobState::Notify)), ""),
        ];
        self.session.multi(ops).await.unwrap();
    }

    async fn marks(&self) {
        let (dialect, waiting) = (self.dialect, self.jid(JobState::Pending));
        let hold = Hold { who: "me".into(), ..Hold::default() }.write(dialect);
        let reserved = LocalId {
            owner: "o".into(),
            local_id: "l".into(),
            primary_id: "ark:/1/2".into(),
            jid: Some(self.jid(JobState::Failed)),
            ..LocalId::default()
        };
        let keyed = self.bid(BatchState::Pending);
        let mut with_key = BatchStatus::new(BatchState::Pending, now());
        with_key.other.insert("key".into(), "k".into());
        let mut with_dates = JobStatus::new(JobState::Pending, now());
        (with_dates.process_date, with_dates.expiration_date) = (Some(now()), Some(now()));
        let ops = vec![
            Op::ephemeral(map::storage_lock("ark:/1/2"), ""),
            Op::ephemeral(map::inventory_lock("ark:/1/2"), ""),
            Op::create(map::local_id("o", "l"), reserved.write(dialect)),
            Op::create(map::HeldQueue::Ingest.path(), hold.clone()),
            Op::create(map::collection_hold("c"), hold),
            Op::create(map::journal_key("k"), Keys::default().waits("k", keyed).write(dialect)),
            Op::set(BatchNode::Status.of(keyed), with_key.write(dialect), None),
            Op::set(JobNode::Status.of(waiting), with_dates.write(dialect), None),
            Op::create(map::journal_date(now().millis(), waiting), ""),
            Op::create(map::journal_expiration(now().millis(), waiting), ""),
            Op::create(map::SEMAPHORES, r#"{"set":{"hosts":{"h":1}}}"#),
            Op::create("/semaphores/host-h", r#"{"kind":"host","name":"h"}"#),
            Op::create("/semaphores/host-h/0000", format!(r#"{{"job":"{}"}}"#, self.jid(JobState::Notify))),
            Op::ephemeral("/semaphores/host-h/0000/holder", ""),
            Op::create(map::SPACE, ""),
            Op::create("/space/fs", r#"{"reserved":1}"#),
            Op::create("/ltime", ""),
        ];
        self.session.multi(ops).await.unwrap();
    }

    async fn access(&self) {
        for (number, size) in AccessSize::ALL.into_iter().enumerate() {
            let aid = Aid::new(u32::try_from(number).unwrap());
            let status = AccessStatus::new(AccessState::Processing, now()).write(self.dialect);
            let ops = vec![
                Op::create(size.item(aid), ""),
                Op::create(size.token(aid), AccessToken::default().write(self.dialect)),
                Op::create(size.status(aid), status),
                Op::ephemeral(size.lock(aid), ""),
            ];
            self.session.multi(ops).await.unwrap();
        }
    }
}

/// Everything that a new job needs.
pub(crate) fn job_ops(jid: Jid, bid: Bid, state: JobState, priority: Priority, dialect: Dialect) -> Vec<Op> {
    let configuration = Configuration {
        batch_id: Some(bid),
        payload_url: "https://x.example/".into(),
        ..Configuration::default()
    };
    vec![
        Op::create(map::job(jid), ""),
        Op::create(JobNode::Bid.of(jid), bid.to_string()),
        Op::create(JobNode::Configuration.of(jid), configuration.write(dialect)),
        Op::create(JobNode::Status.of(jid), JobStatus::new(state, now()).write(dialect)),
        Op::create(JobNode::Priority.of(jid), priority.number().to_string()),
        Op::create(QueueRef::new(state, priority, jid).path(), ""),
        Op::create(map::batch_ref(bid, state.list(), jid), ""),
    ]
}

/// The status of a job.
pub(crate) async fn status(session: &Session, jid: Jid) -> JobStatus {
    JobStatus::read(&session.get(JobNode::Status.of(jid)).await.unwrap().0).unwrap()
}
