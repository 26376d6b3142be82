//! `ingestd demo`, as a new user runs it, and what it leaves, looked at from outside.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rocfl::ocfl::ValidationResult as _;
use rustix::process::{Pid, Signal, kill_process};

/// The program with nothing but itself: no variables, no configuration where it runs, and no way out but to a proxy that
/// is not there.
fn alone(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingestd"));
    command.args(arguments).current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env(proxy, "http://127.0.0.1:9");
    }
    command
}

fn demo(arguments: &[&str]) -> Output {
    let empty = tempfile::tempdir().unwrap();
    let output = alone(empty.path(), &[&["demo"], arguments].concat()).output().unwrap();
    let left = std::fs::read_dir(empty.path()).unwrap().count();
    assert_eq!(left, 0, "it leaves nothing where it was started");
    output
}

fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Each line of the story is what the node has answered.
fn tells_the_story(output: &Output) {
    let text = both(output);
    assert!(output.status.success(), "{text}");
    for line in [
        "bid0000000006  a manifest of single files",
        "7 reports in",
        "Objects: 2 completed, 1 failed",
        "10 objects are stored",
        "is requeued: failed → downloading",
        "Completed since the last report (1)",
        "Objects: 3 completed, 0 failed",
        "11 objects are stored",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
}

/// The subject of each mail, by its name.
fn mails(dir: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(dir.join("outbox")).unwrap().map(Result::unwrap);
    // Without the file that says to which repository they belong.
    let entries = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let subject = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(entry.path()).unwrap().replace("\r\n", "\n");
        let head = text.split("\n\n").next().unwrap().replace("\n ", " ");
        let of = name.strip_suffix(".eml").unwrap();
        assert!(head.contains(&format!("Message-ID: <{of}>")), "{name}: {head}");
        let subject = head.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap().to_owned();
        (name, subject)
    };
    entries.map(subject).collect()
}

/// How many objects of a batch the subject says to be completed, and how many failed.
fn told(subject: &str) -> (u32, u32) {
    let counts = subject.rsplit(": ").next().unwrap();
    let number = |what: &str| {
        let part = counts.split(", ").find_map(|part| part.strip_suffix(what)).unwrap();
        part.trim().parse().unwrap()
    };
    (number("completed"), number("failed"))
}

