//! Servers that encode what they were asked to send as it is.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use ingest_harness::bad_server::{Act, GoodFile, answer, head};
use ingest_steps::fetch::{Most, Wanted};
use ingest_steps::outcome::{Cancel, Failure};

use crate::kit::{Kit, body, fails, rules, sha256};

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// An answer in gzip, with an entity tag, as a whole.
fn encoded(data: &[u8]) -> Vec<u8> {
    answer(200, &[("Content-Encoding", "gzip"), ("ETag", "\"1\"")], &gzip(data))
}

#[tokio::test]
async fn what_comes_in_gzip_is_stored_as_the_file_that_it_is() {
    let kit = Kit::new().await;
    kit.server.on("/a.txt", |_| vec![Act::Send(encoded(&body(300_000)))]);
    let file = body(300_000);
    let announced = Wanted { size: Some(300_000), digests: vec![sha256(&file)], ..kit.wanted("/a.txt") };
    let fetched = kit.fetch(&announced).await.unwrap();
    assert_eq!((fetched.size, fetched.digests), (300_000, vec![sha256(&file)]));
    assert!(kit.content() == file);
    assert_eq!(kit.progress.done(), (1, 300_000));
    assert_eq!(kit.server.seen("/a.txt")[0].header("accept-encoding"), Some("identity"));
    assert_eq!(kit.names(), ["file"]);
    // The announced size is that of the file, and so is the one of the profile.
    let wrong = Wanted { size: Some(gzip(&file).len() as u64), ..kit.wanted("/a.txt") };
    let why = fails(kit.fetch(&wrong).await);
    assert!(why.contains("bytes were announced, more came"), "{why}");
    let small = kit.fetcher.get_small(&kit.server.url("/a.txt"), 300_000, &Cancel::new()).await.unwrap();
    assert!(small == file);
    assert!(kit.fetcher.get_small(&kit.server.url("/a.txt"), 299_999, &Cancel::new()).await.is_err());
    let url = kit.server.url("/a.txt");
    let first = kit.fetcher.beginning(&url, 4096, &kit.progress, &kit.cancel).await.unwrap();
    assert!(first == file[..4096]);
}

#[tokio::test]
async fn any_other_encoding_is_refused_by_name_and_nothing_is_kept() {
    for coding in ["br", "deflate", "zstd", "gzip, br", "compress"] {
        let kit = Kit::new().await;
        kit.server.on("/a", move |_| vec![Act::Send(answer(200, &[("Content-Encoding", coding)], b"1234"))]);
        let why = fails(kit.fetch_path("/a").await);
        assert!(
            why.starts_with("http://127.0.0.1") && why.contains(&format!("`Content-Encoding: {coding}`")),
            "{why}"
        );
        assert_eq!((kit.names(), kit.server.requests("/a")), (vec![], 1));
        let url = kit.server.url("/a");
        assert!(kit.fetcher.get_small(&url, 1000, &Cancel::new()).await.is_err());
        assert!(kit.fetcher.beginning(&url, 10, &kit.progress, &kit.cancel).await.is_err());
    }
}

#[tokio::test]
async fn a_gzip_without_an_encoding_stays_as_it_is() {
    let kit = Kit::new().await;
    let file = gzip(&body(10_000));
    let (plain, apache) = (file.clone(), file.clone());
    kit.server.on("/a.tar.gz", move |_| {
        vec![Act::Send(answer(200, &[("Content-Type", "application/gzip")], &plain))]
    });
    // What Apache says of it with `AddEncoding x-gzip .gz`.
    kit.server.on("/b.tar.gz", move |_| {
        let headers = [("Content-Type", "application/x-tar"), ("Content-Encoding", "x-gzip")];
        vec![Act::Send(answer(200, &headers, &apache))]
    });
    for path in ["/a.tar.gz", "/b.tar.gz"] {
        let wanted =
            Wanted { size: Some(file.len() as u64), digests: vec![sha256(&file)], ..kit.wanted(path) };
        assert_eq!(kit.fetch(&wanted).await.unwrap().size, file.len() as u64);
        assert!(kit.content() == file, "{path}");
        std::fs::remove_file(kit.to()).unwrap();
    }
}

