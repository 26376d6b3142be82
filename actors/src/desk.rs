//! Desks: who works on what, for those who have to know while it is worked on.
//!
//! Every life of a worker has a desk, which outlives it. Its supervisor looks there when the worker has died, the
//! timekeeper when it judges stalls, the root when it waits for all work to end, the gate when somebody asks. A desk
//! that is closed takes nothing any more: whoever wants to put a job there keeps it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ingest_queue::ids::Bid;
use ingest_queue::map::QueueRef;
use ingest_steps::outcome::{Cancel, Progress};
use parking_lot::Mutex;
use ractor::ActorCell;
use tokio::sync::Notify;

/// Where one worker works.
#[derive(Debug)]
pub struct Desk {
    /// The worker, for people.
    pub name: String,
    /// The holder of its locks: no other life of any worker of this node has the same.
    pub holder: String,
    pub pool: String,
    place: Mutex<Place>,
    busy: AtomicUsize,
    floor: Arc<Floor>,
    worker: OnceLock<ActorCell>,
}

#[derive(Debug, Default)]
struct Place {
    current: Option<Current>,
    closed: bool,
    stalled: bool,
}

/// What is worked on.
#[derive(Debug, Clone)]
pub struct Current {
    /// Absent: something else than a job.
    pub entry: Option<QueueRef>,
    pub bid: Option<Bid>,
    pub attempt: u32,
    pub since: Instant,
    pub progress: Progress,
    pub cancel: Cancel,
}

/// All that is under way at a node.
#[derive(Debug, Default)]
pub struct Floor {
    desks: Mutex<Vec<Arc<Desk>>>,
    /// How many sit at their desks.
    busy: AtomicUsize,
    left: Notify,
    lives: AtomicU64,
}

impl Floor {
    /// A new desk.
    pub fn desk(self: &Arc<Self>, pool: &str, name: impl Into<String>) -> Arc<Desk> {
        let name = name.into();
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        let desk = Arc::new(Desk {
            holder: format!("{name}.{life}"),
            name,
            pool: pool.to_owned(),
            place: Mutex::default(),
            busy: AtomicUsize::new(0),
            floor: self.clone(),
            worker: OnceLock::new(),
        });
        self.desks.lock().push(desk.clone());
        desk
    }

    pub fn remove(&self, desk: &Desk) {
        self.desks.lock().retain(|other| !std::ptr::eq(Arc::as_ptr(other), desk));
    }

    pub fn desks(&self) -> Vec<Arc<Desk>> {
        self.desks.lock().clone()
    }

    /// How many are at work.
    pub fn busy(&self) -> usize {
        self.busy.load(Ordering::SeqCst)
    }

    /// How many desks there is work at.
    pub fn under_way(&self) -> usize {
        self.desks().iter().filter(|desk| desk.current().is_some()).count()
    }

    /// Waits until nobody is at work.
    pub async fn empty(&self) {
        self.until(|| self.busy() == 0 && !self.desks().iter().any(|desk| desk.current().is_some())).await;
    }

    /// Something small that is to be done before a node may end, until what is answered is dropped.
    pub(crate) fn chore(self: &Arc<Self>) -> Chore {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Chore(self.clone())
    }

    async fn until(&self, reached: impl Fn() -> bool) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if reached() {
                return;
            }
            left.await;
        }
    }

    /// Tells all that work to stop, if they are wanted to.
    pub fn cancel(&self, wanted: impl Fn(&Desk, &Current) -> bool) -> usize {
        let mut told = 0;
        for desk in self.desks() {
            if let Some(current) = desk.current().filter(|current| wanted(&desk, current)) {
                current.cancel.cancel();
                told += 1;
            }
        }
        told
    }
}

impl Desk {
    pub fn current(&self) -> Option<Current> {
        self.place.lock().current.clone()
    }

    /// The worker has died: what it had is nobody's now, and nothing comes here any more. Threads that are still
    /// at it are told to stop.
    pub fn close(&self) -> Option<Current> {
        let current = {
            let mut place = self.place.lock();
            place.closed = true;
            place.current.take()
        };
        if let Some(current) = &current {
            current.cancel.cancel();
        }
        self.floor.remove(self);
        self.floor.left.notify_waiters();
        current
    }

    /// Puts a job here, for the worker to find; `false` if there is no worker any more.
    pub fn put(&self, entry: QueueRef, bid: Option<Bid>, attempt: u32) -> bool {
        self.put_here(Some(entry), bid, attempt).is_some()
    }

    /// Something else than a job.
    pub fn put_other(&self, bid: Option<Bid>) -> (Progress, Cancel) {
        self.put_here(None, bid, 0).unwrap_or_default()
    }

    fn put_here(
        &self,
        entry: Option<QueueRef>,
        bid: Option<Bid>,
        attempt: u32,
    ) -> Option<(Progress, Cancel)> {
        let mut place = self.place.lock();
        if place.closed {
            return None;
        }
        let (progress, cancel) = (Progress::default(), Cancel::new());
        let told = (progress.clone(), cancel.clone());
        place.current = Some(Current { entry, bid, attempt, since: Instant::now(), progress, cancel });
        place.stalled = false;
        Some(told)
    }

