//! What this node knows of the slots of each semaphore, and which of them it has picked. Pure.
//!
//! Slots are numbered from 0, and a new holder takes only one below the *cut*: the largest number so that all below
//! it and all that are held from there on are not more than the limit. Usually that is the limit itself. After a
//! limit was lowered there are holders beyond it, and the cut is smaller until they are gone.
//!
//! Why that is safe: at one version of the rules nobody creates a slot at or above the highest cut that anybody has
//! found, so those held there only become fewer, whoever reads them when. The sum was right when it was found, and stays.

use std::collections::{BTreeMap, BTreeSet};

/// What the tree has of one semaphore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Slots whose node is there, held or not.
    pub made: BTreeSet<u32>,
    pub held: BTreeSet<u32>,
}

/// What can be said about a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// This one, whose node is there or has to be made.
    Slot {
        number: u32,
        made: bool,
    },
    Full,
    /// Read the semaphore first.
    Read,
}

/// All semaphores that this node has to do with.
#[derive(Debug, Default)]
pub struct Book {
    /// By their names in the tree.
    pages: BTreeMap<String, Page>,
}

#[derive(Debug, Default)]
struct Page {
    seen: Seen,
    /// The version of the rules that it was read under; none: not read, or in doubt.
    read_at: Option<i32>,
    /// When it was read, somebody was beyond the limit.
    surplus: bool,
    /// Picked here, from before the commit until after the release.
    mine: BTreeSet<u32>,
}

impl Page {
    fn taken(&self) -> BTreeSet<u32> {
        self.seen.held.union(&self.mine).copied().collect()
    }

    fn room(&self, limit: u32) -> Vec<u32> {
        let taken = self.taken();
        (0..cut(&taken, limit)).filter(|number| !taken.contains(number)).collect()
    }
}

/// The largest number so that all below it, and those of `taken` from there on, are not more than the limit.
fn cut(taken: &BTreeSet<u32>, limit: u32) -> u32 {
    if taken.last().is_none_or(|last| *last < limit) {
        return limit;
    }
    let fits = |cut: &u32| {
        let beyond = u32::try_from(taken.range(cut..).count()).unwrap_or(u32::MAX);
        cut.saturating_add(beyond) <= limit
    };
    (0..limit).rev().find(fits).unwrap_or(0)
}

impl Book {
    /// A slot that seems to be free. `followed`: events tell of every change.
    pub fn pick(&mut self, of: &str, limit: u32, rules: i32, followed: bool, spread: u32) -> Pick {
        let page = self.pages.entry(of.to_owned()).or_default();
        if page.read_at != Some(rules) || page.surplus || !followed {
            return Pick::Read;
        }
        page.pick(limit, spread)
    }

    /// What was just read, under these rules, and a slot that was free then.
    pub fn read(&mut self, of: &str, seen: Seen, limit: u32, rules: i32, spread: u32) -> Pick {
        let page = self.pages.entry(of.to_owned()).or_default();
        page.surplus = seen.held.last().is_some_and(|last| *last >= limit);
        page.seen = seen;
        page.read_at = Some(rules);
        page.pick(limit, spread)
    }

    /// How many could be taken now, as far as is known; `None`: nothing is known.
    pub fn room(&self, of: &str, limit: u32) -> Option<usize> {
        let page = self.pages.get(of).filter(|page| page.read_at.is_some())?;
        Some(page.room(limit).len())
    }

    /// Nothing that is known of it counts.
    pub fn doubt(&mut self, of: &str) {
        if let Some(page) = self.pages.get_mut(of) {
            page.read_at = None;
        }
    }

    pub fn doubt_all(&mut self) {
        self.pages.values_mut().for_each(|page| page.read_at = None);
    }

    /// The slot is not this node's any more.
    pub fn put_back(&mut self, of: &str, number: u32) {
        if let Some(page) = self.pages.get_mut(of) {
            page.mine.remove(&number);
        }
    }

    pub fn is_mine(&self, of: &str, number: u32) -> bool {
        self.pages.get(of).is_some_and(|page| page.mine.contains(&number))
    }

    /// Events.
    pub fn made(&mut self, of: &str, number: u32) {
        self.change(of, |seen| seen.made.insert(number));
    }

    pub fn unmade(&mut self, of: &str, number: u32) {
        self.change(of, |seen| seen.made.remove(&number));
    }

