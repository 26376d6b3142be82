//! What waits in one state: those in line, in a bucket for each priority, and those put aside.
//!
//! An entry in line costs its place and one instant, so that a million of them fit in memory; only
//! the few that are put aside, or had a date, carry more. Finding the first looks at one head for each
//! bucket that is not empty, however many stand behind it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use tokio::time::Instant;

use super::Reason;
use crate::ids::Jid;
use crate::map::Priority;

/// An entry of this state.
pub(super) type Slot = (Jid, Priority);

/// Where an entry stands in its bucket: in the order of job numbers, and after the number that was
/// the highest when it became due if it had a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    number: u32,
    /// 0 for a job without a date; the others count in the order in which they became due.
    order: u32,
    jid: Jid,
}

impl Place {
    pub(super) fn own(jid: Jid) -> Self {
        Self { number: jid.number(), order: 0, jid }
    }

    pub(super) fn late(highest: u32, order: u32, jid: Jid) -> Self {
        Self { number: highest, order, jid }
    }
}

/// An entry that is not in line.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) since: Instant,
    pub(super) why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// Other nodes come first until then.
    Turn {
        from: Instant,
        until: Instant,
    },
    Delayed {
        until: Instant,
    },
    /// Its process date is in the future.
    NotDue,
    /// Its job is taken here, by another entry.
    Busy,
    Parked(Reason),
}

/// The entry that comes first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) effective: u8,
    pub(super) place: Place,
    pub(super) slot: Slot,
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Waiting {
    /// By priority: who is in line, and since when.
    buckets: Vec<BTreeMap<Place, Instant>>,
    /// The buckets that are not empty, one bit each.
    filled: u128,
    aside: BTreeMap<Slot, Aside>,
    /// The places of those that had a date, for as long as they are known.
    late: HashMap<Slot, Place>,
    /// Who was first when another was taken, and since when that is so.
    passed: Option<(Slot, Instant)>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        let buckets = (0..=Priority::LAST.number()).map(|_| BTreeMap::new()).collect();
        Self { buckets, filled: 0, aside: BTreeMap::new(), late: HashMap::new(), passed: None }
    }

    pub(super) fn place(&self, slot: Slot) -> Place {
        self.late.get(&slot).copied().unwrap_or(Place::own(slot.0))
    }

    pub(super) fn set_place(&mut self, slot: Slot, place: Place) {
        self.late.insert(slot, place);
    }

    /// Whether its age counts from its process date.
    pub(super) fn had_date(&self, slot: Slot) -> bool {
        self.late.contains_key(&slot)
    }

    pub(super) fn forget_place(&mut self, slot: Slot) {
        self.late.remove(&slot);
    }

    pub(super) fn stand(&mut self, slot: Slot, since: Instant) {
        let (place, bucket) = (self.place(slot), slot.1.number());
        self.buckets[usize::from(bucket)].insert(place, since);
        self.filled |= 1 << bucket;
    }

    /// Leaves the line; returns since when it was known.
    pub(super) fn leave(&mut self, slot: Slot) -> Option<Instant> {
        let (place, bucket) = (self.place(slot), slot.1.number());
        let line = &mut self.buckets[usize::from(bucket)];
        let since = line.remove(&place);
        if line.is_empty() {
            self.filled &= !(1 << bucket);
        }
        since
    }

    /// All in line.
    pub(super) fn line(&self) -> impl Iterator<Item = Slot> {
        let priorities = (0..).map(Priority::nearest);
        let bucket = |(line, priority): (&BTreeMap<Place, Instant>, Priority)| {
            line.keys().map(move |place| (place.jid, priority)).collect::<Vec<_>>()
        };
        self.buckets.iter().zip(priorities).flat_map(bucket)
    }

    pub(super) fn put_aside(&mut self, slot: Slot, aside: Aside) {
        self.aside.insert(slot, aside);
    }

    pub(super) fn aside(&self, slot: Slot) -> Option<&Aside> {
        self.aside.get(&slot)
    }

    pub(super) fn take_aside(&mut self, slot: Slot) -> Option<Aside> {
        self.aside.remove(&slot)
    }

    pub(super) fn all_aside(&self) -> impl Iterator<Item = (Slot, &Aside)> {
        self.aside.iter().map(|(slot, aside)| (*slot, aside))
    }

    /// Since when the entry is known, wherever it waits.
    pub(super) fn since_mut(&mut self, slot: Slot) -> Option<&mut Instant> {
        let place = self.place(slot);
        let in_line = self.buckets[usize::from(slot.1.number())].get_mut(&place);
        in_line.or_else(|| self.aside.get_mut(&slot).map(|aside| &mut aside.since))
    }

    pub(super) fn since(&self, slot: Slot) -> Option<Instant> {
        let in_line = self.buckets[usize::from(slot.1.number())].get(&self.place(slot));
        in_line.copied().or_else(|| self.aside.get(&slot).map(|aside| aside.since))
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.since(slot).is_some()
    }

    /// The entries of a job: there is more than one only if somebody writes refs carelessly.
    pub(super) fn of_job(&self, jid: Jid) -> Vec<Slot> {
        let in_line = self.filled_buckets().filter_map(|bucket| {
            let slot = (jid, Priority::nearest(bucket.into()));
            self.buckets[usize::from(bucket)].contains_key(&self.place(slot)).then_some(slot)
        });
        let aside = self.aside.range((jid, Priority::FIRST)..=(jid, Priority::LAST)).map(|(slot, _)| *slot);
        in_line.chain(aside).collect()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        let in_line = self.filled_buckets().flat_map(|bucket| {
            let places = self.buckets[usize::from(bucket)].keys();
            places.map(move |place| (place.jid, Priority::nearest(bucket.into())))
        });
        in_line.chain(self.aside.keys().copied())
    }

    /// The first of each bucket.
    pub(super) fn heads(&self) -> impl Iterator<Item = (Slot, Place, Instant)> {
        self.filled_buckets().filter_map(|bucket| {
            let (place, since) = self.buckets[usize::from(bucket)].first_key_value()?;
            Some(((place.jid, Priority::nearest(bucket.into())), *place, *since))
        })
    }

    /// The first of all.
    pub(super) fn first(&self, ageing: Option<Duration>, now: Instant) -> Option<Head> {
        self.heads()
            .map(|(slot, place, since)| {
                let effective = effective(slot.1, now.saturating_duration_since(since), ageing);
                Head { effective, place, slot, since }
            })
            .min_by_key(|head| (head.effective, head.place))
    }

    /// Those of the same priority that stand behind, from the next on, and not further than so many numbers.
    pub(super) fn behind(&self, head: &Head, window: u32) -> impl Iterator<Item = Head> {
        let Head { effective, place, slot: (_, priority), .. } = *head;
        let last = place.number.saturating_add(window);
        let line = self.buckets[usize::from(priority.number())].range((Excluded(place), Unbounded));
        let line = line.take_while(move |(place, _)| place.number <= last);
        line.map(move |(place, since)| Head {
            effective,
            place: *place,
            slot: (place.jid, priority),
            since: *since,
        })
    }

    /// Since when others are taken while this one comes first.
    pub(super) fn passed_over(&self, head: &Head) -> Option<Instant> {
        self.passed.filter(|(slot, _)| *slot == head.slot).map(|(_, since)| since)
    }

    /// Somebody was taken: the first, or another while this one came first.
    pub(super) fn pass_over(&mut self, first: Option<&Head>, now: Instant) {
        self.passed = first.map(|first| (first.slot, self.passed_over(first).unwrap_or(now)));
    }

    pub(super) fn in_line(&self) -> usize {
        self.filled_buckets().map(|bucket| self.buckets[usize::from(bucket)].len()).sum()
    }

    pub(super) fn has_line(&self) -> bool {
        self.filled != 0
    }

    pub(super) fn len(&self) -> usize {
        self.in_line() + self.aside.len()
    }

    fn filled_buckets(&self) -> impl Iterator<Item = u8> {
        let filled = self.filled;
        (0..=Priority::LAST.number()).filter(move |bucket| filled >> bucket & 1 == 1)
    }
}

