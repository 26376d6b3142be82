//! Jobs and batches, put into a tree by plain creates; and a requeue that is as careful as a real one.

use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::error::{Error, Result};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, BatchNode, JobNode, Priority, QueueRef};
use ingest_queue::nodes::{
    BatchStatus, Configuration, Entry, Expansion, History, Identifiers, JobStatus, Node, Number, Submission,
};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::{Kind, Op, Session};

/// A moment, counted in minutes.
pub(crate) fn minute(number: i64) -> Date {
    Date::from_millis(number * 60_000)
}

/// The directories of an empty queue.
pub(crate) async fn ground(session: &Session) {
    for dir in map::directories(Dialect::Design) {
        session.make_dirs(&dir).await.unwrap();
    }
}

/// A job, as it is to be.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) jid: Jid,
    pub(crate) bid: Bid,
    pub(crate) priority: Priority,
    pub(crate) status: JobStatus,
    pub(crate) configuration: Configuration,
    pub(crate) identifiers: Identifiers,
}

impl Job {
    pub(crate) fn new(number: u32, state: JobState) -> Self {
        Self {
            jid: Jid::new(number),
            bid: Bid::new(1),
            priority: Priority::DEFAULT,
            status: JobStatus::new(state, minute(1)),
            configuration: Configuration::default(),
            identifiers: Identifiers::default(),
        }
    }

    pub(crate) fn entry(&self) -> QueueRef {
        QueueRef::new(self.status.status, self.priority, self.jid)
    }

    fn ops(&self) -> Vec<Op> {
        let write = |node: JobNode, data: &dyn Fn() -> bytes::Bytes| Op::create(node.of(self.jid), data());
        vec![
            Op::create(map::job(self.jid), ""),
            write(JobNode::Bid, &|| self.bid.to_string().into()),
            write(JobNode::Status, &|| self.status.write(Dialect::Design)),
            write(JobNode::Configuration, &|| self.configuration.write(Dialect::Design)),
            write(JobNode::Identifiers, &|| self.identifiers.write(Dialect::Design)),
            write(JobNode::Priority, &|| Number(self.priority.number().into()).write(Dialect::Design)),
            Op::create(self.entry().path(), ""),
        ]
    }
}

/// Puts jobs into their queues; those of a batch that is there, into its lists as well.
pub(crate) async fn plant(session: &Session, jobs: &[Job]) {
    for chunk in jobs.chunks(100) {
        let mut ops = Vec::new();
        for job in chunk {
            ops.extend(job.ops());
            if session.exists(map::batch(job.bid)).await.unwrap().is_some() {
                ops.push(Op::create(map::batch_ref(job.bid, job.status.status.list(), job.jid), ""));
            }
        }
        session.multi(ops).await.unwrap();
    }
}

/// Jobs that differ in nothing but their number.
pub(crate) fn alike(numbers: impl IntoIterator<Item = u32>, state: JobState) -> Vec<Job> {
    numbers.into_iter().map(|number| Job::new(number, state)).collect()
}

/// Takes a job out of the tree.
pub(crate) async fn uproot(session: &Session, job: &Job) {
    let mut ops: Vec<Op> = job.ops().iter().map(|op| Op::delete(op.path(), None)).collect();
    ops.reverse();
    session.multi(ops).await.unwrap();
}

/// A batch, as it is to be.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) bid: Bid,
    pub(crate) status: BatchStatus,
    pub(crate) submission: Submission,
    pub(crate) expansion: Option<Expansion>,
}

impl Batch {
    pub(crate) fn new(number: u32, state: BatchState) -> Self {
        let (status, submission) = (BatchStatus::new(state, minute(1)), Submission::default());
        Self { bid: Bid::new(number), status, submission, expansion: None }
    }

    pub(crate) async fn plant(&self, session: &Session) {
        let mut ops = vec![
            Op::create(map::batch(self.bid), ""),
            Op::create(BatchNode::Status.of(self.bid), self.status.write(Dialect::Design)),
            Op::create(BatchNode::Submission.of(self.bid), self.submission.write(Dialect::Design)),
            Op::create(BatchNode::States.of(self.bid), ""),
        ];
        ops.extend(BatchList::ALL.map(|list| Op::create(map::batch_list(self.bid, list), "")));
        let expansion = self.expansion.as_ref().map(|expansion| expansion.write(Dialect::Design));
        ops.extend(expansion.map(|data| Op::create(BatchNode::Expansion.of(self.bid), data)));
        session.multi(ops).await.unwrap();
    }
}

pub(crate) async fn status(session: &Session, jid: Jid) -> (JobStatus, i32) {
    let (data, stat) = session.get(JobNode::Status.of(jid)).await.unwrap();
    (JobStatus::read(&data).unwrap(), stat.version)
}

pub(crate) async fn history(session: &Session, jid: Jid) -> History {
    match session.get(JobNode::History.of(jid)).await {
        Ok((data, _)) => History::read(&data).unwrap(),
        Err(error) if error.kind() == Kind::NoNode => History::default(),
        Err(error) => panic!("{error}"),
    }
}

/// Moves a job in one multi at its version, with the commit id in its history.
pub(crate) async fn go(session: &Session, jid: Jid, to: JobState, commit: &str) -> Result<()> {
    let (data, stat) = session.get(JobNode::Status.of(jid)).await?;
    let mut status = JobStatus::read(&data).unwrap();
    let past = match session.get(JobNode::History.of(jid)).await {
        Ok((data, _)) => Some(History::read(&data).unwrap()),
        Err(error) if error.kind() == Kind::NoNode => None,
        Err(error) => return Err(error.into()),
    };
    let from = status.status;
    let entry: Entry = serde_json::from_value(
        serde_json::json!({"at": minute(2), "from": from, "to": to, "commit": commit}),
    )
    .unwrap();
    let next = past.clone().unwrap_or_default().and(entry).write(Dialect::Design);
    let path = JobNode::History.of(jid);
    status.status = to;
    status.retry_count += u32::from(from == JobState::Failed);
    let ops = vec![
        Op::set(JobNode::Status.of(jid), status.write(Dialect::Design), stat.version),
        Op::delete(QueueRef::new(from, Priority::DEFAULT, jid).path(), None),
        Op::create(QueueRef::new(to, Priority::DEFAULT, jid).path(), ""),
        if past.is_some() { Op::set(path, next, None) } else { Op::create(path, next) },
    ];
    match session.multi(ops).await {
        Err(error) if error.failed_op().is_some() => {
            Err(Error::Changed { what: jid.to_string(), why: error.to_string() })
        }
        answer => Ok(answer.map(drop)?),
    }
}
