//! Wrong usage, missing rights, and what is there without a node.

use std::path::Path;

use ingest_steps::digest::{Algorithm, Digests};
use serde_json::json;

use crate::kit::TestNode;
use crate::ran::{Ran, command, run};

const NOBODY: &str = "http://127.0.0.1:9";

async fn cli(arguments: &[&str]) -> Ran {
    run(command(Path::new("/"), NOBODY, arguments)).await
}

#[tokio::test]
async fn what_is_wrong_with_a_command_is_told() {
    for wrong in [
        &["nonsense"][..],
        &[],
        &["job"],
        &["batch", "watch"],
        &["batch", "list", "--limit", "0"],
        &["job", "list", "--older-than", "yesterday"],
        &["job", "requeue", "jid0000000001", "--run-id", "x"],
        &["job", "hold", "--state", "pending", "--force"],
        &["nodes", "--server", "ftp://example.org"],
        &["nodes", "--server", "http://user:password@example.org"],
        &["completions", "nonsense"],
        &["man"],
        &["pools", "resize"],
        &["hold", "collection"],
        &["access", "submit"],
        &["export"],
    ] {
        let ran = cli(wrong).await.is(2);
        assert!(!ran.err.is_empty(), "{wrong:?}");
    }
    cli(&["job", "requeue"]).await.is(2).complains(&["which jobs?"]);
}

#[tokio::test]
async fn a_node_that_is_not_there_is_told_with_what_to_do() {
    for command in
        [&["nodes"][..], &["batch", "list"], &["job", "requeue", "--all"], &["fsck"], &["audit", "--all"]]
    {
        cli(command).await.is(8).complains(&[
            "no node answers at http://127.0.0.1:9/",
            "ingestd run",
            "INGESTD_SERVER",
        ]);
    }
    // Something else answers there.
    let server = ingest_harness::FileServer::start().await;
    let ran = run(command(Path::new("/"), server.url("/").as_str(), &["nodes"])).await.is(1);
    ran.complains(&["is not understood", "is it a node"]);
}

