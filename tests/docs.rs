//! The pages that the program writes about itself are what it would write now.
//!
//! After a change of a table: `INGESTD_WRITE_DOCS=1 cargo test --test docs`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

#[path = "docs/licences.rs"]
mod licences;
#[path = "docs/long_run.rs"]
mod long_run;

use std::path::Path;

use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::Code;
use ingest_queue::states::{AccessState, BatchState, JobState, States, diagram, table};

fn check(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    if std::env::var_os("INGESTD_WRITE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == text,
        "docs/{page} is old; write it anew with INGESTD_WRITE_DOCS=1 cargo test --test docs"
    );
}

fn section<S: States>(title: &str, dialect: Dialect) -> String {
    format!("## {title}\n\n{}\n```mermaid\n{}```\n", table::<S>(dialect), diagram::<S>(dialect))
}

#[test]
fn the_page_of_states_is_the_tables() {
    let text = [
        "# States, and who moves what\n\nWritten by the program from its own tables (`ingestd states`).\n".to_owned(),
        section::<JobState>("Jobs", Dialect::Design),
        "A job that fails keeps `last_successful_status`; leaving pending or held never sets it. A held job keeps its place in\n\
         `batch-processing`, so its batch waits, and says so.\n"
            .to_owned(),
        section::<BatchState>("Batches", Dialect::Design),
        section::<AccessState>("Access items", Dialect::Design),
        section::<JobState>("Jobs in the `mrt-zk` dialect", Dialect::MrtZk),
    ]
    .join("\n");
    check("states.md", &text);
}

#[test]
fn the_page_of_findings_is_the_table_of_codes() {
    let text = format!(
        "# What fsck checks\n\nWritten by the program from its own table (`ingestd fsck --codes`). `ingestd fsck` changes nothing; it ends with exit code 1\n\
         if anything of severity warn or error was found. `--repair` does what stands in the last column, each repair in one commit that\n\
         rests on what was found; what is being worked on is left alone. Before a finding is reported the node is read again, until two looks agree.\n\n\
         N02 and N04 to N07 compare the tree with what is beside it: a node does so by itself, and takes no work while there are any of severity error\n\
         ([restoring a tree](operations.md#restoring-a-tree)). The command compares where it asks a node or knows its configuration (`--config`), and not\n\
         with `--embedded` or `--zookeeper`.\n\n{}",
        Code::table()
    );
    check("fsck.md", &text);
}

fn printed(arguments: &[&str]) -> String {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_ingestd"));
    let output = program.args(arguments).env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_of_commands_is_what_the_program_says() {
    check("cli.md", &printed(&["man", "--markdown"]));
}

#[test]
fn the_page_of_the_configuration_is_the_file_that_ships() {
    check("configuration.md", &printed(&["config", "keys", "--markdown"]));
}