    /// What is known of the job now that it is acquired.
    pub fn acquired(&self, bid: Bid, attempt: u32) {
        if let Some(current) = &mut self.place.lock().current {
            current.bid = Some(bid);
            current.attempt = attempt;
        }
    }

    pub fn clear(&self) {
        self.place.lock().current = None;
        self.floor.left.notify_waiters();
    }

    /// What was begun at this time made no progress for too long; `false` if it is not there any more.
    pub fn stalled(&self, since: Instant) -> bool {
        let mut place = self.place.lock();
        let is_there = place.current.as_ref().is_some_and(|current| current.since == since);
        place.stalled |= is_there;
        is_there
    }

    pub fn has_stalled(&self) -> bool {
        self.place.lock().stalled
    }

    /// Whose desk it is.
    pub(crate) fn belongs_to(&self, worker: ActorCell) {
        let _ = self.worker.set(worker);
    }

    /// Ends the worker, in the middle of what it does.
    pub(crate) fn end(&self) {
        if let Some(worker) = self.worker.get() {
            worker.kill();
        }
    }

    /// At work until what is answered is dropped. Nobody sits down at a desk that is closed: what was held here
    /// is given away as soon as it is left.
    pub(crate) fn sit(self: &Arc<Self>) -> Option<Sitting> {
        let place = self.place.lock();
        (!place.closed).then(|| self.sit_beside())
    }

    fn sit_beside(self: &Arc<Self>) -> Sitting {
        self.busy.fetch_add(1, Ordering::SeqCst);
        self.floor.busy.fetch_add(1, Ordering::SeqCst);
        Sitting(self.clone())
    }

    /// Waits until nobody is at work here, not even a thread of somebody who has died.
    pub(crate) async fn left(&self) {
        self.floor.until(|| self.busy.load(Ordering::SeqCst) == 0).await;
    }
}

/// Something small is to be done.
#[derive(Debug)]
pub(crate) struct Chore(Arc<Floor>);

impl Drop for Chore {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
        self.0.left.notify_waiters();
    }
}

/// Somebody is at work. Clones are others at the same desk.
#[derive(Debug)]
pub(crate) struct Sitting(Arc<Desk>);

impl Clone for Sitting {
    fn clone(&self) -> Self {
        self.0.sit_beside()
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        let desk = &self.0;
        desk.busy.fetch_sub(1, Ordering::SeqCst);
        desk.floor.busy.fetch_sub(1, Ordering::SeqCst);
        desk.floor.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use ingest_queue::ids::Jid;
    use ingest_queue::map::Priority;
    use ingest_queue::states::JobState;

    use super::*;

    fn entry() -> QueueRef {
        QueueRef::new(JobState::Downloading, Priority::DEFAULT, Jid::new(7))
    }

    #[test]
    fn a_closed_desk_takes_nothing_and_gives_up_what_it_had() {
        let floor = Arc::<Floor>::default();
        let desk = floor.desk("downloading", "downloading-0");
        assert!(desk.put(entry(), None, 0));
        desk.acquired(Bid::new(3), 2);
        let had = desk.close().unwrap();
        assert_eq!((had.entry, had.bid, had.attempt), (Some(entry()), Some(Bid::new(3)), 2));
        assert!(had.cancel.is_cancelled());
        assert!(!desk.put(entry(), None, 0) && desk.current().is_none());
        assert!(!desk.stalled(had.since) && !desk.has_stalled());
        assert!(floor.desks().is_empty());
        assert_ne!(floor.desk("downloading", "downloading-0").holder, desk.holder);
    }

    #[test]
    fn a_stall_is_judged_by_what_was_begun_then_and_not_by_what_came_after() {
        let floor = Arc::<Floor>::default();
        let desk = floor.desk("downloading", "downloading-0");
        assert!(desk.put(entry(), None, 0));
        let before = desk.current().unwrap().since;
        desk.clear();
        assert!(desk.put(entry(), None, 0));
        assert!(!desk.stalled(before) && !desk.has_stalled());
        let now = desk.current().unwrap().since;
        assert!(desk.stalled(now) && desk.has_stalled());
        // And the next has not stalled.
        assert!(desk.put(entry(), None, 0) && !desk.has_stalled());
    }

    #[tokio::test]
    async fn a_desk_is_left_when_the_last_who_sits_there_goes() {
        let floor = Arc::<Floor>::default();
        let desk = floor.desk("downloading", "downloading-0");
        let first = desk.sit().unwrap();
        let second = first.clone();
        drop(first);
        desk.close();
        assert!(desk.sit().is_none());
        assert_eq!(floor.busy(), 1);
        let (left, ()) = tokio::join!(desk.left(), async { drop(second) });
        assert_eq!((left, floor.busy()), ((), 0));
        floor.empty().await;
    }
}
