//! The API against its own document: schemathesis makes requests of it, right ones and wrong ones, and no answer may be a server's
//! error, or anything that the document does not say.
//!
//! `INGESTD_FUZZ_EXAMPLES=100` tries more of each operation, with other values every time.

use std::path::Path;
use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};

use super::kit::{TestNode, tokens};

/// Of each operation, besides those at the limits of its schema, which are always tried.
const EXAMPLES: u32 = 3;

/// Where what fits the schema may be refused all the same: the rule is about several fields, or about what the node knows.
const DEPENDS: [&str; 7] = [
    "POST /api/v1/batches",
    "POST /api/v1/jobs/bulk",
    "PATCH /api/v1/pools/{pool}",
    "GET /api/v1/objects/audit",
    "POST /api/v1/requests",
    "PUT /api/v1/profiles/{name}",
    "PATCH /api/v1/settings",
];

/// Ids of things that are there.
struct There {
    batches: Vec<String>,
    jobs: Vec<String>,
    access: String,
    token: String,
    /// To be deleted.
    doomed: (String, String),
}

impl There {
    async fn make(node: &TestNode) -> Self {
        let done = node.submit("a.txt", "one").await;
        node.batch_is(&done, "completed").await;
        let stored = node.job_is(&done, "completed").await;
        let job = node.get(&format!("/api/v1/jobs/{stored}")).await.is(200);
        let ark = &job.json["identifiers"]["primary_id"];
        let asked = node.post("/api/v1/access", json!({"ark": ark})).await.is(202).json;
        let mut failed = Vec::new();
        for name in ["/nowhere", "/nor-there", "/nor-here"] {
            let bid = node.submit_url(node.files.url(name).as_str()).await;
            node.batch_is(&bid, "failed").await;
            failed.push((node.job_is(&bid, "failed").await, bid));
        }
        let [(jid, bid), (doomed_jid, _), (_, doomed_bid)] = failed.try_into().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            batches: vec![done, bid],
            jobs: vec![stored, jid],
            access: text(&asked["aid"]),
            token: text(&asked["token"]),
            doomed: (doomed_bid, doomed_jid),
        }
    }

    /// As schemathesis reads it: these ids are tried besides those that it makes.
    fn configuration(&self) -> String {
        let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/schemathesis/hooks.py");
        let words = [
            ("batch", self.batches.clone()),
            ("jid", self.jobs.clone()),
            ("aid", vec![self.access.clone()]),
            ("size", vec!["small".to_owned()]),
            ("token", vec![self.token.clone()]),
            ("pool", vec!["downloading".to_owned(), "access_small".to_owned()]),
            ("queue", vec!["ingest".to_owned(), "accessSmall".to_owned()]),
        ];
        let mut lines = vec![format!("hooks = '{}'\nrequest-timeout = 20.0\n[parameters]", hooks.display())];
        let used = |name: &str| format!("'path.{name}' = {{ dictionary = '{name}', probability = 0.6 }}");
        lines.extend(words.iter().map(|(name, _)| used(name)));
        let listed = |(name, values)| format!("[dictionaries.{name}]\nvalues = {}", json!(values));
        lines.extend(words.into_iter().map(listed));
        let operation = |name: &str, more: &str| format!("[[operations]]\ninclude-name = '{name}'\n{more}");
        let tolerant = "checks.positive_data_acceptance.enabled = false";
        lines.extend(DEPENDS.iter().map(|name| operation(name, tolerant)));
        let (bid, jid) = &self.doomed;
        for (name, parameter, id) in [("batches/{batch}", "batch", bid), ("jobs/{jid}", "jid", jid)] {
            let only = format!("parameters = {{ 'path.{parameter}' = '{id}' }}");
            lines.push(operation(&format!("DELETE /api/v1/{name}"), &only));
        }
        lines.join("\n")
    }
}

/// Runs schemathesis; what it says of failures is what the test fails with.
async fn fuzz(node: &TestNode, there: &There, token: Option<&str>) {
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/schemathesis/install");
    let installed = tokio::process::Command::new(install).output().await.unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let lib = String::from_utf8(installed.stdout).unwrap().trim().to_owned();
    let config = node.dir.path().join("schemathesis.toml");
    std::fs::write(&config, there.configuration()).unwrap();
    let more = std::env::var("INGESTD_FUZZ_EXAMPLES").ok();
    let examples = more.clone().unwrap_or_else(|| EXAMPLES.to_string());
    let mut run = tokio::process::Command::new("python3");
    run.args(["-c", "from schemathesis.cli import schemathesis; schemathesis()", "--config-file"])
        .arg(&config)
        .args(["run", &format!("{}/openapi.json", node.base), "--no-color", "--continue-on-failure"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", &examples])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        // It ends the node, and belongs to the end; and the stream never ends.
        .args(["--exclude-path", "/api/v1/node/drain", "--exclude-path", "/api/v1/events"])
        // Whoever guesses tokens is stopped, and everybody else at the same address: that has a test of its own.
        .args(["--exclude-checks", "ignored_auth", "-H", "X-Ingestd: 1"]);
    match more {
        Some(_) => run.args(["--generation-database", "none"]),
        None => run.arg("--generation-deterministic"),
    };
    if let Some(token) = token {
        run.args(["-H", &format!("Authorization: Bearer {token}")]);
    }
    run.current_dir(node.dir.path()).env("PYTHONPATH", lib).env("NO_PROXY", "127.0.0.1").stdin(Stdio::null());
    let ran = run.output().await.unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
    let summary: Vec<&str> =
        said.lines().rev().filter(|line| line.contains("generated") || line.contains("Tested")).collect();
    println!("{summary:?}");
    let tried = said.lines().find_map(|line| line.trim().strip_prefix("Tested: ")?.parse::<usize>().ok());
    assert!(tried.is_some_and(|tried| tried >= 45), "{said}");
}

/// Whatever was asked, the node has no defect, and the tree is as it should be.
async fn is_sound(node: &mut TestNode) {
    let log = std::fs::read_to_string(node.dir.path().join("log")).unwrap();
    let defects: Vec<&str> = log.lines().filter(|line| line.contains("could not be answered")).collect();
    assert!(defects.is_empty(), "{defects:#?}");
    let fsck = node.get("/api/v1/fsck").await.is(200).text();
    let last: Value = serde_json::from_str(fsck.trim().lines().last().unwrap()).unwrap();
    assert_eq!(last["done"]["report"]["findings"], json!([]), "{last:#}");
    let drained = node.send(Method::POST, "/api/v1/node/drain", &json!({"reason": "the end"})).await.is(202);
    assert_eq!(drained.json["mode"], "draining");
    assert!(node.ended().await.success());
}

#[tokio::test]
async fn an_admin_is_answered_as_the_document_says() {
    let mut node = TestNode::start_with("rate = 1000000", "[access]\ndir = 'access'\n").await;
    let there = There::make(&node).await;
    fuzz(&node, &there, None).await;
    is_sound(&mut node).await;
}

#[tokio::test]
async fn a_depositor_is_answered_as_the_document_says() {
    let tokens = tokens(&[("ann", "depositor"), ("ada", "admin")]);
    let api = format!("rate = 1000000\n{tokens}");
    let mut node = TestNode::start_with(&api, "[access]\ndir = 'access'\n").await;
    node.with_token(Some("ada-token"));
    let there = There::make(&node).await;
    fuzz(&node, &there, Some("ann-token")).await;
    is_sound(&mut node).await;
}
