//! The node itself: paused, drained, resized; holds, restarts, and who did what.

use std::sync::Arc;

use ingest_harness::FileServer;
use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Bid;
use ingest_queue::map::{self, BatchNode, HeldQueue};
use ingest_queue::nodes::{Keys, Node as _, Submission};
use ingest_queue::queue::{Queue, Settings};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::recipes::shard;
use ingest_store::{Limits, Mode, Store};
use serde_json::json;

use crate::kit::{TestNode, configure, on_a_server};
use crate::ran::{command, run};

#[tokio::test]
async fn a_node_is_paused_resumed_and_drained() {
    let mut node = TestNode::start().await;
    node.cli(&["nodes"]).await.is(0).says(&["NODE", "node-1 *", "running"]);
    node.cli(&["nodes", "--this"]).await.is(0).says(&["node-1", "connected", "takes work"]);
    assert_eq!(node.json(&["nodes", "--this"]).await["ready"], true);
    node.cli(&["pause"]).await.is(0).says(&["is paused."]);
    assert_eq!(node.json(&["nodes", "--this"]).await["mode"], "paused");
    assert_eq!(node.get("/readyz").await.status, 503);
    assert_eq!(node.json(&["pause", "node-1"]).await, json!({"mode": "paused", "changed": false}));
    node.cli(&["resume", "node-2"]).await.is(10).complains(&["there is no node node-2: there are node-1"]);
    node.cli(&["resume"]).await.is(0).says(&["is running."]);
    assert_eq!(node.get("/readyz").await.status, 200);
    node.cli(&["drain"]).await.is(12).complains(&["draining a node cannot be taken back", "--yes"]);
    node.cli(&["drain", "node-1"]).await.is(12);
    assert_eq!(node.json(&["nodes", "--this"]).await["mode"], "running", "nothing was done");
    node.cli(&["drain", "--yes"]).await.is(0).says(&["draining: it ends when what runs is done"]);
    assert_eq!(node.ended().await.code(), Some(0));
    node.cli(&["nodes"]).await.is(8).complains(&["no node answers at", "ingestd run", "--server"]);
}

/// A node of this name on a tree that it shares with others.
async fn on_the_same_tree(connect: &str, name: &str) -> TestNode {
    let dir = on_a_server(connect, "", "");
    let file = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, text.replace("name = 'node-1'", &format!("name = '{name}'"))).unwrap();
    TestNode::start_in(dir, reqwest::Client::builder()).await
}

#[tokio::test]
async fn another_node_is_told_by_its_name_or_by_its_address() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let (first, mut second) =
        (on_the_same_tree(&connect, "node-1").await, on_the_same_tree(&connect, "node-2").await);
    let mode = async |node: &TestNode| node.get("/api/v1/node").await.json["mode"].clone();
    let list = first.json(&["nodes"]).await;
    let incarnation = list["nodes"][1]["incarnation"].as_str().unwrap();
    first.cli(&["nodes"]).await.is(0).says(&["node-1 *", "node-2", "INCARNATION", incarnation]);
    let told = first.cli(&["pause", "node-2"]).await.is(0);
    told.says(&[&format!("The node at {}/ is paused.", second.base)]);
    assert_eq!((mode(&first).await, mode(&second).await), (json!("running"), json!("paused")));
    first.cli(&["resume", "node-2"]).await.is(0).says(&["is running."]);
    assert_eq!(mode(&second).await, "running");
    // By its address, which goes before what the environment says.
    let at = ["--server", &second.base];
    first.cli(&[&["pause"], &at[..]].concat()).await.is(0).says(&[&second.base, "is paused."]);
    assert_eq!((mode(&first).await, mode(&second).await), (json!("running"), json!("paused")));
    let this = first.json(&[&["nodes", "--this"], &at[..]].concat()).await;
    assert_eq!((&this["node"], &this["mode"]), (&json!("node-2"), &json!("paused")));

    first.cli(&["drain", "node-2"]).await.is(12);
    assert_eq!(mode(&second).await, "paused", "nothing was done");
    first.cli(&["drain", "node-2", "--yes"]).await.is(0).says(&["is draining"]);
    assert_eq!(second.ended().await.code(), Some(0));
    assert_eq!(mode(&first).await, "running");
    first.cli(&["drain", "node-2", "--yes"]).await.is(10).complains(&["there is no node node-2"]);
}

