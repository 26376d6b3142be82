//! `recording`: what was stored is read back, compared, and put into the inventory.
//!
//! The storage is asked for the version that processing stored; its files must be those that processing saw, each
//! with its size and digest. Then the version goes into the inventory, in one transaction, under the object's
//! inventory lock. Only after that the job gives up its local ids: from now on the inventory knows them.
//!
//! A version that is recorded before the one before it waits for that: it watches the object's inventory lock,
//! and tries again whenever somebody has had it. After [`PATIENCE`] the job is given back.
//!
//! Where the inventory is outside ([`is_ours`] says so) this step is not run. The reservations of local ids then
//! stay until the job is completed and the janitor finds them, as `fsck` does.
//!
//! **When things break.** Recording is repeatable: what is there already, of the same job with the same files, is
//! taken as done. A storage that does not have what was stored fails the job.

use std::time::Duration;

use ingest_queue::map::JobNode;
use ingest_queue::names::Side;
use ingest_queue::nodes;
use ingest_queue::plan::job::Change;

use super::Task;
use super::process::Said;
use super::process::identify::waiting;
use super::process::lock;
use super::process::system::mime;
use crate::ark::Ark;
use crate::inventory::{File, Ingest, Inventory, Record, Recorded};
use crate::outcome::{Failure, Result};
use crate::services::Services;
use crate::storage::{Storage, StoredManifest};

/// How long a job waits for the versions before its own.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Whether this node records at all.
pub fn is_ours(services: &Services) -> bool {
    services.inventory.is_some()
}

/// Records the version that a job has stored.
pub async fn run(task: &mut Task<'_>, services: &Services) -> Result<Change> {
    run_within(task, services, PATIENCE).await
}

/// The same, with how long it waits for the versions before.
pub async fn run_within(task: &mut Task<'_>, services: &Services, patience: Duration) -> Result<Change> {
    let Some(inventory) = services.inventory.clone() else {
        return Err(Failure::fail("the inventory is outside, and recording is not this node's work"));
    };
    let ark = ark(task)?;
    let said = said(task).await?;
    let stored = read_back(&**services.storage_of(&task.profile)?, &ark, &said).await?;
    let record = record(task, ark, &said, &stored);
    let recorded = patiently(task, &*inventory, &record, patience).await?;
    let owner = task.identifiers.owner().unwrap_or(&task.profile.owner).to_owned();
    for local_id in &record.local_ids {
        task.queue.free_local_id(task.lease, &owner, local_id).await?;
    }
    let again = if recorded.already { ", as before" } else { "" };
    Ok(Change::message(format!("{} version {} is recorded{again}", record.ark, record.version)))
}

fn ark(task: &Task<'_>) -> Result<Ark> {
    let text = task.identifiers.primary_id.as_deref().unwrap_or_default();
    text.parse().map_err(|error| Failure::fail(format!("{error}; requeue the job from processing")))
}

async fn said(task: &Task<'_>) -> Result<Said> {
    let node: Option<nodes::Inventory> = task.queue.node(task.lease.jid(), JobNode::Inventory).await?;
    node.as_ref()
        .and_then(Said::read)
        .ok_or_else(|| Failure::fail("nothing says what was stored; requeue the job from processing"))
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
    let files = stored.files.iter().map(|(path, kept)| File {
        path: path.clone(),
        size: kept.size,
        digests: vec![kept.digest.clone()],
        mime: mime(path),
    });
    let text = |value: &Option<String>| value.clone().filter(|text| !text.trim().is_empty());
    Record {
        ark,
        owner: task.profile.owner.clone(),
        collection: task.profile.collection.clone(),
        version: said.version,
        key: task.lease.effect_key(),
        local_ids: task.identifiers.local_id.clone(),
        title: text(&task.metadata.erc_what),
        creator: text(&task.metadata.erc_who),
        date: text(&task.metadata.erc_when),
        files: files.collect(),
        ingest: Ingest {
            bid: job.bid,
            jid: job.jid,
            submitter: task.configuration.submitter.clone(),
            profile: task.profile.name.clone(),
            at: task.queue.now(),
        },
    }
}

/// Records a version after the one before it.
async fn patiently(
    task: &mut Task<'_>,
    inventory: &dyn Inventory,
    record: &Record,
    patience: Duration,
) -> Result<Recorded> {
    let deadline = tokio::time::Instant::now() + patience;
    let ark = record.ark.to_string();
    loop {
        let why = match once(task, inventory, record, &ark).await {
            Err(Failure::Fail(why)) => why,
            answer => return answer,
        };
        // The watch first: whoever records after this look wakes it.
        let (_, watch) = task.queue.watch_object(Side::Inventory, &ark).await?;
        let head = match inventory.object(&record.ark).await? {
            Some(object) => object.versions.last().map_or(0, |version| version.version),
            None => 0,
        };
        if head.saturating_add(1) > record.version {
            return Err(Failure::Fail(why));
        }
        if head.saturating_add(1) == record.version {
            // It came meanwhile, or something else is wrong that the next try tells.
            match once(task, inventory, record, &ark).await {
                Err(Failure::Fail(again)) if again == why => {}
                answer => return answer,
            }
            return Err(Failure::Fail(why));
        }
        let woken = waiting(task, tokio::time::timeout_at(deadline, watch.woken())).await?;
        if woken.is_err() {
            return Err(Failure::Again(format!("{why}; it waits for the job of version {}", head + 1)));
        }
    }
}

async fn once(
    task: &mut Task<'_>,
    inventory: &dyn Inventory,
    record: &Record,
    ark: &str,
) -> Result<Recorded> {
    lock(task, Side::Inventory, ark).await?;
    let recorded = match task.gate().await {
        Ok(()) => inventory.record(record).await,
        Err(failure) => Err(failure),
    };
    let unlocked = task.queue.unlock_object(task.lease, Side::Inventory, ark).await;
    let recorded = recorded?;
    unlocked?;
    Ok(recorded)
}
