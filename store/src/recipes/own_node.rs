//! An ephemeral node whose name is nobody else's: a place in a queue, a slot.
//!
//! Because the name holds an id of its own, the node needs no version: whoever finds it there knows
//! whose it is, its existence is a fence, and deleting it can hit no other.
//!
//! **When things break.** It goes with its session, with [`OwnNode::delete`], or with the value: dropped,
//! it is deleted in the background, because nobody would ever do it for its owner. That is not given up
//! before the session ends, and so is a [`OwnNode::delete`] that could not be sent, or was not waited for.

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
    /// Takes charge of a node that was created, or is about to be.
    pub(super) fn new(session: &Session, path: String) -> Self {
        Self { session: session.clone(), path, deleted: false }
    }

    /// It was not created after all.
    pub(super) fn never_was(mut self) {
        self.deleted = true;
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
        let answer =
            super::settle(&self.session, || self.session.delete(self.path.as_str(), None)).await.answer;
        let answer = gone(answer);
        self.deleted = answer.is_ok();
        answer
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        if self.deleted || self.session.state().is_final() {
            return;
        }
        let (session, path) = (self.session.clone(), std::mem::take(&mut self.path));
        in_background(async move { delete(&session, &path).await });
    }
}

/// Deletes a node that nobody else would: not given up while the session lives.
pub(super) async fn delete(session: &Session, path: &str) {
    if let Err(error) = gone(super::look(session, || session.delete(path, None)).await) {
        tracing::debug!(path, %error, "a node that was given up goes with its session");
    }
}

/// Outside of a runtime there is nobody to do it: then it is for the session.
pub(super) fn in_background(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(task);
    }
}

fn gone(answer: Result<()>) -> Result<()> {
    match answer {
        Err(error) if error.kind() == Kind::NoNode => Ok(()),
        answer => answer,
    }
}
