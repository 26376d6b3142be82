//! A storage service over HTTP: it is handed the address of a manifest, and fetches the files itself.
//!
//! BASE is `base`, or, if `worker_url` is set, what that answers before each request: `GET WORKER_URL` →
//! `{"base": URL}`. ARK, NODE and KEY are one element each: every byte but letters, digits and `-._~` is
//! percent-encoded. Basic auth goes with every request if it is set. Bodies are JSON. Redirects are errors.
//!
//! | request | answer |
//! |---|---|
//! | `GET BASE/state/ARK?key=KEY` | 200 RECEIPT of the version that this key made, or 404 |
//! | `POST BASE/add/NODE/ARK` and `POST BASE/update/NODE/ARK`, header `Idempotency-Key: KEY`, body `{"manifest": URL, "message", "user": {"name", "address"}}` | 200 or 201 RECEIPT; 404 to an update of no object |
//! | `GET BASE/manifest/ARK?version=N` (without: the newest) | 200 `{"version", "head", "created", "message", "key", "files": [{"path", "size", "algorithm", "digest"}]}`, or 404 |
//! | `GET BASE/content/ARK?version=N&path=PATH` | 200, the bytes |
//! | `GET BASE/objects?after=ARK` (first without) | 200 `{"arks": […]}` in a fixed order; empty at the end |
//!
//! RECEIPT is `{"version": N, "files": count, "bytes": sum of sizes}`. A store first asks for the state, so
//! that a key is never handed over twice, then posts, then reads the manifest of its version back and
//! compares every path, size and digest with what was sent.
//!
//! **When things break.** A transport error, 408, 429 or 5xx is tried again with growing pauses, each time
//! asking for the state first, because the answer may have been lost after the work was done; then it is
//! "later". Any other status fails the job with the first line of what the service said. A receipt or
//! manifest that is not what was sent fails the job and names the difference. Answers are bounded in size,
//! requests in time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use url::Url;

use super::s3::checked;
use super::{Audit, Content, Kept, Mode, Storage, StoreRequest, Stored, StoredManifest, stop_if};
use crate::digest::Digest;
use crate::outcome::{Cancel, Failure, Progress, Result};

/// What stays as it is in an element of an address.
const ELEMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The longest answer, in bytes: a manifest of a million files.
const LONGEST_ANSWER: usize = 512 << 20;

/// How the service is reached.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    pub base: Url,
    #[serde(default)]
    pub worker_url: Option<Url>,
    /// The service's number or name of the node that is to keep the objects.
    pub node: String,
    #[serde(default)]
    pub user: Option<String>,
    #[serde(default)]
    pub password: Option<String>,
    /// For one request, from sending it to the end of its answer.
    #[serde(default = "an_hour", with = "humantime_serde")]
    pub timeout: Duration,
    /// How often a request is tried, and the first pause between; each is twice the one before.
    #[serde(default = "five")]
    pub tries: u32,
    #[serde(default = "a_second", with = "humantime_serde")]
    pub pause: Duration,
}

fn an_hour() -> Duration {
    Duration::from_hours(1)
}

fn a_second() -> Duration {
    Duration::from_secs(1)
}

fn five() -> u32 {
    5
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password stays out of logs.
        let mut shown = f.debug_struct("HttpSettings");
        shown.field("base", &self.base.as_str()).field("node", &self.node).finish_non_exhaustive()
    }
}

/// A storage service.
#[derive(Debug)]
pub struct Http {
    settings: HttpSettings,
    client: reqwest::Client,
}

#[derive(Debug, Deserialize)]
struct Worker {
    base: Url,
}

#[derive(Debug, Deserialize)]
struct Receipt {
    version: u32,
    files: u64,
    bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    version: u32,
    head: u32,
    created: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    key: Option<String>,
    files: Vec<File>,
}

#[derive(Debug, Deserialize)]
struct File {
    path: String,
    size: u64,
    algorithm: String,
    digest: String,
}

#[derive(Debug, Deserialize)]
struct Arks {
    arks: Vec<String>,
}

