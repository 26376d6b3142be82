//! Requests and files for the tests of all places.

use std::fs;
use std::path::{Path, PathBuf};

use futures::TryStreamExt as _;
use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::outcome::{Cancel, Failure, Progress, Result};
use ingest_steps::storage::{Carried, Mode, Storage, StoreFile, StoreRequest, Stored, User};

pub(crate) const ARK: &str = "ark:/99999/fk4abc";

/// A file on disk, named by its content so that versions do not disturb each other.
pub(crate) fn file(work: &Path, path: &str, content: &str, algorithms: &[Algorithm]) -> StoreFile {
    let digests = digests(content, algorithms);
    let name = digests_name(content);
    let source: PathBuf = work.join(name);
    fs::write(&source, content).unwrap();
    StoreFile { path: path.into(), source, size: content.len() as u64, digests }
}

pub(crate) fn digests(content: &str, algorithms: &[Algorithm]) -> Vec<Digest> {
    let mut digests = Digests::of(algorithms.iter().copied());
    digests.update(content.as_bytes());
    digests.finish()
}

fn digests_name(content: &str) -> String {
    digests(content, &[Algorithm::Sha256])[0].hex().to_owned()
}

/// A request to add an object of these paths and contents.
pub(crate) fn request(work: &Path, key: &str, files: &[(&str, &str)]) -> StoreRequest {
    let known = [Algorithm::Sha256, Algorithm::Md5];
    StoreRequest {
        ark: ARK.into(),
        key: key.into(),
        mode: Mode::Add,
        files: files.iter().map(|(path, content)| file(work, path, content, &known)).collect(),
        carried: Carried::default(),
        head: None,
        message: format!("as {key} says"),
        user: User { name: "Depositor".into(), address: Some("mailto:depositor@example.org".into()) },
        manifest_url: None,
    }
}

pub(crate) async fn store(storage: &dyn Storage, request: &StoreRequest) -> Result<Stored> {
    storage.store(request, &Progress::default(), &Cancel::new()).await
}

pub(crate) async fn read(storage: &dyn Storage, version: u32, path: &str) -> Result<String> {
    let content = storage.open(ARK, version, path).await?;
    let pieces: Vec<_> = content.stream.try_collect().await?;
    let text = String::from_utf8(pieces.concat()).unwrap();
    assert_eq!(text.len() as u64, content.size);
    Ok(text)
}

/// The paths and contents of a version.
pub(crate) async fn contents(storage: &dyn Storage, version: u32) -> Vec<(String, String)> {
    let manifest = storage.manifest(ARK, Some(version)).await.unwrap().unwrap();
    let mut contents = Vec::new();
    for path in manifest.files.into_keys() {
        let content = read(storage, version, &path).await.unwrap();
        contents.push((path, content));
    }
    contents
}

pub(crate) fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = files.iter().map(|(path, content)| ((*path).into(), (*content).into())).collect();
    pairs.sort();
    pairs
}

pub(crate) async fn problems(storage: &dyn Storage) -> Vec<String> {
    storage.audit(ARK, &Progress::default(), &Cancel::new()).await.unwrap().problems
}

/// Every call with an ARK that is written otherwise than it is kept is refused, and says how it is kept.
pub(crate) async fn refuses_other_spellings(storage: &dyn Storage, work: &Path) {
    for spelling in ["ark:99999/fk4abc", "ark:/99999/fk4-abc", "ARK:/99999/fk4abc"] {
        let wanted = StoreRequest { ark: spelling.into(), ..request(work, "k", &[("a", "one")]) };
        let (progress, cancel) = (Progress::default(), Cancel::new());
        let refusals = [
            store(storage, &wanted).await.unwrap_err(),
            storage.manifest(spelling, None).await.unwrap_err(),
            storage.open(spelling, 1, "a").await.unwrap_err(),
            storage.audit(spelling, &progress, &cancel).await.unwrap_err(),
        ];
        for refused in refusals {
            assert!(refused.to_string().contains("is kept as ark:/99999/fk4abc; ask for that"), "{refused}");
        }
    }
    let wanted = StoreRequest { ark: "doi:10.1/x".into(), ..request(work, "k", &[("a", "one")]) };
    assert!(store(storage, &wanted).await.unwrap_err().to_string().contains("is no ARK"));
}