#[test]
fn the_demo_runs_with_nothing_but_itself_and_what_it_stored_is_valid() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("here");
    let output = demo(&["--once", "--dir", place.to_str().unwrap()]);
    tells_the_story(&output);
    let mails = mails(&place);
    assert_eq!(mails.len(), 8, "{mails:?}");
    let last = "bid0000000006-1@localhost.eml";
    let partly = "Ingest: PARTLY FAILED -- Batch bid0000000006: 2 completed, 1 failed";
    assert_eq!(mails.get(last).map(String::as_str), Some(partly), "{mails:?}");
    let (updates, first): (Vec<_>, Vec<_>) = mails.iter().partition(|(name, _)| name.contains("-2@"));
    let all_good = "Ingest: OK -- Update of batch bid0000000006: 3 completed, 0 failed";
    assert_eq!(updates, [(&"bid0000000006-2@localhost.eml".to_owned(), &all_good.to_owned())]);
    let sum = first.iter().map(|(_, subject)| told(subject)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    assert_eq!(sum, (10, 1), "{mails:?}");
    let good = first.iter().filter(|(_, subject)| subject.starts_with("Ingest: OK -- Batch ")).count();
    assert_eq!(good, 6, "{mails:?}");
    let storage = rocfl::ocfl::OcflRepo::fs_repo(place.join("storage"), None).unwrap();
    let mut validated = storage.validate_repo(true).unwrap();
    assert!(validated.storage_root_result().errors().is_empty());
    let mut objects = 0;
    for object in &mut validated {
        let object = object.unwrap();
        assert!(object.errors().is_empty(), "{:?}", object.errors());
        objects += 1;
    }
    assert_eq!(objects, 11);
    let tree = place.join("tree");
    let fsck = alone(dir.path(), &["fsck", "--embedded", tree.to_str().unwrap()]).output().unwrap();
    assert!(fsck.status.success(), "{}", both(&fsck));
    let work = std::fs::read_dir(place.join("work")).unwrap().flatten();
    let left: Vec<_> =
        work.map(|entry| entry.file_name()).filter(|name| !name.to_string_lossy().starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
    let again = demo(&["--once", "--dir", place.to_str().unwrap()]);
    assert!(again.status.code() == Some(1) && both(&again).contains("it is not empty"), "{}", both(&again));
}

#[test]
fn with_one_byte_of_a_sample_altered_it_tells_another_story() {
    let dir = tempfile::tempdir().unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/demo/samples");
    for entry in std::fs::read_dir(shipped).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let sample = dir.path().join("letter.txt");
    let mut bytes = std::fs::read(&sample).unwrap();
    bytes[7] ^= 1;
    std::fs::write(&sample, bytes).unwrap();
    let output = demo(&["--once", "--samples", dir.path().to_str().unwrap()]);
    let text = both(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("bid0000000003 should have completed, and is failed"), "{text}");
}

#[tokio::test]
async fn the_demo_stays_until_it_is_told_to_end_and_takes_everything_with_it() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = alone(empty.path(), &["demo"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut address, mut dir, mut printed) = (String::new(), String::new(), Vec::new());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.by_ref() {
        let line = line.unwrap();
        if let Some(found) = line.strip_prefix("Its dashboard: ") {
            found.clone_into(&mut address);
        }
        if let Some(found) = line.strip_prefix("The node runs in ") {
            found.split(';').next().unwrap().clone_into(&mut dir);
        }
        if line.ends_with("Ctrl-C ends it.") {
            break;
        }
        printed.extend(line.strip_prefix("  ingestd ").map(str::to_owned));
    }
    // What it says to do works as it stands there.
    for (command, says) in [("job list", "completed"), ("access submit", "token")] {
        let line = printed.iter().rfind(|line| line.starts_with(command)).unwrap();
        let ran = alone(empty.path(), &line.split(' ').collect::<Vec<_>>()).output().unwrap();
        assert!(ran.status.success() && both(&ran).contains(says), "{line}: {}", both(&ran));
        let arks = both(&ran).lines().filter(|line| line.contains("ark:/99999/")).count();
        assert!(command != "job list" || arks == 11, "{}", both(&ran));
    }
    let counts: serde_json::Value =
        reqwest::get(format!("{address}api/v1/states/counts")).await.unwrap().json().await.unwrap();
    assert_eq!(
        (&counts["jobs"]["completed"], &counts["jobs"]["failed"]),
        (&11.into(), &0.into()),
        "{counts}"
    );
    assert!(Path::new(&dir).join("storage").is_dir());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    for line in lines {
        line.unwrap();
    }
    assert!(child.wait().unwrap().success());
    assert!(!Path::new(&dir).exists(), "{dir} is left");
    assert!(reqwest::get(format!("{address}healthz")).await.is_err(), "the node is left");
}

#[tokio::test]
async fn the_demo_tells_the_same_story_on_a_zookeeper_server() {
    let connect = ingest_harness::shared_connect_string_with_chroot().await;
    let run = tokio::task::spawn_blocking(move || demo(&["--once", "--zookeeper", &connect]));
    tells_the_story(&run.await.unwrap());
}

#[test]
fn a_demo_without_its_server_fails_with_the_reason() {
    let output = demo(&["--once", "--zookeeper", "127.0.0.1:port"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(both(&output).contains("\"port\" is not a port"), "{}", both(&output));
}

#[test]
fn a_command_that_does_not_exist_is_refused_with_exit_code_2() {
    let output = Command::new(env!("CARGO_BIN_EXE_ingestd")).arg("demon").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("demo"));
}
