//! When a request is made again, and after how long.
//!
//! **When things break.** What may pass by itself (a server that is overloaded, a connection that was cut)
//! is tried again, a bounded number of times in all; then the failure says how often and what was last.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::rules::Rules;
use crate::outcome::{Cancel, Failure, Progress};

/// Why an attempt did not end well.
#[derive(Debug)]
pub(super) enum Broken {
    /// It may go better: try again.
    Again(Again),
    /// It will not.
    Stop(Failure),
}

#[derive(Debug)]
pub(super) struct Again {
    pub(super) why: String,
    /// What the server asked for.
    pub(super) wait: Option<Duration>,
    /// Nothing of what is here can be kept.
    pub(super) from_zero: bool,
    /// If it stays so, it is not the server's bad day but the file: the job fails.
    pub(super) fail: bool,
}

impl Broken {
    pub(super) fn again(why: impl Into<String>) -> Self {
        Broken::Again(Again { why: why.into(), wait: None, from_zero: false, fail: false })
    }

    pub(super) fn from_zero(why: impl Into<String>) -> Self {
        Broken::Again(Again { why: why.into(), wait: None, from_zero: true, fail: true })
    }

    /// The same, but nothing of what is here can be kept.
    pub(super) fn all_of_it(self) -> Self {
        match self {
            Broken::Again(again) => Broken::Again(Again { from_zero: true, ..again }),
            stop @ Broken::Stop(_) => stop,
        }
    }

    pub(super) fn fail(why: impl Into<String>) -> Self {
        Broken::Stop(Failure::fail(why))
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Broken::Stop(failure)
    }
}

/// Counts the retries of one file.
#[derive(Debug)]
pub(super) struct Retries<'a> {
    rules: &'a Rules,
    /// What is fetched, for messages.
    shown: &'a str,
    pub(super) done: u32,
}

impl<'a> Retries<'a> {
    pub(super) fn new(rules: &'a Rules, shown: &'a str) -> Self {
        Self { rules, shown, done: 0 }
    }

    /// Waits before the next attempt, or says that there is none.
    pub(super) async fn next(
        &mut self,
        broken: Broken,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<(), Failure> {
        let again = match broken {
            Broken::Stop(failure) => return Err(failure),
            Broken::Again(again) => again,
        };
        if self.done >= self.rules.retries {
            let why = format!("{}: {} ({} retries)", self.shown, again.why, self.done);
            return Err(if again.fail { Failure::Fail(why) } else { Failure::Later(why) });
        }
        let pause = pause(self.rules, self.done, again.wait, rand::random());
        self.done += 1;
        tracing::info!(url = self.shown, retry = self.done, ?pause, why = again.why, "fetching again");
        patiently(tokio::time::sleep(pause), progress, cancel).await
    }
}

/// The pause before retry `done + 1`. `chance` is from 0 to 1.
fn pause(rules: &Rules, done: u32, asked: Option<Duration>, chance: f64) -> Duration {
    let doubled =
        rules.backoff.saturating_mul(1_u32.checked_shl(done).unwrap_or(u32::MAX)).min(rules.max_backoff);
    let own = doubled.saturating_sub((doubled / 2).mul_f64(chance));
    // Never sooner than the server asked, within reason.
    asked.map_or(own, |asked| own.max(asked.min(rules.max_retry_after)))
}

/// Waits for something that is not this file's own stalling, such as a turn or a pause; beats meanwhile.
pub(super) async fn patiently<T>(
    what: impl Future<Output = T>,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<T, Failure> {
    let mut beat = tokio::time::interval(Duration::from_secs(1));
    tokio::pin!(what);
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Failure::Cancelled),
            done = &mut what => return Ok(done),
            _ = beat.tick() => progress.beat(),
        }
    }
}

/// What `Retry-After` asks for: seconds or a date. What cannot be read asks for nothing.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        // More digits than fit are a very long time.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let date = SystemTime::from(date.timestamp());
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        // 1994-11-06 08:49:37 UTC
        retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(asked("120"), Some(Duration::from_mins(2)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_mins(1)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO), "it is over");
        assert_eq!(asked("soon"), None);
        assert_eq!(asked(""), None);
        assert_eq!(asked("99999999999999999999999"), Some(Duration::from_secs(u64::from(u32::MAX))));
        assert_eq!(retry_after(&HeaderMap::new(), SystemTime::now()), None);
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_vary() {
        let rules = Rules {
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(5),
            ..Rules::default()
        };
        let pauses: Vec<u64> = (0..4).map(|done| pause(&rules, done, None, 0.0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 5]);
        assert_eq!(pause(&rules, 1, None, 1.0), Duration::from_secs(1));
        assert_eq!(pause(&rules, 400, None, 0.0), Duration::from_secs(5));
        let endless = Rules { backoff: Duration::MAX, max_backoff: Duration::MAX, ..Rules::default() };
        assert_eq!(pause(&endless, 9, None, 0.0), Duration::MAX);
    }

    #[test]
    fn what_the_server_asks_is_waited_for_up_to_a_cap() {
        let rules = Rules { max_retry_after: Duration::from_secs(30), ..Rules::default() };
        assert_eq!(pause(&rules, 0, Some(Duration::from_secs(20)), 0.5), Duration::from_secs(20));
        assert_eq!(pause(&rules, 0, Some(Duration::from_hours(9)), 0.5), Duration::from_secs(30));
    }

    #[tokio::test]
    async fn waiting_beats_and_can_be_stopped() {
        let (progress, cancel) = (Progress::default(), Cancel::new());
        let stopping = async {
            while progress.beats() == 0 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let (waited, ()) =
            tokio::join!(patiently(std::future::pending::<()>(), &progress, &cancel), stopping);
        assert_eq!(waited, Err(Failure::Cancelled));
    }
}
