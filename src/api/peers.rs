//! What nodes ask each other.
//!
//! A node finds the others in the tree, each with the address that it answers at. Where people need tokens, so do nodes, and
//! no node has one: it shows a signature of what it asks instead, made with the key that URLs are signed with (`api.url_key`),
//! good for a short time and for that one request. No token of a person is ever passed on: the address is as
//! trustworthy as the tree is.
//!
//! **When things break.** A node that does not answer, soon and with what can be read, is told as one that could not be
//! asked, with what to do about it.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, StatusCode};
use ingest_steps::fetch::redacted;
use ingest_steps::urls::Verdict;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::app::App;
use super::caller::{Caller, Known, Ordered};
use super::wire::{NodeLine, Problem, Role};

/// How a signature is sent: `Authorization: Ingestd-Node EXPIRES SIGNATURE`.
const SCHEME: &str = "Ingestd-Node";

/// Says that a node asks.
const NODE: &str = "x-ingestd-node";

/// How long one is good: clocks are not all the same.
const GOOD: Duration = Duration::from_mins(5);

/// What nodes may ask each other for.
const ASKED: [&str; 1] = ["/api/v1/restarts"];

/// How long an answer may take, and how long it may be.
const SOON: Duration = Duration::from_secs(5);
const LARGEST: usize = 8 << 20;

fn request_line(path: &str) -> String {
    format!("node GET {path}")
}

/// Whether a node asks, and not a person: it is answered by this node alone.
pub(super) fn is_node(headers: &HeaderMap) -> bool {
    headers.contains_key(NODE)
}

/// Who asks, if it is a node; `None`: it does not say so.
pub(super) fn caller(app: &App, request: &Request, from: IpAddr) -> Option<Known> {
    let given = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let mut words = given.split(' ');
    if app.settings.tokens.is_empty() || !words.next()?.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let path = request.uri().path();
    let (expires, signature) = (words.next().and_then(|word| word.parse().ok()), words.next());
    let good = request.method() == Method::GET
        && ASKED.contains(&path)
        && expires.zip(signature).is_some_and(|(expires, signature)| {
            app.urls.is_vouched(&request_line(path), expires, signature) == Verdict::Good
        });
    Some(if good {
        let (name, ordered) = ("another node".to_owned(), Ordered::default());
        Known::Caller(Caller { name, role: Role::Operator, has_token: false, from, ordered })
    } else {
        Known::Stranger
    })
}

/// Asks another node, or says why that did not work.
pub(super) async fn get<T: DeserializeOwned>(
    app: &App,
    node: &NodeLine,
    what: &str,
    params: &impl Serialize,
) -> Result<T, String> {
    let base = node.url.as_deref().ok_or("it says nowhere where it answers")?;
    let mut url = Url::parse(base).map_err(|error| format!("its address is no URL: {error}"))?;
    url.path_segments_mut()
        .map_err(|()| "its address can have no path".to_owned())?
        .pop_if_empty()
        .extend(["api", "v1", what]);
    let shown = redacted(&url);
    let services = app.life().await.map_err(|refusal| refusal.detail)?.services();
    let client = services.fetcher.inside().ok_or("this node has no client")?;
    let (expires, signature) = app.urls.vouch(&request_line(&format!("/api/v1/{what}")), GOOD);
    let request = client
        .get(url)
        .query(params)
        .header(AUTHORIZATION, format!("{SCHEME} {expires} {signature}"))
        .header(NODE, "1")
        .timeout(SOON);
    let broken = |error: reqwest::Error| format!("{shown}: {}", innermost(&error.without_url()));
    let mut answer = request.send().await.map_err(broken)?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(broken)? {
        if body.len() + piece.len() > LARGEST {
            return Err(format!("{shown}: the answer is too long"));
        }
        body.extend_from_slice(&piece);
    }
    if status.is_success() {
        return serde_json::from_slice(&body).map_err(|error| format!("{shown}: {error}"));
    }
    Err(refused(&shown, status, &body))
}

fn refused(shown: &str, status: StatusCode, body: &[u8]) -> String {
    if status == StatusCode::UNAUTHORIZED {
        return format!("{shown}: it does not know this node; give both the same `api.url_key`");
    }
    let detail =
        serde_json::from_slice::<Problem>(body).map_or_else(|_| String::new(), |problem| problem.detail);
    format!("{shown}: {status} {detail}").trim_end().to_owned()
}

/// What the system says: refused, no route, no such host.
fn innermost(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
