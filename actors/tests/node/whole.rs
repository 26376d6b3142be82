//! From a submission to its report: every kind of payload, on both engines, with the real steps.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use ingest_actors::node::Node;
use ingest_harness::FileServer;
use ingest_queue::ids::Bid;
use ingest_queue::nodes::Submission;
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_steps::manifest::Kind;
use ingest_steps::outcome::{Cancel, Progress};
use serde_json::json;
use url::Url;

use crate::kit::{self, On, Place};
use crate::made;

const FILES: [(&str, &[u8]); 2] = [("one.txt", b"one"), ("dir/two.txt", b"two")];
const UNPACKED: [&str; 2] = ["dir/two.txt", "one.txt"];

/// What is submitted, and the producer's files of each object that is to come of it.
struct Deposit {
    submission: Submission,
    objects: Vec<Vec<&'static str>>,
}

impl Deposit {
    fn one(url: &Url, kind: Option<&str>, files: &[&'static str]) -> Self {
        Self { submission: kit::submission(url, kind), objects: vec![files.to_vec()] }
    }

    fn two(url: &Url, first: &[&'static str], second: &[&'static str]) -> Self {
        Self { submission: kit::submission(url, None), objects: vec![first.to_vec(), second.to_vec()] }
    }
}

/// One object each. The type is said for some and guessed for the others.
fn single_objects(files: &FileServer) -> Vec<Deposit> {
    let rows = [
        made::file_row(files, "/o/1", b"first", "first.txt"),
        made::file_row(files, "/o/2", b"second", "sub/second.txt"),
    ];
    let bag = ["bag/bagit.txt", "bag/data/letter.txt", "bag/manifest-sha256.txt"];
    vec![
        Deposit::one(&files.put("/letter.pdf", "%PDF"), Some("file"), &["letter.pdf"]),
        Deposit::one(&files.put("/kept.zip", made::zip(&FILES)), Some("file"), &["kept.zip"]),
        Deposit::one(&files.put("/a.zip", made::zip(&FILES)), Some("container"), &UNPACKED),
        Deposit::one(&files.put("/a.tar", made::tar(&FILES)), Some("container"), &UNPACKED),
        Deposit::one(&files.put("/a.tar.gz", made::tar_gz(&FILES)), None, &UNPACKED),
        Deposit::one(&files.put("/a.tar.bz2", made::tar_bz2(&FILES)), None, &UNPACKED),
        Deposit::one(&files.put("/bag.zip", made::bag(b"Dear all")), Some("container"), &bag),
        Deposit::one(
            &files.put("/object.checkm", made::manifest(Kind::Object, &rows)),
            None,
            &["first.txt", "sub/second.txt"],
        ),
    ]
}

/// An object in each row: manifests of manifests, of containers, of single files, by URL and inline.
fn batches(files: &FileServer) -> Vec<Deposit> {
    let inner = |number: u32| {
        let path = format!("/inner/{number}");
        let rows = [made::file_row(files, &path, path.as_bytes(), "inner.txt")];
        made::manifest(Kind::Object, &rows).into_bytes()
    };
    let of = |kind: Kind, payloads: [Vec<u8>; 2]| {
        let profile = kind.profile_name();
        let row = |n: usize| {
            let (path, name) = (format!("/{profile}/{n}"), format!("name-{n}"));
            made::row(files, &path, &payloads[n], &name, &format!("{profile}:{n}"))
        };
        files.put(&format!("/{profile}.checkm"), made::manifest(kind, &[row(0), row(1)]))
    };
    let containers = [made::zip(&[("x", b"1")]), made::zip(&[("x", b"2")])];
    let rows = json!([
        format!("{} inline:1", files.put("/inline/1.txt", "one")),
        { "url": files.put("/inline/2.zip", made::zip(&FILES)), "local_id": ["inline:2"] },
    ]);
    let submission = kit::submission(&files.url("/"), None);
    let inline = Submission { payload_url: None, manifest: Some(rows), ..submission };
    vec![
        Deposit::two(&of(Kind::Batch, [inner(1), inner(2)]), &["inner.txt"], &["inner.txt"]),
        Deposit::two(&of(Kind::ContainerBatch, containers), &["x"], &["x"]),
        Deposit::two(&of(Kind::SingleFileBatch, [b"1".to_vec(), b"2".to_vec()]), &["name-0"], &["name-1"]),
        Deposit { submission: inline, objects: vec![vec!["1.txt"], UNPACKED.to_vec()] },
    ]
}

/// The producer's files of every object of a batch, each object whole and in the inventory.
async fn stored(node: &Node, queue: &Queue, bid: Bid) -> Vec<Vec<String>> {
    let services = node.life().await.unwrap().services();
    let (storage, inventory) = (&services.storages["default"], services.inventory.clone().unwrap());
    let mut found = Vec::new();
    for jid in kit::jobs(queue, bid, BatchList::Completed).await {
        let ark = kit::ark_of(queue, jid).await;
        let audit = storage.audit(&ark, &Progress::default(), &Cancel::new()).await.unwrap();
        assert_eq!(audit.problems, Vec::<String>::new(), "{ark}");
        let manifest = storage.manifest(&ark, None).await.unwrap().unwrap();
        let object = inventory.object(&ark.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(object.versions.len(), 1, "{ark}");
        let recorded: Vec<_> = object.versions[0].files.iter().map(|file| file.path.clone()).collect();
        assert_eq!(recorded, manifest.files.keys().cloned().collect::<Vec<_>>(), "{ark}");
        let producer = manifest.files.keys().filter_map(|path| path.strip_prefix("producer/"));
        found.push(producer.map(str::to_owned).collect());
    }
    found
}

/// Everything is submitted at once, and worked on side by side.
async fn every_kind_is_stored_and_reported(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    let deposits: Vec<_> = single_objects(&files).into_iter().chain(batches(&files)).collect();
    let mut bids = Vec::new();
    for deposit in &deposits {
        bids.push(kit::submit(&queue, deposit.submission.clone()).await);
    }
    let mut objects = 0;
    for (bid, deposit) in bids.iter().zip(&deposits) {
        let what = deposit.submission.payload_url.as_deref().unwrap_or("inline");
        assert_eq!(kit::reported(&queue, *bid).await, BatchState::Completed, "{what}");
        assert_eq!(stored(&node, &queue, *bid).await, deposit.objects, "{what}");
        objects += deposit.objects.len();
    }
    let services = node.life().await.unwrap().services();
    let arks: Vec<_> = services.storages["default"].objects().map(Result::unwrap).collect().await;
    assert_eq!(arks.len(), objects);
    let ids: BTreeSet<_> = kit::mails(&place.outbox()).into_iter().collect();
    assert_eq!(ids.len(), deposits.len(), "{ids:?}");
    assert_eq!(kit::mails(&place.outbox()).len(), deposits.len());
    kit::clean(&queue).await;
    assert_eq!(node.restarts(9).unwrap(), []);
    kit::drained(node).await;
    kit::nothing_left(&place.work("node-1"));
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_stored_and_reported_embedded() {
    every_kind_is_stored_and_reported(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_stored_and_reported_zookeeper() {
    every_kind_is_stored_and_reported(On::Zookeeper).await;
}

/// The subjects of all mails, in the order of their files.
fn subjects(place: &Place) -> Vec<String> {
    let mut paths: Vec<_> =
        std::fs::read_dir(place.outbox()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "eml"));
    paths.sort();
    let subject = |path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().find_map(|line| line.strip_prefix("Subject: ").map(str::to_owned)).unwrap()
    };
    paths.into_iter().map(subject).collect()
}

async fn what_failed_is_repaired_and_told_again(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    let rows = [
        made::row(&files, "/good", b"good", "good.txt", "good"),
        made::row(&files, "/bad", b"as announced", "bad.txt", "bad"),
    ];
    files.put("/bad", "as it is now");
    let url = files.put("/batch.checkm", made::manifest(Kind::SingleFileBatch, &rows));
    let bid = kit::submit(&queue, kit::submission(&url, None)).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Failed);
    assert_eq!(kit::jobs(&queue, bid, BatchList::Completed).await.len(), 1);
    let failed = kit::jobs(&queue, bid, BatchList::Failed).await[0];
    let (status, _) = queue.job_status(failed).await.unwrap();
    assert!(status.recoverable && status.message.contains("/bad"), "{status:?}");
    kit::clean(&queue).await;
    files.put("/bad", "as announced");
    queue.act(failed, &Action::Requeue(None), "its source was repaired", false).await.unwrap();
    kit::job_is(&queue, failed, |status| status.status == JobState::Completed).await;
    // It stays failed until an operator wants it told.
    assert_eq!(queue.batch(bid).await.unwrap().state(), BatchState::Failed);
    queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap();
    assert_eq!(
        kit::batch_is(&queue, bid, |state| state == BatchState::Completed).await,
        BatchState::Completed
    );
    let told = subjects(&place);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("PARTLY FAILED") && told[0].contains("1 completed, 1 failed"), "{told:?}");
    assert!(told[1].contains("Update of batch") && told[1].contains("2 completed, 0 failed"), "{told:?}");
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::nothing_left(&place.work("node-1"));
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_repaired_and_told_again_embedded() {
    what_failed_is_repaired_and_told_again(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_repaired_and_told_again_zookeeper() {
    what_failed_is_repaired_and_told_again(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_expanded_is_told_with_every_reason() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    let rows = ["no pipes\n".to_owned(), "http://example.org/a | md5 | 12 | x | | \n".to_owned()];
    let url = files.put("/bad.checkm", made::manifest(Kind::SingleFileBatch, &rows));
    let bid = kit::submit(&queue, kit::submission(&url, None)).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Failed);
    let message = queue.batch(bid).await.unwrap().status.message;
    assert!(message.contains("line 3") && message.contains("line 4, column"), "{message}");
    let told = subjects(&place);
    assert!(told.len() == 1 && told[0].starts_with("Ingest: FAILED"), "{told:?}");
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}
