//! `fetch.txt`.

use std::fs;

use ingest_steps::bag::{Bag, FetchRow};

use super::made::{Made, sha256};

/// A bag in which `data/far` is still to be fetched.
fn made() -> Made {
    let made = Made::new();
    made.append("manifest-sha256.txt", &format!("{} data/far\n", sha256("far away")));
    made.write("fetch.txt", "https://example.org/a%20b 8 data/far\n");
    made
}

#[test]
fn rows_are_there_for_whoever_fetches_them() {
    let made = made();
    made.append("fetch.txt", "http://example.org/b  -\tdata/a b\n");
    let row = |url: &str, length, path: &str| FetchRow { url: url.into(), length, path: path.into() };
    let bag = Bag::open(made.path()).unwrap();
    let expected = [
        row("https://example.org/a%20b", Some(8), "data/far"),
        row("http://example.org/b", None, "data/a b"),
    ];
    assert_eq!(bag.fetch(), expected);
    assert_eq!(bag.payload()["data/far"][0].hex(), sha256("far away"));
}

#[test]
fn a_bag_is_complete_when_its_files_were_fetched() {
    let made = made();
    assert_eq!(made.findings(), ["incomplete", "not-fetched data/far"]);
    made.write("data/far", "far away");
    assert_eq!(made.findings(), ["valid"]);
    made.write("data/far", "elsewhere");
    assert_eq!(made.findings(), ["complete", "wrong-size data/far", "wrong-digest data/far"]);
}

#[test]
fn files_to_be_fetched_are_in_every_manifest() {
    let made = made();
    made.append("fetch.txt", "https://example.org/x - data/unlisted\n");
    assert_eq!(made.findings(), ["incomplete", "not-fetched data/far", "not-listed data/unlisted"]);
    fs::remove_file(made.at("fetch.txt")).unwrap();
    made.write("data/far", "far away");
    assert_eq!(made.findings(), ["valid"]);
}

#[test]
fn a_file_is_fetched_from_one_place() {
    let made = made();
    made.write("data/far", "far away");
    made.append("fetch.txt", "https://example.org/other 8 data/far\n");
    assert_eq!(made.findings(), ["incomplete", "listed-twice data/far"]);
}

#[test]
fn nothing_is_fetched_to_outside_of_the_payload() {
    for (path, code) in [
        ("/etc/cron.d/x", "bad-path"),
        ("data/../../x", "bad-path"),
        ("~/.ssh/x", "bad-path"),
        ("bagit.txt", "misplaced"),
        ("data", "misplaced"),
    ] {
        let made = Made::new();
        made.write("fetch.txt", &format!("https://example.org/x 3 {path}\n"));
        assert_eq!(made.findings(), ["incomplete".to_owned(), format!("{code} {path}")]);
        assert_eq!(made.report().fetch, []);
        assert!(Bag::open(made.path()).is_err());
    }
}

#[test]
fn rows_that_cannot_be_read_are_told() {
    for row in
        ["https://example.org/x data/a.txt", "https://example.org/x -1 data/a.txt", "nowhere 3 data/a.txt"]
    {
        let made = Made::new();
        made.write("fetch.txt", row);
        assert_eq!(made.findings(), ["incomplete", "bad-line fetch.txt"], "{row}");
    }
}
