//! A proxy between client and server that breaks the link on command.
//!
//! It runs on a thread and a runtime of its own: neither paused time nor a blocked runtime of the test
//! disturbs it, and its faults may be ordered from sync and async code. It understands ZooKeeper's
//! framing, so that a fault can be aimed at one request ("commit, then drop the answer"). Anything else -
//! four-letter words, TLS, other protocols - passes as plain bytes: there, only the faults of the link
//! (cut, drop, stall, delay) apply. A protocol whose first four bytes could be the length of a greeting
//! needs [`Proxy::start_raw`].
//!
//! When things break: a server that cannot be reached closes the client's connection, as a dead server
//! behind a router would. What was sent before a fault was ordered may still arrive; what is sent after
//! the call returned meets the fault. Every wait panics after half a minute and says for what.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::faults::{
    Action, Direction, Dropped, DroppedRequest, LANES, Link, Matcher, Traps, Witness, within_patience,
};
use crate::relay::relay;
use crate::seen::{Counts, Seen, SessionSeen};
use crate::session::expire_session;
use crate::wire::RequestKind;

/// A running proxy; it ends, and closes its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Handle,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// What the proxy's connections and its owner share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) target: SocketAddr,
    /// Whether connections may be ZooKeeper's at all.
    pub(crate) framed: bool,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) traps: Traps,
    pub(crate) seen: Seen,
}

impl Proxy {
    /// Starts a proxy in front of a ZooKeeper server.
    pub fn start(target: SocketAddr) -> Proxy {
        Self::launch(target, true)
    }

    /// Starts a proxy in front of anything, which interprets no bytes.
    pub fn start_raw(target: SocketAddr) -> Proxy {
        Self::launch(target, false)
    }

