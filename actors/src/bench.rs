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
    /// For those who only look on: whoever waits for a seat here is not kept from it by them.
    seen: Notify,
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

impl Bench {
    /// Reserves a worker, if one is idle. The one that sat down last: its memory is warm.
    pub(crate) fn take(&self) -> Option<Seat> {
        self.idle.lock().pop()
    }

    pub(crate) fn put(&self, seat: Seat) {
        self.idle.lock().push(seat);
        self.filled.notify_one();
        self.seen.notify_waiters();
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

    /// How many are at work.
    fn busy(&self) -> usize {
        self.live().saturating_sub(self.idle.lock().len())
    }

    /// Whether each of those who are at work here, and one more, finds somebody idle there to hand over to. Where
    /// there is to be nobody, nobody is waited for.
    fn can_hand_over_to(&self, next: &Bench) -> bool {
        next.size() == 0 || next.idle.lock().len() > self.busy()
    }

    /// Waits until one more here could hand over to there.
    pub(crate) async fn room_in(&self, next: &Bench) {
        loop {
            let mut here = std::pin::pin!(self.seen.notified());
            let mut there = std::pin::pin!(next.seen.notified());
            here.as_mut().enable();
            there.as_mut().enable();
            if self.can_hand_over_to(next) {
                return;
            }
            tokio::select! {
                () = here => {}
                () = there => {}
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::SeqCst)
    }

    pub(crate) fn set_size(&self, size: usize) {
        self.size.store(size, Ordering::SeqCst);
        self.seen.notify_waiters();
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    pub(crate) fn hired(&self) {
        self.live.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn gone(&self) {
        let _ = self.live.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |live| live.checked_sub(1));
        self.seen.notify_waiters();
    }

    /// Whether there are too many, of whom the one who asks goes.
    pub(crate) fn retire(&self) -> bool {
        let too_many = |live: usize| (live > self.size()).then(|| live - 1);
        let retires = self.live.fetch_update(Ordering::SeqCst, Ordering::SeqCst, too_many).is_ok();
        if retires {
            self.seen.notify_waiters();
        }
        retires
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use ractor::{Actor, ActorProcessingErr};

    use super::*;
    use crate::desk::Floor;

    struct Idler;

    impl Actor for Idler {
        type Msg = worker::Message;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<worker::Message>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    async fn seat() -> Seat {
        let (actor, _) = Actor::spawn(None, Idler, ()).await.unwrap();
        Seat { actor, desk: Arc::<Floor>::default().desk("pool", "worker") }
    }

    async fn bench(workers: usize) -> Bench {
        let bench = Bench::default();
        bench.set_size(workers);
        for _ in 0..workers {
            bench.hired();
            bench.put(seat().await);
        }
        bench
    }

    #[tokio::test]
    async fn there_is_room_for_one_more_than_are_at_work() {
        let (here, there) = (bench(3).await, bench(2).await);
        assert!(here.room_in(&there).now_or_never().is_some());
        let first = here.take().unwrap();
        assert!(here.room_in(&there).now_or_never().is_some());
        let _second = here.take().unwrap();
        assert!(here.room_in(&there).now_or_never().is_none());
        // Whoever comes back, here or there, is seen by those who wait.
        let ((), ()) = tokio::join!(here.room_in(&there), async { here.put(first) });
        let busy = [there.take().unwrap(), there.take().unwrap()];
        assert!(here.room_in(&there).now_or_never().is_none());
        let ((), ()) = tokio::join!(here.room_in(&there), async {
            for seat in busy {
                there.put(seat);
            }
        });
    }

    #[tokio::test]
    async fn nobody_is_waited_for_where_nobody_works_any_more() {
        let (here, there) = (bench(1).await, bench(1).await);
        let _gone = there.take().unwrap();
        let ((), ()) = tokio::join!(here.room_in(&there), async { there.set_size(0) });
    }

    #[tokio::test]
    async fn who_looks_on_takes_no_notice_away() {
        let (here, there) = (bench(1).await, bench(1).await);
        let seat = there.take().unwrap();
        let ((), (), ()) = tokio::join!(here.room_in(&there), there.idle(), async { there.put(seat) });
    }
}
