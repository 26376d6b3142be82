//! A fetcher, a bad server and a directory.

use std::path::PathBuf;
use std::time::Duration;

use ingest_steps::digest::{Algorithm, Digest, Digests};
use ingest_steps::fetch::{Allowed, Fetched, Fetcher, Rules, Wanted};
use ingest_steps::outcome::{Cancel, Failure, Progress};

use ingest_harness::bad_server::BadServer;

pub(crate) struct Kit {
    pub(crate) server: BadServer,
    pub(crate) fetcher: Fetcher,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) progress: Progress,
    pub(crate) cancel: Cancel,
}

/// How long anything is waited for that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The server may be reached, pauses are short, and nothing else is.
pub(crate) fn rules() -> Rules {
    Rules {
        allowed: vec![Allowed::try_from("127.0.0.0/8".to_owned()).unwrap()],
        retries: 3,
        backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(4),
        max_retry_after: Duration::from_millis(4),
        ..Rules::default()
    }
}

impl Kit {
    pub(crate) async fn new() -> Self {
        Self::with(rules()).await
    }

    pub(crate) async fn with(rules: Rules) -> Self {
        Self {
            server: BadServer::start().await,
            fetcher: Fetcher::new(rules).unwrap(),
            dir: tempfile::tempdir().unwrap(),
            progress: Progress::default(),
            cancel: Cancel::new(),
        }
    }

    pub(crate) fn to(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    pub(crate) fn part(&self) -> PathBuf {
        self.dir.path().join(".file.ingest-part")
    }

    pub(crate) fn wanted(&self, path: &str) -> Wanted {
        Wanted::new(self.server.url(path))
    }

    pub(crate) async fn fetch(&self, wanted: &Wanted) -> Result<Fetched, Failure> {
        self.fetcher.fetch(wanted, &self.to(), &self.progress, &self.cancel).await
    }

    /// Of which nothing is known but where it is.
    pub(crate) async fn fetch_path(&self, path: &str) -> Result<Fetched, Failure> {
        self.fetch(&self.wanted(path)).await
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        std::fs::read(self.to()).unwrap()
    }

    /// The names in the directory, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub(crate) fn sha256(data: &[u8]) -> Digest {
    digest(Algorithm::Sha256, data)
}

pub(crate) fn digest(algorithm: Algorithm, data: &[u8]) -> Digest {
    let mut digests = Digests::of([algorithm]);
    digests.update(data);
    digests.finish().remove(0)
}

/// Bytes in which every place differs from the next.
pub(crate) fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

#[track_caller]
pub(crate) fn fails(result: Result<Fetched, Failure>) -> String {
    match result {
        Err(Failure::Fail(why)) => why,
        other => panic!("not a failure of the job: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn later(result: Result<Fetched, Failure>) -> String {
    match result {
        Err(Failure::Later(why)) => why,
        other => panic!("not to be tried later: {other:?}"),
    }
}
