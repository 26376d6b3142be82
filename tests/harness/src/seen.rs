//! What a proxy has seen: requests by kind, bytes, notifications, connections, sessions.
//!
//! Everything is counted when it reaches the proxy, before any fault: a stalled request counts, since
//! its client has sent it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;

use crate::faults::Lane;
use crate::wire::{ConnectResponse, RequestKind};

/// A session, as the server granted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSeen {
    pub id: i64,
    pub password: Vec<u8>,
    pub timeout: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: BTreeMap<RequestKind, u64>,
    pub(crate) bytes: [u64; 2],
    pub(crate) notifications: u64,
    pub(crate) connections: usize,
    pub(crate) sessions: Vec<SessionSeen>,
}

/// The counts, which can be waited for from any runtime.
#[derive(Debug, Default)]
pub(crate) struct Seen(watch::Sender<Counts>);

impl Seen {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Counts> {
        self.0.subscribe()
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Counts) -> T) -> T {
        read(&self.0.borrow())
    }

    pub(crate) fn request(&self, kind: RequestKind) {
        self.0.send_modify(|counts| *counts.requests.entry(kind).or_default() += 1);
    }

    pub(crate) fn bytes(&self, lane: Lane, count: usize) {
        self.0.send_modify(|counts| counts.bytes[lane as usize] += count as u64);
    }

    pub(crate) fn notification(&self) {
        self.0.send_modify(|counts| counts.notifications += 1);
    }

    pub(crate) fn connected(&self) {
        self.0.send_modify(|counts| counts.connections += 1);
    }

    pub(crate) fn disconnected(&self) {
        self.0.send_modify(|counts| counts.connections -= 1);
    }

    pub(crate) fn session(&self, granted: ConnectResponse) {
        let timeout = Duration::from_millis(u64::try_from(granted.timeout).unwrap_or(0));
        let session = SessionSeen { id: granted.session, password: granted.password, timeout };
        self.0.send_modify(|counts| {
            // A session that returns is the latest again.
            counts.sessions.retain(|known| known.id != session.id);
            counts.sessions.push(session);
        });
    }

    /// Forgets the counts of traffic; connections and sessions are still what they are.
    pub(crate) fn reset(&self) {
        self.0.send_modify(|counts| {
            counts.requests.clear();
            counts.bytes = [0; 2];
            counts.notifications = 0;
        });
    }
}
