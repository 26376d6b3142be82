//! A further version of an object: what is carried forward, replaced and removed, and what every place says of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt as _;
use ingest_queue::ids::Jid;
use ingest_queue::map::JobNode;
use ingest_queue::nodes::Inventory;
use ingest_queue::plan::job::Action;
use ingest_queue::states::JobState;
use ingest_steps::archive::{self, unpack};
use ingest_steps::ark::Ark;
use ingest_steps::manifest;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::step::assemble::{self, Form, Found, Request, find, request};
use ingest_steps::step::{Ending, conclude};
use ingest_steps::storage::s3::S3;
use object_store::memory::InMemory;

use crate::kit::{Stage, below};
use crate::made::{download, ingest, is_all, job_with, primary, recorded, step, work};
use crate::process::two_nodes;
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(of_two_updates_at_once_neither_is_lost, an_update_that_is_killed_is_done_once);

type Files<'a> = [(&'a str, &'a str)];

const HEAD: &Files<'_> = &[("a.txt", "one"), ("dir/b c.xml", "<two/>"), ("dir/ü", "three")];
const DELETE: &str = "mrt-delete.txt";

/// With its objects on the disk, or in a bucket.
async fn stages(tree: &Tree) -> [Stage; 2] {
    let on_disk = Stage::new(&tree.session().await).await;
    let mut in_bucket = Stage::new(&tree.session().await).await;
    let bucket = S3::new(Arc::new(InMemory::new()), "objects");
    in_bucket.services.storages.insert("default".into(), Arc::new(bucket));
    [on_disk, in_bucket]
}

/// A job that brings these files to an object.
async fn job(stage: &Stage, mode: &str, ark: Option<&Ark>, files: &Files<'_>) -> Jid {
    job_with(stage, files, &[], |new| {
        new.configuration.submission_mode = mode.into();
        new.identifiers.primary_id = ark.map(ToString::to_string);
    })
    .await
}

async fn first(stage: &Stage) -> Ark {
    let jid = job(stage, "add", None, HEAD).await;
    ingest(stage, jid).await
}

/// Brings files to an object; what the last message says.
async fn bring(stage: &Stage, mode: &str, ark: &Ark, files: &Files<'_>) -> String {
    let jid = job(stage, mode, Some(ark), files).await;
    assert_eq!(ingest(stage, jid).await, *ark);
    stage.status(jid).await.message
}

/// Why an object does not take these files.
async fn refused(stage: &Stage, mode: &str, ark: Option<&Ark>, files: &Files<'_>) -> String {
    let jid = job(stage, mode, ark, files).await;
    assert_eq!(work(stage, jid).await, Ending::Moved(JobState::Failed));
    stage.status(jid).await.message
}

/// The depositor's files of a version, as the storage gives them out.
async fn producer(stage: &Stage, ark: &Ark, version: u32) -> BTreeMap<String, String> {
    let storage = &stage.services.storages["default"];
    let manifest = storage.manifest(&ark.to_string(), Some(version)).await.unwrap().unwrap();
    let mut files = BTreeMap::new();
    for path in manifest.files.keys().filter(|path| path.starts_with("producer/")) {
        let content = storage.open(&ark.to_string(), version, path).await.unwrap();
        let pieces: Vec<_> = content.stream.try_collect().await.unwrap();
        files.insert(path["producer/".len()..].to_owned(), String::from_utf8(pieces.concat()).unwrap());
    }
    files
}

fn expected(files: &Files<'_>) -> BTreeMap<String, String> {
    files.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect()
}

/// The newest version has these files of the depositor: in the storage, in the inventory, and in what is given out.
async fn has(stage: &Stage, ark: &Ark, version: u32, files: &Files<'_>) {
    assert_eq!(producer(stage, ark, version).await, expected(files));
    let storage = &stage.services.storages["default"];
    let manifest = storage.manifest(&ark.to_string(), None).await.unwrap().unwrap();
    assert_eq!(manifest.version, version);
    let rows = recorded(stage, ark).await.unwrap().versions.remove(version as usize - 1).files;
    let rows: Vec<_> = rows.into_iter().map(|row| (row.path, row.size, row.digests)).collect();
    let kept = manifest.files.iter();
    let kept: Vec<_> =
        kept.map(|(path, kept)| (path.clone(), kept.size, vec![kept.digest.clone()])).collect();
    assert_eq!(rows, kept);
    assert_eq!(given_out(stage, ark).await, expected(files));
    is_all(stage, ark, version, &[], "").await;
}

