//! `access`: asked for, fetched, tried again, deleted.

use ingest_harness::eventually;
use serde_json::json;

use crate::kit::TestNode;

#[tokio::test]
async fn an_object_is_asked_for_and_fetched() {
    let node = TestNode::start().await;
    let bid = node.submit("a.txt", "what is wanted").await;
    node.batch_is(&bid, "completed").await;
    let ark = node.json(&["job", "list"]).await["jobs"][0]["primary_id"].as_str().unwrap().to_owned();

    node.cli(&["hold", "queue", "accessSmall"]).await.is(0);
    let asked = node.json(&["access", "submit", &ark, "--form", "bag", "--version", "1"]).await;
    let token = asked["token"].as_str().unwrap();
    node.cli(&["access", "get", token]).await.is(8).complains(&["is expected at", "--wait"]);
    node.cli(&["access", "list"]).await.is(0).says(&[
        "ITEM",
        asked["aid"].as_str().unwrap(),
        "pending",
        &ark,
    ]);
    node.cli(&["release", "queue", "accessSmall"]).await.is(0);

    node.cli(&["access", "get", token, "--wait", "--output", "got.zip"]).await.is(0).says(&["got.zip"]);
    let bytes = std::fs::read(node.dir.path().join("got.zip")).unwrap();
    assert!(bytes.starts_with(b"PK"), "{} bytes", bytes.len());
    node.cli(&["access", "get", token, "-o", "got.zip"]).await.is(2).complains(&["--overwrite"]);
    let again = node.json(&["access", "get", token, "-o", "got.zip", "--overwrite"]).await;
    assert_eq!(again, json!({"file": "got.zip", "bytes": bytes.len()}));
    let at_once = node.cli(&["access", "submit", &ark, "--wait"]).await.is(0);
    let named = at_once.out.lines().last().unwrap().split(": ").next().unwrap().to_owned();
    assert!(node.dir.path().join(&named).is_file(), "{named} in {}", at_once.out);

    node.cli(&["access", "get", "small-qid0000000000-nonsense"]).await.is(10);
    node.cli(&["access", "submit", "ark:/99999/fk4nothing"]).await.is(10);
    node.cli(&["access", "submit", "nonsense"]).await.is(2);
}

#[tokio::test]
async fn a_failed_item_is_tried_again_and_deleted() {
    let node = TestNode::start().await;
    let bid = node.submit("a.txt", "a").await;
    node.batch_is(&bid, "completed").await;
    let ark = node.json(&["job", "list"]).await["jobs"][0]["primary_id"].as_str().unwrap().to_owned();
    node.cli(&["hold", "queue", "accessSmall"]).await.is(0);
    let asked = node.json(&["access", "submit", &ark]).await;
    let aid = asked["aid"].as_str().unwrap();
    // What is stored goes before it is put together.
    let storage = node.dir.path().join("storage");
    for entry in std::fs::read_dir(&storage).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            std::fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    node.cli(&["release", "queue", "accessSmall"]).await.is(0);
    let failed = || async {
        let list = node.json(&["access", "list", "--state", "failed", "--size", "small"]).await;
        list["items"].as_array().unwrap().iter().any(|item| item["aid"] == *aid).then_some(())
    };
    eventually("an item that has failed", std::time::Duration::from_mins(1), failed).await;
    node.cli(&["access", "get", asked["token"].as_str().unwrap()])
        .await
        .is(1)
        .complains(&["could not be put together"]);
    node.cli(&["access", "requeue", aid]).await.is(0).says(&[aid, "processing"]);
    eventually("an item that has failed again", std::time::Duration::from_mins(1), failed).await;
    node.cli(&["access", "delete", aid]).await.is(12).complains(&["--yes"]);
    node.cli(&["access", "delete", aid, "--yes"]).await.is(0).says(&["is deleted"]);
    node.cli(&["access", "delete", aid, "--yes"]).await.is(10);
    assert_eq!(node.json(&["access", "list"]).await["items"], json!([]));
}
