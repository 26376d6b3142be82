//! A node as a child process in a directory of its own, and files that it may fetch.
//!
//! However full the disk of the machine is, jobs of unknown size and uploads get room: that is not the subject of these tests.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use ingest_harness::{FileServer, eventually};
use reqwest::StatusCode;
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
/// Lines of its log that are shown when a test fails.
const SHOWN: usize = 200;

const PROFILE: &str = r#"
name = "test_content"
collection = "tests"
title = "Things to test with"
owner = "ark:/99999/fk4tests"
"#;

/// A node that runs.
pub(crate) struct Running {
    pub(crate) dir: TempDir,
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
    pub(crate) files: FileServer,
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(SHOWN).collect();
            eprintln!("--- the end of the node's log");
            lines.into_iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Writes the configuration of a node into a directory, with more lines in `[api]`, and more sections.
pub(crate) fn configure(dir: &Path, api: &str, more: &str) {
    let profiles = dir.join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("test_content.toml"), PROFILE).unwrap();
    let listen = if api.contains("listen =") { "" } else { "listen = '127.0.0.1:0'\n" };
    let reserve = if api.contains("upload_reserve =") { "" } else { "upload_reserve = 0\n" };
    let text = format!(
        "[api]\n{listen}{reserve}uploads = 'uploads'\n{api}\n\
         [node]\nname = 'node-1'\ndir = 'node'\n\
         [store.engine.embedded]\ndir = 'tree'\n\
         [work]\ndir = 'work'\n[profiles]\ndir = 'profiles'\n\
         [fetch]\nallowed = ['127.0.0.0/8']\nretries = 0\n\
         [storage.default]\nkind = 'ocfl'\ndir = 'storage'\n\
         [inventory]\nkind = 'sqlite'\npath = 'inventory.sqlite'\n\
         [mail.by.outbox]\ndir = 'outbox'\n\
         [provisioning]\nmax_used = 1.0\n[queue]\nrank_delay = '10ms'\n{more}"
    );
    std::fs::write(dir.join("ingestd.toml"), text).unwrap();
}

/// Starts `ingestd run` in a directory that is configured.
pub(crate) fn spawn(dir: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_ingestd"))
        .args(["run", "--config", "ingestd.toml"])
        .current_dir(dir)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Running {
    /// In a directory that is configured.
    pub(crate) async fn start_in(dir: TempDir, client: reqwest::ClientBuilder) -> Self {
        let client = client.no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let child = spawn(dir.path());
        let files = FileServer::start().await;
        let mut node = Self { dir, base: String::new(), client, files, child };
        node.ready().await;
        node
    }

    /// Waits until it takes work, and finds out where it is.
    async fn ready(&mut self) {
        let note = self.dir.path().join("node/api-address");
        let client = self.client.clone();
        self.base = eventually("a node that is ready", PATIENCE, || async {
            let found = std::fs::read_to_string(&note).ok().filter(|text| text.ends_with('\n'))?;
            let base = found.trim().trim_end_matches('/').to_owned();
            let answer = client.get(format!("{base}/readyz")).send().await.ok()?;
            (answer.status() == StatusCode::OK).then_some(base)
        })
        .await;
    }

    /// As if its machine had lost its power.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(self.dir.path().join("node/api-address"));
    }

    /// At the same address.
    pub(crate) async fn start_again(&mut self) {
        let listen = format!("listen = '{}'", self.base.strip_prefix("http://").unwrap());
        let config = self.dir.path().join("ingestd.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("listen = '127.0.0.1:0'", &listen)).unwrap();
        self.child = spawn(self.dir.path());
        self.ready().await;
    }

    /// Waits for the end of the process.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let waiting = std::cell::RefCell::new(&mut self.child);
        eventually("the end of the node", PATIENCE, || {
            std::future::ready(waiting.borrow_mut().try_wait().unwrap())
        })
        .await
    }

    /// The most memory that the process ever had.
    pub(crate) fn peak_memory_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// `ingestd fsck` on the tree of a node that has ended.
    pub(crate) async fn fsck(&self) -> Output {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_ingestd"));
        command.args(["fsck", "--embedded"]).arg(self.dir.path().join("tree"));
        command.output().await.unwrap()
    }
}

/// The configuration of tokens that are their names and `-token`.
pub(crate) fn tokens(of: &[(&str, &str)]) -> String {
    let line = |(name, role): &(&str, &str)| {
        let hash = sha256(&format!("{name}-token"));
        format!("{{ name = '{name}', role = '{role}', sha256 = '{hash}' }}")
    };
    format!("tokens = [{}]", of.iter().map(line).collect::<Vec<_>>().join(", "))
}

pub(crate) fn sha256(text: &str) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(text).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}
