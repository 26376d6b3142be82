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
    /// How many single paths were left when those that nobody waits for were last looked for.
    after_pruning: usize,
}

/// Fewer paths than this are not worth a look.
const WORTH_PRUNING: usize = 1024;

impl Watches {
    pub(super) fn add_exists(&mut self, session: i64, path: String, sender: oneshot::Sender<Woken>) {
        self.prune();
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

    /// Forgets watches that nobody waits for any more: looked for when there are twice as many as were
    /// left the last time, so that it costs each of them little however many live.
    fn prune(&mut self) {
        if self.exists.len() < WORTH_PRUNING.max(2 * self.after_pruning) {
            return;
        }
        self.exists.retain(|_, watchers| {
            watchers.retain(|(_, sender)| !sender.is_closed());
            !watchers.is_empty()
        });
        self.after_pruning = self.exists.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_that_nobody_waits_for_do_not_pile_up() {
        let mut watches = Watches::default();
        let mut waiting = Vec::new();
        for n in 0..50 * WORTH_PRUNING {
            let (sender, receiver) = oneshot::channel();
            watches.add_exists(1, format!("/{n}"), sender);
            if n % 100 == 0 {
                waiting.push(receiver);
            }
        }
        assert!(watches.exists.len() <= 2 * WORTH_PRUNING.max(waiting.len()), "{}", watches.exists.len());
        watches.tell(&Event::Deleted("/100".into()));
        assert_eq!(waiting[1].try_recv(), Ok(Woken::Deleted));
        assert!(waiting[2].try_recv().is_err());
    }
}
