//! Objects in an S3-compatible bucket.
//!
//! ```text
//! PREFIX/ARK/vN/content/ATTEMPT/PATH    content, each key written by one attempt only
//! PREFIX/ARK/vN/inventory.json          what version N is; written last, and only if it is not there
//! PREFIX/extensions/ingestd-repository/config.json   which repository the bucket belongs to
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
//! turn: it costs space, and audits name it. So do the parts of a large file whose upload was killed, which no
//! listing shows: give the bucket a rule that aborts uploads that are days old. The bucket has to honour
//! conditional puts; one that ignores the condition lets the later of two attempts win.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

use super::content::checked;
use super::turns::Turns;
use super::{
    Audit, Content, Entry as Found, Kept, Storage, StoreRequest, Stored, StoredManifest, canonical, check_ark,
};
use crate::digest::{Algorithm, Digest};
use crate::outcome::{Cancel, Failure, Progress, Result};

mod audit;
mod inventory;
mod marker;
mod settings;
mod told;
mod upload;

use inventory::{Entry, INVENTORY, Inventory};
use told::told;

pub(crate) use marker::S3Marker;
pub use settings::S3Settings;

/// A bucket, or a part of one.
#[derive(Debug)]
pub struct S3 {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    turns: Turns,
}

impl S3 {
    /// Over any store of objects.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self { store, prefix: Path::from(prefix), turns: Turns::default() }
    }

    /// Over a server that speaks S3, with the bucket in the path. Nothing is asked of it yet.
    pub fn connect(settings: &S3Settings) -> Result<Self> {
        Ok(Self::new(settings.open()?, &settings.prefix))
    }

    fn object(&self, ark: &str) -> Path {
        self.prefix.clone().join(ark)
    }

    fn version(&self, ark: &str, number: u32) -> Path {
        self.object(ark).join(format!("v{number}"))
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

    /// The version that was made with a key, by what the newest one says.
    async fn made_with(&self, ark: &str, key: &str, head: &Inventory) -> Result<Option<Stored>> {
        let Some((&version, _)) = head.keys.iter().find(|(_, known)| *known == key) else { return Ok(None) };
        let found = self.inventory(ark, version).await?;
        let lost = || Failure::fail(format!("{ark} has lost the inventory of v{version}"));
        self.stored(&found.ok_or_else(lost)?, true).map(Some)
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

    fn version_of<'a>(&'a self, ark: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Stored>>> {
        async move {
            check_ark(ark)?;
            let Some(head) = self.head(ark).await? else { return Ok(None) };
            self.made_with(ark, key, &head).await
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
        async move {
            check_ark(ark)?;
            self.find(ark, version, path).await
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

    fn entries(&self) -> BoxStream<'_, Result<Found>> {
        let depth = self.prefix.parts().count();
        let prefix = (depth > 0).then_some(&self.prefix);
        // Keys come in their order, so those of an object follow each other.
        let mut last = None;
        let entries = self.store.list(prefix).map(move |meta| {
            let path = meta.map_err(|error| told(&self.prefix, &error))?.location;
            let found = sort(&path, depth);
            if let Some(Found::Object(ark)) = &found
                && last.replace(ark.clone()).as_ref() == Some(ark)
            {
                return Ok(None);
            }
            Ok(found)
        });
        entries.filter_map(|found| std::future::ready(found.transpose())).boxed()
    }
}

/// What a key is: the inventory of an object's version, content (which its object tells of), or neither.
fn sort(path: &Path, depth: usize) -> Option<Found> {
    let parts: Vec<_> = path.parts().skip(depth).collect();
    let foreign = |why: String| Some(Found::Foreign { place: path.to_string(), why });
    let (ark, version, file) = match parts.as_slice() {
        // What is not objects but the repository's own.
        [own, ..] if own.as_ref() == "extensions" => return None,
        [ark, version, file, ..] => (ark, version, file),
        _ => return foreign("this key is of no object".to_owned()),
    };
    let name = percent_encoding::percent_decode_str(ark.as_ref()).decode_utf8();
    let name = match name.map_err(|error| error.to_string()).and_then(|name| canonical(&name).map(|()| name))
    {
        Ok(name) => name.into_owned(),
        Err(why) => return foreign(format!("this key is of no object: {why}")),
    };
    let is_version = version.as_ref().strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok());
    match (is_version, file.as_ref()) {
        (true, INVENTORY) if parts.len() == 3 => Some(Found::Object(name)),
        // Its object tells of it, or of what a killed store has left.
        (true, _) => None,
        _ => foreign(format!("this key is of no version of {name}")),
    }
}
