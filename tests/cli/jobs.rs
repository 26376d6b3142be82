//! `job`: looked at, requeued, held, released, deleted; one and several.

use serde_json::{Value, json};

use crate::kit::TestNode;

impl TestNode {
    async fn failed_job(&self, name: &str) -> (String, String) {
        let bid = self.submit_url(self.files.url(name).as_str()).await;
        self.batch_is(&bid, "failed").await;
        (self.job_is(&bid, "failed").await, bid)
    }

    async fn job(&self, jid: &str) -> Value {
        self.get(&format!("/api/v1/jobs/{jid}")).await.json
    }
}

#[tokio::test]
async fn jobs_are_listed_shown_and_tell_their_story() {
    let node = TestNode::start().await;
    let good = node.submit("good.txt", "good").await;
    let done = node.job_is(&good, "completed").await;
    let (failed, _) = node.failed_job("/bad.txt").await;
    node.cli(&["job", "list"]).await.is(0).says(&["JOB", &done, &failed, "ark:/99999/"]);
    let list = node
        .json(&["job", "list", "--state", "failed,held", "--text", "bad.txt", "--max-priority", "slow"])
        .await;
    assert_eq!(list["jobs"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["jobs"][0]["jid"], json!(failed));
    node.cli(&["job", "show", &done]).await.is(0).says(&[
        &done,
        "completed",
        "configuration.payload_url",
        "nothing now",
    ]);
    assert_eq!(node.json(&["job", "show", &failed]).await["may"], json!(["requeue", "delete", "priority"]));
    node.cli(&["job", "history", &done]).await.is(0).says(&["FROM", "downloading", "completed", "node-1"]);
    let history = node.json(&["job", "history", &failed]).await;
    assert_eq!(history["history"].as_array().unwrap().last().unwrap()["to"], "failed");
    node.cli(&["job", "reasons"]).await.is(0).says(&["REASON", "404", &failed]);
    assert_eq!(node.json(&["job", "reasons"]).await["groups"][0]["count"], 1);
    node.cli(&["job", "show", "jid0000009999"]).await.is(10);
    node.cli(&["job", "show", "nonsense"]).await.is(2);
    node.cli(&["job", "list", "--state", "faild"]).await.is(2).complains(&["known are", "failed"]);
}

#[tokio::test]
async fn failed_jobs_are_tried_again_by_name_or_by_filter() {
    let node = TestNode::start().await;
    let (one, _) = node.failed_job("/one.txt").await;
    let (two, batch) = node.failed_job("/two.txt").await;

    node.cli(&["job", "requeue"]).await.is(2).complains(&["--all"]);
    node.cli(&["job", "requeue", &one, "--state", "failed"]).await.is(2).complains(&["not both"]);
    let dry = node.cli(&["job", "requeue", "--state", "failed", "--dry-run"]).await.is(0);
    dry.says(&["2 jobs (2 failed)", &one, &two]);
    let dry = node.json(&["job", "requeue", "--all", "--dry-run"]).await;
    assert_eq!((&dry["dry_run"], &dry["total"]), (&json!(true), &json!(2)));
    node.cli(&["job", "requeue", &one, "--dry-run"]).await.is(0).says(&["requeue would be done"]);
    assert_eq!(node.job(&one).await["status"]["retry_count"], 0, "nothing was done yet");

    node.files.put("/one.txt", "one");
    node.files.put("/two.txt", "two");
    let by_name =
        node.cli(&["job", "requeue", &one, "--from", "estimating", "--reason", "repaired"]).await.is(0);
    by_name.says(&["it was failed, and is estimating"]);
    let ran = node.json(&["job", "requeue", "--batch", &batch, "--run-id", "run.1"]).await;
    assert_eq!((&ran["done"], &ran["id"]), (&json!(1), &json!("run.1")), "{ran}");
    node.job_is(&batch, "completed").await;
    let again = node.cli(&["job", "requeue", &two, &one]).await;
    again.is(13).complains(&[&two, &one, "2 of 2 were refused"]);
    node.cli(&["job", "requeue", &two]).await.is(11).complains(&["completed"]);
    let history = node.json(&["job", "history", &one]).await.to_string();
    assert!(history.contains("repaired"), "{history}");
}

#[tokio::test]
async fn a_group_of_failures_is_tried_again_by_its_key() {
    let node = TestNode::start().await;
    let (missing, _) = node.failed_job("/one.txt").await;
    node.files.forbid("/two.txt");
    let (forbidden, _) = node.failed_job("/two.txt").await;

    let reasons = node.json(&["job", "reasons"]).await;
    let key = |jid: &str| {
        let groups = reasons["groups"].as_array().unwrap();
        let group = groups.iter().find(|group| group["jobs"][0] == jid).unwrap();
        group["group"].as_str().unwrap().to_owned()
    };
    let key = key(&forbidden);
    node.cli(&["job", "reasons"]).await.is(0).says(&["GROUP", &key, "403 Forbidden"]);
    let listed = node.json(&["job", "list", "--group", &key]).await;
    assert_eq!((listed["jobs"].as_array().unwrap().len(), &listed["jobs"][0]["jid"]), (1, &json!(forbidden)));

    let command = format!("ingestd job requeue --group {key} --expect 1");
    let dry = node.cli(&["job", "requeue", "--group", &key, "--dry-run"]).await.is(0);
    dry.says(&["1 job (1 failed)", &forbidden, &command]);
    let dry = node.json(&["job", "requeue", "--group", &key, "--dry-run"]).await;
    assert!(dry["command"].as_str().unwrap().starts_with(&command), "{dry}");
    let refused = node.cli(&["job", "requeue", "--group", &key, "--expect", "2"]).await.is(11);
    refused.complains(&["1 match now, and 2 were expected", "nothing was changed"]);
    assert_eq!(node.job(&forbidden).await["status"]["retry_count"], 0, "nothing was done yet");
    let ran = node.cli(&["job", "requeue", "--group", &key, "--expect", "1"]).await.is(0);
    ran.says(&["1 of 1 job done"]);
    assert_eq!(node.job(&forbidden).await["status"]["retry_count"], 1);
    assert_eq!(node.job(&missing).await["status"]["retry_count"], 0);

    node.cli(&["job", "requeue", "--group", "404"]).await.is(2).complains(&["no key of a group"]);
    node.cli(&["job", "requeue", &missing, "--expect", "1"]).await.is(2);
    node.cli(&["job", "requeue", "--all", "--expect", "1", "--run-id", "a"]).await.is(2);
}

#[tokio::test]
async fn every_action_on_many_jobs_takes_the_count_to_expect() {
    let node = TestNode::start().await;
    let (failed, _) = node.failed_job("/one.txt").await;
    node.cli(&["hold", "queue", "ingest"]).await.is(0);
    let bid = node.submit("a.txt", "a").await;
    let waiting = node.job_is(&bid, "pending").await;
    for (action, count) in
        [("requeue", "1"), ("hold", "1"), ("release", "0"), ("delete", "1"), ("priority", "2")]
    {
        let mut words = vec!["job", action];
        words.extend((action == "priority").then_some("7"));
        words.extend(["--all", "--expect", "9"]);
        words.extend((action == "delete").then_some("--yes"));
        let refused = node.cli(&words).await.is(11);
        refused.complains(&[&format!("{count} match now, and 9 were expected")]);
    }
    assert_eq!(node.job(&failed).await["state"], "failed");
    let job = node.job(&waiting).await;
    assert_eq!((&job["state"], &job["priority"]), (&json!("pending"), &json!(5)), "{job}");
}

#[tokio::test]
async fn waiting_jobs_are_held_released_and_moved_forward() {
    let node = TestNode::start().await;
    node.cli(&["hold", "queue", "ingest", "--reason", "a test"]).await.is(0).says(&["is held now"]);
    let bid = node.submit("a.txt", "a").await;
    let jid = node.job_is(&bid, "pending").await;
    node.cli(&["job", "hold", &jid]).await.is(0).says(&["it was pending, and is held"]);
    assert_eq!(node.job(&jid).await["state"], "held");
    node.cli(&["job", "release", "--batch", &bid]).await.is(0).says(&["1 of 1 job done"]);
    assert_eq!(node.job(&jid).await["state"], "pending");
    node.cli(&["job", "priority", "now", &jid]).await.is(0).says(&["its priority is 0"]);
    node.cli(&["job", "priority", "7", "--batch", &bid]).await.is(0).says(&["1 of 1 job done"]);
    assert_eq!(node.job(&jid).await["priority"], 7);
    node.cli(&["job", "priority", "100", &jid]).await.is(2).complains(&["0 to 99"]);
    node.cli(&["release", "queue", "ingest"]).await.is(0);
    node.batch_is(&bid, "completed").await;
}

#[tokio::test]
async fn deleting_jobs_wants_a_yes() {
    let node = TestNode::start().await;
    let (one, _) = node.failed_job("/one.txt").await;
    let (two, batch) = node.failed_job("/two.txt").await;
    node.cli(&["job", "delete", &one]).await.is(12).complains(&["--yes"]);
    node.cli(&["job", "delete", "--state", "failed"]).await.is(12).complains(&["--yes"]);
    assert_eq!(node.job(&one).await["state"], "failed");
    node.cli(&["job", "delete", &one, "--yes"]).await.is(0).says(&["the depositor will not be told"]);
    assert_eq!(node.get(&format!("/api/v1/jobs/{one}")).await.status, 404);
    node.cli(&["job", "delete", "--batch", &batch, "--yes"]).await.is(0).says(&["1 of 1 job done"]);
    assert_eq!(node.get(&format!("/api/v1/jobs/{two}")).await.status, 404);
}

#[tokio::test]
async fn a_completed_job_stays_what_it_is_when_it_leaves_its_queue() {
    let node = TestNode::start().await;
    let bid = node.submit("good.txt", "good").await;
    node.batch_is(&bid, "completed").await;
    let jid = node.job_is(&bid, "completed").await;
    let before = node.json(&["job", "list", "--state", "completed"]).await;
    assert_eq!(before["jobs"][0]["jid"], json!(jid));
    let changed = node.job(&jid).await["status"]["last_modification_date"].clone();
    assert_eq!(node.json(&["upkeep", "run", "jobs"]).await["removed"], 1);
    for state in ["completed", "completed,failed"] {
        let after = node.json(&["job", "list", "--state", state]).await;
        assert_eq!(after["jobs"], before["jobs"], "{state}");
    }
    assert_eq!(node.get("/api/v1/jobs?state=completed").await.json["jobs"][0]["jid"], json!(jid));
    assert_eq!(node.get("/api/v1/states/counts").await.json["jobs"]["completed"], 1);
    assert_eq!(node.job(&jid).await["status"]["last_modification_date"], changed);
    let newer = ["job", "list", "--newer-than", changed.as_str().unwrap()];
    assert_eq!(node.json(&newer).await["jobs"], json!([]), "it has not changed since");
    node.cli(&["fsck"]).await.is(0);
}
