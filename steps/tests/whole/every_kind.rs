//! Every kind of payload, from its submission to the report, on the embedded defaults.

use ingest_queue::ids::Bid;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_steps::manifest::Kind;
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::step::clean;
use ingest_steps::step::tell::Told;
use ingest_store::Session;
use serde_json::json;

use crate::kit::fixture::{Fixture, MANIFESTS};
use crate::kit::{FileServer, OWNER, Stage, below};
use crate::made::{bag, file_row, manifest, row, tar_gz, zip};
use crate::tree::Tree;
use crate::walk::{again, all_is_well, ark_of, jobs, stored, submission, submit, walk};

/// Names of a stored object without the system's own files.
fn producer(files: &[(String, Vec<u8>)]) -> Vec<&str> {
    files.iter().filter_map(|(path, _)| path.strip_prefix("producer/")).collect()
}

async fn completed(stage: &Stage, bid: Bid, count: usize) -> Vec<ingest_steps::ark::Ark> {
    let done = jobs(stage, bid, BatchList::Completed).await;
    assert_eq!(done.len(), count, "failed: {:?}", why(stage, bid).await);
    let mut arks = Vec::new();
    for jid in done {
        arks.push(ark_of(stage, jid).await);
    }
    arks
}

async fn why(stage: &Stage, bid: Bid) -> Vec<String> {
    let mut found = Vec::new();
    for jid in jobs(stage, bid, BatchList::Failed).await {
        found.push(stage.status(jid).await.message);
    }
    found
}

/// What the depositors were told: the subjects of all mails, in their order.
pub(crate) fn subjects(stage: &Stage) -> Vec<String> {
    let mails = below(&stage.dir().join("outbox"));
    let subject =
        |text: String| text.lines().find_map(|line| line.strip_prefix("Subject: ").map(str::to_owned));
    mails.iter().filter_map(|(_, path)| subject(std::fs::read_to_string(path).unwrap())).collect()
}

const FILES: [(&str, &[u8]); 2] = [("one.txt", b"one"), ("dir/two.txt", b"two")];

/// One object each. The type is said for some and guessed for the others.
async fn single_objects(stage: &Stage, server: &FileServer) -> usize {
    let objects = [
        (server.put("/letter.pdf", b"%PDF".to_vec()), Some("file"), vec!["letter.pdf"]),
        (server.put("/kept.zip", zip(&FILES)), Some("file"), vec!["kept.zip"]),
        (server.put("/a.zip", zip(&FILES)), Some("container"), vec!["dir/two.txt", "one.txt"]),
        (server.put("/a.tar.gz", tar_gz(&FILES)), None, vec!["dir/two.txt", "one.txt"]),
        (
            server.put("/bag.zip", bag(b"Dear all")),
            Some("container"),
            vec!["bag/bagit.txt", "bag/data/letter.txt", "bag/manifest-sha256.txt"],
        ),
        (
            server.put(
                "/object.checkm",
                manifest(
                    Kind::Object,
                    &[
                        file_row(server, "/o/1", b"first", "first.txt"),
                        file_row(server, "/o/2", b"second", "sub/second.txt"),
                    ],
                ),
            ),
            None,
            vec!["first.txt", "sub/second.txt"],
        ),
    ];
    let mut count = 0;
    for (url, kind, expected) in objects {
        let bid = submit(stage, submission(&url, kind)).await;
        assert_eq!(
            walk(stage, bid).await,
            Told::Sent(BatchState::Completed),
            "{url}: {:?}",
            why(stage, bid).await
        );
        let ark = completed(stage, bid, 1).await.remove(0);
        let found = stored(stage, &ark).await;
        assert_eq!(producer(&found), expected, "{url}");
        let erc = found.iter().find(|(path, _)| path == "system/mrt-erc.txt").unwrap();
        let erc = String::from_utf8(erc.1.clone()).unwrap();
        assert!(
            erc.contains("who: Lindqvist, A.\nwhat: A thing\n") && erc.contains(&ark.to_string()),
            "{erc}"
        );
        count += 1;
    }

    count
}

