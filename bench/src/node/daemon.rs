//! `ingestd run` as a process of its own.
//!
//! It has a directory for everything that it writes, says on a socket when it is ready, can be stopped and let go on,
//! and is drained at the end, or killed: then its directory stays, and another life begins there. One that ends before
//! its time fails the benchmark with its last words.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::scratch;

const NAME: &str = "ingestd";
/// Where a node writes down the address that it listens at.
const ADDRESS: &str = "node/api-address";
/// For a tree of a million nodes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// What the deposits of the benchmarks name.
const PROFILE: &str = r#"
name = "herbarium_content"
collection = "herbarium"
title = "Herbarium sheets"
owner = "ark:/99999/fk4herbarium"
"#;

/// The states that have workers, besides pending.
pub(crate) const OTHERS: [&str; 5] = ["estimating", "downloading", "processing", "recording", "notify"];

/// How many workers the states have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pools {
    pub(crate) pending: usize,
    pub(crate) others: usize,
}

/// Where a node lives, from one life to the next.
#[derive(Debug)]
pub(crate) struct Home {
    dir: TempDir,
    engine: String,
    name: String,
}

/// A running node.
#[derive(Debug)]
pub(crate) struct Daemon {
    process: Child,
    pid: Pid,
    /// Removed last.
    home: Home,
}

/// The program, beside this one. Where cargo started this one, it first brings the other up to date.
pub(crate) fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program does not know where it is")?;
    let beside = own.with_file_name(NAME);
    if !cfg!(debug_assertions)
        && let Some(cargo) = std::env::var_os("CARGO")
    {
        let target = own.parent().and_then(Path::parent).context("this program is in no directory")?;
        let built = std::process::Command::new(cargo)
            .args(["build", "--quiet", "--release", "--package", NAME, "--bin", NAME, "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdout(Stdio::null())
            .status()
            .context("cargo does not run")?;
        ensure!(built.success(), "{NAME} could not be built: {built}");
    }
    ensure!(
        beside.is_file(),
        "{} is missing: build it first, with `cargo build{} --bin {NAME}`",
        beside.display(),
        if cfg!(debug_assertions) { "" } else { " --release" },
    );
    Ok(beside)
}

impl Home {
    /// On a tree, given as a section of the configuration.
    pub(crate) fn new(engine: &str) -> Result<Self> {
        Self::of("bench", engine)
    }

    /// The same of a node of this name.
    pub(crate) fn of(name: &str, engine: &str) -> Result<Self> {
        let dir = scratch::directory()?;
        fs::create_dir(dir.path().join("profiles"))?;
        fs::write(dir.path().join("profiles/herbarium_content.toml"), PROFILE)?;
        Ok(Self { dir, engine: engine.to_owned(), name: name.to_owned() })
    }

    /// The same on another tree, or over another link; a section of the configuration.
    pub(crate) fn on(self, engine: &str) -> Self {
        Self { engine: engine.to_owned(), ..self }
    }

    /// Starts a node, and waits until it is ready.
    pub(crate) async fn start(self, program: &Path, pools: Pools) -> Result<Daemon> {
        let at = |name: &str| self.dir.path().join(name);
        fs::write(at("ingestd.toml"), configuration(&self.name, &self.engine, pools))?;
        // Of the life before.
        for left in ["ready", ADDRESS] {
            let _ = fs::remove_file(at(left));
        }
        let socket = UnixDatagram::bind(at("ready"))?;
        let log = fs::File::create(at("log"))?;
        let mut process = Command::new(program)
            .args(["run", "--config", "ingestd.toml"])
            .current_dir(self.dir.path())
            .env("NOTIFY_SOCKET", at("ready"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not run", program.display()))?;
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.context("the node has ended at once")?;
        let ready = async {
            let mut said = [0; 256];
            loop {
                let length = socket.recv(&mut said).await?;
                if said[..length].starts_with(b"READY=1") {
                    return anyhow::Ok(());
                }
            }
        };
        let ready = tokio::select! {
            ready = timeout(PATIENCE, ready) => ready.context("the node does not become ready").flatten(),
            ended = process.wait() => Err(anyhow::anyhow!("the node has ended: {}", ended?)),
        };
        let daemon = Daemon { process, pid, home: self };
        ready.with_context(|| daemon.last_words())?;
        Ok(daemon)
    }
}

impl Daemon {
    /// Starts a node on a tree, given as a section of the configuration, and waits until it is ready.
    pub(crate) async fn start(program: &Path, engine: &str, pools: Pools) -> Result<Self> {
        Home::new(engine)?.start(program, pools).await
    }

    /// Where its API is.
    pub(crate) fn address(&self) -> Result<String> {
        let note = fs::read_to_string(self.home.dir.path().join(ADDRESS)).context("no address of the API")?;
        Ok(note.trim().trim_end_matches('/').to_owned())
    }

    /// How many jobs are completed, as its API says.
    pub(crate) async fn completed(&self) -> Result<u64> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let answer = client.get(format!("{}/api/v1/states/counts", self.address()?)).send().await?;
        let counts: serde_json::Value = answer.error_for_status()?.json().await?;
        counts["jobs"]["completed"].as_u64().context("the node does not say how many jobs are completed")
    }

    /// As a machine that loses its power: nothing is ended, nothing is given back.
    pub(crate) async fn kill(mut self) -> Result<Home> {
        self.signal(Signal::KILL)?;
        self.process.wait().await?;
        Ok(self.home)
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Nothing of it runs until it may go on.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn go_on(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Lets it end what it has begun, and waits for its end.
    pub(crate) async fn drain(mut self) -> Result<Home> {
        self.signal(Signal::CONT)?;
        self.signal(Signal::TERM)?;
        let Ok(ended) = timeout(PATIENCE, self.process.wait()).await else {
            bail!("the node does not end; {}", self.last_words());
        };
        let ended = ended?;
        ensure!(ended.success(), "the node has ended with {ended}; {}", self.last_words());
        Ok(self.home)
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        // Until it was waited for, its number is nobody else's.
        if let Some(ended) = self.process.try_wait()? {
            bail!("the node has ended with {ended}; {}", self.last_words());
        }
        Ok(kill_process(self.pid, signal)?)
    }

    /// The memory that it has now, and the most that it had, in bytes.
    pub(crate) fn memory(&self) -> Result<Memory> {
        Memory::of(&format!("/proc/{}/status", self.pid))
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.home.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        format!("it said:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
    }
}

/// What a process takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) now: u64,
    pub(crate) most: u64,
}

impl Memory {
    pub(crate) fn of(file: &str) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.to_owned())?;
        let find = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            kib.map(|kib| kib * 1024).with_context(|| format!("{file} says nothing of {key}"))
        };
        Ok(Self { now: find("VmRSS")?, most: find("VmHWM")? })
    }
}

fn configuration(name: &str, engine: &str, pools: Pools) -> String {
    let mut text = format!(
        "[node]\nname = '{name}'\ndir = 'node'\nwork = false\n\n[api]\nlisten = '127.0.0.1:0'\nuploads = 'uploads'\nrate = 1000000\n\n[work]\ndir = 'work'\n\n[log]\nfilter = 'warn'\n\n[profiles]\ndir = 'profiles'\n\n{engine}\n"
    );
    let sizes = OTHERS.map(|state| (state, pools.others));
    for (state, size) in [("pending", pools.pending)].into_iter().chain(sizes) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "[pools.{state}]\nsize = {size}");
    }
    text
}
