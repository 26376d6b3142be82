//! Watches on a ZooKeeper ensemble, with what the client and the server leave undone.
//!
//! - The client does not send recursive watches again after a reconnect. Here every return to
//!   connected sets the watch anew and then says [`Event::Relist`].
//! - A watch on a single path takes the place of a recursive one on the very same path, on the server
//!   (ZOOKEEPER-4466), and so does its removal. So a single watch on a path that is the root of a
//!   recursive one is made from the recursive one's events.
//! - The client's watcher panics when it is asked again after its last event. Here the last event
//!   ends the task that asks.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use zookeeper_client as zk;
use zookeeper_client::{AddWatchMode, EventType};

use super::convert;
use crate::error::{Outcome, Result};
use crate::node::Stat;
use crate::watch::{Event, EventQueue, ExistsWatch, Missed, SessionState, TreeWatch, Woken};

/// How many recursive watches this session has on a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Roots(Arc<Mutex<HashMap<String, usize>>>);

impl Roots {
    /// Runs `send` while no recursive watch can be begun on `path`, unless one stands there. The
    /// client sends when its method is called, so what `send` calls is on the wire before any other.
    fn unless_watched<T>(&self, path: &str, send: impl FnOnce() -> T) -> Option<T> {
        let roots = self.0.lock();
        (!roots.contains_key(path)).then(send)
    }

    fn enter(&self, path: &str) -> RootGuard {
        *self.0.lock().entry(path.to_owned()).or_default() += 1;
        RootGuard { roots: self.clone(), path: path.to_owned() }
    }
}

struct RootGuard {
    roots: Roots,
    path: String,
}

impl Drop for RootGuard {
    fn drop(&mut self) {
        let mut roots = self.roots.0.lock();
        if let Some(count) = roots.get_mut(&self.path) {
            *count -= 1;
            if *count == 0 {
                roots.remove(&self.path);
            }
        }
    }
}

pub(super) async fn tree(
    client: Arc<zk::Client>,
    roots: Roots,
    path: String,
    backlog: usize,
) -> Result<TreeWatch> {
    let guard = roots.enter(&path);
    let watcher = client
        .watch(&path, AddWatchMode::PersistentRecursive)
        .await
        .map_err(|error| convert::error(&error, &path))?;
    let queue = EventQueue::new(backlog);
    let pump =
        Pump { client: Arc::downgrade(&client), path: path.clone(), queue: queue.clone(), _guard: guard };
    let task = tokio::spawn(pump.run(watcher));
    Ok(TreeWatch::new(path, queue, Some(task)))
}

/// Moves events from the client's queue, which has no bound, into ours.
struct Pump {
    /// Weak: a watch must not keep a session open that its owner closes.
    client: Weak<zk::Client>,
    path: String,
    queue: Arc<EventQueue>,
    _guard: RootGuard,
}

impl Pump {
    async fn run(self, mut watcher: zk::PersistentWatcher) {
        loop {
            let event = watcher.changed().await;
            match event.event_type {
                EventType::NodeCreated => self.queue.push(Event::Created(event.path)),
                EventType::NodeDeleted => self.queue.push(Event::Deleted(event.path)),
                EventType::NodeDataChanged => self.queue.push(Event::Changed(event.path)),
                // Derived from the events of the children, for both engines alike.
                EventType::NodeChildrenChanged => true,
                EventType::Session => match convert::state(event.session_state) {
                    SessionState::Connected => match self.watch_again().await {
                        Ok(Some(new)) => {
                            // The new one is there before the old one goes: the server keeps the watch.
                            watcher = new;
                            self.queue.push(Event::Relist(Missed::Reconnected))
                        }
                        // Lost again meanwhile: the old watcher tells of the next connection.
                        Ok(None) => true,
                        Err(state) => {
                            self.queue.push(Event::Ended(state));
                            return;
                        }
                    },
                    SessionState::Suspended => true,
                    state => {
                        self.queue.push(Event::Ended(state));
                        return;
                    }
                },
            };
        }
    }

