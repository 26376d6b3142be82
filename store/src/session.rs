//! A session: the handle through which everything above reads, writes and watches the tree.
//!
//! **Order.** A call sees the effect of every call of this session that was answered before it began.
//! Calls that run side by side are sent without waiting for each other, in no promised order.
//!
//! **When things break.**
//! - While the session is suspended a call waits, unsent, for the connection, until its deadline:
//!   [`Kind::Suspended`].
//! - A connection that breaks under a call gives [`Kind::ConnectionLoss`]; an answer that does not
//!   come in time [`Kind::Deadline`]. Both mean "perhaps": see [`Error::outcome`].
//! - Dropping a call's future does not cancel it. It keeps its place among the waiting requests
//!   until it has really ended, so memory stays bounded whatever callers do.
//! - After expiry, close or [`Session::rebuild`], every call is refused when it would be sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::engine::{Engine, EngineSession};
use crate::error::{Error, Kind, Result};
use crate::node::{Mode, Op, OpResult, Reply, Request, Stat};
use crate::path;
use crate::watch::{ExistsWatch, SessionState, SessionStatus, TreeWatch};

/// The bounds of a session, the same for both engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// How long a call may take, waiting included.
    #[serde(with = "humantime_serde")]
    pub deadline: Duration,
    /// How many requests of one session may be under way or waiting in memory.
    pub max_requests: usize,
    /// How many events may wait for a watcher before it is told to list again.
    pub watch_backlog: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(30), max_requests: 1024, watch_backlog: 65_536 }
    }
}

/// A handle of one session. Clones are the same session.
#[derive(Debug, Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// To open the session that follows this one.
    engine: Arc<dyn Engine>,
    session: Arc<dyn EngineSession>,
    limits: Limits,
    slots: Arc<Semaphore>,
    /// Set before a new session replaces this one: no call of an old handle is sent after that.
    retired: AtomicBool,
    runtime: Handle,
}

impl Session {
    /// Opens a session on an engine.
    pub async fn open(engine: Arc<dyn Engine>, limits: Limits) -> Result<Self> {
        let session = engine.open_session().await?;
        let slots = Arc::new(Semaphore::new(limits.max_requests.clamp(1, Semaphore::MAX_PERMITS)));
        let retired = AtomicBool::new(false);
        let runtime = Handle::current();
        Ok(Self { shared: Arc::new(Shared { engine, session, limits, slots, retired, runtime }) })
    }

    /// The session's id, as seen in [`Stat::ephemeral_owner`].
    pub fn id(&self) -> i64 {
        self.shared.session.id()
    }

    /// How long the session outlives its connection.
    pub fn timeout(&self) -> Duration {
        self.shared.session.timeout()
    }

