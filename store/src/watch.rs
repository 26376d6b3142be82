//! Events: what a subtree tells its watcher, and how the session fares.
//!
//! **When things break.** A [`TreeWatch`] may miss events while the session is disconnected, or when
//! its owner reads too slowly. Both are told in one way: [`Event::Relist`]. Whoever follows a
//! subtree therefore watches first, lists second, applies later events, and lists again on every
//! `Relist`. After the session's end a watch says [`Event::Ended`], for ever.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::path;

/// How a session fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// Requests are answered.
    Connected,
    /// The connection is lost; the session may live or not. Nothing is sent meanwhile.
    Suspended,
    /// The session is over, its ephemeral nodes are gone. Only a new session helps.
    Expired,
    /// Closed on this side, or refused by the server for good.
    Closed,
}

impl SessionState {
    /// Whether no other state can follow.
    pub fn is_final(self) -> bool {
        matches!(self, SessionState::Expired | SessionState::Closed)
    }
}

/// A session's state, with a count that tells two connections apart: a session that was connected,
/// suspended and connected again between two looks has a larger count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionStatus {
    pub state: SessionState,
    pub connections: u64,
}

/// Why a watcher has to list again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Missed {
    /// The session was connected again; events in between are lost.
    Reconnected,
    /// More events came than were read; the oldest were thrown away with all the others.
    Overflow,
}

/// Something happened in a watched subtree. Paths are whole, from the root of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    Created(String),
    Deleted(String),
    /// Its data was set.
    Changed(String),
    /// A child of this node was created or deleted; follows that child's own event.
    Children(String),
    /// Events may be missing: list what is watched again.
    Relist(Missed),
    /// The session is over, and so is the watch.
    Ended(SessionState),
}

/// What woke a watch on a single path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Woken {
    Created,
    Deleted,
    Changed,
    /// The session was over before anything happened.
    Ended(SessionState),
}

/// A watch on one path, that fires once.
#[derive(Debug)]
pub struct ExistsWatch {
    fired: oneshot::Receiver<Woken>,
}

impl ExistsWatch {
    pub(crate) fn new() -> (oneshot::Sender<Woken>, Self) {
        let (sender, fired) = oneshot::channel();
        (sender, Self { fired })
    }

    /// Waits until the node is created, deleted or set, or the session ends.
    pub async fn woken(self) -> Woken {
        // The sender lives as long as the session; that it is gone means the session is.
        self.fired.await.unwrap_or(Woken::Ended(SessionState::Closed))
    }
}

/// A stream of what happens below a path. Dropping it ends the watch.
#[derive(Debug)]
pub struct TreeWatch {
    root: String,
    queue: Arc<EventQueue>,
    /// The `Children` event that follows a `Created` or `Deleted` already given.
    follow_up: Option<Event>,
    _pump: Option<PumpGuard>,
}

impl TreeWatch {
    pub(crate) fn new(
        root: String,
        queue: Arc<EventQueue>,
        pump: Option<tokio::task::JoinHandle<()>>,
    ) -> Self {
        Self { root, queue, follow_up: None, _pump: pump.map(PumpGuard) }
    }

    /// The path at the top of the watched subtree.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The next event, in the order of the server's transactions. After [`Event::Ended`] it says the
    /// same again. Safe to use in a `select!`: an event is lost only with the watch.
    pub async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            self.queue.filled.notified().await;
        }
    }

    /// The next event if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        if let Some(event) = self.follow_up.take() {
            return Some(event);
        }
        let event = self.queue.take()?;
        if let Event::Created(path) | Event::Deleted(path) = &event
            && *path != self.root
        {
            self.follow_up = Some(Event::Children(path::parent(path).to_owned()));
        }
        Some(event)
    }
}

impl Drop for TreeWatch {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Ends the task that feeds a watch when the watch is dropped.
#[derive(Debug)]
struct PumpGuard(tokio::task::JoinHandle<()>);

impl Drop for PumpGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Events between an engine and a watcher, bounded: when it is full, all that waits is replaced by a
/// single `Relist`, which costs the reader a listing and the node no memory.
#[derive(Debug)]
pub(crate) struct EventQueue {
    capacity: usize,
    inner: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    ended: Option<SessionState>,
    closed: bool,
}

impl EventQueue {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity: capacity.max(1), inner: Mutex::default(), filled: Notify::new() })
    }

    /// Adds an event; `false` once nobody listens any more.
    pub(crate) fn push(&self, event: Event) -> bool {
        let mut inner = self.inner.lock();
        if inner.closed || inner.ended.is_some() {
            return false;
        }
        match event {
            Event::Ended(state) => inner.ended = Some(state),
            Event::Relist(missed) => inner.start_over(missed),
            event if inner.events.len() < self.capacity => inner.events.push_back(event),
            _ => inner.start_over(Missed::Overflow),
        }
        drop(inner);
        self.filled.notify_one();
        true
    }

    fn take(&self) -> Option<Event> {
        let mut inner = self.inner.lock();
        inner.events.pop_front().or(inner.ended.map(Event::Ended))
    }

    fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.events = VecDeque::new();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }
}

impl Waiting {
    /// What waits is worth nothing to a reader that has to list anyway.
    fn start_over(&mut self, missed: Missed) {
        self.events.clear();
        self.events.push_back(Event::Relist(missed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(n: usize) -> Event {
        Event::Created(format!("/w/{n}"))
    }

    #[tokio::test]
    async fn a_reader_that_is_too_slow_is_told_to_list_again() {
        let queue = EventQueue::new(3);
        let mut watch = TreeWatch::new("/w".into(), queue.clone(), None);
        for n in 0..4 {
            assert!(queue.push(created(n)));
        }
        queue.push(created(4));
        assert_eq!(watch.next().await, Event::Relist(Missed::Overflow));
        assert_eq!(watch.next().await, created(4));
    }

    #[tokio::test]
    async fn an_ended_watch_gives_what_waits_and_then_its_end_for_ever() {
        let queue = EventQueue::new(3);
        let mut watch = TreeWatch::new("/".into(), queue.clone(), None);
        queue.push(Event::Changed("/a".into()));
        queue.push(Event::Ended(SessionState::Expired));
        assert!(!queue.push(Event::Changed("/b".into())));
        assert_eq!(watch.next().await, Event::Changed("/a".into()));
        assert_eq!(watch.next().await, Event::Ended(SessionState::Expired));
        assert_eq!(watch.next().await, Event::Ended(SessionState::Expired));
    }

    #[tokio::test]
    async fn a_created_node_is_followed_by_the_children_event_of_its_parent() {
        let queue = EventQueue::new(9);
        let mut watch = TreeWatch::new("/w".into(), queue.clone(), None);
        queue.push(Event::Created("/w/a".into()));
        queue.push(Event::Deleted("/w".into()));
        assert_eq!(watch.next().await, Event::Created("/w/a".into()));
        assert_eq!(watch.next().await, Event::Children("/w".into()));
        assert_eq!(watch.next().await, Event::Deleted("/w".into()));
        assert_eq!(watch.try_next(), None);
    }

    #[test]
    fn a_dropped_watch_takes_no_more_events() {
        let queue = EventQueue::new(9);
        drop(TreeWatch::new("/w".into(), queue.clone(), None));
        assert!(!queue.push(created(1)));
    }
}