impl Http {
    pub fn new(settings: HttpSettings) -> Result<Self> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(30).min(settings.timeout))
            .timeout(settings.timeout)
            .build()
            .map_err(|error| Failure::fail(format!("no HTTP client for the storage: {error}")))?;
        Ok(Self { settings, client })
    }

    /// The address of a request: elements below the base, and a query.
    async fn address(&self, elements: &[&str], query: &[(&str, &str)]) -> Result<Url> {
        let base = match &self.settings.worker_url {
            None => self.settings.base.clone(),
            Some(worker) => {
                let request = self.request(Method::GET, worker.clone());
                let lost = || Failure::fail(format!("{worker} knows no worker"));
                let answer: Worker = self.answer(request).await?.ok_or_else(lost)?;
                answer.base
            }
        };
        let encode = |text: &str| utf8_percent_encode(text, ELEMENT).to_string();
        let mut text = base.as_str().trim_end_matches('/').to_owned();
        for element in elements {
            text.push('/');
            text.push_str(&encode(element));
        }
        for (number, (name, value)) in query.iter().enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            text.extend([mark.to_string(), format!("{name}={}", encode(value))]);
        }
        Url::parse(&text).map_err(|error| Failure::fail(format!("`{text}` is no address: {error}")))
    }

    fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let request = self.client.request(method, url);
        match &self.settings.user {
            Some(user) => request.basic_auth(user, self.settings.password.as_ref()),
            None => request,
        }
    }

    /// Sends once. Nothing is a 404.
    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Option<reqwest::Response>> {
        let response = request.send().await.map_err(|error| lost(&error))?;
        let (status, url) = (response.status(), response.url().clone());
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if status.is_success() {
            return Ok(Some(response));
        }
        // Only the first piece of what it says is for people.
        let said = response.bytes_stream().next().await.and_then(std::result::Result::ok).unwrap_or_default();
        let said: String =
            String::from_utf8_lossy(&said).lines().next().unwrap_or_default().chars().take(300).collect();
        let text = format!("{url} answered {status}: {said}");
        let passing = status.is_server_error()
            || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        Err(if passing { Failure::Later(text) } else { Failure::Fail(text) })
    }

    async fn answer<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<Option<T>> {
        let Some(response) = self.send(request).await? else { return Ok(None) };
        let url = response.url().clone();
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.try_next().await.map_err(|error| lost(&error))? {
            if body.len() + piece.len() > LONGEST_ANSWER {
                return Err(Failure::fail(format!("{url} answered with more than {LONGEST_ANSWER} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        let read = serde_json::from_slice(&body);
        read.map(Some)
            .map_err(|error| Failure::fail(format!("the answer of {url} is not as agreed: {error}")))
    }

    async fn get<T: DeserializeOwned>(&self, elements: &[&str], query: &[(&str, &str)]) -> Result<Option<T>> {
        let read = || async {
            let url = self.address(elements, query).await?;
            self.answer(self.request(Method::GET, url)).await
        };
        self.patiently(&Cancel::new(), read).await
    }

    /// Tries again what may be better later.
    async fn patiently<T, F: Future<Output = Result<T>>>(
        &self,
        cancel: &Cancel,
        work: impl Fn() -> F,
    ) -> Result<T> {
        let mut pause = self.settings.pause;
        let mut tries = 1;
        loop {
            match work().await {
                Err(Failure::Later(why)) if tries < self.settings.tries => {
                    tracing::warn!(why, tries, "the storage service is tried again");
                }
                other => return other,
            }
            tokio::select! {
                () = cancel.cancelled() => return Err(Failure::Cancelled),
                () = tokio::time::sleep(pause) => {}
            }
            pause = pause.saturating_mul(2);
            tries += 1;
        }
    }

    /// One hand-over: asks whether it was done, and if not does it. Whether it was.
    async fn hand_over(&self, request: &StoreRequest, manifest: &Url) -> Result<(Receipt, bool)> {
        let state = self.address(&["state", &request.ark], &[("key", &request.key)]).await?;
        if let Some(receipt) = self.answer(self.request(Method::GET, state)).await? {
            return Ok((receipt, true));
        }
        let verb = if request.mode == Mode::Update { "update" } else { "add" };
        let url = self.address(&[verb, &self.settings.node, &request.ark], &[]).await?;
        let body = json!({ "manifest": manifest, "message": request.message, "user": request.user });
        let key = utf8_percent_encode(&request.key, ELEMENT).to_string();
        let post = self.request(Method::POST, url).header("Idempotency-Key", key).json(&body);
        let unknown = || {
            Failure::fail(format!(
                "the storage service does not know {}, or its node {}",
                request.ark, self.settings.node
            ))
        };
        Ok((self.answer(post).await?.ok_or_else(unknown)?, false))
    }

    async fn make(&self, request: &StoreRequest, progress: &Progress, cancel: &Cancel) -> Result<Stored> {
        let url = request.manifest_url.as_ref().ok_or_else(|| {
            Failure::fail(format!("{} has no address of its manifest to hand over", request.ark))
        })?;
        let tries = std::sync::atomic::AtomicU32::new(0);
        let work = || async {
            stop_if(cancel)?;
            // The first answer of the state tells of earlier attempts, later ones of our own.
            let first = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            let (receipt, there) = self.hand_over(request, url).await?;
            Ok((receipt, there && first))
        };
        let work = self.patiently(cancel, work);
        tokio::pin!(work);
        let mut beat = tokio::time::interval(Duration::from_secs(5));
        // The service tells nothing while it works; the request's own timeout bounds the wait.
        let (receipt, already) = loop {
            tokio::select! {
                done = &mut work => break done?,
                () = cancel.cancelled() => return Err(Failure::Cancelled),
                _ = beat.tick() => progress.beat(),
            }
        };
        let (files, bytes) = (request.files.len() as u64, request.size());
        if !already && (receipt.files, receipt.bytes) != (files, bytes) {
            return Err(Failure::fail(format!(
                "{} v{}: the storage service took {} files of {} bytes, and {files} of {bytes} were sent",
                request.ark, receipt.version, receipt.files, receipt.bytes
            )));
        }
        let gone =
            || Failure::fail(format!("{} v{} was stored and is not there", request.ark, receipt.version));
        let kept = self.manifest(&request.ark, Some(receipt.version)).await?.ok_or_else(gone)?.files;
        if !already {
            compare(request, &kept)?;
        }
        let size = kept.values().map(|file| file.size).sum();
        Ok(Stored { version: receipt.version, already, files: kept, size })
    }

    async fn content(
        &self,
        ark: &str,
        version: u32,
        path: &str,
        digest: Digest,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        let number = version.to_string();
        let url = self.address(&["content", ark], &[("version", &number), ("path", path)]).await?;
        let gone = || Failure::fail(format!("{ark} v{version} has `{path}` in its manifest, but no content"));
        let response = self.send(self.request(Method::GET, url)).await?.ok_or_else(gone)?;
        let pieces = response.bytes_stream().map_err(|error| lost(&error)).boxed();
        Ok(checked(pieces, digest, format!("{ark} v{version} {path}")))
    }

    async fn check(&self, ark: &str, progress: &Progress, cancel: &Cancel) -> Result<Audit> {
        let none = || Failure::fail(format!("there is no object {ark} to audit"));
        let head = self.manifest(ark, None).await?.ok_or_else(none)?.head;
        let mut audit = Audit { versions: head, ..Audit::default() };
        let mut seen = BTreeSet::new();
        for version in 1..=head {
            let Some(manifest) = self.manifest(ark, Some(version)).await? else {
                audit.problems.push(format!("v{version} has no manifest"));
                continue;
            };
            for (path, kept) in manifest.files {
                // What two versions share under one name is read once.
                if !seen.insert((path.clone(), kept.digest.to_string())) {
                    continue;
                }
                audit.files += 1;
                let read = self.read(ark, version, &path, &kept, progress, cancel).await;
                match read {
                    Ok(bytes) if bytes != kept.size => {
                        audit
                            .problems
                            .push(format!("v{version} `{path}` has {bytes} bytes, not {}", kept.size));
                    }
                    Ok(bytes) => audit.bytes += bytes,
                    Err(Failure::Fail(why)) => audit.problems.push(format!("v{version} `{path}`: {why}")),
                    Err(other) => return Err(other),
                }
                progress.add_file();
            }
        }
        Ok(audit)
    }

    async fn read(
        &self,
        ark: &str,
        version: u32,
        path: &str,
        kept: &Kept,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<u64> {
        let mut bytes = 0;
        let mut pieces = self.content(ark, version, path, kept.digest.clone()).await?;
        while let Some(piece) = pieces.try_next().await? {
            stop_if(cancel)?;
            bytes += piece.len() as u64;
            progress.add_bytes(piece.len() as u64);
        }
        stop_if(cancel)?;
        Ok(bytes)
    }
}

fn lost(error: &reqwest::Error) -> Failure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    Failure::later(text)
}

/// Every path, size and digest is as it was sent.
fn compare(request: &StoreRequest, kept: &BTreeMap<String, Kept>) -> Result<()> {
    let sent: BTreeSet<&str> = request.files.iter().map(|file| file.path.as_str()).collect();
    let more = kept.keys().find(|path| !sent.contains(path.as_str()));
    let mut wrong = more.map(|path| format!("`{path}` was not sent"));
    for file in &request.files {
        let Some(there) = kept.get(&file.path) else {
            wrong = Some(format!("`{}` is missing", file.path));
            break;
        };
        let same =
            |digest: &Digest| digest.algorithm() != there.digest.algorithm() || *digest == there.digest;
        if there.size != file.size || !file.digests.iter().all(same) {
            wrong = Some(format!("`{}` has {} bytes and {}", file.path, there.size, there.digest));
            break;
        }
    }
    match wrong {
        None => Ok(()),
        Some(what) => Err(Failure::fail(format!(
            "{}: the storage service kept something else than was sent: {what}",
            request.ark
        ))),
    }
}

impl Storage for Http {
    fn store<'a>(
        &'a self,
        request: &'a StoreRequest,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Stored>> {
        async move {
            request.check()?;
            self.make(request, progress, cancel).await
        }
        .boxed()
    }

    fn manifest<'a>(
        &'a self,
        ark: &'a str,
        version: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<StoredManifest>>> {
        async move {
            let number = version.map(|number| number.to_string());
            let query: Vec<_> = number.iter().map(|number| ("version", number.as_str())).collect();
            let Some(said) = self.get::<Manifest>(&["manifest", ark], &query).await? else { return Ok(None) };
            if version.is_some_and(|version| version != said.version) {
                return Err(Failure::fail(format!(
                    "{ark}: asked for v{}, told of v{}",
                    version.unwrap_or(0),
                    said.version
                )));
            }
            let mut files = BTreeMap::new();
            for file in said.files {
                let algorithm = file.algorithm.parse();
                let digest = algorithm.and_then(|algorithm| Digest::new(algorithm, &file.digest));
                let digest =
                    digest.map_err(|error| Failure::fail(format!("{ark} `{}`: {error}", file.path)))?;
                let number = said.version.to_string();
                let location = format!(
                    "{}/content/{}?version={number}&path={}",
                    self.settings.base.as_str().trim_end_matches('/'),
                    utf8_percent_encode(ark, ELEMENT),
                    utf8_percent_encode(&file.path, ELEMENT)
                );
                files.insert(file.path, Kept { size: file.size, digest, location });
            }
            Ok(Some(StoredManifest {
                ark: ark.to_owned(),
                version: said.version,
                head: said.head,
                created: said.created,
                message: said.message,
                key: said.key,
                files,
            }))
        }
        .boxed()
    }

    fn open<'a>(&'a self, ark: &'a str, version: u32, path: &'a str) -> BoxFuture<'a, Result<Content>> {
        async move {
            let missing = || Failure::fail(format!("{ark} has no version {version} with a file `{path}`"));
            let mut manifest = self.manifest(ark, Some(version)).await?.ok_or_else(missing)?;
            let kept = manifest.files.remove(path).ok_or_else(missing)?;
            let stream = self.content(ark, version, path, kept.digest.clone()).await?;
            Ok(Content { size: kept.size, digest: kept.digest, stream })
        }
        .boxed()
    }

    fn audit<'a>(
        &'a self,
        ark: &'a str,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Audit>> {
        self.check(ark, progress, cancel).boxed()
    }

    fn objects(&self) -> BoxStream<'_, Result<String>> {
        let pages = futures::stream::try_unfold(Some(None::<String>), move |after| async move {
            let Some(after) = after else { return Ok(None) };
            let query: Vec<_> = after.iter().map(|ark| ("after", ark.as_str())).collect();
            let page =
                self.get::<Arks>(&["objects"], &query).await?.map(|page| page.arks).unwrap_or_default();
            // A service that does not move on would be asked for ever.
            let next = page.last().filter(|last| after.as_ref() != Some(*last)).cloned();
            Ok::<_, Failure>(Some((page, next.map(Some))))
        });
        pages.map_ok(|page| futures::stream::iter(page.into_iter().map(Ok))).try_flatten().boxed()
    }
}
