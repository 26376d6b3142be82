//! A queue that several nodes take from: whose turn a job is.

use std::time::Duration;

use tokio::time::Instant;

use super::{MINUTE, MS, index, pending, take, take_all};
use crate::ids::Jid;
use crate::index::rank::Ranks;
use crate::index::{Candidate, Index, Listing, Reason, Settings, rank_of};
use crate::map::QueueRef;
use crate::states::JobState::Pending;

/// A job for which this node has a rank among `a`, `b` and `c`, and its name.
fn ranked(rank: usize) -> (QueueRef, Vec<String>, &'static str) {
    let names = || vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    for number in 0.. {
        let mut ranks = Ranks::default();
        ranks.set(names(), "a");
        if ranks.rank(Jid::new(number)) == rank {
            return (pending(5, number), names(), "a");
        }
    }
    unreachable!("every rank has its jobs")
}

#[test]
fn a_rank_leaves_the_job_to_the_others_for_a_while() {
    let now = Instant::now();
    let delay = Settings::default().rank_delay;
    for rank in 0..3 {
        let mut index = index(&[], now);
        let (entry, names, own) = ranked(rank);
        index.components(names, own, now);
        index.created(entry, now);
        let turn = now + delay * u32::try_from(rank).unwrap();
        assert_eq!(take(&mut index, turn - MS), None);
        assert!(index.next_wakeup().is_none_or(|at| at == turn));
        assert_eq!(index.take(Pending, turn), Some(Candidate { entry, rank }));
    }
}

#[test]
fn a_rank_counts_from_the_listing_too() {
    let now = Instant::now();
    let (entry, names, own) = ranked(1);
    let mut index = index(&[], now);
    index.components(names, own, now);
    index.relist(&Listing::new(Pending, [entry]), now);
    assert_eq!(take(&mut index, now), None);
    let turn = index.next_wakeup().expect("its turn comes");
    assert_eq!(turn, now + Settings::default().rank_delay);
    assert_eq!(take(&mut index, turn), Some(entry));
}

#[test]
fn the_jobs_of_a_component_that_vanished_become_ready_here() {
    let now = Instant::now();
    let (entry, names, own) = ranked(2);
    let mut index = index(&[], now);
    index.components(names, own, now);
    index.created(entry, now);
    assert_eq!(take(&mut index, now), None);
    index.components(vec![own.to_owned()], own, now);
    assert_eq!(take(&mut index, now), Some(entry));
    index.park(entry.jid, Reason::Locked(entry.jid));
    index.components(vec![own.to_owned(), "z".to_owned()], own, now);
    assert_eq!(index.counts(Pending).locked, 1, "one that came is no reason to try again");
    index.components(vec![own.to_owned()], own, now);
    assert_eq!(index.counts(Pending).locked, 0);
}

/// An index of node `a` among `a`, `b` and `c`, in which all have waited longer than any rank makes them, and which of the
/// entries are its own.
fn shared(numbers: std::ops::Range<u32>, window: u32, now: Instant) -> (Index, Vec<QueueRef>) {
    let mut index = Index::new(Settings { rank_window: window, ..Settings::default() });
    let names: Vec<String> = ["a", "b", "c"].map(Into::into).into();
    index.components(names.clone(), "a", now);
    let entries: Vec<_> = numbers.map(|number| pending(5, number)).collect();
    index.relist(&Listing::new(Pending, entries.clone()), now - 10 * MINUTE);
    let own = |entry: &QueueRef| rank_of(&names, "a", entry.jid.number()) == 0;
    (index, entries.into_iter().filter(own).collect())
}

#[test]
fn of_a_long_queue_a_node_takes_first_what_it_comes_first_for() {
    let now = Instant::now() + 60 * MINUTE;
    let (mut index, own) = shared(0..100, 256, now);
    assert!(own.len() > 20, "{own:?}");
    let taken = take_all(&mut index, now);
    assert_eq!(taken[..own.len()], own);
    // And then the others, in order: none is left.
    assert!(taken[own.len()..].is_sorted());
    assert_eq!(taken.len(), 100);
}

#[test]
fn without_a_window_a_queue_is_taken_strictly_in_order() {
    let now = Instant::now() + 60 * MINUTE;
    let (mut index, _) = shared(0..100, 0, now);
    assert!(take_all(&mut index, now).is_sorted());
}

#[test]
fn nobody_is_passed_over_by_one_far_behind_or_of_another_priority() {
    let now = Instant::now() + 60 * MINUTE;
    let (mut index, own) = shared(0..60, 10, now);
    let later = pending(6, own[0].jid.number() + 1000);
    index.created(later, now - 10 * MINUTE);
    let mut left: Vec<_> = (0..60).collect();
    while let Some(taken) = take(&mut index, now) {
        if taken == later {
            assert!(left.is_empty(), "{left:?}");
            continue;
        }
        let first = left[0];
        assert!(taken.jid.number() <= first + 10, "{taken:?} before {first}");
        left.retain(|number| *number != taken.jid.number());
    }
    assert!(left.is_empty());
}

#[test]
fn the_first_is_passed_over_only_as_long_as_its_rank_makes_it_wait() {
    let start = Instant::now() + 60 * MINUTE;
    let (mut index, own) = shared(0..400, 400, start);
    let names: Vec<String> = ["a", "b", "c"].map(Into::into).into();
    let first = (0..400).map(|number| pending(5, number)).find(|entry| !own.contains(entry)).unwrap();
    let rank = rank_of(&names, "a", first.jid.number());
    let wait = Settings::default().rank_delay * u32::try_from(rank).unwrap();
    let mut taken = own.iter();
    // Those before it are its own, and one more: from then on the first is passed over.
    while taken.as_slice().first().is_some_and(|entry| *entry < first) {
        assert_eq!(take(&mut index, start), taken.next().copied());
    }
    for passed in [Duration::ZERO, wait / 2, wait.saturating_sub(MS)] {
        assert_eq!(take(&mut index, start + passed), taken.next().copied());
    }
    assert_eq!(take(&mut index, start + wait), Some(first));
    // The next one has its own time.
    assert_eq!(take(&mut index, start + wait), taken.next().copied());
}
