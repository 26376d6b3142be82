//! What a [`Proxy`](crate::Proxy) does to the traffic, and the witnesses that it was done.
//!
//! Two sorts of fault. *Conditions* of the link (cut, stall, delay) hold for every connection until they
//! are undone. *Traps* wait for one request that their [`Matcher`] fits, spring once, and tell it to
//! their [`Witness`]. A trap whose connection ends between request and reply is armed again: the
//! client's retry meets it. `heal` undoes the conditions and disarms the traps.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::clock::PATIENCE;
use crate::wire::RequestKind;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
    Both,
}

impl Direction {
    pub(crate) fn includes(self, lane: Lane) -> bool {
        match self {
            Direction::Both => true,
            Direction::ToServer => lane == Lane::ToServer,
            Direction::ToClient => lane == Lane::ToClient,
        }
    }
}

/// One direction, as an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    ToServer = 0,
    ToClient = 1,
}

pub(crate) const LANES: [Lane; 2] = [Lane::ToServer, Lane::ToClient];

/// The condition of the link, for all connections.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link {
    pub(crate) cut: bool,
    pub(crate) stalled: [bool; 2],
    pub(crate) delay: [Duration; 2],
    /// Counts the orders to close connections: one that was accepted under a lower count is closed.
    pub(crate) closings: u64,
    /// Counts the healings: what was held back under a lower count is let go.
    pub(crate) healings: u64,
}

/// Chooses the request that a trap waits for.
#[derive(Debug, Clone, Default)]
pub struct Matcher {
    kind: Option<RequestKind>,
    path: Option<Vec<u8>>,
    skip: u64,
}

impl Matcher {
    /// Any request of the application: no greeting, ping, authentication or re-sent watch.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests of a kind.
    pub fn kind(kind: RequestKind) -> Self {
        Matcher { kind: Some(kind), ..Self::default() }
    }

    /// Requests whose bytes contain this text; paths, also those inside a multi, are plain bytes there.
    pub fn path(text: impl AsRef<str>) -> Self {
        Self::any().with_path(text)
    }

    /// Narrows it to requests whose bytes contain this text.
    pub fn with_path(mut self, text: impl AsRef<str>) -> Self {
        self.path = Some(text.as_ref().as_bytes().to_vec());
        self
    }

    /// Lets the first `count` matching requests pass.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    fn fits(&self, kind: RequestKind, body: &[u8]) -> bool {
        let kind_fits = match self.kind {
            Some(wanted) => wanted == kind,
            None => !kind.is_housekeeping(),
        };
        kind_fits
            && self.path.as_ref().is_none_or(|path| {
                path.is_empty() || body.windows(path.len()).any(|window| window == path.as_slice())
            })
    }
}

impl From<RequestKind> for Matcher {
    fn from(kind: RequestKind) -> Self {
        Self::kind(kind)
    }
}

impl From<&str> for Matcher {
    fn from(path: &str) -> Self {
        Self::path(path)
    }
}

/// A reply that the client did not get (or, if stalled, not yet).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedReply {
    /// The transaction that the server answered with; a write is committed under it.
    pub zxid: i64,
    /// The error that the server answered with, of a multi that of its first refused operation; 0 if it did what was asked.
    pub err: i32,
    pub kind: RequestKind,
}

/// A request that the server did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedRequest {
    pub xid: i32,
    pub kind: RequestKind,
}

/// Tells when a trap has sprung.
#[derive(Debug)]
pub struct Witness<T> {
    pub(crate) seen: watch::Receiver<Option<T>>,
    pub(crate) runtime: Handle,
    pub(crate) what: &'static str,
}

/// The witness of a dropped or stalled reply.
pub type Dropped = Witness<DroppedReply>;

impl<T: Copy + Send + Sync + 'static> Witness<T> {
    /// Waits until the trap has sprung. Panics if it was disarmed first, or after half a minute.
    pub async fn happened(&self) -> T {
        let (mut seen, what) = (self.seen.clone(), self.what);
        let happened = within_patience(&self.runtime, async move {
            seen.wait_for(Option::is_some).await.ok().and_then(|seen| *seen)
        });
        match happened.await {
            Ok(Some(sprung)) => sprung,
            Ok(None) => panic!("{what}: disarmed before a request matched"),
            Err(why) => panic!("{what}: no request matched: {why}"),
        }
    }

    /// Whether the trap has sprung already.
    pub fn has_happened(&self) -> bool {
        self.seen.borrow().is_some()
    }
}

/// Waits by the real clock of the proxy's own runtime, whatever time is for the test.
pub(crate) async fn within_patience<T: Send + 'static>(
    runtime: &Handle,
    event: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    match runtime.spawn(tokio::time::timeout(PATIENCE, event)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(format!("waited {PATIENCE:?} in vain")),
        Err(_) => Err("the proxy is gone".to_owned()),
    }
}

/// What a trap does to the request it catches.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    DropRequest(watch::Sender<Option<DroppedRequest>>),
    DropReply(watch::Sender<Option<DroppedReply>>),
    StallReply(watch::Sender<Option<DroppedReply>>),
}

#[derive(Debug, Clone)]
pub(crate) struct Trap {
    matcher: Matcher,
    pub(crate) action: Action,
    /// Under which count of healings it was armed.
    healings: u64,
}

impl Trap {
    /// False once it was healed away, also while it waits for a reply.
    pub(crate) fn is_armed(&self, link: &Link) -> bool {
        self.healings == link.healings
    }
}

/// The traps that wait for their request, in the order in which they were set.
#[derive(Debug, Default)]
pub(crate) struct Traps(Mutex<Vec<Trap>>);

impl Traps {
    pub(crate) fn arm(&self, matcher: Matcher, action: Action, healings: u64) {
        self.0.lock().push(Trap { matcher, action, healings });
    }

    pub(crate) fn disarm(&self) {
        self.0.lock().clear();
    }

    /// The trap that this request springs, which then no longer waits.
    pub(crate) fn spring(&self, kind: RequestKind, body: &[u8]) -> Option<Trap> {
        let mut traps = self.0.lock();
        let index = traps.iter().position(|trap| trap.matcher.fits(kind, body))?;
        let skip = &mut traps[index].matcher.skip;
        if *skip > 0 {
            *skip -= 1;
            return None;
        }
        Some(traps.remove(index))
    }

    /// Arms a trap again whose request was never answered, unless it was healed away since.
    pub(crate) fn rearm(&self, trap: Trap, link: &Link) {
        if trap.is_armed(link) {
            self.0.lock().insert(0, trap);
        }
    }
}
