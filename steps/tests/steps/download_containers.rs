//! Containers are unpacked, bags validated, and attacks leave nothing.

use std::fs;
use std::path::Path;

use ingest_steps::archive::{Packing, pack_zip};
use ingest_steps::digest::{Algorithm, Digest};
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::payload::PayloadKind;
use url::Url;

use crate::archives::{record as member, tar};
use crate::download::{Case, content, named, payload, record};
use crate::kit::{FileServer, Stage, below, digest, sha256};
use crate::tree::Tree;

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let mut packed = Vec::new();
    for (number, (name, content)) in files.iter().enumerate() {
        let path = dir.path().join(number.to_string());
        fs::write(&path, content).unwrap();
        packed.push(((*name).to_owned(), path));
    }
    let to = dir.path().join("all.zip");
    pack_zip(&packed, &to, Packing::Deflated, &Progress::default(), &Cancel::new()).unwrap();
    fs::read(to).unwrap()
}

fn line(content: &[u8], path: &str) -> String {
    format!("{}  {path}\n", sha256(content).hex())
}

/// A bag in a directory of its own, of which `data/far.txt` has to be fetched.
fn bag(far: &Url, listed: &[u8]) -> Vec<u8> {
    let manifest = line(b"near", "data/near.txt") + &line(listed, "data/sub/far.txt");
    let fetch = format!("{far} - data/sub/far.txt\n");
    zip(&[
        ("bag/bagit.txt", b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"),
        ("bag/data/near.txt", b"near"),
        ("bag/manifest-sha256.txt", manifest.as_bytes()),
        ("bag/fetch.txt", fetch.as_bytes()),
    ])
}

fn names(dir: &Path) -> Vec<String> {
    below(dir).into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn a_container_is_unpacked_and_the_archive_goes() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let files = [("a.txt", b"one".as_slice()), ("sub/b.pdf", b"two!")];
    let url = server.put("/all.zip", zip(&files));
    let case = Case::new(&stage, &payload(PayloadKind::Container, url, "all.zip")).await;
    let (change, dir) = case.whole().await;
    assert_eq!(content(&dir), named(&files));
    assert_eq!((change.space_needed, change.message.as_str()), (Some(7), "2 files, 7 B"));
    let pdf = record(&dir, "producer/sub/b.pdf");
    assert_eq!((pdf.mime.as_deref(), pdf.source), (Some("application/pdf"), None));
    assert!(pdf.digests.contains(&digest(Algorithm::Sha512, b"two!")));
    assert_eq!(
        names(dir.path()),
        ["container.json", "files.jsonl", "node", "producer/a.txt", "producer/sub/b.pdf"]
    );
    // What was unpacked whole is not fetched again.
    let (_, again) = case.whole().await;
    assert_eq!(content(&again), named(&files));
    assert_eq!(again.records().unwrap().len(), 2);
    assert_eq!(server.asked("/all.zip"), ["GET"]);
    // A file of it that has changed: then the archive comes again.
    for dir in [&dir, &again] {
        let _ = fs::remove_file(dir.producer().join("a.txt"));
    }
    let (_, third) = case.whole().await;
    assert_eq!(content(&third), named(&files));
    assert_eq!(server.asked("/all.zip"), ["GET", "GET"]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn an_archive_that_is_whole_is_not_fetched_again_after_a_stop() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let all: Vec<(String, Vec<u8>)> = (0..1000).map(|n| (format!("f{n:04}"), vec![b'x'; 20_000])).collect();
    let files: Vec<_> = all.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
    let packed = zip(&files);
    let length = packed.len() as u64;
    let url = server.put("/all.zip", packed);
    let mut case = Case::new(&stage, &payload(PayloadKind::Container, url, "all.zip")).await;
    // The archive is here, and something came out of it.
    case.progress.cancel_at(length + 10_000, &case.cancel);
    let (answer, first) = case.attempt().await;
    assert_eq!(answer, Err(Failure::Cancelled));
    assert!(first.path().join("container/all.zip").exists());
    (case.cancel, case.progress) = (Cancel::new(), Progress::default());
    let (_, second) = case.whole().await;
    assert_eq!(content(&second), all);
    assert_eq!(server.asked("/all.zip"), ["GET"]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn attacks_are_hopeless_and_leave_nothing_outside() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    stage.profile(|text| format!("{text}\n[limits]\nfile_bytes = 1000\nobject_bytes = 100000\n"));
    let server = FileServer::start().await;
    let attacks: [(&str, Vec<u8>); 6] = [
        ("escape", tar(&[member(b"../../../../escaped", b'0', b"x")])),
        ("absolute", tar(&[member(b"/tmp/escaped", b'0', b"x")])),
        ("link", tar(&[member(b"link", b'2', b"")])),
        ("long", zip(&[("long", &[0; 1001])])),
        ("cut", zip(&[("a", b"one")])[..40].to_vec()),
        ("none", b"this is no archive".to_vec()),
    ];
    for (name, archive) in attacks {
        let url = server.put(&format!("/{name}"), archive);
        let case = Case::new(&stage, &payload(PayloadKind::Container, url, name)).await;
        let (failure, dir) = case.fails().await;
        assert!(matches!(&failure, Failure::Hopeless(_)), "{name}: {failure:?}");
        assert_eq!(names(&dir.producer()), [""; 0], "{name}");
        assert!(dir.records().unwrap().is_empty());
        let left = names(stage.dir());
        assert!(!left.iter().any(|left| left.contains("escaped") || left.contains("unpacking")), "{left:?}");
    }
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_bag_is_completed_validated_and_kept_as_it_was_sent() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let far = server.put("/far", *b"far away");
    let url = server.put("/bag.zip", bag(&far, b"far away"));
    let case = Case::new(&stage, &payload(PayloadKind::Container, url, "bag.zip")).await;
    let (change, dir) = case.whole().await;
    assert_eq!(
        names(&dir.producer()),
        [
            "bag/bagit.txt",
            "bag/data/near.txt",
            "bag/data/sub/far.txt",
            "bag/fetch.txt",
            "bag/manifest-sha256.txt"
        ]
    );
    assert!(change.message.starts_with("5 files"), "{}", change.message);
    let fetched = record(&dir, "producer/bag/data/sub/far.txt");
    assert_eq!(fetched.source.as_deref(), Some(sha256(far.as_str().as_bytes()).hex()));
    // Neither the container nor its far files come twice.
    let (_, again) = case.whole().await;
    assert_eq!(again.records().unwrap().len(), 5);
    assert_eq!((server.asked("/bag.zip").len(), server.asked("/far").len()), (1, 1));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_bag_with_wrong_digests_is_hopeless_with_the_list() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let wrong = zip(&[
        ("bagit.txt", b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"),
        ("data/a", b"one"),
        ("data/b", b"two"),
        ("manifest-sha256.txt", (line(b"uno", "data/a") + &line(b"due", "data/b")).as_bytes()),
    ]);
    let case = Case::new(&stage, &payload(PayloadKind::Container, server.put("/w", wrong), "w")).await;
    let (failure, _) = case.fails().await;
    let Failure::Hopeless(why) = &failure else { panic!("{failure:?}") };
    assert!(why.contains("data/a") && why.contains("data/b") && why.contains("wrong-digest"), "{why}");

    // The far file is not what the bag promises: that can be repaired over there.
    let far = server.put("/far", *b"far away");
    let url = server.put("/bag.zip", bag(&far, b"far"));
    let (failure, _) =
        Case::new(&stage, &payload(PayloadKind::Container, url, "bag.zip")).await.fails().await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("far.txt")), "{failure:?}");
    // A far file that the profile forbids.
    let url = server.put("/forbidden.zip", bag(&"http://192.168.0.1/far".parse().unwrap(), b"far away"));
    stage.profile(|text| text.replace("[notify]", "allowed_hosts = [\"127.0.0.1\"]\n[notify]"));
    let (failure, _) = Case::new(&stage, &payload(PayloadKind::Container, url, "f.zip")).await.fails().await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("192.168.0.1")), "{failure:?}");
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_container_that_is_not_the_announced_one_is_not_unpacked() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let mut wrong = payload(PayloadKind::Container, server.put("/a.zip", zip(&[("a", b"one")])), "a.zip");
    wrong.digest = Some(Digest::new(Algorithm::Crc32, "00000000").unwrap());
    let (failure, dir) = Case::new(&stage, &wrong).await.fails().await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("crc32 00000000")), "{failure:?}");
    assert_eq!(names(&dir.producer()), [""; 0]);
    stage.profile(|text| format!("{text}\n[limits]\nfiles = 1\n"));
    let many = server.put("/many.zip", zip(&[("a", b"one"), ("b", b"two")]));
    let (failure, _) = Case::new(&stage, &payload(PayloadKind::Container, many, "m.zip")).await.fails().await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("`limits.files`")), "{failure:?}");
    stage.fsck().await;
    tree.close().await;
}
