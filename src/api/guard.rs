//! What every request passes: how often, under which name, from which site, by whom; and what every answer carries.
//!
//! Whatever changes something is done to its end and written down, also if whoever asked has gone meanwhile.
//!
//! **When things break.** A handler that panics is a defect with a number in the log, and the node goes on. Whatever
//! the framework refuses by itself becomes a problem like all others.

use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;
use ingest_queue::date::Clock;
use ingest_store::recipes::ltime::Ltime;
use tokio::time::Instant;
use url::Url;

use super::app::App;
use super::caller::{self, Known, Peer};
use super::ltime;
use super::peers;
use super::problem::{Answer, Kind, Refusal};
use super::wire::AuditEntry;

/// Says that no form of another site has sent it: no browser lets one set this.
const OWN: &str = "x-ingestd";

/// Whatever is not served with these could be made to run or be framed elsewhere.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
];

/// Requests whose answer may take as long as it takes.
fn is_long(method: &Method, path: &str) -> bool {
    match path.strip_prefix("/api/v1/") {
        Some("batches") => *method == Method::POST,
        Some("events" | "jobs/bulk") => true,
        Some(path)
            if path.starts_with("batches/") && (path.ends_with("/export") || path.ends_with("/report")) =>
        {
            true
        }
        Some(path) => {
            *method == Method::DELETE && (path.starts_with("batches/") || path.starts_with("holds/"))
        }
        None => false,
    }
}

fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let from = request.extensions().get::<Peer>().map_or(Ipv4Addr::LOCALHOST.into(), |peer| peer.0.ip());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = Instant::now();
    let admitted = admit(&app, &mut request, from);
    let response = match admitted.and_then(|()| ltime::wanted(&mut request)) {
        Ok(wanted) if is_written_down(&method, &path) => {
            to_its_end(&app, request, next, (&method, &path), from, wanted).await
        }
        Ok(wanted) => as_problem(answer(&app, request, next, &method, &path, wanted).await),
        Err(refusal) => {
            let response = as_problem(refusal.into_response());
            write_down(&app, request.extensions().get(), from, (&method, &path), response.status());
            response
        }
    };
    let mut response = response;
    if changes(&method) && path.starts_with("/api/") && response.status().is_success() {
        ltime::sign(&app, &mut response).await;
    }
    app.meters.answered(&method, response.status(), began.elapsed());
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if path.starts_with("/api/") || path.starts_with("/files/") {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    if app.settings.tls.is_some() {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(year);
    }
    response
}

async fn answer(
    app: &App,
    request: Request,
    next: Next,
    method: &Method,
    path: &str,
    wanted: Option<Ltime>,
) -> Response {
    if let Some(moment) = wanted
        && let Err(refusal) = ltime::reach(app, path, moment).await
    {
        return refusal.into_response();
    }
    let running = AssertUnwindSafe(next.run(request)).catch_unwind();
    let answered = if is_long(method, path) {
        running.await
    } else {
        // Within it the body has half of the time.
        match tokio::time::timeout(app.settings.timeout.saturating_mul(2), running).await {
            Ok(answered) => answered,
            Err(_) => return Refusal::new(Kind::TREE_AWAY, "there was no answer in time").into_response(),
        }
    };
    answered.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Refusal::defect(text).into_response()
    })
}

fn admit(app: &App, request: &mut Request, from: IpAddr) -> Answer<()> {
    let too_many = |wait: std::time::Duration| {
        Refusal::new(Kind::TOO_MANY, "from this address come too many requests").later(wait.as_secs() + 1)
    };
    app.rates.take(from).map_err(too_many)?;
    host(app, request)?;
    let mut known = peers::caller(app, request, from)
        .unwrap_or_else(|| caller::find(&app.settings, request.headers(), from));
    if !matches!(known, Known::Nobody) && !app.settings.tokens.is_empty() {
        // Whoever has guessed too often is not told whether the next guess is right.
        app.guesses.look(from).map_err(too_many)?;
    }
    if matches!(known, Known::Stranger) {
        let _ = app.guesses.take(from);
        known = Known::Stranger;
    }
    request.extensions_mut().insert(known);
    site(app, request)
}

/// On loopback: a name that somebody else's server was given is not ours.
fn host(app: &App, request: &Request) -> Answer<()> {
    if !app.address.ip().is_loopback() {
        return Ok(());
    }
    let given = host_of(request).unwrap_or_default();
    let name = name_of(&given).trim_end_matches('.').to_ascii_lowercase();
    let loopback = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let public = app.urls.public().host_str().is_some_and(|host| host.eq_ignore_ascii_case(&name));
    let listed = app.settings.hosts.iter().any(|host| host.eq_ignore_ascii_case(&name));
    if loopback || public || listed || name == "localhost" {
        return Ok(());
    }
    let shown: String = name.chars().take(100).collect();
    Err(Refusal::new(Kind::WRONG_HOST, format!("`{shown}` is no name of this node; add it to api.hosts")))
}

