//! Requests and files for the tests of all places.

use std::fs;
use std::path::{Path, PathBuf};

use futures::TryStreamExt as _;
use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::outcome::{Cancel, Progress, Result};
use ingest_steps::storage::{Mode, Storage, StoreFile, StoreRequest, Stored, User};

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
