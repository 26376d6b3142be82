//! What the node of the browser's tests is asked, and asked for, besides the browser.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Instant;

use ingest_harness::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use super::running::{PATIENCE, Running, configure};

/// A node that runs.
pub(crate) struct TestNode(Running);

impl Deref for TestNode {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.0
    }
}

impl DerefMut for TestNode {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.0
    }
}

impl TestNode {
    /// With more lines in `[api]`.
    pub(crate) async fn start(api: &str) -> Self {
        Self::start_prepared(api, async |_| ()).await
    }

    /// On what was made in its directory before.
    pub(crate) async fn start_prepared(api: &str, prepare: impl AsyncFnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path()).await;
        configure(dir.path(), api, "max_timeouts = 2\n[access]\ndir = 'access'\n");
        Self(Running::start_in(dir, reqwest::Client::builder()).await)
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
