//! What breaks: workers, nodes, sessions.

use super::explore::Step;
use super::jobs::give_back;
use super::same::Given;
use super::setup::Setup;
use super::world::{Hand, World};
use crate::model::Tree;

impl World {
    /// A worker dies, a node crashes, a session expires, a job is given back.
    pub(super) fn break_something(&self, setup: &Setup, at: usize, next: &mut Vec<Step<World>>) {
        if self.faults == 0 {
            return;
        }
        let mut broken = |name: String, seen: &'static str, change: &dyn Fn(&mut World, &mut Tree)| {
            let mut to = self.clone();
            to.faults -= 1;
            let mut tree = Tree::clone(&self.tree);
            change(&mut to, &mut tree);
            next.push(Step { name, fault: true, seen: Some(seen), to: to.tidied(tree) });
        };
        let node = &self.nodes[at];
        for (number, lease) in node.leases.iter().enumerate().filter(|(_, lease)| !lease.dead) {
            broken(format!("the worker of {} on node {at} dies", lease.jid), "a worker dies", &|to, _| {
                to.nodes[at].leases[number].dead = true;
            });
            if node.is_free_for_jobs(setup) && !lease.released {
                let name = format!("node {at} decides: give back {}", lease.jid);
                broken(name, "a job is given back", &|to, _| {
                    to.nodes[at].hands.push(Given::new(Hand::of(vec![give_back(lease, false)])));
                });
            }
        }
        if node.leases.is_empty() && node.hands.is_empty() && node.batch.is_none() {
            return;
        }
        broken(format!("node {at} crashes"), "a node crashes", &|to, _| {
            to.orphans.push(node.session);
            let fresh = &mut to.nodes[at];
            (fresh.leases, fresh.hands, fresh.batch) = (Vec::new(), Vec::new(), None);
            fresh.session += 1;
        });
        // It has not noticed: what it works on it still believes to have.
        broken(format!("the session of node {at} expires"), "a session expires", &|to, tree| {
            tree.end_session(node.session);
            to.nodes[at].hands.clear();
            to.nodes[at].session += 1;
        });
    }

    /// The server ends the sessions of nodes that are gone, at some time.
    pub(super) fn end_orphans(&self, next: &mut Vec<Step<World>>) {
        for (number, session) in self.orphans.iter().enumerate() {
            let mut to = self.clone();
            let mut tree = Tree::clone(&self.tree);
            tree.end_session(*session);
            to.orphans.remove(number);
            let name = format!("the session {session} ends");
            let seen = Some("the session of a node that crashed ends");
            next.push(Step { name, fault: false, seen, to: to.tidied(tree) });
        }
    }
}
