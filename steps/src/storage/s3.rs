//! Objects in an S3-compatible bucket.
//!
//! ```text
//! PREFIX/ARK/vN/content/ATTEMPT/PATH    content, each key written by one attempt only
//! PREFIX/ARK/vN/inventory.json          what version N is; written last, and only if it is not there
//! ```
//!
//! The ARK and every name of a path are one element each, percent-encoded. ATTEMPT is a random name: two
//! attempts at one version, of which one may be believed dead and is not, never write to the same key. The
//! inventory is the commit: it is put with "if none exists", so one attempt wins, and everything else below
//! `vN/` is garbage from then on, which the winner removes. An inventory holds its version's files (sha-512,
//! size, key of the content, other digests that were known and right) and the keys of all stores so far, so
//! a repeated store is found with one read.
//!
//! **When things break.** Before the inventory is there, nothing of the version is seen by readers. If the
//! answer to the commit is lost, the inventory is read back; if that fails too the store fails as "later",
//! removes nothing, and finds its version when it is done again. Content that a killed attempt left stays
//! until the version that it worked on is made by another, or for ever if that winner was killed in its
//! turn: it costs space, and audits name it. The bucket has to support conditional puts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, WriteMultipart};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;

use super::disk::{failure, open_plain};
use super::turns::Turns;
use super::{Audit, Content, Kept, Mode, Storage, StoreFile, StoreRequest, Stored, StoredManifest, User};
use super::{off_runtime, stop_if, verified};
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};

const INVENTORY: &str = "inventory.json";
/// Files up to this are put at once, larger ones in parts of it.
const PART: usize = 8 << 20;
/// The longest key that S3 knows.
const LONGEST_KEY: usize = 1024;

/// A bucket, or a part of one.
#[derive(Debug)]
pub struct S3 {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    turns: Turns,
}

/// Where the bucket is.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Settings {
    pub endpoint: String,
    pub bucket: String,
    #[serde(default)]
    pub prefix: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    /// Plain HTTP, for a server on a trusted network.
    #[serde(default)]
    pub allow_http: bool,
}

impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The keys stay out of logs.
        f.debug_struct("S3Settings")
            .field("endpoint", &self.endpoint)
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// What `inventory.json` of a version says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Inventory {
    id: String,
    version: u32,
    created: String,
    message: String,
    user: User,
    /// The key of every store so far, by version.
    keys: BTreeMap<u32, String>,
    files: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    sha512: String,
    size: u64,
    /// The key of the content, below the object.
    content: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    fixity: BTreeMap<String, String>,
}

