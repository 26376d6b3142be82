//! What can be seen: batches, jobs, states; in pages, by filters, as people look for them.

use std::sync::Arc;

use ingest_queue::date::Clock;
use ingest_queue::map::{AccessSize, HeldQueue};
use ingest_queue::nodes::AccessToken;
use ingest_queue::queue::{Queue, Settings};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Limits, Store};
use reqwest::Method;
use serde_json::{Value, json};

use super::kit::{TestNode, configure};

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

/// All lines of a list, page after page, each of which has no more than two.
async fn walk(node: &TestNode, list: &str, query: &str) -> Vec<Value> {
    let name = if list == "access" {
        "items"
    } else if list == "audit" {
        "entries"
    } else {
        list
    };
    let (mut all, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let after_it = if after.is_empty() { String::new() } else { format!("&after={after}") };
        let path = format!("/api/v1/{list}?limit=2{after_it}{query}");
        let page = node.get(&path).await.is(200).json;
        let lines = page[name].as_array().unwrap();
        assert!(lines.len() <= 2, "{page}");
        all.extend(lines.iter().cloned());
        pages += 1;
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
        assert!(pages < 20, "it comes to no end: {page}");
    }
    assert!(all.len() <= 2 || pages > 1, "{all:?}");
    let whole = node.get(&format!("/api/v1/{list}?limit=1000{query}")).await.is(200).json;
    assert_eq!(whole["next"], Value::Null, "{whole}");
    if list != "audit" {
        assert_eq!(whole[name], json!(all), "the pages are the list");
    }
    all
}

fn names(lines: &[Value], field: &str) -> Vec<String> {
    lines.iter().map(|line| line[field].as_str().unwrap().to_owned()).collect()
}

/// Both access queues held, with three items in the one and two in the other.
async fn plant_items(tree: &std::path::Path) {
    let tree = Embedded::open(&EmbeddedConfig::new(tree)).unwrap();
    let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
    let queue = Queue::open(&session, Settings::new("test"), Clock::system()).await.unwrap();
    for held in [HeldQueue::AccessSmall, HeldQueue::AccessLarge] {
        queue.hold_queue(held, "a test", "they are to be looked at").await.unwrap();
    }
    for size in
        [AccessSize::Small, AccessSize::Large, AccessSize::Small, AccessSize::Large, AccessSize::Small]
    {
        queue.create_access(size, &AccessToken::default()).await.unwrap();
    }
    session.close().await.unwrap();
    tree.close().await;
}

#[tokio::test]
async fn lists_of_items_feeds_and_limits_are_paged_and_filtered_too() {
    let dir = tempfile::tempdir().unwrap();
    let feed = |name: &str| {
        let place =
            format!("kind = 'drop_box'\npath = '{name}'\nprofile = 'test_content'\nsubmitter = 'ann'\n");
        std::fs::create_dir(dir.path().join(name)).unwrap();
        format!("[feeds.{name}]\n{place}")
    };
    let feeds: String = ["maps", "scans", "tapes", "wax"].map(feed).concat();
    configure(dir.path(), "", &format!("[access]\ndir = 'access'\n[workers]\nsettle = '20ms'\n{feeds}"));
    plant_items(&dir.path().join("tree")).await;
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    let items = walk(&node, "access", "").await;
    assert_eq!(names(&items, "size"), ["small", "small", "small", "large", "large"]);
    assert!(items[..3].is_sorted_by_key(|item| item["aid"].as_str().unwrap().to_owned()), "{items:?}");
    assert_eq!(walk(&node, "access", "&size=large").await, items[3..]);
    assert_eq!(walk(&node, "access", "&state=pending").await.len(), 5);
    assert_eq!(walk(&node, "access", "&state=failed,completed").await, [] as [Value; 0]);
    let first = items[0]["aid"].as_str().unwrap();
    let both = walk(&node, "access", &format!("&aid={first}")).await;
    assert_eq!((names(&both, "size"), &both[0]), (vec!["small".to_owned(), "large".to_owned()], &items[0]));
    assert_eq!(walk(&node, "access", &format!("&aid={first}&size=large")).await, both[1..]);
    let left = node.get("/api/v1/access?limit=2").await.is(200).json;
    assert_eq!((&left["left"], &left["unreadable"]), (&json!(3), &json!([])), "{left}");

    ingest_harness::eventually("feeds that are consumed", std::time::Duration::from_mins(1), || async {
        let known = node.get("/api/v1/feeds").await.json;
        let feeds = known["feeds"].as_array()?;
        (feeds.len() == 4 && feeds.iter().all(|feed| feed["node"] == "node-1")).then_some(())
    })
    .await;
    let named = async |query: &str| {
        let mut found = Vec::new();
        let mut after = String::new();
        loop {
            let page = node.get(&format!("/api/v1/feeds?limit=3&after={after}{query}")).await.is(200).json;
            assert_eq!(page["workers"][0]["node"], "node-1", "on every page: {page}");
            found.extend(names(page["feeds"].as_array().unwrap(), "name"));
            match page["next"].as_str() {
                Some(next) => next.clone_into(&mut after),
                None => return found,
            }
        }
    };
    assert_eq!(named("").await, ["maps", "scans", "tapes", "wax"]);
    assert_eq!(named("&text=APE").await, ["tapes"]);
    assert_eq!(named("&node=node-1").await.len(), 4);
    assert_eq!(named("&node=node-2").await, [] as [String; 0]);

    for (kind, name) in
        [("host", "b.example.org"), ("host", "a.example.org"), ("name", "tape"), ("collection", "maps")]
    {
        node.send(Method::PUT, &format!("/api/v1/limits/{kind}/{name}"), &json!({"limit": 3})).await.is(200);
    }
    let limits = walk(&node, "limits", "").await;
    assert_eq!(names(&limits, "name"), ["maps", "a.example.org", "b.example.org", "tape"]);
    assert_eq!(walk(&node, "limits", "&kind=host").await, limits[1..3]);
    assert_eq!(walk(&node, "limits", "&text=Example").await, limits[1..3]);
}

