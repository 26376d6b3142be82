//! Archives that were cut or changed on their way.

use ingest_steps::archive::Limits;
use ingest_steps::outcome::Failure;
use proptest::prelude::*;

use super::made::{Desk, Entry, bz2, deflated_entry, entry, gz, record, record_of_size, refusal, tar, zip};

fn small_tar() -> Vec<u8> {
    tar(&[record(b"a", b'0', &[1; 700]), record(b"d/", b'5', b""), record(b"d/b", b'0', b"two")])
}

#[test]
fn a_tar_cut_anywhere_is_refused() {
    let whole = small_tar();
    // Up to the last byte of the first block of the end mark.
    for length in (513..whole.len() - 512).step_by(61).chain([1536, 2048, 3072, whole.len() - 513]) {
        let why = refusal("x", &whole[..length]);
        assert!(why.contains("damaged or cut"), "{length}: {why}");
    }
}

#[test]
fn a_compressed_tar_cut_anywhere_is_refused() {
    for whole in [gz(&small_tar()), bz2(&small_tar())] {
        for length in 3..whole.len() {
            refusal("x.tar.gz", &whole[..length]);
        }
    }
}

#[test]
fn a_zip_cut_anywhere_is_refused() {
    let whole = zip(&[entry("a", b"one"), deflated_entry("d/b", &[2; 300])]);
    for length in 4..whole.len() {
        assert!(refusal("x", &whole[..length]).contains("damaged or cut"), "{length}");
    }
}

#[test]
fn a_wrong_checksum_of_a_header_is_refused() {
    let mut content = small_tar();
    content[1536 + 5] ^= 1;
    assert!(refusal("x", &content).contains("a header has the wrong checksum"));
}

#[test]
fn a_wrong_checksum_of_a_member_is_refused() {
    for wrong in
        [Entry { crc: 1, ..entry("bad", b"content") }, Entry { crc: 1, ..deflated_entry("bad", b"content") }]
    {
        let why = refusal("x", &zip(&[entry("good", b""), wrong]));
        assert!(why.contains("\"bad\" is refused: its checksum is wrong"), "{why}");
    }
}

#[test]
fn a_wrong_checksum_of_a_stream_is_refused() {
    let mut content = gz(&small_tar());
    let end = content.len();
    content[end - 6] ^= 1;
    assert!(refusal("x", &content).contains("damaged"));
}

#[test]
fn a_size_that_is_not_there_is_refused() {
    let short = tar(&[record_of_size(b"a", b'0', 1 << 30, b"little")]);
    let why = refusal("x", &short);
    assert!(why.contains("member \"a\" has") && why.contains("of 1073741824 bytes"), "{why}");
    let less = Entry { size: 500, ..deflated_entry("a", b"little") };
    assert!(refusal("x", &zip(&[less])).contains("less than the 500 bytes announced"));
}

#[test]
fn sizes_that_overflow_are_refused() {
    let pax = [record(b"x", b'x', b"29 size=18446744073709551615\n"), record(b"a", b'0', b"")];
    assert!(refusal("x", &tar(&pax)).contains("18446744073709551615 bytes"));
}

#[test]
fn what_follows_the_end_mark_is_not_lost_in_silence() {
    let content = [small_tar(), small_tar()].concat();
    assert!(refusal("x", &content).contains("something follows its end mark"));
}

#[test]
fn headers_that_describe_nothing_are_refused() {
    assert!(refusal("x", &tar(&[record(b"x", b'L', b"name\0")])).contains("does not follow"));
    let twice = [record(b"x", b'L', b"a\0"), record(b"x", b'L', b"b\0"), record(b"x", b'0', b"")];
    assert!(refusal("x", &tar(&twice)).contains("two headers of one kind"));
}

#[test]
fn a_global_header_may_comment_but_not_rename() {
    let comment = [record(b"x", b'g', b"13 comment=x\n"), record(b"a", b'0', b"")];
    assert!(Desk::with("x", &tar(&comment)).unpack(&Limits::default()).is_ok());
    let rename = [record(b"x", b'g', b"10 path=b\n"), record(b"a", b'0', b"")];
    assert!(refusal("x", &tar(&rename)).contains("a global header sets the path"));
}

/// It comes out or is refused, it never panics, and a refusal leaves nothing.
fn survives(content: &[u8]) {
    let limits = Limits { total: 1 << 20, ..Limits::default() };
    let desk = Desk::with("x.tar.gz", content);
    match desk.unpack(&limits) {
        Ok(_) => assert_eq!(desk.left(), ["out"]),
        Err(Failure::Hopeless(_)) => assert_eq!(desk.left(), [""; 0]),
        Err(other) => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_changed_bytes_are_survived(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let archives = [
            zip(&[entry("a", b"one"), deflated_entry("d/b", &[2; 300])]),
            small_tar(),
            gz(&small_tar()),
            bz2(&small_tar()),
        ];
        for mut content in archives {
            for (at, byte) in &changes {
                let at = at.index(content.len());
                content[at] = *byte;
            }
            survives(&content);
        }
    }
}
