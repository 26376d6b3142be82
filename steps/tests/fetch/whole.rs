//! Files that come, and whether they are what was announced.

use ingest_steps::digest::Algorithm;
use ingest_steps::outcome::Failure;

use crate::kit::{Kit, body, digest, fails, sha256};
use ingest_harness::bad_server::{Act, GoodFile, answer, chunked, head};

#[tokio::test]
async fn a_file_arrives_with_its_digests_and_leaves_nothing_beside_it() {
    let kit = Kit::new().await;
    let file = GoodFile::new(body(300_000), "1");
    let data = file.body.clone();
    kit.server.on("/a", move |request| file.serve(request));
    let mut wanted = kit.wanted("/a");
    wanted.size = Some(300_000);
    wanted.digests = vec![digest(Algorithm::Md5, &data)];
    wanted.algorithms = vec![Algorithm::Sha512];
    let fetched = kit.fetch(&wanted).await.unwrap();
    let all =
        [Algorithm::Md5, Algorithm::Sha256, Algorithm::Sha512].map(|algorithm| digest(algorithm, &data));
    assert_eq!((fetched.size, fetched.digests.as_slice(), fetched.retries), (300_000, all.as_slice(), 0));
    assert!(kit.content() == data);
    assert_eq!((kit.names(), kit.server.all_requests()), (vec!["file".to_owned()], 1));
    assert_eq!(kit.progress.done(), (1, 300_000));
}

#[tokio::test]
async fn lengths_need_not_be_told() {
    let kit = Kit::new().await;
    let data = body(70_000);
    let (first, second) = (data.clone(), data.clone());
    kit.server.on("/chunked", move |_| {
        let head = head(200, &[("Transfer-Encoding", "chunked")]);
        vec![Act::Send(head), Act::Send(chunked(&first, 999))]
    });
    kit.server.on("/closed", move |_| vec![Act::Send(head(200, &[])), Act::send(&second)]);
    for path in ["/chunked", "/closed"] {
        let fetched = kit.fetch_path(path).await.unwrap();
        assert_eq!((fetched.size, &fetched.digests[..]), (70_000, &[sha256(&data)][..]), "{path}");
        assert!(kit.content() == data);
    }
    assert_eq!(kit.server.all_requests(), 2);
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let kit = Kit::new().await;
    kit.server.on("/empty", |_| vec![Act::Send(answer(200, &[], b""))]);
    let mut wanted = kit.wanted("/empty");
    wanted.size = Some(0);
    wanted.digests = vec![sha256(b"")];
    assert_eq!(kit.fetch(&wanted).await.unwrap().size, 0);
    assert!(kit.content().is_empty());
}

#[tokio::test]
async fn a_wrong_digest_fails_with_both_values_and_removes_the_part() {
    let kit = Kit::new().await;
    let file = GoodFile::new("what came", "1");
    kit.server.on("/a", move |request| file.serve(request));
    let mut wanted = kit.wanted("/a");
    wanted.digests = vec![sha256(b"what came"), digest(Algorithm::Md5, b"what was announced")];
    let why = fails(kit.fetch(&wanted).await);
    assert!(why.contains(digest(Algorithm::Md5, b"what was announced").hex()), "{why}");
    assert!(why.contains(digest(Algorithm::Md5, b"what came").hex()), "{why}");
    assert!(why.contains(kit.server.url("/a").as_str()), "{why}");
    assert_eq!((kit.names(), kit.server.all_requests()), (vec![], 1));
}

#[tokio::test]
async fn a_length_that_is_not_the_announced_one_fails_before_the_body() {
    for (announced, told) in [(10, 1_u64 << 40), (1 << 40, 10)] {
        let kit = Kit::new().await;
        kit.server.on("/a", move |_| {
            let head = head(200, &[("Content-Length", &told.to_string()), ("ETag", "\"1\"")]);
            vec![Act::Send(head), Act::Endless(vec![b'x'; 8 << 10])]
        });
        let mut wanted = kit.wanted("/a");
        wanted.size = Some(announced);
        let why = fails(kit.fetch(&wanted).await);
        assert!(why.contains(&announced.to_string()) && why.contains(&told.to_string()), "{why}");
        assert_eq!((kit.names(), kit.server.all_requests()), (vec![], 1));
    }
}

#[tokio::test]
async fn a_whole_answer_of_the_wrong_size_fails() {
    let kit = Kit::new().await;
    kit.server.on("/short", |_| {
        vec![Act::Send(head(200, &[("Transfer-Encoding", "chunked")])), Act::Send(chunked(b"four", 2))]
    });
    let mut wanted = kit.wanted("/short");
    wanted.size = Some(5);
    let why = fails(kit.fetch(&wanted).await);
    assert!(why.contains("5 bytes were announced, 4 came"), "{why}");
    assert_eq!((kit.names(), kit.server.all_requests()), (vec![], 1));
}

