//! The making of a version: content first, then the inventory, then the garbage of other attempts.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutPayload, WriteMultipart};
use tokio::io::AsyncReadExt as _;

use super::S3;
use super::inventory::{Entry, INVENTORY, Inventory};
use super::told::told;
use crate::digest::{Algorithm, Digest, Digests};
use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::storage::disk::{failure, open_plain};
use crate::storage::{StoreFile, StoreRequest, Stored, off_runtime, stop_if, verified};

/// Files up to this are put at once, larger ones in parts of it.
const PART: usize = 8 << 20;
/// The longest key that S3 knows.
const LONGEST_KEY: usize = 1024;

impl S3 {
    pub(super) async fn make(
        &self,
        request: &StoreRequest,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Stored> {
        let _turn = self.turns.take(&request.ark).await;
        let before = self.head(&request.ark).await?;
        if let Some(head) = &before
            && let Some(stored) = self.made_with(&request.ark, &request.key, head).await?
        {
            return Ok(stored);
        }
        if before.is_none() && request.mode.needs_object() {
            return Err(Failure::fail(format!(
                "{} is to be updated, but there is no such object; add it, or correct its identifier",
                request.ark
            )));
        }
        request.check_head(before.as_ref().map_or(0, |head| head.version))?;
        let carried = self.carried(request, before.as_ref()).await?;
        progress.announce(request.files.len() as u64, request.size());
        let version = before.as_ref().map_or(0, |head| head.version) + 1;
        let attempt = uuid::Uuid::new_v4().simple().to_string();
        let place = self.version(&request.ark, version).join("content").join(attempt);
        let mut files = match self.upload(request, before.as_ref(), &place, progress, cancel).await {
            Ok(files) => files,
            Err(why) => {
                // Nothing refers to it yet. What cannot be removed costs space, no more.
                let _ = self.remove(&place, &BTreeSet::new()).await;
                return Err(why);
            }
        };
        files.extend(carried);
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
        if !self.commit(&inventory, &request.key).await? {
            // Another was first, and nothing will ever refer to what was sent here.
            let _ = self.remove(&place, &BTreeSet::new()).await;
            return Err(Failure::later(format!(
                "{} has changed while its next version was made; it is tried again",
                request.ark
            )));
        }
        let mut ours: BTreeSet<Path> =
            inventory.files.values().map(|entry| self.content(&request.ark, entry)).collect::<Result<_>>()?;
        let directory = self.version(&request.ark, version);
        ours.insert(directory.clone().join(INVENTORY));
        let _ = self.remove(&directory, &ours).await;
        self.stored(&inventory, false)
    }

    /// What the version that has them says of the files that are carried forward.
    async fn carried(
        &self,
        request: &StoreRequest,
        before: Option<&Inventory>,
    ) -> Result<BTreeMap<String, Entry>> {
        let version = request.carried.version;
        if request.carried.files.is_empty() {
            return Ok(BTreeMap::new());
        }
        let older = match before {
            Some(head) if head.version == version => None,
            _ => self.inventory(&request.ark, version).await?,
        };
        let there = older.as_ref().or(before.filter(|head| head.version == version));
        request.check_carried(&there.map(|there| self.kept(there)).transpose()?.unwrap_or_default())?;
        let entries = there.iter().flat_map(|there| &there.files);
        let entries = entries.filter(|(path, _)| request.carried.files.contains_key(*path));
        Ok(entries.map(|(path, entry)| (path.clone(), entry.clone())).collect())
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
                match outcome {
                    Ok(sha512) => self.complete(parts, target, file.size).await.map(|()| sha512),
                    Err(why) => {
                        // Parts that cannot be removed cost space, no more.
                        let _ = parts.abort().await;
                        Err(why)
                    }
                }
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

    /// Makes one of all parts. If the answer is lost and the request repeated, the server knows the upload no more; then
    /// the object is there, whole, because only this attempt writes to its key.
    async fn complete(&self, parts: WriteMultipart, target: &Path, size: u64) -> Result<()> {
        let Err(error) = parts.finish().await else { return Ok(()) };
        match self.store.head(target).await {
            Ok(found) if found.size == size => Ok(()),
            _ => Err(told(target, &error)),
        }
    }

    /// Removes all keys below a place but these.
    async fn remove(&self, place: &Path, but: &BTreeSet<Path>) -> Result<()> {
        let listed: Vec<_> = self
            .store
            .list(Some(place))
            .map_ok(|meta| meta.location)
            .try_collect()
            .await
            .map_err(|error| told(place, &error))?;
        let gone: Vec<_> = listed.into_iter().filter(|path| !but.contains(path)).map(Ok).collect();
        // Many with one request.
        let removed = self.store.delete_stream(futures::stream::iter(gone).boxed());
        removed.try_for_each(|_| async { Ok(()) }).await.map_err(|error| told(place, &error))
    }
}
