//! How an actor dies, told so that its supervisor can write it down: the message, and where it panicked.
//!
//! Every handler runs [`guarded`]. A panic in it is caught with its place in the source, which the runtime of the
//! actors does not keep, and becomes the error that the actor dies of. Nothing is printed on the way: the restart
//! log tells it once.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use ractor::{ActorProcessingErr, SupervisionEvent};

/// Why an actor has died.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Crash {
    pub reason: Reason,
    pub message: String,
    /// File, line and column of a panic.
    pub location: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Panic,
    Error,
    /// It made no progress, and was ended.
    Stall,
    Killed,
    /// The session of the tree is over.
    Expired,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Reason::Panic => "panic",
            Reason::Error => "error",
            Reason::Stall => "stall",
            Reason::Killed => "killed",
            Reason::Expired => "expired",
        }
    }
}

impl Crash {
    pub fn error(message: impl std::fmt::Display) -> Self {
        Self { reason: Reason::Error, message: message.to_string(), location: None }
    }

    pub fn of(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), location: None }
    }
}

/// What a supervisor is told about a child that has ended.
#[derive(Debug)]
pub(crate) enum Death {
    Crashed(Crash),
    /// It has ended by itself, for this reason.
    Stopped(String),
}

/// Reads an event of the runtime; `None` for those that are about no death.
pub(crate) fn death(event: SupervisionEvent) -> Option<(ractor::ActorCell, Death)> {
    match event {
        SupervisionEvent::ActorFailed(cell, error) => Some((cell, Death::Crashed(crash(error)))),
        SupervisionEvent::ActorTerminated(cell, _, reason) => {
            let reason = reason.unwrap_or_default();
            let death = if reason == "killed" {
                Death::Crashed(Crash::of(Reason::Killed, "it was killed"))
            } else {
                Death::Stopped(reason)
            };
            Some((cell, death))
        }
        _ => None,
    }
}

fn crash(error: ActorProcessingErr) -> Crash {
    match error.downcast::<Crash>() {
        Ok(crash) => *crash,
        Err(error) => Crash::error(error),
    }
}

thread_local! {
    /// Whether this thread runs something that is guarded.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the place of a panic for whoever catches it. What nobody guards is told as before.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if GUARDED.get() {
                let place = info.location().map(ToString::to_string);
                PLACE.with(|kept| *kept.borrow_mut() = place);
            } else {
                before(info);
            }
        }));
    });
}

/// Runs a future; a panic in it is an answer.
pub fn guarded<F: Future>(future: F) -> Guarded<F> {
    install_hook();
    Guarded(Box::pin(future))
}

/// See [`guarded`].
#[derive(Debug)]
pub struct Guarded<F>(Pin<Box<F>>);

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, Crash>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outer = GUARDED.replace(true);
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        GUARDED.set(outer);
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(panic) => {
                let location = PLACE.with(|kept| kept.borrow_mut().take());
                Poll::Ready(Err(Crash { reason: Reason::Panic, message: text(&*panic), location }))
            }
        }
    }
}

/// What a handler answers, from a future that may panic or err.
pub(crate) async fn handled(
    future: impl Future<Output = Result<(), Crash>>,
) -> Result<(), ActorProcessingErr> {
    match guarded(future).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(crash)) | Err(crash) => Err(Box::new(crash)),
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_told_with_its_place() {
        let crash = guarded(async { panic!("no {}", "bread") }).await.map(|(): ()| ()).unwrap_err();
        assert_eq!((crash.reason, crash.message.as_str()), (Reason::Panic, "no bread"));
        let location = crash.location.unwrap();
        assert!(location.contains("crash.rs:"), "{location}");
        assert_eq!(guarded(async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn an_error_of_ours_is_recognised_again() {
        let error = handled(async { Err(Crash::of(Reason::Expired, "over")) }).await.unwrap_err();
        assert_eq!(crash(error), Crash::of(Reason::Expired, "over"));
    }
}
