//! `batch`: looked at, followed, held, reported and deleted.

use serde_json::json;

use crate::kit::TestNode;

#[tokio::test]
async fn batches_are_listed_shown_followed_and_reported() {
    let node = TestNode::start().await;
    let good = node.submit("good.txt", "good").await;
    let bad = node.submit_url(node.files.url("/bad.txt").as_str()).await;
    node.cli(&["batch", "watch", &good]).await.is(0).complains(&["completed, 1 of 1 jobs completed"]);
    let both = node.cli(&["batch", "watch", &good, &bad, "--json"]).await.is(13);
    let last = both.lines().pop().unwrap();
    assert!(["completed", "failed"].contains(&last["state"].as_str().unwrap()), "{last}");

    node.cli(&["batch", "list"]).await.is(0).says(&[
        "BATCH",
        &good,
        &bad,
        "completed",
        "failed",
        "test_content",
    ]);
    let names = |list: &serde_json::Value| -> Vec<String> {
        list["batches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["bid"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&node.json(&["batch", "list"]).await), [bad.as_str(), good.as_str()]);
    assert_eq!(names(&node.json(&["batch", "list", "--limit", "1"]).await), [bad.as_str()]);
    let oldest = ["batch", "list", "--oldest-first", "--limit", "1"];
    assert_eq!(names(&node.json(&oldest).await), [good.as_str()]);
    assert_eq!(
        names(&node.json(&["batch", "list", "--state", "failed", "--submitter", "ann"]).await),
        [bad.as_str()]
    );
    assert_eq!(names(&node.json(&["batch", "list", "--newer-than", "1h"]).await).len(), 2);
    assert!(names(&node.json(&["batch", "list", "--older-than", "1h"]).await).is_empty());
    node.cli(&["batch", "list", "--text", "nowhere"]).await.is(0).says(&["There are no such batches."]);

    node.cli(&["batch", "show", &good]).await.is(0).says(&[&good, "completed", "1 completed", "payload_url"]);
    assert_eq!(node.json(&["batch", "show", &bad]).await["jobs"]["failed"], 1);
    node.cli(&["batch", "report", &bad])
        .await
        .is(0)
        .says(&["Some of your submission could not be stored", &bad]);
    node.cli(&["batch", "report", &bad, "--format", "csv"])
        .await
        .is(0)
        .says(&["batch,job,submitter", "failed"]);
    assert_eq!(node.json(&["batch", "report", &bad]).await["number"], 1);
    node.cli(&["batch", "show", "bid0000009999"]).await.is(10).complains(&["no batch bid0000009999"]);
}

#[tokio::test]
async fn a_waiting_batch_is_held_and_released() {
    let node = TestNode::start().await;
    node.cli(&["pause"]).await.is(0);
    let bid = node.submit("a.txt", "a").await;
    node.cli(&["batch", "hold", &bid, "--reason", "look first"])
        .await
        .is(0)
        .says(&["it was pending, and is held"]);
    let held = node.get(&format!("/api/v1/batches/{bid}")).await.json;
    assert_eq!(held["state"], "held");
    assert!(held["message"].as_str().unwrap().contains("look first"), "{held}");
    node.cli(&["resume"]).await.is(0);
    node.cli(&["batch", "hold", &bid]).await.is(11);
    assert_eq!(
        node.json(&["batch", "release", &bid]).await,
        json!({"bid": bid, "from": "held", "state": "pending"})
    );
    node.batch_is(&bid, "completed").await;
}

#[tokio::test]
async fn a_repaired_batch_is_reported_again() {
    let node = TestNode::start().await;
    let bid = node.submit_url(node.files.url("/late.txt").as_str()).await;
    node.batch_is(&bid, "failed").await;
    node.files.put("/late.txt", "late");
    node.cli(&["job", "requeue", "--batch", &bid, "--reason", "source repaired"])
        .await
        .is(0)
        .says(&["1 of 1 job done"]);
    // Whoever follows it waits for what is tried again, and hears what is left to do.
    let told = ["what was tried again has completed since", "batch update-report"];
    node.cli(&["batch", "watch", &bid]).await.is(13).complains(&told);
    node.job_is(&bid, "completed").await;
    node.cli(&["batch", "update-report", &bid]).await.is(0).says(&["it was failed"]);
    node.batch_is(&bid, "completed").await;
    let report = node.json(&["batch", "report", &bid]).await;
    assert_eq!((&report["number"], report["successful_jobs"].as_array().unwrap().len()), (&json!(2), 1));
    // What is shown is the update, as it was told.
    let jid = report["successful_jobs"][0]["jid"].as_str().unwrap();
    assert_eq!(report["update"], json!({"completed": [jid], "deleted": []}));
    let told =
        ["This is what has changed since the last report.", "Completed since the last report (1)", jid];
    node.cli(&["batch", "report", &bid]).await.is(0).says(&told);
    node.cli(&["batch", "report", &bid, "--format", "csv"]).await.is(0).says(&[jid, "completed"]);
}

#[tokio::test]
async fn deleting_a_batch_wants_a_yes() {
    let node = TestNode::start().await;
    let bid = node.submit_url(node.files.url("/none.txt").as_str()).await;
    node.batch_is(&bid, "failed").await;
    node.cli(&["batch", "delete", &bid]).await.is(12).complains(&["cannot be taken back", "--yes"]);
    assert_eq!(node.get(&format!("/api/v1/batches/{bid}")).await.status, 200);
    node.cli(&["batch", "delete", &bid, "--yes"])
        .await
        .is(0)
        .says(&["with 1 jobs", "the depositor will not be told"]);
    assert_eq!(node.get(&format!("/api/v1/batches/{bid}")).await.status, 404);
    node.cli(&["batch", "delete", &bid, "--yes"]).await.is(10);
}
