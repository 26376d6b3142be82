//! Every kind is told by its content and unpacked the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ingest_steps::archive::{ArchiveKind, Limits, unpack};
use ingest_steps::outcome::{Cancel, Failure, Progress};

use super::made::{Desk, bz2, deflated_entry, entry, gz, record, refusal, tar, tree, unpacked, zip};

fn small_tar() -> Vec<u8> {
    tar(&[
        record(b"./", b'5', b""),
        record(b"./b/", b'5', b""),
        record(b"./b/two.txt", b'0', b"two"),
        record(b"./a.txt", b'0', &[7; 1000]),
        record(b"empty", 0, b""),
    ])
}

fn small_files() -> Vec<(String, Vec<u8>)> {
    vec![("b/two.txt".into(), b"two".to_vec()), ("a.txt".into(), vec![7; 1000]), ("empty".into(), vec![])]
}

fn small_zip() -> Vec<u8> {
    zip(&[
        entry("b/", b""),
        entry("b/two.txt", b"two"),
        deflated_entry("a.txt", &[7; 1000]),
        entry("empty", b""),
    ])
}

#[test]
fn a_zip_is_unpacked_in_its_order() {
    assert_eq!(unpacked("x.zip", &small_zip()), small_files());
}

#[test]
fn a_tar_is_unpacked_in_its_order() {
    assert_eq!(unpacked("x.tar", &small_tar()), small_files());
}

#[test]
fn a_tar_gz_is_unpacked() {
    assert_eq!(unpacked("x.tar.gz", &gz(&small_tar())), small_files());
}

#[test]
fn a_tar_bz2_is_unpacked() {
    assert_eq!(unpacked("x.tar.bz2", &bz2(&small_tar())), small_files());
}

#[test]
fn a_gz_of_several_streams_is_read_to_the_last() {
    let all = small_tar();
    let (first, second) = all.split_at(700);
    assert_eq!(unpacked("x.tar.gz", &[gz(first), gz(second)].concat()), small_files());
}

#[test]
fn the_content_tells_the_kind_whatever_the_name_says() {
    for (content, kind) in [
        (small_zip(), ArchiveKind::Zip),
        (small_tar(), ArchiveKind::Tar),
        (gz(&small_tar()), ArchiveKind::TarGz),
        (bz2(&small_tar()), ArchiveKind::TarBz2),
        (zip(&[]), ArchiveKind::Zip),
    ] {
        let desk = Desk::with("upload.doc", &content);
        assert_eq!(ArchiveKind::recognise(&desk.archive).unwrap(), Some(kind));
        assert_eq!(desk.unpack(&Limits::default()).unwrap().kind, kind);
    }
}

#[test]
fn other_files_are_no_archives_whatever_their_name() {
    let others = [&b""[..], b"PK", b"hello", &[0; 512], &[0x1f, 0x8b], b"BZh9", &gz(b"text"), &bz2(b"text")];
    for content in others {
        let why = refusal("x.zip", content);
        assert!(why.contains("send a zip, tar, tar.gz or tar.bz2"), "{why}");
    }
}

#[test]
fn an_empty_tar_is_an_empty_directory() {
    for (name, content) in [
        ("x.tar", tar(&[])),
        ("x.tar.gz", gz(&tar(&[]))),
        ("x.tgz", gz(&tar(&[]))),
        ("x.TAR.BZ2", bz2(&tar(&[]))),
    ] {
        assert_eq!(unpacked(name, &content), []);
    }
}

#[test]
fn files_are_0644_and_directories_0755_whatever_the_archive_says() {
    let setuid = |entry: super::made::Entry| super::made::Entry { mode: 0o106_777, ..entry };
    for (name, content) in [("x.tar", small_tar()), ("x.zip", zip(&[setuid(entry("b/two.txt", b""))]))] {
        let desk = Desk::with(name, &content);
        desk.unpack(&Limits::default()).unwrap();
        let mode = |path: &str| fs::metadata(desk.into.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(""), mode("b"), mode("b/two.txt")), (0o755, 0o755, 0o644));
    }
}

#[test]
fn empty_directories_and_droppings_are_kept() {
    let desk = Desk::with(
        "x.tar",
        &tar(&[
            record(b"__MACOSX/._a", b'0', b"x"),
            record(b".DS_Store", b'0', b"y"),
            record(b"hollow/inner/", b'5', b""),
        ]),
    );
    desk.unpack(&Limits::default()).unwrap();
    let names: Vec<_> = tree(&desk.into).into_keys().collect();
    assert_eq!(names, [".DS_Store", "__MACOSX/", "__MACOSX/._a", "hollow/", "hollow/inner/"]);
}

#[test]
fn an_empty_directory_may_wait_but_nothing_is_overwritten() {
    let desk = Desk::with("x.tar", &small_tar());
    fs::create_dir(&desk.into).unwrap();
    desk.unpack(&Limits::default()).unwrap();
    let before = tree(&desk.into);
    let failure = desk.unpack(&Limits::default()).unwrap_err();
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("there already")), "{failure:?}");
    assert_eq!((tree(&desk.into), desk.left()), (before, vec!["out".to_owned()]));
}

#[test]
fn what_is_cancelled_leaves_nothing() {
    for content in [small_tar(), small_zip(), gz(&small_tar())] {
        let desk = Desk::with("x", &content);
        let cancel = Cancel::new();
        cancel.cancel();
        let failure =
            unpack(&desk.archive, &desk.into, &Limits::default(), &Progress::default(), &cancel).unwrap_err();
        assert_eq!((failure, desk.left()), (Failure::Cancelled, vec![]));
    }
}

#[test]
fn progress_counts_files_and_bytes() {
    for content in [small_tar(), small_zip()] {
        let desk = Desk::with("x", &content);
        let progress = Progress::default();
        let unpacked =
            unpack(&desk.archive, &desk.into, &Limits::default(), &progress, &Cancel::new()).unwrap();
        assert_eq!((progress.done(), unpacked.bytes()), ((3, 1003), 1003));
    }
}

#[test]
fn an_archive_that_is_not_there_is_no_fault_of_the_depositor() {
    let desk = Desk::with("x", b"");
    fs::remove_file(&desk.archive).unwrap();
    assert!(matches!(desk.unpack(&Limits::default()), Err(Failure::Fail(_))));
}
