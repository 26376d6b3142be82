//! How feeds are divided among workers. Pure.
//!
//! Every feed that somebody offers to consume goes to one of those who offer. The shares differ by one at most, where the
//! offers allow that; where they do not, no single change would make them more even. What can stay where it is, stays: as
//! few feeds move as that takes. The same question has the same answer everywhere.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::Qid;

/// Feeds that the same workers offer: only their number matters.
type Class = usize;

struct Shares<'w> {
    workers: Vec<&'w str>,
    /// Who may have the feeds of each class, by place.
    classes: Vec<Vec<usize>>,
    /// What each worker has, by class.
    has: Vec<BTreeMap<Class, BTreeSet<Qid>>>,
    load: Vec<usize>,
}

/// Divides all feeds that are offered. `before` is who was to have what.
pub fn divide<'w>(
    before: &BTreeMap<Qid, &str>,
    offers: &BTreeMap<&'w str, BTreeSet<Qid>>,
) -> BTreeMap<Qid, &'w str> {
    let mut shares = Shares::new(before, offers);
    shares.even_out();
    let mut divided = BTreeMap::new();
    for (place, has) in shares.has.iter().enumerate() {
        for qid in has.values().flatten() {
            divided.insert(*qid, shares.workers[place]);
        }
    }
    divided
}

impl<'w> Shares<'w> {
    /// What can stay, stays; what nobody has, goes to whoever has least.
    fn new(before: &BTreeMap<Qid, &str>, offers: &BTreeMap<&'w str, BTreeSet<Qid>>) -> Self {
        let workers: Vec<&'w str> = offers.keys().copied().collect();
        let mut offered: BTreeMap<Qid, Vec<usize>> = BTreeMap::new();
        for (place, feeds) in offers.values().enumerate() {
            for qid in feeds {
                offered.entry(*qid).or_default().push(place);
            }
        }
        let (has, load) = (vec![BTreeMap::new(); workers.len()], vec![0; workers.len()]);
        let mut shares = Self { workers, classes: Vec::new(), has, load };
        let mut known: HashMap<Vec<usize>, Class> = HashMap::new();
        let mut homeless = Vec::new();
        for (qid, by) in offered {
            let class = *known.entry(by).or_insert_with_key(|by| {
                shares.classes.push(by.clone());
                shares.classes.len() - 1
            });
            let home = before.get(&qid).and_then(|name| shares.workers.binary_search(name).ok());
            match home.filter(|place| shares.classes[class].contains(place)) {
                Some(place) => shares.give(qid, class, place),
                None => homeless.push((qid, class)),
            }
        }
        for (qid, class) in homeless {
            let least = shares.classes[class].iter().copied().min_by_key(|place| shares.load[*place]);
            if let Some(place) = least {
                shares.give(qid, class, place);
            }
        }
        shares
    }

    fn give(&mut self, qid: Qid, class: Class, to: usize) {
        self.has[to].entry(class).or_default().insert(qid);
        self.load[to] += 1;
    }

    /// From whoever has most, along those who can pass something on, to whoever has at least two less; until nobody is
    /// left for whom that can be done.
    fn even_out(&mut self) {
        loop {
            let mut busiest: Vec<usize> = (0..self.workers.len()).collect();
            busiest.sort_by_key(|place| std::cmp::Reverse(self.load[*place]));
            let Some(way) = busiest.into_iter().find_map(|from| self.way_down(from)) else { return };
            for (from, class, to) in way {
                self.pass(from, class, to);
            }
        }
    }

    /// The shortest chain of hand-overs from a worker to one who has at least two less.
    fn way_down(&self, from: usize) -> Option<Vec<(usize, Class, usize)>> {
        let mut came: BTreeMap<usize, (usize, Class)> = BTreeMap::new();
        let mut next = VecDeque::from([from]);
        while let Some(place) = next.pop_front() {
            let mut reached: Vec<(usize, Class)> = Vec::new();
            for (class, feeds) in &self.has[place] {
                if !feeds.is_empty() {
                    reached.extend(self.classes[*class].iter().map(|to| (*to, *class)));
                }
            }
            // Of those who are as near, whoever has least.
            reached.sort_by_key(|(to, class)| (self.load[*to], *to, *class));
            for (to, class) in reached {
                if to == from || came.contains_key(&to) {
                    continue;
                }
                came.insert(to, (place, class));
                if self.load[to] + 2 <= self.load[from] {
                    return Some(Self::back(from, to, &came));
                }
                next.push_back(to);
            }
        }
        None
    }

    fn back(from: usize, to: usize, came: &BTreeMap<usize, (usize, Class)>) -> Vec<(usize, Class, usize)> {
        let (mut way, mut at) = (Vec::new(), to);
        while at != from
            && let Some((before, class)) = came.get(&at)
        {
            way.push((*before, *class, at));
            at = *before;
        }
        way
    }

