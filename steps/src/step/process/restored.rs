//! Work that was done before the tree was restored from a backup.
//!
//! A job that was in the backup does its work again, and a batch that was in it is expanded again, into jobs with new numbers. What
//! they recorded before is in the inventory: the job gets the identifier that it had, and ends with the version that it made. A
//! job with a new number takes over what a lost job of the same batch recorded, if the depositor's files are the same.
//!
//! All of this is asked only of batches that are older than a restore, as `/repository` says.
//!
//! **When things break.** Everything can be run again. Two jobs never take over the same version.

use std::ops::Range;

use ingest_queue::ids::Bid;
use ingest_queue::jobs::Write;
use ingest_queue::plan::job::Change;

use super::store::Said;
use super::{PRODUCER, Sources};
use crate::ark::Ark;
use crate::inventory::{Ingested, Inventory};
use crate::outcome::Result;
use crate::services::Services;
use crate::step::Task;
use crate::storage::{Mode, Storage, Stored};

/// The numbers of jobs that the tree has lost, and that may have been of this batch.
fn lost_jobs(services: &Services, bid: Bid) -> Vec<Range<u32>> {
    let lost = services.lost.read();
    lost.iter().filter(|lost| bid.number() < lost.batches).map(|lost| lost.jobs..lost.jobs_end).collect()
}

/// The identifier of what this job recorded before, or a lost job of its batch that it replaces from now on. `known` is
/// what its local ids say.
pub(super) async fn identifier(
    task: &Task<'_>,
    services: &Services,
    sources: &Sources,
    local_ids: &[String],
    known: Option<&Ark>,
) -> Result<Option<Ark>> {
    let (bid, jid) = (task.lease.job().bid, task.lease.jid());
    let lost = lost_jobs(services, bid);
    let Some(inventory) = services.inventory.as_ref().filter(|_| !lost.is_empty()) else { return Ok(None) };
    if let Some(before) = inventory.ingested(bid, jid).await? {
        return Ok(Some(before.ark));
    }
    for jids in lost {
        for before in inventory.ingests_of(bid, jids).await? {
            task.progress.beat();
            if known.is_some_and(|known| *known != before.ark)
                || !is_same(&**inventory, &before, sources, local_ids).await?
                || !inventory.replace_job(before.jid, jid).await?
            {
                continue;
            }
            tracing::info!(job = %jid, lost = %before.jid, ark = %before.ark, version = before.version,
                "a job of a restored batch takes over what was recorded before");
            return Ok(Some(before.ark));
        }
    }
    Ok(None)
}

/// Whether a version was made of these files, for these local ids.
async fn is_same(
    inventory: &dyn Inventory,
    before: &Ingested,
    sources: &Sources,
    local_ids: &[String],
) -> Result<bool> {
    let Some(object) = inventory.object(&before.ark).await? else { return Ok(false) };
    if object.local_ids.is_empty() != local_ids.is_empty()
        || local_ids.iter().any(|id| !object.local_ids.contains(id))
    {
        return Ok(false);
    }
    let Some(version) = object.versions.iter().find(|version| version.version == before.version) else {
        return Ok(false);
    };
    let mut kept = version.files.iter().filter(|file| file.path.starts_with(PRODUCER));
    let same = sources.records.iter().all(|record| {
        kept.next().is_some_and(|kept| {
            kept.path == record.path
                && kept.size == record.size
                && kept.digests.iter().any(|digest| record.digests.contains(digest))
        })
    });
    Ok(same && kept.next().is_none())
}

/// A version that was made before the tree was restored.
pub(super) struct Earlier {
    pub(super) stored: Stored,
    /// The key that it was stored with.
    pub(super) key: String,
    /// How the paths begin that have to be the same now: what describes the object names the job that made it.
    pub(super) of: &'static str,
}

/// The version that this job made before, or the lost job that it has replaced.
pub(super) async fn version(
    task: &Task<'_>,
    services: &Services,
    storage: &dyn Storage,
    ark: &str,
) -> Result<Option<Earlier>> {
    let (bid, jid) = (task.lease.job().bid, task.lease.jid());
    let restored = !lost_jobs(services, bid).is_empty();
    let Some(inventory) = services.inventory.as_ref().filter(|_| restored) else { return Ok(None) };
    let Some(before) = inventory.ingested(bid, jid).await? else { return Ok(None) };
    if before.ark.to_string() != ark {
        return Ok(None);
    }
    let Some(kept) = storage.manifest(ark, Some(before.version)).await? else { return Ok(None) };
    let key = kept.key.unwrap_or_else(|| task.lease.effect_key());
    let size = kept.files.values().map(|file| file.size).sum();
    let stored = Stored { version: kept.version, already: true, files: kept.files, size };
    let of = if before.jid == jid { "" } else { PRODUCER };
    Ok(Some(Earlier { stored, key, of }))
}

/// Ends the work of a job whose files are gone with the version that it has recorded before; `None` if there is none.
pub(super) async fn without_files(
    task: &mut Task<'_>,
    services: &Services,
    storage: &dyn Storage,
    mode: Mode,
) -> Result<Option<Change>> {
    let (bid, jid) = (task.lease.job().bid, task.lease.jid());
    let restored = !lost_jobs(services, bid).is_empty();
    let Some(inventory) = services.inventory.as_ref().filter(|_| restored) else { return Ok(None) };
    let Some(before) = inventory.ingested(bid, jid).await? else { return Ok(None) };
    let ark = before.ark.to_string();
    if task.identifiers.primary_id.as_ref().is_some_and(|id| *id != ark) {
        return Ok(None);
    }
    let Some(kept) = storage.manifest(&ark, Some(before.version)).await? else { return Ok(None) };
    let Some(key) = kept.key else { return Ok(None) };
    if task.identifiers.primary_id.is_none() {
        task.identifiers.primary_id = Some(ark.clone());
        task.queue.assign(task.lease, &task.identifiers).await?;
    }
    let said = Said::of(kept.version, &key, &kept.files);
    let node = said.node(String::new(), mode);
    task.queue.write(task.lease, &[Write::Inventory(node)]).await?;
    let count = kept.files.len();
    Ok(Some(Change::message(format!("{ark} version {}, {count} files, as recorded before", kept.version))))
}
