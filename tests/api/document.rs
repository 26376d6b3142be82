//! The document that describes the API, and what the framework itself refuses.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::json;

use super::kit::{Answer, TestNode};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

#[tokio::test]
async fn everything_in_the_document_is_served_and_on_the_page() {
    let node = TestNode::start_with("rate = 100000", "").await;
    let document = node.get("/openapi.json").await.is(200).json;
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let page = include_str!("../../docs/api.md");
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (path, methods) in document["paths"].as_object().unwrap() {
        let page_has = page.contains(path.as_str());
        let on_page = page_has || ["/api/v1/node/resume", "/files/{path}"].contains(&path.as_str());
        assert!(on_page, "{path} is not on the page");
        for (method, operation) in methods.as_object().unwrap() {
            assert!(METHODS.contains(&method.as_str()), "{method} {path}");
            assert!(operation["responses"].is_object());
            let name = operation["operationId"].as_str().unwrap().to_owned();
            assert!(names.insert(name.clone()), "{name} is there twice");
            ids.insert(format!("{method} {path}"));
            if method == "get" && path == "/api/v1/events" || path == "/api/v1/node/drain" {
                continue;
            }
            // With ids of nothing: whatever is answered, the path is known.
            let concrete: String = path
                .split('/')
                .map(|part| if part.starts_with('{') { "nothing" } else { part })
                .collect::<Vec<_>>()
                .join("/");
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let answer = node.send(method.clone(), &concrete, &json!({})).await;
            let detail = answer.json["detail"].as_str().unwrap_or_default();
            assert!(answer.status < 500 && answer.status != 405, "{method} {concrete}: {}", answer.text());
            assert_ne!(detail, "there is nothing at this path", "{method} {concrete}");
        }
    }
    assert!(ids.len() >= 45, "{ids:?}");
    // Every reference leads somewhere.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn what_the_framework_refuses_is_a_problem_like_all_others() {
    let node = TestNode::start_with("max_body = 1000", "").await;
    node.get("/api/v1/nothing").await.problem(404, "not-found", "nothing at this path");
    node.get("/nothing").await.problem(404, "not-found", "");
    node.get("/files/work/x").await.problem(404, "not-found", "");
    node.get("/files/work/../../etc/passwd?expires=1&signature=x").await.problem(404, "not-found", "");
    let refused =
        node.send(Method::PUT, "/api/v1/batches", &json!({})).await.problem(405, "method-not-allowed", "");
    assert!(refused.header("allow").contains("POST"), "{:?}", refused.headers);
    node.post("/api/v1/jobs/bulk", json!({"reason": "x".repeat(2000)})).await.problem(
        413,
        "too-large",
        "1000",
    );
    node.post("/api/v1/jobs/bulk", json!({"action": 7})).await.problem(422, "unprocessable", "");
    node.post("/api/v1/node/pause", json!(["a list"])).await.problem(422, "unprocessable", "a JSON object");
    let text = node.request(Method::POST, "/api/v1/jobs/bulk").header("x-ingestd", "1").body("x");
    Answer::of(text.send().await.unwrap()).await.problem(415, "unsupported-media-type", "");
    node.get("/api/v1/jobs/%ff").await.problem(400, "invalid", "");
}