/// The priority that waiting has lifted a job to: a step for each interval, and never across the line
/// below which jobs run only when nothing else is ready.
pub(super) fn effective(priority: Priority, waited: Duration, ageing: Option<Duration>) -> u8 {
    let slow = crate::classes::line();
    let best = if priority >= slow { slow } else { Priority::FIRST };
    let steps = ageing.and_then(|step| waited.as_nanos().checked_div(step.as_nanos())).unwrap_or(0);
    let lifted = priority.number().saturating_sub(u8::try_from(steps).unwrap_or(u8::MAX));
    lifted.max(best.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn each_interval_lifts_by_one_step_down_to_the_first() {
        let lifted = |waited| effective(Priority::nearest(20), waited, Some(MINUTE));
        assert_eq!(lifted(Duration::ZERO), 20);
        assert_eq!(lifted(Duration::from_millis(59_999)), 20);
        assert_eq!(lifted(MINUTE), 19);
        assert_eq!(lifted(MINUTE * 20), 0);
        assert_eq!(lifted(MINUTE * 100_000), 0);
    }

    #[test]
    fn a_slow_job_is_never_lifted_across_the_line() {
        let lifted = |priority, waited| effective(Priority::nearest(priority), waited, Some(MINUTE));
        assert_eq!(lifted(99, MINUTE * 5), 94);
        assert_eq!(lifted(99, MINUTE * 500), 80);
        assert_eq!(lifted(80, MINUTE * 500), 80);
        assert_eq!(lifted(79, MINUTE * 79), 0);
    }

    #[test]
    fn without_an_interval_nothing_is_lifted() {
        for off in [None, Some(Duration::ZERO)] {
            assert_eq!(effective(Priority::LAST, MINUTE * 500, off), 99);
        }
    }

    #[test]
    fn an_entry_in_line_takes_little_memory() {
        assert!(size_of::<(Place, Instant)>() <= 32, "{}", size_of::<(Place, Instant)>());
    }
}