    fn launch(target: SocketAddr, framed: bool) -> Proxy {
        let shared = Arc::new(Shared {
            target,
            framed,
            link: watch::Sender::default(),
            traps: Traps::default(),
            seen: Seen::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let (ready, started) = mpsc::channel();
        let in_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("proxy".to_owned()).spawn(move || {
            let runtime =
                Builder::new_current_thread().enable_all().build().expect("make the proxy's runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind the proxy");
                let address = listener.local_addr().expect("know the proxy's address");
                // The receiver waits below; it cannot be gone.
                let _ = ready.send((address, Handle::current()));
                accept(listener, in_thread, stopped).await;
            });
        });
        let thread = thread.expect("start the proxy's thread");
        let (address, runtime) = started.recv().expect("start the proxy");
        Proxy { address, shared, runtime, stop, thread: Some(thread) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `127.0.0.1:PORT`
    pub fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// The server behind it.
    pub fn target(&self) -> SocketAddr {
        self.shared.target
    }

    /// Closes all connections, and every new one at once, until [`Self::heal`].
    pub fn cut(&self) {
        self.change(|link| {
            link.cut = true;
            link.closings += 1;
        });
    }

    /// Closes all connections; new ones are welcome.
    pub fn drop_connections(&self) {
        self.change(|link| link.closings += 1);
    }

    /// Undoes every fault: what was held back is delivered, connections are accepted, traps disarmed.
    pub fn heal(&self) {
        // Disarmed first: nothing that the healed link lets through may spring a trap.
        self.shared.traps.disarm();
        self.change(|link| {
            *link = Link { closings: link.closings, healings: link.healings + 1, ..Link::default() };
        });
    }

    /// Holds all bytes back while connections stay open; they are delivered on [`Self::heal`].
    pub fn stall(&self, direction: Direction) {
        self.change(|link| {
            for lane in LANES.into_iter().filter(|lane| direction.includes(*lane)) {
                link.stalled[lane as usize] = true;
            }
        });
    }

    /// Lets every frame arrive later by `delay`: latency, with the order kept and no loss of throughput.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.change(|link| {
            for lane in LANES.into_iter().filter(|lane| direction.includes(*lane)) {
                link.delay[lane as usize] = delay;
            }
        });
    }

    /// Commit, then drop the answer: forwards the next request that matches, swallows its reply and
    /// closes the connection. Earlier replies are delivered.
    pub fn drop_reply(&self, matcher: impl Into<Matcher>) -> Dropped {
        self.trap("drop_reply", matcher.into(), Action::DropReply)
    }

    /// The same, but the connection stays open and holds back the reply and all that follows it.
    pub fn stall_reply(&self, matcher: impl Into<Matcher>) -> Dropped {
        self.trap("stall_reply", matcher.into(), Action::StallReply)
    }

    /// Swallows the next request that matches, before the server sees it, and closes the connection.
    pub fn drop_request(&self, matcher: impl Into<Matcher>) -> Witness<DroppedRequest> {
        self.trap("drop_request", matcher.into(), Action::DropRequest)
    }

    fn trap<T>(
        &self,
        what: &'static str,
        matcher: Matcher,
        action: fn(watch::Sender<Option<T>>) -> Action,
    ) -> Witness<T> {
        let (tell, seen) = watch::channel(None);
        self.shared.traps.arm(matcher, action(tell), self.shared.link.borrow().healings);
        Witness { seen, runtime: self.runtime.clone(), what }
    }

    fn change(&self, change: impl FnOnce(&mut Link)) {
        self.shared.link.send_modify(change);
    }

    /// Requests that clients have sent, by kind.
    pub fn counts(&self) -> BTreeMap<RequestKind, u64> {
        self.shared.seen.read(|counts| counts.requests.clone())
    }

    /// Requests of one kind that clients have sent.
    pub fn count(&self, kind: RequestKind) -> u64 {
        self.shared.seen.read(|counts| counts.requests.get(&kind).copied().unwrap_or(0))
    }

    /// Sets the counts of requests, bytes and notifications to zero.
    pub fn reset_counts(&self) {
        self.shared.seen.reset();
    }

    /// Bytes that came from clients (`ToServer`), from the server (`ToClient`), or both.
    pub fn bytes(&self, direction: Direction) -> u64 {
        let lanes = LANES.into_iter().filter(|lane| direction.includes(*lane));
        self.shared.seen.read(|counts| lanes.map(|lane| counts.bytes[lane as usize]).sum())
    }

    /// Notifications of watches that the server has sent.
    pub fn notifications(&self) -> u64 {
        self.shared.seen.read(|counts| counts.notifications)
    }

    /// Connections whose client is there and that are relayed.
    pub fn connections(&self) -> usize {
        self.shared.seen.read(|counts| counts.connections)
    }

    /// Sessions that the server granted or resumed through this proxy, the latest last.
    pub fn sessions(&self) -> Vec<SessionSeen> {
        self.shared.seen.read(|counts| counts.sessions.clone())
    }

    /// Waits until clients have sent at least `at_least` requests of a kind.
    pub async fn wait_for(&self, kind: RequestKind, at_least: u64) {
        let what = format!("{at_least} requests of kind {kind:?}");
        self.wait_until(&what, move |counts| counts.requests.get(&kind).copied().unwrap_or(0) >= at_least)
            .await;
    }

    /// Waits until there are exactly `count` connections.
    pub async fn wait_for_connections(&self, count: usize) {
        let what = format!("{count} connections");
        self.wait_until(&what, move |counts| counts.connections == count).await;
    }

    /// Waits until the server has sent at least `at_least` notifications.
    pub async fn wait_for_notifications(&self, at_least: u64) {
        let what = format!("{at_least} notifications");
        self.wait_until(&what, move |counts| counts.notifications >= at_least).await;
    }

    async fn wait_until(&self, what: &str, reached: impl FnMut(&Counts) -> bool + Send + 'static) {
        let mut counts = self.shared.seen.subscribe();
        let wait = async move { counts.wait_for(reached).await.is_ok() };
        if let Err(why) = within_patience(&self.runtime, wait).await {
            panic!("no {what} at the proxy: {why}; seen {:?}", self.counts());
        }
    }

    /// Expires the session that was granted last; see [`expire_session`].
    pub async fn expire_latest_session(&self) {
        let latest = self.sessions().pop().expect("a session was granted through this proxy");
        expire_session(self.target(), latest.id, &latest.password).await;
    }

    /// Expires a session that was granted through this proxy; see [`expire_session`].
    pub async fn expire_session(&self, id: i64) {
        let session = self.sessions().into_iter().find(|session| session.id == id);
        let session = session.unwrap_or_else(|| panic!("session {id:#x} was not granted through this proxy"));
        expire_session(self.target(), session.id, &session.password).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; a second one here would abort the test process.
            let _ = thread.join();
        }
    }
}

/// Takes connections until told to stop; those that are open end with the runtime.
async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => return,
            accepted = listener.accept() => accepted,
        };
        let link = *shared.link.borrow();
        if let Ok((client, _)) = accepted
            && !link.cut
        {
            tokio::spawn(relay(client, Arc::clone(&shared), link.closings));
        }
    }
}
