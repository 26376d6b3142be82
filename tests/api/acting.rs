//! What people do: hold, release, requeue, delete, one by one and many at once.

use reqwest::Method;
use serde_json::json;

use super::kit::TestNode;

#[tokio::test]
async fn a_failed_job_is_requeued_after_its_source_was_repaired() {
    let node = TestNode::start().await;
    let missing = node.files.url("/late.txt");
    let bid = node.submit_url(missing.as_str()).await;
    let jid = node.job_is(&bid, "failed").await;
    node.batch_is(&bid, "failed").await;
    let job = node.get(&format!("/api/v1/jobs/{jid}")).await.is(200).json;
    assert_eq!(job["may"], json!(["requeue", "delete", "priority"]), "{job}");
    let reasons = node.get("/api/v1/jobs/reasons").await.is(200).json;
    assert_eq!(
        (&reasons["groups"][0]["count"], &reasons["groups"][0]["jobs"][0]),
        (&1.into(), &jid.as_str().into())
    );

    let path = format!("/api/v1/jobs/{jid}");
    node.post(&format!("{path}/requeue"), json!({"state": "completed"})).await.problem(
        409,
        "refused",
        "cannot be moved",
    );
    node.post(&format!("{path}/requeue"), json!({"stat": "x"})).await.problem(
        422,
        "unprocessable",
        "unknown field",
    );
    node.post(&format!("{path}/release"), json!({})).await.problem(
        409,
        "refused",
        "from failed it can go to",
    );
    node.post("/api/v1/jobs/jid0000000099/requeue", json!({})).await.problem(404, "not-found", "");
    node.files.put("/late.txt", "here now");
    let acted =
        node.post(&format!("{path}/requeue"), json!({"reason": "source repaired"})).await.is(200).json;
    assert_eq!((&acted["from"], acted["state"].is_string()), (&"failed".into(), true), "{acted}");
    node.job_is(&bid, "completed").await;
    let history = node.get(&format!("{path}/history")).await.text();
    assert!(history.contains("by local: source repaired"), "{history}");

    let update = node.post(&format!("/api/v1/batches/{bid}/update-report"), json!({})).await.is(200).json;
    assert_eq!((&update["from"], &update["state"]), (&"failed".into(), &"update-reporting".into()));
    node.batch_is(&bid, "completed").await;
    let report = node.get(&format!("/api/v1/batches/{bid}/report")).await.is(200).json;
    assert_eq!(
        (&report["number"], report["failed_jobs"].as_array().unwrap().len()),
        (&2.into(), 0),
        "{report}"
    );
    node.post(&format!("/api/v1/batches/{bid}/hold"), json!({})).await.problem(409, "refused", "");
    node.delete(&format!("/api/v1/batches/{bid}?confirm=true")).await.problem(409, "refused", "");
}

#[tokio::test]
async fn deletes_that_silence_a_report_have_to_be_confirmed() {
    let node = TestNode::start().await;
    let bid = node.submit_url(node.files.url("/nothing").as_str()).await;
    let jid = node.job_is(&bid, "failed").await;
    node.batch_is(&bid, "failed").await;
    let refused = node.delete(&format!("/api/v1/jobs/{jid}")).await;
    refused.problem(409, "needs-confirmation", "the depositor will not be told");
    node.delete(&format!("/api/v1/jobs/{jid}?confirm=yes")).await.problem(400, "invalid", "");
    node.get(&format!("/api/v1/jobs/{jid}")).await.is(200);
    let gone = node
        .delete(&format!("/api/v1/jobs/{jid}?confirm=true&reason=nobody%20wants%20it"))
        .await
        .is(200)
        .json;
    assert_eq!(gone["warning"], "the depositor will not be told");
    node.get(&format!("/api/v1/jobs/{jid}")).await.problem(404, "not-found", "");
    node.delete(&format!("/api/v1/batches/{bid}")).await.problem(409, "needs-confirmation", &bid);
    let gone = node.delete(&format!("/api/v1/batches/{bid}?confirm=true")).await.is(200).json;
    assert_eq!(
        (&gone["bid"], &gone["warning"]),
        (&bid.as_str().into(), &"the depositor will not be told".into())
    );
    node.get(&format!("/api/v1/batches/{bid}")).await.problem(404, "not-found", "");
    node.delete("/api/v1/jobs/jid0000000099?confirm=true").await.problem(404, "not-found", "");
}

