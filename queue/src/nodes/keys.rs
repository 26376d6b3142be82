//! `/journal/keys/HASH`: who has a key.

use serde::{Deserialize, Serialize};

use super::{Json, Other};
use crate::ids::Bid;

/// All keys that have this hash: mostly one, and never taken for another, because the key itself is there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Keys {
    pub keys: Vec<Keyed>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Keys {}

/// A key, and the batches that have it: at most one that waits, and one that is being processed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Keyed {
    pub key: String,
    /// It is not expanded yet: a submission with the same key becomes part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Bid>,
    /// Its jobs are under way: the one that waits is not begun before it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Bid>,
    #[serde(flatten)]
    pub other: Other,
}

impl Keys {
    pub fn of(&self, key: &str) -> Option<&Keyed> {
        self.keys.iter().find(|keyed| keyed.key == key)
    }

    /// From now on this batch waits under the key.
    pub fn waits(&self, key: &str, bid: Bid) -> Self {
        self.with(key, |keyed| keyed.waiting = Some(bid))
    }

    /// The batch does not wait any more: its jobs are being made.
    pub fn begins(&self, key: &str, bid: Bid) -> Self {
        self.with(key, |keyed| {
            keyed.waiting = keyed.waiting.filter(|waiting| *waiting != bid);
            keyed.running = Some(bid);
        })
    }

    /// The batch has ended, or is gone: the key is another's.
    pub fn without(&self, key: &str, bid: Bid) -> Self {
        self.with(key, |keyed| {
            keyed.waiting = keyed.waiting.filter(|waiting| *waiting != bid);
            keyed.running = keyed.running.filter(|running| *running != bid);
        })
    }

    /// What is left of them without the batches that `has` says no longer have them so.
    pub fn only(&self, mut waits: impl FnMut(Bid) -> bool, mut runs: impl FnMut(Bid) -> bool) -> Self {
        let mut left = self.clone();
        for keyed in &mut left.keys {
            keyed.waiting = keyed.waiting.filter(|bid| waits(*bid));
            keyed.running = keyed.running.filter(|bid| runs(*bid));
        }
        left.tidy()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn with(&self, key: &str, change: impl FnOnce(&mut Keyed)) -> Self {
        let mut after = self.clone();
        let at = after.keys.iter().position(|keyed| keyed.key == key).unwrap_or_else(|| {
            after.keys.push(Keyed { key: key.to_owned(), ..Keyed::default() });
            after.keys.len() - 1
        });
        if let Some(keyed) = after.keys.get_mut(at) {
            change(keyed);
        }
        after.tidy()
    }

    fn tidy(mut self) -> Self {
        self.keys.retain(|keyed| keyed.waiting.is_some() || keyed.running.is_some());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bid(number: u32) -> Bid {
        Bid::new(number)
    }

    #[test]
    fn a_key_passes_from_the_one_that_waits_to_the_one_that_runs_and_is_free_at_last() {
        let keys = Keys::default().waits("k", bid(1)).begins("k", bid(1)).waits("k", bid(2));
        let keyed = keys.of("k").unwrap();
        assert_eq!((keyed.waiting, keyed.running), (Some(bid(2)), Some(bid(1))));
        let keys = keys.without("k", bid(1)).begins("k", bid(2));
        let keyed = keys.of("k").unwrap();
        assert_eq!((keyed.waiting, keyed.running), (None, Some(bid(2))));
        assert!(keys.without("k", bid(2)).is_empty());
    }

    #[test]
    fn keys_with_one_hash_are_not_taken_for_each_other() {
        let keys = Keys::default().waits("a", bid(1)).waits("b", bid(2));
        assert_eq!(keys.of("a").unwrap().waiting, Some(bid(1)));
        assert_eq!(keys.without("a", bid(1)).of("b").unwrap().waiting, Some(bid(2)));
        assert_eq!(keys.of("c"), None);
    }

    #[test]
    fn what_a_batch_does_not_have_it_does_not_free() {
        let keys = Keys::default().waits("k", bid(1));
        assert_eq!(keys.without("k", bid(9)), keys);
        assert_eq!(keys.only(|_| true, |_| true), keys);
        assert!(keys.only(|_| false, |_| true).is_empty());
    }
}
