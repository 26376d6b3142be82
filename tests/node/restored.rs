//! A tree that was restored from a backup, or begun anew, beside a storage, an inventory and an outbox that were not.
//!
//! Invariants: a node takes no work on it and says what differs, and after `ingestd fsck --repair` it does by itself; no number
//! of a batch and no name of an object is given out twice; what was recorded before is not recorded again; every report is
//! written.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ingest_harness::clock::PATIENCE;
use ingest_harness::{FileServer, Server, ServerConfig, eventually};
use ingest_queue::date::Clock;
use ingest_queue::ids::Bid;
use ingest_queue::map;
use ingest_queue::nodes::Submission;
use ingest_queue::queue::{Queue, Settings};
use ingest_steps::inventory::Inventory as _;
use ingest_steps::inventory::sqlite::SqliteInventory;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::{Limits, Store};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::Api;
use crate::checks;
use crate::kit::{self, Node, many};
use crate::place::{PROFILE, Place};

const JOBS: usize = 3;
const OLDER: &str = "the tree is older than what is beside it, or another tree";
const FITS: &str = "the tree fits what is beside it again: work is taken";

/// Does something with an embedded tree while no node has it open.
async fn with_tree<T>(place: &Place, what: impl AsyncFnOnce(&Queue) -> T) -> T {
    let tree = Embedded::open(&EmbeddedConfig::new(place.tree_dir())).unwrap();
    let session = Store::new(Arc::new(tree.clone()), Limits::default()).session().await.unwrap();
    let answer = what(&Queue::open(&session, Settings::new("test"), Clock::system()).await.unwrap()).await;
    session.close().await.unwrap();
    tree.close().await;
    answer
}

/// Puts a batch into the tree while no node runs.
async fn submit(place: &Place, submission: Submission) -> Bid {
    with_tree(place, async |queue| kit::submit(queue, submission).await).await
}

async fn reported(node: &Node, bid: Bid) {
    node.says_with("reported", |line| line["batch"] == bid.to_string()).await;
}

async fn end(node: Node) {
    assert_eq!(node.drained().await, 0, "{}", node.process.tail());
}

/// Submits a batch while no node runs, and lets a node work until it is reported.
async fn ingest(place: &Place, files: &FileServer, name: &str) -> Bid {
    let bid = submit(place, many(files, name, JOBS)).await;
    let node = place.node("node-1").ready().await;
    reported(&node, bid).await;
    end(node).await;
    bid
}

/// The same by the API of a node that runs.
async fn ingest_by(node: &Node, api: &Api, files: &FileServer, name: &str) -> Bid {
    let of = many(files, name, JOBS);
    let body = json!({ "profile": PROFILE, "submitter": "depositor", "payload_url": of.payload_url, "type": of.payload_type });
    let (answer, _) = api.change(Method::POST, "batches", &body).await;
    let bid = answer["bid"].as_str().unwrap().parse().unwrap();
    reported(node, bid).await;
    bid
}

/// `ingestd fsck` with these options, where the node runs: its exit code and the answer.
fn fsck(place: &Place, options: &[&str]) -> (i32, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ingestd"));
    let output = command.args(["fsck", "--json"]).args(options).current_dir(place.path("")).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
    (output.status.code().unwrap(), answer)
}

/// The codes that were found, and where.
fn found(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = answer["report"]["findings"].as_array().unwrap().iter();
    findings.map(|finding| (text(&finding["code"]), text(&finding["path"]))).collect()
}

fn codes(found: &[(String, String)]) -> Vec<(&str, &str)> {
    found.iter().map(|(code, path)| (code.as_str(), path.as_str())).collect()
}

