use std::time::Duration;

use ingest_store::recipes::shard;
use ingest_store::{Kind, Mode, Session};
use rand::RngCore;

use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    a_small_value_lies_in_its_node,
    a_value_of_several_megabytes_reads_back_whole,
    a_node_without_an_announcement_has_no_value,
    a_new_value_replaces_the_old_one_and_its_parts,
    a_write_at_an_old_version_changes_nothing,
    readers_never_see_half_of_a_value,
    parts_that_nobody_announced_are_collected_after_the_grace_time,
    parts_beside_a_small_value_are_collected_too_so_many_at_a_time,
    a_damaged_part_is_recognised,
    a_missing_part_is_recognised,
    a_value_larger_than_wanted_is_refused_before_it_is_read,
    a_foreign_node_is_not_taken_for_a_value,
    a_stream_is_the_same_value_as_its_bytes,
    a_stream_that_cannot_be_read_announces_nothing,
    a_stream_is_read_only_as_far_as_it_is_right,
);

/// What is small and says that it is large, or is large and says that it is small.
#[test]
fn a_value_takes_no_more_memory_than_it_may() {
    let packed = |value: &[u8], window: u32| {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(window).unwrap();
        std::io::Write::write_all(&mut encoder, value).unwrap();
        encoder.finish().unwrap()
    };
    let node = |size: u64, packed: &[u8]| {
        let mut node = format!("{{\"id\":\"x\",\"parts\":0,\"size\":{size}}}\n").into_bytes();
        node.extend_from_slice(packed);
        bytes::Bytes::from(node)
    };
    let bomb = packed(&vec![0; 32 << 20], 21);
    assert!(bomb.len() < 16 << 10, "{}", bomb.len());
    let error = shard::unpack(PATH, &node(10, &bomb), LIMIT).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("more than the 10 bytes that were announced"), "{error}");
    assert_eq!(shard::unpack(PATH, &node(32 << 20, &bomb), 1 << 20).unwrap_err().kind(), Kind::TooLarge);
    assert_eq!(shard::unpack(PATH, &node(u64::MAX, &bomb), u64::MAX).unwrap_err().kind(), Kind::Corrupt);
    let wide = packed(&[7; 100], 27);
    let error = shard::unpack(PATH, &node(100, &wide), LIMIT).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let good = shard::unpack(PATH, &node(100, &packed(&[7; 100], 21)), LIMIT).unwrap();
    assert!(matches!(good, shard::Unpacked::Value(value) if value == [7; 100]));
}

const PATH: &str = "/batches/bid1/manifest";
const LIMIT: u64 = 64 << 20;

/// Bytes that no compression makes smaller.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

async fn read(session: &Session) -> Vec<u8> {
    shard::read(session, PATH, LIMIT).await.unwrap().unwrap().0
}

async fn parts(session: &Session) -> usize {
    session.children(PATH).await.unwrap().0.len()
}

async fn a_small_value_lies_in_its_node(tree: &Tree) {
    let session = tree.mortal_session().await;
    let text = "a line of a manifest\n".repeat(10_000);
    shard::write(&session, PATH, text.as_bytes(), None).await.unwrap();
    assert_eq!(read(&session).await, text.as_bytes());
    let (data, stat) = session.get(PATH).await.unwrap();
    assert!(stat.num_children == 0 && data.len() < text.len() / 10, "compressed, in one node");
    assert!(data.starts_with(b"{\"id\":"), "readable for people");
}

async fn a_value_of_several_megabytes_reads_back_whole(tree: &Tree) {
    let session = tree.mortal_session().await;
    let value = noise(5 << 20);
    shard::write(&session, PATH, &value, None).await.unwrap();
    assert!(read(&session).await == value);
    shard::write(&session, PATH, b"", None).await.unwrap();
    assert!(read(&session).await.is_empty());
}

async fn a_node_without_an_announcement_has_no_value(tree: &Tree) {
    let session = tree.mortal_session().await;
    assert_eq!(shard::read(&session, PATH, LIMIT).await.unwrap_err().kind(), Kind::NoNode);
    shard::prepare(&session, PATH, &noise(1 << 20)).await.unwrap();
    assert!(shard::read(&session, PATH, LIMIT).await.unwrap().is_none());
}

