//! Every state that can be reached, each looked at once, the nearest first.
//!
//! What is kept of a state is a fingerprint; the way to one that is wrong is walked again from the beginning. When all are known, those
//! that cannot come to an end without a fault are looked for, backwards from the ends; and then those that can go in circles
//! without a fault. If there is neither, then every run in which nothing breaks any more ends, in whatever order its steps are taken.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hash};

/// A step that can be taken from a state.
#[derive(Debug)]
pub(super) struct Step<S> {
    pub(super) name: String,
    /// Something breaks: it may happen, and nothing may rely on it.
    pub(super) fault: bool,
    /// What happens in it that must not be missing from what is explored.
    pub(super) seen: Option<&'static str>,
    pub(super) to: S,
}

#[derive(Debug)]
pub(super) struct Explored {
    states: usize,
    steps: usize,
    ends: usize,
    /// What happened somewhere; see [`Step`].
    pub(super) seen: BTreeSet<&'static str>,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, {} steps, {} ends", self.states, self.steps, self.ends)
    }
}

/// What is wrong, and the shortest way to it.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) why: String,
    way: Vec<String>,
    state: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nafter:", self.why)?;
        for (number, step) in self.way.iter().enumerate() {
            writeln!(f, "{:3}. {step}", number + 1)?;
        }
        write!(f, "{}", self.state)
    }
}

/// Where a state was found from: its predecessor, and which of its steps that was.
type From = (u32, u32);

pub(super) fn explore<S: Clone + Hash + fmt::Debug>(
    first: &S,
    steps: impl Fn(&S, &mut Vec<Step<S>>),
    judge: impl Fn(&S) -> Result<(), String>,
    is_end: impl Fn(&S) -> bool,
) -> Result<Explored, Violation> {
    let seed = std::collections::hash_map::RandomState::new();
    let mut known: HashMap<u64, u32> = HashMap::from([(seed.hash_one(first), 0)]);
    let mut from: Vec<From> = vec![(0, 0)];
    // Steps that are no faults, backwards: who leads here.
    let mut leads_to: Vec<(u32, u32)> = Vec::new();
    let mut ends = Vec::new();
    let mut waiting = VecDeque::from([(0_u32, first.clone())]);
    let (mut next, mut taken, mut seen) = (Vec::new(), 0, BTreeSet::new());
    while let Some((at, state)) = waiting.pop_front() {
        if let Err(why) = judge(&state) {
            return Err(violation(first, &steps, &from, at, why));
        }
        if is_end(&state) {
            ends.push(at);
        }
        steps(&state, &mut next);
        for (number, step) in next.drain(..).enumerate() {
            taken += 1;
            seen.extend(step.seen);
            let fresh = u32::try_from(from.len()).unwrap();
            let to = *known.entry(seed.hash_one(&step.to)).or_insert(fresh);
            if to == fresh {
                from.push((at, u32::try_from(number).unwrap()));
                waiting.push_back((to, step.to));
            }
            if !step.fault {
                leads_to.push((to, at));
            }
        }
    }
    let explored = Explored { states: from.len(), steps: taken, ends: ends.len(), seen };
    leads_to.sort_unstable();
    let (at, why) = if let Some(at) = stuck(from.len(), &leads_to, ends) {
        (at, "it cannot come to its end any more, even if nothing breaks from here on")
    } else if let Some(at) = circling(from.len(), &leads_to) {
        (at, "it can go in circles from here, though nothing breaks")
    } else {
        return Ok(explored);
    };
    Err(violation(first, &steps, &from, at, why.into()))
}

/// The first state that no end can be reached from.
fn stuck(states: usize, leads_to: &[(u32, u32)], ends: Vec<u32>) -> Option<u32> {
    let mut good = vec![false; states];
    let mut waiting = ends;
    while let Some(at) = waiting.pop() {
        if std::mem::replace(&mut good[at as usize], true) {
            continue;
        }
        waiting.extend(before(leads_to, at).filter(|from| !good[*from as usize]));
    }
    good.iter().position(|good| !good).map(|at| u32::try_from(at).unwrap())
}

/// The first state that a circle can be reached from: what is left when, again and again, those that lead to nothing are left out.
fn circling(states: usize, leads_to: &[(u32, u32)]) -> Option<u32> {
    let mut ways = vec![0_u32; states];
    for (_, from) in leads_to {
        ways[*from as usize] += 1;
    }
    let numbers = 0..u32::try_from(states).unwrap();
    let mut waiting: Vec<u32> = numbers.filter(|at| ways[*at as usize] == 0).collect();
    while let Some(at) = waiting.pop() {
        for from in before(leads_to, at) {
            ways[from as usize] -= 1;
            if ways[from as usize] == 0 {
                waiting.push(from);
            }
        }
    }
    ways.iter().position(|ways| *ways > 0).map(|at| u32::try_from(at).unwrap())
}

/// Who leads to a state, once for each step that does.
fn before(leads_to: &[(u32, u32)], at: u32) -> impl Iterator<Item = u32> {
    let begin = leads_to.partition_point(|(to, _)| *to < at);
    leads_to[begin..].iter().take_while(move |(to, _)| *to == at).map(|(_, from)| *from)
}

/// Walks to a state again, to tell the way.
fn violation<S: Clone + fmt::Debug>(
    first: &S,
    steps: &impl Fn(&S, &mut Vec<Step<S>>),
    from: &[From],
    at: u32,
    why: String,
) -> Violation {
    let mut numbers = Vec::new();
    let mut here = at;
    while here != 0 {
        let (before, number) = from[here as usize];
        numbers.push(number);
        here = before;
    }
    let (mut state, mut way, mut next) = (first.clone(), Vec::new(), Vec::new());
    for number in numbers.into_iter().rev() {
        steps(&state, &mut next);
        let step = next.drain(..).nth(number as usize).unwrap();
        way.push(step.name);
        state = step.to;
    }
    Violation { why, way, state: format!("{state:#?}") }
}
