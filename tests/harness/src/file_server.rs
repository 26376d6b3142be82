//! A web server with files, for what is fetched. It can hold back its answers, and knows who waits for them.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use tokio::sync::watch;
use url::Url;

use crate::clock::PATIENCE;

/// Files over HTTP, with their lengths, entity tags and ranges, and how often each was asked for.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    files: Mutex<Files>,
    traffic: watch::Sender<Traffic>,
}

/// Requests for contents (`GET`), and whether they are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// So many have come.
    pub asked: u64,
    /// So many of them are under way: neither answered nor given up.
    pub open: u64,
    /// The most that were under way at one time.
    pub most: u64,
    held: bool,
    /// While answers are held back: the first so many are not.
    passed: u64,
}

#[derive(Debug, Default)]
struct Files {
    content: HashMap<String, Arc<Vec<u8>>>,
    forbidden: HashSet<String>,
    asked: HashMap<String, Vec<String>>,
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FileServer {
    pub async fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a server on loopback");
        let address = listener.local_addr().expect("a server on loopback");
        let app = axum::Router::new().fallback(serve).with_state(shared.clone());
        let task =
            tokio::spawn(async move { axum::serve(listener, app).await.expect("a server on loopback") });
        Self { address, shared, task }
    }

    /// Puts a file at a path (`/a/b`), and answers its URL.
    pub fn put(&self, path: &str, content: impl Into<Vec<u8>>) -> Url {
        let mut files = self.shared.files.lock();
        files.forbidden.remove(path);
        files.content.insert(path.to_owned(), Arc::new(content.into()));
        drop(files);
        self.url(path)
    }

    pub fn remove(&self, path: &str) {
        self.shared.files.lock().content.remove(path);
    }

    /// Answers 403 at a path until a file is put there.
    pub fn forbid(&self, path: &str) -> Url {
        self.shared.files.lock().forbidden.insert(path.to_owned());
        self.url(path)
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).expect("a server on loopback")
    }

    /// Holds back the answers to all requests for contents that come from now on.
    pub fn hold(&self) {
        self.shared.traffic.send_modify(|traffic| (traffic.held, traffic.passed) = (true, traffic.asked));
    }

    /// Answers the oldest so many of those that are held back, or that will be.
    pub fn pass(&self, count: u64) {
        self.shared.traffic.send_modify(|traffic| traffic.passed += count);
    }

    /// Answers everybody again.
    pub fn release(&self) {
        self.shared.traffic.send_modify(|traffic| traffic.held = false);
    }

    /// Requests for contents, as of now.
    pub fn traffic(&self) -> Traffic {
        *self.shared.traffic.borrow()
    }

    /// From now on `most` is counted anew.
    pub fn forget_most(&self) {
        self.shared.traffic.send_modify(|traffic| traffic.most = traffic.open);
    }

    /// Waits until the traffic is as wanted, and answers it.
    pub async fn until(&self, what: &str, wanted: impl FnMut(&Traffic) -> bool) -> Traffic {
        let mut traffic = self.shared.traffic.subscribe();
        let found = tokio::time::timeout(2 * PATIENCE, traffic.wait_for(wanted)).await;
        match found {
            Ok(Ok(traffic)) => *traffic,
            _ => panic!("the file server has waited in vain for {what}: {:?}", self.traffic()),
        }
    }

    /// The methods that a path was asked with, in their order.
    pub fn asked(&self, path: &str) -> Vec<String> {
        self.shared.files.lock().asked.get(path).cloned().unwrap_or_default()
    }
}

/// A request for a content, until it is answered or given up.
struct Open(Arc<Shared>);

impl Open {
    /// Waits until it may be answered.
    async fn turn(shared: Arc<Shared>) -> Self {
        let mut number = 0;
        shared.traffic.send_modify(|traffic| {
            number = traffic.asked;
            traffic.asked += 1;
            traffic.open += 1;
            traffic.most = traffic.most.max(traffic.open);
        });
        let open = Self(shared);
        let mut traffic = open.0.traffic.subscribe();
        // The sender is in `open`.
        let _ = traffic.wait_for(|traffic| !traffic.held || number < traffic.passed).await;
        open
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.traffic.send_modify(|traffic| traffic.open -= 1);
    }
}

async fn serve(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let content = {
        let mut files = shared.files.lock();
        files.asked.entry(uri.path().to_owned()).or_default().push(method.to_string());
        if files.forbidden.contains(uri.path()) {
            return StatusCode::FORBIDDEN.into_response();
        }
        files.content.get(uri.path()).cloned()
    };
    let Some(content) = content else { return StatusCode::NOT_FOUND.into_response() };
    let _open = if method == Method::GET { Some(Open::turn(shared).await) } else { None };
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
