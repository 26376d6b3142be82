//! `recording`: what was stored is read back, compared, and put into the inventory.
//!
//! The storage is asked for the version that processing stored; its files must be those that processing saw, each
//! with its size and digest. Then the version goes into the inventory, in one transaction, under the object's
//! inventory lock. Only after that the job gives up its local ids: from now on the inventory knows them.
//!
//! A version waits, parked, for one before it that is being recorded. Versions before it that nobody will record are
//! recorded with it, as superseded: kept and not served. See [`object`](super::object).
//!
//! Where the inventory is outside ([`is_ours`] says so) this step is not run. The reservations of local ids then
//! stay until the job is completed and the janitor finds them, as `fsck` does.
//!
//! **When things break.** Recording is repeatable: what is there already, of the same job with the same files, is
//! taken as done. A storage that does not have what was stored fails the job.

use ingest_queue::map::JobNode;
use ingest_queue::names::Side;
use ingest_queue::nodes::{self, Identifiers, Metadata};
use ingest_queue::plan::job::Change;
use ingest_queue::states::JobState;

use super::Task;
use super::object::{Author, Stage, signed};
use super::process::lock;
use super::process::system::mime;
use super::process::{CHANGES, Said};
use crate::ark::Ark;
use crate::inventory::{File, Ingest, Inventory, Record, Recorded, Unrecorded};
use crate::outcome::{Failure, Result};
use crate::services::Services;
use crate::storage::{Kept, Storage, StoredManifest};

/// Whether this node records at all.
pub fn is_ours(services: &Services) -> bool {
    services.inventory.is_some()
}

/// Records the version that a job has stored.
pub async fn run(task: &mut Task<'_>, services: &Services) -> Result<Change> {
    let Some(inventory) = services.inventory.clone() else {
        return Err(Failure::fail("the inventory is outside, and recording is not this node's work"));
    };
    let ark = ark(task)?;
    let (said, changes) = said(task).await?;
    let storage = services.storage_of(&task.profile)?.clone();
    let stored = read_back(&*storage, &ark, &said).await?;
    let record = record(task, ark, &said, &stored);
    let recorded = once(task, &*inventory, &*storage, &record).await?;
    let owner = task.identifiers.owner().unwrap_or(&task.profile.owner).to_owned();
    for local_id in &record.local_ids {
        task.queue.free_local_id(task.lease, &owner, local_id).await?;
    }
    let again = if recorded.already { ", as before" } else { "" };
    let changes = changes.map(|changes| format!(": {changes}")).unwrap_or_default();
    Ok(Change::message(format!("{} version {} is recorded{again}{changes}", record.ark, record.version)))
}

fn ark(task: &Task<'_>) -> Result<Ark> {
    let text = task.identifiers.primary_id.as_deref().unwrap_or_default();
    text.parse().map_err(|error| Failure::fail(format!("{error}; requeue the job from processing")))
}

/// What processing says of the version, and of what it did to the files of the one before.
async fn said(task: &Task<'_>) -> Result<(Said, Option<String>)> {
    let node: Option<nodes::Inventory> = task.queue.node(task.lease.jid(), JobNode::Inventory).await?;
    let said = node.as_ref().and_then(|node| {
        let changes = node.other.get(CHANGES).and_then(|changes| changes.as_str()).map(str::to_owned);
        Some((Said::read(node)?, changes))
    });
    said.ok_or_else(|| Failure::fail("nothing says what was stored; requeue the job from processing"))
}

/// What the storage has, if it is what processing has seen.
async fn read_back(storage: &dyn Storage, ark: &Ark, said: &Said) -> Result<StoredManifest> {
    let version = said.version;
    let Some(stored) = storage.manifest(&ark.to_string(), Some(version)).await? else {
        return Err(Failure::fail(format!("{ark} version {version} is not in the storage; audit it")));
    };
    let wrong = |why: String| {
        Err(Failure::fail(format!("{ark} version {version} is not what was stored: {why}; audit it")))
    };
    // A service may not keep keys.
    if let Some(key) = stored.key.as_ref().filter(|key| **key != said.key) {
        return wrong(format!("it was stored with the key {key}, not {}", said.key));
    }
    let found = Said::of(stored.version, &said.key, &stored.files);
    if (found.files, found.bytes) != (said.files, said.bytes) {
        let (files, bytes) = (found.files, found.bytes);
        return wrong(format!("it has {files} files of {bytes} bytes, not {} of {}", said.files, said.bytes));
    }
    if found != *said {
        return wrong("a path, a size or a digest differs".into());
    }
    Ok(stored)
}

