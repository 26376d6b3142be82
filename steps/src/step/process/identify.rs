//! The identifier of a job's object: known, given or minted.
//!
//! The local ids are claimed first, all in one commit; then the inventory is asked, and only then something is
//! minted (see [`local_ids`](ingest_queue::names::local_ids) for why this order lets no local id get two
//! identifiers). What was minted is written to the job and to all its local ids in one commit, before anything
//! else is done with it. An identifier that stands in the job is kept for ever, through every requeue.
//!
//! **When things break.** Two identifiers that do not agree fail the job, with both named and nothing assigned. A
//! name that was minted and could not be written down is used for nothing: with the local minter a number is
//! skipped, with EZID it is listed as an orphan. While another job mints for one of the local ids, this one is parked.

use std::collections::BTreeSet;

use ingest_queue::index::Until;
use ingest_queue::map::JobNode;
use ingest_queue::names::local_ids::{Claimed, MOST};
use ingest_queue::nodes::LocalId;

use super::{Sources, restored};
use crate::ark::Ark;
use crate::inventory::Summary;
use crate::outcome::{Failure, Result};
use crate::rights::{self, Found};
use crate::services::Services;
use crate::step::{Task, object};
use crate::storage::{Mode, Storage};

/// An identifier that stands in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) ark: Ark,
    /// The key that it was minted with; absent if it came from elsewhere, and is not ours to publish.
    pub(crate) minted: Option<String>,
    found: Found,
}

impl Named {
    /// Whether the job may store a version of this object, now; answers what is recorded of it.
    pub(super) async fn may_store(
        &self,
        task: &Task<'_>,
        services: &Services,
        storage: &dyn Storage,
    ) -> Result<Option<Summary>> {
        let writer = task.writer();
        let recorded = object::may_write(task.queue, services, &writer, &self.ark, self.found).await?;
        if services.inventory.is_some() {
            object::turn(task, storage, &self.ark, recorded.as_ref()).await?;
        }
        Ok(recorded)
    }
}

/// Finds or mints the identifier, and writes it down.
pub(super) async fn identify(
    task: &mut Task<'_>,
    services: &Services,
    mode: Mode,
    storage: &dyn Storage,
    sources: &Sources,
) -> Result<Named> {
    rights::may_use(&task.profile, &task.configuration.submitter).map_err(Failure::hopeless)?;
    let owner = task.profile.owner.clone();
    let local_ids = local_ids(task)?;
    let mut known = Vec::new();
    if let Some(given) = task.identifiers.primary_id.as_deref().map(str::trim).filter(|id| !id.is_empty()) {
        known.push(("the job".to_owned(), ark(given)?));
    }
    let given = known.len();
    let claims = claim(task, &owner, &local_ids).await?;
    for claim in claims.iter().filter(|claim| !claim.primary_id.is_empty()) {
        known.push((format!("the local id `{}`", claim.local_id.escape_debug()), ark(&claim.primary_id)?));
    }
    if let Some(inventory) = &services.inventory {
        for id in &local_ids {
            task.progress.beat();
            if let Some(ark) = inventory.find(&owner, id).await? {
                known.push((format!("the local id `{}`, as recorded,", id.escape_debug()), ark));
            }
        }
    }
    let before = restored::identifier(task, services, sources, &local_ids, agreed(&known)?.as_ref()).await?;
    known.extend(before.map(|ark| ("what was recorded before the tree was restored".to_owned(), ark)));
    let minted_for = |claim: &LocalId| claim.minted.clone();
    let mut minted = task.identifiers.minted().map(str::to_owned);
    minted = minted.or_else(|| claims.iter().find_map(minted_for));
    let ark = match agreed(&known)? {
        Some(ark) => ark,
        None if mode.needs_object() => {
            return Err(Failure::fail(format!(
                "the mode {} needs an object, and neither a primary_id nor a local id names one; submit it with \
                 its primary_id, or in the mode add",
                mode.name()
            )));
        }
        None => {
            let key = task.lease.effect_key();
            let ark = unused(task, services, storage, &key).await?;
            minted = Some(key);
            ark
        }
    };
    let found = match &minted {
        Some(_) => Found::Minted,
        None if known.len() > given => Found::ByLocalId,
        None => rights::given(&ark, &task.profile),
    };
    let named = Named { ark, minted, found };
    // Looked at before the files that describe it are made, and again under its lock. A new name is nobody's.
    if !known.is_empty() {
        named.may_store(task, services, storage).await?;
    }
    let Named { ark, minted, .. } = named;
    if mode.needs_object() {
        let is_there = match &services.inventory {
            Some(inventory) => inventory.knows(&ark).await?,
            None => storage.manifest(&ark.to_string(), None).await?.is_some(),
        };
        if !is_there && matches!(found, Found::Given { .. }) {
            return Err(rights::refused(&ark, &task.profile));
        }
        if !is_there {
            return Err(Failure::fail(format!(
                "the mode {} needs an object, and {ark} is not recorded; submit it in the mode add",
                mode.name()
            )));
        }
    }
    task.identifiers.primary_id = Some(ark.to_string());
    if let Some(key) = &minted {
        task.identifiers.set_minted(key);
    }
    task.queue.assign(task.lease, &task.identifiers).await?;
    Ok(Named { ark, minted, found })
}

