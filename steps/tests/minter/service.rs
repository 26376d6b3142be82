//! A strict EZID: it refuses wrong credentials, content types, escapes and orders, and counts what it gets.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Response, StatusCode, header};
use parking_lot::Mutex;
use url::Url;

use ingest_steps::ark::check_character;
use ingest_steps::minter::ezid::EzidConfig;

pub(crate) const USER: &str = "apitest";
pub(crate) const PASSWORD: &str = "pässword:1";
/// The base64 of both.
const CREDENTIALS: &str = "Basic YXBpdGVzdDpww6Rzc3dvcmQ6MQ==";
pub(crate) const SHOULDER: &str = "ark:/13030/c7";

/// An answer that is given instead of the right one.
pub(crate) struct Planned {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<&'static str>,
    pub(crate) body: String,
    /// Whether the request is done all the same.
    pub(crate) done: bool,
}

#[derive(Default)]
pub(crate) struct State {
    /// The metadata of every name.
    pub(crate) names: BTreeMap<String, BTreeMap<String, String>>,
    /// Method and path of every request.
    pub(crate) requests: Vec<String>,
    pub(crate) planned: VecDeque<Planned>,
}

pub(crate) struct Service {
    pub(crate) url: Url,
    pub(crate) state: Arc<Mutex<State>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::on(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn on(listener: tokio::net::TcpListener) -> Self {
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let router = axum::Router::new().fallback(move |request: Request| answer(shared.clone(), request));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, state, serving }
    }

    pub(crate) fn config(&self) -> EzidConfig {
        EzidConfig {
            pause: std::time::Duration::from_millis(1),
            ..EzidConfig::new(self.url.clone(), SHOULDER, USER, PASSWORD)
        }
    }

    pub(crate) fn plan(&self, planned: Planned) {
        self.state.lock().planned.push_back(planned);
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(state: Arc<Mutex<State>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let mut state = state.lock();
    state.requests.push(format!("{} {}", head.method, head.uri));
    let planned = state.planned.pop_front();
    let right = match &planned {
        Some(planned) if !planned.done => Ok((201, String::new())),
        _ => judged(&mut state, &head, &body),
    };
    let (status, text, retry_after) = match (planned, right) {
        (Some(planned), _) => (planned.status, planned.body, planned.retry_after),
        (None, Ok((status, text))) => (status, format!("success: {text}"), None),
        (None, Err((status, why))) => (status, format!("error: {why}"), None),
    };
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(Body::from(text)).unwrap()
}

type Judged = Result<(u16, String), (u16, String)>;

fn judged(state: &mut State, head: &axum::http::request::Parts, body: &[u8]) -> Judged {
    let has =
        |name, value: &str| head.headers.get(name).is_some_and(|found| found.as_bytes() == value.as_bytes());
    if !has(header::AUTHORIZATION, CREDENTIALS) {
        return Err((401, "unauthorized - authentication failure".into()));
    }
    if !has(header::CONTENT_TYPE, "text/plain; charset=UTF-8") {
        return Err((400, "bad request - unsupported content type".into()));
    }
    let bad = |why: &str| (400, format!("bad request - {why}"));
    let metadata = elements(body).ok_or_else(|| bad("the metadata cannot be read"))?;
    let status = metadata.get("_status").map(String::as_str);
    let path = head.uri.path();
    match head.method.as_str() {
        "POST" if path == format!("/shoulder/{SHOULDER}") => {
            if status != Some("reserved") {
                return Err(bad("a new name is reserved before it is public"));
            }
            let name = format!("13030/c7{:04}", state.names.len());
            let ark = format!("ark:/{name}{}", check_character(&name));
            state.names.insert(ark.clone(), metadata);
            Ok((201, ark))
        }
        "POST" => Err((400, "bad request - no such shoulder".into())),
        "PUT" => {
            if head.uri.query() != Some("update_if_exists=yes") {
                return Err(bad("identifier already exists"));
            }
            let ark = path.strip_prefix("/id/").unwrap_or_default();
            match state.names.get_mut(ark) {
                None => Err(bad("published before it was reserved")),
                Some(_) if status != Some("public") => Err(bad("nothing to publish")),
                Some(known) => {
                    known.extend(metadata);
                    Ok((200, ark.to_owned()))
                }
            }
        }
        other => Err((405, format!("method not allowed - {other}"))),
    }
}

/// The elements of a body, by rules of its own: every line has a name and a value, every escape is one.
fn elements(body: &[u8]) -> Option<BTreeMap<String, String>> {
    let text = std::str::from_utf8(body).ok()?;
    if text.contains('\r') {
        return None;
    }
    text.lines()
        .map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((unescaped(name)?, unescaped(value)?))
        })
        .collect()
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let code = u8::from_str_radix(part.get(..2)?, 16).ok()?;
        plain.push(char::from(code));
        plain.push_str(&part[2..]);
    }
    Some(plain)
}