fn record(task: &Task<'_>, ark: Ark, said: &Said, stored: &StoredManifest) -> Record {
    let job = task.lease.job();
    Record {
        ark,
        owner: task.profile.owner.clone(),
        collection: task.profile.collection.clone(),
        version: said.version,
        key: task.lease.effect_key(),
        local_ids: task.identifiers.local_id.clone(),
        title: text(task.metadata.erc_what.as_ref()),
        creator: text(task.metadata.erc_who.as_ref()),
        date: text(task.metadata.erc_when.as_ref()),
        files: files(stored),
        ingest: Ingest {
            bid: job.bid,
            jid: said.jid().unwrap_or(job.jid),
            submitter: task.configuration.submitter.clone(),
            profile: task.profile.name.clone(),
            at: task.queue.now(),
        },
    }
}

fn files(stored: &StoredManifest) -> Vec<File> {
    let file = |(path, kept): (&String, &Kept)| File {
        path: path.clone(),
        size: kept.size,
        digests: vec![kept.digest.clone()],
        mime: mime(path),
    };
    stored.files.iter().map(file).collect()
}

fn text(value: Option<&String>) -> Option<String> {
    value.filter(|text| !text.trim().is_empty()).cloned()
}

/// Records a version under the object's lock, with those before it that nobody will record.
async fn once(
    task: &mut Task<'_>,
    inventory: &dyn Inventory,
    storage: &dyn Storage,
    record: &Record,
) -> Result<Recorded> {
    let ark = record.ark.to_string();
    lock(task, Side::Inventory, &ark).await?;
    let recorded = async {
        task.gate().await?;
        let before = unrecorded(task, inventory, storage, record).await?;
        task.gate().await?;
        inventory.record_after(&before, record).await
    };
    let recorded = recorded.await;
    let unlocked = task.queue.unlock_object(task.lease, Side::Inventory, &ark).await;
    let recorded = recorded?;
    unlocked?;
    Ok(recorded)
}

/// The versions between what is recorded and this one; see [`object`](super::object). One that is being recorded is waited for.
async fn unrecorded(
    task: &Task<'_>,
    inventory: &dyn Inventory,
    storage: &dyn Storage,
    record: &Record,
) -> Result<Vec<Unrecorded>> {
    let ark = &record.ark;
    let head = inventory.summary(ark).await?.map_or(0, |summary| summary.head);
    let mut before = Vec::new();
    for version in head.saturating_add(1)..record.version {
        task.progress.beat();
        let Some(stored) = storage.manifest(&ark.to_string(), Some(version)).await? else {
            let why = format!("{ark} version {version} is neither recorded nor in the storage; audit it");
            return Err(Failure::fail(why));
        };
        let author = Author::of(task.queue, &stored).await?;
        let is_own = |author: &&Author| author.jid == task.lease.jid();
        let other = author.as_ref().filter(|author| !is_own(author));
        if let Some(author) = other.filter(|author| author.stage() == Stage::Recording) {
            return Err(author.waits(ark, version, JobState::Recording));
        }
        let has_recorded = other.filter(|author| author.stage() == Stage::After);
        let superseded = has_recorded.is_none();
        tracing::warn!(%ark, version, author = author.as_ref().map(|author| author.jid.to_string()), superseded,
            "a version was stored and is not recorded; it is recorded with the next one");
        let mut one = unvouched(record, &stored);
        if let Some(author) = has_recorded {
            vouch(task, author, &mut one).await?;
        }
        before.push(Unrecorded { record: one, superseded });
    }
    Ok(before)
}

/// What the storage alone says of a version.
fn unvouched(next: &Record, stored: &StoredManifest) -> Record {
    let version = stored.version;
    let (jid, bid, submitter) = signed(&stored.message).unwrap_or((next.ingest.jid, next.ingest.bid, ""));
    Record {
        version,
        key: stored.key.clone().unwrap_or_else(|| format!("unrecorded-v{version}")),
        local_ids: Vec::new(),
        title: None,
        creator: None,
        date: None,
        files: files(stored),
        ingest: Ingest {
            bid,
            jid,
            submitter: submitter.to_owned(),
            at: stored.created.parse().unwrap_or(next.ingest.at),
            ..next.ingest.clone()
        },
        ..next.clone()
    }
}

/// Its job is still there and says more.
async fn vouch(task: &Task<'_>, author: &Author, record: &mut Record) -> Result<()> {
    let jid = author.jid;
    let identifiers: Option<Identifiers> = task.queue.node(jid, JobNode::Identifiers).await?;
    let metadata: Option<Metadata> = task.queue.node(jid, JobNode::Metadata).await?;
    let (identifiers, metadata) = (identifiers.unwrap_or_default(), metadata.unwrap_or_default());
    record.local_ids = identifiers.local_id;
    record.title = text(metadata.erc_what.as_ref());
    record.creator = text(metadata.erc_who.as_ref());
    record.date = text(metadata.erc_when.as_ref());
    Ok(())
}
