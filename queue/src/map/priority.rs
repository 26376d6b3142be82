//! How soon a job runs.

use std::fmt;

/// How soon a job runs: two digits, lower first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Priority(u8);

/// Not a priority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a priority: it is a number from 0 to 99, or one of {names}", names = Priority::names())]
pub struct NotAPriority(String);

impl Priority {
    pub const FIRST: Priority = Priority(0);
    pub const DEFAULT: Priority = Priority(5);
    /// From here on a job runs only when nothing below waits.
    pub const SLOW: Priority = Priority(80);
    pub const LAST: Priority = Priority(99);

    /// The classes that have a name, unless the configuration says otherwise.
    pub const CLASSES: &'static [(&'static str, Priority)] = &[
        ("now", Priority(0)),
        ("important", Priority(10)),
        ("new", Priority(20)),
        ("reset", Priority(50)),
        ("updates", Priority(70)),
        ("slow", Priority(80)),
        ("review", Priority(90)),
        ("time-allows", Priority(99)),
    ];

    pub fn new(number: i64) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| *number <= 99).map(Self)
    }

    /// A number from elsewhere, brought into the range: a job beyond it would never be taken.
    pub fn nearest(number: i64) -> Self {
        Self(u8::try_from(number.clamp(0, 99)).unwrap_or(99))
    }

    pub const fn number(self) -> u8 {
        self.0
    }

    fn names() -> String {
        crate::classes::all().into_iter().map(|class| class.name).collect::<Vec<_>>().join(", ")
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.0)
    }
}

impl std::str::FromStr for Priority {
    type Err = NotAPriority;

    fn from_str(text: &str) -> Result<Self, NotAPriority> {
        let number = || text.parse().ok().and_then(Self::new);
        let class = || crate::classes::named(&crate::classes::all(), text);
        number().or_else(class).ok_or_else(|| NotAPriority(text.to_owned()))
    }
}

impl<'de> serde::Deserialize<'de> for Priority {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(from)?;
        Self::new(number).ok_or_else(|| serde::de::Error::custom(NotAPriority(number.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_names_and_bounds() {
        assert_eq!("important".parse(), Ok(Priority::nearest(10)));
        assert_eq!("99".parse(), Ok(Priority::LAST));
        for bad in ["100", "-1", "urgent", ""] {
            assert!(bad.parse::<Priority>().unwrap_err().to_string().contains("time-allows"), "{bad}");
        }
        assert_eq!((Priority::nearest(1000), Priority::nearest(-4)), (Priority::LAST, Priority::FIRST));
    }
}