impl S3 {
    /// Over any store of objects.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, prefix: Path::from(prefix), turns: Turns::default() }
    }

    /// Over a server that speaks S3, with the bucket in the path. Nothing is asked of it yet.
    pub fn connect(settings: &S3Settings) -> Result<Self> {
        let store = object_store::aws::AmazonS3Builder::new()
            .with_endpoint(&settings.endpoint)
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_access_key_id(&settings.access_key)
            .with_secret_access_key(&settings.secret_key)
            .with_allow_http(settings.allow_http)
            .with_virtual_hosted_style_request(false)
            .build()
            .map_err(|error| Failure::fail(format!("the bucket {}: {error}", settings.bucket)))?;
        Ok(Self::new(Arc::new(store), &settings.prefix))
    }

    fn object(&self, ark: &str) -> Path {
        self.prefix.clone().join(ark)
    }

    fn version(&self, ark: &str, number: u32) -> Path {
        self.object(ark).join(format!("v{number}"))
    }

    async fn inventory(&self, ark: &str, number: u32) -> Result<Option<Inventory>> {
        let path = self.version(ark, number).join(INVENTORY);
        let bytes = match self.store.get(&path).await {
            Ok(found) => found.bytes().await.map_err(|error| told(&path, &error))?,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(told(&path, &error)),
        };
        let damaged = |why: String| Failure::fail(format!("{path} is damaged: {why}"));
        let found: Inventory = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if found.id != ark || found.version != number || !found.keys.keys().copied().eq(1..=number) {
            return Err(damaged(format!(
                "it is of {} v{}, and does not know all versions",
                found.id, found.version
            )));
        }
        for (path, entry) in &found.files {
            let inside = entry.content.starts_with('v') && Path::parse(&entry.content).is_ok();
            if !inside || Digest::new(Algorithm::Sha512, &entry.sha512).is_err() {
                return Err(damaged(format!("its file `{path}` has no content or no digest")));
            }
        }
        Ok(Some(found))
    }

    /// The newest version; one without an inventory is not made yet.
    async fn head(&self, ark: &str) -> Result<Option<Inventory>> {
        let object = self.object(ark);
        let listed =
            self.store.list_with_delimiter(Some(&object)).await.map_err(|error| told(&object, &error))?;
        let number = |path: &Path| path.filename()?.strip_prefix('v')?.parse().ok();
        let mut numbers: Vec<u32> = listed.common_prefixes.iter().filter_map(number).collect();
        numbers.sort_unstable();
        for number in numbers.into_iter().rev() {
            if let Some(found) = self.inventory(ark, number).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The full key of an entry's content.
    fn content(&self, ark: &str, entry: &Entry) -> Result<Path> {
        let key = format!("{}/{}", self.object(ark), entry.content);
        Path::parse(&key).map_err(|error| Failure::fail(format!("{key}: {error}")))
    }

    fn kept(&self, found: &Inventory) -> Result<BTreeMap<String, Kept>> {
        let files = found.files.iter().map(|(path, entry)| {
            let digest = Digest::new(Algorithm::Sha512, &entry.sha512);
            let digest = digest.map_err(|error| Failure::fail(format!("`{path}`: {error}")))?;
            let location = self.content(&found.id, entry)?.to_string();
            Ok((path.clone(), Kept { size: entry.size, digest, location }))
        });
        files.collect()
    }

    fn stored(&self, found: &Inventory, already: bool) -> Result<Stored> {
        let size = found.files.values().map(|file| file.size).sum();
        Ok(Stored { version: found.version, already, files: self.kept(found)?, size })
    }

    async fn make(&self, request: &StoreRequest, progress: &Progress, cancel: &Cancel) -> Result<Stored> {
        let _turn = self.turns.take(&request.ark).await;
        let before = self.head(&request.ark).await?;
        let known = before.iter().flat_map(|head| &head.keys).find(|(_, key)| **key == request.key);
        if let Some((&version, _)) = known {
            let found = self.inventory(&request.ark, version).await?;
            let lost = || Failure::fail(format!("{} has lost the inventory of v{version}", request.ark));
            return self.stored(&found.ok_or_else(lost)?, true);
        }
        if before.is_none() && request.mode == Mode::Update {
            return Err(Failure::fail(format!(
                "{} is to be updated, but there is no such object; add it, or correct its identifier",
                request.ark
            )));
        }
        progress.expect(request.files.len() as u64, request.size());
        let version = before.as_ref().map_or(0, |head| head.version) + 1;
        let attempt = uuid::Uuid::new_v4().simple().to_string();
        let place = self.version(&request.ark, version).join("content").join(attempt);
        let files = match self.upload(request, before.as_ref(), &place, progress, cancel).await {
            Ok(files) => files,
            Err(why) => {
                // Nothing refers to it yet. What cannot be removed costs space, no more.
                let _ = self.remove(&place, &BTreeSet::new()).await;
                return Err(why);
            }
        };
        let mut keys = before.map(|head| head.keys).unwrap_or_default();
        keys.insert(version, request.key.clone());
        let inventory = Inventory {
            id: request.ark.clone(),
            version,
            created: jiff::Timestamp::now().to_string(),
            message: request.message.clone(),
            user: request.user.clone(),
            keys,
            files,
        };
        self.commit(&inventory, &request.key).await?;
        let mut ours: BTreeSet<Path> =
            inventory.files.values().map(|entry| self.content(&request.ark, entry)).collect::<Result<_>>()?;
        let directory = self.version(&request.ark, version);
        ours.insert(directory.clone().join(INVENTORY));
        let _ = self.remove(&directory, &ours).await;
        self.stored(&inventory, false)
    }

    async fn upload(
        &self,
        request: &StoreRequest,
        before: Option<&Inventory>,
        place: &Path,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<BTreeMap<String, Entry>> {
        let mut contents: BTreeMap<String, String> = before
            .iter()
            .flat_map(|head| head.files.values())
            .map(|entry| (entry.sha512.clone(), entry.content.clone()))
            .collect();
        let below = self.object(&request.ark).as_ref().len() + 1;
        let mut files = BTreeMap::new();
        for file in &request.files {
            let target = file.path.split('/').fold(place.clone(), Path::join);
            if target.as_ref().len() > LONGEST_KEY {
                let why = format!("`{}` makes a key of more than {LONGEST_KEY} bytes", file.path);
                return Err(Failure::hopeless(why));
            }
            // Read before it is written, so that content which is there already is not sent.
            let sha512 = self.read(file, None, progress, cancel).await?;
            if !contents.contains_key(&sha512) {
                let sent = self.read(file, Some(&target), progress, cancel).await?;
                if sent != sha512 {
                    return Err(Failure::fail(format!("`{}` changed while it was stored", file.path)));
                }
                contents.insert(sha512.clone(), target.as_ref()[below..].to_owned());
            }
            let content = contents.get(&sha512).cloned().unwrap_or_default();
            let others = file.digests.iter().filter(|digest| digest.algorithm() != Algorithm::Sha512);
            let fixity = others.map(|digest| (digest.algorithm().plain_name().into(), digest.hex().into()));
            let entry = Entry { sha512, size: file.size, content, fixity: fixity.collect() };
            files.insert(file.path.clone(), entry);
            progress.add_file();
        }
        Ok(files)
    }

    /// Reads a source to its end, to a target if there is one; its sha-512, after everything was compared.
    async fn read(
        &self,
        file: &StoreFile,
        target: Option<&Path>,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<String> {
        let at = |doing: &'static str| move |error| failure(doing, &file.source, &error);
        let source = file.source.clone();
        let opened =
            off_runtime(move || open_plain(&source).map_err(|error| failure("open", &source, &error)));
        let mut source = tokio::fs::File::from_std(opened.await?);
        let mut digests = Digests::of(file.digests.iter().map(Digest::algorithm).chain([Algorithm::Sha512]));
        let large = file.size > PART as u64;
        let mut whole = Vec::new();
        let mut parts = match target {
            Some(target) if large => {
                let upload = self.store.put_multipart(target).await.map_err(|error| told(target, &error))?;
                Some((target, WriteMultipart::new_with_chunk_size(upload, PART)))
            }
            _ => None,
        };
        let mut buffer = vec![0; 256 << 10];
        let outcome = async {
            loop {
                stop_if(cancel)?;
                let count = source.read(&mut buffer).await.map_err(at("read"))?;
                digests.update(&buffer[..count]);
                // Content that is read twice is counted once.
                if target.is_none() {
                    progress.add_bytes(count as u64);
                } else {
                    progress.beat();
                }
                if count == 0 || digests.bytes() > file.size {
                    return verified(file, digests);
                }
                match &mut parts {
                    Some((target, parts)) => {
                        parts.wait_for_capacity(4).await.map_err(|error| told(target, &error))?;
                        parts.write(&buffer[..count]);
                    }
                    None if target.is_some() => whole.extend_from_slice(&buffer[..count]),
                    None => {}
                }
            }
        }
        .await;
        match (parts, target) {
            (Some((target, parts)), _) => {
                let done =
                    if outcome.is_ok() { parts.finish().await.map(|_| ()) } else { parts.abort().await };
                let sha512 = outcome?;
                done.map_err(|error| told(target, &error)).map(|()| sha512)
            }
            (None, Some(target)) => {
                let sha512 = outcome?;
                self.store
                    .put(target, PutPayload::from(whole))
                    .await
                    .map_err(|error| told(target, &error))?;
                Ok(sha512)
            }
            (None, None) => outcome,
        }
    }

    async fn commit(&self, inventory: &Inventory, key: &str) -> Result<()> {
        let path = self.version(&inventory.id, inventory.version).join(INVENTORY);
        let bytes = serde_json::to_vec_pretty(inventory)
            .map_err(|error| Failure::fail(format!("the inventory of {}: {error}", inventory.id)))?;
        let put = self.store.put_opts(&path, PutPayload::from(bytes), PutMode::Create.into()).await;
        let Err(error) = put else { return Ok(()) };
        // A put that was repeated on the wire finds itself; one whose answer was lost is found here too.
        let same = |found: &Inventory| {
            let contents =
                |of: &Inventory| of.files.values().map(|entry| entry.content.clone()).collect::<Vec<_>>();
            found.keys.get(&inventory.version).map(String::as_str) == Some(key)
                && contents(found) == contents(inventory)
        };
        match self.inventory(&inventory.id, inventory.version).await {
            Ok(Some(found)) if same(&found) => Ok(()),
            Ok(Some(_)) => Err(Failure::later(format!(
                "{} has changed while its next version was made; it is tried again",
                inventory.id
            ))),
            _ => Err(told(&path, &error)),
        }
    }

    /// Removes all keys below a place but these.
    async fn remove(&self, place: &Path, but: &BTreeSet<Path>) -> Result<()> {
        let listed: Vec<_> =
            self.store.list(Some(place)).try_collect().await.map_err(|error| told(place, &error))?;
        for path in listed.into_iter().map(|meta| meta.location).filter(|path| !but.contains(path)) {
            self.store.delete(&path).await.map_err(|error| told(&path, &error))?;
        }
        Ok(())
    }

    async fn check(&self, ark: &str, progress: &Progress, cancel: &Cancel) -> Result<Audit> {
        let none = || Failure::fail(format!("there is no object {ark} to audit"));
        let head = self.head(ark).await?.ok_or_else(none)?;
        let mut audit = Audit { versions: head.version, ..Audit::default() };
        let mut known = BTreeSet::new();
        for number in 1..=head.version {
            known.insert(self.version(ark, number).join(INVENTORY));
            let found = match self.inventory(ark, number).await {
                Ok(Some(found)) => found,
                Ok(None) => {
                    audit.problems.push(format!("v{number} has no {INVENTORY}"));
                    continue;
                }
                Err(Failure::Fail(why)) => {
                    audit.problems.push(why);
                    continue;
                }
                Err(other) => return Err(other),
            };
            let agrees = found.keys.iter().all(|(version, key)| head.keys.get(version) == Some(key));
            if !agrees {
                audit
                    .problems
                    .push(format!("v{number}/{INVENTORY} tells the versions otherwise than the newest"));
            }
            for (name, entry) in &found.files {
                let path = self.content(ark, entry)?;
                if known.insert(path.clone()) {
                    self.check_content(&path, name, entry, &mut audit, progress, cancel).await?;
                }
            }
        }
        // The version after the newest may just be in the making.
        let next = self.version(ark, head.version + 1);
        let object = self.object(ark);
        let mut listed = self.store.list(Some(&object));
        while let Some(meta) = listed.try_next().await.map_err(|error| told(&object, &error))? {
            if !known.contains(&meta.location) && !meta.location.prefix_matches(&next) {
                audit.problems.push(format!("`{}` is in no inventory", meta.location));
            }
        }
        Ok(audit)
    }

    async fn check_content(
        &self,
        path: &Path,
        name: &str,
        entry: &Entry,
        audit: &mut Audit,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<()> {
        let others = entry.fixity.iter().filter_map(|(algorithm, hex)| {
            let algorithm = algorithm.parse().ok()?;
            Digest::new(algorithm, hex).ok()
        });
        let mut expected: Vec<Digest> = others.collect();
        expected.extend(Digest::new(Algorithm::Sha512, &entry.sha512));
        let mut digests = Digests::of(expected.iter().map(Digest::algorithm));
        audit.files += 1;
        let mut pieces = match self.store.get(path).await {
            Ok(found) => found.into_stream(),
            Err(error @ Error::NotFound { .. }) => {
                audit.problems.push(format!("`{name}` cannot be read: {error}"));
                return Ok(());
            }
            Err(error) => return Err(told(path, &error)),
        };
        while let Some(piece) = pieces.try_next().await.map_err(|error| told(path, &error))? {
            stop_if(cancel)?;
            digests.update(&piece);
            progress.add_bytes(piece.len() as u64);
        }
        audit.bytes += digests.bytes();
        if digests.bytes() != entry.size {
            audit.problems.push(format!("`{path}` has {} bytes, not {}", digests.bytes(), entry.size));
        }
        let found = digests.finish();
        let wrong = expected.iter().filter(|expected| !found.contains(expected));
        audit.problems.extend(wrong.map(|wrong| format!("`{path}` has not the digest {wrong}")));
        progress.add_file();
        stop_if(cancel)
    }

    async fn find(&self, ark: &str, version: u32, name: &str) -> Result<Content> {
        let missing = || Failure::fail(format!("{ark} has no version {version} with a file `{name}`"));
        let found = self.inventory(ark, version).await?.ok_or_else(missing)?;
        let entry = found.files.get(name).ok_or_else(missing)?;
        let digest = Digest::new(Algorithm::Sha512, &entry.sha512).map_err(|_| missing())?;
        let path = self.content(ark, entry)?;
        let pieces = self.store.get(&path).await.map_err(|error| told(&path, &error))?.into_stream();
        let pieces = pieces.map_err(move |error| told(&path, &error)).boxed();
        let stream = checked(pieces, digest.clone(), format!("{ark} v{version} {name}"));
        Ok(Content { size: entry.size, digest, stream })
    }
}

/// A stream that fails at its end if the content is not what was stored.
pub(super) fn checked(
    pieces: BoxStream<'static, Result<Bytes>>,
    digest: Digest,
    name: String,
) -> BoxStream<'static, Result<Bytes>> {
    let digests = Digests::of([digest.algorithm()]);
    futures::stream::try_unfold((pieces, Some(digests)), move |(mut pieces, digests)| {
        let (digest, name) = (digest.clone(), name.clone());
        async move {
            let Some(mut digests) = digests else { return Ok(None) };
            if let Some(piece) = pieces.try_next().await? {
                digests.update(&piece);
                return Ok(Some((piece, (pieces, Some(digests)))));
            }
            if digests.finish() == [digest] {
                return Ok(None);
            }
            let why = format!("`{name}` is damaged: what was read is not what was stored; audit it");
            Err(Failure::fail(why))
        }
    })
    .boxed()
}

/// What an error of the bucket means for a job.
fn told(path: &Path, error: &Error) -> Failure {
    let text = format!("{path} in the bucket: {error}");
    match error {
        Error::NotFound { .. }
        | Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::UnknownConfigurationKey { .. } => Failure::Fail(text),
        _ => Failure::Later(text),
    }
}

impl Storage for S3 {
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
            let Some(head) = self.head(ark).await? else { return Ok(None) };
            let newest = head.version;
            let found = match version {
                Some(version) if version != newest => self.inventory(ark, version).await?,
                _ => Some(head),
            };
            let Some(found) = found else { return Ok(None) };
            Ok(Some(StoredManifest {
                ark: ark.to_owned(),
                version: found.version,
                head: newest,
                created: found.created.clone(),
                message: found.message.clone(),
                key: found.keys.get(&found.version).cloned(),
                files: self.kept(&found)?,
            }))
        }
        .boxed()
    }

    fn open<'a>(&'a self, ark: &'a str, version: u32, path: &'a str) -> BoxFuture<'a, Result<Content>> {
        self.find(ark, version, path).boxed()
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
        // An object is there as soon as its first version is.
        let depth = self.prefix.parts().count();
        let prefix = (depth > 0).then_some(&self.prefix);
        let arks = self.store.list(prefix).map(move |meta| {
            let path = meta.map_err(|error| told(&self.prefix, &error))?.location;
            let parts: Vec<_> = path.parts().skip(depth).collect();
            let [ark, version, file] = parts.as_slice() else { return Ok(None) };
            if version.as_ref() != "v1" || file.as_ref() != INVENTORY {
                return Ok(None);
            }
            let ark = percent_encoding::percent_decode_str(ark.as_ref()).decode_utf8();
            let ark = ark.map_err(|error| Failure::fail(format!("{path} in the bucket: {error}")))?;
            Ok(Some(ark.into_owned()))
        });
        arks.filter_map(|found| async { found.transpose() }).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_version_is_committed_once_and_finds_itself() {
        let s3 = S3::new(Arc::new(object_store::memory::InMemory::new()), "");
        let inventory = |key: &str, content: &str| {
            let (sha512, content) = ("a".repeat(128), content.to_owned());
            let entry = Entry { sha512, size: 1, content, fixity: BTreeMap::new() };
            Inventory {
                id: "ark:/1/2".into(),
                version: 1,
                created: String::new(),
                message: String::new(),
                user: User { name: "x".into(), address: None },
                keys: BTreeMap::from([(1, key.to_owned())]),
                files: BTreeMap::from([("a".to_owned(), entry)]),
            }
        };
        let ours = inventory("ours", "v1/content/x/a");
        s3.commit(&ours, "ours").await.unwrap();
        // The answer was lost and the put repeated: it is the same commit.
        s3.commit(&ours, "ours").await.unwrap();
        for (key, content) in [("theirs", "v1/content/x/a"), ("ours", "v1/content/y/a")] {
            let late = s3.commit(&inventory(key, content), key).await.unwrap_err();
            assert!(matches!(late, Failure::Later(_)), "{late}");
        }
        let kept = s3.inventory("ark:/1/2", 1).await.unwrap().unwrap();
        assert_eq!((&kept.keys[&1], &kept.files["a"].content), (&"ours".into(), &"v1/content/x/a".into()));
    }
}