impl TestNode {
    /// A batch in somebody's name.
    async fn submit_for(&self, submitter: &str) -> String {
        let url = self.files.put("/theirs.txt", "theirs");
        let body =
            json!({"profile": "test_content", "submitter": submitter, "payload_url": url, "type": "file"});
        self.post("/api/v1/batches", body).await.is(201).json["bid"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_token_decides_what_may_be_done_and_is_never_shown() {
    let mut tokens = Vec::new();
    for (name, role) in [("ann", "depositor"), ("olga", "operator"), ("root", "admin")] {
        let mut digests = Digests::of([Algorithm::Sha256]);
        digests.update(format!("hunter2-{name}").as_bytes());
        let digest = digests.finish().remove(0);
        tokens.push(format!("{{ name = '{name}', role = '{role}', sha256 = '{}' }}", digest.hex()));
    }
    let mut node =
        TestNode::start_with(&format!("tokens = [{}]", tokens.join(", ")), "[access]\ndir = 'access'\n")
            .await;
    node.with_token(Some("hunter2-root"));
    let with = |token: &str, arguments: &[&str]| {
        let mut command = command(node.dir.path(), &node.base, arguments);
        command.env("INGESTD_TOKEN", token);
        run(command)
    };
    node.cli(&["nodes"]).await.is(9).complains(&["A token is needed"]);
    let wrong = with("hunter2-nobody", &["nodes"]).await.is(9);
    assert!(!format!("{wrong:?}").contains("hunter2"), "{wrong:?}");
    let low = with("hunter2-ann", &["nodes"]).await.is(9).complains(&["operator"]);
    assert!(!format!("{low:?}").contains("hunter2"), "{low:?}");
    with("hunter2-olga", &["nodes"]).await.is(0).says(&["node-1"]);
    with("hunter2-olga", &["job", "delete", "jid0000000001", "--yes"]).await.is(9).complains(&["admin"]);
    let url = node.files.put("/a.txt", "a");
    // The name is the token's.
    let mine =
        with("hunter2-ann", &["submit", url.as_str(), "-p", "test_content", "--type", "file", "--wait"])
            .await;
    mine.is(0).says(&["is handed over"]);
    with("hunter2-ann", &["batch", "list"]).await.is(0).says(&["ann", "completed"]);

    // A depositor keeps the record of its own batches, and of nobody else's.
    let own = node.get("/api/v1/batches").await.json["batches"][0]["bid"].as_str().unwrap().to_owned();
    with("hunter2-ann", &["export", &own]).await.is(0);
    let others = node.submit_for("bob").await;
    with("hunter2-ann", &["export", &others, "-o", "others.zip"]).await.is(10);
    assert!(!node.dir.path().join("others.zip").exists());
    for command in [&["fsck"][..], &["audit", "--all"]] {
        with("hunter2-ann", command).await.is(9).complains(&["operator"]);
        with("hunter2-olga", command).await.is(0);
    }
    with("hunter2-olga", &["fsck", "--repair"]).await.is(9).complains(&["admin"]);

    std::fs::write(node.dir.path().join("token"), "hunter2-root\n").unwrap();
    node.cli(&["pause", "--token-file", "token"]).await.is(0);
    node.cli(&["pause", "--token-file", "nowhere"]).await.is(1).complains(&["nowhere", "No such file"]);
    let help = with("hunter2-root", &["nodes", "--help"]).await.is(0);
    assert!(!help.out.contains("hunter2"), "{}", help.out);
    with("hunter2-root", &["audit-log"]).await.is(0).says(&["root", "admin", "POST /api/v1/node/pause"]);
}

#[tokio::test]
async fn a_depositor_who_waits_asks_for_nothing_until_something_happens() {
    let tokens = crate::kit::tokens(&[("ann", "depositor"), ("olga", "operator")]);
    let mut node = TestNode::start_with(&tokens, "").await;
    node.with_token(Some("olga-token"));
    let url = node.files.put("/a.txt", "a");
    node.files.hold();
    let arguments = ["submit", url.as_str(), "-p", "test_content", "--type", "file", "--wait"];
    let mut waiting = command(node.dir.path(), &node.base, &arguments);
    let waiting = tokio::spawn(run({
        waiting.env("INGESTD_TOKEN", "ann-token");
        waiting
    }));
    node.files.until("a download", |traffic| traffic.open > 0).await;
    let asked = async || {
        let text = node.get("/metrics").await.is(200).text();
        let of_batches =
            text.lines().filter(|line| line.starts_with("ingestd_http_requests_total{method=\"GET\""));
        of_batches.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    // What is under way when the download begins is told first, however long that takes. Then, while time passes and nothing
    // happens, only these questions are new.
    ingest_harness::eventually(
        "three seconds without a question",
        std::time::Duration::from_mins(3),
        || async {
            let before = asked().await;
            ingest_harness::let_pass(std::time::Duration::from_secs(3)).await;
            (asked().await == before + 1).then_some(())
        },
    )
    .await;
    node.files.release();
    waiting.await.unwrap().is(0).says(&["is handed over"]).complains(&["completed, 1 of 1 jobs completed"]);
}

#[tokio::test]
async fn the_keys_of_the_configuration_are_listed() {
    cli(&["config", "keys"]).await.is(0).says(&[
        "KEY",
        "pools.downloading.size",
        "Requests a second from one address",
    ]);
    let keys: serde_json::Value =
        serde_json::from_str(&cli(&["config", "keys", "api.max_", "--json"]).await.is(0).out).unwrap();
    let keys = keys["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 4, "{keys:?}");
    assert_eq!((&keys[0]["key"], &keys[0]["default"]), (&"api.max_upload".into(), &"\"1 TiB\"".into()));
    assert_eq!(keys[0]["variable"], "INGESTD_API_MAX_UPLOAD");
    cli(&["config", "keys", "--markdown"])
        .await
        .is(0)
        .says(&["## `[api]`", "| `max_upload`, `max_body` | `1 TiB`, `16 MiB` |"]);
    cli(&["config", "keys", "nothing"]).await.is(0).says(&["No key begins with `nothing`."]);
}

#[tokio::test]
async fn help_completions_man_pages_and_states_need_no_node() {
    let help = cli(&["help"]).await.is(0);
    let help = help.says(&["Exit codes:", "no node answers", "not confirmed"]);
    for name in [
        "submit", "batch", "job", "hold", "release", "pause", "resume", "drain", "pools", "access", "nodes",
        "restarts",
    ] {
        assert!(help.out.contains(&format!("\n  {name} ")), "{name}");
        cli(&[name, "--help"]).await.is(0).says(&["Usage: ingestd"]);
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        cli(&["completions", shell]).await.is(0).says(&["requeue", "dry-run"]);
    }
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("pages");
    cli(&["man", "--dir", pages.to_str().unwrap()]).await.is(0).says(&["pages in"]);
    let page = std::fs::read_to_string(pages.join("ingestd-job-requeue.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("dry\\-run"), "{page}");
    assert!(std::fs::read_to_string(pages.join("ingestd.1")).unwrap().contains("Exit codes"));
    cli(&["states", "jobs"]).await.is(0).says(&["FROM", "provisioning", "EFFECT"]);
    let json: serde_json::Value = serde_json::from_str(&cli(&["states", "--json"]).await.is(0).out).unwrap();
    assert!(json["batches"].as_array().unwrap().len() > 5);
}

#[tokio::test]
async fn whoever_reads_may_leave_early() {
    for arguments in
        [&["man", "--markdown"][..], &["config", "check"], &["config", "keys"], &["fsck", "--codes"]]
    {
        let mut child = command(Path::new("/"), NOBODY, arguments);
        let child = child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{arguments:?}");
    }
}
