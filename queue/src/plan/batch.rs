//! Plans for one batch.

use bytes::Bytes;
use ingest_store::Op;

use super::job::{self, Action, NewJob};
use super::{Lock, Plan, Scene};
use crate::committer::{MAX_BYTES, MAX_OPS, Mark};
use crate::ids::{Bid, Jid};
use crate::journal::{KEY, merge};
use crate::map::{self, BatchNode};
use crate::nodes::{BatchStatus, Expansion, Node, Owner, Submission};
use crate::states::{BatchList, BatchState, Refused, States, Who, Why};

/// Bytes that stand before the jobs of a chunk: the lease, the numbers, the cursor.
const BEFORE_THE_JOBS: usize = 8192;

/// A batch as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub bid: Bid,
    pub status: BatchStatus,
    /// Of the status: the fence.
    pub version: i32,
}

impl Batch {
    pub fn state(&self) -> BatchState {
        self.status.status
    }
}

/// The operations that make a batch, findable by its uuid.
pub fn create(bid: Bid, uuid: &str, submission: &Submission, scene: &Scene) -> Vec<Op> {
    let mut submission = merge::dated(submission.clone(), scene.now);
    submission.batch_id = Some(bid.to_string());
    submission.other.insert("uuid".into(), uuid.into());
    let mut status = BatchStatus::new(BatchState::Pending, scene.now);
    // Whoever ends its waiting frees the key, and need not read the submission for that.
    if let Some(key) = &submission.key {
        status.other.insert(KEY.into(), key.as_str().into());
    }
    // The commit that made it, so that its author finds it after a lost answer.
    let status = status.next(BatchState::Pending, scene.now, "", &scene.commit);
    let mut ops = vec![
        Op::create(map::batch_uuid(uuid), bid.to_string()),
        Op::create(map::batch(bid), Bytes::new()),
        Op::create(BatchNode::Submission.of(bid), submission.write(scene.dialect)),
        Op::create(BatchNode::Status.of(bid), status.write(scene.dialect)),
    ];
    ops.extend(lists(bid));
    ops
}

/// The operations that make the lists of a batch.
pub fn lists(bid: Bid) -> Vec<Op> {
    let mut ops = vec![Op::create(BatchNode::States.of(bid), Bytes::new())];
    ops.extend(BatchList::ALL.map(|list| Op::create(map::batch_list(bid, list), Bytes::new())));
    ops
}

/// Moves a batch. `more` are what the move rests on and what else it writes.
pub fn advance(
    batch: &Batch,
    to: BatchState,
    by: Who,
    message: &str,
    lock: Lock,
    more: &[Op],
    scene: &Scene,
) -> Result<Plan<Batch>, Refused> {
    batch.state().may_go(to, by, scene.dialect)?;
    Ok(set(batch, to, message, lock, more, scene))
}

/// Half of the proof that a batch has ended: nobody is left in `batch-processing`, for a list that can be deleted is
/// empty. The other half are the statuses of its jobs, see [`crate::batches`].
pub fn proof_of_the_end(bid: Bid) -> Vec<Op> {
    let list = map::batch_list(bid, BatchList::Processing);
    vec![Op::delete(list.as_str(), None), Op::create(list, Bytes::new())]
}

/// The next rows of a batch become jobs: as many as one multi holds, and at least one; how many that are. `lease` checks
/// that whoever expands may still do so, `cursor` is the expansion with its version, `numbers` the number of the first
/// job with the operation that nobody else's numbers get past.
pub fn chunk(
    bid: Bid,
    lease: Op,
    (cursor, version): (&Expansion, i32),
    (number, fence): (u32, Op),
    rows: &[NewJob],
    scene: &Scene,
) -> (usize, Plan<Expansion>) {
    let (mut creates, mut count, mut bytes) = (Vec::new(), 0, BEFORE_THE_JOBS);
    for new in rows {
        let jid = Jid::new(number + u32::try_from(count).unwrap_or(u32::MAX));
        let job = job::create(jid, bid, new, scene);
        bytes += job.iter().map(Op::size).sum::<usize>();
        if count > 0 && (creates.len() + job.len() + 3 > MAX_OPS || bytes > MAX_BYTES) {
            break;
        }
        creates.extend(job);
        count += 1;
    }
    let mut after = Expansion { next: cursor.next + count as u64, ..cursor.clone() };
    after.numbers = cursor.numbers.and(cursor.next, number, count);
    after.done = after.next == after.total;
    after.commit.clone_from(&scene.commit);
    let path = BatchNode::Expansion.of(bid);
    let mut ops = vec![lease, fence, Op::set(path.as_str(), after.write(scene.dialect), version)];
    ops.extend(creates);
    (count, Plan { ops, mark: Mark::holds(path, scene.commit.as_str()), after })
}

