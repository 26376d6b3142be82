//! An ephemeral node whose name is nobody else's: a place in a queue, a slot.
//!
//! Because the name holds an id of its own, the node needs no version: whoever finds it there knows
//! whose it is, its existence is a fence, and deleting it can hit no other.
//!
//! **When things break.** It goes with its session, with [`OwnNode::delete`], or with the value: dropped,
//! it is deleted in the background, because nobody would ever do it for its owner.

use crate::error::{Kind, Result};
use crate::node::Op;
use crate::session::Session;

#[derive(Debug)]
pub(super) struct OwnNode {
    session: Session,
    path: String,
    deleted: bool,
}

impl OwnNode {
    /// Takes charge of a node that was created.
    pub(super) fn new(session: &Session, path: String) -> Self {
        Self { session: session.clone(), path, deleted: false }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Refuses a multi unless the node is still there.
    pub(super) fn fence(&self) -> Op {
        Op::check(self.path.as_str(), None)
    }

    pub(super) async fn delete(mut self) -> Result<()> {
        self.deleted = true;
        delete(&self.session, &self.path).await
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        if self.deleted || self.session.state().is_final() {
            return;
        }
        let (session, path) = (self.session.clone(), std::mem::take(&mut self.path));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = delete(&session, &path).await {
                    tracing::debug!(path, %error, "a node that was given up goes with its session");
                }
            });
        }
    }
}

async fn delete(session: &Session, path: &str) -> Result<()> {
    match super::settle(session, || session.delete(path, None)).await.answer {
        Err(error) if error.kind() == Kind::NoNode => Ok(()),
        answer => answer,
    }
}
