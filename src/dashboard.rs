//! The dashboard: its files, which are part of the program, and how they are served.
//!
//! The page itself is at `/`. Everything that it loads lies below `/dashboard/DIGEST/`, where the digest is that of all
//! files together: a browser may keep them for ever, and a new version of the program has new addresses. Nothing
//! is fetched from anywhere else, and there is no step between these files and what a browser reads.
//!
//! Whoever may look at it is decided by the API that it asks; the files are for everybody, and hold no secret.
//!
//! **When things break.** An address of another version is 404; a page that was open while the program was replaced has
//! all its files already.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

/// What stands in the page for the digest.
const PLACE: &str = "/@/";

/// Stricter than what every answer carries: scripts and styles come from files alone, and nothing is ever sent by a form.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(Debug)]
struct File {
    path: &'static str,
    text: &'static str,
}

macro_rules! file {
    ($path:literal) => {
        File { path: $path, text: include_str!(concat!("dashboard/", $path)) }
    };
}

const INDEX: File = file!("index.html");

const FILES: &[File] = &[
    file!("css/base.css"),
    file!("css/forms.css"),
    file!("css/parts.css"),
    file!("css/pictures.css"),
    file!("css/shell.css"),
    file!("css/tables.css"),
    file!("css/tree.css"),
    file!("icon.svg"),
    file!("js/actions.js"),
    file!("js/api.js"),
    file!("js/app.js"),
    file!("js/banner.js"),
    file!("js/bars.js"),
    file!("js/bulk.js"),
    file!("js/dialogs.js"),
    file!("js/dom.js"),
    file!("js/filters.js"),
    file!("js/flow.js"),
    file!("js/format.js"),
    file!("js/live.js"),
    file!("js/login.js"),
    file!("js/main.js"),
    file!("js/node_actions.js"),
    file!("js/notices.js"),
    file!("js/pages.js"),
    file!("js/pages/access.js"),
    file!("js/pages/audit.js"),
    file!("js/pages/batch.js"),
    file!("js/pages/batches.js"),
    file!("js/pages/failed.js"),
    file!("js/pages/feeds.js"),
    file!("js/pages/holds.js"),
    file!("js/pages/job.js"),
    file!("js/pages/jobs.js"),
    file!("js/pages/nodes.js"),
    file!("js/pages/pipeline.js"),
    file!("js/pages/requests.js"),
    file!("js/pages/restarts.js"),
    file!("js/pages/settings.js"),
    file!("js/pages/submit.js"),
    file!("js/pages/tree.js"),
    file!("js/refresh.js"),
    file!("js/router.js"),
    file!("js/shell.js"),
    file!("js/shortcuts.js"),
    file!("js/states.js"),
    file!("js/table.js"),
    file!("js/theme.js"),
];

/// The page, with the addresses of its files.
struct Page {
    text: String,
    digest: String,
    tag: HeaderValue,
}

static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for file in std::iter::once(&INDEX).chain(FILES) {
        hash.update(file.path);
        hash.update([0]);
        hash.update(file.text);
        hash.update([0]);
    }
    let mut digest = String::new();
    for byte in hash.finalize().iter().take(8) {
        // A string takes whatever it is given.
        let _ = write!(digest, "{byte:02x}");
    }
    let text = INDEX.text.replace(PLACE, &format!("/{digest}/"));
    let tag = HeaderValue::try_from(format!("\"{digest}\"")).unwrap_or(HeaderValue::from_static("\"\""));
    Page { text, digest, tag }
});

/// What is served beside the API.
pub(crate) fn router() -> Router {
    Router::new().route("/", get(index)).route("/dashboard/{digest}/{*path}", get(file))
}

async fn index(headers: HeaderMap) -> Response {
    let page = &*PAGE;
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|tag| *tag == page.tag);
    // It has to be asked for every time: it says where everything else is.
    let said = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, page.tag.clone()),
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
    ];
    if known {
        (StatusCode::NOT_MODIFIED, said).into_response()
    } else {
        (said, page.text.as_str()).into_response()
    }
}

async fn file(Path((digest, path)): Path<(String, String)>) -> Response {
    let found = FILES.iter().find(|file| file.path == path).filter(|_| digest == PAGE.digest);
    let Some(file) = found else { return StatusCode::NOT_FOUND.into_response() };
    let said: [(HeaderName, &'static str); 3] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::CONTENT_TYPE, kind(file.path)),
    ];
    (said, file.text).into_response()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
