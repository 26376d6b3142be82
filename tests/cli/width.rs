//! No line is longer than the terminal is wide, whatever strangers have written.

use unicode_width::UnicodeWidthStr as _;

use crate::kit::TestNode;
use crate::ran::{Ran, command, run};

const HOSTILE: &str = "red\u{1b}[31m bell\u{7} 漢字漢字漢字漢字漢字漢字漢字漢字漢字 right\u{202e}left <b> a-very-long-word-without-any-place-to-break-it";

/// As far as a submission may go.
const WIDE: &str = "漢字漢字漢字漢字漢字漢字漢字漢字漢字 right\u{202e}left <b> a-very-long-word-without-any-place-to-break-it";

#[tokio::test]
async fn every_table_fits_every_width() {
    let node = TestNode::start().await;
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

    let commands: [&[&str]; 24] = [
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
        &["fsck"],
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
