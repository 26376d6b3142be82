//! Storing a version under the object's lock, and what `/jobs/JID/inventory` says of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ingest_queue::error::Error;
use ingest_queue::ids::Jid;
use ingest_queue::index::Until;
use ingest_queue::jobs::Write;
use ingest_queue::names::Side;
use ingest_queue::nodes;
use serde_json::Value;
use sha2::Digest as _;
use url::Url;

use super::compose::{Changes, Composition, compose};
use super::identify::Named;
use super::restored::{self, Earlier};
use super::system::Made;
use super::{delete, system};
use crate::digest::hex;
use crate::inventory::Summary;
use crate::outcome::{Failure, Result};
use crate::services::{Services, blocking};
use crate::step::{Task, object};
use crate::storage::{Kept, Mode, Storage, StoreFile, StoreRequest, Stored, StoredManifest, User};

/// The field of `/jobs/JID/inventory` that says what the version did to the files of the one before.
pub(in crate::step) const CHANGES: &str = "changes";

/// What processing says of a version: recording compares it with what the storage says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub version: u32,
    /// The key that the version was stored with.
    pub key: String,
    pub files: u64,
    pub bytes: u64,
    /// Over the path, size and digest of every file.
    pub digest: String,
}

/// Stores, compares, and writes down what was stored.
pub(super) async fn store(
    task: &mut Task<'_>,
    services: &Services,
    storage: &dyn Storage,
    mode: Mode,
    named: &Named,
    object: &Arc<Made>,
) -> Result<(Said, Option<Changes>)> {
    let ark = named.ark.to_string();
    lock(task, Side::Storage, &ark).await?;
    let kept = keep(task, services, storage, mode, named, object).await;
    // In any case, and before anything else can fail.
    let unlocked = task.queue.unlock_object(task.lease, Side::Storage, &ark).await;
    let kept = kept?;
    unlocked?;
    let said = Said::of(kept.stored.version, &kept.key, &kept.stored.files);
    let mut node = said.node(kept.manifest.to_string(), mode);
    if let Some(changes) = kept.changes {
        node.other.insert(CHANGES.into(), changes.to_string().into());
    }
    task.queue.write(task.lease, &[Write::Inventory(node)]).await?;
    Ok((said, kept.changes))
}

/// Takes the lock on an object. While another job has it this one is parked.
pub(crate) async fn lock(task: &mut Task<'_>, side: Side, ark: &str) -> Result<()> {
    match task.queue.lock_object(task.lease, side, ark).await {
        Err(Error::Busy { node, .. }) => {
            let what = match side {
                Side::Storage => "stores",
                Side::Inventory => "records",
            };
            let why = format!("waits for another job, which {what} a version of {ark} on {node}");
            Err(Failure::Blocked { why, until: Until::Gone(side.path(ark)) })
        }
        answer => Ok(answer?),
    }
}

/// A version that is what it was to be.
struct Done {
    stored: Stored,
    /// The key that it was stored with.
    key: String,
    /// Where its storage manifest is.
    manifest: Url,
    changes: Option<Changes>,
}

/// Composes the version and stores it, unless this job has stored it before.
async fn keep(
    task: &Task<'_>,
    services: &Services,
    storage: &dyn Storage,
    mode: Mode,
    named: &Named,
    object: &Arc<Made>,
) -> Result<Done> {
    task.gate().await?;
    // Under the lock it is decided again: what is recorded may be another job's since.
    let recorded = named.may_store(task, services, storage).await?;
    let ark = named.ark.to_string();
    let composer = Composer { task, services, storage, mode, object, recorded, ark };
    if let Some(done) = composer.restored().await? {
        return Ok(done);
    }
    let newest = storage.manifest(&composer.ark, None).await?;
    let stored = match &newest {
        Some(_) => storage.version_of(&composer.ark, &task.lease.effect_key()).await?,
        None => None,
    };
    let (head, before) = (
        newest.as_ref().map_or(0, |newest| newest.version),
        match &stored {
            Some(stored) => composer.previous(stored.version).await?,
            None => newest.clone(),
        },
    );
    let Composed { request, manifest, changes } = composer.compose(head, before).await?;
    // A requeue has a key of its own, and would make a second version of the same files.
    if let Some(newest) = newest.filter(|newest| stored.is_none() && composer.is_own(newest)) {
        let size = newest.files.values().map(|file| file.size).sum();
        let stored = Stored { version: newest.version, already: true, files: newest.files, size };
        if let Some(key) = newest.key.filter(|_| difference(&request, &stored, "").is_none()) {
            return Ok(Done { stored, key, manifest, changes });
        }
    }
    let stored = match stored {
        Some(stored) => stored,
        None => storage.store(&request, &task.progress, &task.cancel).await?,
    };
    match difference(&request, &stored, "") {
        None => Ok(Done { stored, key: request.key, manifest, changes }),
        Some(why) => Err(Failure::fail(format!(
            "{} version {} is not what was to be stored: {why}; requeue the job to store the files that it has \
             now as another version",
            request.ark, stored.version
        ))),
    }
}

/// What the next version of an object is made from.
struct Composer<'a, 'b> {
    task: &'a Task<'b>,
    services: &'a Services,
    storage: &'a dyn Storage,
    mode: Mode,
    object: &'a Arc<Made>,
    /// What is recorded of the object.
    recorded: Option<Summary>,
    ark: String,
}

/// A version that can be stored.
struct Composed {
    request: StoreRequest,
    /// Where its storage manifest is.
    manifest: Url,
    changes: Option<Changes>,
}