/// The depositor's files in a zip of the newest version.
async fn given_out(stage: &Stage, ark: &Ark) -> BTreeMap<String, String> {
    let wanted = Request { ark: ark.to_string(), version: None, form: Form::Zip };
    let asked = request(&stage.queue, &stage.services, &wanted).await.unwrap();
    let mut lease = stage.queue.acquire_access(asked.size, "access").await.unwrap().unwrap();
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let answer = assemble::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await;
    assemble::conclude(&stage.queue, &mut lease, answer).await.unwrap();
    let found = find(&stage.queue, &stage.services, &asked.token).await.unwrap();
    let Found::Ready { path, .. } = found else { panic!("{found:?}") };
    let into = stage.dir().join(uuid::Uuid::new_v4().to_string());
    unpack(&path, &into, &archive::Limits::default(), &progress, &cancel).unwrap();
    let all = below(&into).into_iter();
    let all = all.filter_map(|(name, path)| Some((name.strip_prefix("producer/")?.to_owned(), path)));
    all.map(|(name, path)| (name, std::fs::read_to_string(path).unwrap())).collect()
}

#[tokio::test]
async fn a_partial_update_keeps_every_other_file() {
    let tree = Tree::embedded();
    for stage in stages(&tree).await {
        let ark = first(&stage).await;
        let message = bring(&stage, "update", &ark, &[("a.txt", "changed"), ("new", "n")]).await;
        let changes = "1 added, 1 replaced, 0 removed, 2 unchanged";
        assert_eq!(message, format!("{ark} version 2 is recorded: {changes}"));
        let merged = [("a.txt", "changed"), ("dir/b c.xml", "<two/>"), ("dir/ü", "three"), ("new", "n")];
        has(&stage, &ark, 2, &merged).await;
        // Once more, from what is there now; and `add` to what is there is the same.
        bring(&stage, "update", &ark, &[("dir/ü", "again")]).await;
        let message = bring(&stage, "add", &ark, &[("last", "l")]).await;
        assert!(message.ends_with("version 4 is recorded: 1 added, 0 replaced, 0 removed, 4 unchanged"));
        let merged = [
            ("a.txt", "changed"),
            ("dir/b c.xml", "<two/>"),
            ("dir/ü", "again"),
            ("last", "l"),
            ("new", "n"),
        ];
        has(&stage, &ark, 4, &merged).await;
        assert_eq!(producer(&stage, &ark, 1).await, expected(HEAD), "versions stay as they are");
    }
    tree.close().await;
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_a_version_that_says_so() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let ark = first(&stage).await;
    let message = bring(&stage, "update", &ark, &HEAD[..1]).await;
    assert_eq!(message, format!("{ark} version 2 is recorded: no file changed of 3"));
    has(&stage, &ark, 2, HEAD).await;
    tree.close().await;
}

#[tokio::test]
async fn what_mrt_delete_names_is_removed_and_nothing_else() {
    let tree = Tree::embedded();
    for stage in stages(&tree).await {
        let ark = first(&stage).await;
        // With and without the prefix, with either end of a line.
        let delete = "producer/dir/b c.xml\r\n\ndir/ü\n";
        let message = bring(&stage, "update", &ark, &[(DELETE, delete), ("new", "n")]).await;
        assert!(message.ends_with(": 1 added, 0 replaced, 2 removed, 1 unchanged"), "{message}");
        has(&stage, &ark, 2, &[("a.txt", "one"), ("new", "n")]).await;
        // What was asked for is kept beside what was done, and only with its own version.
        let storage = &stage.services.storages["default"];
        let content = storage.open(&ark.to_string(), 2, "system/mrt-delete.txt").await.unwrap();
        let pieces: Vec<_> = content.stream.try_collect().await.unwrap();
        assert_eq!(pieces.concat(), delete.as_bytes());
        // Alone, and of a file that the payload brings again.
        bring(&stage, "update", &ark, &[(DELETE, "new")]).await;
        has(&stage, &ark, 3, &[("a.txt", "one")]).await;
        bring(&stage, "update", &ark, &[(DELETE, "a.txt"), ("a.txt", "two")]).await;
        has(&stage, &ark, 4, &[("a.txt", "two")]).await;
        bring(&stage, "update", &ark, &[("b", "b")]).await;
        has(&stage, &ark, 5, &[("a.txt", "two"), ("b", "b")]).await;
        let newest = storage.manifest(&ark.to_string(), None).await.unwrap().unwrap();
        assert!(!newest.files.contains_key("system/mrt-delete.txt"), "{:?}", newest.files.keys());
    }
    tree.close().await;
}

