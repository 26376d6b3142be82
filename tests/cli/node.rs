//! The node itself: paused, drained, resized; holds, restarts, and who did what.

use serde_json::json;

use crate::kit::TestNode;

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
    node.cli(&["drain"]).await.is(0).says(&["draining: it ends when what runs is done"]);
    assert_eq!(node.ended().await.code(), Some(0));
    node.cli(&["nodes"]).await.is(8).complains(&["no node answers at", "ingestd run", "--server"]);
}

#[tokio::test]
async fn pools_are_shown_and_resized_live() {
    let node = TestNode::start().await;
    node.cli(&["pools"]).await.is(0).says(&["POOL", "downloading", "access_large"]);
    node.cli(&["pools", "resize", "downloading", "3"]).await.is(0).says(&["downloading"]);
    let changed = node.json(&["pools", "downloading"]).await;
    assert_eq!(changed["pools"][0]["size"], 3, "{changed}");
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
    node.cli(&["hold", "list"]).await.is(0).says(&["collection", "tests", "the disk is full"]);
    let bid = node.submit("a.txt", "a").await;
    node.batch_is(&bid, "held").await;
    let released = node.cli(&["release", "collection", "tests", "--all"]).await.is(0);
    released.says(&["is not held any more", "Released: 0 jobs, 1 batch."]);
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
