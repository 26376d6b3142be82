//! The object that a job writes to: whether the job may, and whether it is its turn.
//!
//! A version counts when it is recorded. One that was stored and is not recorded has an author, the job whose key it was
//! stored with, and what becomes of it depends on that job:
//!
//! | its job | the next job of the object, before it stores | the next version, when it is recorded |
//! |---|---|---|
//! | is recording | waits for it | waits for it |
//! | is before recording, and the version is the newest | waits for it | records it as superseded |
//! | is before recording, and the version is not the newest | goes on | records it as superseded |
//! | has recorded it (notify, completed): the inventory lost it | goes on | records it again |
//! | has failed, or is deleted | goes on | records it as superseded |
//! | is the same job, in an earlier attempt | goes on, or finds its version | records it as superseded |
//!
//! Whoever waits is parked ([`Failure::Blocked`]). Nobody waits in a circle: a job that records waits for lower versions
//! that are being recorded, and one before that for the author of the newest version, which never waits for it.
//!
//! **When things break.** An object of which less is stored than recorded is lost, wholly or in part: nothing is stored
//! over it. Where the inventory is outside nothing is known of rights and of what is recorded; only the profile is asked.

use ingest_queue::error::Error;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::index::Until;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;

use super::Task;
use crate::ark::Ark;
use crate::inventory::Summary;
use crate::outcome::{Failure, Result};
use crate::profile::Profile;
use crate::rights::{self, Existing, Found};
use crate::services::Services;
use crate::storage::{Storage, StoredManifest};

/// Who wants to write.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    pub profile: &'a Profile,
    pub submitter: &'a str,
    /// None for a submission that has no jobs yet.
    pub jid: Option<Jid>,
}

/// Whether a submission may write to an object; answers what is recorded of it. No right is [`Failure::Hopeless`], in
/// words that do not say whether there is such an object.
pub async fn may_write(
    queue: &Queue,
    services: &Services,
    writer: &Writer<'_>,
    ark: &Ark,
    found: Found,
) -> Result<Option<Summary>> {
    let Writer { profile, submitter, .. } = *writer;
    rights::may_use(profile, submitter).map_err(Failure::hopeless)?;
    let Some(inventory) = &services.inventory else { return Ok(None) };
    let summary = inventory.summary(ark).await?;
    if summary.is_none() && matches!(found, Found::Given { .. }) {
        wait_for_own(queue, services, writer, ark).await?;
    }
    let existing =
        summary.as_ref().map(|object| Existing { owner: &object.owner, collection: &object.collection });
    let all = services.profiles.read().clone();
    rights::permit(existing, ark, found, submitter, profile, &all)?;
    Ok(summary)
}

