//! A storage service over HTTP: it is handed the address of a manifest, and fetches the files itself.
//!
//! BASE is `base`, or, if `worker_url` is set, what that answers before each request: `GET WORKER_URL` →
//! `{"base": URL}`. ARK, NODE and KEY are one element each: every byte but letters, digits and `-._~` is
//! percent-encoded. Basic auth goes with every request if it is set. Bodies are JSON. Redirects are errors.
//!
//! | request | answer |
//! |---|---|
//! | `GET BASE/state/ARK?key=KEY` | 200 RECEIPT of the version that this key made, or 404 |
//! | `POST BASE/add/NODE/ARK` and `POST BASE/update/NODE/ARK`, header `Idempotency-Key: KEY`, body `{"manifest": URL, "message", "user": {"name", "address"}, "head": N}` | 200 or 201 RECEIPT; 404 to an update of no object |
//! | `GET BASE/manifest/ARK?version=N` (without: the newest) | 200 `{"version", "head", "created", "message", "key", "files": [{"path", "size", "algorithm", "digest"}]}`, or 404 |
//! | `GET BASE/content/ARK?version=N&path=PATH` | 200, the bytes |
//! | `GET BASE/objects?after=ARK` (first without) | 200 `{"arks": […]}` in a fixed order; empty at the end |
//!
//! The manifest names all files of the new version, after an update too: a file that is carried forward has the
//! address of its content in this service. `head` is the newest version that the files were chosen against, 0 for a
//! new object; a service that has another one by now may refuse the request with 409, which fails the job.
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

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde::Deserialize;
use url::Url;

use super::content::checked;
use super::{
    Audit, Content, Entry, Kept, Storage, StoreRequest, Stored, StoredManifest, canonical, check_ark,
};
use crate::digest::Digest;
use crate::outcome::{Cancel, Failure, Progress, Result};

mod audit;
mod calls;
mod hand_over;

use calls::lost;
use hand_over::Receipt;

/// What stays as it is in an element of an address.
const ELEMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How the service is reached.
#[derive(Clone, PartialEq, Eq, Deserialize)]
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

    fn version_of<'a>(&'a self, ark: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Stored>>> {
        async move {
            check_ark(ark)?;
            let Some(receipt) = self.get::<Receipt>(&["state", ark], &[("key", key)]).await? else {
                return Ok(None);
            };
            let version = receipt.version;
            let gone = || Failure::fail(format!("{ark} v{version} was stored and is not there"));
            let files = self.manifest(ark, Some(version)).await?.ok_or_else(gone)?.files;
            let size = files.values().map(|file| file.size).sum();
            Ok(Some(Stored { version, already: true, files, size }))
        }
        .boxed()
    }

    fn manifest<'a>(
        &'a self,
        ark: &'a str,
        version: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<StoredManifest>>> {
        async move {
            check_ark(ark)?;
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
            check_ark(ark)?;
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
        async move {
            check_ark(ark)?;
            self.check(ark, progress, cancel).await
        }
        .boxed()
    }

    fn entries(&self) -> BoxStream<'_, Result<Entry>> {
        let pages = futures::stream::try_unfold(Some(None::<String>), move |after| async move {
            let Some(after) = after else { return Ok(None) };
            let query: Vec<_> = after.iter().map(|ark| ("after", ark.as_str())).collect();
            let page =
                self.get::<Arks>(&["objects"], &query).await?.map(|page| page.arks).unwrap_or_default();
            // A service that does not move on would be asked for ever.
            let next = page.last().filter(|last| after.as_ref() != Some(*last)).cloned();
            Ok::<_, Failure>(Some((page, next.map(Some))))
        });
        let entry = |ark: String| match canonical(&ark) {
            Ok(()) => Entry::Object(ark),
            Err(why) => Entry::Foreign { place: ark, why },
        };
        let pages = pages.map_ok(move |page| futures::stream::iter(page.into_iter().map(entry).map(Ok)));
        pages.try_flatten().boxed()
    }
}
