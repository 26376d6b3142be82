//! Dates: a moment in UTC, in milliseconds, and the clock that they come from.
//!
//! The clock may be off: the node learns by how much from the store's own clock ([`Clock::correct`]),
//! so that dates of different nodes can be compared.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date(Timestamp);

/// A text that is no date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a date: write it like 2026-11-16T01:43:45.000Z")]
pub struct NotADate(String);

impl Date {
    /// From milliseconds since 1970; a number that no calendar holds becomes the nearest that it does.
    pub fn from_millis(millis: i64) -> Self {
        let nearest = if millis < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Self(Timestamp::from_millisecond(millis).unwrap_or(nearest))
    }

    pub fn millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// This moment and so much later.
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.millis().saturating_add(millis))
    }

    /// How long before `later` this is; nothing if it is not.
    pub fn until(self, later: Date) -> Duration {
        let millis = later.millis().saturating_sub(self.millis());
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// As Merritt's library writes it: whole seconds.
    pub fn to_merritt(self) -> String {
        self.0.strftime("%Y-%m-%d %H:%M:%S +0000").to_string()
    }
}

/// RFC 3339, UTC, milliseconds.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

/// Either form, any offset from UTC.
impl FromStr for Date {
    type Err = NotADate;

    fn from_str(text: &str) -> Result<Self, NotADate> {
        let text = text.trim();
        let merritt = || Timestamp::strptime("%Y-%m-%d %H:%M:%S %z", text);
        text.parse()
            .or_else(|_| merritt())
            .map(|stamp: Timestamp| Self::from_millis(stamp.as_millisecond()))
            .map_err(|_| NotADate(text.chars().take(60).collect()))
    }
}

impl serde::Serialize for Date {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Date {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where dates come from. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// What is added to this machine's clock, in milliseconds.
    offset: Arc<AtomicI64>,
    /// For tests: a clock that stands still until it is set.
    fixed: Option<Arc<AtomicI64>>,
}

impl Clock {
    /// This machine's clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that stands still.
    pub fn fixed(at: Date) -> Self {
        Self { fixed: Some(Arc::new(AtomicI64::new(at.millis()))), ..Self::default() }
    }

    pub fn now(&self) -> Date {
        let millis = match &self.fixed {
            Some(fixed) => fixed.load(Ordering::Relaxed),
            None => Timestamp::now().as_millisecond(),
        };
        Date::from_millis(millis.saturating_add(self.offset.load(Ordering::Relaxed)))
    }

    /// What this machine's own clock says.
    pub fn uncorrected(&self) -> Date {
        let offset = self.offset.load(Ordering::Relaxed);
        Date::from_millis(self.now().millis().saturating_sub(offset))
    }

    /// How many milliseconds are added to this machine's clock.
    pub fn offset(&self) -> i64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Goes by a clock that is so many milliseconds ahead of this machine's.
    pub fn set_offset(&self, millis: i64) {
        self.offset.store(millis, Ordering::Relaxed);
    }

    /// Takes over the store's clock, as it was seen just now; returns by how much this machine's was off.
    pub fn correct(&self, store_now: Date) -> i64 {
        let before = self.now().millis().saturating_sub(self.offset.load(Ordering::Relaxed));
        let offset = store_now.millis().saturating_sub(before);
        self.offset.store(offset, Ordering::Relaxed);
        offset
    }

    /// Moves on a clock that stands still.
    pub fn advance(&self, by: Duration) {
        if let Some(fixed) = &self.fixed {
            fixed.fetch_add(i64::try_from(by.as_millis()).unwrap_or(0), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_in_both_forms_and_any_offset() {
        let date: Date = "2026-11-16T01:43:45.123Z".parse().unwrap();
        assert_eq!(date.to_string(), "2026-11-16T01:43:45.123Z");
        assert_eq!(date.to_merritt(), "2026-11-16 01:43:45 +0000");
        for same in ["2026-11-16 01:43:45 +0000", "2026-11-15 17:43:45 -0800", " 2026-11-16T02:43:45+01:00"] {
            assert_eq!(same.parse::<Date>().unwrap().to_string(), "2026-11-16T01:43:45.000Z", "{same}");
        }
        assert!("yesterday".parse::<Date>().unwrap_err().to_string().contains("`yesterday` is not a date"));
    }

    #[test]
    fn a_clock_follows_the_stores() {
        let clock = Clock::fixed(Date::from_millis(1_000));
        assert_eq!(clock.correct(Date::from_millis(4_000)), 3_000);
        assert_eq!(clock.now().millis(), 4_000);
        assert_eq!(clock.correct(Date::from_millis(4_000)), 3_000);
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now().millis(), 5_000);
    }

    #[test]
    fn durations_between_dates_never_wrap() {
        let (early, late) = (Date::from_millis(5), Date::from_millis(9));
        assert_eq!(early.until(late), Duration::from_millis(4));
        assert_eq!(late.until(early), Duration::ZERO);
        assert!(Date::from_millis(i64::MAX).after(Duration::MAX) > late);
    }
}
