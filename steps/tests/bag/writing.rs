//! What is written is valid, and nothing is left of what cannot be.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ingest_steps::bag::{Bag, Placing, Version, validate, write_bag};
use ingest_steps::digest::Algorithm;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use proptest::prelude::*;

const BOTH: [Algorithm; 2] = [Algorithm::Sha512, Algorithm::Md5];

fn sources(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<(String, PathBuf)>) {
    let dir = tempfile::tempdir().unwrap();
    let place = |(number, (name, content)): (usize, &(&str, &str))| {
        let path = dir.path().join(format!("source-{number}"));
        fs::write(&path, content).unwrap();
        ((*name).to_owned(), path)
    };
    let list = files.iter().enumerate().map(place).collect();
    (dir, list)
}

fn write(
    to: &Path,
    list: &[(String, PathBuf)],
    info: &[(&str, &str)],
    placing: Placing,
) -> Result<(), Failure> {
    let info: Vec<_> = info.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
    write_bag(to, list, &info, &BOTH, placing, &Progress::default(), &Cancel::new())
}

#[test]
fn a_written_bag_is_valid_and_says_what_it_was_told() {
    let (dir, list) = sources(&[("a.txt", "one"), ("sub/100%\n.txt", "two"), ("~tilde", "")]);
    for placing in [Placing::Copy, Placing::Link] {
        let to = dir.path().join(format!("{placing:?}"));
        write(&to, &list, &[("Contact-Name", "A\nB"), ("Payload-Oxum", "0.0")], placing).unwrap();
        let report = validate(&to, &Progress::default(), &Cancel::new()).unwrap();
        assert_eq!((report.problems.as_slice(), report.warnings.as_slice()), (&[][..], &[][..]));
        assert!(report.valid() && report.version == Some(Version::V1_0) && report.files == 3);
        let bag = Bag::open(&to).unwrap();
        let labels: Vec<_> = bag.info().iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["Contact-Name", "Bagging-Date", "Payload-Oxum"]);
        assert_eq!((bag.info()[0].1.as_str(), bag.info()[2].1.as_str()), ("A B", "6.3"));
        assert_eq!(bag.algorithms().len(), 2);
        for name in ["tagmanifest-sha512.txt", "tagmanifest-md5.txt"] {
            assert_eq!(fs::read_to_string(to.join(name)).unwrap().lines().count(), 4);
        }
    }
}

#[test]
fn linked_files_are_the_same_files_and_copies_are_not() {
    let (dir, list) = sources(&[("a", "one")]);
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    for (placing, same) in [(Placing::Link, true), (Placing::Copy, false)] {
        let to = dir.path().join(format!("{placing:?}"));
        write(&to, &list, &[], placing).unwrap();
        assert_eq!(inode(&to.join("data/a")) == inode(&list[0].1), same);
    }
}

#[test]
fn a_bag_without_payload_is_valid_too() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("bag");
    write(&to, &[], &[("Bagging-Date", "2001-02-03")], Placing::Copy).unwrap();
    assert!(validate(&to, &Progress::default(), &Cancel::new()).unwrap().valid());
    let info = fs::read_to_string(to.join("bag-info.txt")).unwrap();
    assert_eq!(info, "Bagging-Date: 2001-02-03\nPayload-Oxum: 0.0\n");
}

#[test]
fn what_cannot_be_a_bag_leaves_nothing() {
    let (dir, list) = sources(&[("a", "one")]);
    let to = dir.path().join("bag");
    for name in ["../a", "/a", "", "a/../b", "b/"] {
        write(&to, &[(name.to_owned(), list[0].1.clone())], &[], Placing::Copy).unwrap_err();
    }
    write(&to, &[list.clone(), list.clone()].concat(), &[], Placing::Copy).unwrap_err();
    write(&to, &[("a".to_owned(), dir.path().join("none"))], &[], Placing::Copy).unwrap_err();
    write(&to, &list, &[("a: b", "c")], Placing::Copy).unwrap_err();
    write_bag(&to, &list, &[], &[], Placing::Copy, &Progress::default(), &Cancel::new()).unwrap_err();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the source");
}

#[test]
fn a_bag_is_not_written_over_something_else() {
    let (dir, list) = sources(&[("a", "one")]);
    let to = dir.path().join("bag");
    fs::create_dir(&to).unwrap();
    fs::write(to.join("mine"), "").unwrap();
    write(&to, &list, &[], Placing::Copy).unwrap_err();
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn writing_can_be_cancelled() {
    let (dir, list) = sources(&[("a", "one")]);
    let cancel = Cancel::new();
    cancel.cancel();
    let to = dir.path().join("bag");
    let failure =
        write_bag(&to, &list, &[], &BOTH, Placing::Copy, &Progress::default(), &cancel).unwrap_err();
    assert_eq!((failure, to.exists()), (Failure::Cancelled, false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_the_names_a_written_bag_is_valid(names in prop::collection::btree_set("[a-zé%0AD\n\r *.]{1,9}", 0..6)) {
        let named: Vec<_> = names.iter().map(|name| format!("d/{name}x")).collect();
        let files: Vec<_> = named.iter().map(|name| (name.as_str(), name.as_str())).collect();
        let (dir, list) = sources(&files);
        let to = dir.path().join("bag");
        write(&to, &list, &[], Placing::Link).unwrap();
        let report = validate(&to, &Progress::default(), &Cancel::new()).unwrap();
        prop_assert!(report.valid(), "{:?}", report.problems);
    }
}
