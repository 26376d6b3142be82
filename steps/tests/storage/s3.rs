//! Objects in a bucket: the same tests on one in memory and on a server that speaks S3.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt as _;
use ingest_harness::S3Server;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::storage::s3::{S3, S3Settings};
use ingest_steps::storage::{Mode, Storage as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use crate::objects::{self, ARK, contents, pairs, problems, read, request, store};

pub(crate) const FIRST: [(&str, &str); 4] =
    [("a", "one"), ("b/ü c", "two"), ("b/same", "one"), ("empty", "")];
pub(crate) const SECOND: [(&str, &str); 3] = [("a", "one"), ("b/ü c", "changed"), ("new/%2F*\\x", "five")];

const PREFIX: &str = "some/prefix";
const OBJECT: &str = "some/prefix/ark:%2F99999%2Ffk4abc";

struct Bench {
    work: tempfile::TempDir,
    bucket: Arc<dyn ObjectStore>,
    s3: S3,
    /// Ends with the test.
    _server: Option<S3Server>,
}

/// How a node is told of the bucket of a server.
pub(crate) fn settings(server: &S3Server) -> S3Settings {
    let keys = (server.access_key(), server.secret_key());
    S3Settings {
        prefix: PREFIX.into(),
        allow_http: true,
        tries: 3,
        pause: std::time::Duration::from_millis(5),
        ..S3Settings::new(&server.endpoint(), "us-east-1", server.bucket(), keys)
    }
}

fn in_memory() -> Bench {
    let bucket = Arc::new(InMemory::new());
    let s3 = S3::new(bucket.clone(), PREFIX);
    Bench { work: tempfile::tempdir().unwrap(), bucket, s3, _server: None }
}

fn on_a_server() -> Bench {
    let server = S3Server::start();
    let settings = settings(&server);
    let (bucket, s3) = (settings.open().unwrap(), S3::connect(&settings).unwrap());
    Bench { work: tempfile::tempdir().unwrap(), bucket, s3, _server: Some(server) }
}

/// Each of these on both.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test] async fn $name() { super::$name(super::in_memory()).await })*
        }
        mod on_a_server {
            $(#[tokio::test] async fn $name() { super::$name(super::on_a_server()).await })*
        }
    };
}

on_both!(
    versions_are_stored_and_read_back,
    the_same_key_again_changes_nothing,
    an_update_needs_an_object_and_odd_paths_are_refused,
    a_store_that_fails_leaves_nothing,
    what_a_killed_attempt_left_is_not_seen_and_goes_with_the_next,
    of_two_nodes_at_one_version_one_wins_and_the_other_comes_again,
    a_file_of_several_parts_is_whole,
    a_large_file_that_is_not_what_was_said_leaves_nothing,
    an_audit_tells_every_damage,
    all_objects_are_listed,
    more_keys_than_one_answer_holds_are_listed_and_removed,
    another_spelling_of_an_ark_is_refused,
    what_is_carried_forward_is_kept_once,
    a_version_of_an_object_that_has_moved_on_is_not_made,
);

impl Bench {
    async fn keys(&self) -> Vec<Path> {
        self.bucket.list(None).map_ok(|meta| meta.location).try_collect().await.unwrap()
    }

    async fn key(&self, end: &str) -> Path {
        self.keys().await.into_iter().find(|key| key.as_ref().ends_with(end)).unwrap()
    }

    async fn put(&self, key: &str, content: &'static str) {
        self.bucket.put(&Path::parse(key).unwrap(), content.into()).await.unwrap();
    }

    /// Another node on the same bucket.
    fn other(&self) -> S3 {
        S3::new(self.bucket.clone(), PREFIX)
    }
}

async fn versions_are_stored_and_read_back(bench: Bench) {
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
    assert!(bench.keys().await.iter().all(|key| key.as_ref().starts_with(&format!("{OBJECT}/v"))));
}

async fn what_is_carried_forward_is_kept_once(bench: Bench) {
    objects::carries_files_forward(&bench.s3, bench.work.path()).await;
    // Three contents, one and one new, three inventories.
    assert_eq!(bench.keys().await.len(), 8);
}

async fn a_version_of_an_object_that_has_moved_on_is_not_made(bench: Bench) {
    objects::refuses_what_the_newest_version_has_overtaken(&bench.s3, bench.work.path()).await;
}

async fn the_same_key_again_changes_nothing(bench: Bench) {
    let first = request(bench.work.path(), "k1", &FIRST);
    let made = store(&bench.s3, &first).await.unwrap();
    store(&bench.s3, &request(bench.work.path(), "k2", &SECOND)).await.unwrap();
    let before = bench.keys().await;
    let again = store(&bench.s3, &first).await.unwrap();
    assert_eq!((again.version, again.already, again.files), (1, true, made.files));
    assert_eq!(bench.keys().await, before);
}

