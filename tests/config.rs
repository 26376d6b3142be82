//! `ingestd config check`, as an operator runs it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs it in a directory, with no variables but these.
fn check(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingestd"));
    command.args(["config", "check"]).args(arguments).current_dir(dir);
    command.env_clear().envs(variables.iter().copied()).output().unwrap()
}

fn told(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A directory with a configuration and a profile.
fn given(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("config/profiles")).unwrap();
    std::fs::write(dir.path().join("config/ingestd.toml"), text).unwrap();
    dir
}

#[test]
fn what_ships_is_right_and_has_every_default() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = check(root, &[], &[]);
    let (shown, problems) = told(&output);
    assert_eq!((output.status.code(), problems.as_str()), (Some(0), ""));
    let not_looked = "# The settings of the cluster were not looked at: --cluster lays them over the file.\n";
    assert!(shown.ends_with(not_looked), "{shown}");
    assert!(!shown.trim_end_matches(not_looked).contains('#'), "nothing differs from the defaults:\n{shown}");
    // Without a file the same holds; there are only no profiles.
    let empty = tempfile::tempdir().unwrap();
    let profiles = root.join("config/profiles");
    let without = check(empty.path(), &[], &[("INGESTD_PROFILES_DIR", profiles.to_str().unwrap())]);
    assert_eq!(without.status.code(), Some(0), "{:?}", told(&without));
    let same = told(&without).0.replace(&format!("{}/", root.display()), "");
    assert_eq!(same.replace("  # INGESTD_PROFILES_DIR", ""), shown);
    let alone = check(empty.path(), &[], &[]);
    assert_eq!(alone.status.code(), Some(3));
    assert!(told(&alone).1.starts_with("profiles.dir: config/profiles: No such file"), "{:?}", told(&alone));
}

#[test]
fn values_are_marked_with_where_they_come_from() {
    let dir = given("[pools.downloading]\nsize = 3\n[inventory]\nkind = 'postgres'\nurl = 'hunter2'");
    let output = check(dir.path(), &[], &[("INGESTD_FETCH_RETRIES", "1")]);
    let (shown, _) = told(&output);
    assert_eq!(output.status.code(), Some(0), "{:?}", told(&output));
    for part in [
        "size = 3  # config/ingestd.toml:2\n",
        "retries = 1  # INGESTD_FETCH_RETRIES\n",
        "url = \"********\"  # config/ingestd.toml:5\n",
        "connections = 8\n",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    assert!(!shown.contains("hunter2"));
}

#[test]
fn every_problem_is_a_line_and_the_exit_code_is_3() {
    let dir = given("[pools.downloading]\nsiez = 3\n[fetch]\nstall = 'x'\n[queue]\ncommits = 0");
    let output = check(dir.path(), &[], &[("INGESTD_FETCH_RETRY", "1")]);
    let (shown, problems) = told(&output);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(
        problems.lines().collect::<Vec<_>>(),
        [
            "INGESTD_FETCH_RETRY: there is no such key; did you mean `INGESTD_FETCH_RETRIES`?",
            "config/ingestd.toml:2:1: pools.downloading.siez: unknown key; did you mean `size`?",
            "config/ingestd.toml:4:9: fetch.stall: invalid value: string \"x\", expected a duration",
            "config/ingestd.toml:6:11: queue.commits: 0 makes no sense here: at least 1",
            "ingestd: the configuration has 4 problems",
        ]
    );
    assert!(shown.contains("stall = \"x\"  # config/ingestd.toml:4"), "{shown}");
}

#[test]
fn machines_read_json() {
    let dir =
        given("[pools.downloading]\nsiez = 3\nsize = 4\n[inventory]\nkind = 'postgres'\nurl = 'hunter2'");
    let output = check(dir.path(), &["--json"], &[]);
    assert_eq!(output.status.code(), Some(3));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["effective"]["pools"]["downloading"]["size"], 4);
    assert_eq!(json["effective"]["inventory"]["url"], "********");
    assert_eq!(json["sources"]["pools.downloading.size"], "config/ingestd.toml:3");
    let problem = &json["problems"][0];
    assert_eq!((&problem["line"], &problem["column"]), (&2.into(), &1.into()));
    assert_eq!(
        (&problem["key"], &problem["did_you_mean"]),
        (&"pools.downloading.siez".into(), &"size".into())
    );
    let right = check(given("").path(), &["--json"], &[]);
    let json: Value = serde_json::from_slice(&right.stdout).unwrap();
    assert_eq!((right.status.code(), &json["problems"]), (Some(0), &Value::Array(Vec::new())));
}

#[test]
fn the_file_can_be_named() {
    let dir = given("[pools.downloading]\nsize = 3");
    std::fs::write(dir.path().join("other.toml"), "[pools.downloading]\nsize = 5").unwrap();
    let size = |arguments: &[&str], variables: &[(&str, &str)]| {
        let json: Value = serde_json::from_slice(&check(dir.path(), arguments, variables).stdout).unwrap();
        json["effective"]["pools"]["downloading"]["size"].clone()
    };
    assert_eq!(size(&["--json"], &[]), 3);
    assert_eq!(size(&["--json", "--config", "other.toml"], &[]), 5);
    assert_eq!(size(&["--json"], &[("INGESTD_CONFIG", "other.toml")]), 5);
    let missing = check(dir.path(), &["--config", "nowhere.toml"], &[]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(told(&missing).1.starts_with("nowhere.toml: there is no such file\n"), "{:?}", told(&missing));
    assert_eq!(check(dir.path(), &["--no-such-option"], &[]).status.code(), Some(2));
}
