//! What only zips have: two headers per member, encryption, many compressions, zip64.

use std::io::Write;

use super::made::{Entry, bz2, deflated_entry, entry, refusal, unpacked, zip};

#[test]
fn a_member_with_another_name_in_its_own_header_is_refused() {
    let two_names = Entry { local_name: Some(b"evil.exe".to_vec()), ..entry("good.txt", b"") };
    let why = refusal("x", &zip(&[two_names]));
    assert!(why.contains("\"good.txt\"") && why.contains("there it is \"evil.exe\""), "{why}");
}

#[test]
fn headers_that_differ_in_size_checksum_or_method_are_refused() {
    // Offsets in the local header of the first member.
    for (at, reason) in
        [(8, "compression"), (14, "size or checksum"), (18, "size or checksum"), (22, "size or")]
    {
        let mut content = zip(&[entry("a", b"content")]);
        content[at] ^= 8;
        let why = refusal("x", &content);
        assert!(why.contains("\"a\"") && why.contains(reason), "{at}: {why}");
    }
}

#[test]
fn encrypted_members_are_refused() {
    for flags in [1, 0x41, 0x2001] {
        let why = refusal("x", &zip(&[Entry { flags, ..entry("secret", b"xxxxxxxxxxxx") }]));
        assert!(why.contains("\"secret\" is refused: it is encrypted; send it without"), "{why}");
    }
    assert!(refusal("x", &zip(&[Entry { method: 99, ..entry("secret", b"") }])).contains("encrypted"));
}

#[test]
fn an_unknown_compression_is_refused() {
    for method in [1, 9, 14, 93, 95, 98] {
        let why = refusal("x", &zip(&[Entry { method, ..entry("a", b"") }]));
        assert!(why.contains(&format!("compression {method} is not known")), "{why}");
    }
}

#[test]
fn bzip2_members_are_read() {
    let packed = bz2(b"content");
    let member = Entry { method: 12, packed_size: packed.len() as u64, packed, ..entry("a", b"content") };
    assert_eq!(unpacked("x", &zip(&[member])), [("a".to_owned(), b"content".to_vec())]);
}

#[test]
fn sizes_that_come_after_the_content_are_taken_from_the_directory() {
    // What a writer does that cannot go back: zeros in the local header, a descriptor behind.
    let mut content = zip(&[Entry { flags: 8, ..deflated_entry("a", b"content") }]);
    content[14..26].fill(0);
    assert_eq!(unpacked("x", &content), [("a".to_owned(), b"content".to_vec())]);
}

#[test]
fn bytes_before_the_zip_are_refused() {
    let content = [zip(&[]), zip(&[entry("a", b"")])].concat();
    assert!(refusal("x", &content).contains("bytes are before its start"));
}

#[test]
fn a_comment_is_no_hindrance() {
    let mut content = zip(&[entry("a", b"1")]);
    let end = content.len();
    content[end - 2] = 30;
    content.extend_from_slice(&[b'c'; 30]);
    assert_eq!(unpacked("x", &content), [("a".to_owned(), b"1".to_vec())]);
}

#[test]
fn an_old_name_with_its_unicode_name_beside_it_is_read() {
    let raw = b"caf\x82".to_vec();
    let mut extra = vec![0x75, 0x70, 10, 0, 1];
    extra.extend_from_slice(&crc32fast::hash(&raw).to_le_bytes());
    extra.extend_from_slice("café".as_bytes());
    let mut member = Entry { name: raw, extra, ..entry("", b"1") };
    assert_eq!(unpacked("x", &zip(&[member.clone()])), [("café".to_owned(), b"1".to_vec())]);
    // For another name it counts for nothing.
    member.extra[5] ^= 1;
    assert!(refusal("x", &zip(&[member])).contains("not UTF-8"));
}

#[test]
fn a_second_name_beside_a_good_one_is_refused() {
    let mut extra = vec![0x75, 0x70, 9, 0, 1];
    extra.extend_from_slice(&crc32fast::hash(b"good").to_le_bytes());
    extra.extend_from_slice(b"evil");
    assert!(refusal("x", &zip(&[Entry { extra, ..entry("good", b"") }])).contains("also named \"evil\""));
}

#[test]
fn long_numbers_of_zip64_are_read() {
    let mut writer = ::zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = ::zip::write::SimpleFileOptions::default().large_file(true);
    writer.start_file("a", options).unwrap();
    writer.write_all(b"content").unwrap();
    let content = writer.finish().unwrap().into_inner();
    assert_eq!(unpacked("x", &content), [("a".to_owned(), b"content".to_vec())]);
    // All three numbers in the extra field of the directory and of the member.
    let mut extra = vec![1, 0, 16, 0];
    extra.extend_from_slice(&7_u64.to_le_bytes());
    extra.extend_from_slice(&7_u64.to_le_bytes());
    let full = u64::from(u32::MAX);
    let wide = Entry { size: full, packed_size: full, extra, ..entry("a", b"content") };
    assert_eq!(unpacked("x", &zip(std::slice::from_ref(&wide))), [("a".to_owned(), b"content".to_vec())]);
    let missing = Entry { extra: Vec::new(), ..wide };
    assert!(refusal("x", &zip(&[missing])).contains("zip64 field is wrong"));
}

#[test]
fn places_behind_the_end_are_refused() {
    for at in [1 << 20, u64::MAX - 10, u64::MAX] {
        let mut extra = vec![1, 0, 8, 0];
        extra.extend_from_slice(&at.to_le_bytes());
        let far = Entry { at: Some(u32::MAX), extra, ..entry("a", b"content") };
        assert!(refusal("x", &zip(&[far])).contains("points behind its own end"));
    }
    let mut content = zip(&[]);
    let mut locator = b"PK\x06\x07\0\0\0\0".to_vec();
    locator.extend_from_slice(&u64::MAX.to_le_bytes());
    locator.extend_from_slice(&[1, 0, 0, 0]);
    content.splice(0..0, [b"PK\x03\x04".to_vec(), locator].concat());
    assert!(refusal("x", &content).contains("points behind its own end"));
}

#[test]
fn names_longer_than_allowed_are_refused_before_the_next_is_read() {
    let long = Entry { name: vec![b'n'; 60_000], ..entry("", b"") };
    let mut content = zip(&[long, entry("b", b"")]);
    // The second header is spoilt, and nobody gets there.
    let second = content.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    content[second] = b'X';
    assert!(refusal("x", &content).contains("60000 bytes, and 1024 are allowed"));
}
