//! Bombs: much from little, much in all, much of everything.

use ingest_steps::archive::{Limits, unpack};
use ingest_steps::outcome::{Cancel, Failure, Progress};

use super::made::{Desk, Entry, bz2, deflated_entry, entry, gz, record, refusal, refusal_within, tar, zip};

#[test]
fn a_member_beyond_its_limit_is_refused_in_every_kind() {
    let limits = Limits { member: 999, ..Limits::default() };
    let member = vec![1; 1000];
    let from_tar = tar(&[record(b"big", b'0', &member)]);
    for content in [zip(&[entry("big", &member)]), gz(&from_tar), from_tar] {
        let why = refusal_within(&limits, "x", &content);
        assert!(why.contains("\"big\" is refused") && why.contains("999"), "{why}");
        assert!(Desk::with("x", &content).unpack(&Limits { member: 1000, ..Limits::default() }).is_ok());
    }
}

#[test]
fn a_member_of_a_tar_is_refused_by_what_its_header_says_before_a_byte_is_read() {
    let limits = Limits { member: 999, ..Limits::default() };
    // The header alone: there is no content that could be counted.
    let mut content = tar(&[record(b"big", b'0', &[1; 1000])]);
    content.truncate(512);
    let desk = Desk::with("x", &content);
    let progress = Progress::default();
    let why = unpack(&desk.archive, &desk.into, &limits, &progress, &Cancel::new()).unwrap_err();
    assert!(why.to_string().contains("it has 1000 bytes, and 999 are allowed in one file"), "{why}");
    assert_eq!((progress.done(), desk.left()), ((0, 0), vec![]));
}

#[test]
fn more_than_the_total_is_refused_in_every_kind() {
    let limits = Limits { total: 1500, ..Limits::default() };
    let records = tar(&[record(b"a", b'0', &[1; 1000]), record(b"b", b'0', &[1; 501])]);
    let entries = zip(&[entry("a", &[1; 1000]), entry("b", &[1; 501])]);
    for content in [entries, bz2(&records), gz(&records), records] {
        let why = refusal_within(&limits, "x", &content);
        assert!(why.contains("more than 1500 bytes, the limit of one archive"), "{why}");
    }
}

#[test]
fn a_bomb_is_known_by_its_ratio() {
    let limits = Limits { ratio: 20, ratio_from: 10_000, ..Limits::default() };
    let zeros = vec![0; 1 << 20];
    let records = tar(&[record(b"zeros", b'0', &zeros)]);
    for content in [zip(&[deflated_entry("zeros", &zeros)]), gz(&records), bz2(&records)] {
        let why = refusal_within(&limits, "x", &content);
        assert!(why.contains("20 times its size, which looks like a bomb"), "{why}");
    }
}

#[test]
fn little_may_be_packed_as_tightly_as_it_likes() {
    let limits = Limits { ratio: 2, ratio_from: 200_000, ..Limits::default() };
    let content = zip(&[deflated_entry("zeros", &vec![0; 100_000])]);
    assert!(Desk::with("x", &content).unpack(&limits).is_ok());
}

#[test]
fn an_announced_size_is_not_believed() {
    let limits = Limits { ratio: 20, ratio_from: 10_000, ..Limits::default() };
    let liar = Entry { size: 5, ..deflated_entry("zeros", &vec![0; 1 << 20]) };
    let desk = Desk::with("x", &zip(&[liar]));
    let progress = Progress::default();
    let why = unpack(&desk.archive, &desk.into, &limits, &progress, &Cancel::new()).unwrap_err();
    assert!(
        matches!(&why, Failure::Hopeless(why) if why.contains("more than the 5 bytes announced")),
        "{why}"
    );
    assert!(progress.done().1 <= 6, "it does not write what nobody announced");
    assert_eq!(desk.left(), [""; 0]);
}

#[test]
fn members_over_the_same_bytes_are_refused() {
    let one = entry("a", b"content");
    // The second stands in the directory only, over the bytes of the first.
    let two = Entry { at: Some(0), ..one.clone() };
    let why = refusal("x", &zip(&[one, two]));
    assert!(why.contains("shares bytes with"), "{why}");
}

#[test]
fn too_many_members_are_refused() {
    let limits = Limits { members: 2, ..Limits::default() };
    let records = tar(&[record(b"a", b'0', b""), record(b"b", b'0', b""), record(b"c", b'5', b"")]);
    let entries = zip(&[entry("a", b""), entry("b", b""), entry("c/", b"")]);
    for content in [records, entries, tar(&[record(b"a/b/c", b'0', b"")]), zip(&[entry("a/b/c", b"")])] {
        assert!(refusal_within(&limits, "x", &content).contains("more than 2 files and directories"));
    }
}

#[test]
fn a_directory_that_is_longer_than_it_says_is_refused() {
    let mut content = zip(&[entry("a", b""), entry("b", b"")]);
    let end = content.len();
    content[end - 14] = 1;
    content[end - 12] = 1;
    assert!(refusal("x", &content).contains("longer than its members"));
}

#[test]
fn deep_and_long_names_are_refused() {
    let limits = Limits { depth: 2, name: 20, ..Limits::default() };
    assert!(refusal_within(&limits, "x", &zip(&[entry("a/b/c", b"")])).contains("3 names deep"));
    assert!(refusal_within(&limits, "x", &tar(&[record(b"a/b/c", b'0', b"")])).contains("3 names deep"));
    assert!(refusal_within(&limits, "x", &zip(&[entry("123456789012345678901", b"")])).contains("21 bytes"));
}

#[test]
fn extended_headers_are_bounded_one_and_all() {
    let long = record(b"x", b'x', &vec![b'a'; (1 << 20) + 1]);
    assert!(refusal("x", &tar(&[long])).contains("1048576 are allowed"));
    let limits = Limits { total: 100_000, ..Limits::default() };
    let many = vec![record(b"x", b'g', b"13 comment=x\n"); 1000];
    assert!(refusal_within(&limits, "x", &gz(&tar(&many))).contains("more than 100000 bytes"));
}

#[test]
fn zeros_without_end_behind_the_end_mark_are_a_bomb_too() {
    let limits = Limits { ratio: 20, ratio_from: 10_000, ..Limits::default() };
    let mut content = tar(&[record(b"a", b'0', b"")]);
    content.resize(1 << 20, 0);
    assert!(refusal_within(&limits, "x", &gz(&content)).contains("looks like a bomb"));
}
