//! Payload manifests and tag manifests.

use std::fs;

use ingest_steps::bag::{Bag, validate};
use ingest_steps::digest::Algorithm;
use ingest_steps::outcome::{Cancel, Failure, Progress};

use super::made::{Made, hex, sha256};

#[test]
fn a_changed_file_leaves_the_bag_complete_and_not_valid() {
    let made = Made::new();
    made.write("data/a.txt", "0ne");
    assert_eq!(made.findings(), ["complete", "wrong-digest data/a.txt"]);
    let verdict = made.report().verdict().unwrap_err().to_string();
    assert!(verdict.starts_with("the bag is not valid: data/a.txt: manifest-sha256.txt says"), "{verdict}");
}

#[test]
fn a_bag_with_a_missing_file_is_not_complete() {
    let made = Made::new();
    fs::remove_file(made.at("data/a.txt")).unwrap();
    assert_eq!(made.findings(), ["incomplete", "missing data/a.txt"]);
}

#[test]
fn a_file_that_no_manifest_lists_makes_the_bag_incomplete() {
    let made = Made::new();
    made.write("data/.DS_Store", "");
    assert_eq!(made.findings(), ["incomplete", "not-listed data/.DS_Store"]);
}

#[test]
fn every_problem_is_told_and_not_only_the_first() {
    let made = Made::new();
    made.write("data/a.txt", "0ne");
    fs::remove_file(made.at("data/sub/b.txt")).unwrap();
    made.write("data/c", "");
    made.append("manifest-sha256.txt", "nonsense\n");
    let expected = [
        "incomplete",
        "bad-line manifest-sha256.txt",
        "not-listed data/c",
        "missing data/sub/b.txt",
        "wrong-digest data/a.txt",
    ];
    assert_eq!(made.findings(), expected);
}

#[test]
fn a_bag_without_a_payload_manifest_is_not_complete() {
    let made = Made::new();
    fs::remove_file(made.at("manifest-sha256.txt")).unwrap();
    assert!(made.findings().contains(&"no-manifest manifest-sha512.txt".to_owned()));
}

#[test]
fn in_1_0_every_manifest_lists_every_file_and_before_one_was_enough() {
    for (version, expected) in
        [("1.0", &["incomplete", "not-listed data/sub/b.txt"][..]), ("0.97", &["valid"])]
    {
        let made = Made::of_version(version);
        made.write("manifest-md5.txt", &format!("{} data/a.txt\n", hex(Algorithm::Md5, b"one")));
        assert_eq!(made.findings(), expected);
    }
}

#[test]
fn every_manifest_is_compared() {
    let made = Made::new();
    let md5 = hex(Algorithm::Md5, b"other");
    made.write("manifest-md5.txt", &format!("{md5} data/a.txt\n{md5} data/sub/b.txt\n"));
    assert_eq!(made.findings(), ["complete", "wrong-digest data/a.txt", "wrong-digest data/sub/b.txt"]);
}

#[test]
fn a_file_is_listed_once() {
    for (version, expected) in [("1.0", &["incomplete", "listed-twice data/a.txt"][..]), ("0.97", &["valid"])]
    {
        let made = Made::of_version(version);
        made.append("manifest-sha256.txt", &made.row("data/a.txt"));
        assert_eq!(made.findings(), expected);
    }
    let made = Made::of_version("0.97");
    made.append("manifest-sha256.txt", &format!("{} data/a.txt\n", sha256("other")));
    let expected = ["incomplete", "listed-twice data/a.txt", "wrong-digest data/a.txt"];
    assert_eq!(made.findings(), expected, "twice with two digests is wrong in every version");
}

#[test]
fn line_ends_and_percent_signs_in_names_are_decoded() {
    let made = Made::new();
    made.write("data/x\ny\r100%", "odd");
    made.append("manifest-sha256.txt", &format!("{} data/x%0Ay%0d100%25\n", sha256("odd")));
    assert_eq!(made.findings(), ["valid"]);
}