#[tokio::test]
async fn a_node_that_speaks_tls_is_asked_with_its_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let pem = issued.cert.pem();
    std::fs::write(dir.path().join("cert.pem"), &pem).unwrap();
    std::fs::write(dir.path().join("key.pem"), issued.signing_key.serialize_pem()).unwrap();
    configure(dir.path(), "tls = { cert = 'cert.pem', key = 'key.pem' }", "");
    let config = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("[fetch]\n", "[fetch]\nca = 'cert.pem'\n");
    std::fs::write(&config, text).unwrap();
    let trusted = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
    let node = TestNode::start_in(dir, reqwest::Client::builder().tls_certs_only([trusted])).await;
    assert!(node.base.starts_with("https://127.0.0.1:"), "{}", node.base);
    node.cli(&["nodes"]).await.is(8).complains(&["no node answers at", "certificate"]);
    node.cli(&["nodes", "--ca-file", "cert.pem"]).await.is(0).says(&["node-1 *"]);
    node.cli(&["nodes", "--ca-file", "nowhere.pem"]).await.is(1).complains(&["nowhere.pem"]);
    node.cli(&["nodes", "--ca-file", "ingestd.toml"])
        .await
        .is(1)
        .complains(&["ingestd.toml: no certificates"]);
    let mut told = command(node.dir.path(), &node.base, &["pause"]);
    told.env("INGESTD_CA_FILE", "cert.pem");
    run(told).await.is(0).says(&["is paused."]);
    // What is uploaded goes the same way.
    node.cli(&["resume", "--ca-file", "cert.pem"]).await.is(0);
    std::fs::write(node.dir.path().join("a.txt"), "a").unwrap();
    let submit =
        ["submit", "a.txt", "-p", "test_content", "--submitter", "ann", "--wait", "--ca-file", "cert.pem"];
    node.cli(&submit).await.is(0).says(&["is handed over"]);
}

#[tokio::test]
async fn what_was_written_down_over_time_is_told() {
    let node = TestNode::start_with("", "[stats]\nevery = '1s'\n[pools.pending]\nsize = 0\n").await;
    node.cli(&["stats"]).await.is(0).says(&["Nothing was written down yet"]);
    let bid = node.submit("a.txt", "a").await;
    node.job_is(&bid, "pending").await;
    let line = ingest_harness::eventually("a line", std::time::Duration::from_mins(1), || async {
        let found = node.json(&["stats"]).await["lines"].as_array().unwrap().last().cloned();
        found.filter(|line| line["waiting"]["pending"] == 1)
    })
    .await;
    assert_eq!((&line["node"], &line["completed"]), (&json!("node-1"), &json!(0)), "{line}");
    node.cli(&["stats"]).await.is(0).says(&["AT", "COMPLETED", "WAITING", "1 pending", "node-1"]);
}

#[tokio::test]
async fn pools_are_shown_and_resized_live() {
    let node = TestNode::start().await;
    node.cli(&["pools"]).await.is(0).says(&["POOL", "downloading", "access_large"]);
    node.cli(&["pools", "resize", "downloading", "3"]).await.is(0).says(&["downloading"]);
    let changed = node.json(&["pools", "downloading"]).await;
    assert_eq!(changed["pools"][0]["size"], 3, "{changed}");
    let empty = node.cli(&["pools", "resize", "notify", "0"]).await.is(0);
    empty.complains(&["warning: notify: without workers this node takes nothing of this pool"]);
    let stall = node.json(&["pools", "resize", "downloading", "--stall", "7m"]).await;
    assert_eq!((&stall["size"], &stall["stall"]), (&json!(3), &json!("7m")));
    assert_eq!(node.get("/api/v1/pools/downloading").await.json["size"], 3);
    node.cli(&["pools", "resize", "downloading"]).await.is(2).complains(&["--stall"]);
    node.cli(&["pools", "resize", "nonsense", "3"]).await.is(10);
}