    fn pass(&mut self, from: usize, class: Class, to: usize) {
        let Some(qid) = self.has[from].get_mut(&class).and_then(BTreeSet::pop_last) else { return };
        self.load[from] -= 1;
        self.give(qid, class, to);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feeds(count: usize) -> BTreeSet<Qid> {
        (0..count).map(|number| Qid::of(&number.to_string())).collect()
    }

    fn all<'w>(workers: &[&'w str], feeds: &BTreeSet<Qid>) -> BTreeMap<&'w str, BTreeSet<Qid>> {
        workers.iter().map(|worker| (*worker, feeds.clone())).collect()
    }

    fn loads(divided: &BTreeMap<Qid, &str>, workers: &[&str]) -> Vec<usize> {
        workers.iter().map(|worker| divided.values().filter(|has| *has == worker).count()).collect()
    }

    fn moved(before: &BTreeMap<Qid, &str>, after: &BTreeMap<Qid, &str>) -> usize {
        after.iter().filter(|(qid, worker)| before.get(qid).is_some_and(|old| old != *worker)).count()
    }

    const NAMES: [&str; 8] = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"];

    #[test]
    fn nobody_is_given_nothing_and_nothing_goes_to_nobody() {
        assert!(divide(&BTreeMap::new(), &BTreeMap::new()).is_empty());
        assert!(divide(&BTreeMap::new(), &all(&NAMES, &BTreeSet::new())).is_empty());
        let gone = BTreeMap::from([(Qid::of("x"), "w9")]);
        assert!(divide(&gone, &all(&NAMES, &BTreeSet::new())).is_empty());
    }

    #[test]
    fn a_worker_that_goes_leaves_its_own_feeds_and_no_others() {
        let feeds = feeds(20);
        let before = divide(&BTreeMap::new(), &all(&NAMES[..4], &feeds));
        assert_eq!(loads(&before, &NAMES[..4]), [5; 4]);
        let after = divide(&before, &all(&NAMES[..3], &feeds));
        let mut spread = loads(&after, &NAMES[..3]);
        spread.sort_unstable();
        assert_eq!(spread, [6, 7, 7]);
        assert_eq!(moved(&before, &after), 5);
    }

    #[test]
    fn a_feed_that_is_pinned_goes_where_it_is_offered() {
        let feeds = feeds(9);
        let mut offers = all(&NAMES[..3], &feeds);
        let pinned: Vec<Qid> = feeds.iter().take(5).copied().collect();
        for worker in ["w1", "w2"] {
            offers.get_mut(worker).unwrap().retain(|qid| !pinned.contains(qid));
        }
        let divided = divide(&BTreeMap::new(), &offers);
        assert!(pinned.iter().all(|qid| divided[qid] == "w0"));
        // Those that are free make up for it.
        assert_eq!(loads(&divided, &NAMES[..3]), [5, 2, 2]);
    }

    #[test]
    fn a_chain_of_workers_passes_on_what_the_first_cannot_give_to_the_last() {
        let (a, b) = (Qid::of("a"), Qid::of("b"));
        let (c, d) = (Qid::of("c"), Qid::of("d"));
        // w0 and w1 share some, w1 and w2 others.
        let offers = BTreeMap::from([
            ("w0", BTreeSet::from([a, b])),
            ("w1", BTreeSet::from([a, b, c, d])),
            ("w2", BTreeSet::from([c, d])),
        ]);
        let before = BTreeMap::from([(a, "w0"), (b, "w0"), (c, "w1"), (d, "w1")]);
        let divided = divide(&before, &offers);
        let mut spread = loads(&divided, &NAMES[..3]);
        spread.sort_unstable();
        assert_eq!(spread, [1, 1, 2]);
    }

    /// How few must move from these loads to even ones.
    fn least_moves(loads: &[usize]) -> usize {
        let (total, count) = (loads.iter().sum::<usize>(), loads.len());
        let (low, high) = (total / count, total.div_ceil(count));
        let over: usize = loads.iter().map(|load| load.saturating_sub(high)).sum();
        let under: usize = loads.iter().map(|load| low.saturating_sub(*load)).sum();
        over.max(under)
    }

    proptest! {
        #[test]
        fn shares_are_even_movement_is_least_and_the_answer_is_stable(
            homes in prop::collection::vec(0..8_usize, 0..60), workers in 1..8_usize,
        ) {
            let names = &NAMES[..workers];
            let feeds = feeds(homes.len());
            let before: BTreeMap<Qid, &str> =
                feeds.iter().zip(&homes).map(|(qid, home)| (*qid, NAMES[*home])).collect();
            let offers = all(names, &feeds);
            let after = divide(&before, &offers);
            prop_assert_eq!(after.len(), feeds.len());
            let spread = loads(&after, names);
            prop_assert!(spread.iter().max().unwrap_or(&0) - spread.iter().min().unwrap_or(&0) <= 1);
            // Feeds of workers that are gone fill up the shares first; the rest is moved for evenness alone.
            let mut kept = loads(&before, names);
            let homeless = feeds.len() - kept.iter().sum::<usize>();
            for _ in 0..homeless {
                *kept.iter_mut().min().unwrap() += 1;
            }
            prop_assert_eq!(moved(&before, &after), homeless + least_moves(&kept));
            prop_assert_eq!(&divide(&after, &offers), &after);
        }

        #[test]
        fn whatever_is_offered_every_feed_goes_to_one_who_offers_it(
            offered in prop::collection::vec(prop::collection::btree_set(0..5_usize, 0..5), 0..40),
        ) {
            let mut offers: BTreeMap<&str, BTreeSet<Qid>> =
                NAMES[..5].iter().map(|name| (*name, BTreeSet::new())).collect();
            let mut some = BTreeSet::new();
            for (number, by) in offered.iter().enumerate() {
                let qid = Qid::of(&number.to_string());
                for worker in by {
                    offers.get_mut(NAMES[*worker]).unwrap().insert(qid);
                    some.insert(qid);
                }
            }
            let divided = divide(&BTreeMap::new(), &offers);
            prop_assert_eq!(divided.keys().copied().collect::<BTreeSet<_>>(), some);
            for (qid, worker) in &divided {
                prop_assert!(offers[worker].contains(qid));
            }
            // No single hand-over would make it more even.
            let load = |name: &str| divided.values().filter(|has| **has == name).count();
            for (qid, worker) in &divided {
                for (other, offers) in &offers {
                    prop_assert!(!offers.contains(qid) || load(other) + 2 > load(worker));
                }
            }
        }
    }
}
