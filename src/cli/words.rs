//! Values as people write and read them: dates, sizes, counts.

use std::time::Duration;

use ingest_queue::date::{Clock, Date};
use ingest_queue::map::{NotAPriority, Priority};

/// A date, or how long ago: `2026-11-17T04:00:00Z`, `2h`, `3days`.
pub(super) fn moment(text: &str) -> Result<Date, String> {
    if let Ok(ago) = humantime::parse_duration(text) {
        let now = Clock::system().now();
        let millis = i64::try_from(ago.as_millis()).map_err(|_| "that is too long ago".to_owned())?;
        return Ok(Date::from_millis(now.millis().saturating_sub(millis)));
    }
    text.parse().map_err(|_| "it is neither a date (2026-11-17T04:00:00Z) nor a time (2h, 3days)".to_owned())
}

/// A number from 0 to 99, or the name of a class.
fn priority(text: &str) -> Result<u8, String> {
    let priority: Priority = text.parse().map_err(|error: NotAPriority| error.to_string())?;
    Ok(priority.number())
}

/// The same, for a node that may have classes of its own: what is no number is the node's to judge.
pub(super) fn any_priority(text: &str) -> Result<serde_json::Value, String> {
    match text.parse::<i64>() {
        Ok(_) => priority(text).map(serde_json::Value::from),
        Err(_) => Ok(text.into()),
    }
}

/// To the second.
pub(super) fn date(date: Option<Date>) -> String {
    let Some(date) = date else { return String::new() };
    let text = date.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// The same of a date that came as a text; anything else stays what it is.
pub(super) fn to_the_second(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), |at| date(Some(at)))
}

pub(super) fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

pub(super) fn span(millis: u64) -> String {
    let whole = if millis < 10_000 { millis } else { millis / 1000 * 1000 };
    humantime::format_duration(Duration::from_millis(whole)).to_string()
}

/// `1 job`, `2 jobs`.
pub(super) fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_may_be_times_ago() {
        assert_eq!(moment("2026-11-17T04:00:00Z").unwrap(), "2026-11-17T04:00:00Z".parse().unwrap());
        let ago = Clock::system().now().millis() - moment("2h").unwrap().millis();
        assert!((7_200_000..7_300_000).contains(&ago), "{ago}");
        assert!(moment("yesterday").unwrap_err().contains("3days"));
    }

    #[test]
    fn priorities_are_numbers_or_names() {
        assert_eq!(priority("07").unwrap(), 7);
        assert_eq!(priority("important").unwrap(), 10);
        assert!(priority("100").is_err() && priority("soon").is_err());
    }

    #[test]
    fn dates_are_shown_to_the_second() {
        assert_eq!(date(Some("2026-11-17T04:00:01.123Z".parse().unwrap())), "2026-11-17T04:00:01Z");
        assert_eq!(to_the_second("2026-11-17T04:00:01.123Z"), "2026-11-17T04:00:01Z");
        assert_eq!(to_the_second("never"), "never");
    }
}