async fn a_new_value_replaces_the_old_one_and_its_parts(tree: &Tree) {
    let session = tree.mortal_session().await;
    shard::write(&session, PATH, &noise(2 << 20), None).await.unwrap();
    assert_eq!(parts(&session).await, 1);
    let value = noise(1 << 20);
    let stat = shard::write(&session, PATH, &value, 1).await.unwrap();
    assert_eq!((stat.version, parts(&session).await), (2, 1));
    assert!(read(&session).await == value);
    shard::write(&session, PATH, b"small", 2).await.unwrap();
    assert_eq!(parts(&session).await, 0);
}

async fn a_write_at_an_old_version_changes_nothing(tree: &Tree) {
    let session = tree.mortal_session().await;
    shard::write(&session, PATH, b"first", None).await.unwrap();
    let error = shard::write(&session, PATH, &noise(1 << 20), 0).await.unwrap_err();
    assert_eq!(error.kind(), Kind::BadVersion);
    assert_eq!(read(&session).await, b"first");
}

async fn readers_never_see_half_of_a_value(tree: &Tree) {
    let (writer, reader) = (tree.mortal_session().await, tree.mortal_session().await);
    // Each value is one byte repeated, in a size that tells which, made incompressible by length.
    let values: Vec<Vec<u8>> = (0..4).map(|n| noise((600 << 10) + n)).collect();
    shard::write(&writer, PATH, &values[0], None).await.unwrap();
    let known = values.clone();
    let reading = tokio::spawn(async move {
        let mut seen = 0;
        loop {
            let value = read(&reader).await;
            assert!(known.contains(&value), "a value that nobody wrote");
            seen += 1;
            if value == known[3] {
                return seen;
            }
        }
    });
    for value in [&values[1], &values[2], &values[0], &values[1], &values[3]] {
        shard::write(&writer, PATH, value, None).await.unwrap();
    }
    assert!(within(reading).await.unwrap() > 0);
}

async fn parts_that_nobody_announced_are_collected_after_the_grace_time(tree: &Tree) {
    let session = tree.mortal_session().await;
    let value = noise(1 << 20);
    shard::write(&session, PATH, &value, None).await.unwrap();
    shard::prepare(&session, PATH, &noise(1 << 20)).await.unwrap();
    session.create(format!("{PATH}/foreign"), "", Mode::Persistent).await.unwrap();
    assert_eq!(parts(&session).await, 3);
    assert_eq!(shard::collect(&session, PATH, Duration::from_hours(1), usize::MAX).await.unwrap(), 0);
    assert_eq!(shard::collect(&session, PATH, Duration::ZERO, usize::MAX).await.unwrap(), 1);
    assert_eq!(parts(&session).await, 2, "what is announced stays, and what is not ours");
    assert!(read(&session).await == value);
}

async fn parts_beside_a_small_value_are_collected_too_so_many_at_a_time(tree: &Tree) {
    let session = tree.mortal_session().await;
    shard::write(&session, PATH, b"small", None).await.unwrap();
    for _ in 0..3 {
        shard::prepare(&session, PATH, &noise(200 << 10)).await.unwrap();
    }
    for expected in [2, 1, 0] {
        assert_eq!(shard::collect(&session, PATH, Duration::ZERO, 2).await.unwrap(), expected);
    }
    assert_eq!((parts(&session).await, read(&session).await), (0, b"small".to_vec()));
}

async fn first_part(session: &Session) -> String {
    let id = session.children(PATH).await.unwrap().0.remove(0);
    format!("{PATH}/{id}/000000")
}

async fn a_damaged_part_is_recognised(tree: &Tree) {
    let session = tree.mortal_session().await;
    shard::write(&session, PATH, &noise(1 << 20), None).await.unwrap();
    let part = first_part(&session).await;
    let mut bytes = session.get(part.as_str()).await.unwrap().0.to_vec();
    bytes[1000] ^= 1;
    session.set(part, bytes, None).await.unwrap();
    let error = shard::read(&session, PATH, LIMIT).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (Kind::Corrupt, Some(PATH)));
}

async fn a_missing_part_is_recognised(tree: &Tree) {
    let session = tree.mortal_session().await;
    shard::write(&session, PATH, &noise(1 << 20), None).await.unwrap();
    session.delete(first_part(&session).await, None).await.unwrap();
    let error = shard::read(&session, PATH, LIMIT).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
}

