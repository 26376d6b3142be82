//! Requests in the tree, profiles and settings of all nodes, and reading what was just written.

use std::sync::Arc;
use std::time::Duration;

use ingest_harness::eventually;
use ingest_queue::date::Clock;
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::requests::{NewRequest, TakenRequest};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Store};
use reqwest::Method;
use serde_json::json;

use super::kit::{Answer, TestNode, configure, on_a_server};

const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) async fn result(node: &TestNode, id: &str) -> serde_json::Value {
    let path = format!("/api/v1/requests/{id}/result?wait=20");
    // The node answers when there is news: each time the request is further, and at last with the result.
    eventually(&format!("the result of {id}"), PATIENCE, || async {
        let answer = node.get(&path).await;
        if answer.status == 200 {
            return Some(answer.json);
        }
        assert!(answer.is(202).headers.get("retry-after").is_none(), "it has waited");
        None
    })
    .await
}

#[tokio::test]
async fn a_request_is_done_by_a_node_and_answered_as_its_route_would_be() {
    let node = TestNode::start().await;
    let put = node.post(
        "/api/v1/requests",
        json!({"action": "queue.hold", "params": {"queue": "ingest", "reason": "a look"}}),
    );
    let put = put.await.is(202).json;
    let id = put["id"].as_str().unwrap().to_owned();
    let done = result(&node, &id).await;
    assert_eq!((&done["ok"], &done["node"]), (&true.into(), &"node-1".into()), "{done}");
    assert_eq!(done["data"], json!({"kind": "queue", "name": "ingest", "held": true, "changed": true}));
    assert_eq!(node.get("/api/v1/holds").await.json["queues"][0]["why"], "a look");
    let listed = node.get("/api/v1/requests?state=done").await.is(200).json;
    assert_eq!(listed["requests"][0]["id"], id.as_str(), "{listed}");
    assert_eq!(node.get(&format!("/api/v1/requests/{id}")).await.is(200).json["state"], "done");
    // What was done by the tree is in the audit log, with how it came.
    let audit = node.get("/api/v1/audit").await.is(200).json;
    let what = format!("REQUEST queue.hold {id}");
    let entry = audit["entries"].as_array().unwrap().iter().find(|entry| entry["what"] == what.as_str());
    assert!(entry.is_some_and(|entry| entry["from"].as_str().unwrap().starts_with("api ")), "{audit}");
    node.delete(&format!("/api/v1/requests/{id}")).await.is(200);
    node.get(&format!("/api/v1/requests/{id}")).await.problem(404, "not-found", "");
}

#[tokio::test]
async fn a_request_that_is_wrong_or_refused_says_what_the_route_would_say() {
    let node = TestNode::start().await;
    let ask = |body| node.post("/api/v1/requests", body);
    ask(json!({"action": "queue.hodl"})).await.problem(400, "invalid", "did you mean `queue.hold`?");
    ask(json!({"action": "queue.hold", "params": {"que": "x"}})).await.problem(
        422,
        "unprocessable",
        "did you mean `queue`?",
    );
    ask(json!({"action": "node.pause"})).await.problem(400, "invalid", "name it");
    ask(json!({"action": "queue.hold", "id": "seven", "params": {"queue": "ingest"}}))
        .await
        .problem(400, "invalid", "no uuid");
    node.get("/api/v1/requests/seven").await.problem(404, "not-found", "");
    let nobody = "/api/v1/requests/00000000-0000-4000-8000-000000000000/result";
    node.get(&format!("{nobody}?wait=20")).await.problem(404, "not-found", "");
    node.get(&format!("{nobody}?wait=3601")).await.problem(400, "invalid", "at most 3600 seconds");
    for wrong in ["after=", "after=-1", "after=next", "state=", "state=asleep"] {
        node.get(&format!("/api/v1/requests?{wrong}")).await.problem(400, "invalid", "");
    }
    let put = ask(json!({"action": "job.hold", "params": {"jid": "jid0000000099"}})).await.is(202).json;
    let done = result(&node, put["id"].as_str().unwrap()).await;
    assert_eq!((&done["ok"], &done["problem"]["status"]), (&false.into(), &404.into()), "{done}");
    assert_eq!(done["problem"]["type"], "urn:ingestd:problem:not-found");
    let put = ask(json!({"action": "node.pause", "node": "node-7"})).await.is(202).json;
    let done = result(&node, put["id"].as_str().unwrap()).await;
    assert!(done["problem"]["detail"].as_str().unwrap().contains("no node `node-7` lives"), "{done}");
    let put = ask(json!({"action": "node.pause", "node": "node-1"})).await.is(202).json;
    assert_eq!(result(&node, put["id"].as_str().unwrap()).await["data"]["mode"], "paused");
    let actions = node.get("/api/v1/actions").await.is(200).json;
    assert!(actions["actions"].as_array().unwrap().iter().any(|action| action["name"] == "jobs.bulk"));
}

