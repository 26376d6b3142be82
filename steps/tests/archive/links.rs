//! Links, devices and what else is neither file nor directory.

use super::made::{Entry, entry, record, refusal, tar, zip};

#[test]
fn every_link_in_a_tar_is_refused() {
    let symbolic = refusal("x", &tar(&[record(b"here", b'2', b"")]));
    assert!(symbolic.contains("\"here\" is refused: it is a symbolic link"), "{symbolic}");
    assert!(refusal("x", &tar(&[record(b"here", b'1', b"")])).contains("it is a hard link"));
}

#[test]
fn a_file_is_not_written_through_a_link() {
    let through = tar(&[record(b"abc", b'2', b""), record(b"abc/evil", b'0', b"evil")]);
    assert!(refusal("x", &through).contains("symbolic link"));
}

#[test]
fn devices_fifos_and_unknown_types_in_a_tar_are_refused() {
    for (kind, reason) in [
        (b'3', "device"),
        (b'4', "device"),
        (b'6', "fifo"),
        (b'S', "sparse"),
        (b'V', "unknown type 'V'"),
        (b'M', "unknown type 'M'"),
        (0xff, "unknown type"),
    ] {
        let why = refusal("x", &tar(&[record(b"ok", b'0', b""), record(b"thing", kind, b"")]));
        assert!(why.contains("\"thing\" is refused") && why.contains(reason), "{why}");
    }
}

#[test]
fn a_sparse_file_of_an_extended_header_is_refused() {
    let records = [record(b"x", b'x', b"22 GNU.sparse.major=1\n"), record(b"thing", b'0', b"")];
    assert!(refusal("x", &tar(&records)).contains("sparse"));
}

#[test]
fn links_and_devices_in_a_zip_are_refused() {
    for (mode, reason) in [
        (0o120_777, "symbolic link"),
        (0o020_644, "device"),
        (0o060_644, "device"),
        (0o010_644, "fifo"),
        (0o140_644, "socket"),
    ] {
        let why = refusal("x", &zip(&[Entry { mode, ..entry("thing", b"/etc/passwd") }]));
        assert!(why.contains("\"thing\" is refused") && why.contains(reason), "{why}");
    }
}

#[test]
fn a_directory_with_content_is_refused() {
    assert!(refusal("x", &tar(&[record(b"a", b'5', b"evil")])).contains("has content"));
    assert!(refusal("x", &tar(&[record(b"a/", b'0', b"evil")])).contains("has content"));
    assert!(refusal("x", &zip(&[entry("a/", b"evil")])).contains("has content"));
}

#[test]
fn what_is_named_like_the_other_kind_is_refused_in_a_zip() {
    let directory = Entry { mode: 0o040_755, ..entry("a", b"") };
    assert!(refusal("x", &zip(&[directory])).contains("a directory and named like a file"));
    let file = Entry { mode: 0o100_644, ..entry("a/", b"") };
    assert!(refusal("x", &zip(&[file])).contains("a file and named like a directory"));
}
