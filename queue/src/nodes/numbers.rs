//! The numbers of the jobs of a batch, as runs that follow on each other.
//!
//! A chunk of jobs gets numbers in a row, and the next chunk mostly goes on from there: a batch of any size is a few
//! runs. They are a help and not the truth: who uses them checks that they name as many jobs as there are, and has
//! the batch's lists otherwise.

use serde::{Deserialize, Serialize};

use crate::ids::Jid;

/// The first number of each run, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Numbers(Vec<(u32, u32)>);

impl Numbers {
    /// More runs than this are not kept: so many others are expanded at the same time that a listing is cheaper.
    const MOST: usize = 256;

    /// With a chunk more, of a batch that had `before` jobs. Nothing, if not all of those are known or there are too
    /// many runs.
    #[must_use]
    pub fn and(&self, before: u64, first: u32, count: usize) -> Self {
        let Some(count) = u32::try_from(count).ok().filter(|_| self.count() == before) else {
            return Self::default();
        };
        let mut runs = self.0.clone();
        match runs.last_mut() {
            Some((start, so_far)) if start.checked_add(*so_far) == Some(first) => *so_far += count,
            _ => runs.push((first, count)),
        }
        if runs.len() > Self::MOST { Self::default() } else { Self(runs) }
    }

    /// Those of jobs that are in order, each once: however many runs that are.
    pub fn of(jids: &[Jid]) -> Self {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in jids.iter().map(|jid| jid.number()) {
            match runs.last_mut() {
                Some((start, so_far)) if start.checked_add(*so_far) == Some(number) => *so_far += 1,
                _ => runs.push((number, 1)),
            }
        }
        Self(runs)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Whether each number is one, and is there once. Numbers are given out from the lower to the higher.
    pub fn is_sound(&self) -> bool {
        let ends = |(first, count): &(u32, u32)| u64::from(*first) + u64::from(*count);
        self.0.iter().all(|run| run.1 > 0 && u32::try_from(ends(run)).is_ok())
            && self.0.windows(2).all(|pair| ends(&pair[0]) <= u64::from(pair[1].0))
    }

    pub fn contains(&self, jid: Jid) -> bool {
        let number = jid.number();
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after
            .checked_sub(1)
            .and_then(|at| self.0.get(at))
            .is_some_and(|(first, count)| number - first < *count)
    }

    /// In their order. Only what [is sound](Self::is_sound) is asked for them.
    pub fn jids(&self) -> impl Iterator<Item = Jid> + '_ {
        self.0.iter().flat_map(|(first, count)| (*first..first.saturating_add(*count)).map(Jid::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: &[(u32, u32)]) -> Numbers {
        Numbers(runs.to_vec())
    }

    #[test]
    fn chunks_that_follow_on_each_other_are_one_run() {
        let numbers = Numbers::default().and(0, 5, 3).and(3, 8, 2).and(5, 20, 1);
        assert_eq!(numbers, of(&[(5, 5), (20, 1)]));
        assert_eq!(numbers.count(), 6);
        let jids: Vec<u32> = numbers.jids().map(Jid::number).collect();
        assert_eq!(jids, [5, 6, 7, 8, 9, 20]);
        let within: Vec<u32> = (0..30).filter(|number| numbers.contains(Jid::new(*number))).collect();
        assert_eq!(within, jids);
    }

    #[test]
    fn jobs_in_order_are_as_few_runs_as_there_can_be() {
        let jids: Vec<Jid> = [1, 2, 3, 7, 9, 10].map(Jid::new).into();
        assert_eq!(Numbers::of(&jids), of(&[(1, 3), (7, 1), (9, 2)]));
        assert_eq!(Numbers::of(&jids).jids().collect::<Vec<_>>(), jids);
        assert!(Numbers::of(&[]).is_empty());
    }

    #[test]
    fn what_is_not_known_whole_is_not_known() {
        // Somebody who does not keep numbers has made some of the jobs.
        assert_eq!(of(&[(5, 3)]).and(4, 9, 1), Numbers::default());
        assert_eq!(Numbers::default().and(4, 9, 1), Numbers::default());
        let mut numbers = Numbers::default();
        for run in 0..=256 {
            let before = numbers.count();
            numbers = numbers.and(before, run * 2, 1);
        }
        assert!(numbers.is_empty(), "one run too many");
    }

    #[test]
    fn numbers_that_are_twice_there_are_not_sound() {
        assert!(of(&[(1, 2), (3, 1), (9, 1)]).is_sound());
        for wrong in [&[(1, 2), (2, 1)][..], &[(9, 1), (1, 1)], &[(1, 0)], &[(u32::MAX, 2)]] {
            assert!(!of(wrong).is_sound(), "{wrong:?}");
        }
    }
}