#[tokio::test]
async fn collections_and_queues_are_held_and_released() {
    let node = TestNode::start().await;
    node.cli(&["hold", "list"]).await.is(0).says(&["Nothing is held."]);
    node.cli(&["hold", "collection", "tests", "--reason", "the disk is full"]).await.is(0);
    node.cli(&["hold", "collection", "tests"]).await.is(0).says(&["was held already"]);
    let mistyped = node.cli(&["hold", "collection", "tetss"]).await.is(0).says(&["is held now"]);
    mistyped.complains(&["warning: no profile", "did you mean `tests`?"]);
    node.cli(&["release", "collection", "tetss"]).await.is(0).says(&["is not held any more"]);
    let known = node.json(&["hold", "collection", "tests"]).await;
    assert!(known.get("warning").is_none(), "{known}");
    node.cli(&["hold", "list"]).await.is(0).says(&["collection", "tests", "the disk is full"]);
    let bid = node.submit("a.txt", "a").await;
    node.batch_is(&bid, "held").await;
    let dry = ["release", "collection", "tests", "--all", "--dry-run"];
    node.cli(&dry).await.is(0).says(&["Would be released with tests: 0 jobs, 1 batch.", &bid]);
    let which = node.json(&dry).await;
    assert_eq!((&which["batches"][0]["bid"], &which["jobs"]), (&json!(bid), &json!([])), "{which}");
    node.cli(&["release", "collection", "tests", "--dry-run"]).await.is(2).complains(&["--all"]);
    node.cli(&["hold", "list"]).await.is(0).says(&["tests"]);
    node.batch_is(&bid, "held").await;
    let lifted = node.cli(&["release", "collection", "tests"]).await.is(0);
    lifted.says(&[
        "is not held any more",
        "Still held: 0 jobs, 1 batch. They are released by: ingestd release collection tests --all",
    ]);
    node.batch_is(&bid, "held").await;
    let lifted = node.json(&["release", "collection", "tests"]).await;
    let command = "ingestd release collection tests --all";
    assert_eq!(lifted["still_held"], json!({"jobs": 0, "batches": 1, "command": command}), "{lifted}");
    let released = node.cli(&["release", "collection", "tests", "--all"]).await.is(0);
    let released = released.says(&["was not held", "Released: 0 jobs, 1 batch."]);
    assert!(!released.out.contains("Still held"), "{released:?}");
    node.batch_is(&bid, "completed").await;
    assert_eq!(node.json(&["hold", "list"]).await, json!({"queues": [], "collections": []}));
    assert_eq!(node.json(&["release", "queue", "accessSmall"]).await["changed"], false);
    let wrong = node.cli(&["hold", "queue", "nonsense"]).await;
    assert!([2, 10].contains(&wrong.code), "{wrong:?}");
}

#[tokio::test]
async fn restarts_and_actions_are_told() {
    let node = TestNode::start().await;
    node.cli(&["restarts"]).await.is(0).says(&["There were no such restarts."]);
    let entry = json!({
        "at": "2026-11-17T03:00:00.000Z", "node": "node-1", "actor": "downloading-3", "pool": "downloading",
        "state": "downloading", "job": "jid0000000007", "batch": "bid0000000001", "reason": "panic",
        "message": "at 3 a.m.", "location": "download.rs:1", "count": 1, "backoff_ms": 100
    });
    std::fs::write(node.dir.path().join("node/restarts.jsonl"), format!("{entry}\n")).unwrap();
    node.cli(&["restarts", "--pool", "downloading"]).await.is(0).says(&[
        "downloading-3",
        "panic",
        "at 3 a.m.",
    ]);
    assert_eq!(node.json(&["restarts", "--actor", "down"]).await["restarts"][0]["job"], "jid0000000007");
    assert_eq!(node.json(&["restarts", "--reason", "stall"]).await["restarts"], json!([]));
    let own = node.json(&["restarts", "--node", "node-1"]).await;
    assert_eq!((own["restarts"].as_array().unwrap().len(), &own["missing"]), (1, &json!([])), "{own}");
    node.cli(&["restarts", "--node", "node-7"]).await.is(10).complains(&["there is no node node-7"]);

    node.cli(&["audit-log"]).await.is(0).says(&["Nobody has done anything yet."]);
    node.cli(&["hold", "queue", "ingest"]).await.is(0);
    node.cli(&["audit-log"]).await.is(0).says(&["PUT /api/v1/holds/queues/ingest", "200"]);
    assert_eq!(node.json(&["audit-log", "--limit", "1"]).await["entries"][0]["status"], 200);
}

#[tokio::test]
async fn limits_and_routines_are_shown_and_changed() {
    let node = TestNode::start().await;
    node.cli(&["limits"]).await.is(0).says(&["Nothing is limited."]);
    node.cli(&["limits", "set", "host", "Files.Example.org", "2"]).await.is(0).says(&["has a limit of 2."]);
    node.cli(&["limits"]).await.is(0).says(&["host", "files.example.org", "2", "set"]);
    assert_eq!(node.json(&["limits"]).await["limits"][0]["limit"], 2);
    node.cli(&["limits", "set", "host", "files.example.org", "none"]).await.is(0).says(&["has no limit."]);
    node.cli(&["limits", "clear", "host", "files.example.org"]).await.is(0).says(&["has no limit."]);
    node.cli(&["limits", "set", "host", "a", "many"]).await.is(2).complains(&["a number, or `none`"]);
    node.cli(&["limits", "set", "colour", "red", "1"])
        .await
        .is(10)
        .complains(&["collection, host, profile, name"]);
    node.cli(&["upkeep"]).await.is(0).says(&["NAME", "semaphores", "shards"]);
    node.cli(&["upkeep", "run", "keys"]).await.is(0).says(&["keys: 0 removed, on node-1"]);
    node.cli(&["upkeep", "run", "dust"]).await.is(10).complains(&["the routines are"]);
}

const ROUTINES: [&str; 6] = ["jobs", "batches", "requests", "semaphores", "keys", "shards"];

