//! Names of batches, jobs and access items: a prefix and ten digits, numbered by the store.

use std::fmt;
use std::str::FromStr;

/// The digits of the store's counters.
const DIGITS: usize = 10;

/// A name that is not an id of this kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no {what}: it should be `{prefix}` and ten digits")]
pub struct NotAnId {
    name: String,
    what: &'static str,
    prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub fn new(number: u32) -> Self {
                Self(number)
            }

            pub fn number(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{:010}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(name: &str) -> Result<Self, NotAnId> {
                number(name, $prefix).map(Self).ok_or_else(|| NotAnId {
                    name: name.chars().take(40).collect(),
                    what: $what,
                    prefix: $prefix,
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let name = String::deserialize(from)?;
                name.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// A batch.
    Bid, "bid", "batch id"
);
id!(
    /// A job.
    Jid, "jid", "job id"
);
id!(
    /// An item of the access queue.
    Aid, "qid", "access item id"
);

fn number(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    if digits.len() != DIGITS || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // The store's counter is a signed 32-bit number.
    digits.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        assert_eq!(Jid::new(7).to_string(), "jid0000000007");
        assert_eq!("jid2147483647".parse(), Ok(Jid::new(2_147_483_647)));
        assert_eq!(serde_json::to_string(&Bid::new(3)).unwrap(), r#""bid0000000003""#);
    }

    #[test]
    fn what_is_no_id_is_refused_by_name() {
        for name in ["", "jid", "jid7", "jid00000000007", "jid000000000x", "bid0000000007", "jid2147483648"] {
            let error = name.parse::<Jid>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}` is no job id")), "{error}");
        }
    }
}
