//! Feeds through the API and the command line.

use serde_json::json;

use crate::kit::TestNode;

const FEEDS: &str = "[access]\ndir = 'access'\n[workers]\nsettle = '20ms'\n\
    [feeds.scans]\nkind = 'drop_box'\npath = 'box'\nready = 'rename'\nprofile = 'test_content'\nsubmitter = 'scanner'\n\
    [feeds.elsewhere]\nkind = 'drop_box'\npath = 'other'\nprofile = 'test_content'\nsubmitter = 'scanner'\n\
    policy = 'manual'\nnodes = ['node-2']\n";

async fn node() -> TestNode {
    let dir = tempfile::tempdir().unwrap();
    crate::kit::configure(dir.path(), "", FEEDS);
    std::fs::create_dir(dir.path().join("box")).unwrap();
    TestNode::start_in(dir, reqwest::Client::builder()).await
}

/// Waits until the feed is as wanted.
async fn feed_is(
    node: &TestNode,
    what: &str,
    wanted: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    ingest_harness::eventually(what, std::time::Duration::from_mins(1), || async {
        let feed = node.get("/api/v1/feeds/scans").await.json;
        wanted(&feed).then_some(feed)
    })
    .await
}

fn put(node: &TestNode, name: &str, text: &str) {
    let dir = node.dir.path().join("box");
    std::fs::write(dir.join(format!(".{name}")), text).unwrap();
    std::fs::rename(dir.join(format!(".{name}")), dir.join(name)).unwrap();
}