async fn ready(api: &Api) -> (u16, Value) {
    let url = format!("{}/readyz", api.base());
    let response = reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// A node that has found its tree too old: it says so everywhere, answers reads and takes no work.
async fn takes_no_work(api: &Api, differs: &[&str]) {
    let says = |answer: &Value, part: &str| answer["reason"].as_str().is_some_and(|why| why.contains(part));
    // A session that was given up is built anew meanwhile.
    let told = || async {
        let (status, answer) = ready(api).await;
        (status == 503 && says(&answer, "ingestd fsck --repair")).then_some(answer)
    };
    let answer = eventually("a node that takes no work", PATIENCE, told).await;
    assert!(differs.iter().all(|part| says(&answer, part)), "{answer}");
    let body = json!({ "profile": PROFILE, "submitter": "depositor", "payload_url": "http://127.0.0.1:9/x" });
    let refused = api.request(Method::POST, "batches").json(&body).send().await.unwrap();
    let (status, answer) = (refused.status().as_u16(), refused.json::<Value>().await.unwrap());
    assert_eq!((status, answer["type"].as_str()), (503, Some("urn:ingestd:problem:wrong-tree")), "{answer}");
    assert_eq!(api.get("batches").await.0, 200, "reads are answered");
}

/// Everything that was ingested is there once: in the storage, in the inventory, in the outbox.
async fn all_is_there_once(place: &Place, batches: &[(Bid, &str)]) {
    assert!(batches.windows(2).all(|pair| pair[0].0 < pair[1].0), "{batches:?}");
    let bids: Vec<Bid> = batches.iter().map(|(bid, _)| *bid).collect();
    checks::one_report_each(place, &bids);
    let local_ids = batches.iter().flat_map(|(_, name)| (0..JOBS).map(move |n| format!("{name}-{n}")));
    checks::one_object_each(place, local_ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_is_told_and_repaired_through_the_node_which_then_works_by_itself() {
    let (place, files) = (Place::embedded(), FileServer::start().await);
    let first = ingest(&place, &files, "first").await;
    let (tree, backup) = (place.tree_dir().join("tree.redb"), place.path("backup.redb"));
    std::fs::copy(&tree, &backup).unwrap();
    let second = ingest(&place, &files, "second").await;
    std::fs::copy(&backup, &tree).unwrap();

    let node = place.node("node-1").ready().await;
    let api = Api::of(&place, "node-1");
    for counter in ["/batches", "/jobs"] {
        let line = node.says_with(OLDER, |line| line["path"] == counter).await;
        assert!(line["what"].as_str().unwrap().contains("the inventory"), "{line}");
    }
    takes_no_work(&api, &["/batches", "/jobs", "the inventory"]).await;
    let (code, answer) = fsck(&place, &["--server", api.base()]);
    let differs = found(&answer);
    let counters = vec![("N02", "/batches"), ("N02", "/jobs"), ("N02", "/minter/99999_fk4")];
    assert_eq!((code, codes(&differs)), (1, counters), "{answer}");
    // The finding does not go by itself.
    end(node).await;
    let node = place.node("node-1").ready().await;
    let api = Api::of(&place, "node-1");
    takes_no_work(&api, &["/batches"]).await;

    let (code, answer) = fsck(&place, &["--server", api.base(), "--repair"]);
    assert_eq!((code, found(&answer)), (0, Vec::new()), "{answer}");
    assert_eq!(answer["repaired"].as_array().unwrap().len(), 3, "{answer}");
    node.says(FITS).await;
    assert_eq!(ready(&api).await.0, 200);
    let third = ingest_by(&node, &api, &files, "third").await;
    end(node).await;
    let queue = place.queue().await;
    checks::completed_once(&queue, third, JOBS).await;
    checks::clean(&queue).await;
    all_is_there_once(&place, &[(first, "first"), (second, "second"), (third, "third")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_tree_is_told_and_repaired_without_a_node() {
    let (place, files) = (Place::embedded(), FileServer::start().await);
    let first = ingest(&place, &files, "first").await;
    std::fs::remove_file(place.tree_dir().join("tree.redb")).unwrap();
    let node = place.node("node-1").ready().await;
    takes_no_work(&Api::of(&place, "node-1"), &["/batches", "/jobs", "/repository"]).await;
    end(node).await;

    let file = place.node("node-1").file();
    let config = ["--config", file.to_str().unwrap()];
    let (code, answer) = fsck(&place, &config);
    let differs = found(&answer);
    let counters = [("N02", "/batches"), ("N02", "/jobs"), ("N02", "/minter/99999_fk4")];
    let expected = [&counters[..], &[("N04", "/repository")]].concat();
    assert_eq!((code, codes(&differs)), (1, expected), "{answer}");
    let (code, answer) = fsck(&place, &[&config[..], &["--repair"]].concat());
    assert_eq!((code, found(&answer)), (0, Vec::new()), "{answer}");
    let second = ingest(&place, &files, "second").await;
    all_is_there_once(&place, &[(first, "first"), (second, "second")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_counter_of_a_minter_is_told_and_repaired() {
    let (place, files) = (Place::embedded(), FileServer::start().await);
    let first = ingest(&place, &files, "first").await;
    with_tree(&place, async |queue| {
        for name in queue.session().children(map::MINTER).await.unwrap().0 {
            queue.session().delete(format!("{}/{name}", map::MINTER), None).await.unwrap();
        }
    })
    .await;
    let node = place.node("node-1").ready().await;
    let api = Api::of(&place, "node-1");
    takes_no_work(&api, &["/minter/99999_fk4"]).await;
    let (code, answer) = fsck(&place, &["--server", api.base(), "--repair"]);
    assert_eq!(code, 0, "{answer}");
    node.says(FITS).await;
    let second = ingest_by(&node, &api, &files, "second").await;
    end(node).await;
    all_is_there_once(&place, &[(first, "first"), (second, "second")]).await;
}

/// A batch of files without local ids.
fn unnamed(files: &FileServer, name: &str) -> Submission {
    let named = many(files, name, JOBS);
    let rows = (0..JOBS).map(|n| format!("{} | | | | | {n}.txt", files.url(&format!("/{name}/{n}.txt"))));
    let profile = ingest_steps::manifest::Kind::SingleFileBatch.profile();
    let rows = rows.collect::<Vec<_>>().join("\n");
    let text = format!("#%checkm_0.7\n#%profile | {profile}\n{rows}\n#%eof\n");
    Submission { payload_url: Some(files.put(&format!("/{name}.checkm"), text).to_string()), ..named }
}

/// The newest version of each object.
async fn versions(place: &Place) -> Vec<(String, u32)> {
    let inventory = SqliteInventory::open(&place.path("inventory.sqlite")).await.unwrap();
    let mut versions = Vec::new();
    for ark in inventory.objects(None).await.unwrap() {
        let rows = inventory.rows(&ark).await.unwrap().unwrap();
        versions.push((ark, rows.head.unwrap()));
    }
    inventory.close().await;
    versions
}

fn objects(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| match path.join("0=ocfl_object_1.1").exists() {
        true => 1,
        false if path.is_dir() => objects(&path),
        false => 0,
    };
    entries.map(count).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_a_backup_that_were_completed_since_end_with_the_versions_that_they_had() {
    let (place, files) = (Place::embedded(), FileServer::start().await);
    // One that was expanded when the backup was made, and two that were not.
    let expanded = submit(&place, unnamed(&files, "expanded")).await;
    let node = place.node("node-1").set("pools.processing.size", 0).ready().await;
    let api = Api::of(&place, "node-1");
    // Their files go when they are completed: a restored tree still names them.
    let all = |found: &Value| found["jobs"].as_array().is_some_and(|jobs| jobs.len() == JOBS);
    api.until("jobs that wait to be processed", "jobs?state=processing", all).await;
    end(node).await;
    let named = submit(&place, many(&files, "named", JOBS)).await;
    let without = submit(&place, unnamed(&files, "without")).await;
    let (tree, backup) = (place.tree_dir().join("tree.redb"), place.path("backup.redb"));
    std::fs::copy(&tree, &backup).unwrap();
    let work = || async {
        let node = place.node("node-1").ready().await;
        for bid in [expanded, named, without] {
            reported(&node, bid).await;
        }
        end(node).await;
    };
    work().await;
    let before = versions(&place).await;
    assert_eq!(before.len(), 3 * JOBS);

    std::fs::copy(&backup, &tree).unwrap();
    let file = place.node("node-1").file();
    let (code, answer) = fsck(&place, &["--config", file.to_str().unwrap(), "--repair"]);
    assert_eq!(code, 0, "{answer}");
    work().await;
    assert_eq!(versions(&place).await, before, "no version and no object is new");
    assert_eq!(objects(&place.path("storage")), before.len(), "nothing else was stored");
    let queue = place.queue().await;
    for bid in [expanded, named, without] {
        checks::completed_once(&queue, bid, JOBS).await;
    }
    checks::clean(&queue).await;
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_snapshot_of_the_servers_under_a_node_is_told_and_repaired_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let server = Server::start(ServerConfig::default().data_dir(&data)).await;
    let connect = format!("{}{}", server.connect_string(), ingest_harness::chroot());
    let (place, files) = (Place::at(connect, Duration::from_secs(6)), FileServer::start().await);
    let node = place.node("node-1").ready().await;
    let api = Api::of(&place, "node-1");
    let first = ingest_by(&node, &api, &files, "first").await;
    server.stop().await;
    copy(&data, &backup);
    server.restart().await;
    let second = ingest_by(&node, &api, &files, "second").await;

    server.stop().await;
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    server.restart().await;
    node.says_with(OLDER, |line| line["path"] == "/jobs").await;
    takes_no_work(&api, &["/batches", "/jobs"]).await;
    let (code, answer) = fsck(&place, &["--server", api.base(), "--repair"]);
    assert_eq!(code, 0, "{answer}");
    node.says(FITS).await;
    let third = ingest_by(&node, &api, &files, "third").await;
    end(node).await;
    all_is_there_once(&place, &[(first, "first"), (second, "second"), (third, "third")]).await;
    checks::clean(&place.queue().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_becomes_older_under_a_session_is_given_up_and_taken_again_after_a_repair() {
    let (place, files) = (Place::shared().await, FileServer::start().await);
    let node = place.node("node-1").ready().await;
    let api = Api::of(&place, "node-1");
    let first = ingest_by(&node, &api, &files, "first").await;
    // As if the tree had gone back: the inventory knows more, and the znode is not what it was.
    let inventory = SqliteInventory::open(&place.path("inventory.sqlite")).await.unwrap();
    inventory.raise(&[("batches", 40), ("jobs", 4_000)]).await.unwrap();
    inventory.close().await;
    let queue = place.queue().await;
    let session = queue.session();
    let (data, _) = session.get(map::REPOSITORY).await.unwrap();
    session.set(map::REPOSITORY, data, None).await.unwrap();
    node.says_with(OLDER, |line| line["path"] == "/jobs").await;
    node.says_again("connected", 1).await;
    takes_no_work(&api, &["/batches", "/jobs"]).await;
    let (code, answer) = fsck(&place, &["--server", api.base(), "--repair"]);
    assert_eq!(code, 0, "{answer}");
    node.says(FITS).await;
    let second = ingest_by(&node, &api, &files, "second").await;
    assert!(second >= Bid::new(40), "{second}");
    end(node).await;
    all_is_there_once(&place, &[(first, "first"), (second, "second")]).await;
    checks::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_repository_is_refused_with_both_ids_and_both_places() {
    let (ours, theirs, files) = (Place::embedded(), Place::embedded(), FileServer::start().await);
    ingest(&ours, &files, "ours").await;
    ingest(&theirs, &files, "theirs").await;
    let id = |place: &Place| {
        let file = place.path("storage/extensions/ingestd-repository/config.json");
        let marker: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        marker["id"].as_str().unwrap().to_owned()
    };
    let ids = [id(&ours), id(&theirs)];
    assert_ne!(ids[0], ids[1]);
    for (key, name, place) in [
        ("storage.default.dir", "storage", "the storage `default`"),
        ("inventory.path", "inventory.sqlite", "the inventory"),
        ("mail.by.outbox.dir", "outbox", "the outbox"),
        ("store.engine.embedded.dir", "tree", "the inventory"),
    ] {
        let wrong = theirs.path(name);
        let node = ours.node("node-1").set(key, wrong.to_str().unwrap()).start();
        assert_eq!(node.process.exited(kit::ENDING).await, 4, "{key}: {}", node.process.tail());
        let output = node.process.tail();
        for part in [ids[0].as_str(), &ids[1], place, "the tree (/repository)", "correct it"] {
            assert!(output.contains(part), "{key}: {part} is not in {output}");
        }
    }
    let node = ours.node("node-1").ready().await;
    assert_eq!(ready(&Api::of(&ours, "node-1")).await.0, 200, "nothing of it has changed anything");
    end(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_without_an_identity_gets_one_everywhere_with_its_next_session() {
    let (place, files) = (Place::embedded(), FileServer::start().await);
    let first = ingest(&place, &files, "first").await;
    // As a program left it that knew none.
    let marker = "storage/extensions/ingestd-repository/config.json";
    let files_with_it = [marker, "outbox/.ingestd-repository.json", "data/uploads/.ingestd-repository.json"];
    for file in files_with_it {
        std::fs::remove_file(place.path(file)).unwrap();
    }
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(place.path("inventory.sqlite"));
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("DELETE FROM repository").execute(&pool).await.unwrap();
    pool.close().await;
    with_tree(&place, async |queue| queue.session().delete(map::REPOSITORY, None).await.unwrap()).await;

    let second = ingest(&place, &files, "second").await;
    let queue = place.queue().await;
    let (data, _) = queue.session().get(map::REPOSITORY).await.unwrap();
    let id = |data: &[u8]| serde_json::from_slice::<Value>(data).unwrap()["id"].as_str().unwrap().to_owned();
    for file in files_with_it {
        assert_eq!(id(&std::fs::read(place.path(file)).unwrap()), id(&data), "{file}");
    }
    let inventory = SqliteInventory::open(&place.path("inventory.sqlite")).await.unwrap();
    assert_eq!(inventory.identity().await.unwrap().unwrap().id, id(&data));
    all_is_there_once(&place, &[(first, "first"), (second, "second")]).await;
}