#[tokio::test]
async fn requests_come_in_pages_from_either_end_and_say_how_they_ended() {
    let node = TestNode::start().await;
    let mut ids = Vec::new();
    for jid in 97..=99 {
        let body = json!({"action": "job.hold", "params": {"jid": format!("jid00000000{jid}")}});
        let put = node.post("/api/v1/requests", body).await.is(202).json;
        ids.push(put["id"].as_str().unwrap().to_owned());
    }
    let body = json!({"action": "queue.release", "params": {"queue": "ingest"}});
    ids.push(node.post("/api/v1/requests", body).await.is(202).json["id"].as_str().unwrap().to_owned());
    for id in &ids {
        result(&node, id).await;
    }
    for order in ["oldest", "newest"] {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = node.get(&format!("/api/v1/requests?limit=3&order={order}{after}")).await.is(200).json;
            for line in page["requests"].as_array().unwrap() {
                let is_done = line["action"] == "queue.release";
                assert_eq!(line["ok"], is_done, "{line}");
                let why = line["problem"]["type"].as_str();
                assert_eq!(why, (!is_done).then_some("urn:ingestd:problem:not-found"), "{line}");
                found.push(line["id"].as_str().unwrap().to_owned());
            }
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(found, ids, "{order}");
        ids.reverse();
    }
    node.get("/api/v1/requests?order=best").await.problem(400, "invalid", "");
}

#[tokio::test]
async fn settings_of_the_cluster_are_judged_applied_and_shown() {
    let node = TestNode::start().await;
    let sender = &node;
    let change =
        |body: serde_json::Value| async move { sender.send(Method::PATCH, "/api/v1/settings", &body).await };
    change(json!({"set": {"pools.downlaoding.size": 1}})).await.problem(422, "unprocessable", "did you mean");
    change(json!({"set": {"node.name": "x"}})).await.problem(422, "unprocessable", "each node has its own");
    change(json!({"set": {"pools.downloading.size": "many"}})).await.problem(422, "unprocessable", "");
    let changed = change(json!({"set": {"pools.downloading.size": 3}})).await.is(200).json;
    assert_eq!((&changed["changed"], &changed["version"]), (&true.into(), &1.into()), "{changed}");
    let size = eventually("the pool has its size", PATIENCE, || async {
        let pool = node.get("/api/v1/pools/downloading").await.json;
        (pool["size"] == 3).then_some(())
    });
    size.await;
    // Whoever sees a value sees where it comes from.
    let shown = node.get("/api/v1/settings").await.is(200).json;
    assert_eq!(shown["settings"], json!({"pools.downloading.size": 3}));
    assert!(
        shown["sources"]["pools.downloading.size"].as_str().unwrap().starts_with("the cluster, 1-"),
        "{shown}"
    );
    let nodes = eventually("the registry says what runs", PATIENCE, || async {
        let nodes = node.get("/api/v1/nodes").await.json;
        (nodes["nodes"][0]["lags"] == false && nodes["settings"] != "-").then_some(nodes)
    });
    assert_eq!(nodes.await["nodes"][0]["settings"], shown["mark"]);
    change(json!({"unset": ["pools.downloading.size"]})).await.is(200);
    let size = eventually("the pool has its own size again", PATIENCE, || async {
        let pool = node.get("/api/v1/pools/downloading").await.json;
        (pool["size"] == 8).then_some(())
    });
    size.await;
}

#[tokio::test]
async fn a_profile_of_the_tree_is_judged_and_used() {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), "", "");
    let file = dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, text.replace("[profiles]\n", "[profiles]\nsource = 'both'\n")).unwrap();
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    let sender = &node;
    let put = |text: String| async move {
        sender.send(Method::PUT, "/api/v1/profiles/maps", &json!({"text": text})).await
    };
    let good =
        "name = 'maps'\ncollection = 'maps'\ntitle = 'Maps'\nowner = 'ark:/99999/fk4maps'\n".to_owned();
    put(good.replace("title", "titel")).await.problem(422, "unprocessable", "text:3");
    put(format!("{good}storage = 'tape'\n")).await.problem(422, "unprocessable", "[storage.tape]");
    let secret = format!("{good}callback = 'https://u:hidden@example.org/x'\n");
    assert_eq!(put(secret).await.is(200).json["version"], 1);
    let shown = node.get("/api/v1/profiles/maps").await.is(200);
    assert!(!shown.text().contains("hidden"), "{}", shown.text());
    eventually("the profile is used", PATIENCE, || async {
        let list = node.get("/api/v1/profiles").await.json;
        list["profiles"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == "maps" && one["version"] == 1)
            .then_some(())
    })
    .await;
    assert_eq!(put(good).await.is(200).json["version"], 2);
    node.delete("/api/v1/profiles/maps").await.is(200);
    node.get("/api/v1/profiles/maps").await.problem(404, "not-found", "");
    node.delete("/api/v1/profiles/maps").await.problem(404, "not-found", "");
}