/// A tree with something for each routine to remove: a key that leads nowhere, a slot that is held for nobody, parts of a
/// report that was never announced; and a batch that goes on when the queue is released.
async fn plant(tree: &std::path::Path, files: &FileServer) -> Bid {
    let tree = Embedded::open(&EmbeddedConfig::new(tree)).unwrap();
    let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
    let queue = Queue::open(&session, Settings::new("test"), Clock::system()).await.unwrap();
    let put = async |at: String, data: String| {
        session.create_with_parents(at, data, Mode::Persistent).await.unwrap();
    };
    queue.hold_queue(HeldQueue::Ingest, "a test", "there is more to plant").await.unwrap();
    let submission = Submission {
        profile_name: "test_content".into(),
        submitter: "ann".into(),
        payload_url: Some(files.put("/planted.txt", "planted").to_string()),
        payload_type: Some("file".into()),
        insertion_date: Some(queue.now()),
        ..Submission::default()
    };
    let bid = queue.create_batch("planted", &submission).await.unwrap().bid;
    // Too large for one node, however it is packed.
    let noise: Vec<u8> = (0..16_384).flat_map(|_| *uuid::Uuid::new_v4().as_bytes()).collect();
    shard::prepare(&session, &BatchNode::StatusReport.of(bid), &noise).await.unwrap();
    let nobody = Keys::default().waits("nobody", Bid::new(9_999)).write(Dialect::Design);
    put(map::journal_key("nobody"), String::from_utf8(nobody.to_vec()).unwrap()).await;
    let semaphore = format!("{}/host-nowhere", map::SEMAPHORES);
    put(semaphore.clone(), r#"{"kind":"host","name":"nowhere"}"#.into()).await;
    put(format!("{semaphore}/0000"), r#"{"job":"jid0000009999"}"#.into()).await;
    put(format!("{semaphore}/0000/holder"), String::new()).await;
    // Each has just run, and is not run again by itself.
    for routine in ROUTINES {
        let ran = json!({"at": queue.now(), "node": "node-0"});
        put(format!("{}/{routine}", map::CLEANUP), ran.to_string()).await;
    }
    session.close().await.unwrap();
    tree.close().await;
    bid
}

#[tokio::test]
async fn each_routine_removes_what_it_is_for_by_command_and_by_request() {
    let (dir, files) = (tempfile::tempdir().unwrap(), FileServer::start().await);
    let keep = "[upkeep]\nkeep_batches = '1ms'\nkeep_requests = '1ms'\nkeep_parts = '1ms'\n";
    configure(dir.path(), "", keep);
    let bid = plant(&dir.path().join("tree"), &files).await.to_string();
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    let known: Vec<String> = node.json(&["upkeep"]).await["routines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(known, ROUTINES, "each of them is looked at here");
    let command = async |name: &str| {
        let ran = node.json(&["upkeep", "run", name]).await;
        assert_eq!((&ran["node"], &ran["error"]), (&"node-1".into(), &serde_json::Value::Null), "{ran}");
        ran["removed"].clone()
    };
    let request = async |name: &str| {
        let done = node.json(&["request", "upkeep.run", "-p", &format!("routine={name}")]).await;
        assert_eq!((&done["ok"], &done["node"]), (&true.into(), &"node-1".into()), "{done}");
        done["data"]["removed"].clone()
    };
    assert_eq!((command("keys").await, request("keys").await), (json!(1), json!(0)));
    assert_eq!((request("semaphores").await, command("semaphores").await), (json!(1), json!(0)));
    assert_eq!((command("shards").await, request("shards").await), (json!(1), json!(0)));
    // One that is done, and that nobody waits for.
    let put = node.json(&["request", "queue.release", "-p", "queue=ingest", "--no-wait"]).await;
    node.batch_is(&bid, "completed").await;
    let result = format!("/api/v1/requests/{}/result?wait=20", put["id"].as_str().unwrap());
    node.get(&result).await.is(200);
    assert_eq!((request("requests").await, command("requests").await), (json!(1), json!(0)));
    assert_eq!((command("jobs").await, request("jobs").await), (json!(1), json!(0)));
    assert_eq!((request("batches").await, command("batches").await), (json!(1), json!(0)));
    assert_eq!(node.json(&["batch", "list"]).await["batches"], json!([]));
    for routine in node.json(&["upkeep"]).await["routines"].as_array().unwrap() {
        assert_eq!(routine["last"]["node"], "node-1", "{routine}");
    }
    for (wrong, meant) in [("semaphore", "semaphores"), ("job", "jobs"), ("bathces", "batches")] {
        let says = format!("there is no routine {wrong}; did you mean `{meant}`?");
        node.cli(&["upkeep", "run", wrong]).await.is(10).complains(&[&says]);
        let routine = format!("routine={wrong}");
        node.cli(&["request", "upkeep.run", "-p", &routine]).await.is(10).complains(&[&says]);
    }
    node.cli(&["fsck"]).await.is(0);
}
