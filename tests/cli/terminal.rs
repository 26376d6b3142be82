//! On a terminal: colour, questions and bars.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::kit::TestNode;

/// Runs a command against a node on a terminal; `answer` is typed when a question was asked.
fn on_a_terminal(
    node: &TestNode,
    arguments: &[&str],
    variables: &[(&str, &str)],
    answer: &str,
) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingestd"));
    command.args(arguments).current_dir(node.dir.path()).env_clear();
    command.env("INGESTD_SERVER", &node.base).env("TERM", "xterm").envs(variables.iter().copied());
    with_a_terminal(command, answer)
}

/// Runs a command on a terminal of 90 columns.
fn with_a_terminal(mut command: Command, answer: &str) -> (i32, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs: OwnedFd = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    tcsetwinsize(&theirs, Winsize { ws_row: 40, ws_col: 90, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let stdio = || Stdio::from(theirs.try_clone().unwrap());
    let mut child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
    drop(command);
    drop(theirs);
    let mut ours = File::from(ours);
    let (mut seen, mut piece, mut answered) = (Vec::new(), [0; 4096], false);
    // It ends with an error when the last of their ends is closed.
    while let Ok(count) = ours.read(&mut piece) {
        if count == 0 {
            break;
        }
        seen.extend_from_slice(&piece[..count]);
        if !answered && String::from_utf8_lossy(&seen).contains("[y/N]") {
            answered = true;
            ours.write_all(answer.as_bytes()).unwrap();
        }
    }
    (child.wait().unwrap().code().unwrap(), String::from_utf8_lossy(&seen).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn colour_is_for_terminals_and_can_be_switched_off() {
    let node = TestNode::start().await;
    let bid = node.submit("a.txt", "a").await;
    node.batch_is(&bid, "completed").await;
    let (code, coloured) = on_a_terminal(&node, &["batch", "list"], &[], "");
    assert_eq!(code, 0, "{coloured}");
    assert!(coloured.contains("\u{1b}[32mcompleted\u{1b}[0m"), "{coloured:?}");
    let (_, plain) = on_a_terminal(&node, &["batch", "list"], &[("NO_COLOR", "1")], "");
    assert!(plain.contains("completed") && !plain.contains("\u{1b}[3"), "{plain:?}");
    let (_, dumb) = on_a_terminal(&node, &["batch", "list"], &[("TERM", "dumb")], "");
    assert!(dumb.contains("completed") && !dumb.contains("\u{1b}[3"), "{dumb:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_back_is_asked_about() {
    let node = TestNode::start().await;
    let bid = node.submit_url(node.files.url("/none.txt").as_str()).await;
    node.batch_is(&bid, "failed").await;
    let jid = node.job_is(&bid, "failed").await;

    let (code, seen) = on_a_terminal(&node, &["job", "delete", &jid], &[], "n\n");
    assert_eq!(code, 12, "{seen}");
    assert!(seen.contains("will not be told") && seen.contains(&format!("Delete {jid}? [y/N]")), "{seen}");
    let (code, seen) = on_a_terminal(&node, &["job", "delete", "--state", "failed"], &[], "\n");
    assert_eq!(code, 12, "{seen}");
    assert!(seen.contains("Delete 1 job? [y/N]") && seen.contains("depositors will not be told"), "{seen}");
    let (code, seen) = on_a_terminal(&node, &["batch", "delete", &bid], &[], "no\n");
    assert_eq!(code, 12, "{seen}");
    assert!(seen.contains("will not be told"), "{seen}");
    assert_eq!(node.get(&format!("/api/v1/jobs/{jid}")).await.status, 200, "nothing was done");

    let (code, seen) = on_a_terminal(&node, &["job", "delete", &jid], &[], "y\n");
    assert_eq!(code, 0, "{seen}");
    assert_eq!(node.get(&format!("/api/v1/jobs/{jid}")).await.status, 404);
    let (code, seen) = on_a_terminal(&node, &["batch", "delete", &bid, "--yes"], &[], "");
    assert_eq!(code, 0, "{seen}");
    assert!(!seen.contains("[y/N]"), "{seen}");

    let (code, seen) = on_a_terminal(&node, &["profile", "delete", "maps"], &[], "n\n");
    assert_eq!(code, 12, "{seen}");
    assert!(seen.contains("where no file has it too") && seen.contains("profile maps? [y/N]"), "{seen}");
    let id = "11111111-2222-4333-8444-555555555555";
    let (code, seen) = on_a_terminal(&node, &["requests", "forget", id], &[], "n\n");
    assert_eq!(code, 12, "{seen}");
    assert!(seen.contains("its result is gone") && seen.contains(&format!("{id}? [y/N]")), "{seen}");
    let (code, seen) = on_a_terminal(&node, &["drain", "node-1"], &[], "n\n");
    assert_eq!(code, 12, "{seen}");
    assert!(seen.contains("its process ends") && seen.contains("Drain node-1? [y/N]"), "{seen}");
    assert_eq!(node.get("/readyz").await.status, 200, "nothing was done");
    let (code, seen) = on_a_terminal(&node, &["drain"], &[], "y\n");
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("is draining"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_waited_for_has_a_bar() {
    let node = TestNode::start().await;
    let url = node.files.put("/a.txt", "a");
    let arguments =
        ["submit", url.as_str(), "--type", "file", "-p", "test_content", "--submitter", "ann", "--wait"];
    let (code, seen) = on_a_terminal(&node, &arguments, &[], "");
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("is handed over") && seen.contains("1/1"), "{seen:?}");
}

#[test]
fn the_demo_has_a_bar_for_each_batch_and_for_each_state() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingestd"));
    command.args(["demo", "--once"]).current_dir(empty.path()).env_clear().env("TERM", "xterm");
    let (code, seen) = with_a_terminal(command, "");
    assert_eq!(code, 0, "{seen}");
    // A bar fills its line, and what is drawn next follows at once: a name, the bar, and how many of how many.
    let drawn = |name: &str, count: &str| {
        let bars = seen.match_indices(name).filter_map(|(at, _)| seen[at + name.len()..].split_once('/'));
        bars.filter(|(bar, rest)| {
            let done: String = bar.chars().rev().take_while(char::is_ascii_digit).collect();
            let all: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let is_bar = bar.contains('█') && !bar.contains('\u{1b}');
            is_bar && format!("{}/{all}", done.chars().rev().collect::<String>()) == count
        })
        .count()
    };
    for bid in 0..6 {
        let bid = format!("bid{bid:010}");
        assert!(drawn(&bid, "1/1") + drawn(&bid, "2/2") + drawn(&bid, "3/3") > 0, "{bid}: {seen:?}");
    }
    for state in ["pending", "estimating", "provisioning", "downloading", "processing", "recording", "notify"]
    {
        assert!(drawn(state, "10/11") > 0, "{state}: {seen:?}");
        assert!(drawn(state, "11/11") > 0, "{state}, once the source is repaired: {seen:?}");
    }
    assert!(drawn("completed", "10/11") > 0 && drawn("failed", "1/11") > 0, "{seen:?}");
}