#[tokio::test]
async fn an_answer_says_its_moment_and_reads_wait_for_one() {
    let node = TestNode::start().await;
    let first = node.post("/api/v1/ltime", json!({})).await.is(200).json["ltime"].as_i64().unwrap();
    let changed = node.send(Method::PUT, "/api/v1/holds/queues/ingest", &json!({})).await.is(200);
    let moment: i64 = changed.headers["x-ingestd-ltime"].to_str().unwrap().parse().unwrap();
    assert!(moment > first, "{moment} is after {first}");
    node.get(&format!("/api/v1/holds?ltime={moment}")).await.is(200);
    node.get("/api/v1/holds?ltime=soon").await.problem(400, "invalid", "a moment is a number");
}

/// A request that somebody else than the node has taken.
async fn taken(queue: &Queue) -> TakenRequest {
    let new = NewRequest { action: "fsck".into(), who: "ann".into(), ..NewRequest::default() };
    let id = queue.put_request(&new).await.unwrap();
    queue.take_request(&queue.request(&id).await.unwrap(), "a test").await.unwrap()
}

/// Asks for a result with all the patience of the world, and returns when the node waits for it.
async fn poll(node: &TestNode, id: &str) -> tokio::task::JoinHandle<Answer> {
    let waiting = || {
        let log = std::fs::read_to_string(node.dir.path().join("log")).unwrap();
        log.matches("somebody waits for the result").count()
    };
    let before = waiting();
    let asked = node.request(Method::GET, &format!("/api/v1/requests/{id}/result?wait=3600"));
    let answer = tokio::spawn(async move { Answer::of(asked.send().await.unwrap()).await });
    eventually("a node that waits for the result", PATIENCE, || async { (waiting() > before).then_some(()) })
        .await;
    answer
}

async fn within(answer: tokio::task::JoinHandle<Answer>) -> Answer {
    tokio::time::timeout(PATIENCE, answer).await.expect("the answer comes when something happens").unwrap()
}

#[tokio::test]
async fn a_result_that_is_waited_for_comes_by_event_and_at_the_latest_when_the_node_ends() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let engine = Arc::new(Zookeeper::new(ZookeeperConfig::new(connect.as_str())).unwrap());
    let session = Store::new(engine, Limits::default()).session().await.unwrap();
    let queue = Queue::open(&session, Settings::new("test"), Clock::system()).await.unwrap();
    // Before there is a node that would do it.
    let (mut first, second) = (taken(&queue).await, taken(&queue).await);
    let dir = on_a_server(&connect, "timeout = '1h'", "[log]\nfilter = 'info,ingestd::api=debug'\n");
    let mut node = TestNode::start_in(dir, reqwest::Client::builder()).await;

    // The wait is over, and nothing has happened.
    let late = node.get(&format!("/api/v1/requests/{}/result?wait=1", first.id)).await.is(202);
    assert_eq!((&late.json["state"], late.header("retry-after")), (&"running".into(), ""), "{late:?}");
    // It is further than it was.
    let answer = poll(&node, &first.id).await;
    queue.request_progress(&mut first, "1 of 2").await.unwrap();
    let further = within(answer).await.is(202);
    assert_eq!((&further.json["progress"], further.header("retry-after")), (&"1 of 2".into(), ""));
    // It is answered.
    let answer = poll(&node, &first.id).await;
    queue.answer_request(first, Ok(&json!({"clean": true}))).await.unwrap();
    let done = within(answer).await.is(200);
    assert_eq!((&done.json["ok"], &done.json["data"]), (&true.into(), &json!({"clean": true})), "{done:?}");
    // The node ends: whoever waits is sent on to another.
    let answer = poll(&node, &second.id).await;
    node.post("/api/v1/node/drain", json!({})).await.is(202);
    let sent_on = within(answer).await.is(202);
    assert_eq!((&sent_on.json["state"], sent_on.header("retry-after")), (&"running".into(), "1"));
    assert_eq!(node.ended().await.code(), Some(0));
}