#[tokio::test]
async fn an_encoded_answer_is_never_continued_and_never_continues() {
    let file = body(200_000);
    let kit = Kit::new().await;
    let whole = encoded(&file);
    let good = GoodFile::new(file.clone(), "1");
    // Cut in gzip; then as it is, and cut; then the rest of it in gzip; then all of it in gzip.
    let plain = good.clone();
    kit.server.on("/a", move |request| match (request.number, request.range()) {
        (1, _) => vec![Act::send(&whole[..whole.len() / 2]), Act::Reset],
        (2, None) => plain.cut(request, 80_000),
        (3, Some(80_000)) => {
            let headers = [
                ("Content-Encoding", "gzip"),
                ("ETag", "\"1\""),
                ("Content-Range", "bytes 80000-199999/200000"),
            ];
            vec![Act::Send(answer(206, &headers, &vec![b'!'; 120_000]))]
        }
        (4, None) => vec![Act::Send(whole.clone())],
        other => panic!("{other:?} is asked for"),
    });
    let fetched = kit.fetch_path("/a").await.unwrap();
    assert_eq!((fetched.digests, fetched.retries), (vec![sha256(&file)], 3));
    assert!(kit.content() == file);
}

#[tokio::test]
async fn a_part_of_an_encoded_answer_is_not_kept_for_the_next_attempt() {
    let kit = Kit::with(ingest_steps::fetch::Rules { retries: 0, ..rules() }).await;
    let whole = encoded(&body(200_000));
    let cut = whole[..whole.len() / 2].to_vec();
    kit.server.on("/a", move |_| vec![Act::send(&cut), Act::Reset]);
    assert!(matches!(kit.fetch_path("/a").await, Err(Failure::Later(_))));
    assert_eq!(kit.names(), Vec::<String>::new());
    // Whole, but damaged: its length would be right.
    let mut damaged = whole.clone();
    let crc = whole.len() - 6;
    damaged[crc] ^= 1;
    kit.server.on("/a", move |_| vec![Act::Send(damaged.clone())]);
    let wanted = Wanted { size: Some(200_000), ..kit.wanted("/a") };
    let why = fails(kit.fetch(&wanted).await);
    assert!(why.contains("cannot be decoded"), "{why}");
    assert_eq!(kit.names(), Vec::<String>::new());
    kit.server.on("/a", move |_| vec![Act::Send(whole.clone())]);
    assert_eq!(kit.fetch(&wanted).await.unwrap().digests, [sha256(&body(200_000))]);
    assert!(kit.server.seen("/a").iter().all(|request| request.range().is_none()));
}

#[tokio::test]
async fn a_bomb_is_left_at_the_limit() {
    let kit = Kit::new().await;
    // A gigabyte in a megabyte.
    let bomb = {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![0; 1 << 20];
        (0..1024).for_each(|_| encoder.write_all(&zeros).unwrap());
        encoder.finish().unwrap()
    };
    kit.server.on("/a", move |_| vec![Act::Send(answer(200, &[("Content-Encoding", "gzip")], &bomb))]);
    let most = Most { bytes: 1 << 20, by: "limits of the profile" };
    let wanted = kit.wanted("/a");
    let fetched = kit.fetcher.fetch_within(&wanted, most, &kit.to(), &kit.progress, &kit.cancel).await;
    let why = fails(fetched);
    assert!(why.contains("is longer than 1048576 bytes (`limits of the profile`)"), "{why}");
    assert!(kit.progress.done().1 <= 2 << 20, "{:?}", kit.progress.done());
    assert_eq!(kit.names(), Vec::<String>::new());
}

#[tokio::test]
async fn the_length_of_an_encoded_answer_is_not_the_size_of_the_file() {
    let kit = Kit::new().await;
    kit.server.on("/head", |request| match request.method.as_str() {
        "HEAD" => vec![Act::Send(head(200, &[("Content-Encoding", "gzip"), ("Content-Length", "55")]))],
        _ => vec![Act::Send(answer(206, &[("Content-Range", "bytes 0-0/777")], b"x"))],
    });
    assert_eq!(kit.fetcher.size(&kit.server.url("/head")).await, Some(777));
    kit.server.on("/both", |_| {
        let headers =
            [("Content-Encoding", "br"), ("Content-Range", "bytes 0-0/55"), ("Content-Length", "1")];
        vec![Act::Send(head(206, &headers)), Act::send("x")]
    });
    let why = kit.fetcher.size_or_reason(&kit.server.url("/both")).await.unwrap_err();
    assert!(why.contains("Content-Encoding"), "{why}");
}
