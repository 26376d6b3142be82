//! What is built from nodes: one recipe a file, each with what it promises and how it behaves when
//! the connection or the session is lost.
//!
//! | recipe | for |
//! |---|---|
//! | [`lock_table`] | the locks of a session, released by token |
//! | [`shard`] | values larger than one node |
//! | [`election`] | one of many acts |
//! | [`semaphore`] | at most N at a time |
//! | [`rw_lock`] | many readers or one writer |
//! | [`ltime`] | the cluster's logical clock |
//!
//! All of them keep two rules. A lost answer is settled on the same session before anything else is
//! done: a session's writes are applied in order, so a definite answer to a later write, or to a read
//! after a `sync`, settles the earlier ones. And nothing that a recipe owns is deleted or changed
//! blindly.

mod contender;
pub mod election;
pub mod lock_table;
pub mod ltime;
mod own_node;
pub mod rw_lock;
pub mod semaphore;
pub mod shard;

use crate::error::{Kind, Result};
use crate::session::Session;

/// An answer that leaves no doubt, and whether the same request had been sent before it without one.
#[derive(Debug)]
pub(crate) struct Settled<T> {
    pub(crate) answer: Result<T>,
    /// An earlier try may have been applied: "it is there already" may mean "by us".
    pub(crate) repeated: bool,
}

/// Sends a request again on the same session until it has an answer that leaves no doubt. Ends with
/// the session at the latest: then everything that it owned is gone as well.
pub(crate) async fn settle<T, F>(session: &Session, send: impl Fn() -> F) -> Settled<T>
where
    F: Future<Output = Result<T>>,
{
    let mut repeated = false;
    loop {
        match send().await {
            Err(error)
                if matches!(error.kind(), Kind::ConnectionLoss | Kind::Deadline)
                    && !session.state().is_final() =>
            {
                tracing::debug!(%error, "no answer: sending the same request again");
                repeated = true;
            }
            answer => return Settled { answer, repeated },
        }
    }
}
