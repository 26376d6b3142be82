//! Whose turn a job is first: every node ranks itself among the live components, by a hash of the job
//! and the component's name, and nobody has to ask anybody.
//!
//! The hash is written out here because all machines and all versions must agree on it. Nodes that
//! do not see the same components for a moment may both think that they come first: a rank only saves
//! lost races, the lock decides.

use crate::ids::Jid;

/// The live components, as this node sees them.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    own: u64,
    others: Vec<(String, u64)>,
}

impl Ranks {
    /// Takes over who lives; says whether somebody vanished. This node itself always counts.
    pub(super) fn set(&mut self, names: Vec<String>, own: &str) -> bool {
        let mut names: Vec<_> = names.into_iter().filter(|name| name != own).collect();
        names.sort();
        names.dedup();
        let vanished = self.others.iter().any(|(name, _)| names.binary_search(name).is_err());
        self.own = hash(own);
        self.others = names
            .into_iter()
            .map(|name| {
                let seed = hash(&name);
                (name, seed)
            })
            .collect();
        vanished
    }

    /// How many others come before this node.
    pub(super) fn rank(&self, jid: Jid) -> usize {
        let own = score(self.own, jid);
        self.others.iter().filter(|(_, seed)| score(*seed, jid) > own).count()
    }
}

/// How many of the others come before this one, for a thing with this number.
pub fn rank_of(names: &[String], own: &str, number: u32) -> usize {
    let mut ranks = Ranks::default();
    ranks.set(names.to_vec(), own);
    ranks.rank(Jid::new(number))
}

/// FNV-1a over the name: the same on all machines and in all versions.
pub fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn score(seed: u64, jid: Jid) -> u64 {
    mix(seed ^ mix(u64::from(jid.number()).wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

/// Every bit of the input moves half of the output: without it, neighbouring jobs would share a node.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("node{n}-{n:010}")).collect()
    }

    fn first_of(names: &[String], jid: Jid) -> String {
        let first = |name: &&String| {
            let mut ranks = Ranks::default();
            ranks.set(names.to_vec(), name);
            ranks.rank(jid) == 0
        };
        names.iter().find(first).cloned().expect("one of them comes first")
    }

    #[test]
    fn the_hash_is_the_same_on_all_machines_and_versions() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(score(hash("node1"), Jid::new(0)), 0xd33d_d250_d572_e7a8);
        assert_eq!(score(hash("node1"), Jid::new(7)), 0x55e3_b8dd_f903_2760);
        assert_eq!(score(hash("node2"), Jid::new(7)), 0xd394_db19_f05f_b391);
    }

    #[test]
    fn the_ranks_of_a_job_are_all_different() {
        let names = names(5);
        for number in 0..100 {
            let rank = |own: &String| {
                let mut ranks = Ranks::default();
                ranks.set(names.clone(), own);
                ranks.rank(Jid::new(number))
            };
            let mut ranks: Vec<_> = names.iter().map(rank).collect();
            ranks.sort_unstable();
            assert_eq!(ranks, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn jobs_are_spread_evenly() {
        let names = names(4);
        let mut ranks = Ranks::default();
        for own in &names {
            ranks.set(names.clone(), own);
            let mine = (0..10_000).filter(|number| ranks.rank(Jid::new(*number)) == 0).count();
            assert!((2_300..2_700).contains(&mine), "{own} has {mine} of 10000");
            // Also within a short run of neighbours.
            let few = (5_000..5_100).filter(|number| ranks.rank(Jid::new(*number)) == 0).count();
            assert!((10..45).contains(&few), "{own} has {few} of 100 neighbours");
        }
    }

    #[test]
    fn a_component_that_vanishes_moves_only_its_own_jobs() {
        let before = names(4);
        let after = before[..3].to_vec();
        for jid in (0..500).map(Jid::new) {
            let first = first_of(&before, jid);
            if first != before[3] {
                assert_eq!(first_of(&after, jid), first);
            }
        }
    }

    #[test]
    fn this_node_counts_whether_it_is_in_the_list_or_not() {
        let (mut with, mut without) = (Ranks::default(), Ranks::default());
        with.set(vec!["a".into(), "b".into(), "a".into()], "a");
        without.set(vec!["b".into()], "a");
        for jid in (0..50).map(Jid::new) {
            assert_eq!(with.rank(jid), without.rank(jid));
            assert!(with.rank(jid) < 2);
        }
        assert_eq!(Ranks::default().rank(Jid::new(3)), 0);
    }

    #[test]
    fn it_is_told_when_a_component_vanished() {
        let mut ranks = Ranks::default();
        assert!(!ranks.set(vec!["b".into()], "a"));
        assert!(!ranks.set(vec!["b".into(), "c".into()], "a"));
        assert!(ranks.set(vec!["c".into(), "d".into()], "a"));
    }
}
