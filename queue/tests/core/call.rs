//! An event with everything that it needs: it can be run beside others, and gives back what it took.

use ingest_queue::access::AccessLease;
use ingest_queue::batches::{BatchLease, ReportDraft};
use ingest_queue::error::{Error, Result};
use ingest_queue::ids::{Aid, Bid, Jid};
use ingest_queue::jobs::{Lease, Write};
use ingest_queue::map::{AccessSize, HeldQueue, QueueRef};
use ingest_queue::nodes::{AccessToken, Configuration, Submission, Work};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, Change, NewJob};
use ingest_queue::queue::Queue;
use ingest_queue::states::{JobState, States, Who};

use crate::event::{AccessAct, AccessStep, BatchStep, JobStep};

/// A lease, the queue that it is of, and who has it. It may be spent.
#[derive(Debug)]
pub(crate) struct Held<L> {
    pub(crate) queue: Queue,
    pub(crate) lease: L,
    /// The report that was drafted with it.
    pub(crate) draft: Option<ReportDraft>,
}

#[derive(Debug)]
pub(crate) enum Call {
    CreateBatch { queue: Queue, uuid: String, submission: Submission },
    AcquireBatch { queue: Queue, bid: Bid },
    WithBatch { held: Held<BatchLease>, step: BatchStep, first: u64 },
    Acquire { queue: Queue, entry: QueueRef, holder: String },
    WithJob { held: Held<Lease>, step: JobStep },
    WorkerDies { queue: Queue, holder: String },
    Act { queue: Queue, jid: Jid, action: Action, force: bool, commit: String },
    ActOnBatch { queue: Queue, bid: Bid, action: BatchAction, force: bool },
    RemoveBatch { queue: Queue, bid: Bid, janitor: bool, force: bool },
    HoldCollection { queue: Queue, name: String, hold: bool },
    HoldQueue { queue: Queue, which: HeldQueue, hold: bool },
    CreateAccess { queue: Queue, size: AccessSize },
    AcquireAccess { queue: Queue, size: AccessSize },
    WithAccess { held: Held<AccessLease>, step: AccessStep },
    ActOnAccess { queue: Queue, size: AccessSize, aid: Aid, act: AccessAct },
}

/// What is left of a call: leases, to be used again.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) job: Option<Held<Lease>>,
    pub(crate) batch: Option<Held<BatchLease>>,
    pub(crate) access: Option<Held<AccessLease>>,
}

/// How many rows the manifest of a batch has.
pub(crate) fn rows_of(bid: Bid) -> u64 {
    u64::from(bid.number() % 3) + 1
}

impl Call {
    pub(crate) async fn run(self) -> (Result<()>, Left) {
        let mut left = Left::default();
        let result = match self {
            Call::CreateBatch { queue, uuid, submission } => {
                queue.create_batch(&uuid, &submission).await.map(|_| ())
            }
            Call::AcquireBatch { queue, bid } => queue.acquire_batch(bid, "batches").await.map(|lease| {
                left.batch = Some(Held { queue: queue.clone(), lease, draft: None });
            }),
            Call::WithBatch { mut held, step, first } => {
                let result = with_batch(&mut held, step, first).await;
                left.batch = Some(held);
                result
            }
            Call::Acquire { queue, entry, holder } => queue.acquire(entry, &holder).await.map(|lease| {
                left.job = Some(Held { queue: queue.clone(), lease, draft: None });
            }),
            Call::WithJob { mut held, step } => {
                let result = with_job(&held.queue, &mut held.lease, step).await;
                left.job = Some(held);
                result
            }
            Call::WorkerDies { queue, holder } => queue.release_all_of(&holder).await.map(|_| ()),
            Call::Act { queue, jid, action, force, commit } => {
                queue.act_once(jid, &action, "by a test", force, commit).await.map(|_| ())
            }
            Call::ActOnBatch { queue, bid, action, force } => {
                queue.act_on_batch(bid, action, "by a test", force).await.map(|_| ())
            }
            Call::RemoveBatch { queue, bid, janitor: true, .. } => {
                queue.clean_batch(bid, |_| {}).await.map(|_| ())
            }
            Call::RemoveBatch { queue, bid, force, .. } => {
                queue.delete_batch(bid, "admin", "a test", force, |_| {}).await.map(|_| ())
            }
            Call::HoldCollection { queue, name, hold: true } => {
                queue.hold_collection(&name, "admin", "a test").await.map(|_| ())
            }
            Call::HoldCollection { queue, name, .. } => queue.release_collection(&name).await.map(|_| ()),
            Call::HoldQueue { queue, which, hold: true } => {
                queue.hold_queue(which, "admin", "a test").await.map(|_| ())
            }
            Call::HoldQueue { queue, which, .. } => queue.release_queue(which).await.map(|_| ()),
            Call::CreateAccess { queue, size } => {
                queue.create_access(size, &AccessToken::default()).await.map(|_| ())
            }
            Call::AcquireAccess { queue, size } => match queue.acquire_access(size, "access").await {
                Ok(Some(lease)) => {
                    left.access = Some(Held { queue, lease, draft: None });
                    Ok(())
                }
                Ok(None) => Err(Error::NotFound("an access item that waits".into())),
                Err(error) => Err(error),
            },
            Call::WithAccess { mut held, step } => {
                let (queue, lease) = (&held.queue, &mut held.lease);
                let result = match step {
                    AccessStep::Finish(to) => queue.finish_access(lease, to, "by a test").await,
                    AccessStep::GiveBack => queue.give_back_access(lease).await,
                    AccessStep::Rewrite => queue.write_access_token(lease, &AccessToken::default()).await,
                };
                left.access = Some(held);
                result
            }
            Call::ActOnAccess { queue, size, aid, act } => match act {
                AccessAct::Requeue => queue.requeue_access(size, aid, "by a test").await,
                AccessAct::Delete => queue.delete_access(size, aid).await,
                AccessAct::Clean => queue.clean_access(size, aid).await,
            },
        };
        (result, left)
    }
}

