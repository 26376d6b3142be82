//! One question to a server, with its redirects.
//!
//! Redirects are followed here and not by the client, so that every hop passes the same checks: scheme,
//! address, turn. Credentials go to the host that they were given for and to no other.
//!
//! **When things break.** A hop that must not be followed stops the fetch; a connection that fails or an
//! answer that does not begin in time is tried again by the caller.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Method, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::Fetcher;
use super::address::Forbidden;
use super::redact::{chain, redacted};
use super::retry::{Broken, patiently};
use crate::outcome::{Cancel, Failure, Progress};

/// An answer whose body is not read yet, and the turn that it occupies.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response,
    _turn: Turn,
}

/// So many requests at a time, for each host and in all.
#[derive(Debug)]
pub(super) struct Turns {
    node: Arc<Semaphore>,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
    per_host: usize,
    /// How many have asked for a turn and have none.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Turn {
    _host: Option<OwnedSemaphorePermit>,
    _node: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub(super) fn new(per_host: usize, per_node: usize) -> Self {
        let node = Arc::new(Semaphore::new(per_node.clamp(1, Semaphore::MAX_PERMITS)));
        let per_host = per_host.clamp(1, Semaphore::MAX_PERMITS);
        Self { node, hosts: Mutex::default(), per_host, waiting: AtomicUsize::new(0) }
    }

    /// First the host, then the node: whoever waits for a busy host keeps nobody else from working.
    async fn take(&self, host: &str) -> Turn {
        let host = self.host(host);
        let _waiting = Waiting::begin(&self.waiting);
        // The semaphores are never closed, so both are always there.
        let host = host.acquire_owned().await.ok();
        let node = self.node.clone().acquire_owned().await.ok();
        Turn { _host: host, _node: node }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn host(&self, host: &str) -> Arc<Semaphore> {
        let mut hosts = self.hosts.lock();
        if hosts.len() >= 1024 {
            // Those that nobody uses or waits for.
            hosts.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        hosts.entry(host.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.per_host))).clone()
    }
}

/// Counts one that waits, also if it is dropped meanwhile.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fetcher {
    /// Asks, and follows redirects to an answer that is none.
    pub(super) async fn ask(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Answer, Broken> {
        let mut at = url.clone();
        for _ in 0..=self.rules.max_redirects {
            let answer = self.ask_once(&method, &at, headers, progress, cancel).await?;
            let status = answer.response.status();
            if !is_redirect(status) {
                return Ok(answer);
            }
            at = next_hop(&at, answer.response.headers(), status)?;
        }
        let most = self.rules.max_redirects;
        Err(Broken::fail(format!("{}: more than {most} redirects (`fetch.max_redirects`)", redacted(url))))
    }

    async fn ask_once(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Answer, Broken> {
        let client = self.client_for(url)?;
        let host = url.host_str().unwrap_or_default();
        let turn = patiently(self.turns.take(host), progress, cancel).await?;
        // The client makes basic authentication of a user in the URL.
        let sending = client.request(method.clone(), url.clone()).headers(headers.clone()).send();
        let limit = self.rules.connect_timeout.saturating_add(self.rules.stall);
        let sent = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Failure::Cancelled.into()),
            sent = tokio::time::timeout(limit, sending) => sent,
        };
        match sent {
            Ok(Ok(response)) => Ok(Answer { response, _turn: turn }),
            Ok(Err(error)) => Err(broken(url, error)),
            Err(_) => Err(Broken::again(format!("no answer within {limit:?}"))),
        }
    }

    /// The client that may connect to this URL.
    fn client_for(&self, url: &Url) -> Result<&reqwest::Client, Failure> {
        if !matches!(url.scheme(), "http" | "https") {
            let shown = redacted(url);
            return Err(Failure::hopeless(format!("{shown}: only http and https URLs are fetched")));
        }
        if let (Some(own), Some(public)) = (&self.own_client, &self.rules.public_url)
            && public.origin() == url.origin()
        {
            return Ok(own);
        }
        self.guard
            .check_url(url)
            .map_err(|forbidden| Failure::fail(format!("{}: {forbidden}", redacted(url))))?;
        Ok(&self.client)
    }
}

fn broken(url: &Url, error: reqwest::Error) -> Broken {
    if let Some(forbidden) = forbidden_in(&error) {
        return Broken::fail(format!("{}: {forbidden}", redacted(url)));
    }
    if error.is_builder() {
        return Broken::fail(format!("{}: {}", redacted(url), chain(error)));
    }
    Broken::again(chain(error))
}

fn forbidden_in(error: &reqwest::Error) -> Option<&Forbidden> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(forbidden) = inner.downcast_ref() {
            return Some(forbidden);
        }
        source = inner.source();
    }
    None
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn next_hop(from: &Url, headers: &HeaderMap, status: StatusCode) -> Result<Url, Failure> {
    let shown = redacted(from);
    let location = headers
        .get(LOCATION)
        .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
        .ok_or_else(|| Failure::fail(format!("{shown}: {status} without a readable Location")))?;
    let mut next = from.join(location).map_err(|error| {
        Failure::fail(format!("{shown}: {status} to a Location that is no URL ({error})"))
    })?;
    if !matches!(next.scheme(), "http" | "https") {
        let to = redacted(&next);
        return Err(Failure::fail(format!("{shown}: redirects to {to}; only http and https are followed")));
    }
    let bare = next.username().is_empty() && next.password().is_none();
    if bare && next.origin() == from.origin() {
        // The same server, written out: it is still the one that they were given for.
        let _ = next.set_username(from.username());
        let _ = next.set_password(from.password());
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(from: &str, location: &str) -> Result<String, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, location.parse().unwrap());
        next_hop(&Url::parse(from).unwrap(), &headers, StatusCode::FOUND).map(String::from)
    }

    #[test]
    fn credentials_stay_with_their_host() {
        let from = "https://anna:pw1@h.org/a";
        assert_eq!(hop(from, "/b").unwrap(), "https://anna:pw1@h.org/b");
        assert_eq!(hop(from, "https://h.org/b").unwrap(), "https://anna:pw1@h.org/b");
        for elsewhere in ["https://other.org/b", "//other.org/b", "http://h.org/b", "https://h.org:444/b"] {
            let next = hop(from, elsewhere).unwrap();
            assert!(!next.contains("pw1") && !next.contains("anna"), "{next}");
        }
    }

    #[test]
    fn a_redirect_leads_to_http_only() {
        for location in ["file:///etc/passwd", "ftp://h.org/", "data:,x", "gopher://h.org/"] {
            let failure = hop("https://anna:pw1@h.org/a", location).unwrap_err();
            assert!(matches!(&failure, Failure::Fail(why) if !why.contains("pw1")), "{failure}");
        }
        assert!(hop("https://h.org/a", "https://[::1").is_err());
    }

    #[tokio::test]
    async fn a_busy_host_does_not_hold_up_another() {
        let turns = Turns::new(1, 2);
        let first = turns.take("a").await;
        let mut second = Box::pin(turns.take("a"));
        assert!(futures::poll!(&mut second).is_pending());
        let other = turns.take("b").await;
        let mut third = Box::pin(turns.take("c"));
        assert!(futures::poll!(&mut third).is_pending(), "the node has two turns");
        drop((first, other));
        second.await;
        third.await;
    }

    #[tokio::test]
    async fn hosts_that_are_done_are_forgotten() {
        let turns = Turns::new(1, 1);
        for number in 0..5000 {
            turns.take(&number.to_string()).await;
        }
        assert!(turns.hosts.lock().len() <= 1024);
    }
}
