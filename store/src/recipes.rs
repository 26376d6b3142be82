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

use crate::error::{Error, Kind, Result};
use crate::session::Session;

/// An answer that leaves no doubt, and whether the same request had been sent before it without one.
#[derive(Debug)]
pub struct Settled<T> {
    pub answer: Result<T>,
    /// An earlier try may have been applied: "it is there already" may mean "by us".
    pub repeated: bool,
}

/// Sends a request again on the same session until it has an answer that leaves no doubt. Ends with
/// the session at the latest: then everything that it owned is gone as well.
pub async fn settle<T, F>(session: &Session, send: impl Fn() -> F) -> Settled<T>
where
    F: Future<Output = Result<T>>,
{
    settle_from(session, false, send).await
}

/// The same for a look at what became of an earlier request: it is not given up while the session
/// lives, because the doubt would remain.
pub async fn look<T, F>(session: &Session, send: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    settle_from(session, true, send).await.answer
}

async fn settle_from<T, F>(session: &Session, doubt: bool, send: impl Fn() -> F) -> Settled<T>
where
    F: Future<Output = Result<T>>,
{
    let mut repeated = doubt;
    loop {
        let answer = send().await;
        let again = match answer.as_ref().map_err(Error::kind) {
            Err(Kind::ConnectionLoss | Kind::Deadline) => true,
            // Certainly not sent this time; but that says nothing of the time before. Both have waited
            // for their deadline already.
            Err(Kind::Suspended | Kind::Busy) => repeated,
            _ => false,
        };
        if !again || session.state().is_final() {
            return Settled { answer, repeated };
        }
        repeated = true;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::*;
    use crate::engines::embedded::{Embedded, EmbeddedConfig};
    use crate::{Limits, Store};

    /// Settles a request that is answered like this, one after the other.
    async fn settled(answers: &[Option<Kind>], doubt: bool) -> (Option<Kind>, bool, usize) {
        let dir = tempfile::tempdir().unwrap();
        let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
        let session = Store::new(Arc::new(tree), Limits::default()).session().await.unwrap();
        let left = RefCell::new(answers.iter());
        let send = || {
            let answer = left.borrow_mut().next().expect("asked more often than there are answers");
            std::future::ready(answer.map_or(Ok(()), |kind| Err(Error::new(kind, ""))))
        };
        let settled = settle_from(&session, doubt, send).await;
        (settled.answer.err().map(|error| error.kind()), settled.repeated, left.borrow().len())
    }

    #[tokio::test]
    async fn a_request_that_was_certainly_not_sent_is_given_up_only_if_none_before_it_was() {
        let (lost, unsent, busy) = (Some(Kind::ConnectionLoss), Some(Kind::Suspended), Some(Kind::Busy));
        assert_eq!(settled(&[unsent], false).await, (unsent, false, 0));
        assert_eq!(settled(&[busy], false).await, (busy, false, 0));
        assert_eq!(settled(&[lost, unsent, busy, None], false).await, (None, true, 0));
        let exists = Some(Kind::NodeExists);
        assert_eq!(settled(&[lost, unsent, exists], false).await, (exists, true, 0));
    }

    #[tokio::test]
    async fn a_look_at_a_doubtful_request_waits_for_the_connection() {
        let unsent = Some(Kind::Suspended);
        assert_eq!(settled(&[unsent, unsent, None], true).await, (None, true, 0));
        assert_eq!(settled(&[Some(Kind::NoNode)], true).await, (Some(Kind::NoNode), true, 0));
    }
}
