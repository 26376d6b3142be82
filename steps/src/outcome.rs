//! How a step ends, tells its progress, and is stopped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ingest_queue::index::Until;
pub use tokio_util::sync::CancellationToken as Cancel;

pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a step did not do its work, by what is to be done next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A service was away or the disk is full for now: later it may be better. The job waits, or fails and
    /// can be requeued.
    #[error("{0}")]
    Later(String),
    /// The job fails. After something was repaired elsewhere a person may requeue it.
    #[error("{0}")]
    Fail(String),
    /// The job fails for good: what was handed over is wrong, and has to be submitted again.
    #[error("{0}")]
    Hopeless(String),
    /// The tree was away, or another job was in the way: nothing is wrong with this one. It is given back as
    /// it is, and taken again.
    #[error("{0}")]
    Again(String),
    /// Another job has to do something first. It is given back as it is with the reason, and parked until then.
    #[error("{why}")]
    Blocked { why: String, until: Until },
    /// The job is not this node's any more. Nothing is written about it.
    #[error("{0}")]
    Lost(String),
    /// It was told to stop; what is done stays done.
    #[error("stopped")]
    Cancelled,
}

impl Failure {
    pub fn later(why: impl Into<String>) -> Self {
        Failure::Later(why.into())
    }

    pub fn fail(why: impl Into<String>) -> Self {
        Failure::Fail(why.into())
    }

    pub fn hopeless(why: impl Into<String>) -> Self {
        Failure::Hopeless(why.into())
    }

    /// The same with what was being done when it happened.
    pub fn during(self, what: impl std::fmt::Display) -> Self {
        match self {
            Failure::Later(why) => Failure::Later(format!("{what}: {why}")),
            Failure::Fail(why) => Failure::Fail(format!("{what}: {why}")),
            Failure::Hopeless(why) => Failure::Hopeless(format!("{what}: {why}")),
            Failure::Again(why) => Failure::Again(format!("{what}: {why}")),
            Failure::Blocked { why, until } => Failure::Blocked { why: format!("{what}: {why}"), until },
            Failure::Lost(why) => Failure::Lost(format!("{what}: {why}")),
            Failure::Cancelled => Failure::Cancelled,
        }
    }
}

impl From<ingest_queue::error::Error> for Failure {
    /// What the queue refused says nothing about the job's own work.
    fn from(error: ingest_queue::error::Error) -> Self {
        use ingest_queue::error::Error;
        use ingest_store::error::Next;
        match &error {
            Error::Lost { .. } | Error::NotFound(_) | Error::Deleting(_) => Failure::Lost(error.to_string()),
            Error::Store(store) if matches!(store.next(), Next::Rebuild | Next::StopNode) => {
                Failure::Lost(error.to_string())
            }
            Error::Store(store) if store.next() == Next::GiveUp => Failure::Fail(error.to_string()),
            Error::Store(_) | Error::Busy { .. } | Error::Changed { .. } | Error::AtLimit { .. } => {
                Failure::Again(error.to_string())
            }
            _ => Failure::Fail(error.to_string()),
        }
    }
}

tokio::task_local! {
    /// Kept by everything that a step runs on threads of its own, which go on when the step is dropped: whoever
    /// sets it knows by it when the step has really ended.
    pub static BUSY: Arc<dyn std::any::Any + Send + Sync>;
}

/// Runs work that blocks on a thread of its own. The step that it is for has not ended before it has.
pub(crate) fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    let busy = BUSY.try_with(Arc::clone).ok();
    tokio::task::spawn_blocking(move || {
        let answer = work();
        drop(busy);
        answer
    })
}

/// How far a step has come. Clones are the same; whoever judges stalls looks at [`Progress::beats`].
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    beats: AtomicU64,
    bytes: AtomicU64,
    files: AtomicU64,
    all_bytes: AtomicU64,
    all_files: AtomicU64,
    cancel_at: OnceLock<(u64, Cancel)>,
}

impl Progress {
    /// How much there is to do, as far as it is known.
    pub fn announce(&self, files: u64, bytes: u64) {
        self.0.all_files.store(files, Ordering::Relaxed);
        self.0.all_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn add_bytes(&self, bytes: u64) {
        let before = self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some((limit, cancel)) = self.0.cancel_at.get()
            && before.saturating_add(bytes) >= *limit
        {
            cancel.cancel();
        }
        self.beat();
    }

    pub fn add_file(&self) {
        self.0.files.fetch_add(1, Ordering::Relaxed);
        self.beat();
    }

    /// Says that it goes on, where there is nothing to count.
    pub fn beat(&self) {
        self.0.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Cancels as soon as `bytes` bytes are done, on the thread that has done them: a test can stop a step in the
    /// middle of its work, however fast that work is. Only the first call counts.
    #[doc(hidden)]
    pub fn cancel_at(&self, bytes: u64, cancel: &Cancel) {
        let _ = self.0.cancel_at.set((bytes, cancel.clone()));
    }

    /// A number that grows while it goes on.
    pub fn beats(&self) -> u64 {
        self.0.beats.load(Ordering::Relaxed)
    }

    /// Files and bytes that are done.
    pub fn done(&self) -> (u64, u64) {
        (self.0.files.load(Ordering::Relaxed), self.0.bytes.load(Ordering::Relaxed))
    }

    /// Files and bytes that there are; 0 where that is not known.
    pub fn all(&self) -> (u64, u64) {
        (self.0.all_files.load(Ordering::Relaxed), self.0.all_bytes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_its_kind_and_says_where_it_happened() {
        let failure = Failure::hopeless("line 3: no URL").during("manifest.checkm");
        assert_eq!(failure, Failure::Hopeless("manifest.checkm: line 3: no URL".into()));
        assert_eq!(Failure::Cancelled.during("x"), Failure::Cancelled);
    }

    #[test]
    fn everything_that_is_counted_is_a_beat() {
        let progress = Progress::default();
        progress.announce(2, 30);
        progress.add_bytes(10);
        progress.clone().add_file();
        progress.beat();
        assert_eq!((progress.done(), progress.all(), progress.beats()), ((1, 10), (2, 30), 3));
    }

    #[test]
    fn a_step_is_cancelled_by_the_bytes_that_reach_the_limit() {
        let (progress, cancel) = (Progress::default(), Cancel::new());
        progress.cancel_at(10, &cancel);
        progress.add_bytes(9);
        assert!(!cancel.is_cancelled());
        progress.clone().add_bytes(1);
        assert!(cancel.is_cancelled());
    }
}
