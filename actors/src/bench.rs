//! The idle workers of a pool, for those who have work for them.
//!
//! Whoever takes a seat has reserved that worker, and gives it something to do or puts the seat back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use ractor::ActorRef;
use tokio::sync::Notify;

use crate::desk::Desk;
use crate::worker;

/// The idle workers of one pool.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    idle: Mutex<Vec<Seat>>,
    filled: Notify,
    /// How many workers there are to be.
    size: AtomicUsize,
    /// How many there are.
    live: AtomicUsize,
}

/// An idle worker.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) actor: ActorRef<worker::Message>,
    pub(crate) desk: Arc<Desk>,
}

/// An idle worker that is reserved for a job whose commit is on its way. Whoever is ended before that is answered puts
/// the worker back by it.
#[derive(Debug)]
pub(crate) struct Reserved {
    seat: Option<Seat>,
    bench: Arc<Bench>,
}

impl Reserved {
    pub(crate) fn holder(&self) -> &str {
        self.seat.as_ref().map_or("", |seat| &seat.desk.holder)
    }

    /// The job is theirs.
    pub(crate) fn take(mut self) -> Option<Seat> {
        self.seat.take()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.bench.put(seat);
        }
    }
}

impl Bench {
    /// Reserves a worker for a while, if one is idle.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<Reserved> {
        let seat = self.take()?;
        Some(Reserved { seat: Some(seat), bench: self.clone() })
    }

    /// Reserves a worker, if one is idle. The one that sat down last: its memory is warm.
    pub(crate) fn take(&self) -> Option<Seat> {
        self.idle.lock().pop()
    }

    pub(crate) fn put(&self, seat: Seat) {
        self.idle.lock().push(seat);
        self.filled.notify_one();
    }

    /// A worker that has died is not idle.
    pub(crate) fn remove(&self, desk: &Desk) {
        self.idle.lock().retain(|seat| !std::ptr::eq(Arc::as_ptr(&seat.desk), desk));
    }

    /// Waits until a worker is idle, and reserves nobody.
    pub(crate) async fn idle(&self) {
        loop {
            let mut filled = std::pin::pin!(self.filled.notified());
            filled.as_mut().enable();
            if !self.idle.lock().is_empty() {
                return;
            }
            filled.await;
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::SeqCst)
    }

    pub(crate) fn set_size(&self, size: usize) {
        self.size.store(size, Ordering::SeqCst);
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    pub(crate) fn hired(&self) {
        self.live.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn gone(&self) {
        let _ = self.live.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |live| live.checked_sub(1));
    }

    /// Whether there are too many, of whom the one who asks goes.
    pub(crate) fn retire(&self) -> bool {
        let too_many = |live: usize| (live > self.size()).then(|| live - 1);
        self.live.fetch_update(Ordering::SeqCst, Ordering::SeqCst, too_many).is_ok()
    }
}
