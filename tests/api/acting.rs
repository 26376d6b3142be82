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
    assert!(reasons["groups"][0]["group"].as_str().unwrap().starts_with("g1-"), "{reasons}");

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
    let lifted = node.delete("/api/v1/holds/collections/tests").await.is(200).json;
    assert_eq!(
        (&lifted["held"], &lifted["changed"], &lifted["released"]),
        (&false.into(), &true.into(), &serde_json::Value::Null)
    );
    let still = json!({"jobs": 0, "batches": 1, "command": "ingestd release collection tests --all"});
    assert_eq!(lifted["still_held"], still, "{lifted}");
    node.batch_is(&bid, "held").await;
    node.send(Method::PUT, "/api/v1/holds/collections/tests", &json!({"reason": "moving"})).await.is(200);
    let lifted = node.delete("/api/v1/holds/collections/tests?all=true").await.is(200).json;
    assert_eq!((&lifted["changed"], &lifted["released"]["batches"]), (&true.into(), &1.into()), "{lifted}");
    assert_eq!(lifted["still_held"], json!({"jobs": 0, "batches": 0}), "{lifted}");
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

/// A batch whose jobs have all failed: one for each path, those at `forbidden` with 403 and the others with 404. Answers its id.
async fn failed_batch(node: &TestNode, missing: usize, forbidden: usize) -> String {
    let missing = (0..missing).map(|at| node.files.url(&format!("/missing/{at}.txt")));
    let forbidden = (0..forbidden).map(|at| node.files.forbid(&format!("/forbidden/404-{at}.txt")));
    let manifest: Vec<String> = missing.chain(forbidden).map(|url| url.to_string()).collect();
    let body = json!({"profile": "test_content", "submitter": "ann", "manifest": manifest});
    let bid = node.post("/api/v1/batches", body).await.is(201).json["bid"].as_str().unwrap().to_owned();
    node.batch_is(&bid, "failed").await;
    bid
}

/// The jobs of each group: its key, how many, and which a filter for the key selects.
async fn groups(node: &TestNode) -> Vec<(String, u64, Vec<String>)> {
    let reasons = node.get("/api/v1/jobs/reasons").await.is(200).json;
    let mut groups = Vec::new();
    for group in reasons["groups"].as_array().unwrap() {
        let key = group["group"].as_str().unwrap().to_owned();
        let page = node.get(&format!("/api/v1/jobs?state=failed&group={key}")).await.is(200).json;
        let jobs = page["jobs"].as_array().unwrap().iter();
        let jobs: Vec<String> = jobs.map(|job| job["jid"].as_str().unwrap().to_owned()).collect();
        assert_eq!(group["jobs"], json!(jobs), "the group names its jobs");
        groups.push((key, group["count"].as_u64().unwrap(), jobs));
    }
    groups
}

#[tokio::test]
async fn a_group_of_failures_is_requeued_and_no_other_is() {
    let node = TestNode::start().await;
    let bid = failed_batch(&node, 5, 2).await;
    let groups = groups(&node).await;
    let counts: Vec<_> = groups.iter().map(|(_, count, jobs)| (*count, jobs.len())).collect();
    assert_eq!(counts, [(5, 5), (2, 2)], "{groups:?}");
    let reasons = node.get("/api/v1/jobs/reasons").await.json;
    assert_eq!(
        reasons["groups"][1]["reason"], "<path>: <url>: the server answers 403 Forbidden",
        "{reasons}"
    );
    let (key, _, jobs) = &groups[1];
    let only = node.get(&format!("/api/v1/jobs/reasons?group={key}")).await.is(200).json;
    assert_eq!(
        (only["groups"].as_array().unwrap().len(), &only["groups"][0]["count"]),
        (1, &2.into()),
        "{only}"
    );

    let bulk = async |body: serde_json::Value| node.post("/api/v1/jobs/bulk", body).await;
    let filter = json!({"states": ["failed"], "group": key});
    let dry = bulk(json!({"action": "requeue", "filter": filter, "dry_run": true})).await.is(200).json;
    assert_eq!(dry["total"], 2, "{dry}");
    let ran = bulk(json!({"action": "requeue", "filter": filter, "expected": 2})).await.is(200).json;
    assert_eq!(ran["done"], 2, "{ran}");
    for job in node.get(&format!("/api/v1/jobs?batch={bid}")).await.json["jobs"].as_array().unwrap() {
        let is_meant = jobs.iter().any(|jid| job["jid"] == *jid);
        assert_eq!(job["retry_count"], u32::from(is_meant), "{job}");
    }
    for wrong in ["g1-xyz", "g2-0123456789abcdef", "404"] {
        let answer = node.get(&format!("/api/v1/jobs?group={wrong}")).await;
        assert_eq!(answer.problem(400, "invalid", "ingestd job reasons").fields(), ["group"]);
    }
    bulk(json!({"action": "requeue", "filter": {"group": "nonsense"}})).await.problem(
        422,
        "unprocessable",
        "no key of a group",
    );
}

#[tokio::test]
async fn a_bulk_action_is_refused_whole_when_another_number_matches_than_was_counted() {
    let node = TestNode::start().await;
    let bid = failed_batch(&node, 3, 0).await;
    let filter = json!({"batch": bid});
    let bulk = async |body: serde_json::Value| node.post("/api/v1/jobs/bulk", body).await;
    for (action, expected) in [
        ("requeue", 2),
        ("requeue", 4),
        ("requeue", 0),
        ("delete", 2),
        ("priority", 1),
        ("hold", 1),
        ("release", 1),
    ] {
        let dry_run = [false, true];
        for dry_run in dry_run {
            let priority = (action == "priority").then_some(5);
            let body = json!({"action": action, "filter": filter, "expected": expected, "dry_run": dry_run,
                "confirm": true, "priority": priority});
            let refused = bulk(body).await;
            assert_eq!(
                refused.problem(409, "changed", "nothing was changed").fields(),
                ["expected"],
                "{action}"
            );
        }
    }
    let jobs = node.get(&format!("/api/v1/jobs?batch={bid}")).await.json;
    for job in jobs["jobs"].as_array().unwrap() {
        assert_eq!((&job["state"], &job["retry_count"]), (&"failed".into(), &0.into()), "{job}");
    }
    let gone = bulk(json!({"action": "delete", "filter": filter, "expected": 3, "confirm": true})).await;
    assert_eq!(gone.is(200).json["done"], 3);
}
