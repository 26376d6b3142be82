//! Depositors that leave before they are answered, and send the same again until they are.
//!
//! `INGESTD_LEAVING_CLIENTS=400` is the full count; `INGESTD_SEED` repeats who leaves when.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ingest_harness::{eventually, let_pass};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::kit::{Answer, TestNode, configure, on_a_server};
use super::running::PATIENCE;

const CLIENTS: usize = 40;
/// Clients leave within this time after they have connected.
const LEAVES_WITHIN: Duration = Duration::from_millis(20);
const API: &str = "rate = 1000000\nstall = '5s'";

fn clients() -> usize {
    std::env::var("INGESTD_LEAVING_CLIENTS").map_or(CLIENTS, |text| text.parse().unwrap())
}

fn seed() -> u64 {
    std::env::var("INGESTD_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random)
}

fn name_of(number: usize) -> String {
    format!("leaving-{number}.txt")
}

fn content_of(number: usize) -> String {
    format!("what client {number} has sent\n").repeat(1 + number % 50)
}

/// A whole request, as it goes over the wire.
fn request_of(number: usize) -> Vec<u8> {
    let (name, content) = (name_of(number), content_of(number));
    let uuid = format!("l-{number}");
    let fields = [("profile", "test_content"), ("submitter", "ann"), ("type", "file"), ("uuid", &uuid)];
    let fields = fields.map(|(field, value)| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n")
    });
    let file = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
    let body = format!("{}--b\r\n{file}\r\n\r\n{content}\r\n--b--\r\n", fields.concat());
    let length = body.len();
    format!(
        "POST /api/v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Sends it and leaves without having read an answer.
async fn sends_and_leaves(address: &str, number: usize, after: Duration) {
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    let request = request_of(number);
    let _ = tokio::time::timeout(after, async {
        let _ = stream.write_all(&request).await;
        std::future::pending::<()>().await;
    })
    .await;
}

/// Sends it until it is acknowledged; answers the batch.
async fn until_acknowledged(client: &reqwest::Client, base: &str, number: usize) -> String {
    eventually(&format!("an answer for client {number}"), PATIENCE, || async {
        let form = Form::new()
            .text("profile", "test_content")
            .text("submitter", "ann")
            .text("type", "file")
            .text("uuid", format!("l-{number}"))
            .part("file", Part::text(content_of(number)).file_name(name_of(number)));
        let request = client.request(Method::POST, format!("{base}/api/v1/batches")).multipart(form);
        let answer = Answer::of(request.send().await.ok()?).await;
        if answer.status == 503 {
            return None;
        }
        assert!([200, 201].contains(&answer.status), "{}: {}", answer.status, answer.text());
        let payload = answer.json["payload"].as_str().unwrap_or_default();
        assert!(["present", "supplied"].contains(&payload), "client {number}: {}", answer.text());
        answer.json["bid"].as_str().map(str::to_owned)
    })
    .await
}

/// All files below a directory by their names.
fn files_below(dir: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.insert(entry.file_name().into_string().unwrap(), std::fs::read(&path).unwrap());
        }
    }
}

async fn nothing_is_lost(mut node: TestNode, killed: bool) {
    let (count, seed) = (clients(), seed());
    println!("INGESTD_SEED={seed} repeats who leaves when");
    let mut chance = StdRng::seed_from_u64(seed);
    let address = node.base.strip_prefix("http://").unwrap().to_owned();
    let leaving: Vec<_> = (0..count)
        .map(|number| {
            let (address, after) = (address.clone(), LEAVES_WITHIN.mul_f64(chance.random()));
            tokio::spawn(async move { sends_and_leaves(&address, number, after).await })
        })
        .collect();
    if killed {
        let_pass(LEAVES_WITHIN.mul_f64(chance.random())).await;
        node.kill();
    }
    for client in leaving {
        client.await.unwrap();
    }
    if killed {
        node.start_again().await;
    }
    let mut bids = Vec::new();
    for number in 0..count {
        bids.push(until_acknowledged(&node.client, &node.base, number).await);
    }
    for bid in &bids {
        let ended = eventually(&format!("{bid} to end"), PATIENCE, || async {
            let batch = node.get(&format!("/api/v1/batches/{bid}")).await.json;
            batch["state"].as_str().filter(|state| ["completed", "failed"].contains(state)).map(str::to_owned)
        })
        .await;
        assert_eq!(ended, "completed", "{bid}");
    }
    let mut stored = BTreeMap::new();
    files_below(&node.dir.path().join("storage"), &mut stored);
    for number in 0..count {
        let found = stored.get(&name_of(number)).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert_eq!(found, Some(content_of(number)), "what client {number} has sent is what is stored");
    }
    let batches = node.get("/api/v1/states/counts").await.is(200).json["batches"].clone();
    assert_eq!(batches, count, "each has one batch");
    node.post("/api/v1/node/drain", serde_json::json!({})).await.is(202);
    assert!(node.ended().await.success());
}

async fn embedded() -> TestNode {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), API, "");
    TestNode::start_in(dir, reqwest::Client::builder()).await
}

async fn on_zookeeper() -> TestNode {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    TestNode::start_in(on_a_server(&connect, API, ""), reqwest::Client::builder()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_that_leave_have_sent_is_stored_as_they_sent_it() {
    nothing_is_lost(embedded().await, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_that_leave_have_sent_is_stored_on_a_server_too() {
    nothing_is_lost(on_zookeeper().await, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_have_sent_to_a_node_that_is_killed_is_stored_as_they_sent_it() {
    nothing_is_lost(embedded().await, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_have_sent_to_a_node_that_is_killed_is_stored_on_a_server_too() {
    nothing_is_lost(on_zookeeper().await, true).await;
}
