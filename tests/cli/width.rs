//! No line is longer than the terminal is wide, whatever strangers have written.

use std::sync::Arc;

use ingest_queue::date::Clock;
use ingest_queue::map::{self, HeldQueue};
use ingest_queue::queue::{Queue, Settings};
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Limits, Mode, Store};
use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use crate::kit::{TestNode, configure};
use crate::ran::{Ran, command, run};

const HOSTILE: &str = "red\u{1b}[31m bell\u{7} 漢字漢字漢字漢字漢字漢字漢字漢字漢字 right\u{202e}left <b> a-very-long-word-without-any-place-to-break-it";

/// As far as a submission may go.
const WIDE: &str = "漢字漢字漢字漢字漢字漢字漢字漢字漢字 right\u{202e}left <b> a-very-long-word-without-any-place-to-break-it";

/// What no command would write: a finding for fsck, stats, and an access queue that is held.
async fn plant(tree: &std::path::Path) {
    let tree = Embedded::open(&EmbeddedConfig::new(tree)).unwrap();
    let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
    let queue = Queue::open(&session, Settings::new("test"), Clock::system()).await.unwrap();
    queue.hold_queue(HeldQueue::AccessSmall, "a test", HOSTILE).await.unwrap();
    let stats = json!({"lines": [{"at": queue.now(), "node": "node-漢字漢字漢字漢字漢字漢字漢字", "completed": 123_456,
        "failed": 7, "waiting": {"pending": 1_000_000, "downloading": 12_345, "processing": 12_345}}]});
    let dangling = format!("{}/nobody-{}", map::BATCH_UUIDS, "x".repeat(100));
    for (at, data) in
        [(dangling, "bid0000000042".to_owned()), (ingest_actors::stats::PATH.to_owned(), stats.to_string())]
    {
        session.create_with_parents(at, data, Mode::Persistent).await.unwrap();
    }
    session.close().await.unwrap();
    tree.close().await;
}

/// A node that has something long for each list.
async fn full_node() -> TestNode {
    let dir = tempfile::tempdir().unwrap();
    let place = format!("a-box-with-a-rather-long-name-{}", "x".repeat(60));
    std::fs::create_dir(dir.path().join(&place)).unwrap();
    let feed = format!(
        "[feeds.scans_of_the_library]\nkind = 'drop_box'\npath = '{place}'\nprofile = 'test_content'\nsubmitter = 'ann'\n"
    );
    configure(dir.path(), "", &format!("[access]\ndir = 'access'\n[workers]\nsettle = '20ms'\n{feed}"));
    let profile =
        format!("name = 'wide'\ncollection = 'tests'\ntitle = '{WIDE}'\nowner = 'ark:/99999/fk4wide'\n");
    std::fs::write(dir.path().join("profiles/wide.toml"), profile).unwrap();
    plant(&dir.path().join("tree")).await;
    let node = TestNode::start_in(dir, reqwest::Client::builder()).await;
    let restart = json!({
        "at": "2026-11-17T03:00:00.000Z", "node": "node-1", "actor": "downloading-3", "pool": "downloading",
        "state": "downloading", "job": "jid0000000007", "batch": "bid0000000001", "reason": "panic",
        "message": HOSTILE, "location": "steps/src/download/of/some/long/path.rs:1", "count": 1, "backoff_ms": 100
    });
    std::fs::write(node.dir.path().join("node/restarts.jsonl"), format!("{restart}\n")).unwrap();
    let long = format!("files.{}.example.org", "long-name-".repeat(9));
    node.cli(&["limits", "set", "host", &long, "2"]).await.is(0);
    node.cli(&["limits", "set", "name", WIDE, "2"]).await.is(0);
    node.cli(&["settings", "set", "pools.downloading.stall=7m", "upkeep.keep_batches=400days"]).await.is(0);
    let put = ["request", "collection.hold", "-p", "collection=maps", "--no-wait"];
    let put = node.json(&[&put[..], &["-p", &format!("reason={HOSTILE}")]].concat()).await;
    let result = format!("/api/v1/requests/{}/result?wait=20", put["id"].as_str().unwrap());
    node.get(&result).await.is(200);
    node
}