    async fn watch_again(&self) -> Result<Option<zk::PersistentWatcher>, SessionState> {
        let Some(client) = self.client.upgrade() else {
            return Err(SessionState::Closed);
        };
        match client.watch(&self.path, AddWatchMode::PersistentRecursive).await {
            Ok(watcher) => Ok(Some(watcher)),
            Err(zk::Error::SessionExpired) => Err(SessionState::Expired),
            Err(error) if convert::error(&error, &self.path).outcome() == Outcome::Unknown => Ok(None),
            Err(error) => {
                tracing::error!(path = self.path, %error, "the watch could not be set again after a reconnect");
                Err(SessionState::Closed)
            }
        }
    }
}

pub(super) async fn exists(
    client: Arc<zk::Client>,
    roots: Roots,
    path: String,
) -> Result<(Option<Stat>, ExistsWatch)> {
    let (fire, watch) = ExistsWatch::new();
    let Some(sent) = roots.unless_watched(&path, || client.check_and_watch_stat(&path)) else {
        let tree = tree(client.clone(), roots, path.clone(), 1024).await?;
        let stat = look(&client, &path).await?;
        tokio::spawn(from_tree(Arc::downgrade(&client), tree, stat, fire));
        return Ok((stat, watch));
    };
    let (stat, watcher) = sent.await.map_err(|error| convert::error(&error, &path))?;
    tokio::spawn(once(watcher, roots, path, fire));
    Ok((stat.as_ref().map(convert::stat), watch))
}

async fn once(watcher: zk::OneshotWatcher, roots: Roots, path: String, mut fire: oneshot::Sender<Woken>) {
    let mut changed = Box::pin(watcher.changed());
    let event = tokio::select! {
        event = &mut changed => event,
        () = fire.closed() => {
            // Giving it up removes every watch of this path on the server: not while a recursive one
            // stands there too.
            let mut changed = Some(changed);
            roots.unless_watched(&path, || drop(changed.take()));
            match changed {
                Some(changed) => changed.await,
                None => return,
            }
        }
    };
    // A receiver that has gone does not want to know.
    let _ = fire.send(match event.event_type {
        EventType::NodeCreated => Woken::Created,
        EventType::NodeDeleted => Woken::Deleted,
        EventType::NodeDataChanged | EventType::NodeChildrenChanged => Woken::Changed,
        EventType::Session => Woken::Ended(convert::state(event.session_state)),
    });
}

async fn from_tree(
    client: Weak<zk::Client>,
    mut tree: TreeWatch,
    before: Option<Stat>,
    mut fire: oneshot::Sender<Woken>,
) {
    let woken = loop {
        let event = tokio::select! {
            event = tree.next() => event,
            () = fire.closed() => return,
        };
        match event {
            Event::Created(path) if path == tree.root() => break Woken::Created,
            Event::Deleted(path) if path == tree.root() => break Woken::Deleted,
            Event::Changed(path) if path == tree.root() => break Woken::Changed,
            Event::Ended(state) => break Woken::Ended(state),
            Event::Relist(_) => {
                let Some(client) = client.upgrade() else { break Woken::Ended(SessionState::Closed) };
                // A look that fails is followed by another reconnect, or by the end.
                match (before, look(&client, tree.root()).await) {
                    (None, Ok(Some(_))) => break Woken::Created,
                    (Some(_), Ok(None)) => break Woken::Deleted,
                    (Some(before), Ok(Some(now))) if before.mzxid != now.mzxid => break Woken::Changed,
                    _ => {}
                }
            }
            _ => {}
        }
    };
    let _ = fire.send(woken);
}

async fn look(client: &zk::Client, path: &str) -> Result<Option<Stat>> {
    let stat = client.check_stat(path).await.map_err(|error| convert::error(&error, path))?;
    Ok(stat.as_ref().map(convert::stat))
}
