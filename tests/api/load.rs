//! Many at once: two hundred clients submit, and some of them twice because they have not heard the answer.
//!
//! `INGESTD_LOAD_BATCHES=10000` is the full count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use reqwest::Method;
use serde_json::{Value, json};

use super::kit::{Answer, TestNode};

const CLIENTS: usize = 200;
const BATCHES: usize = 1_000;
/// Every so many submissions one is sent again.
const AGAIN: usize = 10;
/// The most memory that the node may ever have had, with all connections and all batches: `VmHWM` of its process.
const MOST_MEMORY_KB: u64 = 400 * 1024;

fn batches() -> usize {
    std::env::var("INGESTD_LOAD_BATCHES").map_or(BATCHES, |text| text.parse().unwrap())
}

/// One client submits what is next until nothing is left; answers `(uuid, bid, whether it was made now)`.
async fn client(
    base: String,
    payload: String,
    next: Arc<AtomicUsize>,
    all: usize,
) -> Vec<(String, String, bool)> {
    let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build().unwrap();
    let mut told = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= all {
            return told;
        }
        let uuid = format!("load-{number}");
        let body = json!({
            "profile": "test_content", "submitter": format!("client {}", number % CLIENTS), "payload_url": payload,
            "type": "file", "local_id": [format!("local {number}")], "uuid": uuid,
        });
        let send = async || {
            let request = client.request(Method::POST, format!("{base}/api/v1/batches")).json(&body);
            let answer = Answer::of(request.send().await.unwrap()).await;
            assert!([200, 201].contains(&answer.status), "{}: {}", answer.status, answer.text());
            let bid = answer.json["bid"].as_str().unwrap().to_owned();
            (uuid.clone(), bid, answer.json["known"] == false)
        };
        if number.is_multiple_of(AGAIN) {
            // At the same time, which is worse than afterwards.
            let (first, second) = tokio::join!(send(), send());
            told.extend([first, second]);
        } else {
            told.push(send().await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_submit_at_once_is_neither_lost_nor_doubled() {
    let all = batches();
    let mut node = TestNode::start_with("rate = 1000000", "").await;
    let payload = node.files.put("/small.txt", "small").to_string();
    // What is made of them is not the subject: only that each is there once.
    node.post("/api/v1/node/pause", json!({})).await.is(200);
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::spawn(client(node.base.clone(), payload.clone(), next.clone(), all)))
        .collect();
    let mut bids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut made = 0;
    for client in clients {
        for (uuid, bid, new) in client.await.unwrap() {
            bids.entry(uuid).or_default().insert(bid);
            made += usize::from(new);
        }
    }
    let submitted = began.elapsed();
    assert_eq!(made, all, "each was made once, however often it was sent");
    assert_eq!(bids.len(), all);
    let told: BTreeMap<&str, &str> = bids
        .iter()
        .map(|(uuid, bids)| {
            assert_eq!(bids.len(), 1, "{uuid} is {bids:?}");
            (uuid.as_str(), bids.first().unwrap().as_str())
        })
        .collect();
    // And what the tree says.
    let found = listed(&node).await;
    let in_tree: BTreeMap<&str, &str> =
        found.iter().map(|(uuid, bid)| (uuid.as_str(), bid.as_str())).collect();
    assert_eq!(in_tree, told);
    assert_eq!(found.len(), all, "no batch is there that nobody was told of");
    let counts = node.get("/api/v1/states/counts").await.is(200);
    assert_eq!(counts.json["batches"], all);
    let peak = node.peak_memory_kb();
    println!("{all} batches of {CLIENTS} clients in {:?}: at most {} MB", submitted, peak / 1024);
    assert!(peak < MOST_MEMORY_KB, "{peak} kB, and {MOST_MEMORY_KB} kB are allowed");
    node.post("/api/v1/node/drain", json!({})).await.is(202);
    assert!(node.ended().await.success());
    let fsck = node.fsck().await;
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stdout));
}

/// All batches of the tree, by their uuids.
async fn listed(node: &TestNode) -> Vec<(String, String)> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = node.get(&format!("/api/v1/batches?limit=1000&after={after}")).await.is(200).json;
        assert_eq!(page["unreadable"], json!([]));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        all.extend(
            page["batches"]
                .as_array()
                .unwrap()
                .iter()
                .map(|batch| (text(&batch["uuid"]), text(&batch["bid"]))),
        );
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => return all,
        }
    }
}