/// What is empty fits anywhere.
async fn each_has_something_to_show(node: &TestNode, held: &str) {
    for (arguments, says) in [
        (&["access", "list"][..], "qid"),
        (&["restarts"], "jid0000000007"),
        (&["feeds", "list"], "scans_of_the_library"),
        (&["limits"], "example.org"),
        (&["profile", "list"], "wide"),
        (&["settings", "show"], "pools.downloading.stall"),
        (&["requests"], "collection.hold"),
        (&["stats"], "123456"),
        (&["release", "collection", "tests", "--all", "--dry-run"], held),
    ] {
        node.cli(arguments).await.is(0).says(&[says]);
    }
    node.cli(&["fsck"]).await.is(1).says(&["1 findings"]);
    std::fs::write(node.dir.path().join("wrong.toml"), format!("[nodes]\nname = 1\n[{}]\n", "x".repeat(90)))
        .unwrap();
}

#[tokio::test]
async fn every_table_fits_every_width() {
    let node = full_node().await;
    let missing = node.files.url("/a-rather-long-name-of-a-file-that-is-not-there-at-all-and-so-fails.txt");
    let submit = [
        "submit",
        missing.as_str(),
        "--type",
        "file",
        "-p",
        "test_content",
        "--submitter",
        "ann",
        "--title",
        WIDE,
        "--local-id",
        "id-漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
        "--note",
        WIDE,
    ];
    let bid = node.json(&submit).await["bid"].as_str().unwrap().to_owned();
    node.batch_is(&bid, "failed").await;
    let jid = node.job_is(&bid, "failed").await;
    let good = node.submit("good.txt", "good").await;
    node.batch_is(&good, "completed").await;
    node.cli(&["hold", "collection", "tests", "--reason", HOSTILE]).await.is(0);
    let stored = node.json(&["job", "list", "--batch", &good]).await;
    node.json(&["access", "submit", stored["jobs"][0]["primary_id"].as_str().unwrap()]).await;
    let held = node.submit("held.txt", "held").await;
    node.batch_is(&held, "held").await;

    each_has_something_to_show(&node, &held).await;

    let commands: [&[&str]; 38] = [
        &["batch", "list"],
        &["batch", "show", &bid],
        &["batch", "report", &bid],
        &["batch", "watch", &bid],
        &["batch", "delete", &bid],
        &["job", "list"],
        &["job", "show", &jid],
        &["job", "history", &jid],
        &["job", "reasons"],
        &["job", "requeue", "--state", "failed", "--dry-run"],
        &["job", "hold", &jid],
        &["hold", "list"],
        &["pools"],
        &["nodes"],
        &["nodes", "--this"],
        &["restarts"],
        &["audit-log"],
        &["audit", "--all"],
        &["access", "list"],
        &["feeds", "list"],
        &["feeds", "show", "scans_of_the_library"],
        &["limits"],
        &["upkeep"],
        &["profile", "list"],
        &["settings", "show"],
        &["requests"],
        &["requests", "--actions"],
        &["stats"],
        &["release", "collection", "tests", "--all", "--dry-run"],
        &["fsck"],
        &["fsck", "--codes"],
        &["config", "check", "--config", "ingestd.toml"],
        &["config", "check", "--config", "ingestd.toml", "--cluster"],
        &["config", "check", "--config", "wrong.toml"],
        &["states"],
        &["config", "keys"],
        &["batch", "show", "no-such-batch-in-the-whole-tree-whatever-its-length"],
        &["submit", "http://127.0.0.1/x", "-p", "there-is-no-such-profile-in-the-whole-configuration"],
    ];
    for columns in [40, 80, 200] {
        for arguments in commands {
            let mut command = command(node.dir.path(), &node.base, arguments);
            command.env("COLUMNS", columns.to_string());
            let ran = run(command).await;
            fits(&ran, columns, arguments);
        }
    }
    // Ids are whole at any width.
    let mut narrow = command(node.dir.path(), &node.base, &["job", "list"]);
    narrow.env("COLUMNS", "40");
    run(narrow).await.is(0).says(&[&jid, &bid]);
    // And into a pipe nothing is cut.
    node.cli(&["job", "list"])
        .await
        .is(0)
        .says(&["a-rather-long-name-of-a-file-that-is-not-there-at-all-and-so-fails.txt"]);
    node.cli(&["hold", "list"]).await.is(0).says(&[
        "red\\u{1b}[31m bell\\u{7} 漢字",
        "right\\u{202e}left",
        "to-break-it",
    ]);
}

#[track_caller]
fn fits(ran: &Ran, columns: usize, arguments: &[&str]) {
    assert!(!ran.out.is_empty() || !ran.err.is_empty(), "{arguments:?}");
    for line in ran.out.lines().chain(ran.err.lines()) {
        assert!(line.width() <= columns, "{arguments:?} at {columns}: {} columns: {line}", line.width());
        let hostile = line.chars().find(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(c));
        assert!(hostile.is_none(), "{arguments:?}: {hostile:?} in {line:?}");
    }
}