#[test]
fn a_percent_sign_that_was_not_encoded_is_a_warning() {
    let made = Made::new();
    made.write("data/50%25", "odd");
    made.append("manifest-sha256.txt", &format!("{} data/50%25\n", sha256("odd")));
    assert_eq!(
        (made.findings(), made.warnings()),
        (vec!["valid".to_owned()], vec!["odd-path data/50%25".to_owned()])
    );
}

#[test]
fn marks_of_checksum_tools_are_warnings() {
    let made = Made::new();
    let rows =
        format!("{} *data/a.txt\r\n\r\n{}\t./data/sub/b.txt", sha256("one"), sha256("two!").to_uppercase());
    made.write("manifest-sha256.txt", &rows);
    assert_eq!(made.findings(), ["valid"]);
    assert_eq!(made.warnings(), ["odd-path *data/a.txt", "odd-path ./data/sub/b.txt"]);
}

#[test]
fn paths_that_leave_the_bag_are_refused() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "one").unwrap();
    let absolute = outside.path().join("secret").to_str().unwrap().to_owned();
    for path in [
        absolute.as_str(),
        "data/../../secret",
        "../secret",
        "~/secret",
        "~root/x",
        "data//a.txt",
        "data/./a",
    ] {
        for manifest in ["manifest-sha256.txt", "tagmanifest-sha256.txt"] {
            let made = Made::new();
            if manifest.starts_with("tag") {
                made.write(manifest, &made.row("manifest-sha256.txt"));
            }
            made.append(manifest, &format!("{} {path}\n", sha256("one")));
            assert_eq!(made.findings(), ["incomplete".to_owned(), format!("bad-path {path}")]);
            assert!(Bag::open(made.path()).is_err());
        }
    }
}

#[test]
fn payload_manifests_list_payload_and_tag_manifests_list_tags() {
    let made = Made::new();
    made.append("manifest-sha256.txt", &made.row("bagit.txt"));
    made.write("tagmanifest-sha256.txt", &(made.row("manifest-sha256.txt") + &made.row("data/a.txt")));
    assert_eq!(made.findings(), ["incomplete", "misplaced bagit.txt", "misplaced data/a.txt"]);
}

#[test]
fn tag_manifests_never_list_tag_manifests() {
    let made = Made::new();
    let md5 = hex(Algorithm::Md5, &fs::read(made.at("manifest-sha256.txt")).unwrap());
    made.write("tagmanifest-md5.txt", &format!("{md5} manifest-sha256.txt\n"));
    made.write(
        "tagmanifest-sha256.txt",
        &(made.row("manifest-sha256.txt") + &made.row("tagmanifest-md5.txt")),
    );
    assert_eq!(made.findings(), ["incomplete", "misplaced tagmanifest-md5.txt"]);
}

#[test]
fn tag_files_are_compared_and_have_to_be_there() {
    let made = Made::new();
    made.write("meta/dc.xml", "<dc/>");
    let rows = made.row("meta/dc.xml") + &made.row("manifest-sha256.txt");
    made.write("tagmanifest-sha256.txt", &rows);
    assert_eq!(made.findings(), ["valid"]);
    made.write("meta/dc.xml", "<mods/>");
    assert_eq!(made.findings(), ["complete", "wrong-digest meta/dc.xml"]);
    fs::remove_file(made.at("meta/dc.xml")).unwrap();
    assert_eq!(made.findings(), ["incomplete", "missing meta/dc.xml"]);
}

#[test]
fn every_tag_manifest_lists_every_payload_manifest_and_before_1_0_it_need_not() {
    for version in ["1.0", "0.97"] {
        let made = Made::of_version(version);
        made.write("tagmanifest-sha256.txt", &made.row("bagit.txt"));
        // Another that does list it does not help.
        let md5 = hex(Algorithm::Md5, &fs::read(made.at("manifest-sha256.txt")).unwrap());
        made.write("tagmanifest-md5.txt", &format!("{md5} manifest-sha256.txt\n"));
        let told = "not-listed manifest-sha256.txt".to_owned();
        let (findings, warnings) = match version {
            "1.0" => (vec!["incomplete".to_owned(), told], vec![]),
            _ => (vec!["valid".to_owned()], vec![told]),
        };
        assert_eq!((made.findings(), made.warnings()), (findings, warnings), "{version}");
        made.append("tagmanifest-sha256.txt", &made.row("manifest-sha256.txt"));
        assert_eq!((made.findings(), made.warnings()), (vec!["valid".to_owned()], vec![]), "{version}");
    }
}