/// Whether all of a batch is expanded: the version of the cursor that says so, or what it waits for.
pub fn is_expanded(found: Option<(&Expansion, i32)>) -> Result<i32, String> {
    match found {
        Some((cursor, version)) if cursor.done => Ok(version),
        Some((cursor, _)) => Err(format!("{} of {} rows are expanded", cursor.next, cursor.total)),
        None => Err("its expansion has not begun".into()),
    }
}

/// Why a batch takes no changes to its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shut {
    NoBatch,
    Deleting,
    Reporting(BatchState),
}

/// What an action on a job rests on that concerns its batch: the batch as it was found, if it takes changes to its jobs now.
pub fn open_for(
    action: &Action,
    bid: Bid,
    found: Option<(BatchState, i32)>,
    deleting: bool,
) -> Result<Option<Op>, Shut> {
    match found {
        // An orphan may go.
        None if action.deletes() => Ok(None),
        None => Err(Shut::NoBatch),
        Some(_) if deleting => Err(Shut::Deleting),
        Some((state, _)) if state.is_reporting() => Err(Shut::Reporting(state)),
        Some((_, version)) => Ok(Some(Op::check(BatchNode::Status.of(bid), version))),
    }
}

/// Ends the processing of a batch: its cursor, at this version, says that all of it is expanded.
pub fn end(batch: &Batch, cursor: i32, scene: &Scene) -> Result<Plan<Batch>, Refused> {
    let mut more = vec![Op::check(BatchNode::Expansion.of(batch.bid), cursor)];
    more.extend(proof_of_the_end(batch.bid));
    advance(batch, BatchState::Reporting, Who::Queue, "", Lock::Keep, &more, scene)
}

/// Something that is done to a batch that nobody works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchAction {
    Hold,
    Release,
    /// Tell the depositor what has changed since the last report.
    UpdateReport,
    /// The queue: the collection is held.
    HoldForCollection,
}

impl BatchAction {
    pub fn role(self) -> (Who, Why) {
        match self {
            BatchAction::Hold => (Who::Admin, Why::Hold),
            BatchAction::Release => (Who::Admin, Why::Release),
            BatchAction::UpdateReport => (Who::Admin, Why::Requeue),
            BatchAction::HoldForCollection => (Who::Queue, Why::Hold),
        }
    }
}

/// Where an action leads.
pub fn target(batch: &Batch, action: BatchAction, scene: &Scene) -> Result<BatchState, Refused> {
    let (by, why) = action.role();
    let row = batch.state().may(why, by, scene.dialect)?;
    match row.to {
        crate::states::To::State(state) => Ok(state),
        _ => Err(batch.state().refuse("another state", by, scene.dialect)),
    }
}

/// Sets the status of a batch at the fence.
pub fn set(
    batch: &Batch,
    to: BatchState,
    message: &str,
    lock: Lock,
    more: &[Op],
    scene: &Scene,
) -> Plan<Batch> {
    let status = batch.status.next(to, scene.now, message, &scene.commit);
    let path = BatchNode::Status.of(batch.bid);
    let owner = || {
        Owner {
            node: scene.node.clone(),
            since: Some(scene.now),
            commit: scene.commit.clone(),
            ..Owner::default()
        }
        .write(scene.dialect)
    };
    let (before, last) = lock.around(BatchNode::Lock.of(batch.bid), owner);
    let mut ops: Vec<Op> = before.into_iter().collect();
    ops.push(Op::set(path.as_str(), status.write(scene.dialect), batch.version));
    ops.extend_from_slice(more);
    ops.extend(last);
    let version = batch.version.wrapping_add(1);
    let mark = Mark::holds(path, scene.commit.as_str());
    Plan { ops, mark, after: Batch { bid: batch.bid, status, version } }
}