/// An object in each row.
async fn batches(stage: &Stage, server: &FileServer) -> usize {
    let mut count = 0;
    let inner = |number: u32| {
        let path = format!("/inner/{number}");
        manifest(Kind::Object, &[file_row(server, &path, path.as_bytes(), "inner.txt")])
    };
    let kinds = [
        (Kind::Batch, vec![inner(1).into_bytes(), inner(2).into_bytes()], "inner.txt"),
        (Kind::ContainerBatch, vec![zip(&[("x", b"1")]), zip(&[("x", b"2")])], "x"),
        (Kind::SingleFileBatch, vec![b"1".to_vec(), b"2".to_vec()], "name-0"),
    ];
    for (kind, payloads, first) in kinds {
        let profile = kind.profile_name();
        let rows: Vec<_> = payloads
            .iter()
            .enumerate()
            .map(|(n, content)| {
                let name = format!("name-{n}");
                row(
                    server,
                    &format!("/{profile}/{n}"),
                    content,
                    &name,
                    &format!("{profile}:{n}; old:{profile}:{n}"),
                )
            })
            .collect();
        let url = server.put(&format!("/{profile}.checkm"), manifest(kind, &rows));
        let bid = submit(stage, submission(&url, None)).await;
        assert_eq!(
            walk(stage, bid).await,
            Told::Sent(BatchState::Completed),
            "{profile}: {:?}",
            why(stage, bid).await
        );
        let arks = completed(stage, bid, 2).await;
        assert_eq!(producer(&stored(stage, &arks[0]).await), [first], "{profile}");
        let inventory = stage.services.inventory.clone().unwrap();
        for local_id in [format!("{profile}:0"), format!("old:{profile}:0")] {
            assert_eq!(inventory.find(OWNER, &local_id).await.unwrap().as_ref(), Some(&arks[0]));
        }
        count += 2;
    }

    count
}

/// Inline, as texts and as objects.
async fn inline(stage: &Stage, server: &FileServer) -> usize {
    let rows = json!([
        format!("{} inline:1", server.put("/inline/1.txt", b"one".to_vec())),
        { "url": server.put("/inline/2.zip", zip(&FILES)), "local_id": ["inline:2"] },
    ]);
    let bid = submit(
        stage,
        ingest_queue::nodes::Submission {
            payload_url: None,
            manifest: Some(rows),
            ..submission(&server.url("/"), None)
        },
    )
    .await;
    assert_eq!(walk(stage, bid).await, Told::Sent(BatchState::Completed), "{:?}", why(stage, bid).await);
    completed(stage, bid, 2).await.len()
}

async fn every_kind(session: &Session) {
    let (stage, server) = (Stage::new(session).await, FileServer::start().await);
    let count = single_objects(&stage, &server).await
        + batches(&stage, &server).await
        + inline(&stage, &server).await;
    all_is_well(&stage, count).await;
    assert!(
        subjects(&stage).iter().all(|subject| subject.starts_with("Ingest: OK")),
        "{:?}",
        subjects(&stage)
    );
    clean::leftovers(&stage.queue, &stage.services, &Progress::default(), &Cancel::new()).await.unwrap();
    let left: Vec<_> = below(&stage.dir().join("work")).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [".ingest-file-system"]);
}

#[tokio::test]
async fn every_kind_on_the_embedded_tree() {
    let tree = Tree::embedded();
    every_kind(&tree.session().await).await;
    tree.close().await;
}

#[tokio::test]
async fn every_kind_on_zookeeper() {
    let tree = Tree::zookeeper().await;
    every_kind(&tree.session().await).await;
    tree.close().await;
}

#[tokio::test]
async fn the_next_version_of_an_object_goes_to_the_same_identifier() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let mut arks = Vec::new();
    for content in ["first", "second"] {
        let rows = [row(&server, &format!("/{content}"), content.as_bytes(), "a.txt", "thing:1")];
        let url = server.put("/batch.checkm", manifest(Kind::SingleFileBatch, &rows));
        let bid = submit(&stage, submission(&url, None)).await;
        assert_eq!(walk(&stage, bid).await, Told::Sent(BatchState::Completed));
        arks.extend(completed(&stage, bid, 1).await);
    }
    assert_eq!(arks[0], arks[1]);
    let files = stored(&stage, &arks[0]).await;
    assert!(files.contains(&("producer/a.txt".into(), b"second".to_vec())), "{files:?}");
    let object = stage.services.inventory.clone().unwrap().object(&arks[0]).await.unwrap().unwrap();
    assert_eq!(object.versions.len(), 2);
    all_is_well(&stage, 1).await;
    tree.close().await;
}

#[tokio::test]
async fn what_failed_is_told_repaired_and_told_again() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let rows = [
        row(&server, "/good", b"good", "good.txt", "good"),
        row(&server, "/bad", b"as announced", "bad.txt", "bad"),
    ];
    server.put("/bad", b"as it is now".to_vec());
    let url = server.put("/batch.checkm", manifest(Kind::SingleFileBatch, &rows));
    let bid = submit(&stage, submission(&url, None)).await;
    assert_eq!(walk(&stage, bid).await, Told::Sent(BatchState::Failed));
    completed(&stage, bid, 1).await;
    let failed = jobs(&stage, bid, BatchList::Failed).await.remove(0);
    let status = stage.status(failed).await;
    assert_eq!((status.status, status.recoverable), (JobState::Failed, true));
    assert!(status.message.contains("/bad") && status.message.contains("sha-256"), "{}", status.message);
    server.put("/bad", b"as announced".to_vec());
    assert_eq!(again(&stage, bid, failed).await, Told::Sent(BatchState::Completed));
    let told = subjects(&stage);
    assert!(told[0].contains("PARTLY FAILED") && told[0].contains("1 completed, 1 failed"), "{told:?}");
    assert!(told[1].contains("Update of batch") && told[1].contains("2 completed, 0 failed"), "{told:?}");
    all_is_well(&stage, 2).await;
    tree.close().await;
}

