//! What happens to what was decided: it is sent, applied or refused, and its answer may get lost. And what breaks.

use bytes::Bytes;
use ingest_queue::committer::{Mark, Verdict};
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, JobNode};
use ingest_queue::nodes::{BatchStatus, Expansion, History, JobStatus, Node as _};
use ingest_store::{Kind, Op, path};

use super::explore::Step;
use super::jobs::give_back;
use super::world::{Broken, Hand, Setup, Shared, Then, Unit, World};
use crate::model::Tree;

/// A session that nothing ends.
const PERSON: i64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Request,
    Answer,
}

impl World {
    pub(super) fn send_what_is_decided(&self, setup: &Setup, at: usize, next: &mut Vec<Step<World>>) {
        let node = &self.nodes[at];
        for (number, hand) in node.hands.iter().enumerate() {
            let what = hand.units.iter().map(|unit| unit.name).collect::<Vec<_>>().join(" + ");
            let mut to = self.clone();
            to.nodes[at].hands.remove(number);
            let answers = to.apply(setup, node.session, hand);
            for (unit, answer) in hand.units.iter().zip(answers) {
                to.remember(at, unit, answer);
            }
            next.push(Step { name: format!("node {at} sends: {what}"), fault: false, to: to.tidied() });
            if self.faults == 0 || hand.repeated {
                continue;
            }
            for loss in [Loss::Request, Loss::Answer] {
                let mut to = self.clone();
                to.faults -= 1;
                if loss == Loss::Answer {
                    let _ = to.apply_once(node.session, &hand.units.iter().collect::<Vec<_>>());
                }
                to.nodes[at].hands[number].repeated = true;
                let name = format!("node {at} sends: {what}; the {loss:?} gets lost");
                next.push(Step { name, fault: true, to: to.tidied() });
            }
        }
    }

    pub(super) fn send_of_a_person(&self, setup: &Setup, hand: &Hand, next: &mut Vec<Step<World>>) {
        let mut to = self.clone();
        to.person = None;
        let answers = to.apply(setup, PERSON, hand);
        let name = format!("a person's {} is sent: {answers:?}", hand.units[0].name);
        next.push(Step { name, fault: false, to: to.tidied() });
    }

    /// Sends units together, as the committer does: one that makes the multi fail is taken out, and the rest sent again;
    /// after a lost answer the marks tell what became of the first try.
    fn apply(&mut self, setup: &Setup, session: i64, hand: &Hand) -> Vec<Result<(), Kind>> {
        let mut answers = vec![Ok(()); hand.units.len()];
        let mut rest: Vec<usize> = (0..hand.units.len()).collect();
        let mut repeated = hand.repeated && setup.broken != Some(Broken::LostIsRefused);
        while !rest.is_empty() {
            let units: Vec<&Unit> = rest.iter().map(|at| &hand.units[*at]).collect();
            let Err((kind, failed)) = self.apply_once(session, &units) else { break };
            if repeated && was_applied(&self.tree, units.iter().map(|unit| &unit.mark)) {
                break;
            }
            repeated = false;
            answers[rest.remove(failed)] = Err(kind);
        }
        answers
    }

    /// One multi: applied, or refused because of one of the units.
    fn apply_once(&mut self, session: i64, units: &[&Unit]) -> Result<(), (Kind, usize)> {
        let ops: Vec<Op> = units.iter().flat_map(|unit| unit.ops.iter().cloned()).collect();
        let attempts: Vec<_> =
            units.iter().map(|unit| unit.owner.map(|(jid, _)| attempt(&self.tree, jid))).collect();
        let answer = self.tree.after(&ops, session);
        if let Err(error) = answer {
            let mut op = error.failed_op().unwrap();
            let failed = units.iter().position(|unit| match op.checked_sub(unit.ops.len()) {
                Some(later) => {
                    op = later;
                    false
                }
                None => true,
            });
            return Err((error.kind(), failed.unwrap()));
        }
        self.tree = Shared::new(answer.unwrap().0);
        for (unit, attempt) in units.iter().zip(attempts) {
            if let Some((jid, mine)) = unit.owner
                && attempt != Some(Some(mine))
            {
                self.wrong =
                    Some(format!("{jid} is another's, and `{}` of its attempt {mine} is applied", unit.name));
            }
        }
        Ok(())
    }

    /// What a node knows after an answer.
    fn remember(&mut self, at: usize, unit: &Unit, answer: Result<(), Kind>) {
        let node = &mut self.nodes[at];
        let mut let_go = |jid: Jid, version: i32| {
            node.leases.retain(|lease| (lease.jid, lease.version) != (jid, version));
        };
        match (&unit.then, answer) {
            (Then::Lease { instead_of, lease }, answer) => {
                // Whose worker has died meanwhile is still to be released.
                let dead = instead_of.is_some_and(|(jid, version)| {
                    !node
                        .leases
                        .iter()
                        .any(|lease| !lease.dead && (lease.jid, lease.version) == (jid, version))
                });
                if let Some((jid, version)) = instead_of {
                    node.leases.retain(|lease| (lease.jid, lease.version) != (*jid, *version));
                }
                if answer.is_ok() {
                    let mut lease = lease.clone();
                    lease.dead = dead;
                    node.leases.push(lease);
                    node.leases.sort_by_key(|lease| (lease.jid, lease.version));
                }
            }
            (Then::LetGo { jid, version }, _) => let_go(*jid, *version),
            (Then::Batch(work), Ok(())) => node.batch.clone_from(work),
            (Then::Batch(_), Err(Kind::NotEmpty)) => {
                if let Some(work) = &mut node.batch {
                    work.waits = true;
                }
            }
            // Somebody else has made jobs meanwhile: it is planned again, at the next numbers.
            (Then::Batch(_), Err(_)) if unit.name == "expand" && self.holds_the_batch(at) => {}
            (Then::Batch(_), Err(_)) => self.nodes[at].batch = None,
            (Then::Nothing, _) => {}
        }
    }

