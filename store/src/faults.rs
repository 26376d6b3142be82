//! An engine around an engine that counts calls and breaks one of them, for tests.
//!
//! A test runs something once to count its calls, and then again for each call and each [`Fault`]:
//! whatever is interrupted anywhere must end in the same tree. Watches are passed on unharmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::{Engine, EngineSession};
use crate::engines::embedded::Embedded;
use crate::error::{Error, Kind, Result};
use crate::manner::Manner;
use crate::node::{Reply, Request};

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It is not applied, and the caller learns only that the connection was lost.
    LoseRequest,
    /// It is applied, and the caller learns only that the connection was lost.
    LoseAnswer,
    /// It is not applied and never answered: the caller is as good as killed.
    KillBefore,
    /// It is applied and never answered.
    KillAfter,
    /// The session ends before it is applied.
    ExpireBefore,
    /// It is applied, then the session ends.
    ExpireAfter,
}

impl Fault {
    pub const ALL: [Fault; 6] = [
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::KillBefore,
        Fault::KillAfter,
        Fault::ExpireBefore,
        Fault::ExpireAfter,
    ];
}

/// An engine with a plan for one call. Clones share their count and plan.
#[derive(Debug, Clone)]
pub struct Faulty {
    engine: Arc<dyn Engine>,
    /// The same, if it is the embedded one, which can let a session expire.
    tree: Option<Embedded>,
    plan: Arc<Plan>,
}

/// Which call.
#[derive(Debug)]
enum At {
    Number(usize),
    /// The next that writes at a path that begins so, after so many others.
    Write(String, usize),
}

impl At {
    fn is(&mut self, number: usize, request: &Request) -> bool {
        match self {
            At::Number(at) => *at == number,
            At::Write(begins, skip) => {
                let begins = begins.as_str();
                let writes = match request {
                    Request::Create { path, .. }
                    | Request::Set { path, .. }
                    | Request::Delete { path, .. } => path.starts_with(begins),
                    Request::Multi(ops) => ops.iter().any(|op| op.path().starts_with(begins)),
                    _ => false,
                };
                let passes = writes && *skip > 0;
                *skip -= usize::from(passes);
                writes && !passes
            }
        }
    }
}

#[derive(Debug, Default)]
struct Plan {
    calls: AtomicUsize,
    trap: Mutex<Option<(At, Fault)>>,
    happened: AtomicBool,
    sprung: Notify,
}

impl Faulty {
    pub fn new(tree: Embedded) -> Self {
        Self { engine: Arc::new(tree.clone()), tree: Some(tree), plan: Arc::default() }
    }

    /// Around any engine. A session that is to expire is closed there: its ephemeral nodes go, and whatever it asks
    /// from then on is refused, as after an expiry.
    pub fn around(engine: Arc<dyn Engine>) -> Self {
        Self { engine, tree: None, plan: Arc::default() }
    }

    async fn expire(&self, session: &Arc<dyn EngineSession>) -> Result<()> {
        match &self.tree {
            Some(tree) => tree.expire_session(session.id()).await,
            None => session.close().await,
        }
    }

    /// Breaks the call with this number, counted from 0 at this moment. Only one.
    pub fn break_call(&self, number: usize, fault: Fault) {
        self.plan.set(At::Number(number), fault);
    }

    /// Breaks the next call that writes at a path that begins so. Only one.
    pub fn break_write(&self, begins: impl Into<String>, fault: Fault) {
        self.break_write_after(0, begins, fault);
    }

    /// The same after so many other such calls.
    pub fn break_write_after(&self, others: usize, begins: impl Into<String>, fault: Fault) {
        self.plan.set(At::Write(begins.into(), others), fault);
    }

    /// The number of calls since the start or the last [`Faulty::break_call`].
    pub fn calls(&self) -> usize {
        self.plan.calls.load(Ordering::SeqCst)
    }

    /// Whether the planned fault has happened: a test of a fault that never came proves nothing.
    pub fn has_happened(&self) -> bool {
        self.plan.happened.load(Ordering::SeqCst)
    }

    /// Waits until the planned fault has happened.
    pub async fn happened(&self) {
        loop {
            let sprung = self.plan.sprung.notified();
            if self.has_happened() {
                return;
            }
            sprung.await;
        }
    }
}

impl Plan {
    fn set(&self, at: At, fault: Fault) {
        self.calls.store(0, Ordering::SeqCst);
        self.happened.store(false, Ordering::SeqCst);
        *self.trap.lock() = Some((at, fault));
    }

    fn next(&self, request: &Request) -> Option<Fault> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let (_, fault) = self.trap.lock().take_if(|(at, _)| at.is(number, request))?;
        Some(fault)
    }
}

impl Manner for Faulty {
    fn below(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    fn send(&self, below: &Arc<dyn EngineSession>, request: Request) -> BoxFuture<'static, Result<Reply>> {
        let Some(fault) = self.plan.next(&request) else {
            return below.send(request);
        };
        let (session, faulty) = (below.clone(), self.clone());
        async move {
            if fault == Fault::ExpireBefore {
                faulty.expire(&session).await?;
            }
            if !matches!(fault, Fault::LoseRequest | Fault::KillBefore) {
                // Its answer is what gets lost.
                let _ = session.send(request).await;
            }
            if fault == Fault::ExpireAfter {
                faulty.expire(&session).await?;
            }
            faulty.plan.happened.store(true, Ordering::SeqCst);
            faulty.plan.sprung.notify_waiters();
            match fault {
                Fault::LoseRequest | Fault::LoseAnswer => {
                    Err(Error::new(Kind::ConnectionLoss, "a planned fault"))
                }
                Fault::KillBefore | Fault::KillAfter => std::future::pending().await,
                Fault::ExpireBefore | Fault::ExpireAfter => Err(Error::new(Kind::Expired, "a planned fault")),
            }
        }
        .boxed()
    }
}