#[tokio::test]
async fn a_payload_that_cannot_be_expanded_is_told_with_every_reason() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let rows = ["no pipes\n".to_owned(), "http://example.org/a | md5 | 12 | x | | \n".to_owned()];
    let url = server.put("/bad.checkm", manifest(Kind::SingleFileBatch, &rows));
    let bid = submit(&stage, submission(&url, None)).await;
    assert_eq!(walk(&stage, bid).await, Told::Sent(BatchState::Failed));
    let message = stage.queue.batch(bid).await.unwrap().status.message;
    assert!(message.contains("line 3") && message.contains("line 4, column"), "{message}");
    let told = subjects(&stage);
    assert!(told.len() == 1 && told[0].starts_with("Ingest: FAILED"), "{told:?}");
    all_is_well(&stage, 0).await;
    tree.close().await;
}

#[tokio::test]
async fn every_real_manifest_goes_through() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let mut count = 0;
    for (name, objects) in MANIFESTS {
        let fixture = Fixture::new(name, &server);
        if name.contains("dataone") {
            // Not a manifest of ours: as an object manifest it is refused by name.
            let bid = submit(&stage, submission(&fixture.url, Some("object-manifest"))).await;
            assert_eq!(walk(&stage, bid).await, Told::Sent(BatchState::Failed), "{name}");
            let why = why(&stage, bid).await;
            assert!(why[0].contains("dataone"), "{why:?}");
            continue;
        }
        let bid = submit(&stage, submission(&fixture.url, None)).await;
        assert_eq!(
            walk(&stage, bid).await,
            Told::Sent(BatchState::Completed),
            "{name}: {:?}",
            why(&stage, bid).await
        );
        count += completed(&stage, bid, objects).await.len();
    }
    assert!(count >= 10, "{count}");
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn an_update_of_every_kind_keeps_what_it_does_not_bring() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let files: [(&str, &[u8]); 3] = [("a.txt", b"a"), ("b.txt", b"b"), ("bag/data/old.txt", b"old")];
    let mut first = submission(&server.put("/first.zip", zip(&files)), Some("container"));
    first.other.insert("local_id".into(), "object".into());
    let bid = submit(&stage, first).await;
    assert_eq!(walk(&stage, bid).await, Told::Sent(BatchState::Completed));
    let ark = completed(&stage, bid, 1).await.remove(0);
    let object = manifest(
        Kind::Object,
        &[
            file_row(&server, "/o/1", b"listed", "listed.txt"),
            file_row(&server, "/o/2", b"b.txt\n", "mrt-delete.txt"),
        ],
    );
    let single = row(&server, "/s/1", b"single", "single.txt", "object");
    let updates = [
        (server.put("/a.txt", b"changed".to_vec()), Some("file")),
        (server.put("/more.tar.gz", tar_gz(&[("more.txt", b"more")])), None),
        // A bag's own files come along, and so do those that it does not have.
        (server.put("/bag.zip", bag(b"Dear all")), Some("container")),
        (server.put("/object.checkm", object), None),
        (server.put("/single.checkm", manifest(Kind::SingleFileBatch, &[single])), None),
    ];
    for (url, kind) in updates {
        let mut update = submission(&url, kind);
        update.submission_mode = Some("update".into());
        update.other.insert("local_id".into(), "object".into());
        let bid = submit(&stage, update).await;
        let told = walk(&stage, bid).await;
        assert_eq!(told, Told::Sent(BatchState::Completed), "{url}: {:?}", why(&stage, bid).await);
        assert_eq!(completed(&stage, bid, 1).await, std::slice::from_ref(&ark));
    }
    let found = stored(&stage, &ark).await;
    let expected = [
        "a.txt",
        "bag/bagit.txt",
        "bag/data/letter.txt",
        "bag/data/old.txt",
        "bag/manifest-sha256.txt",
        "listed.txt",
        "more.txt",
        "single.txt",
    ];
    assert_eq!(producer(&found), expected);
    assert!(found.contains(&("producer/a.txt".to_owned(), b"changed".to_vec())));
    all_is_well(&stage, 1).await;
    tree.close().await;
}