/// A new name that neither the inventory nor the storage knows. A minter whose counter was lost or set back gives names
/// that are used; each of them is passed over.
async fn unused(task: &Task<'_>, services: &Services, storage: &dyn Storage, key: &str) -> Result<Ark> {
    let minter = services.minter_of(&task.profile)?;
    let request = super::request(task, key);
    loop {
        if task.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        task.progress.beat();
        task.gate().await?;
        let ark = minter.reserve(&request).await?;
        let recorded = match &services.inventory {
            Some(inventory) => inventory.knows(&ark).await?,
            None => false,
        };
        let place = match recorded {
            true => "inventory",
            false if storage.manifest(&ark.to_string(), None).await?.is_some() => "storage",
            false => return Ok(ark),
        };
        tracing::warn!(%ark, known_by = place, "the minter gave a name that is used; taking the next one");
    }
}

/// The local ids of the job, each once, in the order in which they were given.
fn local_ids(task: &Task<'_>) -> Result<Vec<String>> {
    let mut seen = BTreeSet::new();
    let given = task.identifiers.local_id.iter().chain(&task.configuration.local_id);
    let ids = given.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty() && seen.insert(id.clone()));
    let ids: Vec<_> = ids.collect();
    if ids.len() > MOST {
        return Err(Failure::hopeless(format!("{} local ids; an object has at most {MOST}", ids.len())));
    }
    Ok(ids)
}

fn ark(text: &str) -> Result<Ark> {
    text.parse().map_err(|error| Failure::hopeless(format!("the primary identifier: {error}")))
}

/// The one identifier that all agree on.
fn agreed(known: &[(String, Ark)]) -> Result<Option<Ark>> {
    let Some((first, ark)) = known.first() else { return Ok(None) };
    match known.iter().find(|(_, other)| other != ark) {
        None => Ok(Some(ark.clone())),
        Some((second, other)) => Err(Failure::fail(format!(
            "{first} has {ark}, and {second} belongs to {other}: one object has one identifier; correct the \
             identifiers and submit it again"
        ))),
    }
}

/// Claims the local ids. While another job is about to mint for one of them this one is parked.
async fn claim(task: &mut Task<'_>, owner: &str, local_ids: &[String]) -> Result<Vec<LocalId>> {
    if local_ids.is_empty() {
        return Ok(Vec::new());
    }
    match task.queue.claim_local_ids(task.lease, owner, local_ids, &task.identifiers).await? {
        Claimed::All(claims) => {
            task.identifiers.local_id = local_ids.to_vec();
            task.identifiers.set_owner(owner);
            Ok(claims)
        }
        Claimed::Busy { local_id, jid } => {
            let local_id = local_id.escape_debug();
            let why = format!("waits for {jid}, which gets an identifier for the local id `{local_id}`");
            Err(Failure::Blocked { why, until: Until::Gone(JobNode::Lock.of(jid)) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_known_agrees_or_both_are_named() {
        let known = |arks: &[&str]| {
            let known: Vec<_> = arks.iter().map(|text| (format!("<{text}>"), ark(text).unwrap())).collect();
            agreed(&known)
        };
        assert_eq!(known(&[]), Ok(None));
        let spelled = known(&["ark:/99999/fk4-a", "ark:99999/fk4a"]);
        assert_eq!(spelled, Ok(Some(ark("ark:/99999/fk4a").unwrap())));
        let why = known(&["ark:/99999/a", "ark:/99999/a", "ark:/99999/b"]).unwrap_err().to_string();
        assert!(why.contains("ark:/99999/a, and <ark:/99999/b> belongs to ark:/99999/b"), "{why}");
    }
}
