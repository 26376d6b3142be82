//! One real ZooKeeper server on loopback ports of its own.
//!
//! [`Server::start`] returns when the server serves. It is ended with the value, and also when the test
//! process panics or is killed (see `guard.rs`). A port that somebody else takes between choosing and
//! binding costs another attempt, not the test.
//!
//! When things break: whatever the server does not do in time is a panic that names it and quotes the
//! end of the server's log. All waiting is done on threads beside the runtime and in real time, so a
//! server may be used from several runtimes, and from tests with paused time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Signal;

use crate::clock::{PATIENCE, off_runtime, poll};
use crate::config::{ServerConfig, require_packages};
use crate::four_letter::{ANSWER_WITHIN, ask, mode};
use crate::guard::Guard;
use crate::tls::TlsFiles;
use crate::{ports, tls};

const ATTEMPTS: usize = 5;

/// A running (or stopped, or paused) server; see the module's documentation.
#[derive(Debug, Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    port: u16,
    data: PathBuf,
    log: PathBuf,
    scratch: PathBuf,
    command: Vec<String>,
    tls: Option<TlsFiles>,
    /// The current run; replaced by a restart.
    run: Mutex<Arc<Guard>>,
    /// Where the log of the current run begins.
    log_start: AtomicU64,
    paused: AtomicBool,
}

/// Why a server that was launched does not serve.
#[derive(Debug)]
pub(crate) enum NotServing {
    PortTaken,
    Failed(String),
}

/// What makes a server a member of an ensemble.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) id: usize,
    pub(crate) lines: Vec<String>,
}

impl Server {
    /// Starts a server with every default.
    pub async fn start_default() -> Server {
        Self::start(ServerConfig::default()).await
    }

    /// Starts a server and waits until it serves.
    pub async fn start(config: ServerConfig) -> Server {
        off_runtime(move || Self::start_blocking(&config)).await
    }

    pub(crate) fn start_blocking(config: &ServerConfig) -> Server {
        for _ in 0..ATTEMPTS {
            let server = Self::launch(config, ports::free(), None);
            match server.wait_until_serving() {
                Ok(()) => return server,
                Err(NotServing::PortTaken) => {}
                Err(NotServing::Failed(why)) => panic!("{why}"),
            }
        }
        panic!("no ZooKeeper server: {ATTEMPTS} times somebody else took its port first");
    }

    /// Starts the process only. A member of an ensemble serves no earlier than a majority is up.
    pub(crate) fn launch(config: &ServerConfig, port: u16, membership: Option<&Membership>) -> Server {
        require_packages();
        let scratch = tempfile::Builder::new()
            .prefix("zookeeper-")
            .tempdir()
            .expect("make a scratch directory for a server")
            .keep();
        let data = config.data_dir.clone().unwrap_or_else(|| scratch.join("data"));
        fs::create_dir_all(&data).expect("make a server's data directory");
        let data = data.canonicalize().expect("find a server's data directory");
        let issued = config.tls.then(|| tls::issue(&scratch, ports::free()));
        let mut lines = issued.as_ref().map(|issued| issued.lines.clone()).unwrap_or_default();
        if let Some(Membership { id, lines: members }) = membership {
            fs::write(data.join("myid"), id.to_string()).expect("write a member's id");
            lines.extend_from_slice(members);
        }
        let zoo_cfg = scratch.join("zoo.cfg");
        fs::write(&zoo_cfg, config.zoo_cfg(&data, port, &lines)).expect("write zoo.cfg");
        let command = config.command(&zoo_cfg);
        let log = scratch.join("log");
        let guard = Guard::start(&scratch, &log, &command);
        let inner = Inner {
            port,
            data,
            log,
            scratch,
            command,
            tls: issued.map(|issued| issued.files),
            run: Mutex::new(Arc::new(guard)),
            log_start: AtomicU64::new(0),
            paused: AtomicBool::new(false),
        };
        Server { inner: Arc::new(inner) }
    }

    /// Starts the process again on the same ports and data, after its end.
    pub(crate) fn relaunch(&self) {
        let inner = &self.inner;
        let mut run = inner.run.lock();
        assert!(run.pid().is_none(), "the server on {} is still running", self.connect_string());
        let length = fs::metadata(&inner.log).map_or(0, |log| log.len());
        inner.log_start.store(length, Ordering::Relaxed);
        inner.paused.store(false, Ordering::Relaxed);
        let next = Guard::start(&inner.scratch, &inner.log, &inner.command);
        run.hand_over();
        *run = Arc::new(next);
    }

    pub(crate) fn wait_until_serving(&self) -> Result<(), NotServing> {
        let guard = self.guard();
        let outcome = poll(PATIENCE, || {
            if self.log().contains("Address already in use") {
                return Some(Err(NotServing::PortTaken));
            }
            if guard.pid().is_none() {
                return Some(Err(self.failed("ended instead of serving")));
            }
            (mode(self.address()).is_some() && self.is_ours()).then_some(Ok(()))
        });
        outcome.unwrap_or_else(|| Err(self.failed("does not serve in time")))
    }

    /// Whether it is this server that answers: another one may have been quicker to bind the port.
    fn is_ours(&self) -> bool {
        let line = format!("dataDir={}/", self.inner.data.display());
        ask(self.address(), "conf", ANSWER_WITHIN)
            .is_ok_and(|conf| conf.lines().any(|l| l.starts_with(&line)))
    }