impl Composer<'_, '_> {
    /// The version that this job, or the lost job that it replaces, made before the tree was restored, if it would be made
    /// of the same files now.
    async fn restored(&self) -> Result<Option<Done>> {
        let Some(Earlier { stored, key, of }) =
            restored::version(self.task, self.services, self.storage, &self.ark).await?
        else {
            return Ok(None);
        };
        let before = self.previous(stored.version).await?;
        let Composed { request, manifest, changes } = self.compose(stored.version, before).await?;
        let same = difference(&request, &stored, of).is_none();
        Ok(same.then_some(Done { stored, key, manifest, changes }))
    }

    /// The version that follows the newest of these and those before it that counts. What this job has stored itself is not
    /// what it composes its files with: it does that again.
    async fn compose(&self, head: u32, mut before: Option<StoredManifest>) -> Result<Composed> {
        while let Some(version) = &before {
            if self.counts(version).await? && !self.is_own(version) {
                break;
            }
            before = self.previous(version.version).await?;
        }
        let delete = match self.object.delete() {
            Some(path) => blocking("reading mrt-delete.txt", move || delete::read(&path)).await?,
            None => BTreeSet::new(),
        };
        let files = self.object.files();
        let Composition { carried, changes } = compose(self.mode, &files, &delete, before.as_ref())?;
        let manifest = system::hand_over(self.task, self.services, self.object, &carried).await?;
        let job = self.task.lease.job();
        let submitter = self.task.configuration.submitter.clone();
        let request = StoreRequest {
            ark: self.ark.clone(),
            key: self.task.lease.effect_key(),
            mode: self.mode,
            files,
            carried,
            head: Some(head),
            message: object::signature(job.jid, job.bid, &submitter),
            user: User {
                name: if submitter.is_empty() { "unknown".into() } else { submitter },
                address: None,
            },
            manifest_url: Some(manifest.clone()),
        };
        Ok(Composed { request, manifest, changes })
    }

    async fn counts(&self, version: &StoredManifest) -> Result<bool> {
        if self.services.inventory.is_none() {
            return Ok(true);
        }
        object::counts(self.task.queue, version, self.recorded.as_ref()).await
    }

    /// Whether an earlier attempt of this job has stored this version.
    fn is_own(&self, version: &StoredManifest) -> bool {
        let job = self.task.lease.job();
        let own = format!("{}-{}-", job.jid, job.state());
        version.key.as_ref().is_some_and(|key| key.starts_with(&own))
    }

    /// The version before a version.
    async fn previous(&self, version: u32) -> Result<Option<StoredManifest>> {
        match version.checked_sub(1).filter(|previous| *previous > 0) {
            Some(previous) => self.storage.manifest(&self.ark, Some(previous)).await,
            None => Ok(None),
        }
    }
}

/// In what a version is not what was sent, as far as the paths begin with `of`.
fn difference(request: &StoreRequest, stored: &Stored, of: &str) -> Option<String> {
    if stored.version == 0 {
        return Some("it has no number".into());
    }
    let differs = |file: &StoreFile| match stored.files.get(&file.path) {
        None => Some(format!("`{}` is missing", file.path.escape_debug())),
        Some(kept) if kept.size != file.size => {
            Some(format!("`{}` has {} bytes, not {}", file.path.escape_debug(), kept.size, file.size))
        }
        Some(kept) => {
            let same = file.digests.contains(&kept.digest);
            (!same).then(|| format!("`{}` has {}", file.path.escape_debug(), kept.digest))
        }
    };
    let carried = |(path, wanted): (&String, &Kept)| match stored.files.get(path) {
        Some(kept) if (kept.size, &kept.digest) == (wanted.size, &wanted.digest) => None,
        _ => Some(format!("`{}` is not as it was to be carried forward", path.escape_debug())),
    };
    let sent = || request.files.iter().filter(|file| file.path.starts_with(of));
    let kept = || request.carried.files.iter().filter(|(path, _)| path.starts_with(of));
    let (there, wanted) =
        (stored.files.keys().filter(|path| path.starts_with(of)).count(), sent().count() + kept().count());
    let count = || (there != wanted).then(|| format!("it has {there} files, not {wanted}"));
    sent().find_map(differs).or_else(|| kept().find_map(carried)).or_else(count)
}

impl Said {
    /// The job that stored the version, as far as its key says so: after a restore it may be one that the tree has lost.
    pub(crate) fn jid(&self) -> Option<Jid> {
        self.key.split('-').next()?.parse().ok()
    }

    pub(crate) fn of(version: u32, key: &str, files: &std::collections::BTreeMap<String, Kept>) -> Self {
        let mut sha = sha2::Sha256::new();
        for (path, kept) in files {
            // Paths may hold anything but NUL.
            sha.update(format!("{path}\0{}\0{}\0", kept.size, kept.digest));
        }
        Self {
            version,
            key: key.to_owned(),
            files: files.len() as u64,
            bytes: files.values().map(|kept| kept.size).sum(),
            digest: hex(&sha.finalize()),
        }
    }

    pub(super) fn node(&self, manifest_url: String, mode: Mode) -> nodes::Inventory {
        let other = [
            ("version", Value::from(self.version)),
            ("key", Value::from(self.key.as_str())),
            ("files", Value::from(self.files)),
            ("bytes", Value::from(self.bytes)),
            ("digest", Value::from(self.digest.as_str())),
        ];
        let other = other.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        nodes::Inventory { manifest_url, mode: mode.name().to_owned(), other }
    }

    /// Reads it back; `None` if it does not say enough.
    pub fn read(node: &nodes::Inventory) -> Option<Self> {
        let number = |name: &str| node.other.get(name)?.as_u64();
        let text = |name: &str| Some(node.other.get(name)?.as_str()?.to_owned());
        Some(Self {
            version: u32::try_from(number("version")?).ok()?,
            key: text("key")?,
            files: number("files")?,
            bytes: number("bytes")?,
            digest: text("digest")?,
        })
    }
}
