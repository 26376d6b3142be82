//! Taking what one node at a time may be at, and that is neither a job nor a batch: a feed, a request.
//!
//! One multi makes its lock and sets the thing itself at the version that was read; the version after that is the fence of
//! everything that its taker writes.
//!
//! **When things break.** A lost answer is settled by the commit that the thing then carries. Whoever was slower is told
//! so: busy if somebody has it, changed if it is another than was read, not found if it is gone.

use ingest_store::Kind;
use ingest_store::recipes::lock_table::{Claim, Token};

use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::queue::Queue;

impl Queue {
    /// Takes it. `what` names it to people; `commit` stands in what the claim writes.
    pub(crate) async fn claim(&self, what: &str, claim: Claim, commit: &str) -> Result<Token> {
        let (lock, fence) = (claim.lock.clone(), claim.fence.clone());
        let mark = Mark::holds(fence.as_str(), commit);
        let committed = async |ops| commit_alone(&self.session, Unit::new(ops, mark)).await;
        let error = match self.locks.acquire_by(claim, committed).await {
            Ok(token) => return Ok(token),
            Err(error) => error,
        };
        match error.kind() {
            Kind::NodeExists => Err(self.busy(what.to_owned(), &lock).await?),
            Kind::BadVersion => Err(Error::changed(what, "somebody else was faster")),
            Kind::NoNode if error.path().is_some_and(|at| at == fence) => {
                Err(Error::NotFound(what.to_owned()))
            }
            _ => Err(error.into()),
        }
    }
}
