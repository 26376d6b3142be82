//! `ingestd demo`, as a new user runs it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ingestd")).arg("demo").args(arguments).output().unwrap()
}

/// The end of the demo tells what was seen, so each of these is a promise that was kept.
fn tells_the_story(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for line in [
        "node-b is refused:",
        "the node exists already",
        "its lock went with its session",
        "refused as a whole:",
        "operation 0 of the multi",
        "the node has another version",
        "node-b has completed it: completed",
        "64 side by side:",
        "is answered with bid0000000000",
        "fsck, before anybody has tidied up: clean",
        "is now failed (11 completed, 1 failed; report bid0000000000-1)",
        "is now completed (12 completed, 0 failed; report bid0000000000-2)",
        "and cleaned up: 12 jobs, and the batch",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
}

#[test]
fn the_demo_runs_with_nothing_but_itself() {
    let output = demo(&["--once"]);
    tells_the_story(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("the store is in use") && text.contains("/kept is still \"what was acknowledged\""),
        "{text}"
    );
}

#[tokio::test]
async fn the_demo_tells_the_same_story_on_a_zookeeper_server_and_leaves_nothing_behind() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let runs = tokio::task::spawn_blocking(move || {
        [demo(&["--zookeeper", &connect]), demo(&["--zookeeper", &connect])]
    });
    // A second run would be refused by what the first had left.
    for output in runs.await.unwrap() {
        tells_the_story(&output);
    }
}

#[test]
fn a_demo_without_its_server_fails_with_the_reason() {
    let output = demo(&["--zookeeper", "127.0.0.1:port"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("\"port\" is not a port"), "{text}");
}

#[test]
fn a_command_that_does_not_exist_is_refused_with_exit_code_2() {
    let output = Command::new(env!("CARGO_BIN_EXE_ingestd")).arg("demon").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("demo"));
}
