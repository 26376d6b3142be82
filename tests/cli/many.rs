//! Lists of several pages, and actions on more jobs than a page has.

use serde_json::{Value, json};

use crate::kit::TestNode;

/// More than a page.
const JOBS: usize = 1_010;

#[tokio::test]
async fn all_pages_are_followed_and_all_jobs_are_acted_on() {
    let node = TestNode::start().await;
    node.cli(&["hold", "queue", "ingest"]).await.is(0);
    let url = node.files.put("/a.txt", "a");
    let rows: Vec<Value> = (0..JOBS).map(|row| format!("{url} local-{row}").into()).collect();
    std::fs::write(node.dir.path().join("rows.json"), json!(rows).to_string()).unwrap();
    let submitted =
        node.json(&["submit", "--manifest", "rows.json", "-p", "test_content", "--submitter", "ann"]).await;
    let bid = submitted["bid"].as_str().unwrap();
    ingest_harness::eventually("all rows to be jobs", std::time::Duration::from_mins(1), || async {
        let batch = node.get(&format!("/api/v1/batches/{bid}")).await.json;
        (batch["expansion"]["done"] == true).then_some(())
    })
    .await;

    let count = |list: &Value| list["jobs"].as_array().unwrap().len();
    let all = node.json(&["job", "list", "--batch", bid]).await;
    assert_eq!(count(&all), JOBS);
    assert!(all.get("next").is_none(), "{}", all["next"]);
    let some = node.json(&["job", "list", "--batch", bid, "--limit", "1005"]).await;
    assert_eq!(count(&some), 1_005);
    assert_eq!(some["jobs"].as_array().unwrap()[..], all["jobs"].as_array().unwrap()[..1_005]);

    let dry = node.json(&["job", "hold", "--batch", bid, "--dry-run"]).await;
    assert_eq!(dry["total"], JOBS);
    let held = node.json(&["job", "hold", "--batch", bid]).await;
    assert_eq!((&held["done"], &held["refused"]), (&json!(JOBS), &json!(0)));
    assert_eq!(node.get("/api/v1/states/counts").await.json["jobs"]["held"], JOBS);
    let gone = node.json(&["job", "delete", "--batch", bid, "--state", "held", "--yes"]).await;
    assert_eq!(gone["done"], JOBS);
    assert_eq!(node.get("/api/v1/states/counts").await.json["jobs"]["held"], 0);
}
