//! Storing a version under the object's lock, and what `/jobs/JID/inventory` says of it.

use ingest_queue::error::Error;
use ingest_queue::index::Until;
use ingest_queue::jobs::Write;
use ingest_queue::names::Side;
use ingest_queue::nodes;
use serde_json::Value;
use sha2::Digest as _;

use super::identify::Named;
use super::system::Made;
use crate::digest::hex;
use crate::outcome::{Failure, Result};
use crate::services::Services;
use crate::step::{Task, object};
use crate::storage::{Kept, Mode, Storage, StoreFile, StoreRequest, Stored, User};

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
    object: Made,
) -> Result<Said> {
    let job = task.lease.job();
    let submitter = task.configuration.submitter.clone();
    let request = StoreRequest {
        ark: named.ark.to_string(),
        key: task.lease.effect_key(),
        mode,
        files: object.files,
        message: object::signature(job.jid, job.bid, &submitter),
        user: User { name: if submitter.is_empty() { "unknown".into() } else { submitter }, address: None },
        manifest_url: Some(object.manifest),
    };
    lock(task, Side::Storage, &request.ark).await?;
    let kept = keep(task, services, storage, named, &request).await;
    // In any case, and before anything else can fail.
    let unlocked = task.queue.unlock_object(task.lease, Side::Storage, &request.ark).await;
    let (stored, key) = kept?;
    unlocked?;
    let said = Said::of(stored.version, &key, &stored.files);
    let url = request.manifest_url.map(|url| url.to_string()).unwrap_or_default();
    let node = said.node(url, &task.configuration.submission_mode);
    task.queue.write(task.lease, &[Write::Inventory(node)]).await?;
    Ok(said)
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

/// The version that holds these files, and its key.
async fn keep(
    task: &Task<'_>,
    services: &Services,
    storage: &dyn Storage,
    named: &Named,
    request: &StoreRequest,
) -> Result<(Stored, String)> {
    task.gate().await?;
    // Under the lock it is decided again: what is recorded may be another job's since.
    named.may_store(task, services, storage).await?;
    if let Some(found) = requeued(task, storage, request).await? {
        return Ok(found);
    }
    let stored = storage.store(request, &task.progress, &task.cancel).await?;
    match difference(request, &stored) {
        None => Ok((stored, request.key.clone())),
        Some(why) => Err(Failure::fail(format!(
            "{} version {} is not what was to be stored: {why}; requeue the job to store the files that it has \
             now as another version",
            request.ark, stored.version
        ))),
    }
}

/// What this job has stored before somebody requeued it, if its files are still the same. A requeue has a key
/// of its own, and would make a second version of them.
async fn requeued(
    task: &Task<'_>,
    storage: &dyn Storage,
    request: &StoreRequest,
) -> Result<Option<(Stored, String)>> {
    let job = task.lease.job();
    if job.status.retry_count == 0 {
        return Ok(None);
    }
    let Some(newest) = storage.manifest(&request.ark, None).await? else { return Ok(None) };
    let Some(key) = newest.key.filter(|key| key.starts_with(&format!("{}-{}-", job.jid, job.state()))) else {
        return Ok(None);
    };
    let size = newest.files.values().map(|file| file.size).sum();
    let stored = Stored { version: newest.version, already: true, files: newest.files, size };
    Ok(difference(request, &stored).is_none().then_some((stored, key)))
}

/// In what a version is not what was sent.
fn difference(request: &StoreRequest, stored: &Stored) -> Option<String> {
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
    let (there, sent) = (stored.files.len(), request.files.len());
    let count = || (there != sent).then(|| format!("it has {there} files, not {sent}"));
    request.files.iter().find_map(differs).or_else(count)
}

impl Said {
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

    fn node(&self, manifest_url: String, mode: &str) -> nodes::Inventory {
        let other = [
            ("version", Value::from(self.version)),
            ("key", Value::from(self.key.as_str())),
            ("files", Value::from(self.files)),
            ("bytes", Value::from(self.bytes)),
            ("digest", Value::from(self.digest.as_str())),
        ];
        let other = other.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        nodes::Inventory { manifest_url, mode: mode.to_owned(), other }
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