#[tokio::test]
async fn a_removal_that_cannot_be_done_fails_the_job_and_stores_nothing() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let ark = first(&stage).await;
    let all = "a.txt\ndir/b c.xml\ndir/ü";
    for (mode, files, why) in [
        (
            "update",
            &[("n", "n"), (DELETE, "a.txt\nA.txt\ndir\nsystem/mrt-erc.txt")][..],
            "`A.txt`, `dir`, `system/mrt-erc.txt`;",
        ),
        ("update", &[(DELETE, all)], "no file of the depositor"),
        (
            "replace",
            &[("n", "n"), (DELETE, "a.txt")],
            "in the mode replace every file that is not in the payload",
        ),
        ("replace", &[(DELETE, "")], "no file of the depositor"),
    ] {
        let message = refused(&stage, mode, Some(&ark), files).await;
        assert!(message.contains(why), "{message}");
    }
    let message = refused(&stage, "add", None, &[("n", "n"), (DELETE, "a.txt")]).await;
    assert!(message.contains("`a.txt`, and there is no version to remove files from"), "{message}");
    // A file cannot become a directory as long as it is there.
    let message = refused(&stage, "update", Some(&ark), &[("a.txt/x", "n")]).await;
    assert!(message.contains("cannot stand beside `producer/a.txt` of the newest version"), "{message}");
    has(&stage, &ark, 1, HEAD).await;
    bring(&stage, "update", &ark, &[("a.txt/x", "n"), (DELETE, "a.txt")]).await;
    has(&stage, &ark, 2, &[("a.txt/x", "n"), ("dir/b c.xml", "<two/>"), ("dir/ü", "three")]).await;
    tree.close().await;
}

#[tokio::test]
async fn a_replacement_keeps_no_other_file() {
    let tree = Tree::embedded();
    for stage in stages(&tree).await {
        let ark = first(&stage).await;
        let message = bring(&stage, "replace", &ark, &[("a.txt", "one"), ("new", "n")]).await;
        assert!(message.ends_with(": 1 added, 0 replaced, 2 removed, 1 unchanged"), "{message}");
        has(&stage, &ark, 2, &[("a.txt", "one"), ("new", "n")]).await;
    }
    tree.close().await;
}

#[tokio::test]
async fn the_manifests_say_what_came_and_what_is_stored() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let ark = first(&stage).await;
    let jid = job(&stage, "update", Some(&ark), &[("new", "n"), (DELETE, "a.txt")]).await;
    assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Recording));
    let node: Inventory = stage.queue.node(jid, JobNode::Inventory).await.unwrap().unwrap();
    let changes = "1 added, 0 replaced, 1 removed, 2 unchanged";
    assert_eq!((node.mode.as_str(), node.other["changes"].as_str()), ("update", Some(changes)));
    assert_eq!(stage.status(jid).await.message, format!("{ark} version 2, 8 files: {changes}"));
    let rows = |url: &str| {
        let path = url::Url::parse(url).unwrap().to_file_path().unwrap();
        let text = std::fs::read(path).unwrap();
        let rows = manifest::Reader::open(text.as_slice(), manifest::Limits::default()).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    let handed = rows(&node.manifest_url);
    let stored = stage.services.storages["default"].manifest(&ark.to_string(), None).await.unwrap().unwrap();
    let mut names: Vec<_> = handed.iter().map(|row| row.name.clone()).collect();
    names.sort();
    assert_eq!(names, stored.files.keys().cloned().collect::<Vec<_>>());
    for row in &handed {
        let path = url::Url::parse(&row.url).unwrap().to_file_path().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), row.size.unwrap(), "{row:?}");
        assert_eq!(row.size.unwrap(), stored.files[&row.name].size, "{row:?}");
    }
    let came = rows(&node.manifest_url.replace("storage-manifest", "submission-manifest"));
    let came: Vec<_> = came.into_iter().map(|row| row.name).collect();
    assert_eq!(came, [DELETE, "new"]);
    tree.close().await;
}