async fn an_update_needs_an_object_and_odd_paths_are_refused(bench: Bench) {
    let mut update = request(bench.work.path(), "k1", &FIRST);
    update.mode = Mode::Update;
    assert!(matches!(store(&bench.s3, &update).await, Err(Failure::Fail(_))));
    let odd = store(&bench.s3, &request(bench.work.path(), "k1", &[("../x", "1")])).await;
    assert!(matches!(odd, Err(Failure::Hopeless(_))));
    assert_eq!(bench.keys().await, []);
}

async fn a_store_that_fails_leaves_nothing(bench: Bench) {
    let mut wrong = request(bench.work.path(), "k1", &FIRST);
    wrong.files[3].size = 7;
    assert!(matches!(store(&bench.s3, &wrong).await, Err(Failure::Fail(_))));
    let cancel = Cancel::new();
    cancel.cancel();
    let good = request(bench.work.path(), "k1", &FIRST);
    assert_eq!(bench.s3.store(&good, &Progress::default(), &cancel).await, Err(Failure::Cancelled));
    assert_eq!(bench.keys().await, []);
}

async fn what_a_killed_attempt_left_is_not_seen_and_goes_with_the_next(bench: Bench) {
    bench.put(&format!("{OBJECT}/v1/content/dead/a"), "half").await;
    assert_eq!(bench.s3.manifest(ARK, None).await.unwrap(), None);
    assert_eq!(bench.s3.objects().try_collect::<Vec<_>>().await.unwrap(), [""; 0]);
    store(&bench.s3, &request(bench.work.path(), "k1", &FIRST)).await.unwrap();
    assert!(bench.keys().await.iter().all(|key| !key.as_ref().contains("dead")));
    assert_eq!(problems(&bench.s3).await, [""; 0]);
}

async fn of_two_nodes_at_one_version_one_wins_and_the_other_comes_again(bench: Bench) {
    let other = bench.other();
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
    assert_eq!(problems(&bench.s3).await, [""; 0]);
}

async fn a_file_of_several_parts_is_whole(bench: Bench) {
    let large = "0123456789abcdef".repeat(1_200_000);
    store(&bench.s3, &request(bench.work.path(), "k1", &[("large", &large)])).await.unwrap();
    assert!(read(&bench.s3, 1, "large").await.unwrap() == large);
    assert_eq!(problems(&bench.s3).await, [""; 0]);
}

async fn a_large_file_that_is_not_what_was_said_leaves_nothing(bench: Bench) {
    let large = "0123456789abcdef".repeat(600_000);
    let mut wrong = request(bench.work.path(), "k1", &[("a", "one"), ("large", &large)]);
    wrong.files[1].digests = crate::objects::digests("other", &[ingest_steps::digest::Algorithm::Sha256]);
    assert!(matches!(store(&bench.s3, &wrong).await, Err(Failure::Fail(_))));
    assert_eq!(bench.keys().await, []);
}

async fn an_audit_tells_every_damage(bench: Bench) {
    store(&bench.s3, &request(bench.work.path(), "k1", &FIRST)).await.unwrap();
    bench.bucket.put(&bench.key("/a").await, "One".into()).await.unwrap();
    bench.bucket.delete(&bench.key("/empty").await).await.unwrap();
    bench.put(&format!("{OBJECT}/v1/stray"), "").await;
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

async fn all_objects_are_listed(bench: Bench) {
    let mut expected = BTreeSet::new();
    for number in 0..5 {
        let mut one = request(bench.work.path(), "k", &[("v1/inventory.json", "1")]);
        one.ark = format!("ark:/99999/fk4/a.b=%2F{number}");
        store(&bench.s3, &one).await.unwrap();
        expected.insert(one.ark);
    }
    assert_eq!(bench.s3.objects().try_collect::<BTreeSet<_>>().await.unwrap(), expected);
}

/// A server answers with 1,000 keys at most.
const MANY: usize = 1_050;

async fn more_keys_than_one_answer_holds_are_listed_and_removed(bench: Bench) {
    let put = |key: String| {
        let bucket = bench.bucket.clone();
        async move { bucket.put(&Path::parse(&key).unwrap(), "x".into()).await.map(|_| ()) }
    };
    let objects = (0..MANY).map(|number| format!("{PREFIX}/ark:%2F99999%2Fx{number}/v1/inventory.json"));
    let garbage = (0..MANY).map(|number| format!("{OBJECT}/v1/content/dead/{number}"));
    let all = futures::stream::iter(objects.chain(garbage).map(Ok));
    all.try_for_each_concurrent(16, put).await.unwrap();
    assert_eq!(bench.s3.objects().try_collect::<BTreeSet<_>>().await.unwrap().len(), MANY);
    store(&bench.s3, &request(bench.work.path(), "k1", &FIRST)).await.unwrap();
    assert_eq!(problems(&bench.s3).await, [""; 0]);
    assert_eq!(bench.keys().await.len(), MANY + 4);
}

async fn another_spelling_of_an_ark_is_refused(bench: Bench) {
    crate::objects::refuses_other_spellings(&bench.s3, bench.work.path()).await;
    assert_eq!(bench.keys().await, []);
}
