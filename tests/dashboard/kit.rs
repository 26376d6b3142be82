//! What the node of the browser's tests is asked, and asked for, besides the browser.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Instant;

use ingest_harness::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use super::running::{PATIENCE, Running, configure};

/// A profile for the tree.
pub(crate) const MAPS: &str =
    "name = 'maps'\ncollection = 'maps'\ntitle = 'Maps'\nowner = 'ark:/99999/fk4maps'\n";

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
        configure(
            dir.path(),
            api,
            "max_timeouts = 2\n[access]\ndir = 'access'\n[workers]\nsettle = '10ms'\n",
        );
        let file = dir.path().join("ingestd.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, text.replace("[profiles]\n", "[profiles]\nsource = 'both'\n")).unwrap();
        Self(Running::start_in(dir, reqwest::Client::builder()).await)
    }

    /// Puts more sections into the configuration, which the node reads again by itself; nothing: takes them away again.
    pub(crate) fn reconfigure(&self, more: &str) {
        const MARK: &str = "# More.\n";
        let file = self.dir.path().join("ingestd.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let own = text.split(MARK).next().unwrap();
        std::fs::write(file, format!("{own}{MARK}{more}")).unwrap();
    }

    /// Asks for something by the tree, and does not wait for it.
    pub(crate) async fn request(&self, action: &str, params: Value) -> String {
        let put = self.send(Method::POST, "requests", json!({"action": action, "params": params})).await;
        put["id"].as_str().unwrap_or_else(|| panic!("{put}")).to_owned()
    }

    /// So that no page is looked at while it has nothing to show: a limit, a request that was done and one that was
    /// refused, a profile and a setting. The feed is there from its own story.
    pub(crate) async fn fill_every_table(&self) {
        self.send(Method::PUT, "limits/collection/tests", json!({"limit": 50})).await;
        self.request("queue.release", json!({"queue": "accessSmall"})).await;
        let refused = self.request("job.hold", json!({"jid": "jid0000009999"})).await;
        self.says(&format!("requests/{refused}"), "its end", |request| request["ok"] == false).await;
        self.send(Method::PUT, "profiles/maps", json!({"text": MAPS})).await;
        self.send(Method::PATCH, "settings", json!({"set": {"pools.notify.size": 3}})).await;
        let is_used = |list: &Value| {
            list["profiles"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["name"] == "maps" && one["version"].is_u64())
        };
        self.says("profiles", "the profile of the tree", is_used).await;
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
