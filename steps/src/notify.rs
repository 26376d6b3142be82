//! The call to the depositor's own service when a job is done: `POST {callback}/{jid}` with the job as JSON.
//!
//! All calls for one job carry the same `Idempotency-Key`, so that a service that was called twice can tell:
//! a call whose answer was lost is made again. A user and password in the callback's URL go as basic auth and
//! are never shown.
//!
//! **When things break.** A service that is away, overloaded or failing (5xx, 408, 425, 429) is called again, after
//! `Retry-After` or a growing pause; one that refuses (any other answer but 2xx) is not. In the end the job
//! fails, with the last answer, and can be requeued.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderValue, RETRY_AFTER};
use serde::{Deserialize, Serialize};

use crate::fetch::redacted;
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::profile::Callback;

/// `[notify]`: how often and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How often a call is made again.
    pub retries: u32,
    /// The pause before the first repetition; it doubles each time.
    #[serde(with = "humantime_serde")]
    pub backoff: Duration,
    /// The longest pause, also if the service asks for more.
    #[serde(with = "humantime_serde")]
    pub max_backoff: Duration,
    /// How long one call may take.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            retries: 5,
            backoff: Duration::from_secs(2),
            max_backoff: Duration::from_mins(2),
            timeout: Duration::from_secs(30),
        }
    }
}

/// Calls callbacks.
#[derive(Debug, Clone)]
pub struct Notifier {
    client: reqwest::Client,
    settings: Settings,
}

/// Why a call did not do.
struct Refused {
    why: String,
    /// Whether another call can help.
    again: bool,
    /// After how long the service wants it.
    asked: Option<Duration>,
}

impl Notifier {
    pub fn new(settings: Settings) -> Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(settings.timeout)
            // A redirected POST becomes a GET somewhere else.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| Failure::fail(format!("there is no HTTP client: {error}")))?;
        Ok(Self { client, settings })
    }

    /// Calls until it is answered well. `key` is the same for all attempts at this job's notification.
    pub async fn call(
        &self,
        callback: &Callback,
        jid: &str,
        body: &serde_json::Value,
        key: &str,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<()> {
        let mut url = callback.url().clone();
        let path = format!("{}/{jid}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        let shown = redacted(&url);
        let mut calls = 0;
        loop {
            progress.beat();
            let refused = tokio::select! {
                () = cancel.cancelled() => return Err(Failure::Cancelled),
                answer = self.once(&url, body, key) => match answer {
                    Ok(()) => return Ok(()),
                    Err(refused) => refused,
                },
            };
            calls += 1;
            if !refused.again || calls > self.settings.retries {
                let times = if calls == 1 { "once".into() } else { format!("{calls} times") };
                return Err(Failure::fail(format!("callback {shown}, called {times}: {}", refused.why)));
            }
            let pause = self.pause(calls, refused.asked);
            tracing::info!(url = shown, calls, ?pause, why = refused.why, "calling back again");
            tokio::select! {
                () = cancel.cancelled() => return Err(Failure::Cancelled),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn once(&self, url: &url::Url, body: &serde_json::Value, key: &str) -> Result<(), Refused> {
        // The client takes user and password out of the URL, and sends them as basic auth.
        let request = self.client.post(url.clone()).header("Idempotency-Key", key).json(body);
        let answer = request.send().await.map_err(|error| {
            let why = if error.is_timeout() {
                format!("no answer within {:?}", self.settings.timeout)
            } else {
                error.without_url().to_string()
            };
            Refused { why, again: true, asked: None }
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let passing = status.is_server_error()
            || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS]
                .contains(&status);
        let asked = answer.headers().get(RETRY_AFTER).and_then(seconds);
        Err(Refused { why: format!("it answered {status}"), again: passing, asked })
    }

    fn pause(&self, calls: u32, asked: Option<Duration>) -> Duration {
        let doubled = self.settings.backoff.saturating_mul(1_u32.checked_shl(calls - 1).unwrap_or(u32::MAX));
        // Half of it is left to chance: many jobs of one batch end together.
        let own = doubled.min(self.settings.max_backoff).mul_f64(0.5 + rand::random::<f64>() / 2.0);
        asked.map_or(own, |asked| asked.max(own)).min(self.settings.max_backoff)
    }
}

fn seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
