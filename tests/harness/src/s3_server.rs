//! A real S3-compatible server on loopback, with one bucket: `s3s` speaks the protocol and checks every signature,
//! `s3s-fs` keeps the objects as files.
//!
//! It runs on a thread and a runtime of its own and ends with the value, so it never outlives its test. Its faults
//! have witnesses: a test can stop the client at its Nth request, before the server has seen it or after the server
//! has done it, and so kill it at every point of its way.
//!
//! `s3s-fs` looks whether a key exists and writes it afterwards: two conditional puts at once could both succeed,
//! which no real S3 allows. So puts with a condition are let through one at a time here.

use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use hyper::body::Incoming;
use hyper::header::IF_NONE_MATCH;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, watch};

use crate::clock::PATIENCE;

const BUCKET: &str = "objects";
const ACCESS_KEY: &str = "ingest-access";
const SECRET_KEY: &str = "ingest-secret-of-the-tests";

/// Where on its way a request meets its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the server has seen it.
    Arrival,
    /// After the server has done it, before the client knows.
    Answer,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It, and every one that comes later, waits until the server is healed or the client is gone.
    Hold,
    /// Its connection is closed; those that come later are served.
    Lose,
}

#[derive(Debug, Clone, Copy, Default)]
struct Plan {
    /// The request it is for, counted from the first of all, and its kind.
    fault: Option<(u64, Moment, Fault)>,
    met: bool,
}

struct Shared {
    seen: AtomicU64,
    plan: watch::Sender<Plan>,
    conditional: Mutex<()>,
}

/// A running server; it ends, and closes its connections, when dropped.
pub struct S3Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    root: TempDir,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for S3Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl S3Server {
    /// Starts one whose bucket is empty.
    pub fn start() -> Self {
        let root =
            tempfile::Builder::new().prefix("s3-").tempdir().expect("make a directory for an S3 server");
        fs::create_dir(root.path().join(BUCKET)).expect("make a bucket");
        let mut builder =
            S3ServiceBuilder::new(FileSystem::new(root.path()).expect("open the server's files"));
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = builder.build();
        let plan = watch::Sender::new(Plan::default());
        let shared = Arc::new(Shared { seen: AtomicU64::new(0), plan, conditional: Mutex::new(()) });
        let (stop, stopped) = watch::channel(false);
        let (ready, started) = mpsc::channel();
        let in_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("s3".to_owned()).spawn(move || {
            let runtime =
                Builder::new_current_thread().enable_all().build().expect("make the server's runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind the S3 server");
                // The receiver waits below; it cannot be gone.
                let _ = ready.send(listener.local_addr().expect("know the S3 server's address"));
                accept(listener, service, in_thread, stopped).await;
            });
        });
        let thread = thread.expect("start the S3 server's thread");
        let address = started.recv().expect("start the S3 server");
        Self { address, shared, root, stop, thread: Some(thread) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bucket that is there from the start.
    pub fn bucket(&self) -> &'static str {
        BUCKET
    }

    pub fn access_key(&self) -> &'static str {
        ACCESS_KEY
    }

    pub fn secret_key(&self) -> &'static str {
        SECRET_KEY
    }

    /// The file that an object's content is in: its key below the bucket.
    pub fn file(&self, key: &str) -> PathBuf {
        self.root.path().join(BUCKET).join(key)
    }

    /// Parts of uploads that were neither completed nor aborted.
    pub fn parts_left(&self) -> usize {
        let entries = fs::read_dir(self.root.path()).expect("list the server's files");
        let names = entries.map(|entry| entry.expect("list the server's files").file_name());
        names.filter(|name| name.to_string_lossy().contains(".part-")).count()
    }

    /// Requests that have come so far.
    pub fn requests(&self) -> u64 {
        self.shared.seen.load(Ordering::SeqCst)
    }

    /// Stops the Nth request from now, counted from 1, and all after it, until [`Self::heal`]: whoever sent it is
    /// dropped by the test meanwhile, as a kill would.
    pub fn hold(&self, number: u64, moment: Moment) {
        self.arm(number, moment, Fault::Hold);
    }

    /// Closes the connection of the Nth request from now, counted from 1.
    pub fn lose(&self, number: u64, moment: Moment) {
        self.arm(number, moment, Fault::Lose);
    }

    fn arm(&self, number: u64, moment: Moment, fault: Fault) {
        let fault = Some((self.requests() + number, moment, fault));
        self.shared.plan.send_replace(Plan { fault, met: false });
    }

    /// Whether the fault has happened.
    pub fn has_met(&self) -> bool {
        self.shared.plan.borrow().met
    }

    /// Waits for the fault, however long it takes: to be raced against what should meet it.
    pub async fn met(&self) {
        let mut plan = self.shared.plan.subscribe();
        // The sender is here.
        let _ = plan.wait_for(|plan| plan.met).await;
    }

    /// Serves again. What was held goes on, if its client is still there.
    pub fn heal(&self) {
        self.shared.plan.send_replace(Plan::default());
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // A thread that panicked has said so already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn accept(
    listener: TcpListener,
    service: S3Service,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => {
                let Ok((socket, _)) = accepted else { continue };
                tokio::spawn(serve(socket, service.clone(), Arc::clone(&shared)));
            }
        }
    }
}

async fn serve(socket: TcpStream, service: S3Service, shared: Arc<Shared>) {
    let each = service_fn(move |request| answer(request, service.clone(), Arc::clone(&shared)));
    // A client that went away, or a connection that a fault closed.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), each).await;
}

async fn answer(
    request: hyper::Request<Incoming>,
    service: S3Service,
    shared: Arc<Shared>,
) -> io::Result<s3s::HttpResponse> {
    let number = shared.seen.fetch_add(1, Ordering::SeqCst) + 1;
    shared.pass(number, Moment::Arrival).await?;
    let conditional = request.headers().contains_key(IF_NONE_MATCH);
    let turn = if conditional { Some(shared.conditional.lock().await) } else { None };
    let answer = tokio::time::timeout(PATIENCE, service.call(request.map(s3s::Body::from))).await;
    let answer = answer.map_err(io::Error::other)?.map_err(|error| io::Error::other(format!("{error:?}")))?;
    drop(turn);
    shared.pass(number, Moment::Answer).await?;
    Ok(answer)
}

impl Shared {
    /// Lets a request on, holds it, or ends its connection.
    async fn pass(&self, number: u64, moment: Moment) -> io::Result<()> {
        let hit = |plan: &Plan| {
            plan.fault.filter(|(at, when, fault)| {
                (*at == number && *when == moment) || (*fault == Fault::Hold && number > *at)
            })
        };
        let Some((at, _, fault)) = hit(&self.plan.borrow()) else { return Ok(()) };
        if at == number {
            self.plan.send_modify(|plan| plan.met = true);
        }
        if fault == Fault::Lose {
            return Err(io::Error::other("lost, as asked"));
        }
        // Held: until the plan is another. The sender is here.
        let _ = self.plan.subscribe().wait_for(|plan| hit(plan).is_none()).await;
        Ok(())
    }
}
