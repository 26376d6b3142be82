//! A web server with files, for what is fetched.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use url::Url;

/// Files over HTTP, with their lengths, entity tags and ranges, and how often each was asked for.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
    files: Arc<Mutex<Files>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Files {
    content: HashMap<String, Arc<Vec<u8>>>,
    asked: HashMap<String, Vec<String>>,
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FileServer {
    pub async fn start() -> Self {
        let files = Arc::<Mutex<Files>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a server on loopback");
        let address = listener.local_addr().expect("a server on loopback");
        let app = axum::Router::new().fallback(serve).with_state(files.clone());
        let task =
            tokio::spawn(async move { axum::serve(listener, app).await.expect("a server on loopback") });
        Self { address, files, task }
    }

    /// Puts a file at a path (`/a/b`), and answers its URL.
    pub fn put(&self, path: &str, content: impl Into<Vec<u8>>) -> Url {
        self.files.lock().content.insert(path.to_owned(), Arc::new(content.into()));
        self.url(path)
    }

    pub fn remove(&self, path: &str) {
        self.files.lock().content.remove(path);
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).expect("a server on loopback")
    }

    /// The methods that a path was asked with, in their order.
    pub fn asked(&self, path: &str) -> Vec<String> {
        self.files.lock().asked.get(path).cloned().unwrap_or_default()
    }
}

async fn serve(
    State(files): State<Arc<Mutex<Files>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let content = {
        let mut files = files.lock();
        files.asked.entry(uri.path().to_owned()).or_default().push(method.to_string());
        files.content.get(uri.path()).cloned()
    };
    let Some(content) = content else { return StatusCode::NOT_FOUND.into_response() };
    let tag = format!("\"{:016x}\"", hash(&content));
    let range = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let from: Option<usize> =
        range.and_then(|range| range.strip_prefix("bytes=")?.split('-').next()?.parse().ok());
    let same = headers.get(header::IF_RANGE).is_none_or(|asked| asked.as_bytes() == tag.as_bytes());
    match from.filter(|from| same && *from < content.len()) {
        None => ([(header::ETAG, tag)], content.as_ref().clone()).into_response(),
        Some(from) => {
            let span = format!("bytes {from}-{}/{}", content.len() - 1, content.len());
            let headers = [(header::ETAG, tag), (header::CONTENT_RANGE, span)];
            (StatusCode::PARTIAL_CONTENT, headers, content[from..].to_vec()).into_response()
        }
    }
}

fn hash(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
