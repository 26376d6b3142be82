//! The pure core: from what is and what is to happen to a list of operations, or a refusal.
//!
//! Nothing here reads or writes. A plan is one multi; whoever commits it learns whether it was
//! applied, and nothing in between exists. Every plan for a job sets or checks its status at the
//! version that was read: the fence.

pub mod batch;
pub mod claim;
pub mod job;
pub mod report;

use ingest_store::Op;

use crate::committer::{Mark, Unit};
use crate::date::Date;
use crate::dialect::Dialect;

/// The circumstances of a plan.
#[derive(Debug, Clone)]
pub struct Scene {
    pub dialect: Dialect,
    pub now: Date,
    /// The node that commits.
    pub node: String,
    /// Tells this commit from every other.
    pub commit: String,
}

/// One multi, and what is there afterwards.
#[derive(Debug, Clone)]
pub struct Plan<T> {
    pub ops: Vec<Op>,
    pub mark: Mark,
    /// The thing as it is once the plan is applied.
    pub after: T,
}

impl<T> Plan<T> {
    pub fn unit(&self) -> Unit {
        Unit::new(self.ops.clone(), self.mark.clone())
    }
}

/// What becomes of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// Held, and kept: the next state is worked on by the same node.
    Keep,
    /// Held, and given back.
    GiveBack,
    /// Not held: taken within the multi, and kept.
    Take,
    /// Not held: taken and given back within the multi, which is refused if somebody has it.
    Within,
    /// Held by somebody else, and taken away.
    TakeAway,
}

impl Lock {
    /// The operations before and after those of a plan.
    fn around(self, path: String, owner: impl FnOnce() -> bytes::Bytes) -> (Option<Op>, Option<Op>) {
        match self {
            Lock::Keep => (None, None),
            Lock::Take => (Some(Op::ephemeral(path, owner())), None),
            Lock::GiveBack => (None, Some(Op::delete(path, None))),
            Lock::Within => (Some(Op::ephemeral(path.as_str(), owner())), Some(Op::delete(path, None))),
            Lock::TakeAway => (Some(Op::delete(path, None)), None),
        }
    }
}
