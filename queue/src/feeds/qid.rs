//! The name of a feed in the tree.

use std::fmt;
use std::str::FromStr;

use crate::map;

/// 32 hex digits, made of the feed's name: everybody who knows the name knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qid(u128);

/// Not the name of a feed in the tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a feed's id: it should be 32 hex digits, in lower case")]
pub struct NotAQid(String);

impl Qid {
    pub fn of(name: &str) -> Self {
        let hash = map::hash(&["feed", name]);
        // It is 32 hex digits.
        Self(u128::from_str_radix(&hash, 16).unwrap_or_default())
    }

    /// The uuid of the submission that an item becomes: an item that comes again has the same.
    pub fn uuid_of(self, item: &str) -> String {
        map::hash(&["feed item", &self.to_string(), item])
    }
}

impl fmt::Display for Qid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Qid {
    type Err = NotAQid;

    fn from_str(name: &str) -> Result<Self, NotAQid> {
        let plain = name.len() == 32 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let number = plain.then(|| u128::from_str_radix(name, 16).ok()).flatten();
        number.map(Self).ok_or_else(|| NotAQid(name.chars().take(40).collect()))
    }
}

impl serde::Serialize for Qid {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Qid {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qid_is_read_as_it_is_written() {
        let qid = Qid::of("herbarium");
        assert_eq!(qid.to_string().len(), 32);
        assert_eq!(qid.to_string().parse(), Ok(qid));
        assert_ne!(qid, Qid::of("herbarium2"));
        for bad in ["", "12", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33)] {
            assert!(bad.parse::<Qid>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_item_has_one_uuid_in_each_feed() {
        let (one, other) = (Qid::of("one"), Qid::of("other"));
        assert_eq!(one.uuid_of("item"), one.uuid_of("item"));
        assert_ne!(one.uuid_of("item"), other.uuid_of("item"));
        assert_ne!(one.uuid_of("item"), one.uuid_of("item2"));
    }
}