fn host_of(request: &Request) -> Option<String> {
    let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    header.map(str::to_owned).or_else(|| request.uri().authority().map(ToString::to_string))
}

/// Without the port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Another site may not change anything in the name of whoever looks at it.
fn site(app: &App, request: &Request) -> Answer<()> {
    if !changes(request.method()) {
        return Ok(());
    }
    let headers = request.headers();
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let refused = |why: &str| Err(Refusal::new(Kind::CROSS_ORIGIN, why));
    if let Some(origin) = text("origin")
        && !is_own(app, origin, host_of(request).as_deref())
    {
        return refused("its Origin is not this node's");
    }
    if let Some(site) = text("sec-fetch-site")
        && !matches!(site, "same-origin" | "none")
    {
        return refused("a page of another site has sent it");
    }
    let submission = request.method() == Method::POST && request.uri().path() == "/api/v1/batches";
    if is_json(headers) || headers.contains_key(OWN) || submission {
        return Ok(());
    }
    Err(Refusal::new(
        Kind::UNSUPPORTED,
        "send `Content-Type: application/json`, or the header `X-Ingestd: 1`",
    ))
}

fn is_own(app: &App, origin: &str, host: Option<&str>) -> bool {
    let Ok(origin) = Url::parse(origin) else { return false };
    if origin.origin() == app.urls.public().origin() {
        return true;
    }
    let scheme = if app.settings.tls.is_some() { "https" } else { "http" };
    let own = host.and_then(|host| Url::parse(&format!("{scheme}://{host}/")).ok());
    own.is_some_and(|own| own.origin() == origin.origin())
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// What is no JSON yet becomes a problem, with the headers that it has.
fn as_problem(response: Response) -> Response {
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.contains("json")) {
        return response;
    }
    let (kind, detail) = match status {
        StatusCode::NOT_FOUND => (Kind::NOT_FOUND, "there is nothing at this path"),
        StatusCode::METHOD_NOT_ALLOWED => (Kind::METHOD_NOT_ALLOWED, "see `Allow`"),
        StatusCode::PAYLOAD_TOO_LARGE => (Kind::TOO_LARGE, ""),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => (Kind::UNSUPPORTED, ""),
        StatusCode::UNPROCESSABLE_ENTITY => (Kind::UNPROCESSABLE, ""),
        status if status.is_client_error() => (Kind::INVALID, "the request cannot be read"),
        _ => (Kind::INTERNAL, ""),
    };
    let mut problem = Refusal::new(kind, detail).into_response();
    if let Some(allow) = response.headers().get(header::ALLOW) {
        problem.headers_mut().insert(header::ALLOW, allow.clone());
    }
    problem
}

/// Whatever changes something. Submissions are no actions of admins, and in the tree; one whose client has gone is none.
fn is_written_down(method: &Method, path: &str) -> bool {
    let submits = *method == Method::POST && matches!(path, "/api/v1/batches" | "/api/v1/access");
    changes(method) && !submits && path.starts_with("/api/")
}

/// Answers and writes down what was done, in a task of its own: whoever leaves does not take that along.
async fn to_its_end(
    app: &App,
    request: Request,
    next: Next,
    (method, path): (&Method, &str),
    from: IpAddr,
    wanted: Option<Ltime>,
) -> Response {
    let (app, method, path) = (app.clone(), method.clone(), path.to_owned());
    let known = request.extensions().get::<Known>().cloned();
    let changing = app.changing.clone().read_owned().await;
    let doing = tokio::spawn(async move {
        let response = as_problem(answer(&app, request, next, &method, &path, wanted).await);
        write_down(&app, known.as_ref(), from, (&method, &path), response.status());
        drop(changing);
        response
    });
    doing.await.unwrap_or_else(|lost| Refusal::defect(lost).into_response())
}

/// What somebody has changed, or tried to.
fn write_down(
    app: &App,
    known: Option<&Known>,
    from: IpAddr,
    (method, path): (&Method, &str),
    status: StatusCode,
) {
    let Some(Known::Caller(caller)) = known else { return };
    if !is_written_down(method, path) {
        return;
    }
    app.audit.write(&AuditEntry {
        at: Clock::system().now(),
        who: caller.name.clone(),
        role: caller.role,
        from: from.to_string(),
        what: format!("{method} {path}"),
        details: caller.ordered.told(),
        status: status.as_u16(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_host_has_no_port() {
        for (host, name) in [
            ("localhost:8086", "localhost"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("a.example.org", "a.example.org"),
            ("", ""),
        ] {
            assert_eq!(name_of(host), name);
        }
    }

    #[test]
    fn only_long_requests_may_take_long() {
        assert!(is_long(&Method::POST, "/api/v1/batches") && !is_long(&Method::GET, "/api/v1/batches"));
        assert!(is_long(&Method::DELETE, "/api/v1/batches/bid0000000001"));
        assert!(!is_long(&Method::POST, "/api/v1/jobs/jid0000000001/hold"));
    }
}
