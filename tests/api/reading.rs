//! What can be seen: batches, jobs, states; in pages, by filters, as people look for them.

use super::kit::TestNode;

#[tokio::test]
async fn a_deposit_is_seen_from_submission_to_report() {
    let node = TestNode::start().await;
    let bid = node.submit("a.txt", "one").await;
    let batch = node.batch_is(&bid, "completed").await;
    assert_eq!(batch["jobs"]["completed"], 1, "{batch}");
    assert_eq!(batch["expansion"]["done"], true);
    assert_eq!((&batch["held_jobs"], &batch["report"]["completed"]), (&0.into(), &1.into()));
    assert_eq!(batch["submission"]["profile_name"], "test_content");
    let uuid = batch["uuid"].as_str().unwrap();
    assert_eq!(node.get(&format!("/api/v1/batches/{uuid}")).await.is(200).json["bid"], bid.as_str());

    let jobs = node.get(&format!("/api/v1/jobs?batch={bid}")).await.is(200).json;
    let line = &jobs["jobs"][0];
    let jid = line["jid"].as_str().unwrap();
    assert_eq!((&line["state"], &line["submitter"]), (&"completed".into(), &"ann".into()), "{line}");
    let job = node.get(&format!("/api/v1/jobs/{jid}")).await.is(200).json;
    assert_eq!((&job["bid"], &job["status"]["recoverable"]), (&bid.as_str().into(), &true.into()), "{job}");
    assert!(job["identifiers"]["primary_id"].as_str().unwrap().starts_with("ark:/99999/"), "{job}");
    assert_eq!(job["configuration"]["payload_filename"], "a.txt");
    let history = node.get(&format!("/api/v1/jobs/{jid}/history")).await.is(200).json;
    let to: Vec<&str> =
        history["history"].as_array().unwrap().iter().map(|one| one["to"].as_str().unwrap()).collect();
    assert_eq!(
        to,
        ["estimating", "provisioning", "downloading", "processing", "recording", "notify", "completed"]
    );
    assert_eq!(history["history"][0]["from"], "pending");

    let path = format!("/api/v1/batches/{bid}/report");
    let report = node.get(&path).await.is(200).json;
    assert_eq!(report["successful_jobs"][0]["jid"], jid);
    let csv = node.get(&format!("{path}?format=csv")).await.is(200);
    assert_eq!(csv.header("content-type"), "text/csv; charset=utf-8");
    assert!(csv.text().contains(jid) && csv.text().contains("ann"), "{}", csv.text());
    let text = node.get(&format!("{path}?format=text")).await.is(200).text();
    assert!(text.contains("Everything that you submitted is stored."), "{text}");
    node.get(&format!("{path}?format=pdf")).await.problem(400, "invalid", "json, csv or text");
    let xml =
        node.request(reqwest::Method::GET, &path).header("accept", "application/xml").send().await.unwrap();
    assert_eq!(xml.status(), 406);
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let node = TestNode::start_with("", "[pools.pending]\nsize = 0\n").await;
    let manifest: Vec<String> = (0..5).map(|at| format!("http://127.0.0.1:1/{at}.txt local-{at}")).collect();
    let body = serde_json::json!({"profile": "test_content", "submitter": "bob", "manifest": manifest, "uuid": "the-first"});
    let bid = node.post("/api/v1/batches", body).await.is(201).json["bid"].as_str().unwrap().to_owned();
    node.batch_is(&bid, "processing").await;
    node.submit("b.txt", "two").await;

    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = node.get(&format!("/api/v1/jobs?batch={bid}&limit=2&after={after}")).await.is(200).json;
        let jobs = page["jobs"].as_array().unwrap();
        assert!(jobs.len() <= 2);
        seen.extend(jobs.iter().map(|job| job["jid"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
    let count = async |query: &str| {
        let found = node.get(&format!("/api/v1/{query}")).await.is(200).json;
        let list = found["jobs"].as_array().or(found["batches"].as_array());
        list.unwrap().len()
    };
    assert_eq!(count("jobs?text=local-3").await, 1);
    assert_eq!(count("jobs?state=pending&submitter=bob&collection=tests").await, 5);
    assert_eq!(count("jobs?state=failed,held").await, 0);
    assert_eq!(count("jobs?min_priority=slow").await, 0);
    assert_eq!(count("batches").await, 2);
    assert_eq!(count("batches?submitter=bob&state=processing").await, 1);
    assert_eq!(count("batches?text=the-first").await, 1);
    assert_eq!(count("batches?older_than=2001-01-01T00:00:00Z").await, 0);
    let page = node.get("/api/v1/batches?limit=1").await.is(200).json;
    assert_eq!(page["next"], bid.as_str());

    for (query, field) in [
        ("jobs?state=lost", "state"),
        ("jobs?batch=7", "batch"),
        ("jobs?newer_than=yesterday", "newer_than"),
        ("jobs?states=failed", "states"),
        ("jobs?max_priority=100", "max_priority"),
        ("batches?state=lost", "state"),
        ("batches?limit=x", "limit"),
    ] {
        let answer = node.get(&format!("/api/v1/{query}")).await.problem(400, "invalid", "");
        assert_eq!(answer.fields(), [field], "{query}: {}", answer.text());
    }
    node.get("/api/v1/jobs?limit=1001").await.problem(400, "invalid", "1 to 1000");
    node.get("/api/v1/batches?after=x").await.problem(400, "invalid", "is not a cursor");
    for path in [
        "jobs/jid0000000099",
        "jobs/7",
        "batches/bid0000000099",
        "batches/no-such-uuid",
        "jobs/jid0000000099/history",
    ] {
        node.get(&format!("/api/v1/{path}")).await.problem(404, "not-found", "");
    }
    node.get(&format!("/api/v1/batches/{bid}/report")).await.problem(404, "not-found", "no report");
}

#[tokio::test]
async fn the_tables_and_the_counts_are_those_of_the_queue() {
    let node = TestNode::start_with("", "[pools.pending]\nsize = 0\n").await;
    let tables = node.get("/api/v1/states").await.is(200).json;
    assert_eq!(tables["dialect"], "design");
    assert!(tables["jobs"]["moves"].as_array().unwrap().len() > 20);
    let requeue =
        tables["jobs"]["moves"].as_array().unwrap().iter().find(|row| row["why"] == "requeue").unwrap();
    assert_eq!((&requeue["kind"], &requeue["from"][0]), (&"restart".into(), &"failed".into()));
    assert!(tables["batches"]["diagram"].as_str().unwrap().starts_with("stateDiagram-v2"));
    let bid = node.submit("a.txt", "one").await;
    node.job_is(&bid, "pending").await;
    let counts = node.get("/api/v1/states/counts").await.is(200).json;
    assert_eq!((&counts["jobs"]["pending"], &counts["jobs"]["failed"]), (&1.into(), &0.into()), "{counts}");
    assert_eq!((&counts["batches"], &counts["access"]["small"]), (&1.into(), &0.into()));
    let profiles = node.get("/api/v1/profiles").await.is(200).json;
    assert_eq!(profiles["profiles"][0]["name"], "test_content");
    let me = node.get("/api/v1/me").await.is(200).json;
    assert_eq!((&me["role"], &me["tokens"], &me["name"]), (&"admin".into(), &false.into(), &"local".into()));
}
