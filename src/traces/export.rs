//! Sends spans to the collector, several at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ingest_steps::fetch::redacted;
use reqwest::header::CONTENT_TYPE;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::span::{self, Span};

/// Spans of one request, and how long the first of them waits for others.
const TOGETHER: usize = 512;
const MOMENT: Duration = Duration::from_secs(1);
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the end may take.
const LAST: Duration = Duration::from_secs(3);

/// Where requests go, below the collector's address.
const PATH: &str = "v1/traces";

/// Sends until it is told to end.
#[derive(Debug)]
pub(crate) struct Exporter {
    lost: Arc<AtomicU64>,
    ending: CancellationToken,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Within a runtime.
    pub(super) fn start(endpoint: &Url, node: &str, waiting: mpsc::Receiver<Span>) -> Result<Self, String> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()
            .map_err(|error| format!("traces.endpoint: {error}"))?;
        let (lost, ending) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let sending = Sending {
            client,
            url: address(endpoint),
            node: node.to_owned(),
            lost: lost.clone(),
            failing: false,
        };
        let task = tokio::spawn(sending.run(waiting, ending.clone()));
        Ok(Self { lost, ending, task })
    }

    /// Counts the spans that were dropped.
    pub(super) fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }

    /// Sends what waits, if that works soon.
    pub(crate) async fn finish(self) {
        self.ending.cancel();
        let _ = tokio::time::timeout(LAST, self.task).await;
    }
}

/// Where spans are posted to: `v1/traces` below the address, unless it says so itself.
fn address(endpoint: &Url) -> Url {
    let mut url = endpoint.clone();
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with(PATH) {
        url.set_path(&format!("{path}/{PATH}"));
    }
    url
}

struct Sending {
    client: reqwest::Client,
    url: Url,
    node: String,
    lost: Arc<AtomicU64>,
    failing: bool,
}

impl Sending {
    async fn run(mut self, mut waiting: mpsc::Receiver<Span>, ending: CancellationToken) {
        let mut over = false;
        while !over {
            let mut spans = Vec::new();
            let first = tokio::select! {
                first = waiting.recv() => first,
                () = ending.cancelled() => None,
            };
            over = first.is_none();
            spans.extend(first);
            let until = Instant::now() + MOMENT;
            while !over && spans.len() < TOGETHER {
                tokio::select! {
                    next = waiting.recv() => match next {
                        Some(span) => spans.push(span),
                        None => over = true,
                    },
                    () = tokio::time::sleep_until(until) => break,
                    () = ending.cancelled() => over = true,
                }
            }
            while let Ok(span) = waiting.try_recv() {
                spans.push(span);
            }
            for part in spans.chunks(TOGETHER) {
                self.send(part).await;
            }
        }
    }

    async fn send(&mut self, spans: &[Span]) {
        let body = span::request(&self.node, spans).to_string();
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        match answer {
            Ok(_) => {
                let lost = self.lost.swap(0, Ordering::Relaxed);
                if self.failing || lost > 0 {
                    tracing::warn!(lost, "traces are sent again; some were lost");
                }
                self.failing = false;
            }
            Err(error) => {
                self.lost.fetch_add(spans.len() as u64, Ordering::Relaxed);
                if !std::mem::replace(&mut self.failing, true) {
                    let (to, error) = (redacted(&self.url), error.without_url());
                    tracing::warn!(to, %error, "traces cannot be sent, and are dropped until they can");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_below_the_address_of_the_collector() {
        let sent = |endpoint: &str| address(&endpoint.parse().unwrap()).to_string();
        assert_eq!(sent("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(sent("http://collector/otlp/"), "http://collector/otlp/v1/traces");
        assert_eq!(sent("http://collector/v1/traces"), "http://collector/v1/traces");
    }
}