    pub fn held(&mut self, of: &str, number: u32) {
        self.change(of, |seen| seen.held.insert(number));
    }

    pub fn freed(&mut self, of: &str, number: u32) {
        self.change(of, |seen| seen.held.remove(&number));
    }

    fn change<T>(&mut self, of: &str, change: impl FnOnce(&mut Seen) -> T) {
        if let Some(page) = self.pages.get_mut(of) {
            change(&mut page.seen);
        }
    }
}

impl Page {
    /// Nodes that choose side by side begin at different numbers, so that they rarely meet.
    fn pick(&mut self, limit: u32, spread: u32) -> Pick {
        let room = self.room(limit);
        let Some(at) = usize::try_from(spread).unwrap_or(0).checked_rem(room.len()) else {
            return Pick::Full;
        };
        let number = room[at];
        self.mine.insert(number);
        Pick::Slot { number, made: self.seen.made.contains(&number) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOST: &str = "host-h";

    fn seen(held: &[u32]) -> Seen {
        Seen { made: held.iter().copied().collect(), held: held.iter().copied().collect() }
    }

    #[test]
    fn a_slot_is_picked_once_and_comes_back() {
        let mut book = Book::default();
        assert_eq!(book.pick(HOST, 2, 1, true, 0), Pick::Read);
        assert_eq!(book.read(HOST, seen(&[0]), 2, 1, 0), Pick::Slot { number: 1, made: false });
        assert_eq!(book.pick(HOST, 2, 1, true, 0), Pick::Full);
        assert_eq!(book.room(HOST, 2), Some(0));
        book.put_back(HOST, 1);
        assert_eq!(book.pick(HOST, 2, 1, true, 7), Pick::Slot { number: 1, made: false });
        book.freed(HOST, 0);
        assert_eq!(book.pick(HOST, 2, 1, true, 0), Pick::Slot { number: 0, made: true });
    }

    #[test]
    fn what_is_known_counts_only_under_its_rules_and_while_events_tell_of_changes() {
        let mut book = Book::default();
        book.read(HOST, seen(&[]), 2, 1, 0);
        assert_eq!(book.pick(HOST, 2, 2, true, 0), Pick::Read);
        assert_eq!(book.pick(HOST, 2, 1, false, 0), Pick::Read);
        book.doubt(HOST);
        assert_eq!(book.pick(HOST, 2, 1, true, 0), Pick::Read);
    }

    #[test]
    fn while_somebody_is_beyond_a_lowered_limit_it_is_read_each_time() {
        let mut book = Book::default();
        assert_eq!(book.read(HOST, seen(&[0, 3, 4]), 3, 1, 0), Pick::Full);
        assert_eq!(book.pick(HOST, 3, 1, true, 0), Pick::Read);
        assert!(matches!(book.read(HOST, seen(&[4]), 3, 1, 0), Pick::Slot { number: 0 | 1, .. }));
        assert_eq!(book.pick(HOST, 3, 1, true, 0), Pick::Read);
    }

    proptest! {
        /// Whoever takes slots, with however old a picture of them, and whatever is given back meanwhile: never more than
        /// the limit, once those from before it was lowered are fewer.
        #[test]
        fn never_more_than_the_limit_are_taken(
            before in prop::collection::btree_set(0..12_u32, 0..12),
            limit in 0..8_u32,
            steps in prop::collection::vec((0..4_usize, 0..3_u8, 0..12_u32), 1..60),
        ) {
            let allowed = usize::try_from(limit).unwrap().max(before.len());
            let mut held = before.clone();
            // The picture of each of four nodes.
            let mut pictures = vec![before.clone(); 4];
            for (node, what, spread) in steps {
                match what {
                    0 => pictures[node] = held.clone(),
                    1 => {
                        let one = held.iter().nth(usize::try_from(spread).unwrap() % held.len().max(1)).copied();
                        one.map(|one| held.remove(&one));
                    }
                    _ => {
                        let mut page = Page { seen: Seen { held: pictures[node].clone(), ..Seen::default() }, ..Page::default() };
                        if let Pick::Slot { number, .. } = page.pick(limit, spread) {
                            let was = held.len();
                            // The tree refuses a slot that is held.
                            if held.insert(number) {
                                prop_assert!(was < usize::try_from(limit).unwrap(), "{held:?} of {limit}");
                            }
                        }
                    }
                }
                prop_assert!(held.len() <= allowed);
            }
        }
    }
}