#[test]
fn a_tag_file_that_no_tag_manifest_lists_is_no_problem() {
    let made = Made::new();
    made.write("meta/dc.xml", "<dc/>");
    made.write("tagmanifest-sha256.txt", &made.row("manifest-sha256.txt"));
    assert_eq!((made.findings(), made.warnings()), (vec!["valid".to_owned()], vec![]));
}

#[test]
fn links_are_a_problem_and_are_not_followed() {
    let made = Made::new();
    fs::remove_file(made.at("data/a.txt")).unwrap();
    std::os::unix::fs::symlink(made.at("data/sub/b.txt"), made.at("data/a.txt")).unwrap();
    std::os::unix::fs::symlink("/", made.at("meta")).unwrap();
    let findings = made.findings();
    for expected in ["incomplete", "not-a-file data/a.txt", "not-a-file meta", "missing data/a.txt"] {
        assert!(findings.contains(&expected.to_owned()), "{findings:?}");
    }
    assert_eq!(findings.len(), 4);
}

#[test]
fn a_name_that_is_not_utf8_is_a_problem() {
    use std::os::unix::ffi::OsStrExt;
    let made = Made::new();
    fs::write(made.at("data").join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    assert_eq!(made.findings()[..1], ["incomplete"]);
    assert!(made.findings()[1].starts_with("bad-name data/caf"));
}

#[test]
fn a_manifest_of_an_unknown_algorithm_is_a_warning_beside_a_known_one() {
    let made = Made::new();
    made.write("manifest-sha3256.txt", "abc data/a.txt\nabc data/sub/b.txt\n");
    assert_eq!(made.findings(), ["valid"]);
    assert_eq!(made.warnings(), ["unknown-algorithm manifest-sha3256.txt"]);
    fs::remove_file(made.at("manifest-sha256.txt")).unwrap();
    assert_eq!(made.findings(), ["incomplete", "unknown-algorithm manifest-sha3256.txt"]);
}

#[test]
fn lines_that_cannot_be_read_are_told_with_their_number() {
    let made = Made::new();
    for wrong in ["abc data/a.txt".to_owned(), sha256(""), format!("{} ", sha256("")), "x".repeat(70_000)] {
        made.write(
            "manifest-sha256.txt",
            &(made.row("data/a.txt") + &wrong + "\n" + &made.row("data/sub/b.txt")),
        );
        assert_eq!(made.findings(), ["incomplete", "bad-line manifest-sha256.txt"]);
        assert!(made.report().problems[0].why.starts_with("line 2"), "{:?}", made.report().problems);
    }
}

#[test]
fn a_byte_order_mark_in_a_manifest_is_told_and_its_line_is_read() {
    let made = Made::new();
    let rows = fs::read_to_string(made.at("manifest-sha256.txt")).unwrap();
    made.write("manifest-sha256.txt", &format!("\u{feff}{rows}"));
    assert_eq!(made.findings(), ["incomplete", "bad-line manifest-sha256.txt"]);
}

#[test]
fn problems_without_end_are_counted() {
    let made = Made::new();
    made.append("manifest-sha256.txt", &"x\n".repeat(10_007));
    let report = made.report();
    assert_eq!((report.problems.len(), report.more, report.complete()), (10_000, 7, false));
    assert!(report.verdict().unwrap_err().to_string().ends_with("; and 10002 more"));
}

#[test]
fn a_validation_can_be_cancelled_and_tells_its_progress() {
    let made = Made::new();
    let cancel = Cancel::new();
    let progress = Progress::default();
    validate(made.path(), &progress, &cancel).unwrap();
    assert_eq!((progress.done(), progress.all()), ((2, 7), (2, 7)));
    cancel.cancel();
    assert_eq!(validate(made.path(), &progress, &cancel).unwrap_err(), Failure::Cancelled);
}