/// An object that is not recorded yet may be one of this owner, whose first version is under way.
async fn wait_for_own(queue: &Queue, services: &Services, writer: &Writer<'_>, ark: &Ark) -> Result<()> {
    let storage = services.storage_of(writer.profile)?;
    let Some(newest) = storage.manifest(&ark.to_string(), None).await? else { return Ok(()) };
    let Some(author) = Author::of(queue, &newest).await? else { return Ok(()) };
    let is_another = Some(author.jid) != writer.jid;
    let under_way = author.state.filter(|state| is_another && Stage::of(*state).is_under_way());
    let Some(state) = under_way else { return Ok(()) };
    let configuration = match queue.configuration(author.jid).await {
        Ok(configuration) => configuration,
        Err(Error::NotFound(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if services.profile_of(queue, &configuration).await?.owner != writer.profile.owner {
        return Ok(());
    }
    Err(author.waits(ark, newest.version, state))
}

/// Who stored a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Author {
    pub(super) jid: Jid,
    /// None if the job is deleted.
    pub(super) state: Option<JobState>,
}

/// How far the author of a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not come to recording, or comes there again.
    Before,
    Recording,
    /// It has recorded its version.
    After,
    /// It does nothing any more.
    Ended,
}

impl Stage {
    pub(super) fn of(state: JobState) -> Self {
        match state {
            JobState::Pending
            | JobState::Held
            | JobState::Estimating
            | JobState::Provisioning
            | JobState::Downloading
            | JobState::Processing
            | JobState::Storing => Stage::Before,
            JobState::Recording => Stage::Recording,
            JobState::Notify | JobState::Completed => Stage::After,
            JobState::Failed | JobState::Deleted => Stage::Ended,
        }
    }

    fn is_under_way(self) -> bool {
        matches!(self, Stage::Before | Stage::Recording)
    }
}

impl Author {
    /// By the key that a version was stored with, or by its message where a service keeps no keys.
    pub(super) async fn of(queue: &Queue, stored: &StoredManifest) -> Result<Option<Self>> {
        let of_key = stored.key.as_deref().and_then(|key| key.split('-').next()?.parse().ok());
        let Some(jid) = of_key.or_else(|| signed(&stored.message).map(|(jid, _, _)| jid)) else {
            return Ok(None);
        };
        let state = match queue.job_status(jid).await {
            Ok((status, _)) => Some(status.status),
            Err(Error::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Self { jid, state }))
    }

    pub(super) fn stage(&self) -> Stage {
        self.state.map_or(Stage::Ended, Stage::of)
    }

    /// That another job waits for this one.
    pub(super) fn waits(&self, ark: &Ark, version: u32, state: JobState) -> Failure {
        let jid = self.jid;
        Failure::Blocked {
            why: format!("waits for {jid}, which is {state} and has to record version {version} of {ark}"),
            until: Until::Moved(jid, state),
        }
    }
}

/// The message that versions are stored with, for people and for [`signed`].
pub(super) fn signature(jid: Jid, bid: Bid, submitter: &str) -> String {
    format!("{jid} of {bid}, deposited by {submitter}")
}

/// Who wrote such a message.
pub(super) fn signed(message: &str) -> Option<(Jid, Bid, &str)> {
    let (jid, rest) = message.split_once(" of ")?;
    let (bid, submitter) = rest.split_once(", deposited by ")?;
    Some((jid.parse().ok()?, bid.parse().ok()?, submitter))
}

/// Whether the next version of an object may be stored by this job now: nothing is lost, and nobody else's version is on
/// its way into the inventory. Holds for as long as the job has the storage lock.
pub(super) async fn turn(
    task: &Task<'_>,
    storage: &dyn Storage,
    ark: &Ark,
    recorded: Option<&Summary>,
) -> Result<()> {
    let name = ark.to_string();
    let recorded = recorded.map_or(0, |summary| summary.head);
    let newest = storage.manifest(&name, None).await?;
    let head = newest.as_ref().map_or(0, |stored| stored.version);
    if head < recorded {
        let has = if head == 0 { "nothing of it".into() } else { format!("only version {head}") };
        return Err(Failure::fail(format!(
            "{ark} is lost: version {recorded} is recorded, and the storage `{}` has {has}; nothing was stored. Audit the \
             object, restore it, and requeue the job",
            task.profile.storage
        )));
    }
    for version in (recorded + 1..=head).rev() {
        task.progress.beat();
        let older = if version == head { None } else { storage.manifest(&name, Some(version)).await? };
        let Some(stored) = older.as_ref().or(newest.as_ref()) else { continue };
        let Some(author) = Author::of(task.queue, stored).await? else { continue };
        let is_own = author.jid == task.lease.jid();
        if is_own && version == head {
            return Ok(());
        }
        let stage = author.stage();
        let is_waited_for = stage == Stage::Recording || (stage == Stage::Before && version == head);
        if let Some(state) = author.state.filter(|_| is_waited_for && !is_own) {
            return Err(author.waits(ark, version, state));
        }
        tracing::warn!(%ark, version, author = %author.jid, "a version was stored and is not recorded; the next one follows it");
    }
    Ok(())
}

/// Whether a stored version counts: it is recorded and not superseded, or it will be recorded again because the job
/// that stored it had recorded it. The next version of the object carries the files of the newest one that counts.
pub(super) async fn counts(
    queue: &Queue,
    stored: &StoredManifest,
    recorded: Option<&Summary>,
) -> Result<bool> {
    if let Some(summary) = recorded.filter(|summary| stored.version <= summary.head) {
        return Ok(!summary.superseded.contains(&stored.version));
    }
    Ok(Author::of(queue, stored).await?.is_some_and(|author| author.stage() == Stage::After))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_says_who_stored_it() {
        let (jid, bid) = (Jid::new(7), Bid::new(3));
        assert_eq!(signed(&signature(jid, bid, "ann, of x")), Some((jid, bid, "ann, of x")));
        for other in ["", "by hand", "jid of bid, deposited by x", "jid0000000007 of somebody"] {
            assert_eq!(signed(other), None, "{other}");
        }
    }
}