    fn failed(&self, what: &str) -> NotServing {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(25)..].join("\n");
        NotServing::Failed(format!("the ZooKeeper server on {} {what}; its log ends:\n{end}", self.address()))
    }

    /// What the current run has logged so far.
    fn log(&self) -> String {
        let bytes = fs::read(&self.inner.log).unwrap_or_default();
        let start = usize::try_from(self.inner.log_start.load(Ordering::Relaxed)).unwrap_or(0);
        String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned()
    }

    fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.inner.run.lock())
    }

    /// The client port.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.inner.port).into()
    }

    /// `127.0.0.1:PORT`
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// What a client needs for the secure port; panics unless the server was started with TLS.
    pub fn tls(&self) -> TlsFiles {
        self.inner.tls.clone().expect("the server was started without `ServerConfig::tls(true)`")
    }

    /// Where the server's files are: configuration, log and, unless configured elsewhere, data.
    pub fn directory(&self) -> &Path {
        &self.inner.scratch
    }

    /// Whether the process exists, paused or not.
    pub fn is_running(&self) -> bool {
        self.guard().pid().is_some()
    }

    pub fn is_paused(&self) -> bool {
        self.inner.paused.load(Ordering::Relaxed)
    }

    /// The server's process; panics while it is stopped.
    pub fn pid(&self) -> u32 {
        self.guard().pid().unwrap_or_else(|| panic!("the server on {} is not running", self.address()))
    }

    /// The memory that the process holds.
    pub fn memory_rss_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("read /proc");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes =
            line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|n| n.parse::<u64>().ok());
        kibibytes.expect("find VmRSS of the server") * 1024
    }

    /// Ends the server gracefully (`SIGTERM`) and waits until its process is gone.
    pub async fn stop(&self) {
        self.end(Signal::TERM).await;
    }

    /// Ends the server as a crash does (`SIGKILL`) and waits until its process is gone.
    pub async fn kill(&self) {
        self.end(Signal::KILL).await;
    }

    async fn end(&self, signal: Signal) {
        let server = self.clone();
        off_runtime(move || server.end_blocking(signal)).await;
    }

    pub(crate) fn end_blocking(&self, signal: Signal) {
        let guard = self.guard();
        guard.signal(signal);
        // A paused process acts on SIGTERM only once it goes on.
        guard.signal(Signal::CONT);
        self.inner.paused.store(false, Ordering::Relaxed);
        assert!(guard.wait_for_exit(PATIENCE), "the server on {} ignores {signal:?}", self.address());
    }

    /// Freezes the process (`SIGSTOP`): connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.change_run_state(Signal::STOP, true);
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.change_run_state(Signal::CONT, false);
    }

    fn change_run_state(&self, signal: Signal, paused: bool) {
        assert!(self.guard().signal(signal), "the server on {} is not running", self.address());
        self.inner.paused.store(paused, Ordering::Relaxed);
        let stat = format!("/proc/{}/stat", self.pid());
        // The signal is on its way, not obeyed, when the call returns.
        let obeyed = poll(PATIENCE, || {
            let stat = fs::read_to_string(&stat).ok()?;
            let state = stat.rsplit_once(") ")?.1.chars().next()?;
            ((state == 'T') == paused).then_some(())
        });
        assert!(obeyed.is_some(), "the server on {} ignores {signal:?}", self.address());
    }

    /// Stops the server if it runs, starts it on the same ports and data, and waits until it serves.
    pub async fn restart(&self) {
        let server = self.clone();
        off_runtime(move || {
            server.end_blocking(Signal::TERM);
            server.relaunch();
            server.require_serving();
        })
        .await;
    }

    pub(crate) fn require_serving(&self) {
        match self.wait_until_serving() {
            Ok(()) => {}
            Err(NotServing::PortTaken) => panic!("the port of the server on {} was taken", self.address()),
            Err(NotServing::Failed(why)) => panic!("{why}"),
        }
    }

    /// Whether the server answers `srvr` with a mode, the only sign that clients are served.
    pub async fn is_serving(&self) -> bool {
        let address = self.address();
        off_runtime(move || mode(address)).await.is_some()
    }

    /// The answer to a four-letter word; panics if there is none.
    pub async fn four_letter(&self, word: &str) -> String {
        match self.try_four_letter(word).await {
            Ok(answer) => answer,
            Err(why) => panic!("no answer to `{word}` from the server on {}: {why}", self.address()),
        }
    }

    /// The answer to a four-letter word, or why there is none; a silent server is a timeout.
    pub async fn try_four_letter(&self, word: &str) -> io::Result<String> {
        self.try_four_letter_within(word, Duration::from_secs(5)).await
    }

    /// The same with a timeout of one's own.
    pub async fn try_four_letter_within(&self, word: &str, within: Duration) -> io::Result<String> {
        let (address, word) = (self.address(), word.to_owned());
        off_runtime(move || ask(address, &word, within)).await
    }

    /// The server's counters, by name: `zk_packets_received` and so on.
    pub async fn mntr(&self) -> BTreeMap<String, String> {
        let answer = self.four_letter("mntr").await;
        let pairs = answer.lines().filter_map(|line| line.split_once('\t'));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_another_server_took_is_noticed_and_not_mistaken_for_ours() {
        for tls in [false, true] {
            let config = ServerConfig::default().tls(tls);
            let first = Server::start_blocking(&config);
            let second = Server::launch(&config, first.inner.port, None);
            assert!(matches!(second.wait_until_serving(), Err(NotServing::PortTaken)));
        }
    }
}