/// The next version, which carries forward some files of the newest one.
pub(crate) async fn carrying(
    storage: &dyn Storage,
    work: &Path,
    key: &str,
    files: &[(&str, &str)],
    carried: &[&str],
) -> StoreRequest {
    let newest = storage.manifest(ARK, None).await.unwrap().unwrap();
    let version = newest.version;
    let kept = newest.files.into_iter().filter(|(path, _)| carried.contains(&path.as_str()));
    StoreRequest {
        mode: Mode::Update,
        carried: Carried { version, files: kept.collect() },
        head: Some(version),
        ..request(work, key, files)
    }
}

/// What is carried forward is in the new version as it was; what is not, is not.
pub(crate) async fn carries_files_forward(storage: &dyn Storage, work: &Path) {
    store(storage, &request(work, "k1", &[("a", "one"), ("b/c", "two"), ("gone", "three")])).await.unwrap();
    let wanted = carrying(storage, work, "k2", &[("a", "new"), ("d", "two")], &["b/c"]).await;
    let made = store(storage, &wanted).await.unwrap();
    assert_eq!((made.version, made.already, made.size), (2, false, 9));
    assert_eq!(contents(storage, 2).await, pairs(&[("a", "new"), ("b/c", "two"), ("d", "two")]));
    // From a version that is not the newest one, and nothing else.
    let mut third = carrying(storage, work, "k3", &[("e", "five")], &[]).await;
    let first = storage.manifest(ARK, Some(1)).await.unwrap().unwrap();
    third.carried = Carried { version: 1, files: first.files };
    assert_eq!(store(storage, &third).await.unwrap().version, 3);
    let all = [("a", "one"), ("b/c", "two"), ("e", "five"), ("gone", "three")];
    assert_eq!(contents(storage, 3).await, pairs(&all));
    assert_eq!(problems(storage).await, [""; 0]);
    // The keys are known, and no other.
    let again = storage.version_of(ARK, "k2").await.unwrap().unwrap();
    assert_eq!((again.version, again.already, again.files), (2, true, made.files));
    assert_eq!(storage.version_of(ARK, "k").await.unwrap(), None);
    assert_eq!(storage.version_of("ark:/99999/fk4none", "k1").await.unwrap(), None);
}

/// A version that was made against another newest one, or with files that are not there, is not made.
pub(crate) async fn refuses_what_the_newest_version_has_overtaken(storage: &dyn Storage, work: &Path) {
    let mut new = request(work, "k0", &[("a", "one")]);
    new.head = Some(1);
    assert!(matches!(store(storage, &new).await, Err(Failure::Again(_))));
    new.head = Some(0);
    store(storage, &new).await.unwrap();
    let late = carrying(storage, work, "late", &[("b", "two")], &["a"]).await;
    store(storage, &request(work, "k1", &[("a", "other")])).await.unwrap();
    let why = store(storage, &late).await.unwrap_err();
    assert!(matches!(&why, Failure::Again(why) if why.contains("has version 2 now")), "{why}");
    let fresh = carrying(storage, work, "wrong", &[("b", "two")], &["a"]).await;
    let mut wrong = [fresh.clone(), fresh.clone(), fresh.clone()];
    wrong[0].carried.version = 1;
    wrong[1].carried.version = 7;
    let kept = wrong[2].carried.files.remove("a").unwrap();
    wrong[2].carried.files.insert("c".into(), kept);
    for wrong in wrong {
        let why = store(storage, &wrong).await.unwrap_err().to_string();
        assert!(why.contains("as it was to be carried forward"), "{why}");
    }
    assert_eq!(storage.manifest(ARK, None).await.unwrap().unwrap().head, 2);
    store(storage, &fresh).await.unwrap();
    assert_eq!(contents(storage, 3).await, pairs(&[("a", "other"), ("b", "two")]));
}
