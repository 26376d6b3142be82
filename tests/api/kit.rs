//! A client of a node, and what it is answered.

use std::ops::{Deref, DerefMut};

use ingest_harness::eventually;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::running::{PATIENCE, Running};
pub(crate) use super::running::{configure, sha256, spawn, tokens};

/// A directory with the configuration of a node whose tree is on a server, and whose profiles are in the tree, too; with more
/// lines in `[api]`, and more sections.
pub(crate) fn on_a_server(connect: &str, api: &str, more: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), api, more);
    let file = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let engine = format!("[store.engine.zookeeper]\nconnect = '{connect}'\n");
    let text = text.replace("[store.engine.embedded]\ndir = 'tree'\n", &engine);
    std::fs::write(file, text.replace("[profiles]\n", "[profiles]\nsource = 'both'\n")).unwrap();
    dir
}

/// A node that runs, and a token for it.
pub(crate) struct TestNode {
    running: Running,
    token: Option<String>,
}

impl Deref for TestNode {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl DerefMut for TestNode {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}

impl TestNode {
    pub(crate) async fn start() -> Self {
        Self::start_with("", "[access]\ndir = 'access'\n").await
    }

    /// With more lines in `[api]`, and more sections.
    pub(crate) async fn start_with(api: &str, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        configure(dir.path(), api, more);
        Self::start_in(dir, reqwest::Client::builder()).await
    }

    /// In a directory that is configured.
    pub(crate) async fn start_in(dir: TempDir, client: reqwest::ClientBuilder) -> Self {
        Self { running: Running::start_in(dir, client).await, token: None }
    }

    /// Sends this token from now on.
    pub(crate) fn with_token(&mut self, token: Option<&str>) {
        self.token = token.map(str::to_owned);
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(method, path).json(body).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        let request = self.request(Method::DELETE, path).header("x-ingestd", "1");
        Answer::of(request.send().await.unwrap()).await
    }

    /// Submits a file from the file server; answers the batch's id.
    pub(crate) async fn submit(&self, name: &str, content: &str) -> String {
        let url = self.files.put(&format!("/{name}"), content);
        self.submit_url(url.as_str()).await
    }

    pub(crate) async fn submit_url(&self, url: &str) -> String {
        let body = json!({"profile": "test_content", "submitter": "ann", "payload_url": url, "type": "file"});
        let answer = self.post("/api/v1/batches", body).await.is(201);
        answer.json["bid"].as_str().unwrap().to_owned()
    }

    /// Waits until a batch is in a state.
    pub(crate) async fn batch_is(&self, bid: &str, state: &str) -> Value {
        let path = format!("/api/v1/batches/{bid}");
        eventually(&format!("{bid} to be {state}"), PATIENCE, || async {
            let answer = self.get(&path).await;
            (answer.json["state"] == state).then_some(answer.json)
        })
        .await
    }

    /// Waits until the only job of a batch is in a state; answers its id.
    pub(crate) async fn job_is(&self, bid: &str, state: &str) -> String {
        let path = format!("/api/v1/jobs?batch={bid}&state={state}");
        eventually(&format!("a job of {bid} that is {state}"), PATIENCE, || async {
            let answer = self.get(&path).await;
            answer.json["jobs"][0]["jid"].as_str().map(str::to_owned)
        })
        .await
    }
}

/// An answer that was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) bytes: Vec<u8>,
    /// Null if it is no JSON.
    pub(crate) json: Value,
}

impl Answer {
    pub(crate) async fn of(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap().to_vec();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Self { status, headers, bytes, json }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// It has this status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// It is a problem of this kind, with a detail that says this.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, kind: &str, says: &str) -> Self {
        let answer = self.is(status);
        assert_eq!(answer.header("content-type"), "application/problem+json", "{}", answer.text());
        assert_eq!(answer.json["type"], format!("urn:ingestd:problem:{kind}"), "{}", answer.text());
        assert_eq!(answer.json["status"], status, "{}", answer.text());
        assert!(answer.json["title"].is_string(), "{}", answer.text());
        let detail = answer.json["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(says), "{says:?} is not in {detail:?}");
        answer
    }

    /// The fields that have problems.
    pub(crate) fn fields(&self) -> Vec<String> {
        let problems = self.json["problems"].as_array().cloned().unwrap_or_default();
        problems.iter().map(|problem| problem["field"].as_str().unwrap().to_owned()).collect()
    }
}
