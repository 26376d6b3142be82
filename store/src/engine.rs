//! The interface between a [`Session`](crate::Session) and the engine below it.
//!
//! An engine is small on purpose: one method that takes a request to its reply, two kinds of
//! watches, and the session's state. What is the same for all engines (validation, deadlines, the
//! bound on waiting requests, refusing old handles) lives in `Session`, above it. A wrapper that
//! counts, delays or breaks calls is an engine around an engine.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::error::Result;
use crate::node::{Reply, Request, Stat};
use crate::watch::{ExistsWatch, SessionStatus, TreeWatch};

/// Something that sessions can be opened on.
pub trait Engine: Debug + Send + Sync + 'static {
    /// Opens a session, trying until the engine's configured limit.
    fn open_session(&self) -> BoxFuture<'_, Result<Arc<dyn EngineSession>>>;

    /// `zookeeper` or `embedded`.
    fn name(&self) -> &'static str;
}

/// One session of an engine. The requests reaching it are valid and of a size that it can take.
pub trait EngineSession: Debug + Send + Sync + 'static {
    /// The session's id, as seen in [`Stat::ephemeral_owner`].
    fn id(&self) -> i64;

    /// How long the session outlives its connection.
    fn timeout(&self) -> Duration;

    /// The session's state, now and later.
    fn status(&self) -> watch::Receiver<SessionStatus>;

    /// Sends a request, at the latest when the future is polled first. Dropping the future does not
    /// take the request back.
    fn send(&self, request: Request) -> BoxFuture<'static, Result<Reply>>;

    /// The node's stat, and a watch that fires at the first change after it.
    fn watch_exists(&self, path: String) -> BoxFuture<'static, Result<(Option<Stat>, ExistsWatch)>>;

    /// Follows a subtree, whether its root is there or not. At most `backlog` events wait.
    fn watch_tree(&self, path: String, backlog: usize) -> BoxFuture<'static, Result<TreeWatch>>;

    /// Ends the session and its ephemeral nodes; returns when the server has confirmed it.
    fn close(&self) -> BoxFuture<'static, Result<()>>;
}