#[tokio::test]
async fn a_requeued_update_does_its_own_version_again() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let ark = first(&stage).await;
    let files = [("new", "n"), (DELETE, "a.txt")];
    let jid = job(&stage, "update", Some(&ark), &files).await;
    assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Recording));
    let again = async |files: Option<&Files<'_>>| {
        let mut lease = stage.take(jid).await;
        conclude(&stage.queue, &mut lease, Err(Failure::fail("a fault"))).await.unwrap();
        let from = files.map_or(JobState::Processing, |_| JobState::Downloading);
        stage.queue.act(jid, &Action::Requeue(Some(from)), "", false).await.unwrap();
        if let Some(files) = files {
            download(&stage, jid, files).await;
        }
        assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Recording));
        stage.status(jid).await.message
    };
    let same = format!("{ark} version 2, 8 files: 1 added, 0 replaced, 1 removed, 2 unchanged");
    assert_eq!(again(None).await, same);
    assert_eq!(again(Some(&files)).await, same);
    // What it brings now is another version, of the same version before.
    let other = format!("{ark} version 3, 8 files: 1 added, 0 replaced, 0 removed, 3 unchanged");
    assert_eq!(again(Some(&[("newer", "n")])).await, other);
    let merged = [HEAD, &[("newer", "n")]].concat();
    assert_eq!(producer(&stage, &ark, 3).await, expected(&merged));
    stage.fsck().await;
    tree.close().await;
}

async fn of_two_updates_at_once_neither_is_lost(tree: &Tree) {
    let (here, there) = two_nodes(tree).await;
    let ark = first(&here).await;
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let side = async |stage: &Stage, jid| {
        barrier.wait().await;
        // Whoever finds the object taken is given back, and comes again.
        while stage.status(jid).await.status != JobState::Notify {
            work(stage, jid).await;
        }
    };
    let mut files: Vec<(String, String)> =
        HEAD.iter().map(|(name, content)| ((*name).into(), (*content).into())).collect();
    for round in 0..5 {
        let names = [format!("one {round}"), format!("two {round}")];
        let one = job(&here, "update", Some(&ark), &[(&names[0], "1")]).await;
        let two = job(&here, "update", Some(&ark), &[(&names[1], "2")]).await;
        within(Box::pin(async { tokio::join!(side(&here, one), side(&there, two)) })).await;
        files.extend(names.into_iter().zip(["1".to_owned(), "2".to_owned()]));
        let files: Vec<_> = files.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
        has(&here, &ark, 3 + 2 * round, &files).await;
    }
}

async fn an_update_that_is_killed_is_done_once(tree: &Tree) {
    let (here, there) = two_nodes(tree).await;
    let ark = first(&here).await;
    let jid = job(&here, "update", Some(&ark), &[("new", "n"), (DELETE, "a.txt")]).await;
    // Stored, and nothing in the tree says so. Whoever comes next waits for it.
    let mut lease = here.take(jid).await;
    step(&here, &mut lease).await.unwrap();
    here.queue.give_back(&mut lease, None).await.unwrap();
    let other = job(&here, "update", Some(&ark), &[("other", "o")]).await;
    assert!(matches!(work(&here, other).await, Ending::GivenBack(_)));
    for to in [JobState::Recording, JobState::Notify] {
        assert_eq!(work(&there, jid).await, Ending::Moved(to));
    }
    assert_eq!(primary(&here, jid).await.unwrap(), ark);
    for to in [JobState::Recording, JobState::Notify] {
        assert_eq!(work(&here, other).await, Ending::Moved(to));
    }
    let two = [("dir/b c.xml", "<two/>"), ("dir/ü", "three"), ("new", "n")];
    assert_eq!(producer(&here, &ark, 2).await, expected(&two));
    has(&here, &ark, 3, &[&two[..], &[("other", "o")]].concat()).await;
}
