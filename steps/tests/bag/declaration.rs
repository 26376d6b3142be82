//! `bagit.txt`, `data/` and `bag-info.txt`.

use std::fs;

use ingest_steps::bag::Bag;
use ingest_steps::outcome::Failure;

use super::made::Made;

#[test]
fn a_bag_of_every_version_is_valid() {
    for version in ["0.93", "0.94", "0.95", "0.96", "0.97", "1.0"] {
        let made = Made::of_version(version);
        assert_eq!(made.findings(), ["valid"]);
        let report = made.report();
        assert_eq!(
            (report.version.unwrap().to_string().as_str(), report.files, report.bytes),
            (version, 2, 7)
        );
    }
}

#[test]
fn a_directory_without_a_declaration_is_no_bag_and_the_rest_is_told_too() {
    let made = Made::new();
    fs::remove_file(made.at("bagit.txt")).unwrap();
    made.write("data/extra", "");
    assert_eq!(made.findings(), ["incomplete", "no-declaration bagit.txt", "not-listed data/extra"]);
    assert!(matches!(Bag::open(made.path()), Err(Failure::Hopeless(why)) if why.contains("no bagit.txt")));
}

#[test]
fn a_declaration_that_is_not_exactly_two_lines_is_refused() {
    const GOOD: &str = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
    let made = Made::new();
    for wrong in [
        format!("\u{feff}{GOOD}"),
        format!("{GOOD}More: x\n"),
        format!("{GOOD}\n"),
        GOOD.replace("1.0", "one"),
        GOOD.replace("1.0", "1.0 "),
        GOOD.replace(": ", ":"),
        GOOD.replace("BagIt", "Bagit"),
        "BagIt-Version: 1.0\n".to_owned(),
        "Tag-File-Character-Encoding: UTF-8\nBagIt-Version: 1.0\n".to_owned(),
        String::new(),
    ] {
        made.write("bagit.txt", &wrong);
        let findings = made.findings();
        assert_eq!(findings[..2], ["incomplete", "bad-declaration bagit.txt"], "{wrong:?}");
        assert!(Bag::open(made.path()).is_err());
    }
}

#[test]
fn all_line_ends_are_read_and_old_bags_may_have_more_spaces() {
    let made = Made::new();
    for good in [
        "BagIt-Version: 1.0\r\nTag-File-Character-Encoding: UTF-8\r\n",
        "BagIt-Version: 1.0\rTag-File-Character-Encoding: UTF-8",
        "BagIt-Version : 0.96\nTag-File-Character-Encoding :  utf-8 \n",
    ] {
        made.write("bagit.txt", good);
        assert_eq!(made.findings(), ["valid"], "{good:?}");
    }
}

#[test]
fn unknown_versions_and_encodings_are_told() {
    let made = Made::of_version("2.0");
    assert_eq!(made.findings(), ["incomplete", "unknown-version bagit.txt"]);
    made.write("bagit.txt", "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-16\n");
    assert_eq!(made.findings(), ["incomplete", "unknown-encoding bagit.txt"]);
}

#[test]
fn tag_files_in_latin1_are_read() {
    let made = Made::new();
    made.write("bagit.txt", "BagIt-Version: 0.97\nTag-File-Character-Encoding: ISO-8859-1\n");
    fs::write(made.at("bag-info.txt"), b"Contact-Name: Ren\xe9\n").unwrap();
    assert_eq!(made.findings(), ["valid"]);
    assert_eq!(made.report().info, [("Contact-Name".to_owned(), "René".to_owned())]);
}

#[test]
fn a_bag_without_payload_directory_is_not_complete() {
    let made = Made::new();
    fs::remove_dir_all(made.at("data")).unwrap();
    made.write("manifest-sha256.txt", "");
    assert_eq!(made.findings(), ["incomplete", "no-payload data"]);
    fs::create_dir(made.at("data")).unwrap();
    assert_eq!(made.findings(), ["valid"], "an empty payload is a payload");
}

#[test]
fn info_goes_on_in_indented_lines_and_labels_repeat() {
    let made = Made::new();
    made.write("bag-info.txt", "Source-Organization: A\n  long name\nContact-Name: B\nContact-Name: C: D\n");
    let bag = Bag::open(made.path()).unwrap();
    let info: Vec<_> = bag.info().iter().map(|(label, value)| format!("{label}={value}")).collect();
    assert_eq!(info, ["Source-Organization=A long name", "Contact-Name=B", "Contact-Name=C: D"]);
    made.write("bag-info.txt", "no label\n");
    assert_eq!(made.findings(), ["incomplete", "bad-line bag-info.txt"]);
}

#[test]
fn a_payload_oxum_has_to_be_right_and_there_once() {
    let made = Made::new();
    made.write("bag-info.txt", "Payload-Oxum: 7.2\n");
    assert_eq!(made.findings(), ["valid"]);
    for wrong in ["7.3", "8.2", "7", "x.y", "-7.2"] {
        made.write("bag-info.txt", &format!("Payload-Oxum: {wrong}\n"));
        assert_eq!(made.findings(), ["complete", "wrong-oxum bag-info.txt"], "{wrong}");
    }
    made.write("bag-info.txt", "Payload-Oxum: 7.2\nPayload-Oxum: 7.2\n");
    assert_eq!(made.findings(), ["complete", "wrong-oxum bag-info.txt"]);
}
