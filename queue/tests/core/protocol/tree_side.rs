//! What happens to what was decided: it is sent, applied or refused, and its answer may get lost.

use ingest_queue::committer::{Heard, Mark, Verdict};
use ingest_queue::ids::Jid;
use ingest_queue::map::JobNode;
use ingest_queue::nodes::{JobStatus, Node as _};
use ingest_store::{Error, Kind};

use super::explore::Step;
use super::same::Given;
use super::setup::{Broken, Setup};
use super::world::{BatchWork, Hand, Lease, Meant, Node, Stage, Then, World};
use crate::model::Tree;

/// A session that nothing ends.
const PERSON: i64 = 1;

/// Who has decided something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// A node, and which of its hands.
    Node(usize, usize),
    Person,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Request,
    Answer,
}

/// What became of a plan.
type Answer = Result<(), Kind>;

impl World {
    pub(super) fn send_what_is_decided(&self, setup: &Setup, next: &mut Vec<Step<World>>) {
        for at in 0..self.nodes.len() {
            for number in 0..self.nodes[at].hands.len() {
                self.send(setup, From::Node(at, number), next);
            }
        }
        if self.person.is_some() {
            self.send(setup, From::Person, next);
        }
    }

    fn hand(&self, from: From) -> (&Given, i64) {
        match from {
            From::Node(at, number) => (&self.nodes[at].hands[number], self.nodes[at].session),
            From::Person => (self.person.as_ref().unwrap(), PERSON),
        }
    }

    fn put_hand(&mut self, from: From, hand: Option<Hand>) {
        let hand = hand.map(Given::new);
        match (from, hand) {
            (From::Person, hand) => self.person = hand,
            (From::Node(at, number), Some(hand)) => self.nodes[at].hands[number] = hand,
            (From::Node(at, number), None) => {
                self.nodes[at].hands.remove(number);
            }
        }
    }

    /// One multi is sent; it may get lost, or its answer may.
    fn send(&self, setup: &Setup, from: From, next: &mut Vec<Step<World>>) {
        let (given, session) = self.hand(from);
        let who = match from {
            From::Node(at, _) => format!("node {at} sends: {}", given.names()),
            From::Person => format!("a person's {} is sent", given.names()),
        };
        next.push(self.heard_of(setup, from, given, session, &who));
        if self.faults == 0 || given.sending.is_in_doubt() {
            return;
        }
        for loss in [Loss::Request, Loss::Answer] {
            let mut to = self.clone();
            to.faults -= 1;
            let mut tree = Tree::clone(&self.tree);
            if loss == Loss::Answer {
                // Whether it was applied nobody hears.
                if let Ok(after) = to.multi(given, session) {
                    tree = after;
                }
            }
            let mut hand = Hand::clone(given);
            let heard = hand.sending.heard(&Error::new(Kind::ConnectionLoss, "lost"), false);
            assert_eq!(heard, Heard::Again);
            to.put_hand(from, Some(hand));
            let name = format!("{who}; the {loss:?} gets lost");
            next.push(Step { name, fault: true, seen: None, to: to.tidied(tree) });
        }
    }

    /// The answer is heard: as the committer hears it.
    fn heard_of(&self, setup: &Setup, from: From, given: &Given, session: i64, who: &str) -> Step<World> {
        let mut to = self.clone();
        let mut hand = Hand::clone(given);
        let (mut tree, mut seen, mut answers) = (None, None, Vec::new());
        match to.multi(given, session) {
            Ok(after) => {
                tree = Some(after);
                answers.extend(hand.sending.rest().iter().map(|at| (*at, Ok(()))));
            }
            Err(error) => match hand.sending.heard(&error, false) {
                Heard::Doubt(_)
                    if setup.broken != Some(Broken::LostIsRefused)
                        && were_applied(&self.tree, hand.sending.marks(&hand.units)) =>
                {
                    seen = Some(match from {
                        From::Node(..) => "found applied after all",
                        From::Person => "a person's found applied after all",
                    });
                    answers.extend(hand.sending.rest().iter().map(|at| (*at, Ok(()))));
                }
                Heard::Doubt(op) | Heard::Refused(op) => {
                    let (out, _) = hand.sending.take_out(&hand.units, op);
                    seen = seen_in(from, &hand.meant[out], op, error.kind());
                    if !hand.sending.rest().is_empty() {
                        seen = Some("taken out, and the rest sent again");
                    }
                    answers.push((out, Err(error.kind())));
                }
                heard => panic!("{heard:?} after {error}"),
            },
        }
        let over = hand.sending.rest().is_empty() || answers.iter().any(|(_, answer)| answer.is_ok());
        let meant = hand.meant.clone();
        to.put_hand(from, (!over).then_some(hand));
        // What a node learns it reads from the tree as it is then.
        to.put_tree(tree.unwrap_or_else(|| Tree::clone(&self.tree)));
        if let From::Node(at, _) = from {
            for (place, answer) in &answers {
                to.remember(at, &meant[*place], *answer);
            }
        }
        let heard: Vec<_> = answers.iter().map(|(_, answer)| *answer).collect();
        to.forget();
        Step { name: format!("{who}: {heard:?}"), fault: false, seen, to }
    }

