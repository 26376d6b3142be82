//! Objects in a bucket; here the bucket is in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt as _;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::storage::s3::S3;
use ingest_steps::storage::{Mode, Storage as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _};

use crate::objects::{ARK, contents, pairs, problems, read, request, store};

const FIRST: [(&str, &str); 4] = [("a", "one"), ("b/ü c", "two"), ("b/same", "one"), ("empty", "")];
const SECOND: [(&str, &str); 3] = [("a", "one"), ("b/ü c", "changed"), ("new/%2F*\\x", "five")];

struct Bench {
    work: tempfile::TempDir,
    bucket: Arc<InMemory>,
    s3: S3,
}

fn bench() -> Bench {
    let bucket = Arc::new(InMemory::new());
    let s3 = S3::new(bucket.clone(), "some/prefix");
    Bench { work: tempfile::tempdir().unwrap(), bucket, s3 }
}

impl Bench {
    async fn keys(&self) -> Vec<Path> {
        self.bucket.list(None).map_ok(|meta| meta.location).try_collect().await.unwrap()
    }

    async fn key(&self, end: &str) -> Path {
        self.keys().await.into_iter().find(|key| key.as_ref().ends_with(end)).unwrap()
    }
}

#[tokio::test]
async fn versions_are_stored_and_read_back() {
    let bench = bench();
    let first = store(&bench.s3, &request(bench.work.path(), "k1", &FIRST)).await.unwrap();
    assert_eq!((first.version, first.already, first.size), (1, false, 9));
    let mut second = request(bench.work.path(), "k2", &SECOND);
    second.mode = Mode::Update;
    assert_eq!(store(&bench.s3, &second).await.unwrap().version, 2);
    assert_eq!(contents(&bench.s3, 1).await, pairs(&FIRST));
    assert_eq!(contents(&bench.s3, 2).await, pairs(&SECOND));
    // Three contents, two new ones, two inventories.
    assert_eq!((bench.keys().await.len(), problems(&bench.s3).await), (7, vec![]));
    let manifest = bench.s3.manifest(ARK, Some(1)).await.unwrap().unwrap();
    assert_eq!((manifest.head, manifest.key.as_deref(), manifest.files), (2, Some("k1"), first.files));
    assert!(
        bench.keys().await.iter().all(|key| key.as_ref().starts_with("some/prefix/ark:%2F99999%2Ffk4abc/v"))
    );
}

#[tokio::test]
async fn the_same_key_again_changes_nothing() {
    let bench = bench();
    let first = request(bench.work.path(), "k1", &FIRST);
    let made = store(&bench.s3, &first).await.unwrap();
    store(&bench.s3, &request(bench.work.path(), "k2", &SECOND)).await.unwrap();
    let before = bench.keys().await;
    let again = store(&bench.s3, &first).await.unwrap();
    assert_eq!((again.version, again.already, again.files), (1, true, made.files));
    assert_eq!(bench.keys().await, before);
}

#[tokio::test]
async fn an_update_needs_an_object_and_odd_paths_are_refused() {
    let bench = bench();
    let mut update = request(bench.work.path(), "k1", &FIRST);
    update.mode = Mode::Update;
    assert!(matches!(store(&bench.s3, &update).await, Err(Failure::Fail(_))));
    let odd = store(&bench.s3, &request(bench.work.path(), "k1", &[("../x", "1")])).await;
    assert!(matches!(odd, Err(Failure::Hopeless(_))));
    assert_eq!(bench.keys().await, []);
}

#[tokio::test]
async fn a_store_that_fails_leaves_nothing() {
    let bench = bench();
    let mut wrong = request(bench.work.path(), "k1", &FIRST);
    wrong.files[3].size = 7;
    assert!(matches!(store(&bench.s3, &wrong).await, Err(Failure::Fail(_))));
    let cancel = Cancel::new();
    cancel.cancel();
    let good = request(bench.work.path(), "k1", &FIRST);
    assert_eq!(bench.s3.store(&good, &Progress::default(), &cancel).await, Err(Failure::Cancelled));
    assert_eq!(bench.keys().await, []);
}

#[tokio::test]
async fn what_a_killed_attempt_left_is_not_seen_and_goes_with_the_next() {
    let bench = bench();
    let left = Path::parse("some/prefix/ark:%2F99999%2Ffk4abc/v1/content/dead/a").unwrap();
    bench.bucket.put(&left, "half".into()).await.unwrap();
    assert_eq!(bench.s3.manifest(ARK, None).await.unwrap(), None);
    assert_eq!(bench.s3.objects().try_collect::<Vec<_>>().await.unwrap(), [""; 0]);
    store(&bench.s3, &request(bench.work.path(), "k1", &FIRST)).await.unwrap();
    assert!(!bench.keys().await.contains(&left));
    assert_eq!(problems(&bench.s3).await, [""; 0]);
}

#[tokio::test]
async fn of_two_nodes_at_one_version_one_wins_and_the_other_comes_again() {
    let bench = bench();
    let other = S3::new(bench.bucket.clone(), "some/prefix");
    let (one, two) = (request(bench.work.path(), "k1", &FIRST), request(bench.work.path(), "k2", &SECOND));
    let (first, second) = futures::join!(store(&bench.s3, &one), store(&other, &two));
    for result in [&first, &second] {
        assert!(matches!(result, Ok(_) | Err(Failure::Later(_))), "{result:?}");
    }
    let first = store(&bench.s3, &one).await.unwrap().version;
    let second = store(&other, &two).await.unwrap().version;
    assert_eq!(BTreeSet::from([first, second]), BTreeSet::from([1, 2]));
    assert_eq!(contents(&bench.s3, first).await, pairs(&FIRST));
    assert_eq!(contents(&bench.s3, second).await, pairs(&SECOND));
}

#[tokio::test]
async fn a_file_of_several_parts_is_whole() {
    let bench = bench();
    let large = "0123456789abcdef".repeat(1_200_000);
    store(&bench.s3, &request(bench.work.path(), "k1", &[("large", &large)])).await.unwrap();
    assert!(read(&bench.s3, 1, "large").await.unwrap() == large);
    assert_eq!(problems(&bench.s3).await, [""; 0]);
}

#[tokio::test]
async fn an_audit_tells_every_damage() {
    let bench = bench();
    store(&bench.s3, &request(bench.work.path(), "k1", &FIRST)).await.unwrap();
    bench.bucket.put(&bench.key("/a").await, "One".into()).await.unwrap();
    bench.bucket.delete(&bench.key("/empty").await).await.unwrap();
    let stray = Path::parse("some/prefix/ark:%2F99999%2Ffk4abc/v1/stray").unwrap();
    bench.bucket.put(&stray, "".into()).await.unwrap();
    let told = problems(&bench.s3).await;
    for part in [
        "/a` has not the digest sha-512",
        "/a` has not the digest md5",
        "`empty` cannot be read",
        "/stray` is in no",
    ] {
        assert!(told.iter().any(|line| line.contains(part)), "{part}: {told:#?}");
    }
    assert!(read(&bench.s3, 1, "a").await.unwrap_err().to_string().contains("damaged"));
}

#[tokio::test]
async fn all_objects_are_listed() {
    let bench = bench();
    let mut expected = BTreeSet::new();
    for number in 0..5 {
        let mut one = request(bench.work.path(), "k", &[("v1/inventory.json", "1")]);
        one.ark = format!("ark:/99999/fk4 é%{number}");
        store(&bench.s3, &one).await.unwrap();
        expected.insert(one.ark);
    }
    assert_eq!(bench.s3.objects().try_collect::<BTreeSet<_>>().await.unwrap(), expected);
}
