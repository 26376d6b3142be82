//! The node itself: seen, paused, resized, drained.

use ingest_harness::eventually;
use reqwest::Method;
use serde_json::json;

use super::kit::TestNode;

#[tokio::test]
async fn a_node_is_paused_resumed_and_drained() {
    let mut node = TestNode::start().await;
    assert_eq!(node.get("/healthz").await.is(200).json["status"], "alive");
    let nodes = node.get("/api/v1/nodes").await.is(200).json;
    let line = &nodes["nodes"][0];
    assert_eq!(
        (&line["node"], &line["this"], &line["state"]),
        (&"node-1".into(), &true.into(), &"running".into()),
        "{nodes}"
    );
    assert_eq!(line["url"].as_str().unwrap().trim_end_matches('/'), node.base);
    let now = node.get("/api/v1/node").await.is(200).json;
    assert_eq!(
        (&now["session"], &now["ready"], &now["sessions"]),
        (&"connected".into(), &true.into(), &1.into()),
        "{now}"
    );
    assert_eq!(now["pools"]["downloading"]["size"], 8);

    let paused = node.post("/api/v1/node/pause", json!({})).await.is(200).json;
    assert_eq!((&paused["mode"], &paused["changed"]), (&"paused".into(), &true.into()));
    assert_eq!(node.post("/api/v1/node/pause", json!({})).await.json["changed"], false);
    let ready = node.get("/readyz").await.is(503).json;
    assert_eq!((&ready["ready"], &ready["reason"]), (&false.into(), &"the node is paused".into()));
    let bid = node.submit("a.txt", "one").await;
    assert_eq!(node.get(&format!("/api/v1/batches/{bid}")).await.json["state"], "pending");
    node.post("/api/v1/node/resume", json!({})).await.is(200);
    node.get("/readyz").await.is(200);
    node.batch_is(&bid, "completed").await;

    let drained = node.post("/api/v1/node/drain", json!({})).await.is(202).json;
    assert_eq!(drained["mode"], "draining");
    assert!(node.ended().await.success());
    assert!(!node.dir.path().join("node/api-address").exists());
}

#[tokio::test]
async fn pools_change_while_they_work() {
    let node = TestNode::start().await;
    let pools = node.get("/api/v1/pools").await.is(200).json;
    assert_eq!(pools["pools"].as_array().unwrap().len(), 9, "{pools}");
    let path = "/api/v1/pools/downloading";
    let changed = node.send(Method::PATCH, path, &json!({"size": 3, "stall": "5m"})).await.is(200).json;
    assert_eq!((&changed["size"], &changed["stall"]), (&3.into(), &"5m".into()), "{changed}");
    eventually("a pool of three", std::time::Duration::from_secs(30), || async {
        (node.get(path).await.json["live"] == 3).then_some(())
    })
    .await;
    eventually("others to know", std::time::Duration::from_secs(30), || async {
        (node.get("/api/v1/nodes").await.json["nodes"][0]["pools"]["downloading"] == 3).then_some(())
    })
    .await;
    let change = async |name: &str, body: serde_json::Value| {
        node.send(Method::PATCH, &format!("/api/v1/pools/{name}"), &body).await
    };
    assert_eq!(
        change("provisioning", json!({"size": 2})).await.problem(400, "invalid", "0 or 1").fields(),
        ["size"]
    );
    change("downloading", json!({"size": 1_000_000})).await.problem(400, "invalid", "too many");
    change("downloading", json!({"size": -1})).await.problem(422, "unprocessable", "");
    change("downloading", json!({"stall": "0s"})).await.problem(400, "invalid", "longer than no time");
    change("downloading", json!({"stall": "soon"})).await.problem(400, "invalid", "");
    change("nothing", json!({"size": 1})).await.problem(404, "not-found", "");
    node.get("/api/v1/pools/nothing").await.problem(404, "not-found", "");
    let bid = node.submit("a.txt", "one").await;
    node.batch_is(&bid, "completed").await;
}

