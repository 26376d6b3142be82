//! One of many acts.
//!
//! Candidates queue below the election's node; the first leads. A leader commits together with its
//! [`Leader::fence`], so that two can never both commit, whatever they believe.
//!
//! **When things break.** Suspended: [`Leader::deposed`] returns at once, and the leader stops acting;
//! it may still be first in the queue and [`Candidate::lead`] finds out. Expired: the node is gone and
//! the next candidate leads. A lost answer to joining is found again by the candidate's own id.

use bytes::Bytes;

use super::contender::Contender;
use crate::error::Result;
use crate::node::Op;
use crate::session::Session;

/// A place in the queue of an election.
#[derive(Debug)]
pub struct Candidate {
    contender: Contender,
}

impl Candidate {
    /// Stands for election below `path`; `who` is for people who look at the tree.
    pub async fn join(session: &Session, path: &str, who: impl Into<Bytes>) -> Result<Self> {
        Ok(Self { contender: Contender::join(session, path, "candidate", who.into()).await? })
    }

    /// Waits until this candidate leads.
    pub async fn lead(self) -> Result<Leader> {
        self.contender.wait(|_| true).await?;
        Ok(Leader { contender: self.contender })
    }

    /// Stands down.
    pub async fn withdraw(self) -> Result<()> {
        self.contender.leave().await
    }
}

/// The candidate that acts.
#[derive(Debug)]
pub struct Leader {
    contender: Contender,
}

impl Leader {
    /// Goes into every multi of the leader: refused once it leads no more.
    pub fn fence(&self) -> Op {
        self.contender.fence()
    }

    /// Returns when the leader must stop acting: its connection or its place is lost.
    pub async fn deposed(&self) {
        self.contender.lost().await;
    }

    /// Becomes a candidate again, at the same place in the queue: after a lost connection.
    pub fn doubt(self) -> Candidate {
        Candidate { contender: self.contender }
    }

    /// Hands over to the next.
    pub async fn resign(self) -> Result<()> {
        self.contender.leave().await
    }
}
