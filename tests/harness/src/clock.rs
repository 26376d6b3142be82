//! Time, for the few places of a test that may not wait for an event.
//!
//! Tests wait for witnesses: a request seen by the proxy, a reply dropped, a process that exited. Two
//! cases remain, and both are here so that a search for sleeps finds one file:
//!
//! - passing time is itself the subject ("a lease older than this is taken over"): [`let_pass`];
//! - a foreign process offers no event, only answers (a server that starts, `/proc`): [`eventually`].
//!
//! [`eventually`] measures real time on a thread outside the runtime: a test with paused time neither
//! jumps over a server's start nor runs into the deadline at once.

use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::{JoinError, spawn_blocking};

/// How long the harness waits for an event of a healthy peer before it calls the test failed.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Between two questions to a foreign process.
const PAUSE: Duration = Duration::from_millis(15);

/// Lets `time` pass, by the clock of the runtime. Only for tests whose subject is the passing of time.
pub async fn let_pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Asks again until `check` answers `Some`, and panics with `what` when `deadline` has passed.
///
/// Only for the answers of foreign processes; for anything of our own, wait for its event.
#[track_caller]
pub fn eventually<T, F, C>(what: &str, deadline: Duration, mut check: C) -> impl Future<Output = T>
where
    C: FnMut() -> F,
    F: Future<Output = Option<T>>,
{
    let caller = Location::caller();
    async move {
        let end = Instant::now() + deadline;
        loop {
            if let Some(answer) = check().await {
                return answer;
            }
            assert!(Instant::now() < end, "waited {deadline:?} in vain for {what} (asked from {caller})");
            off_runtime(|| thread::sleep(PAUSE)).await;
        }
    }
}

/// The same for code on a thread of its own; `None` when the deadline has passed.
pub(crate) fn poll<T>(deadline: Duration, mut check: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(answer) = check() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

/// Runs blocking work beside the runtime. While it runs, paused time does not advance by itself.
pub(crate) async fn off_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.unwrap_or_else(|failed| pass_on(failed))
}

/// A panic in work done elsewhere is the test's own panic.
fn pass_on<T>(failed: JoinError) -> T {
    match failed.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(cancelled) => panic!("the runtime ended below a harness call: {cancelled}"),
    }
}