#[tokio::test]
async fn jobs_that_wait_are_held_released_and_put_back() {
    let node = TestNode::start().await;
    let held = node
        .send(Method::PUT, "/api/v1/holds/queues/ingest", &json!({"reason": "a look first"}))
        .await
        .is(200);
    assert_eq!((&held.json["held"], &held.json["changed"]), (&true.into(), &true.into()));
    let again = node.send(Method::PUT, "/api/v1/holds/queues/ingest", &json!({})).await.is(200);
    assert_eq!(again.json["changed"], false);
    let holds = node.get("/api/v1/holds").await.is(200).json;
    assert_eq!(
        (&holds["queues"][0]["name"], &holds["queues"][0]["why"]),
        (&"ingest".into(), &"a look first".into())
    );
    let bid = node.submit("a.txt", "one").await;
    let jid = node.job_is(&bid, "pending").await;

    let path = format!("/api/v1/jobs/{jid}");
    let acted =
        node.send(Method::PUT, &format!("{path}/priority"), &json!({"priority": "slow"})).await.is(200).json;
    assert_eq!(acted["priority"], 80);
    assert_eq!(node.get(&path).await.json["priority"], 80);
    let wrong = node.send(Method::PUT, &format!("{path}/priority"), &json!({"priority": 100})).await;
    assert_eq!(wrong.problem(400, "invalid", "0 to 99").fields(), ["priority"]);
    node.post(&format!("{path}/hold"), json!({"reason": "x".repeat(1001)}))
        .await
        .problem(400, "invalid", "1000");
    let acted = node.post(&format!("{path}/hold"), json!({})).await.is(200).json;
    assert_eq!(acted["state"], "held");
    assert_eq!(node.get(&format!("/api/v1/batches/{bid}")).await.json["held_jobs"], 1);
    assert_eq!(node.post(&format!("{path}/release"), json!({})).await.is(200).json["state"], "pending");
    node.delete("/api/v1/holds/queues/ingest").await.is(200);
    node.batch_is(&bid, "completed").await;
    node.delete("/api/v1/holds/queues/none").await.problem(404, "not-found", "accessSmall");
}

#[tokio::test]
async fn a_collection_is_held_and_released_with_all_that_it_stopped() {
    let node = TestNode::start().await;
    node.send(Method::PUT, "/api/v1/holds/collections/tests", &json!({"reason": "moving"})).await.is(200);
    let bid = node.submit("a.txt", "one").await;
    let batch = node.batch_is(&bid, "held").await;
    assert!(batch["message"].as_str().unwrap().contains("tests"), "{batch}");
    node.post(&format!("/api/v1/batches/{bid}/release"), json!({})).await.problem(
        409,
        "refused",
        "is held by local",
    );
    assert_eq!(node.get("/api/v1/holds").await.json["collections"][0]["name"], "tests");
    let lifted = node.delete("/api/v1/holds/collections/tests?all=true").await.is(200).json;
    assert_eq!((&lifted["changed"], &lifted["released"]["batches"]), (&true.into(), &1.into()), "{lifted}");
    node.batch_is(&bid, "completed").await;
    assert_eq!(node.delete("/api/v1/holds/collections/tests").await.is(200).json["changed"], false);
}

#[tokio::test]
async fn many_jobs_are_counted_before_they_are_touched() {
    let node = TestNode::start().await;
    let manifest: Vec<String> = (0..4).map(|at| node.files.url(&format!("/{at}.txt")).to_string()).collect();
    let body = json!({"profile": "test_content", "submitter": "ann", "manifest": manifest});
    let bid = node.post("/api/v1/batches", body).await.is(201).json["bid"].as_str().unwrap().to_owned();
    node.batch_is(&bid, "failed").await;
    let bulk = async |body: serde_json::Value| node.post("/api/v1/jobs/bulk", body).await;
    bulk(json!({"action": "requeue"})).await.problem(400, "invalid", "The filter is empty");
    bulk(json!({"action": "explode"})).await.problem(422, "unprocessable", "unknown variant");
    bulk(json!({"filter": {}})).await.problem(422, "unprocessable", "missing field `action`");
    bulk(json!({"action": "hold", "state": "failed", "filter": {"batch": bid}}))
        .await
        .problem(400, "invalid", "state");
    bulk(json!({"action": "hold", "filter": {"states": ["failed"]}}))
        .await
        .problem(400, "invalid", "no jobs");
    bulk(json!({"action": "priority", "filter": {"batch": bid}})).await.problem(400, "invalid", "priority");
    let dry =
        bulk(json!({"action": "requeue", "filter": {"batch": bid}, "dry_run": true})).await.is(200).json;
    assert_eq!(
        (&dry["total"], &dry["states"]["failed"], &dry["dry_run"]),
        (&4.into(), &4.into(), &true.into()),
        "{dry}"
    );
    assert_eq!(dry["examples"].as_array().unwrap().len(), 4);
    let refused = bulk(json!({"action": "delete", "filter": {"batch": bid}})).await;
    refused.problem(409, "needs-confirmation", "delete jobs");
    for at in 0..4 {
        node.files.put(&format!("/{at}.txt"), "now");
    }
    let run =
        json!({"action": "requeue", "filter": {"batch": bid}, "id": "run-1", "reason": "source repaired"});
    let ran = bulk(run.clone()).await.is(200).json;
    assert_eq!(
        (&ran["done"], &ran["refused"], &ran["stopped"]),
        (&4.into(), &0.into(), &serde_json::Value::Null),
        "{ran}"
    );
    let again = bulk(run).await.is(200).json;
    assert_eq!(again["done"], 0, "{again}");
}