#[tokio::test]
async fn the_tree_the_restarts_and_the_audit_log_are_seen() {
    let node = TestNode::start().await;
    let tree = node.get("/api/v1/tree").await.is(200).json;
    assert_eq!((&tree["name"], &tree["status"]), (&"root".into(), &"running".into()));
    let names: Vec<&str> =
        tree["children"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["session", "watcher", "batches", "pools", "gate"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    // Written by a node of another life.
    let line = |actor: &str, at: &str| json!({"at": at, "node": "node-1", "actor": actor, "pool": "downloading", "reason": "panic", "message": "<b>", "count": 1, "backoff_ms": 0});
    let log = format!(
        "{}\n{}\n",
        line("downloading-1", "2026-01-01T00:00:00Z"),
        line("downloading-2", "2026-02-01T00:00:00Z")
    );
    std::fs::write(node.dir.path().join("node/restarts.jsonl"), log).unwrap();
    let restarts = node.get("/api/v1/restarts").await.is(200).json;
    assert_eq!(restarts["restarts"][0]["actor"], "downloading-2", "{restarts}");
    let count = async |query: &str| {
        node.get(&format!("/api/v1/restarts?{query}")).await.is(200).json["restarts"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (count("actor=downloading-1").await, count("pool=notify").await, count("limit=1").await),
        (1, 0, 1)
    );
    assert_eq!(count("newer_than=2026-01-15T00:00:00Z").await, 1);
    node.get("/api/v1/restarts?limit=0").await.problem(400, "invalid", "1 to 1000");

    let request =
        node.request(Method::POST, "/api/v1/jobs/jid0000000099/hold").header("x-ingestd-user", "ann");
    request.json(&json!({})).send().await.unwrap();
    let entries = node.get("/api/v1/audit").await.is(200).json;
    let entry = &entries["entries"][0];
    assert_eq!(
        (&entry["who"], &entry["status"], &entry["from"]),
        (&"ann".into(), &404.into(), &"127.0.0.1".into()),
        "{entries}"
    );
    assert_eq!(entry["what"], "POST /api/v1/jobs/jid0000000099/hold");
    assert!(std::fs::read_to_string(node.dir.path().join("node/audit.jsonl")).unwrap().contains("\"ann\""));
}

#[tokio::test]
async fn the_metrics_tell_what_was_done() {
    let node = TestNode::start().await;
    let bid = node.submit("a.txt", "one").await;
    node.batch_is(&bid, "completed").await;
    let answer = node.get("/metrics").await.is(200);
    let text = answer.text();
    for line in [
        "ingestd_transitions_total{from=\"pending\",to=\"estimating\"} 1",
        "ingestd_transitions_total{from=\"provisioning\",to=\"downloading\"} 1",
        "ingestd_transitions_total{from=\"notify\",to=\"completed\"} 1",
        "ingestd_step_seconds_count{state=\"provisioning\"} 1",
        "ingestd_waiting_seconds_count{state=\"provisioning\"} 1",
        "ingestd_step_seconds_count{state=\"downloading\"} 1",
        "ingestd_jobs{state=\"completed\"} 1",
        "ingestd_jobs{state=\"failed\"} 0",
        "ingestd_bytes_total{state=\"downloading\"} 3",
        "ingestd_session_state{state=\"connected\"} 1",
        "ingestd_pool_size{pool=\"downloading\"} 8",
        "ingestd_pool_busy{pool=\"downloading\"} 0",
        "ingestd_sweep_healed_total 0",
        "ingestd_sessions_total 1",
        "ingestd_ready 1",
        "ingestd_store_seconds_count 1",
        "ingestd_pool_oldest_seconds{pool=\"downloading\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(
        text.contains("ingestd_waiting_seconds_bucket{")
            && text.contains("\ningestd_commits_refused_total ")
            && text.contains("ingestd_commit_seconds_bucket{")
            && text.contains("ingestd_http_requests_total{method=\"POST\",status=\"201\"} 1"),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn a_node_that_drains_is_not_ready_while_it_finishes_what_it_has_begun() {
    let mut node = TestNode::start().await;
    node.files.hold();
    node.submit("a.txt", "one").await;
    node.files.until("a download", |traffic| traffic.open > 0).await;
    let working = node.get("/metrics").await.is(200).text();
    assert!(
        working.lines().any(|line| line.starts_with("ingestd_pool_busy{") && line.ends_with(" 1")),
        "{working}"
    );
    node.post("/api/v1/node/drain", json!({})).await.is(202);
    let ready = node.get("/readyz").await.is(503).json;
    assert_eq!((&ready["ready"], &ready["reason"]), (&false.into(), &"the node is draining".into()));
    node.get("/healthz").await.is(200);
    assert!(node.get("/metrics").await.text().contains("ingestd_ready 0\n"));
    node.post("/api/v1/node/resume", json!({})).await.problem(409, "refused", "draining");
    node.files.release();
    assert!(node.ended().await.success());
}

#[tokio::test]
async fn a_step_that_stalls_is_a_restart_in_the_list_and_in_the_metrics() {
    let node = TestNode::start().await;
    node.send(Method::PATCH, "/api/v1/pools/downloading", &json!({"stall": "1s"})).await.is(200);
    node.files.hold();
    let bid = node.submit("a.txt", "one").await;
    let restart = eventually("a restart", std::time::Duration::from_mins(1), || async {
        let found = node.get("/api/v1/restarts?reason=stall").await.is(200).json["restarts"][0].clone();
        (!found.is_null()).then_some(found)
    })
    .await;
    assert_eq!(
        (&restart["batch"], &restart["pool"]),
        (&bid.as_str().into(), &"downloading".into()),
        "{restart}"
    );
    let metrics = node.get("/metrics").await.is(200).text();
    let told = "ingestd_restarts_total{pool=\"downloading\",reason=\"stall\"}";
    assert!(metrics.contains(told), "{metrics}");
    node.send(Method::PATCH, "/api/v1/pools/downloading", &json!({"stall": "10m"})).await.is(200);
    node.files.release();
    node.batch_is(&bid, "completed").await;
}
