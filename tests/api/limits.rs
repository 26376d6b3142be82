//! Limits over all nodes, what one node does for all, and what was written down.

use reqwest::Method;
use serde_json::json;

use super::kit::TestNode;

#[tokio::test]
async fn a_limit_is_set_shown_and_cleared() {
    let node = TestNode::start().await;
    let none = node.get("/api/v1/limits").await.is(200).json;
    assert_eq!(none["limits"], json!([]), "{none}");
    assert_eq!(
        (&none["states"], &none["host_states"]),
        (&json!(["downloading", "processing"]), &json!(["downloading"]))
    );
    let at = "/api/v1/limits/collection/tests";
    let set = node.send(Method::PUT, at, &json!({"limit": 2})).await.is(200).json;
    assert_eq!(set, json!({"kind": "collection", "name": "tests", "limit": 2, "changed": true}));
    assert_eq!(node.send(Method::PUT, at, &json!({"limit": 2})).await.json["changed"], false);
    node.send(Method::PUT, "/api/v1/limits/hosts/default", &json!({"limit": 9})).await.is(200);
    let all = node.get("/api/v1/limits").await.is(200).json;
    assert_eq!(all["defaults"], json!({"host": 9}));
    let line = &all["limits"][0];
    assert_eq!(
        (&line["name"], &line["limit"], &line["from"], &line["held"], &line["waiting"]),
        (&"tests".into(), &2.into(), &"set".into(), &0.into(), &0.into()),
        "{all}"
    );
    let metrics = node.get("/metrics").await.is(200).text();
    for line in [
        "ingestd_limit_slots{limit=\"collection-tests\"} 2",
        "ingestd_limit_held{limit=\"collection-tests\"} 0",
        "ingestd_limit_waiting{limit=\"collection-tests\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    // Whatever is limited completes all the same.
    let bid = node.submit("a.txt", "one").await;
    node.batch_is(&bid, "completed").await;
    let cleared = node.send(Method::DELETE, at, &json!({})).await.is(200).json;
    assert_eq!((&cleared["limit"], &cleared["changed"]), (&json!(null), &true.into()));
    node.send(Method::PUT, "/api/v1/limits/colour/red", &json!({"limit": 1})).await.is(404);
    node.send(Method::PUT, at, &json!({"limit": 1_000_000})).await.is(400);
    node.send(Method::PUT, at, &json!({"most": 1})).await.is(422);
}

#[tokio::test]
async fn routines_and_statistics_are_shown() {
    let node = TestNode::start().await;
    let ran = node.post("/api/v1/upkeep/semaphores/run", json!({})).await.is(200).json;
    assert_eq!((&ran["node"], &ran["removed"]), (&"node-1".into(), &0.into()), "{ran}");
    let all = node.get("/api/v1/upkeep").await.is(200).json;
    let names: Vec<&str> =
        all["routines"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["jobs", "batches", "requests", "semaphores", "keys", "shards"]);
    // Each can be run at once by a person, and says what it did.
    for name in names {
        let ran = node.post(&format!("/api/v1/upkeep/{name}/run"), json!({})).await.is(200).json;
        assert_eq!((&ran["removed"], ran.get("error")), (&0.into(), None), "{name}: {ran}");
    }
    let named =
        all["routines"].as_array().unwrap().iter().find(|one| one["name"] == "semaphores").unwrap().clone();
    assert_eq!((&named["last"]["node"], &named["every_ms"]), (&"node-1".into(), &600_000.into()), "{named}");
    node.post("/api/v1/upkeep/dust/run", json!({})).await.is(404);
    assert_eq!(node.get("/api/v1/stats").await.is(200).json, json!({"lines": []}));
    let nodes = node.get("/api/v1/nodes").await.is(200).json;
    assert_eq!(nodes["nodes"][0]["leads"], json!(["stats", "timer"]), "{nodes}");
}
