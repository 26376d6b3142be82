//! Drop boxes.

use std::time::Duration;

use ingest_queue::ids::Bid;
use ingest_steps::feed;
use ingest_steps::feed::Round;
use ingest_steps::outcome::Cancel;
use url::Url;

use super::{Consumed, read};
use crate::kit::Stage;
use crate::tree::Tree;

fn at_box(dir: &std::path::Path, more: &str) -> String {
    format!("kind = \"drop_box\"\npath = \"{}\"\n{more}", dir.display())
}

#[tokio::test]
async fn a_file_in_a_drop_box_becomes_a_batch_once() {
    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    put("a b.zip", "abc");
    put(".hidden", "x");
    put("half.part", "x");
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "ready = \"rename\"")).await;
    assert_eq!(consumed.taken().await, 1);
    let submission = consumed.batches().await.remove(0);
    assert_eq!(submission.payload_filename.as_deref(), Some("a b.zip"));
    assert_eq!(submission.other["size"].as_u64(), Some(3));
    assert!(submission.other["digest_value"].as_str().unwrap().starts_with("ba7816bf"));
    let file = Url::parse(submission.payload_url.as_deref().unwrap()).unwrap().to_file_path().unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"abc");
    assert!(!dir.path().join("a b.zip").exists());
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    // What is put there, or renamed, is told of, without anybody looking.
    put("half.part", "xyz");
    std::fs::rename(dir.path().join("half.part"), dir.path().join("half.zip")).unwrap();
    tokio::time::timeout(Duration::from_secs(30), consumed.source.told()).await.unwrap();
    assert_eq!(consumed.taken().await, 1);
    // It is served as long as its batch is there.
    assert_eq!(consumed.source.tidy(&consumed.stage.queue).await.unwrap(), 0);
    let bid = Bid::new(0);
    // It cannot be expanded, and is not wanted.
    let mut lease = consumed.stage.queue.acquire_batch(bid, "worker").await.unwrap();
    consumed.stage.queue.fail_batch(&mut lease, "nothing to expand").await.unwrap();
    consumed.stage.queue.delete_batch(bid, "ann", "not wanted", true, |_| ()).await.unwrap();
    assert_eq!(consumed.source.tidy(&consumed.stage.queue).await.unwrap(), 1);
    assert!(!file.exists());
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_file_that_was_taken_and_not_submitted_is_submitted_first() {
    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.zip"), "abc").unwrap();
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "ready = \"rename\"")).await;
    // Killed between taking the file and making its batch.
    let cancel = Cancel::new();
    let news = consumed.source.ask("", &cancel).await.unwrap();
    consumed.source.prepare(&news.items[0], &cancel).await.unwrap().unwrap();
    assert!(!dir.path().join("a.zip").exists());
    consumed.begin_anew().await;
    assert_eq!(consumed.taken().await, 1);
    // Killed between making a batch and writing that down.
    let taken = dir.path().join(".taken");
    let of_file = std::fs::read_dir(&taken).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(of_file.join("batch")).unwrap();
    consumed.begin_anew().await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.known), (0, 1));
    assert_eq!(consumed.batches().await.len(), 1);
    consumed.begin_anew().await;
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    consumed.end(tree).await;
}

#[tokio::test]
async fn what_cannot_be_taken_is_told_once_with_its_reason_and_holds_up_nobody() {
    use std::os::unix::ffi::OsStrExt as _;

    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("folder")).unwrap();
    std::os::unix::fs::symlink("z.zip", at("link")).unwrap();
    std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.zip")), "x").unwrap();
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "ready = \"rename\"")).await;
    // Taken by one who was killed; its content cannot be read any more: a directory cannot be, by anybody.
    std::fs::write(at("a.zip"), "aaa").unwrap();
    let cancel = Cancel::new();
    let news = consumed.source.ask("", &cancel).await.unwrap();
    let item = news.items.iter().find(|item| item.id.ends_with("a.zip")).unwrap();
    let payload = consumed.source.prepare(item, &cancel).await.unwrap().unwrap().url.to_file_path().unwrap();
    std::fs::remove_file(&payload).unwrap();
    std::fs::create_dir(&payload).unwrap();
    std::fs::write(at("z.zip"), "zzz").unwrap();
    consumed.begin_anew().await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.skipped), (1, 4));
    assert_eq!(consumed.batches().await[0].payload_filename.as_deref(), Some("z.zip"));
    let skipped = consumed.skipped();
    for (item, why) in [
        ("unusable folder", "it is a directory"),
        ("unusable link", "it is a link"),
        ("unusable \u{fffd}.zip", "not UTF-8"),
        ("a.zip", "cannot be read"),
    ] {
        let is_it =
            |(id, reason): &(String, String)| id.ends_with(item) && (reason.contains(why) || item == "a.zip");
        assert!(skipped.iter().any(is_it), "{item}: {skipped:?}");
    }
    // The checkpoint is the last file that was taken, and all of them are told once.
    assert!(consumed.lease.last().ends_with("z.zip"), "{}", consumed.lease.last());
    for _ in 0..2 {
        let round = consumed.round().await.unwrap();
        assert_eq!((round.taken, round.known, round.skipped), (0, 0, 0));
        consumed.begin_anew().await;
    }
    assert!(at("folder").exists() && std::fs::symlink_metadata(at("link")).is_ok());
    // Repaired, it becomes its batch.
    std::fs::remove_dir(&payload).unwrap();
    std::fs::write(&payload, "aaa").unwrap();
    assert_eq!(consumed.taken().await, 1);
    assert_eq!(consumed.batches().await[1].payload_filename.as_deref(), Some("a.zip"));
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_marker_says_which_file_is_ready_and_goes_with_it() {
    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.zip", "b.zip"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "ready = \"marker\"")).await;
    assert_eq!(consumed.taken().await, 0);
    std::fs::write(dir.path().join("b.zip.ready"), "").unwrap();
    assert_eq!(consumed.taken().await, 1);
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.contains(&"a.zip".into()) && !left.contains(&"b.zip.ready".into()), "{left:?}");
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_file_that_grows_is_left_alone_until_it_has_been_quiet() {
    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.zip");
    std::fs::write(&file, "abc").unwrap();
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "stable = \"300ms\"")).await;
    assert_eq!(consumed.taken().await, 0);
    std::fs::write(&file, "abcdef").unwrap();
    assert_eq!(consumed.taken().await, 0);
    // It is looked at again when its time is over, without anything being told.
    while consumed.taken().await == 0 {
        tokio::time::timeout(Duration::from_secs(30), consumed.source.told()).await.unwrap();
    }
    assert_eq!(consumed.batches().await[0].other["size"].as_u64(), Some(6));
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_drop_box_that_is_not_there_is_told() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let feed = read(&at_box(std::path::Path::new("/no/such/box"), ""));
    let failure = feed::open("x", &feed, &stage.services).await.unwrap_err().to_string();
    assert!(failure.contains("/no/such/box"), "{failure}");
    tree.close().await;
}
