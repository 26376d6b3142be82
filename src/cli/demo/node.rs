//! A node for the demo: this program once more, as `ingestd run`, with everything of it in one directory.
//!
//! **When things break.** A node that ends before it is ready is told with the end of its log. It ends with the demo,
//! however that ends.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};

/// Lines of the log that are shown of a node that failed.
const LAST_LINES: usize = 15;

/// The node.
#[derive(Debug)]
pub(super) struct Node {
    child: Child,
    pub(super) address: String,
    log: PathBuf,
}

impl Node {
    /// Starts it, and waits until it says that it is ready.
    pub(super) async fn start(dir: &Path, zookeeper: Option<&str>) -> Result<Self> {
        let config = dir.join("ingestd.toml");
        let written = std::fs::create_dir_all(dir.join("profiles"))
            .and_then(|()| std::fs::write(dir.join("profiles/demo_content.toml"), PROFILE))
            .and_then(|()| std::fs::write(&config, configuration(dir, zookeeper)));
        written.with_context(|| format!("{} cannot be written to", dir.display()))?;
        let log = dir.join("ingestd.log");
        let file = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let notify = dir.join("notify");
        let told = UnixDatagram::bind(&notify).with_context(|| notify.display().to_string())?;
        let mut command = Command::new(std::env::current_exe().context("this program is not found again")?);
        // What is set for a node of the user's is not meant for this one.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("INGESTD_") {
                command.env_remove(name);
            }
        }
        let command = command
            .args(["run", "--with-parent", "--config"])
            .arg(&config)
            .env("NOTIFY_SOCKET", &notify)
            .env_remove("WATCHDOG_USEC")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true);
        let mut child = command.spawn().context("the node cannot be started")?;
        tokio::select! {
            ready = ready(&told) => ready?,
            ended = child.wait() => {
                bail!("the node has ended ({}), and its last words were:\n{}", ended?, last_words(&log))
            }
        }
        let address = dir.join("node/api-address");
        let address = std::fs::read_to_string(&address).with_context(|| address.display().to_string())?;
        Ok(Self { child, address: address.trim().to_owned(), log })
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Ends it as a service manager would, and waits for that.
    pub(super) async fn end(mut self) -> Result<()> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM).context("the node cannot be told to end")?;
        }
        let ended = self.child.wait().await?;
        ensure!(ended.success(), "the node has ended with {ended}:\n{}", last_words(&self.log));
        Ok(())
    }

    /// Waits for its end, if that comes before it is told to.
    pub(super) async fn ended(&mut self) -> Result<()> {
        let ended = self.child.wait().await?;
        bail!("the node has ended ({ended}):\n{}", last_words(&self.log))
    }
}

async fn ready(told: &UnixDatagram) -> Result<()> {
    let mut message = [0; 512];
    loop {
        let length = told.recv(&mut message).await?;
        if String::from_utf8_lossy(&message[..length]).lines().any(|line| line == "READY=1") {
            return Ok(());
        }
    }
}

fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    if last.is_empty() { format!("(nothing in {})", log.display()) } else { last }
}

const PROFILE: &str = include_str!("../../../config/profiles/demo_content.toml");

/// The defaults, with everything in one directory, and leave to fetch from this machine.
fn configuration(dir: &Path, zookeeper: Option<&str>) -> String {
    let at = |name: &str| toml::Value::String(dir.join(name).to_string_lossy().into_owned()).to_string();
    let engine = match zookeeper {
        Some(connect) => {
            let connect = toml::Value::String(connect.to_owned());
            format!("[store.engine.zookeeper]\nconnect = {connect}\nconnect_limit = \"10s\"")
        }
        None => format!("[store.engine.embedded]\ndir = {}", at("tree")),
    };
    format!(
        "# Written by `ingestd demo`.\n\
         [node]\nname = \"demo\"\ndir = {node}\n\n{engine}\n\n[api]\nlisten = \"127.0.0.1:0\"\nuploads = {uploads}\n\n\
         [work]\ndir = {work}\n\n\
         # The sample deposits are small: they have room on a disk that is nearly full.\n[provisioning]\nmax_used = 1.0\n\n\
         [profiles]\ndir = {profiles}\n\n\
         # The sample deposits are on this machine.\n[fetch]\nallowed = [\"127.0.0.0/8\"]\n\n\
         [storage.default]\nkind = \"ocfl\"\ndir = {storage}\n\n\
         [inventory]\nkind = \"sqlite\"\npath = {inventory}\n\n\
         [mail.by.outbox]\ndir = {outbox}\n\n[access]\ndir = {access}\n",
        node = at("node"),
        uploads = at("uploads"),
        work = at("work"),
        profiles = at("profiles"),
        storage = at("storage"),
        inventory = at("inventory.sqlite"),
        outbox = at("outbox"),
        access = at("access"),
    )
}
