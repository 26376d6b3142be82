//! The cluster's logical clock: an empty node whose `mzxid` grows with every tick.
//!
//! A reader that must see what somebody else has done is handed the writer's tick and waits for it:
//! then its server has applied everything that was committed before that tick.
//!
//! **When things break.** A tick whose answer was lost may have happened: ticking again is harmless,
//! it only gives a later time. A server that is behind is waited for without asking it for anything: a
//! sync would hold up everything else that the session reads until the server has caught up. Waiting ends
//! with the session.

use bytes::Bytes;

use crate::error::{Error, Kind, Result};
use crate::node::Stat;
use crate::session::Session;
use crate::watch::Woken;

/// The node, below the chroot.
pub const PATH: &str = "/ltime";

/// A moment of the cluster. Later moments are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Ltime(pub i64);

/// A moment after everything that was committed before this call.
pub async fn tick(session: &Session) -> Result<Ltime> {
    Ok(Ltime(touch(session).await?.mzxid))
}

/// The server's clock now, in milliseconds since 1970: what the times in every [`Stat`] are told by.
pub async fn server_clock(session: &Session) -> Result<i64> {
    Ok(touch(session).await?.mtime)
}

async fn touch(session: &Session) -> Result<Stat> {
    let set = || session.set(PATH, Bytes::new(), None);
    match super::settle(session, set).await.answer {
        Err(error) if error.kind() == Kind::NoNode => {
            session.make_dirs(PATH).await?;
            super::settle(session, set).await.answer
        }
        answer => answer,
    }
}

/// Returns when reads of this session see everything that was committed before `moment`.
pub async fn wait_for(session: &Session, moment: Ltime) -> Result<()> {
    if reached(session, moment).await? {
        return Ok(());
    }
    loop {
        let (stat, watch) = session.watch_exists(PATH).await?;
        if stat.is_some_and(|stat| stat.mzxid >= moment.0) {
            return Ok(());
        }
        if let Woken::Ended(_) = watch.woken().await {
            return Err(Error::new(Kind::Closed, "the session ended while it waited for a moment"));
        }
    }
}

async fn reached(session: &Session, moment: Ltime) -> Result<bool> {
    Ok(session.exists(PATH).await?.is_some_and(|stat| stat.mzxid >= moment.0))
}