#[tokio::test]
async fn a_drop_box_is_consumed_paused_resumed_set_back_and_told() {
    let node = node().await;
    feed_is(&node, "a feed that is consumed", |feed| feed["node"] == "node-1").await;
    node.cli(&["feeds", "list"]).await.is(0).says(&["FEED", "scans", "drop_box", "consumed", "node-1"]);
    // One that is for another node is not even known here.
    node.cli(&["feeds", "show", "elsewhere"]).await.is(10).complains(&["elsewhere"]);
    put(&node, "a.txt", "aaa");
    let feed = feed_is(&node, "an item", |feed| feed["items"] == 1).await;
    let bid = feed["batch"].as_str().unwrap().to_owned();
    // Its payload is served by the node itself, by a signed URL.
    node.batch_is(&bid, "completed").await;
    let batch = node.get(&format!("/api/v1/batches/{bid}")).await.json;
    assert_eq!(batch["submission"]["submitter"], "scanner", "{batch}");
    let shown = node.cli(&["feeds", "show", "scans"]).await.is(0);
    shown.says(&["scans", "checkpoint", "a.txt", "test_content", "automatic", &bid]);

    // What can become nothing is told with its reason, and holds up nobody.
    std::fs::create_dir(node.dir.path().join("box/folder")).unwrap();
    let feed = feed_is(&node, "a directory that is passed over", |feed| feed["skipped"] == 1).await;
    assert_eq!(feed["skipped_items"][0]["item"], "unusable folder", "{feed}");
    let shown = node.cli(&["feeds", "show", "scans"]).await.is(0);
    shown.says(&["passed over", "skipped item", "unusable folder: it is a directory"]);
    ingest_harness::eventually("a metric", std::time::Duration::from_mins(1), || async {
        let line = "ingestd_feed_items_total{feed=\"scans\",became=\"skipped\"} 1";
        node.get("/metrics").await.text().contains(line).then_some(())
    })
    .await;
    std::fs::remove_dir(node.dir.path().join("box/folder")).unwrap();

    node.cli(&["feeds", "pause", "scans", "--reason", "the shelf is moved"]).await.is(0).says(&["is paused"]);
    node.cli(&["feeds", "pause", "scans"]).await.is(0).says(&["was paused already"]);
    put(&node, "b.txt", "bbb");
    let paused = feed_is(&node, "a feed that is given up", |feed| feed["node"].is_null()).await;
    assert_eq!((&paused["items"], &paused["paused"]["why"]), (&json!(1), &json!("the shelf is moved")));
    node.cli(&["feeds", "list"]).await.is(0).says(&["paused"]);
    node.cli(&["feeds", "resume", "scans"]).await.is(0).says(&["goes on"]);
    assert_eq!(node.json(&["feeds", "resume", "scans"]).await, json!({"name": "scans", "changed": false}));
    feed_is(&node, "the second item", |feed| feed["items"] == 2).await;

    node.cli(&["feeds", "ask", "scans"]).await.is(0);
    feed_is(&node, "a wish that was heard", |feed| feed["asked"] == false).await;
    // What cannot be taken back is asked for.
    node.cli(&["feeds", "reset", "scans"]).await.is(12).complains(&["--yes"]);
    let reset = node.json(&["feeds", "reset", "scans", "--yes"]).await;
    assert!(reset["before"].as_str().unwrap().ends_with("b.txt"), "{reset}");
    feed_is(&node, "a feed that goes on", |feed| feed["node"] == "node-1").await;
    assert_eq!(node.get("/api/v1/feeds/scans").await.json["items"], 2);
    let busy = node.cli(&["feeds", "forget", "scans", "--yes"]).await;
    assert_ne!(busy.code, 0, "{busy:?}");
    let metrics = node.get("/metrics").await.text();
    for line in [
        "ingestd_feed_items_total{feed=\"scans\",became=\"taken\"} 2",
        "ingestd_feed_lag_seconds{feed=\"scans\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    node.cli(&["audit-log"]).await.is(0).says(&["feeds/scans/pause", "feeds/scans/reset"]);
    node.cli(&["fsck"]).await.is(0);
}

#[tokio::test]
async fn what_is_wrong_with_a_feed_is_told() {
    let node = node().await;
    std::fs::remove_dir_all(node.dir.path().join("box")).unwrap();
    node.cli(&["feeds", "ask", "scans"]).await.is(0);
    let feed = feed_is(&node, "trouble", |feed| !feed["trouble"].is_null()).await;
    assert_eq!(feed["here"]["doing"], "failing", "{feed}");
    node.cli(&["feeds", "list"]).await.is(0).says(&["failing", "box"]);
    let metrics = node.get("/metrics").await.text();
    assert!(metrics.contains("ingestd_feed_failing{feed=\"scans\"} 1"), "{metrics}");
    assert!(metrics.contains("ingestd_feed_errors_total{feed=\"scans\"}"), "{metrics}");
    let wrong = node.cli(&["feeds", "reset", "nonsense", "--yes"]).await;
    wrong.is(10);
}

#[tokio::test]
async fn feeds_come_and_go_with_the_configuration() {
    let node = node().await;
    feed_is(&node, "a feed that is consumed", |feed| feed["node"] == "node-1").await;
    let file = node.dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let without = text.split("[feeds.scans]").next().unwrap().to_owned();
    std::fs::write(&file, without).unwrap();
    feed_is(&node, "a feed that nobody consumes", |feed| feed["node"].is_null()).await;
    node.cli(&["feeds", "forget", "scans", "--yes"]).await.is(0).says(&["is forgotten"]);
    node.cli(&["feeds", "list"]).await.is(0).says(&["There are no feeds"]);
    std::fs::write(&file, text).unwrap();
    feed_is(&node, "a feed that is consumed again", |feed| feed["node"] == "node-1").await;
}

#[tokio::test]
async fn every_action_on_a_feed_can_be_put_as_a_request() {
    let node = node().await;
    put(&node, "a.txt", "aaa");
    feed_is(&node, "an item", |feed| feed["items"] == 1 && feed["node"] == "node-1").await;
    let asked = async |action: &str, more: &[&str]| {
        let more = more.iter().flat_map(|param| ["-p", *param]);
        let arguments: Vec<&str> = ["request", action, "-p", "feed=scans"].into_iter().chain(more).collect();
        node.json(&arguments).await["data"].clone()
    };
    let changed = |changed: bool| json!({"name": "scans", "changed": changed});
    assert_eq!(asked("feed.pause", &["reason=a look"]).await, changed(true));
    let paused = feed_is(&node, "a feed that is given up", |feed| feed["node"].is_null()).await;
    assert_eq!(paused["paused"]["why"], "a look");
    assert_eq!(asked("feed.pause", &[]).await, changed(false));
    assert_eq!(asked("feed.resume", &[]).await, changed(true));
    assert_eq!(asked("feed.resume", &[]).await, changed(false));
    feed_is(&node, "a feed that goes on", |feed| feed["paused"].is_null() && feed["node"] == "node-1").await;
    assert_eq!(asked("feed.ask", &[]).await["name"], "scans");
    feed_is(&node, "a wish that was heard", |feed| feed["asked"] == false).await;
    let reset = asked("feed.reset", &["last=", "confirm=scans"]).await;
    assert!(reset["before"].as_str().unwrap().ends_with("a.txt"), "{reset}");
    assert_eq!((&reset["name"], &reset["last"]), (&json!("scans"), &json!("")), "{reset}");

    // What is wrong, by request and by command, and what is refused.
    for action in ["pause", "resume", "ask", "forget"] {
        let wrong = node.cli(&["request", &format!("feed.{action}"), "-p", "feed=scnas"]).await.is(10);
        wrong.complains(&["there is no feed scnas; did you mean `scans`?"]);
        let yes: &[&str] = if action == "forget" { &["--yes"] } else { &[] };
        let wrong = node.cli(&[&["feeds", action, "scnas"], yes].concat()).await.is(10);
        wrong.complains(&["did you mean `scans`?"]);
    }
    let unsure = ["request", "feed.reset", "-p", "feed=scans", "-p", "last=", "-p", "confirm=scan"];
    node.cli(&unsure).await.is(2).complains(&["say `scans` if it is meant"]);
    feed_is(&node, "a feed that goes on", |feed| feed["node"] == "node-1").await;
    let consumed = node.cli(&["request", "feed.forget", "-p", "feed=scans"]).await;
    assert_ne!(consumed.code, 0, "{consumed:?}");
    // One that nobody consumes any more.
    let file = node.dir.path().join("ingestd.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.split("[feeds.scans]").next().unwrap()).unwrap();
    feed_is(&node, "a feed that nobody consumes", |feed| feed["node"].is_null()).await;
    assert_eq!(asked("feed.forget", &[]).await, changed(true));
    node.cli(&["feeds", "list"]).await.is(0).says(&["There are no feeds"]);
    node.cli(&["fsck"]).await.is(0);
}
