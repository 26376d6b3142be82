//! Who is to be told what. The writer owns this and tells watchers of what it has committed.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::path;
use crate::watch::{Event, EventQueue, SessionState, Woken};

#[derive(Debug, Default)]
pub(super) struct Watches {
    /// By the path watched.
    exists: HashMap<String, Vec<(i64, oneshot::Sender<Woken>)>>,
    /// By the root of the subtree.
    trees: HashMap<String, Vec<(i64, Arc<EventQueue>)>>,
}

impl Watches {
    pub(super) fn add_exists(&mut self, session: i64, path: String, sender: oneshot::Sender<Woken>) {
        let watchers = self.exists.entry(path).or_default();
        watchers.retain(|(_, sender)| !sender.is_closed());
        watchers.push((session, sender));
    }

    pub(super) fn add_tree(&mut self, session: i64, root: String, queue: Arc<EventQueue>) {
        self.trees.retain(|_, watchers| {
            watchers.retain(|(_, queue)| !queue.is_closed());
            !watchers.is_empty()
        });
        self.trees.entry(root).or_default().push((session, queue));
    }

    pub(super) fn tell(&mut self, event: &Event) {
        let (at, woken) = match event {
            Event::Created(path) => (path, Woken::Created),
            Event::Deleted(path) => (path, Woken::Deleted),
            Event::Changed(path) => (path, Woken::Changed),
            _ => return,
        };
        for (_, sender) in self.exists.remove(at).into_iter().flatten() {
            // Nobody waits any more: nobody to tell.
            let _ = sender.send(woken);
        }
        if self.trees.is_empty() {
            return;
        }
        let mut root = at.as_str();
        loop {
            for (_, queue) in self.trees.get(root).into_iter().flatten() {
                queue.push(event.clone());
            }
            if root == "/" {
                return;
            }
            root = path::parent(root);
        }
    }

    /// Ends the watches of a session.
    pub(super) fn end(&mut self, session: i64, state: SessionState) {
        self.exists.retain(|_, watchers| {
            for (_, sender) in watchers.extract_if(.., |(owner, _)| *owner == session) {
                let _ = sender.send(Woken::Ended(state));
            }
            !watchers.is_empty()
        });
        self.trees.retain(|_, watchers| {
            for (_, queue) in watchers.extract_if(.., |(owner, _)| *owner == session) {
                queue.push(Event::Ended(state));
            }
            !watchers.is_empty()
        });
    }

    /// Forgets watches that nobody waits for any more.
    pub(super) fn prune(&mut self) {
        self.exists.retain(|_, watchers| {
            watchers.retain(|(_, sender)| !sender.is_closed());
            !watchers.is_empty()
        });
    }

    pub(super) fn len(&self) -> usize {
        self.exists.len()
    }
}