async fn with_batch(held: &mut Held<BatchLease>, step: BatchStep, first: u64) -> Result<()> {
    let Held { queue, lease, draft } = held;
    let bid = lease.bid();
    match step {
        BatchStep::Release => queue.release_batch(lease).await,
        BatchStep::Note => queue.note_batch(lease, "a test").await,
        BatchStep::Begin => queue.begin_expansion(lease, b"digest", rows_of(bid)).await.map(|_| ()),
        BatchStep::Expand { rows, .. } => {
            let collection = queue.submission(bid).await?.profile_name;
            let configuration = Configuration { profile_name: collection, ..Configuration::default() };
            let new = NewJob { configuration, ..NewJob::default() };
            let left = rows_of(bid).saturating_sub(first).max(1);
            let count = usize::try_from(left.min(u64::from(rows))).unwrap();
            queue.expand(lease, first, &vec![new; count]).await.map(|_| ())
        }
        BatchStep::Fail => queue.fail_batch(lease, "a test").await,
        BatchStep::End => queue.end_batch(lease).await.map(|_| ()),
        BatchStep::Draft => {
            *draft = Some(queue.draft_report(lease).await?);
            Ok(())
        }
        BatchStep::Sent => match draft {
            Some(draft) => queue.report_sent(lease, draft).await,
            None => Err(Error::NotFound("draft".into())),
        },
        BatchStep::Finish => match draft {
            Some(draft) => queue.finish_report(lease, draft).await.map(|_| ()),
            None => Err(Error::NotFound("draft".into())),
        },
    }
}

async fn with_job(queue: &Queue, lease: &mut Lease, step: JobStep) -> Result<()> {
    let change = Change::message("by a test");
    match step {
        JobStep::Succeed => queue.succeed(lease, &change).await.map(|_| ()),
        JobStep::Fail { hopeless } => queue.fail(lease, &Change { hopeless, ..change }).await,
        JobStep::GiveBack => queue.give_back(lease, None).await,
        JobStep::HandOver => {
            let (to, by) = hand_over(lease.job().state(), queue);
            queue.hand_over(lease, to, by, &change).await
        }
        JobStep::Advance { to, by, keep: true } => queue.hand_over(lease, to, by, &change).await,
        JobStep::Advance { to, by, .. } => queue.advance(lease, to, by, &change).await,
        JobStep::Write => {
            let work = Work { node: "a".into(), attempt: lease.job().status.attempt, ..Work::default() };
            queue.write(lease, &[Write::Work(work), Write::SpaceNeeded(7)]).await
        }
        JobStep::SetPriority(priority) => queue.set_priority(lease, priority).await,
        JobStep::Gate => queue.gate(lease).await,
    }
}

/// Where a hand-over leads, and by whom.
pub(crate) fn hand_over(from: JobState, queue: &Queue) -> (JobState, Who) {
    let by = if from == JobState::Pending { Who::Queue } else { Who::Worker };
    (from.success(queue.dialect()).unwrap_or(from), by)
}

/// A name that fits in a path, from a small number.
pub(crate) fn collection(number: u8) -> String {
    format!("collection-{number}")
}

/// What every batch is made of.
pub(crate) fn submission(collection: String) -> Submission {
    Submission { profile_name: collection, submitter: "depositor".into(), ..Submission::default() }
}