    fn holds_the_batch(&self, at: usize) -> bool {
        self.nodes[at].batch.as_ref().is_some_and(|work| work.version == self.batch().version)
    }

    /// A worker dies, a node crashes, a session expires, a job is given back.
    pub(super) fn break_something(&self, at: usize, next: &mut Vec<Step<World>>) {
        if self.faults == 0 {
            return;
        }
        let mut broken = |name: String, change: &dyn Fn(&mut World)| {
            let mut to = self.clone();
            to.faults -= 1;
            change(&mut to);
            next.push(Step { name, fault: true, to: to.tidied() });
        };
        let node = &self.nodes[at];
        for (number, lease) in node.leases.iter().enumerate().filter(|(_, lease)| !lease.dead) {
            broken(format!("the worker of {} on node {at} dies", lease.jid), &|to| {
                to.nodes[at].leases[number].dead = true;
            });
            if self.is_free(at) && !lease.released {
                broken(format!("node {at} decides: give back {}", lease.jid), &|to| {
                    let units = vec![give_back(lease, false)];
                    to.nodes[at].hands.push(Hand { units, repeated: false });
                });
            }
        }
        if node.leases.is_empty() && node.hands.is_empty() && node.batch.is_none() {
            return;
        }
        broken(format!("node {at} crashes"), &|to| {
            to.orphans.push(node.session);
            let fresh = &mut to.nodes[at];
            (fresh.leases, fresh.hands, fresh.batch) = (Vec::new(), Vec::new(), None);
            fresh.session += 1;
        });
        // It has not noticed: what it works on it still believes to have.
        broken(format!("the session of node {at} expires"), &|to| {
            to.end_session(node.session);
            to.nodes[at].hands.clear();
            to.nodes[at].session += 1;
        });
    }

    /// The server ends the sessions of nodes that are gone, at some time.
    pub(super) fn end_orphans(&self, next: &mut Vec<Step<World>>) {
        for (number, session) in self.orphans.iter().enumerate() {
            let mut to = self.clone();
            to.end_session(*session);
            to.orphans.remove(number);
            next.push(Step { name: format!("the session {session} ends"), fault: false, to: to.tidied() });
        }
    }

    fn end_session(&mut self, session: i64) {
        let mut tree = Tree::clone(&self.tree);
        tree.end_session(session);
        self.tree = Shared::new(tree);
    }

    /// Without what nothing can depend on, so that states which only differ in that are one.
    pub(super) fn tidied(mut self) -> Self {
        let hands = self.nodes.iter().flat_map(|node| &node.hands).chain(&self.person);
        let awaited: Vec<String> = hands
            .flat_map(|hand| &hand.units)
            .filter_map(|unit| match &unit.mark {
                Mark::Holds { text, .. } => Some(text.clone()),
                Mark::Gone(_) => None,
            })
            .collect();
        let mut tree = Tree::clone(&self.tree);
        for (at, node) in tree.nodes_mut() {
            if at != map::JOBS {
                node.creates = 0;
            }
            match path::name(at) {
                "history" => {
                    node.data = without(&node.data, &awaited);
                    node.version = 0;
                }
                "lock" if !awaited.iter().any(|text| text.as_bytes() == node.data) => {
                    node.data = Bytes::new();
                }
                "status" if at.starts_with(map::BATCHES) => node.data = without_commits(&node.data, &awaited),
                "expansion" => {
                    let mut expansion = Expansion::read(&node.data).unwrap();
                    if !awaited.contains(&expansion.commit) {
                        expansion.commit.clear();
                        node.data = expansion.write(Dialect::Design);
                    }
                }
                _ => {}
            }
        }
        self.tree = Shared::new(tree);
        for node in &mut self.nodes {
            for lease in &mut node.leases {
                lease.history = lease.history.as_ref().map(|data| without(data, &awaited));
            }
            if let Some(work) = &mut node.batch {
                work.status = without_commits(&work.status, &awaited);
            }
        }
        self
    }
}

fn without(history: &Bytes, awaited: &[String]) -> Bytes {
    if *history == "[]" {
        return history.clone();
    }
    let mut history = History::read(history).unwrap();
    history.entries.retain(|entry| awaited.contains(&entry.commit));
    history.write(Dialect::Design)
}

fn without_commits(status: &Bytes, awaited: &[String]) -> Bytes {
    let mut read = BatchStatus::read(status).unwrap();
    if read.commits.iter().all(|commit| awaited.contains(commit)) {
        return status.clone();
    }
    read.commits.retain(|commit| awaited.contains(commit));
    read.write(Dialect::Design)
}

fn attempt(tree: &Tree, jid: Jid) -> Option<u32> {
    let node = tree.get(&JobNode::Status.of(jid))?;
    Some(JobStatus::read(&node.data).unwrap().attempt)
}

fn was_applied<'a>(tree: &Tree, marks: impl Iterator<Item = &'a Mark>) -> bool {
    let mut verdict = Verdict::default();
    for mark in marks {
        let data = tree.get(mark.path()).map(|node| node.data.as_ref());
        if let Some(applied) = verdict.after(mark, mark.is_in(data)) {
            return applied;
        }
    }
    verdict.at_the_end()
}
