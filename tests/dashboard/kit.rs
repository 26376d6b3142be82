//! A node as a child process in a directory of its own, and files that it may fetch.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ingest_harness::{FileServer, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);
/// Any port that is free.
pub(crate) const PORT_OF_CHOICE: u16 = 0;

const PROFILE: &str = r#"
name = "test_content"
collection = "tests"
title = "Things to test with"
owner = "ark:/99999/fk4tests"
"#;

pub(crate) struct TestNode {
    pub(crate) dir: TempDir,
    pub(crate) base: String,
    pub(crate) files: FileServer,
    client: reqwest::Client,
    child: Child,
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(60).collect();
            eprintln!("--- the end of the node's log");
            lines.into_iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// However full the disk of the machine is, jobs of unknown size get room: that is not the subject here.
fn spawn(dir: &Path, port: u16, more: &str) -> Child {
    let profiles = dir.join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("test_content.toml"), PROFILE).unwrap();
    let text = format!(
        "[node]\nname = 'node-1'\ndir = 'node'\n\
         [store.engine.embedded]\ndir = 'tree'\n\
         [work]\ndir = 'work'\n[profiles]\ndir = 'profiles'\n[access]\ndir = 'access'\n\
         [fetch]\nallowed = ['127.0.0.0/8']\nretries = 0\n\
         [storage.default]\nkind = 'ocfl'\ndir = 'storage'\n\
         [inventory]\nkind = 'sqlite'\npath = 'inventory.sqlite'\n\
         [mail.by.outbox]\ndir = 'outbox'\n\
         [queue]\nrank_delay = '10ms'\n\
         [provisioning]\nmax_used = 1.0\n\
         [api]\nlisten = '127.0.0.1:{port}'\nuploads = 'uploads'\n{more}"
    );
    std::fs::write(dir.join("ingestd.toml"), text).unwrap();
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

impl TestNode {
    /// With more lines at the end of its configuration, in `[api]`.
    pub(crate) async fn start(port: u16, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let child = spawn(dir.path(), port, more);
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let files = FileServer::start().await;
        let mut node = Self { dir, base: String::new(), files, client, child };
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
            answer.status().is_success().then_some(base)
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
        let port = self.base.rsplit(':').next().unwrap().parse().unwrap();
        self.child = spawn(self.dir.path(), port, "");
        self.ready().await;
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.client.get(format!("{}/api/v1/{path}", self.base)).send().await.unwrap();
        answer.json().await.unwrap()
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Value) -> Value {
        let request = self.client.request(method, format!("{}/api/v1/{path}", self.base)).json(&body);
        request.send().await.unwrap().json().await.unwrap()
    }

    /// Submits a payload by its address, not by the dashboard.
    pub(crate) async fn submit(&self, url: &str, more: Value) -> String {
        let mut body =
            json!({"profile": "test_content", "submitter": "ann", "payload_url": url, "type": "file"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.send(Method::POST, "batches", body).await;
        answer["bid"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Waits until the node says of something what `check` wants.
    pub(crate) async fn says(&self, path: &str, what: &str, check: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        eventually(&format!("{path}: {what}"), PATIENCE * 2, || async {
            let answer = self.get(path).await;
            assert!(
                check(&answer) || Instant::now() < end,
                "waited in vain for {path} to say {what}; it says {answer:#}"
            );
            check(&answer).then_some(answer)
        })
        .await
    }

    pub(crate) async fn batch_is(&self, bid: &str, state: &str) -> Value {
        self.says(&format!("batches/{bid}"), state, |batch| batch["state"] == state).await
    }

    pub(crate) async fn job_is(&self, jid: &str, state: &str) -> Value {
        self.says(&format!("jobs/{jid}"), state, |job| job["state"] == state).await
    }

    /// The first job of a batch.
    pub(crate) async fn job_of(&self, bid: &str) -> String {
        let path = format!("jobs?batch={bid}");
        let page = self.says(&path, "a job", |page| page["jobs"][0]["jid"].is_string()).await;
        page["jobs"][0]["jid"].as_str().unwrap().to_owned()
    }
}
