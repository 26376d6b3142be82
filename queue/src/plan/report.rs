//! Plans for the report of a batch: on its way, sent, and the batch's last one.
//!
//! `lease` is the check that whoever reports may still do so.

use bytes::Bytes;
use ingest_store::Op;

use super::batch::{self, Batch};
use super::{Lock, Plan, Scene};
use crate::ids::Bid;
use crate::map::{self, BatchNode};
use crate::nodes::{Node, Other, Outgoing};
use crate::states::{BatchState, Refused, Who};

/// Reports are counted from here.
pub const FIRST: u32 = 1;

/// The number of the report after the last one that was sent.
pub fn number_after(last: Option<u32>) -> u32 {
    last.map_or(FIRST, |last| last + 1)
}

/// Puts a report into the outbox. If one of that number is there already, it is the one.
pub fn post(bid: Bid, number: u32, lease: Op, scene: &Scene) -> (Vec<Op>, Outgoing) {
    let (posted, outgoing) = posted(bid, number, scene);
    (vec![lease, posted], outgoing)
}

/// The first report of a batch, in the outbox: for the multi that the batch fails with.
pub fn first(bid: Bid, scene: &Scene) -> Op {
    posted(bid, FIRST, scene).0
}

fn posted(bid: Bid, number: u32, scene: &Scene) -> (Op, Outgoing) {
    let outgoing = Outgoing { bid, number, composed: scene.now, sent: None, other: Other::new() };
    (Op::create(map::outbox(bid, number), outgoing.write(scene.dialect)), outgoing)
}

/// Notes in the outbox that a report was sent.
pub fn sent(outgoing: Outgoing, lease: Op, scene: &Scene) -> (Vec<Op>, Outgoing) {
    let outgoing = Outgoing { sent: Some(scene.now), ..outgoing };
    let path = map::outbox(outgoing.bid, outgoing.number);
    (vec![lease, Op::set(path, outgoing.write(scene.dialect), None)], outgoing)
}

/// A report that is sent, or has nothing to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub number: u32,
    /// What announces it, with the version of the last one's announcement; `None`: it has nothing to tell.
    pub announced: Option<(Bytes, Option<i32>)>,
    /// Whether it is in the outbox.
    pub posted: bool,
    /// Where the batch goes.
    pub to: BatchState,
}

/// Where a batch goes with its report. One that never had a job has failed: nothing of it is stored; so has one of which
/// a job expired.
pub fn outcome(successful: usize, failed: usize, deleted: usize, expired: usize) -> BatchState {
    let nothing = successful == 0 && deleted == 0;
    let complete = failed == 0 && !nothing && expired == 0;
    if complete { BatchState::Completed } else { BatchState::Failed }
}

/// The report becomes the batch's last one, and the batch is completed or failed; its lock is given back.
pub fn finish(batch: &Batch, told: Told, message: &str, scene: &Scene) -> Result<Plan<Batch>, Refused> {
    let mut more = Vec::new();
    if let Some((data, last)) = told.announced {
        let path = BatchNode::StatusReport.of(batch.bid);
        more.push(match last {
            Some(version) => Op::set(path, data, version),
            None => Op::create(path, data),
        });
    }
    if told.posted {
        more.push(Op::delete(map::outbox(batch.bid, told.number), None));
    }
    let lock = Lock::GiveBack;
    if batch.state() == BatchState::Failed {
        // It stays what it is, for the reason that it has.
        return Ok(batch::set(batch, BatchState::Failed, message, lock, &more, scene));
    }
    batch::advance(batch, told.to, Who::Worker, message, lock, &more, scene)
}
