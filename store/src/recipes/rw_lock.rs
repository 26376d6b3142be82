//! Many readers or one writer, in the order of their coming.
//!
//! A reader waits for the writers before it, a writer for everybody before it. Nobody overtakes, so
//! neither side starves.
//!
//! **When things break.** As for every queue of contenders: the holder's node dies with its session,
//! and [`Held::fence`] refuses a commit of a holder that has lost it. Dropping a guard releases it.

use bytes::Bytes;

use super::contender::Contender;
use crate::error::Result;
use crate::node::Op;
use crate::session::Session;

const READ: &str = "read";
const WRITE: &str = "write";

/// A lock that is held, for reading or for writing.
#[derive(Debug)]
pub struct Held {
    contender: Contender,
}

/// Waits until no writer that came before is left.
pub async fn read(session: &Session, path: &str, who: impl Into<Bytes>) -> Result<Held> {
    let contender = Contender::join(session, path, READ, who.into()).await?;
    contender.wait(|name| name.starts_with(WRITE)).await?;
    Ok(Held { contender })
}

/// Waits until nobody that came before is left.
pub async fn write(session: &Session, path: &str, who: impl Into<Bytes>) -> Result<Held> {
    let contender = Contender::join(session, path, WRITE, who.into()).await?;
    contender.wait(|_| true).await?;
    Ok(Held { contender })
}

impl Held {
    /// Goes into every multi that the lock is to protect.
    pub fn fence(&self) -> Op {
        self.contender.fence()
    }

    /// Returns when the holder can no longer be sure of its lock.
    pub async fn lost(&self) {
        self.contender.lost().await;
    }

    pub async fn release(self) -> Result<()> {
        self.contender.leave().await
    }
}