#[tokio::test]
async fn logs_and_requests_are_paged_and_filtered_too() {
    let node = TestNode::start().await;
    for name in ["a", "b", "c", "d"] {
        node.send(Method::PUT, &format!("/api/v1/limits/name/{name}"), &json!({"limit": 3})).await.is(200);
    }
    for id in 0..3 {
        let id = format!("11111111-2222-4333-8444-55555555555{id}");
        let asked = json!({"action": "queue.hold", "params": {"queue": "ingest"}, "id": id});
        node.post("/api/v1/requests", asked).await.is(202);
        crate::requests::result(&node, &id).await;
    }
    let requests = walk(&node, "requests", "").await;
    assert_eq!((requests.len(), walk(&node, "requests", "&state=done").await.len()), (3, 3));
    assert_eq!(walk(&node, "requests", "&state=waiting").await, [] as [Value; 0]);

    // Some of them at the same moment, and one that was written when the clock was late.
    let restart = |at: &str, actor: usize| {
        json!({"at": at, "node": "node-1", "actor": format!("notify-{actor}"), "reason": "panic", "message": "",
            "count": 1, "backoff_ms": 100})
        .to_string()
    };
    let (one, two) = ("2026-11-17T03:00:00.000Z", "2026-11-17T03:00:00.001Z");
    let log =
        [(one, 0), (two, 1), (two, 2), (two, 3), (one, 4), (two, 5)].map(|(at, actor)| restart(at, actor));
    std::fs::write(node.dir.path().join("node/restarts.jsonl"), log.join("\n")).unwrap();
    let restarts = walk(&node, "restarts", "").await;
    let expected = [5, 3, 2, 1, 4, 0].map(|actor| format!("notify-{actor}"));
    assert_eq!(names(&restarts, "actor"), expected);
    assert_eq!(walk(&node, "restarts", "&newer_than=2026-11-17T03:00:00Z").await, restarts[..4]);

    let acts = walk(&node, "audit", "").await;
    assert!(names(&acts, "at").iter().rev().is_sorted(), "the newest first: {acts:?}");
    let holds: Vec<&Value> =
        acts.iter().filter(|one| one["what"].as_str().unwrap().contains("/limits/")).collect();
    assert_eq!(holds.len(), 4, "each once: {acts:?}");
    let request = node.request(Method::PUT, "/api/v1/holds/queues/ingest").header("x-ingestd-user", "olga");
    assert_eq!(request.json(&json!({})).send().await.unwrap().status(), 200);
    assert_eq!(names(&walk(&node, "audit", "&who=olga").await, "who"), ["olga"]);
    assert_eq!(walk(&node, "audit", "&newer_than=2100-01-01T00:00:00Z").await, [] as [Value; 0]);

    for (query, field) in [
        ("access?after=small-7", ""),
        ("access?aid=7", "aid"),
        ("access?limit=0", "limit"),
        ("feeds?limit=1001", "limit"),
        ("feeds?worker=x", "worker"),
        ("limits?kind=colour", "kind"),
        ("limits?limit=0", "limit"),
        ("audit?after=7", "after"),
        ("audit?newer_than=yesterday", "newer_than"),
        ("restarts?after=x", "after"),
        ("requests?after=x", "after"),
        ("requests?limit=0", "limit"),
    ] {
        let answer = node.get(&format!("/api/v1/{query}")).await.problem(400, "invalid", "");
        assert!(field.is_empty() || answer.fields() == [field], "{query}: {}", answer.text());
    }
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
