//! What happens to what was decided: it is sent, applied or refused, and its answer may get lost.

use ingest_queue::committer::{Heard, Mark, Verdict};
use ingest_queue::ids::Jid;
use ingest_queue::map::JobNode;
use ingest_queue::nodes::{JobStatus, Node as _};
use ingest_store::{Error, Kind};

use super::explore::Step;
use super::same::Given;
use super::setup::{Broken, Setup};
use super::world::{BatchWork, Hand, Lease, Look, Meant, Node, Right, Stage, Then, World};
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

    /// One multi is sent; it may get lost, or its answer may, also the second time. Or the next mark is looked at.
    fn send(&self, setup: &Setup, from: From, next: &mut Vec<Step<World>>) {
        let (given, session) = self.hand(from);
        let who = match from {
            From::Node(at, _) => format!("node {at} sends: {}", given.names()),
            From::Person => format!("a person's {} is sent", given.names()),
        };
        if let Some(look) = &given.look {
            // It is read until it is answered, and changes nothing: losing that makes no difference.
            next.push(self.look_further(from, given, look));
            return;
        }
        next.push(self.heard_of(setup, from, given, session, &who));
        if self.faults == 0 {
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
            let seen = hand.sending.is_in_doubt().then_some("lost again");
            let heard = hand.sending.heard(&Error::new(Kind::ConnectionLoss, "lost"), false);
            assert_eq!(heard, Heard::Again);
            to.put_hand(from, Some(hand));
            let name = format!("{who}; the {loss:?} gets lost");
            next.push(Step { name, fault: true, seen, to: to.tidied(tree) });
        }
    }

    /// The answer is heard: as the committer hears it.
    fn heard_of(&self, setup: &Setup, from: From, given: &Given, session: i64, who: &str) -> Step<World> {
        let (mut to, mut hand) = (self.clone(), Hand::clone(given));
        let error = match to.multi(given, session) {
            Ok(after) => {
                let seen = seen_applied(&hand);
                return to.applied(from, &hand, after, who, seen);
            }
            Err(error) => error,
        };
        match hand.sending.heard(&error, false) {
            Heard::Doubt(op) if setup.broken != Some(Broken::LostIsRefused) => {
                hand.look = Some(Look { op, kind: error.kind(), found: Vec::new() });
                to.put_hand(from, Some(hand));
                Step { name: format!("{who}: refused, in doubt"), fault: false, seen: None, to }
            }
            Heard::Doubt(op) | Heard::Refused(op) => to.refused(from, hand, op, error.kind(), who),
            heard => panic!("{heard:?} after {error}"),
        }
    }

    /// One more mark is looked at, whatever has happened since the refusal and since the mark before.
    fn look_further(&self, from: From, given: &Given, look: &Look) -> Step<World> {
        let (mut to, mut hand) = (self.clone(), Hand::clone(given));
        let mark = hand.sending.marks(&hand.units).nth(look.found.len()).unwrap();
        let who = match from {
            From::Node(at, _) => format!("node {at} looks for {}", mark.path()),
            From::Person => format!("a person's looks for {}", mark.path()),
        };
        let mut found = look.found.clone();
        found.push(mark.is_in(self.tree.get(mark.path()).map(|node| node.data.as_ref())));
        match verdict(hand.sending.marks(&hand.units), &found) {
            None => {
                hand.look = Some(Look { found, ..look.clone() });
                to.put_hand(from, Some(hand));
                Step { name: who, fault: false, seen: None, to }
            }
            Some(true) => {
                let seen = match from {
                    From::Node(..) => "found applied after all",
                    From::Person => "a person's found applied after all",
                };
                let tree = Tree::clone(&self.tree);
                to.applied(from, &hand, tree, &who, Some(seen))
            }
            Some(false) => {
                hand.look = None;
                to.refused(from, hand, look.op, look.kind, &who)
            }
        }
    }

    /// All that was sent is applied, now or before.
    fn applied(
        mut self,
        from: From,
        hand: &Hand,
        tree: Tree,
        who: &str,
        seen: Option<&'static str>,
    ) -> Step<World> {
        self.put_hand(from, None);
        // What a node learns it reads from the tree as it is then.
        self.put_tree(tree);
        if let From::Node(at, _) = from {
            for place in hand.sending.rest() {
                self.remember(at, &hand.meant[*place], Ok(()));
            }
        }
        self.forget();
        Step { name: format!("{who}: applied"), fault: false, seen, to: self }
    }

    /// One of those that were sent is refused, and taken out; the rest is sent again.
    fn refused(mut self, from: From, mut hand: Hand, op: usize, kind: Kind, who: &str) -> Step<World> {
        let (out, _) = hand.sending.take_out(&hand.units, op);
        let meant = hand.meant[out].clone();
        let over = hand.sending.rest().is_empty();
        let rest = "taken out, and the rest sent again";
        let seen = if over { seen_in(from, &meant, op, kind) } else { Some(rest) };
        self.put_hand(from, (!over).then_some(hand));
        self.put_tree(Tree::clone(&self.tree));
        if let From::Node(at, _) = from {
            self.remember(at, &meant, Err(kind));
        }
        self.forget();
        Step { name: format!("{who}: {} is refused, {kind:?}", meant.name), fault: false, seen, to: self }
    }

    /// One multi: the tree after it, or the refusal. Notes if somebody has committed who may not.
    fn multi(&mut self, hand: &Hand, session: i64) -> Result<Tree, Error> {
        let (after, _) = self.tree.after(&hand.sending.ops(&hand.units), session)?;
        for Meant { name, right, .. } in hand.sending.rest().iter().map(|at| &hand.meant[*at]) {
            self.wrong = match *right {
                Some(Right::Job(jid, mine)) if attempt(&self.tree, jid) != Some(mine) => {
                    Some(format!("{jid} is another's, and `{name}` of its attempt {mine} is applied"))
                }
                Some(Right::Batch(mine)) if self.turn() != mine => {
                    Some(format!("the batch is another's, and `{name}` of the turn {mine} is applied"))
                }
                _ => continue,
            };
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

    /// Whether it may decide on something about jobs: nothing else of its is under way, but for what dead workers have left, and
    /// what it does about the batch.
    pub(super) fn is_free_for_jobs(&self, setup: &Setup) -> bool {
        let is_of_the_dead = |meant: &Meant| match &meant.then {
            Then::Lease { instead_of: Some((jid, version)), .. } | Then::LetGo { jid, version } => {
                !self.has_alive(*jid, *version)
            }
            _ => false,
        };
        let counts = |hand: &&Given| !setup.overlap || !hand.is_about_the_batch();
        let others = || self.hands.iter().filter(counts);
        others().count() < 2 && others().all(|hand| hand.meant.iter().all(is_of_the_dead))
    }

    /// Whoever looks after the batch does one thing at a time, whatever the workers do.
    pub(super) fn is_free_for_the_batch(&self, setup: &Setup) -> bool {
        if !setup.overlap {
            return self.is_free_for_jobs(setup);
        }
        !self.hands.iter().any(|hand| hand.is_about_the_batch())
    }
}

/// What is applied, alone or together, and must not be missing from what is explored.
fn seen_applied(hand: &Hand) -> Option<&'static str> {
    let names: Vec<_> = hand.sending.rest().iter().map(|at| hand.meant[*at].name).collect();
    let handed_over = names.iter().filter(|name| **name == "done and handed over").count();
    let taken = names.iter().filter(|name| **name == "take").count();
    match (names.as_slice(), taken, handed_over) {
        (["expand"], ..) => Some("rows become jobs"),
        (["end the batch"], ..) => Some("the batch ends"),
        (["finish the report"], ..) => Some("the report is finished"),
        ([] | [_], ..) => None,
        (all, taken, _) if taken == all.len() => Some("claims go together"),
        (all, _, handed_over) if handed_over == all.len() => Some("hand-overs go together"),
        (_, 1.., _) => Some("a claim and a commit go together"),
        _ => None,
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

/// What the marks tell that were looked at so far.
fn verdict<'a>(marks: impl Iterator<Item = &'a Mark>, found: &[bool]) -> Option<bool> {
    let (mut verdict, mut found) = (Verdict::default(), found.iter());
    for mark in marks {
        if let Some(applied) = verdict.after(mark, *found.next()?) {
            return Some(applied);
        }
    }
    Some(verdict.at_the_end())
}
