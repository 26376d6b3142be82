//! Names that escape, cannot be kept or clash: refused in zips and in tars alike.

use super::made::{Desk, Entry, entry, gz, record, refusal, tar, unpacked, zip};

/// The reason, the same from all kinds.
fn refused(names: &[&[u8]]) -> String {
    let records: Vec<_> = names.iter().map(|name| record(name, b'0', b"evil")).collect();
    let entries: Vec<_> =
        names.iter().map(|name| Entry { name: name.to_vec(), ..entry("", b"evil") }).collect();
    let from_tar = refusal("x", &tar(&records));
    assert_eq!(refusal("x", &gz(&tar(&records))), from_tar);
    assert_eq!(refusal("x", &zip(&entries)), from_tar);
    from_tar
}

#[test]
fn an_absolute_path_is_refused() {
    assert!(refused(&[b"ok", b"/tmp/evil"]).contains("\"/tmp/evil\" is refused: its path is absolute"));
}

#[test]
fn a_path_that_climbs_is_refused() {
    for name in [&b"../evil"[..], b"a/../../evil", b"a/..", b".."] {
        assert!(refused(&[b"ok", name]).contains("leaves the archive by `..`"));
    }
}

#[test]
fn drive_letters_and_backslashes_are_refused() {
    assert!(refused(&[b"C:/evil"]).contains("drive letter"));
    assert!(refused(&[b"..\\evil"]).contains("backslash"));
}

#[test]
fn control_characters_are_refused() {
    assert!(refused(&[b"ev\nil"]).contains("control characters"));
    assert!(refused(&[b"ev\x1bil"]).contains("control characters"));
}

#[test]
fn a_nul_in_a_name_is_refused_wherever_it_can_stand() {
    let nul = Entry { name: b"ok\0/../evil".to_vec(), ..entry("", b"") };
    assert!(refusal("x", &zip(&[nul])).contains("control characters"));
    let long = [record(b"long", b'L', b"ok\0evil\0"), record(b"x", b'0', b"")];
    assert!(refusal("x", &tar(&long)).contains("control characters"));
    let pax = [record(b"pax", b'x', b"16 path=ok\0evil\n"), record(b"x", b'0', b"")];
    assert!(refusal("x", &tar(&pax)).contains("control characters"));
}

#[test]
fn a_name_that_is_not_utf8_is_refused() {
    assert!(refused(&[b"caf\xe9"]).contains("not UTF-8"));
}

#[test]
fn a_name_twice_is_refused() {
    assert!(refused(&[b"a/x", b"b", b"a/x"]).contains("\"a/x\" is refused: it is in the archive twice"));
    assert!(refused(&[b"a/x", b"./a/x"]).contains("twice"));
}

#[test]
fn names_that_differ_only_in_case_are_refused() {
    assert!(refused(&[b"Read.me", b"read.ME"]).contains("differ only in upper and lower case"));
    assert!(refused(&["Ä/x".as_bytes(), "ä/y".as_bytes()]).contains("differ only in upper and lower case"));
}

#[test]
fn a_file_where_a_directory_is_needed_is_refused() {
    assert!(refused(&[b"a", b"a/b"]).contains("a file and a directory"));
    assert!(refused(&[b"a/b", b"a"]).contains("a file and a directory"));
}

#[test]
fn a_directory_may_be_named_again() {
    let again = tar(&[record(b"a/", b'5', b""), record(b"a/x", b'0', b"1"), record(b"a/", b'5', b"")]);
    assert_eq!(unpacked("x", &again), [("a/x".to_owned(), b"1".to_vec())]);
}

#[test]
fn long_names_of_both_ways_are_read() {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    let pax = format!("331 path={long}\n");
    assert_eq!(pax.len(), 331);
    let gnu =
        tar(&[record(b"././@LongLink", b'L', format!("{long}\0").as_bytes()), record(b"d", b'0', b"1")]);
    let posix = tar(&[record(b"PaxHeaders/x", b'x', pax.as_bytes()), record(b"d", b'0', b"1")]);
    for content in [gnu, posix] {
        assert_eq!(unpacked("x", &content), [(long.clone(), b"1".to_vec())]);
    }
}

#[test]
fn an_evil_name_does_not_hide_in_an_extended_header() {
    let gnu = [record(b"x", b'L', b"../evil\0"), record(b"fine", b'0', b"")];
    let posix = [record(b"x", b'x', b"16 path=../evil\n"), record(b"fine", b'0', b"")];
    for records in [gnu, posix] {
        assert!(refusal("x", &tar(&records)).contains("\"../evil\" is refused"));
    }
}

#[test]
fn nothing_is_written_beside_the_directory() {
    let desk = Desk::with("x", &tar(&[record(b"../beside", b'0', b"evil")]));
    desk.unpack(&ingest_steps::archive::Limits::default()).unwrap_err();
    assert_eq!(desk.left(), [""; 0]);
}
