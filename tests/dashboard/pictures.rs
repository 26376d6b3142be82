//! A node in the middle of its work, as the pictures of the README show it.
//!
//! `INGESTD_WRITE_DOCS=1 cargo test --test dashboard pictures` writes them to `docs/images`.

use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::browser::Browser;
use super::kit::TestNode;

pub(crate) async fn the_pictures_show_what_the_node_counts() {
    let node = TestNode::start("").await;
    let browser = Browser::start(&node.base).await;
    browser.open("").await;
    let slow = scene(&node).await;
    let counts = node.get("states/counts").await;
    for state in ["pending", "held", "downloading", "completed", "failed"] {
        let count = counts["jobs"][state].as_u64().unwrap();
        assert!(count > 0, "the scene has nobody who is {state}: {counts}");
        let script =
            format!("return document.querySelector('[data-state={state}] strong').textContent === '{count}'");
        browser.until(&format!("{count} jobs that are {state}"), &script).await;
    }
    browser.page_shows("512 KiB").await;
    browser.page_shows("53 jobs in the queues · 7 batches").await;
    let place = Place::new();
    browser.size(1280, 860).await;
    place.take(&browser, "pipeline.png").await;
    browser.colours("dark").await;
    browser.size(1280, 560).await;
    browser.open("failed").await;
    browser.page_shows("for 3 reasons").await;
    place.take(&browser, "failed.png").await;
    browser.colours("light").await;
    browser.size(390, 844).await;
    browser.open("").await;
    browser.page_shows("512 KiB").await;
    place.take(&browser, "phone.png").await;
    slow.abort();
}

/// Jobs in all kinds of states: done, failed for three reasons, under way, held, waiting.
async fn scene(node: &TestNode) -> tokio::task::JoinHandle<()> {
    let good = |name: &str, count: usize| -> Vec<Value> {
        (0..count).map(|number| {
            let path = format!("/{name}/{number:03}.tif");
            json!({"url": node.files.put(&path, format!("{path}, scanned")), "local_id": format!("{name}-{number}")})
        }).collect()
    };
    let maps =
        submit(node, json!({"manifest": good("maps", 24), "type": "single-file-batch-manifest"})).await;
    let mut herbarium = good("herbarium", 10);
    herbarium.extend(
        (0..4).map(|number| json!({"url": node.files.url(&format!("/herbarium/lost-{number}.tif"))})),
    );
    // Nobody listens on this one.
    herbarium.extend((0..2).map(|number| json!({"url": format!("http://127.0.0.1:9/sheet-{number}.tif")})));
    let herbarium = submit(node, json!({"manifest": herbarium, "type": "single-file-batch-manifest"})).await;
    let letter = node.files.put("/letter.txt", "Dear all");
    let letter = submit(node, json!({"payload_url": letter, "type": "file", "digest_type": "sha-256", "digest_value": "0".repeat(64)})).await;
    node.batch_is(&maps, "completed").await;
    node.batch_is(&herbarium, "failed").await;
    node.batch_is(&letter, "failed").await;

    let (address, slow) = half_server().await;
    for number in 0..3 {
        let film = format!("http://{address}/film-{number}.mov");
        submit(node, json!({"payload_url": film, "type": "file", "size": 1024 * 1024})).await;
    }
    let is_half = |now: &Value| {
        let half = now["working"].as_array().unwrap().iter().filter(|work| work["done_bytes"] == 512 * 1024);
        half.count() == 3
    };
    node.says("node", "three downloads that have come half the way", is_half).await;
    node.send(Method::PUT, "holds/queues/ingest", json!({"reason": "the shelf is being moved"})).await;
    let prints =
        submit(node, json!({"manifest": good("prints", 9), "type": "single-file-batch-manifest"})).await;
    let page = node
        .says(&format!("jobs?batch={prints}&state=pending"), "nine that wait", |page| {
            page["jobs"].as_array().unwrap().len() == 9
        })
        .await;
    for job in &page["jobs"].as_array().unwrap()[..2] {
        let path = format!("jobs/{}/hold", job["jid"].as_str().unwrap());
        node.send(Method::POST, &path, json!({"reason": "rights are unclear"})).await;
    }
    slow
}

async fn submit(node: &TestNode, what: Value) -> String {
    let mut body = json!({"profile": "test_content", "submitter": "ann"});
    body.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
    let answer = node.send(Method::POST, "batches", body).await;
    answer["bid"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// A server that sends the first half of a mebibyte, and then nothing for as long as it lives.
async fn half_server() -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                request.push(byte);
            }
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: video/quicktime\r\ncontent-length: 1048576\r\nconnection: close\r\n\r\n";
            if stream.write_all(head).await.is_err() || request.starts_with(b"HEAD") {
                continue;
            }
            let _ = stream.write_all(&vec![7; 512 * 1024]).await;
            open.push(stream);
        }
    });
    (address, serving)
}

/// Where pictures go: to the documentation if they are to be written, else nowhere for long.
struct Place {
    dir: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/images");
        let dir =
            if std::env::var_os("INGESTD_WRITE_DOCS").is_some() { docs } else { scratch.path().to_owned() };
        std::fs::create_dir_all(&dir).unwrap();
        Self { dir, _scratch: scratch }
    }

    async fn take(&self, browser: &Browser, name: &str) {
        let path = self.dir.join(name);
        browser.picture(&path).await;
        let picture = std::fs::read(&path).unwrap();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 10_000, "{name} is no picture of a page");
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&format!("docs/images/{name}")), "the README does not show {name}");
    }
}
