//! An engine around an engine, for tests: whoever has a [`Manner`] is one.
//!
//! It says how requests go on, and whether its sessions seem connected; the rest goes to the engine below as it is.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::engine::{Engine, EngineSession};
use crate::error::Result;
use crate::node::{Reply, Request, Stat};
use crate::watch::{ExistsWatch, SessionStatus, TreeWatch};

/// How an engine treats the one below it. Clones are the same.
pub trait Manner: Debug + Clone + Send + Sync + 'static {
    fn below(&self) -> &dyn Engine;

    fn send(&self, below: &Arc<dyn EngineSession>, request: Request) -> BoxFuture<'static, Result<Reply>>;

    fn status(&self, below: &Arc<dyn EngineSession>) -> watch::Receiver<SessionStatus> {
        below.status()
    }
}

impl<M: Manner> Engine for M {
    fn open_session(&self) -> BoxFuture<'_, Result<Arc<dyn EngineSession>>> {
        async move {
            let below = self.below().open_session().await?;
            Ok(Arc::new(Around { below, manner: self.clone() }) as Arc<dyn EngineSession>)
        }
        .boxed()
    }

    fn name(&self) -> &'static str {
        self.below().name()
    }
}

#[derive(Debug)]
struct Around<M> {
    below: Arc<dyn EngineSession>,
    manner: M,
}

impl<M: Manner> EngineSession for Around<M> {
    fn id(&self) -> i64 {
        self.below.id()
    }

    fn timeout(&self) -> Duration {
        self.below.timeout()
    }

    fn status(&self) -> watch::Receiver<SessionStatus> {
        self.manner.status(&self.below)
    }

    fn send(&self, request: Request) -> BoxFuture<'static, Result<Reply>> {
        self.manner.send(&self.below, request)
    }

    fn watch_exists(&self, path: String) -> BoxFuture<'static, Result<(Option<Stat>, ExistsWatch)>> {
        self.below.watch_exists(path)
    }

    fn watch_tree(&self, path: String, backlog: usize) -> BoxFuture<'static, Result<TreeWatch>> {
        self.below.watch_tree(path, backlog)
    }

    fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.below.close()
    }
}
