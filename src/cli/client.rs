//! The client of a node's HTTP API, which every command but a few speaks through.
//!
//! | to find | look in |
//! |---|---|
//! | where the node is, and who asks | [`options`] |
//! | lists, page after page | [`pages`] |
//! | answers that come in lines | [`lines`] |
//! | live events | [`events`] |
//!
//! **When things break.** A node that is not there is told with what to do. A problem keeps its kind, which decides the
//! exit code, and its list. A node that asks to come back later is obeyed, a few times. The token is in no message.

mod events;
mod lines;
mod options;
mod pages;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

pub(super) use events::Change;
pub(super) use options::{Output, Server};
pub(super) use pages::Limit;

use super::exit::Failed;
use crate::api::wire::Problem;

/// How long an answer may take to begin, where the node does no long work for it.
const SOON: Duration = Duration::from_mins(2);
/// How often a node that asks to come back later is asked again, and how long it may ask to wait.
const TRIES: u32 = 8;
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// See `docs/api.md`: a moment of the cluster.
const LTIME: &str = "x-ingestd-ltime";

/// A node.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    /// The last moment of the cluster that this client has heard of: reads wait for it, on whichever node.
    ltime: Arc<Mutex<Option<HeaderValue>>>,
}

/// One request: a method, the parts of its path below `/api/v1`, and its parameters.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    headers: HeaderMap,
    patient: bool,
}

impl Ask {
    /// A header, if its value can be one.
    fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// A parameter, if there is a value.
    pub(super) fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.url.query_pairs_mut().append_pair(name, &value.to_string());
        }
        self
    }

    /// The node may work on it for long.
    pub(super) fn patient(self) -> Self {
        Self { patient: true, ..self }
    }

    pub(super) fn json(mut self, body: &impl Serialize) -> Result<Self> {
        self.body = Some(serde_json::to_vec(body)?);
        Ok(self)
    }
}

impl Client {
    fn new(http: reqwest::Client, base: Url, ltime: Option<i64>) -> Self {
        Self { http, base, ltime: Arc::new(Mutex::new(ltime.map(HeaderValue::from))) }
    }

    /// Another node, for whoever asks this one.
    pub(super) fn at(&self, base: Url) -> Self {
        Self { http: self.http.clone(), base, ltime: self.ltime.clone() }
    }

    pub(super) fn ask(&self, method: Method, path: &[&str]) -> Ask {
        Ask { method, url: self.url(path), body: None, headers: HeaderMap::new(), patient: false }
    }

    pub(super) fn get(&self, path: &[&str]) -> Ask {
        self.ask(Method::GET, path)
    }

    pub(super) fn post(&self, path: &[&str]) -> Ask {
        self.ask(Method::POST, path)
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Fails only for addresses that can have no path, and those are refused as options.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        url
    }

    pub(super) fn server(&self) -> String {
        ingest_steps::fetch::redacted(&self.base)
    }

    /// Sends it, and reads the answer.
    pub(super) async fn send<T: DeserializeOwned>(&self, ask: Ask) -> Result<T> {
        let answer = self.answer(ask).await?;
        self.read(answer).await
    }

    /// Sends it; whatever is not a success is a failure.
    pub(super) async fn answer(&self, ask: Ask) -> Result<Response> {
        let mut tries = 1;
        loop {
            let mut request =
                self.http.request(ask.method.clone(), ask.url.clone()).headers(ask.headers.clone());
            if let Some(body) = &ask.body {
                request = request.header("content-type", "application/json").body(body.clone());
            }
            let seen = self.ltime.lock().clone().filter(|_| ask.method == Method::GET);
            if let Some(moment) = seen {
                request = request.header(LTIME, moment);
            }
            if !ask.patient {
                request = request.timeout(SOON);
            }
            match self.once(request).await? {
                Ok(answer) => return Ok(answer),
                Err((_, Some(wait))) if tries < TRIES => {
                    tokio::time::sleep(wait).await;
                    tries += 1;
                }
                Err((problem, _)) => return Err(Failed::Problem(Box::new(problem)).into()),
            }
        }
    }

    /// Sends what cannot be sent twice.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        path: &[&str],
        form: reqwest::multipart::Form,
    ) -> Result<T> {
        let request = self.http.post(self.url(path)).multipart(form);
        match self.once(request).await? {
            Ok(answer) => self.read(answer).await,
            Err((problem, _)) => Err(Failed::Problem(Box::new(problem)).into()),
        }
    }

    /// A success; or a problem, and how long to wait before the same is tried again.
    async fn once(&self, request: RequestBuilder) -> Result<Result<Response, (Problem, Option<Duration>)>> {
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        if let Some(moment) = answer.headers().get(LTIME) {
            *self.ltime.lock() = Some(moment.clone());
        }
        if status.is_success() {
            return Ok(Ok(answer));
        }
        let wait = (status == StatusCode::TOO_MANY_REQUESTS).then(|| retry_after(answer.headers())).flatten();
        let body = answer.bytes().await.map_err(|error| self.unreachable(error))?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Ok(Err((problem, wait))),
            Err(_) => Err(self.not_understood(format!("{status} without a problem")).into()),
        }
    }

    pub(super) async fn read<T: DeserializeOwned>(&self, answer: Response) -> Result<T> {
        let body = answer.bytes().await.map_err(|error| self.unreachable(error))?;
        serde_json::from_slice(&body).map_err(|error| self.not_understood(error.to_string()).into())
    }

    pub(super) fn not_understood(&self, why: impl Into<String>) -> Failed {
        Failed::NotUnderstood { server: self.server(), why: why.into() }
    }

    pub(super) fn unreachable(&self, error: reqwest::Error) -> Failed {
        let error = error.without_url();
        // The innermost cause is what the system says: refused, no route, no such host.
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            why = inner.to_string();
            source = inner.source();
        }
        Failed::NoServer { server: self.server(), why }
    }
}

pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER).map(HeaderValue::to_str)?.ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|wait| *wait <= LONGEST_WAIT)
}
