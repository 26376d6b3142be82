//! What is done when: a pure function of the seed, the length and the kinds that are wanted.
//!
//! A seed that failed makes the same schedule again. How the nodes race with it, it does not promise.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::kind::{Kind, Lane};

/// How many nodes there are.
pub(crate) const NODES: usize = 3;

/// A fault, and when it is due. One that is late comes as soon as those before it are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
    /// The node that it is for, if it is for one.
    pub(crate) node: usize,
    /// How long it lasts, if that is not given by what it waits for.
    pub(crate) lasts: Duration,
    /// Which of its variants; each kind takes it modulo the number that it has.
    pub(crate) variant: u32,
}

/// The faults of one lane, in their order.
pub(crate) fn lane(seed: u64, length: Duration, kinds: &[Kind], lane: Lane) -> Vec<Planned> {
    let mut chance = StdRng::seed_from_u64(seed ^ ((lane as u64 + 1) << 56));
    let mine = kinds.iter().copied().filter(|kind| kind.line().lane == lane);
    let mut deck: Vec<Kind> = mine.flat_map(|kind| std::iter::repeat_n(kind, kind.planned(length))).collect();
    deck.shuffle(&mut chance);
    let count = u32::try_from(deck.len()).unwrap_or(u32::MAX).max(1);
    let slice = length / count;
    let planned = deck.into_iter().zip(0u32..).map(|(kind, number)| Planned {
        at: slice * number + slice.mul_f64(chance.random_range(0.0..0.8)),
        kind,
        node: chance.random_range(0..NODES),
        lasts: Duration::from_millis(chance.random_range(200..2500)),
        variant: chance.random(),
    });
    planned.collect()
}

#[cfg(test)]
mod tests {
    use super::super::kind::KINDS;
    use super::*;

    const TWO_MINUTES: Duration = Duration::from_mins(2);

    fn all(seed: u64, length: Duration) -> Vec<Vec<Planned>> {
        let kinds: Vec<Kind> = KINDS.iter().map(|line| line.kind).collect();
        Lane::SCHEDULED.map(|of| lane(seed, length, &kinds, of)).to_vec()
    }

    #[test]
    fn a_seed_makes_the_same_schedule_again_and_another_one_another() {
        assert_eq!(all(17, TWO_MINUTES), all(17, TWO_MINUTES));
        assert_ne!(all(17, TWO_MINUTES), all(18, TWO_MINUTES));
    }

    #[test]
    fn every_kind_is_planned_at_least_as_often_as_it_must_be_seen() {
        for length in [Duration::from_secs(40), TWO_MINUTES, Duration::from_mins(30)] {
            let planned = all(3, length).concat();
            for line in KINDS.iter().filter(|line| line.lane != Lane::Deposits) {
                let count = planned.iter().filter(|planned| planned.kind == line.kind).count();
                assert_eq!(count, line.kind.planned(length), "{}", line.name);
                assert!(count >= line.kind.minimum(length), "{}", line.name);
            }
        }
    }

    #[test]
    fn faults_are_in_the_order_of_their_times_and_within_the_run() {
        for lane in all(5, TWO_MINUTES) {
            assert!(lane.is_sorted_by_key(|planned| planned.at));
            assert!(lane.iter().all(|planned| planned.at < TWO_MINUTES && planned.node < NODES));
        }
    }

    #[test]
    fn what_is_not_wanted_is_not_planned() {
        let nodes = lane(1, TWO_MINUTES, &[Kind::Kill], Lane::Nodes);
        assert!(!nodes.is_empty() && nodes.iter().all(|planned| planned.kind == Kind::Kill));
        assert!(lane(1, TWO_MINUTES, &[Kind::Kill], Lane::Tree).is_empty());
    }
}
