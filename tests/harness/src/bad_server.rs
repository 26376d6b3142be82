//! A web server that does as it is told, and that is mostly bad.
//!
//! Each path has a script: a function of the request to a list of [`Act`]s, raw bytes among them, so that
//! nothing keeps an answer from being wrong. Every connection serves one request and is closed. The server
//! counts the requests of each path and the bytes that it sent, and remembers what was asked.
//!
//! ```no_run
//! use ingest_harness::bad_server::{Act, BadServer};
//!
//! # async fn example() {
//! let server = BadServer::start().await;
//! server.on("/cut", |_| vec![Act::send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")]);
//! # }
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use url::Url;

/// One thing that the server does on a connection.
#[derive(Debug, Clone)]
pub enum Act {
    Send(Vec<u8>),
    /// The same bytes again and again, until the client leaves.
    Endless(Vec<u8>),
    /// Byte by byte, with a pause after each.
    Drip(Vec<u8>, Duration),
    /// Nothing, until the client leaves.
    Stall,
    /// Nothing, until the test adds a permit.
    Await(Arc<Semaphore>),
    /// Cuts the connection, so that the client sees a reset.
    Reset,
}

impl Act {
    pub fn send(bytes: impl AsRef<[u8]>) -> Self {
        Act::Send(bytes.as_ref().to_vec())
    }
}

/// What it does on one connection, in this order.
pub type Script = Vec<Act>;

/// What a client asked. Names of headers are in lower case.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub headers: HashMap<String, String>,
    /// The how-manieth of its path, from 1.
    pub number: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Where the range begins that is asked for.
    pub fn range(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.split('-').next()?.parse().ok()
    }
}

type Play = Arc<dyn Fn(&Request) -> Script + Send + Sync>;

#[derive(Default)]
struct Stage {
    plays: Mutex<HashMap<String, Play>>,
    seen: Mutex<HashMap<String, Vec<Request>>>,
    sent: AtomicU64,
}

/// The server; it ends with the value.
pub struct BadServer {
    address: SocketAddr,
    stage: Arc<Stage>,
    accepting: JoinHandle<()>,
}

impl std::fmt::Debug for BadServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BadServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for BadServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl BadServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a server on loopback");
        let address = listener.local_addr().expect("a server on loopback");
        let stage = Arc::new(Stage::default());
        let shared = stage.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stage = shared.clone();
                // A client that leaves early is no failure of the server.
                tokio::spawn(async move { drop(stage.serve(stream).await) });
            }
        });
        Self { address, stage, accepting }
    }

    /// What happens when this path is asked for. Paths without a script are 404.
    pub fn on(&self, path: &str, play: impl Fn(&Request) -> Script + Send + Sync + 'static) {
        self.stage.plays.lock().insert(path.to_owned(), Arc::new(play));
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).expect("a path")
    }

    /// The same by a name; how it resolves is the client's affair.
    pub fn url_by_name(&self, host: &str, path: &str) -> Url {
        Url::parse(&format!("http://{host}:{}{path}", self.address.port())).expect("a host and a path")
    }

    /// Every request of a path, in order.
    pub fn seen(&self, path: &str) -> Vec<Request> {
        self.stage.seen.lock().get(path).cloned().unwrap_or_default()
    }

    /// How many requests there were of a path.
    pub fn requests(&self, path: &str) -> usize {
        self.stage.seen.lock().get(path).map_or(0, Vec::len)
    }

    /// How many requests there were in all.
    pub fn all_requests(&self) -> usize {
        self.stage.seen.lock().values().map(Vec::len).sum()
    }

    /// How many bytes went out, headers too.
    pub fn sent(&self) -> u64 {
        self.stage.sent.load(Ordering::SeqCst)
    }
}

impl Stage {
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let Some((path, request)) = self.read_request(&mut stream).await? else { return Ok(()) };
        let play = self.plays.lock().get(&path).cloned();
        let script = play.map_or_else(|| vec![Act::Send(answer(404, &[], b"none"))], |play| play(&request));
        for act in script {
            match act {
                Act::Send(bytes) => self.send(&mut stream, &bytes).await?,
                Act::Endless(bytes) => loop {
                    self.send(&mut stream, &bytes).await?;
                },
                Act::Drip(bytes, pause) => {
                    for byte in bytes {
                        self.send(&mut stream, &[byte]).await?;
                        crate::clock::let_pass(pause).await;
                    }
                }
                Act::Stall => return until_left(&mut stream).await,
                Act::Await(permits) => permits.acquire().await.expect("nobody closes it").forget(),
                Act::Reset => {
                    stream.set_zero_linger()?;
                    return Ok(());
                }
            }
        }
        stream.shutdown().await?;
        until_left(&mut stream).await
    }

    async fn read_request(&self, stream: &mut TcpStream) -> std::io::Result<Option<(String, Request)>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) if head.len() < 64 << 10 => head.push(byte),
                _ => return Ok(None),
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.lines();
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut seen = self.seen.lock();
        let of_path = seen.entry(path.to_owned()).or_default();
        let request = Request { method: method.to_owned(), headers, number: of_path.len() + 1 };
        of_path.push(request.clone());
        Ok(Some((path.to_owned(), request)))
    }

    async fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        stream.write_all(bytes).await?;
        self.sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        Ok(())
    }
}

async fn until_left(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 256];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// The head of an answer, with these headers and no others.
pub fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Status\r\n");
    for (name, value) in headers {
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// A whole answer with its true length.
pub fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    let mut headers = headers.to_vec();
    headers.push(("Content-Length", &length));
    [head(status, &headers), body.to_vec()].concat()
}

pub fn redirect(to: &str) -> Script {
    vec![Act::Send(answer(302, &[("Location", to)], b""))]
}

/// A body as a chunked one, in pieces of so many bytes.
pub fn chunked(body: &[u8], piece: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for piece in body.chunks(piece) {
        text.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        text.extend_from_slice(piece);
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"0\r\n\r\n");
    text
}

/// A file that is served as it should be: HEAD, and ranges while `If-Range` holds.
#[derive(Debug, Clone)]
pub struct GoodFile {
    pub body: Vec<u8>,
    pub etag: String,
}

impl GoodFile {
    pub fn new(body: impl Into<Vec<u8>>, etag: &str) -> Self {
        Self { body: body.into(), etag: format!("\"{etag}\"") }
    }

    pub fn serve(&self, request: &Request) -> Script {
        vec![Act::Send(self.answer(request))]
    }

    /// The same answer, of whose body only so many bytes come.
    pub fn cut(&self, request: &Request, after: usize) -> Script {
        let answer = self.answer(request);
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head") + 4;
        vec![Act::send(&answer[..(body + after).min(answer.len())])]
    }

    fn answer(&self, request: &Request) -> Vec<u8> {
        let etag = [("ETag", self.etag.as_str())];
        if request.method == "HEAD" {
            let length = self.body.len().to_string();
            return head(200, &[etag[0], ("Content-Length", &length)]);
        }
        let holds = request.header("if-range").is_none_or(|tag| tag == self.etag);
        match request.range().filter(|_| holds) {
            Some(from) if from < self.body.len() => {
                let range = format!("bytes {from}-{}/{}", self.body.len() - 1, self.body.len());
                answer(206, &[etag[0], ("Content-Range", &range)], &self.body[from..])
            }
            Some(_) => answer(416, &[("Content-Range", &format!("bytes */{}", self.body.len()))], b""),
            None => answer(200, &etag, &self.body),
        }
    }
}