    /// `zookeeper` or `embedded`.
    pub fn engine(&self) -> &'static str {
        self.shared.engine.name()
    }

    /// The bounds of this session.
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// The state now.
    pub fn state(&self) -> SessionState {
        self.shared.session.status().borrow().state
    }

    /// The state now and its changes from now on.
    pub fn states(&self) -> watch::Receiver<SessionStatus> {
        self.shared.session.status()
    }

    /// A node's data and stat.
    pub async fn get(&self, path: impl Into<String>) -> Result<(Bytes, Stat)> {
        match self.call(Request::Get(path.into())).await? {
            Reply::Get { data, stat } => Ok((data, stat)),
            other => Err(misfit(&other)),
        }
    }

    /// Data and stat of several nodes, as they are at one moment; `None` for those that are not there.
    pub async fn get_many(&self, paths: Vec<String>) -> Result<Vec<Option<(Bytes, Stat)>>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        match self.call(Request::GetMany(paths)).await? {
            Reply::GetMany(found) => Ok(found),
            other => Err(misfit(&other)),
        }
    }

    /// A node's stat, `None` if it is not there.
    pub async fn exists(&self, path: impl Into<String>) -> Result<Option<Stat>> {
        match self.call(Request::Exists(path.into())).await? {
            Reply::Exists(stat) => Ok(stat),
            other => Err(misfit(&other)),
        }
    }

    /// The names of a node's children, in no order, and its stat.
    pub async fn children(&self, path: impl Into<String>) -> Result<(Vec<String>, Stat)> {
        match self.call(Request::Children(path.into())).await? {
            Reply::Children { names, stat } => Ok((names, stat)),
            other => Err(misfit(&other)),
        }
    }

    /// The paths of this session's ephemeral nodes at or below a path.
    pub async fn ephemerals(&self, below: impl Into<String>) -> Result<Vec<String>> {
        match self.call(Request::Ephemerals(below.into())).await? {
            Reply::Ephemerals(paths) => Ok(paths),
            other => Err(misfit(&other)),
        }
    }

    /// Creates a node; the answer has its whole path, which for a sequential one is news.
    pub async fn create(
        &self,
        path: impl Into<String>,
        data: impl Into<Bytes>,
        mode: Mode,
    ) -> Result<(String, Stat)> {
        match self.call(Request::Create { path: path.into(), data: data.into(), mode }).await? {
            Reply::Create { path, stat } => Ok((path, stat)),
            other => Err(misfit(&other)),
        }
    }

    /// Creates a node and, as empty persistent nodes, the parents that it lacks. Not atomic: parents
    /// that were made stay, also if the last create is refused.
    pub async fn create_with_parents(
        &self,
        path: impl Into<String>,
        data: impl Into<Bytes>,
        mode: Mode,
    ) -> Result<(String, Stat)> {
        let (path, data) = (path.into(), data.into());
        match self.create(path.as_str(), data.clone(), mode).await {
            Err(error) if error.kind() == Kind::NoNode => {}
            answer => return answer,
        }
        self.make_dirs(path::parent(&path)).await?;
        self.create(path, data, mode).await
    }

    /// Makes sure that a persistent node and its parents are there.
    pub async fn make_dirs(&self, path: &str) -> Result<()> {
        path::validate(path, false)?;
        let ends = path.match_indices('/').skip(1).map(|(at, _)| at).chain([path.len()]);
        for end in ends.filter(|end| *end > 1) {
            let dir = &path[..end];
            if self.exists(dir).await?.is_some() {
                continue;
            }
            match self.create(dir, Bytes::new(), Mode::Persistent).await {
                Err(error) if error.kind() != Kind::NodeExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets a node's data at a version (`None`: any).
    pub async fn set(
        &self,
        path: impl Into<String>,
        data: impl Into<Bytes>,
        version: impl Into<Option<i32>>,
    ) -> Result<Stat> {
        match self
            .call(Request::Set { path: path.into(), data: data.into(), version: version.into() })
            .await?
        {
            Reply::Set(stat) => Ok(stat),
            other => Err(misfit(&other)),
        }
    }

    /// Deletes a node at a version (`None`: any).
    pub async fn delete(&self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Result<()> {
        match self.call(Request::Delete { path: path.into(), version: version.into() }).await? {
            Reply::Delete => Ok(()),
            other => Err(misfit(&other)),
        }
    }

    /// Applies all operations, or none: then the error names the first that refused.
    pub async fn multi(&self, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        match self.call(Request::Multi(ops)).await? {
            Reply::Multi(results) => Ok(results),
            other => Err(misfit(&other)),
        }
    }

    /// Waits until this session's server has seen all that was committed before. A read after it is
    /// fresh, but not linearizable: decide by commits, never by reads.
    pub async fn sync(&self) -> Result<()> {
        self.call(Request::Sync).await.map(|_| ())
    }

    /// A node's stat, and a watch that fires at the first change after it.
    pub async fn watch_exists(&self, path: impl Into<String>) -> Result<(Option<Stat>, ExistsWatch)> {
        let path = path.into();
        path::validate(&path, false)?;
        self.run(|session| session.watch_exists(path)).await
    }

    /// Follows a subtree, whether its root is there or not. Watch first, list second.
    pub async fn watch_tree(&self, path: impl Into<String>) -> Result<TreeWatch> {
        let path = path.into();
        path::validate(&path, false)?;
        let backlog = self.shared.limits.watch_backlog;
        self.run(|session| session.watch_tree(path, backlog)).await
    }

    /// Ends the session: its ephemeral nodes are gone when this returns `Ok`.
    pub async fn close(&self) -> Result<()> {
        self.shared.retired.store(true, Ordering::SeqCst);
        self.shared.session.close().await
    }

    /// A new session in place of this one. From this call on the old handles are refused; an old
    /// session that is still alive is closed first, so that its locks do not outlive it.
    pub async fn rebuild(&self) -> Result<Self> {
        self.shared.retired.store(true, Ordering::SeqCst);
        if !self.state().is_final()
            && let Err(error) = self.shared.session.close().await
        {
            tracing::warn!(session = self.id(), %error, "the old session was not closed, and ends by its timeout");
        }
        Self::open(self.shared.engine.clone(), self.shared.limits).await
    }

    async fn call(&self, request: Request) -> Result<Reply> {
        request.validate()?;
        self.run(|session| session.send(request)).await
    }

    async fn run<T, F>(&self, send: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&dyn EngineSession) -> BoxFuture<'static, Result<T>>,
    {
        let limits = &self.shared.limits;
        let deadline = Instant::now() + limits.deadline;
        let permit = match timeout_at(deadline, self.shared.slots.clone().acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            // Nobody closes the semaphore; if somebody did, it was to say the same.
            Ok(Err(_)) => return Err(Error::new(Kind::Closed, "")),
            Err(_) => {
                let why =
                    format!("{} for {}", limits.max_requests, humantime::format_duration(limits.deadline));
                return Err(Error::new(Kind::Busy, why));
            }
        };
        self.connected(deadline).await?;
        let call = InFlight {
            call: Some(send(&*self.shared.session)),
            permit: Some(permit),
            runtime: &self.shared.runtime,
        };
        timeout_at(deadline, call).await.unwrap_or_else(|_| {
            Err(Error::new(Kind::Deadline, format!("waited {}", humantime::format_duration(limits.deadline))))
        })
    }

    /// Waits until requests can be sent; refuses a session that never will again.
    async fn connected(&self, deadline: Instant) -> Result<()> {
        let mut status = self.shared.session.status();
        loop {
            let state = status.borrow_and_update().state;
            if self.shared.retired.load(Ordering::SeqCst) {
                return Err(Error::new(
                    Kind::Closed,
                    "this handle belongs to a session that was replaced or closed",
                ));
            }
            match state {
                SessionState::Connected => return Ok(()),
                SessionState::Expired => return Err(Error::new(Kind::Expired, "")),
                SessionState::Closed => return Err(Error::new(Kind::Closed, "")),
                SessionState::Suspended => {}
            }
            match timeout_at(deadline, status.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Error::new(Kind::Closed, "")),
                Err(_) => {
                    let waited = humantime::format_duration(self.shared.limits.deadline);
                    return Err(Error::new(Kind::Suspended, format!("waited {waited} for the connection")));
                }
            }
        }
    }
}

fn misfit(reply: &Reply) -> Error {
    Error::new(Kind::Unexpected, format!("an answer to another question: {reply:?}"))
}

/// A request that was handed to the engine. If the caller goes away before the answer comes, the
/// rest is waited for in the background, with its place among the waiting requests.
struct InFlight<'a, T: Send + 'static> {
    call: Option<BoxFuture<'static, Result<T>>>,
    permit: Option<OwnedSemaphorePermit>,
    runtime: &'a Handle,
}

impl<T: Send + 'static> Future for InFlight<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = self.call.as_mut() else {
            return Poll::Pending;
        };
        let answer = std::task::ready!(call.as_mut().poll(context));
        self.call = None;
        self.permit = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static> Drop for InFlight<'_, T> {
    fn drop(&mut self) {
        if let (Some(call), Some(permit)) = (self.call.take(), self.permit.take()) {
            self.runtime.spawn(async move {
                let _ = call.await;
                drop(permit);
            });
        }
    }
}
