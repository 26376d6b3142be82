//! Sizes as people write them in a configuration: `2 GiB`, `500 MB`, or a number of bytes.
//!
//! For `#[serde(with = "crate::size")]`; [`optional`] is the same for what may be absent.

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serializer};

const UNITS: [(&str, u64); 11] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
];

/// Why something is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no size; write bytes as a number, or a number and a unit, as in `2 GiB` or `500 MB`")]
pub struct NotASize(String);

/// Reads a size.
pub fn parse(text: &str) -> Result<u64, NotASize> {
    let wrong = || NotASize(text.to_owned());
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(end);
    let number: u64 = digits.replace('_', "").parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// The size in the largest unit that says it exactly.
pub fn show(bytes: u64) -> String {
    const SHOWN: [(&str, u64); 5] =
        [("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let exact = SHOWN.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match exact {
        Some((unit, factor)) => write!(text, "{} {unit}", bytes / factor),
        None => write!(text, "{bytes} B"),
    };
    text
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Number(u64),
    Text(String),
}

impl Either {
    fn bytes<E: serde::de::Error>(self) -> Result<u64, E> {
        match self {
            Either::Number(number) => Ok(number),
            Either::Text(text) => parse(&text).map_err(E::custom),
        }
    }
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Either::deserialize(from)?.bytes()
}

// Serde calls it with a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&show(*bytes))
}

pub mod optional {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Either;

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        Option::<Either>::deserialize(from)?.map(Either::bytes).transpose()
    }

    // Serde calls it with a reference.
    #[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option)]
    pub fn serialize<S: Serializer>(bytes: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::serialize(bytes, to),
            None => to.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("2 GiB", 2 << 30), ("2gib", 2 << 30), (" 500 MB ", 500_000_000), ("1_000", 1_000), ("7b", 7)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5 GiB", "2 GiBs", "99999999999 PiB", "1 2"] {
            assert_eq!(parse(text), Err(NotASize(text.into())), "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for bytes in [0, 1, 1023, 1 << 10, 3 << 30, (1 << 40) + 1, u64::MAX] {
            assert_eq!(parse(&show(bytes)), Ok(bytes), "{}", show(bytes));
        }
        assert_eq!((show(2 << 30), show(1_500)), ("2 GiB".into(), "1500 B".into()));
    }
}
