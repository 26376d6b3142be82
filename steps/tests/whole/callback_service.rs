//! A depositor's service that is called when a job is done: it wants its user and a key, and counts.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::Value;

/// `user:secret`.
const AUTH: &str = "Basic dXNlcjpzZWNyZXQ=";

/// A call that was as it should be.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) key: String,
    pub(crate) body: Value,
}

type Calls = Arc<Mutex<Vec<Call>>>;

pub(crate) struct CallbackService {
    pub(crate) url: String,
    calls: Calls,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for CallbackService {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl CallbackService {
    pub(crate) async fn start() -> Self {
        let calls = Calls::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://user:secret@{}/done", listener.local_addr().unwrap());
        let app = axum::Router::new().fallback(answer).with_state(calls.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, calls, serving }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }
}

async fn answer(
    State(calls): State<Calls>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if text("authorization") != AUTH {
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(body) = serde_json::from_slice(&body) else { return StatusCode::BAD_REQUEST };
    if method != Method::POST || text("idempotency-key").is_empty() {
        return StatusCode::BAD_REQUEST;
    }
    let (path, key) = (uri.path().to_owned(), text("idempotency-key").to_owned());
    calls.lock().push(Call { path, key, body });
    StatusCode::NO_CONTENT
}