#[tokio::test]
async fn a_file_that_is_there_is_taken_without_a_request() {
    let kit = Kit::new().await;
    std::fs::write(kit.to(), "here").unwrap();
    let mut wanted = kit.wanted("/a");
    wanted.size = Some(4);
    wanted.digests = vec![sha256(b"here")];
    let fetched = kit.fetch(&wanted).await.unwrap();
    assert_eq!((fetched.size, fetched.digests), (4, wanted.digests.clone()));
    assert_eq!((kit.server.all_requests(), kit.progress.done()), (0, (1, 4)));
}

#[tokio::test]
async fn a_file_that_is_there_and_wrong_is_replaced() {
    let kit = Kit::new().await;
    kit.server.on("/a", |_| vec![Act::Send(answer(200, &[], b"right"))]);
    let mut wanted = kit.wanted("/a");
    wanted.digests = vec![sha256(b"right")];
    for wrong in ["wrong", "of another length"] {
        std::fs::write(kit.to(), wrong).unwrap();
        kit.fetch(&wanted).await.unwrap();
        assert_eq!(kit.content(), b"right");
    }
    assert_eq!(kit.server.all_requests(), 2);
}

#[tokio::test]
async fn a_file_below_a_root_is_copied_and_verified() {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("a"), body(600_000)).unwrap();
    let rules =
        ingest_steps::fetch::Rules { file_roots: vec![source.path().to_owned()], ..crate::kit::rules() };
    let kit = Kit::with(rules).await;
    let mut wanted = kit.wanted("/");
    wanted.url = url::Url::from_file_path(source.path().join("a")).unwrap();
    assert_eq!(kit.fetcher.size(&wanted.url).await, Some(600_000));
    assert_eq!(kit.fetcher.get_small(&wanted.url, 600_000, &kit.cancel).await.unwrap().len(), 600_000);
    assert!(kit.fetcher.get_small(&wanted.url, 599_999, &kit.cancel).await.is_err());
    wanted.digests = vec![sha256(&body(600_000))];
    assert_eq!(kit.fetch(&wanted).await.unwrap().size, 600_000);
    wanted.digests = vec![sha256(b"other")];
    fails(kit.fetch(&wanted).await);
    wanted.url = url::Url::parse("file:///etc/hostname").unwrap();
    assert!(fails(kit.fetch(&wanted).await).contains("fetch.file_roots"));
    assert_eq!((kit.names(), kit.content().len()), (vec!["file".to_owned()], 600_000), "the right one stays");
}

#[tokio::test]
async fn names_of_parts_and_schemes_of_others_are_hopeless() {
    let kit = Kit::new().await;
    for name in [".a.ingest-part", ".a.ingest-part.json"] {
        let to = kit.dir.path().join(name);
        let result = kit.fetcher.fetch(&kit.wanted("/a"), &to, &kit.progress, &kit.cancel).await;
        assert!(matches!(result, Err(Failure::Hopeless(_))), "{result:?}");
    }
    for url in ["ftp://h.org/a", "data:,x", "gopher://127.0.0.1/"] {
        let result = kit.fetch(&ingest_steps::fetch::Wanted::new(url.parse().unwrap())).await;
        assert!(matches!(result, Err(Failure::Hopeless(_))), "{result:?}");
    }
    assert_eq!((kit.server.all_requests(), kit.names()), (0, vec![]));
}

#[tokio::test]
async fn the_longest_name_of_a_file_is_not_too_long() {
    let kit = Kit::new().await;
    let file = GoodFile::new("x", "1");
    kit.server.on("/a", move |request| file.serve(request));
    let to = kit.dir.path().join("n".repeat(255));
    kit.fetcher.fetch(&kit.wanted("/a"), &to, &kit.progress, &kit.cancel).await.unwrap();
    assert_eq!(kit.names(), ["n".repeat(255)]);
}

#[tokio::test]
async fn a_directory_that_is_missing_is_named() {
    let kit = Kit::new().await;
    let to = kit.dir.path().join("none/file");
    let why = fails(kit.fetcher.fetch(&kit.wanted("/a"), &to, &kit.progress, &kit.cancel).await);
    assert!(why.contains("none/"), "{why}");
    assert_eq!(kit.server.all_requests(), 0);
}

#[tokio::test]
async fn a_small_file_is_read_up_to_its_limit() {
    let kit = Kit::new().await;
    kit.server.on("/a", |request| match request.number {
        1 => vec![Act::Send(answer(503, &[], b""))],
        _ => vec![Act::Send(answer(200, &[], b"#%checkm_0.7"))],
    });
    kit.server.on("/endless", |_| vec![Act::Send(head(200, &[])), Act::Endless(vec![b'x'; 1000])]);
    let (small, endless) = (kit.server.url("/a"), kit.server.url("/endless"));
    let get = |url| kit.fetcher.get_small(url, 12, &kit.cancel);
    assert_eq!(get(&small).await.unwrap().as_ref(), b"#%checkm_0.7");
    assert_eq!(kit.server.requests("/a"), 2);
    assert!(kit.fetcher.get_small(&small, 11, &kit.cancel).await.is_err());
    let endless = get(&endless).await.unwrap_err();
    assert!(endless.to_string().contains("longer than the 12 bytes"), "{endless}");
    assert_eq!(kit.server.requests("/endless"), 1);
}
