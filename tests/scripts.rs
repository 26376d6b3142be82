//! The scripts that run the tests: what they print about failures, and what they accept.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};

fn script(name: &str, arguments: &[&Path]) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    Command::new(path).args(arguments).output().unwrap()
}

fn summary(outputs: &[&str]) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..outputs.len()).map(|number| dir.path().join(format!("{number}.out"))).collect();
    for (file, output) in files.iter().zip(outputs) {
        std::fs::write(file, output).unwrap();
    }
    let files: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
    let output = script("summary", &files);
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

const PASSED: &str = "
     Running tests/core/main.rs (target/debug/deps/core-1)

running 2 tests
test one ... ok
test two ... ignored

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

const FAILED: &str = "
     Running tests/queue/main.rs (target/debug/deps/queue-1)

running 3 tests
test jobs::a ... ok
test jobs::b ... FAILED
test jobs::c ... FAILED

failures:

---- jobs::b stdout ----

thread 'jobs::b' (17) panicked at queue/tests/queue/jobs.rs:7:5:
assertion `left == right` failed
  left: 1
 right: 2

---- jobs::c stdout ----
Error: the server is away


failures:
    jobs::b
    jobs::c

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

error: test failed, to rerun pass `-p ingest-queue --test queue`
";

const KILLED: &str = "
     Running tests/node/main.rs (target/debug/deps/node-1)

running 1 test
error: test failed, to rerun pass `-p ingest-actors --test node`

Caused by:
  process didn't exit successfully: `target/debug/deps/node-1` (signal: 9, SIGKILL: kill)
";

#[test]
fn the_totals_of_all_programs_are_one_line() {
    assert_eq!(summary(&[PASSED, PASSED]), ("\ntests: 2 passed, 0 failed, 2 ignored\n".into(), Some(0)));
}

#[test]
fn each_failed_test_is_listed_with_its_first_message_and_its_own_command() {
    let (text, code) = summary(&[PASSED, FAILED]);
    let expected = "
failed:
  jobs::b: assertion `left == right` failed (queue/tests/queue/jobs.rs:7:5)
      cargo test -p ingest-queue --test queue -- --exact jobs::b
  jobs::c: Error: the server is away
      cargo test -p ingest-queue --test queue -- --exact jobs::c

tests: 2 passed, 2 failed, 1 ignored
";
    assert_eq!((text.as_str(), code), (expected, Some(1)));
}

#[test]
fn a_program_that_was_killed_or_not_built_is_a_failure() {
    let (text, code) = summary(&[KILLED, "error: could not compile `ingest-steps`\n"]);
    assert!(text.contains("ended without a result: process didn't exit successfully"), "{text}");
    assert!(text.contains("cargo test -p ingest-actors --test node\n"), "{text}");
    assert!(text.contains("could not compile `ingest-steps`"), "{text}");
    assert!(text.contains("test programs without a result: 2"), "{text}");
    assert_eq!(code, Some(1));
    assert_eq!(summary(&[""]).1, Some(1), "a run without tests has not passed");
}

#[test]
fn the_conditions_of_a_shake_are_listed_and_others_refused() {
    let listed = script("shake", &["--list".as_ref()]);
    assert!(listed.status.success());
    let listed = String::from_utf8(listed.stdout).unwrap();
    for condition in ["alone", "busy", "one-core", "tmpfs", "slow-disk", "full-disk", "serial", "own"] {
        assert!(
            listed.lines().any(|line| line.split_whitespace().next() == Some(condition)),
            "{condition}: {listed}"
        );
    }
    let refused = script("shake", &["windy".as_ref()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("no condition windy"));
}
