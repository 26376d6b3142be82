//! What one attempt has brought, the next does not fetch again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::payload::PayloadKind;
use tokio::sync::Semaphore;

use crate::download::{Case, content, manifest, named, payload, record};
use crate::kit::{FileServer, Stage, settings_in, sha256};
use crate::tree::Tree;
use ingest_harness::bad_server::{Act, BadServer, GoodFile};

#[tokio::test]
async fn a_download_that_was_stopped_goes_on_where_it_was() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| settings.downloading.at_once = 1).await;
    let (files, slow) = (FileServer::start().await, BadServer::start().await);
    let body: Vec<u8> = (0..300_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let gate = Arc::new(Semaphore::new(0));
    let (file, held) = (GoodFile::new(body.clone(), "v1"), gate.clone());
    slow.on("/big", move |request| {
        if request.number > 1 {
            return file.serve(request);
        }
        // Half of it, then nothing until the test has seen it.
        let mut script = file.cut(request, 200_000);
        script.push(Act::Await(held.clone()));
        script
    });
    let text = manifest(&[
        (files.put("/a", *b"one"), Some(sha256(b"one")), Some(3), "a"),
        (files.put("/b", *b"two"), None, None, "sub/b"),
        (slow.url("/big"), Some(sha256(&body)), Some(body.len()), "big"),
        (files.put("/c", *b"three"), None, None, "c"),
    ]);
    let mut submitted = payload(PayloadKind::ObjectManifest, files.put("/m", text.as_str()), "m");
    submitted.digest = Some(sha256(text.as_bytes()));
    let mut case = Case::new(&stage, &submitted).await;
    case.progress.cancel_at(200_000, &case.cancel);
    let (answer, first) = case.attempt().await;
    assert_eq!(answer, Err(Failure::Cancelled));
    assert!(first.producer().join(".big.ingest-part").exists());

    (case.cancel, case.progress) = (Cancel::new(), Progress::default());
    let (_, second) = case.whole().await;
    let all = [("a", b"one".as_slice()), ("big", &body), ("c", b"three"), ("sub/b", b"two")];
    assert_eq!(content(&second), named(&all));
    for path in ["/a", "/b", "/c", "/m"] {
        assert_eq!(files.asked(path), ["GET"], "{path}");
    }
    let asked = slow.seen("/big");
    assert_eq!(asked.len(), 2);
    assert!(asked[1].range().is_some_and(|from| from > 150_000), "{asked:?}");
    assert!(!first.producer().join(".big.ingest-part").exists());
    // Linked, not copied; and the first attempt still has its own.
    let inode =
        |dir: &ingest_steps::work::AttemptDir| fs::metadata(dir.producer().join("sub/b")).unwrap().ino();
    assert_eq!(inode(&first), inode(&second));
    gate.add_permits(1);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn what_has_changed_on_the_disk_is_fetched_again() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let text = manifest(&[
        (server.put("/a", *b"one"), None, None, "a"),
        (server.put("/b", *b"two"), None, None, "b"),
        (server.put("/c", *b"six"), None, None, "c"),
    ]);
    let case = Case::new(&stage, &payload(PayloadKind::ObjectManifest, server.put("/m", text), "m")).await;
    let (_, first) = case.whole().await;
    fs::write(first.producer().join("a"), "eno").unwrap();
    fs::remove_file(first.producer().join("b")).unwrap();
    let (_, second) = case.whole().await;
    assert_eq!(content(&second), named(&[("a", b"one"), ("b", b"two"), ("c", b"six")]));
    let asked = ["/a", "/b", "/c", "/m"].map(|path| server.asked(path).len());
    // A manifest without a digest may have been repaired.
    assert_eq!(asked, [2, 2, 1, 2]);
    assert_eq!(record(&second, "producer/a").size, 3);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_row_that_was_changed_is_not_taken_from_before() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let old = server.put("/old", *b"old");
    let url = server.put("/m", manifest(&[(old, None, None, "a")]));
    let case = Case::new(&stage, &payload(PayloadKind::ObjectManifest, url, "m")).await;
    case.whole().await;
    let new = server.put("/new", *b"new");
    server.put("/m", manifest(&[(new, None, None, "a")]));
    assert_eq!(content(&case.whole().await.1), named(&[("a", b"new")]));
    // The same URL with another digest: the file there was changed.
    let again = server.put("/new", *b"newer");
    server.put("/m", manifest(&[(again, Some(sha256(b"newer")), None, "a")]));
    assert_eq!(content(&case.whole().await.1), named(&[("a", b"newer")]));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn another_node_takes_whole_files_and_leaves_parts() {
    let tree = Tree::embedded();
    let stage = Stage::with(&tree.session().await, |settings| {
        settings.downloading.at_once = 1;
        settings.fetch.retries = 0;
    })
    .await;
    let mut settings = settings_in(stage.dir());
    settings.storage.clear();
    settings.inventory = ingest_steps::settings::Inventory::Outside {};
    settings.minter.clear();
    let other = Stage::in_dir(&tree.session().await, tempfile::tempdir().unwrap(), settings, "node-2").await;
    assert_eq!(stage.services.work.file_system(), other.services.work.file_system());
    let server = BadServer::start().await;
    let (one, two) = (GoodFile::new(*b"one", "v1"), GoodFile::new(vec![7; 1000], "v1"));
    server.on("/a", move |request| one.serve(request));
    server.on(
        "/b",
        move |request| {
            if request.number == 1 { two.cut(request, 500) } else { two.serve(request) }
        },
    );
    let text = manifest(&[
        (server.url("/a"), None, None, "a"),
        (server.url("/b"), Some(sha256(&[7; 1000])), Some(1000), "b"),
    ]);
    let files = FileServer::start().await;
    let case = Case::new(&stage, &payload(PayloadKind::ObjectManifest, files.put("/m", text), "m")).await;
    let (failure, first) = case.fails().await;
    assert!(matches!(&failure, Failure::Later(why) if why.contains("producer/b: ")), "{failure}");
    let part = first.producer().join(".b.ingest-part");
    assert!(part.exists());

    let (answer, second) = case.attempt_on(&other).await;
    answer.unwrap();
    assert_eq!(content(&second), named(&[("a", b"one"), ("b", &[7; 1000])]));
    assert_eq!((server.requests("/a"), server.requests("/b")), (1, 2));
    assert_eq!(server.seen("/b")[1].range(), None, "the part is the other node's");
    assert!(part.exists());
    stage.fsck().await;
    tree.close().await;
}