async fn a_value_larger_than_wanted_is_refused_before_it_is_read(tree: &Tree) {
    let session = tree.mortal_session().await;
    shard::write(&session, PATH, &vec![0; 3 << 20], None).await.unwrap();
    let error = shard::read(&session, PATH, 1 << 20).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge);
}

async fn a_foreign_node_is_not_taken_for_a_value(tree: &Tree) {
    let session = tree.mortal_session().await;
    for garbage in ["garbage", "{}\n", "{\"id\":\"x\",\"parts\":0,\"size\":9}\nnot compressed"] {
        session.make_dirs(PATH).await.unwrap();
        session.set(PATH, garbage, None).await.unwrap();
        let error = shard::read(&session, PATH, LIMIT).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{garbage}");
    }
}

async fn read_to(session: &Session, limit: u64) -> ingest_store::Result<Vec<u8>> {
    let mut found = Vec::new();
    let (size, _) = shard::read_to(session, PATH, limit, &mut found).await?.unwrap();
    assert_eq!(size, found.len() as u64);
    Ok(found)
}

async fn a_stream_is_the_same_value_as_its_bytes(tree: &Tree) {
    let session = tree.mortal_session().await;
    session.make_dirs(PATH).await.unwrap();
    assert!(shard::read_to(&session, PATH, LIMIT, Vec::new()).await.unwrap().is_none());
    let mut mixed = noise(3 << 20);
    mixed.extend(vec![7; 9 << 20]);
    mixed.extend(noise(1000));
    for value in [Vec::new(), b"small".to_vec(), noise(512 << 10), noise(5 << 20), mixed] {
        let prepared = shard::prepare_from(&session, PATH, &value[..]).await.unwrap();
        assert_eq!(prepared.size(), value.len() as u64);
        session.set(PATH, prepared.announcement(), None).await.unwrap();
        assert!(read(&session).await == value, "{} bytes", value.len());
        assert!(read_to(&session, LIMIT).await.unwrap() == value, "{} bytes", value.len());
    }
}

/// Some noise, and then an error.
struct Broken(usize);

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        if self.0 == 0 {
            return std::task::Poll::Ready(Err(std::io::Error::other("no disk")));
        }
        self.0 -= 1;
        buffer.put_slice(&noise(buffer.remaining()));
        std::task::Poll::Ready(Ok(()))
    }
}

async fn a_stream_that_cannot_be_read_announces_nothing(tree: &Tree) {
    let session = tree.mortal_session().await;
    let error = shard::prepare_from(&session, PATH, Broken(40)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Disk);
    assert!(shard::read(&session, PATH, LIMIT).await.unwrap().is_none());
    assert_eq!(shard::collect(&session, PATH, Duration::ZERO, usize::MAX).await.unwrap(), 1);
}

async fn a_stream_is_read_only_as_far_as_it_is_right(tree: &Tree) {
    let session = tree.mortal_session().await;
    let value = noise(2 << 20);
    shard::write(&session, PATH, &value, None).await.unwrap();
    assert_eq!(read_to(&session, (2 << 20) - 1).await.unwrap_err().kind(), Kind::TooLarge);
    let (announced, _) = session.get(PATH).await.unwrap();
    let line = String::from_utf8(announced.to_vec()).unwrap();
    // What was announced as shorter is not written beyond that.
    session.set(PATH, line.replace("2097152", "1000000"), None).await.unwrap();
    let mut found = Vec::new();
    let error = shard::read_to(&session, PATH, LIMIT, &mut found).await.unwrap_err();
    assert_eq!((error.kind(), found.len() <= 1_000_000), (Kind::Corrupt, true));
    // The last part, with the checksum, is left out.
    session.set(PATH, line.replace("\"parts\":5", "\"parts\":4"), None).await.unwrap();
    assert_eq!(read_to(&session, LIMIT).await.unwrap_err().kind(), Kind::Corrupt);
    session.set(PATH, line, None).await.unwrap();
    assert!(read_to(&session, LIMIT).await.unwrap() == value);
    let part = first_part(&session).await;
    let mut bytes = session.get(part.as_str()).await.unwrap().0.to_vec();
    bytes[1000] ^= 1;
    session.set(part.as_str(), bytes, None).await.unwrap();
    assert_eq!(read_to(&session, LIMIT).await.unwrap_err().kind(), Kind::Corrupt);
    session.delete(part, None).await.unwrap();
    assert_eq!(read_to(&session, LIMIT).await.unwrap_err().kind(), Kind::Corrupt);
}
