//! The audit log: whatever was done is in it, with what exactly it was, and nothing that is secret.

use ingest_harness::eventually;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::kit::TestNode;
use super::running::PATIENCE;

async fn entries(node: &TestNode) -> Vec<Value> {
    node.get("/api/v1/audit").await.is(200).json["entries"].as_array().unwrap().clone()
}

/// The newest entry of this method and path.
async fn entry(node: &TestNode, what: &str) -> Option<Value> {
    entries(node).await.into_iter().find(|entry| entry["what"] == what)
}

async fn details(node: &TestNode, what: &str) -> String {
    let entry = entry(node, what).await.unwrap_or_else(|| panic!("{what} is not in the log"));
    entry["details"].as_str().unwrap_or_default().to_owned()
}

/// Sends a request, and is gone before it is answered.
async fn leave(node: &TestNode, method: &str, path: &str, body: &Value) {
    let body = body.to_string();
    let head = "host: localhost\r\nx-ingestd: 1\r\ncontent-type: application/json";
    let text = format!("{method} {path} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(node.base.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

/// A batch of so many jobs that wait, because the queue is held.
async fn waiting(node: &TestNode, jobs: usize) -> String {
    node.send(Method::PUT, "/api/v1/holds/queues/ingest", &json!({})).await.is(200);
    let manifest: Vec<String> = (0..jobs).map(|at| node.files.url(&format!("/{at}")).to_string()).collect();
    let body = json!({"profile": "test_content", "submitter": "ann", "manifest": manifest});
    let bid = node.post("/api/v1/batches", body).await.is(201).json["bid"].as_str().unwrap().to_owned();
    eventually("all jobs", PATIENCE, || async {
        let batch = node.get(&format!("/api/v1/batches/{bid}")).await.json;
        (batch["jobs"]["processing"] == jobs).then_some(())
    })
    .await;
    bid
}

#[tokio::test]
async fn what_is_done_for_somebody_who_has_left_is_done_to_its_end_and_written_down() {
    const JOBS: usize = 300;
    let node = TestNode::start().await;
    let bid = waiting(&node, JOBS).await;
    let hold = json!({"action": "hold", "filter": {"batch": bid}, "reason": "nobody waits"});
    leave(&node, "POST", "/api/v1/jobs/bulk", &hold).await;
    let done =
        eventually("an entry for the bulk run", PATIENCE, || entry(&node, "POST /api/v1/jobs/bulk")).await;
    assert_eq!(done["status"], 200, "{done}");
    assert!(done["details"].as_str().unwrap().contains("nobody waits"), "{done}");
    assert_eq!(node.get(&format!("/api/v1/batches/{bid}")).await.is(200).json["held_jobs"], JOBS);

    // A batch that is deleted goes whole, and that is written down, too.
    let path = format!("/api/v1/batches/{bid}");
    node.post("/api/v1/jobs/bulk", json!({"action": "release", "filter": {"batch": bid}})).await.is(200);
    node.send(Method::PUT, "/api/v1/holds/collections/tests", &json!({})).await.is(200);
    node.delete("/api/v1/holds/queues/ingest").await.is(200);
    let held = node.submit("late.txt", "late").await;
    node.batch_is(&held, "held").await;
    leave(&node, "DELETE", &format!("/api/v1/batches/{held}?confirm=true&reason=wrong"), &json!({})).await;
    let what = format!("DELETE /api/v1/batches/{held}");
    let gone = eventually("an entry for the deletion", PATIENCE, || entry(&node, &what)).await;
    assert_eq!((&gone["status"], &gone["who"]), (&200.into(), &"local".into()), "{gone}");
    let ordered = format!(r#"batch.delete {{"batch":"{held}","confirm":true,"reason":"wrong"}}"#);
    assert_eq!(gone["details"], ordered.as_str());
    node.get(&format!("/api/v1/batches/{held}")).await.problem(404, "not-found", "");
    node.get(&path).await.is(200);
}

#[tokio::test]
async fn the_log_says_what_was_ordered_and_not_only_where() {
    let node = TestNode::start().await;
    let bid = node.submit_url(node.files.url("/nothing").as_str()).await;
    let jid = node.job_is(&bid, "failed").await;
    node.batch_is(&bid, "failed").await;
    let bulk = async |body: Value| {
        node.post("/api/v1/jobs/bulk", body).await.is(200);
        details(&node, "POST /api/v1/jobs/bulk").await
    };
    let dry = bulk(json!({"action": "requeue", "filter": {"batch": bid}, "dry_run": true})).await;
    assert_eq!(
        dry,
        format!(r#"jobs.bulk {{"action":"requeue","dry_run":true,"filter":{{"batch":"{bid}"}}}}"#)
    );
    let run = bulk(json!({"action": "priority", "priority": "slow", "filter": {"states": ["failed"]}})).await;
    assert_eq!(run, r#"jobs.bulk {"action":"priority","filter":{"states":["failed"]},"priority":"slow"}"#);

    node.post("/api/v1/node/pause", json!({"reason": "a disk is changed"})).await.is(200);
    let paused = details(&node, "POST /api/v1/node/pause").await;
    assert_eq!(paused, r#"node.pause {"reason":"a disk is changed"}"#);
    node.post("/api/v1/node/resume", json!({})).await.is(200);
    assert_eq!(details(&node, "POST /api/v1/node/resume").await, "node.resume");
    node.send(Method::PATCH, "/api/v1/pools/notify", &json!({"size": 3})).await.is(200);
    assert_eq!(details(&node, "PATCH /api/v1/pools/notify").await, r#"pool.set {"pool":"notify","size":3}"#);
    let change = json!({"set": {"pools.notify.size": 2}, "unset": ["pools.recording.size"]});
    node.send(Method::PATCH, "/api/v1/settings", &change).await.is(200);
    let changed = details(&node, "PATCH /api/v1/settings").await;
    let (unset, set) = (
        r#"settings.unset {"keys":["pools.recording.size"]}"#,
        r#"settings.set {"settings":{"pools.notify.size":2}}"#,
    );
    assert_eq!(changed, format!("{unset}; {set}"));

    // Also what was refused, and what was asked for by the tree.
    node.delete(&format!("/api/v1/jobs/{jid}?reason=old")).await.problem(409, "needs-confirmation", "");
    let refused = details(&node, &format!("DELETE /api/v1/jobs/{jid}")).await;
    assert_eq!(refused, format!(r#"job.delete {{"confirm":false,"jid":"{jid}","reason":"old"}}"#));
    let params = json!({"jid": jid, "confirm": true, "reason": "nobody wants it"});
    let put = node.post("/api/v1/requests", json!({"action": "job.delete", "params": params})).await.is(202);
    let id = put.json["id"].as_str().unwrap();
    let ordered = format!(r#"job.delete {{"confirm":true,"jid":"{jid}","reason":"nobody wants it"}}"#);
    assert_eq!(details(&node, "POST /api/v1/requests").await, ordered);
    let what = format!("REQUEST job.delete {id}");
    let done = eventually("an entry for the request", PATIENCE, || entry(&node, &what)).await;
    assert_eq!((&done["details"], &done["status"]), (&ordered.as_str().into(), &200.into()), "{done}");
}

#[tokio::test]
async fn no_secret_is_in_the_log() {
    let node = TestNode::start().await;
    let url = "https://ann:hunter2@example.org/a?signature=hunter2";
    let profile = format!(
        "name = \"more_content\"\ncollection = \"more\"\ntitle = \"More\"\nowner = \"ark:/99999/fk4more\"\ncallback = \"{url}\"\n"
    );
    node.send(Method::PUT, "/api/v1/profiles/more_content", &json!({"text": profile})).await.is(200);
    let put = details(&node, "PUT /api/v1/profiles/more_content").await;
    assert!(put.contains(r#""name":"more_content""#) && put.contains("bytes, "), "{put}");
    node.send(Method::PUT, "/api/v1/holds/queues/ingest", &json!({"reason": format!("see {url}")}))
        .await
        .is(200);
    let held = details(&node, "PUT /api/v1/holds/queues/ingest").await;
    assert!(held.contains("see https://***@example.org/a?signature=***"), "{held}");
    let secret = json!({"set": {"mail.by.smtp.password": "hunter2"}});
    let refused = node.send(Method::PATCH, "/api/v1/settings", &secret).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    let tried = details(&node, "PATCH /api/v1/settings").await;
    assert!(tried.contains("mail.by.smtp.password"), "{tried}");
    for entry in entries(&node).await {
        assert!(!entry.to_string().contains("hunter2"), "{entry}");
    }
    let log = std::fs::read_to_string(node.dir.path().join("log")).unwrap();
    assert!(!log.contains("hunter2"), "it is in the ordinary log");
}
