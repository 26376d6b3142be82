//! What has been run for hours is not forgotten: `tests/long` keeps the sections of its page that it has nothing newer for.

use std::fs;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/long-run.md";
const LINTS: &str = "## Lints, as everybody runs them";
const CHAOS: &str = "## Chaos: every fault there is, for 30 minutes";
const CRATES: &str = "## Documentation of the crates";
const PROTOCOL: &str = "## The protocol, every state, with more nodes, jobs and faults";

/// The page that the script makes of another one, and of parts that are kept as passed: when, and what they have printed.
fn report(page: &str, passed: &[(&str, &str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["docs", "tests", "target/long"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/long");
    fs::copy(script, dir.path().join("tests/long")).unwrap();
    fs::write(dir.path().join(PAGE), page).unwrap();
    for (part, when, printed) in passed {
        let kept = dir.path().join("target/long").join(part);
        fs::write(kept.with_extension("passed"), format!("{when}\n")).unwrap();
        fs::write(kept, printed).unwrap();
    }
    let output = Command::new(dir.path().join("tests/long")).arg("--report").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::read_to_string(dir.path().join(PAGE)).unwrap()
}

fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) =
        page.split_once(&format!("{heading}\n")).unwrap_or_else(|| panic!("no {heading}: {page}"));
    rest.split("\n## ").next().unwrap_or_default().trim()
}

#[test]
fn on_a_fresh_machine_the_page_of_long_runs_stays_as_it_is() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE)).unwrap();
    assert_eq!(report(&page, &[]), page);
}

#[test]
fn what_has_passed_here_replaces_what_is_not_newer() {
    let page = format!(
        "# Long runs\n\nold\n\n{LINTS}\n\n2026-01-02, commit aaa.\n\nOld.\n\n{CRATES}\n\n2026-01-03, commit bbb.\n\nElsewhere.\n\n\
         {CHAOS}\n\n2026-01-01, commit ccc. Put in by hand.\n\n```\n## not a heading\n\n```\n\n## A part of old\n\nKept.\n"
    );
    let when = "2026-01-02, on 2 cores, commit ddd";
    let passed = [("lints", when, ""), ("docs", when, "")];
    let written = report(&page, &passed);
    assert_eq!(section(&written, LINTS), "2026-01-02, on 2 cores, commit ddd.\n\nPassed.");
    assert_eq!(section(&written, CRATES), "2026-01-03, commit bbb.\n\nElsewhere.");
    let by_hand = "2026-01-01, commit ccc. Put in by hand.\n\n```\n## not a heading\n\n```";
    assert!(written.contains(&format!("{CHAOS}\n\n{by_hand}\n\n## ")), "{written}");
    assert_eq!(section(&written, "## A part of old"), "Kept.");
    assert_eq!(section(&written, "## `bench -- growth`"), "Not run.");
    assert!(!written.contains("old\n\n##"), "{written}");
    assert_eq!(report(&written, &passed), written);
}

#[test]
fn what_was_explored_of_the_protocol_stands_there_by_its_whole_name() {
    // As it is printed by tests one after another, and by several at once.
    let printed = "\nrunning 2 tests\n\
        test protocol::a_job_has_one_owner ... owner: 12 states, 34 steps, 1 ends, 5 ms\n\
        owner, three nodes: 56 states, 78 steps, 2 ends, 9 ms\nok\n\
        end, at once, with a person: 7 states, 8 steps, 1 ends, 0 ms\n\
        test protocol::a_batch_reports_once ... ok\n\ntest result: ok. 2 passed\n";
    let when = "2026-01-02, on 2 cores, commit ddd";
    let written = report("# Long runs\n", &[("protocol", when, printed)]);
    let wanted = "- owner: 12 states, 34 steps, 1 ends, 5 ms\n\
        - owner, three nodes: 56 states, 78 steps, 2 ends, 9 ms\n\
        - end, at once, with a person: 7 states, 8 steps, 1 ends, 0 ms";
    assert_eq!(section(&written, PROTOCOL), format!("{when}.\n\n{wanted}"));
}