    /// One multi: the tree after it, or the refusal. Notes if somebody has committed who may not.
    fn multi(&mut self, hand: &Hand, session: i64) -> Result<Tree, Error> {
        let (after, _) = self.tree.after(&hand.sending.ops(&hand.units), session)?;
        for meant in hand.sending.rest().iter().map(|at| &hand.meant[*at]) {
            if let Some((jid, mine)) = meant.owner
                && attempt(&self.tree, jid) != Some(mine)
            {
                let name = meant.name;
                self.wrong =
                    Some(format!("{jid} is another's, and `{name}` of its attempt {mine} is applied"));
            }
        }
        Ok(after)
    }

    /// What a node knows after an answer.
    fn remember(&mut self, at: usize, meant: &Meant, answer: Answer) {
        match (&meant.then, answer) {
            (Then::Lease { instead_of, lease }, answer) => {
                self.nodes[at].replace(*instead_of, answer.is_ok().then(|| lease.clone()));
            }
            (Then::LetGo { jid, version }, _) => self.nodes[at].let_go(*jid, *version),
            (Then::Batch(work), Ok(())) => self.nodes[at].batch.clone_from(work),
            (Then::Posted(work), Ok(()) | Err(Kind::NodeExists)) => {
                let number = work.report.as_ref().unwrap().number;
                // What is there is the report; perhaps it was sent. If it is gone, so is the right to send it.
                let sent = self.outgoing(number).map(|outgoing| outgoing.sent.is_some());
                self.nodes[at].batch = sent.map(|sent| {
                    let stage = if sent { Stage::Sent } else { Stage::Posted };
                    BatchWork { stage, ..work.clone() }
                });
            }
            (Then::Batch(_), Err(Kind::NotEmpty)) => {
                if let Some(work) = &mut self.nodes[at].batch {
                    work.waits = true;
                }
            }
            // Somebody else has made jobs meanwhile: it is planned again, at the next numbers.
            (Then::Batch(_), Err(_)) if meant.name == "expand" && self.holds_the_batch(at) => {}
            (Then::Batch(_) | Then::Posted(_), Err(_)) => self.nodes[at].batch = None,
            (Then::Nothing, _) => {}
        }
    }

    fn holds_the_batch(&self, at: usize) -> bool {
        self.nodes[at].batch.as_ref().is_some_and(|work| work.version == self.batch().version)
    }
}

impl Node {
    fn let_go(&mut self, jid: Jid, version: i32) {
        self.leases.retain(|lease| (lease.jid, lease.version) != (jid, version));
    }

    fn has_alive(&self, jid: Jid, version: i32) -> bool {
        self.leases.iter().any(|lease| !lease.dead && (lease.jid, lease.version) == (jid, version))
    }

    fn replace(&mut self, before: Option<(Jid, i32)>, after: Option<Lease>) {
        // Whose worker has died meanwhile is still to be released.
        let dead = before.is_some_and(|(jid, version)| !self.has_alive(jid, version));
        if let Some((jid, version)) = before {
            self.let_go(jid, version);
        }
        self.leases.extend(after.map(|lease| Lease { dead, ..lease }));
        self.leases.sort_by_key(|lease| (lease.jid, lease.version));
    }

    /// Whether it may decide on something: nothing else of its is under way, but for what dead workers have left.
    pub(super) fn is_free(&self) -> bool {
        let is_of_the_dead = |meant: &Meant| match &meant.then {
            Then::Lease { instead_of: Some((jid, version)), .. } | Then::LetGo { jid, version } => {
                !self.has_alive(*jid, *version)
            }
            _ => false,
        };
        self.hands.len() < 2 && self.hands.iter().all(|hand| hand.meant.iter().all(is_of_the_dead))
    }
}

/// Refusals that must not be missing from what is explored.
fn seen_in(from: From, meant: &Meant, op: usize, kind: Kind) -> Option<&'static str> {
    match (from, kind) {
        (From::Person, Kind::NodeExists) if op == 0 => Some("a person is refused: busy"),
        (From::Person, _) => Some("a person is refused: changed"),
        (From::Node(..), Kind::NodeExists) if meant.name == "take" => Some("taken by another before"),
        (From::Node(..), Kind::BadVersion) if meant.name == "take" => Some("changed before it is taken"),
        (From::Node(..), Kind::NotEmpty) => Some("a batch is not empty"),
        (From::Node(..), Kind::NodeExists) if meant.name == "post the report" => Some("posted before"),
        _ => None,
    }
}

fn attempt(tree: &Tree, jid: Jid) -> Option<u32> {
    let node = tree.get(&JobNode::Status.of(jid))?;
    Some(JobStatus::read(&node.data).unwrap().attempt)
}

fn were_applied<'a>(tree: &Tree, marks: impl Iterator<Item = &'a Mark>) -> bool {
    let mut verdict = Verdict::default();
    for mark in marks {
        let data = tree.get(mark.path()).map(|node| node.data.as_ref());
        if let Some(applied) = verdict.after(mark, mark.is_in(data)) {
            return applied;
        }
    }
    verdict.at_the_end()
}
