//! What is packed is always the same, and comes out again.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use ingest_steps::archive::{Limits, Packing, files_of, pack_zip, unpack};
use ingest_steps::outcome::{Cancel, Failure, Progress};
use proptest::prelude::*;

use super::made::{bz2, gz, record, tar, tree};

/// A directory `in` with these files.
fn filled(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("in");
    fs::create_dir(&root).unwrap();
    for (name, content) in files {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), content).unwrap();
    }
    (dir, root)
}

fn pack(files: &[(String, PathBuf)], to: &std::path::Path, packing: Packing) -> Result<u64, Failure> {
    pack_zip(files, to, packing, &Progress::default(), &Cancel::new())
}

#[test]
fn a_packed_directory_comes_out_the_same() {
    let (dir, root) = filled(&[("a/b.txt", b"one"), ("c", &vec![0; 300_000]), ("a/é", b"")]);
    for packing in [Packing::Stored, Packing::Deflated] {
        let to = dir.path().join("x.zip");
        let length = pack(&files_of(&root).unwrap(), &to, packing).unwrap();
        assert_eq!(length, fs::metadata(&to).unwrap().len());
        let into = dir.path().join(format!("{packing:?}"));
        unpack(&to, &into, &Limits::default(), &Progress::default(), &Cancel::new()).unwrap();
        assert_eq!(tree(&into), tree(&root));
    }
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let (dir, root) = filled(&[("a", b"one"), ("b", b"two")]);
    let (first, second) = (dir.path().join("1.zip"), dir.path().join("2.zip"));
    let mut files = files_of(&root).unwrap();
    pack(&files, &first, Packing::Deflated).unwrap();
    files.reverse();
    fs::write(root.join("a"), b"one").unwrap();
    pack(&files, &second, Packing::Deflated).unwrap();
    assert_eq!(fs::read(first).unwrap(), fs::read(second).unwrap());
}

#[test]
fn names_that_could_not_be_unpacked_are_not_packed() {
    let (dir, root) = filled(&[("a", b"one")]);
    for name in ["../a", "/a", "a/", "./a", "", "a\\b"] {
        let to = dir.path().join("x.zip");
        assert!(pack(&[(name.into(), root.join("a"))], &to, Packing::Stored).is_err(), "{name}");
        assert!(!to.exists());
    }
    let twice = [("a".to_owned(), root.join("a")), ("a".to_owned(), root.join("a"))];
    assert!(pack(&twice, &dir.path().join("x.zip"), Packing::Stored).is_err());
}

#[test]
fn a_file_that_is_missing_leaves_no_zip() {
    let (dir, root) = filled(&[("a", b"one")]);
    let files = [("a".to_owned(), root.join("a")), ("b".to_owned(), root.join("b"))];
    let failure = pack(&files, &dir.path().join("x.zip"), Packing::Stored).unwrap_err();
    assert!(failure.to_string().contains("in/b"), "{failure}");
    assert_eq!(tree(dir.path()).into_keys().collect::<Vec<_>>(), ["in/", "in/a"]);
}

#[test]
fn packing_can_be_cancelled() {
    let (dir, root) = filled(&[("a", b"one")]);
    let cancel = Cancel::new();
    cancel.cancel();
    let files = files_of(&root).unwrap();
    let to = dir.path().join("x.zip");
    let failure = pack_zip(&files, &to, Packing::Stored, &Progress::default(), &cancel).unwrap_err();
    assert_eq!((failure, to.exists()), (Failure::Cancelled, false));
}

#[test]
fn links_are_not_packed() {
    let (_dir, root) = filled(&[("a", b"one")]);
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
    assert!(files_of(&root).unwrap_err().to_string().contains("link: it is no plain file"));
}

#[test]
fn more_members_than_a_short_number_counts_are_packed_and_come_out() {
    let (dir, root) = filled(&[("a", b"")]);
    let files: Vec<_> = (0..65_600).map(|number| (format!("{number:05}"), root.join("a"))).collect();
    let to = dir.path().join("x.zip");
    pack(&files, &to, Packing::Stored).unwrap();
    let into = dir.path().join("out");
    let unpacked = unpack(&to, &into, &Limits::default(), &Progress::default(), &Cancel::new()).unwrap();
    let names: Vec<_> = unpacked.files.into_iter().map(|file| file.path).collect();
    assert_eq!(names, files.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
}

/// Trees whose names do not clash.
fn trees() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let file = ("[a-z0-9äß ]{1,8}", "[a-zé~%]{1,6}", prop::collection::vec(any::<u8>(), 0..2000));
    prop::collection::vec(file, 0..8).prop_map(|files| {
        let named = |(dir, name, content)| (format!("{dir}.d/{name}"), content);
        files.into_iter().map(named).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_is_packed_is_unpacked_the_same(files in trees(), stored in any::<bool>()) {
        let list: Vec<_> = files.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
        let (dir, root) = filled(&list);
        let zip = dir.path().join("x.zip");
        let packing = if stored { Packing::Stored } else { Packing::Deflated };
        pack(&files_of(&root).unwrap(), &zip, packing).unwrap();
        let records: Vec<_> =
            files.iter().map(|(name, content)| record(name.as_bytes(), b'0', content)).collect();
        let mut archives = vec![zip];
        let packed = [tar(&records), gz(&tar(&records)), bz2(&tar(&records))];
        for (name, content) in ["x.tar", "x.tar.gz", "x.tar.bz2"].into_iter().zip(packed) {
            archives.push(dir.path().join(name));
            fs::write(dir.path().join(name), content).unwrap();
        }
        for (number, archive) in archives.iter().enumerate() {
            let into = dir.path().join(number.to_string());
            unpack(archive, &into, &Limits::default(), &Progress::default(), &Cancel::new()).unwrap();
            prop_assert_eq!(tree(&into), tree(&root));
        }
    }
}
