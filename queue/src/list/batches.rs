//! Batches as lines of a listing.

use ingest_store::Session;
use serde::{Deserialize, Serialize};

use super::filter::{Text, is_between};
use super::node::{self, LockedBy, Read, Trouble};
use super::{Look, Page, PageRequest, Unread, candidates, children, turn, width};
use crate::date::Date;
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::map::{self, BatchNode, QueueRef};
use crate::nodes::{BatchStatus, Expansion, Node, Submission};
use crate::reads;
use crate::states::{BatchList, BatchState, JobState};

/// Refs that are looked for with one request.
const TOGETHER: usize = 256;

/// A choice of batches. All that is said must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchFilter {
    /// Any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<BatchState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitter: Option<String>,
    /// Last changed before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Date>,
    /// Last changed after this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_than: Option<Date>,
    /// In the message, the batch id, the uuid, the profile, the payload's URL or file name; in either
    /// case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What a person sees of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BatchLine {
    pub bid: Bid,
    /// What the depositor was given, if the submission has it.
    pub uuid: Option<String>,
    pub state: BatchState,
    pub message: String,
    pub last_modified: Option<Date>,
    pub profile: String,
    pub collection: String,
    pub submitter: String,
    pub jobs: ListCounts,
    /// `None` until the expansion has begun.
    pub expansion: Option<Expanded>,
    pub deleting: bool,
    pub locked_by: Option<LockedBy>,
}

/// How many jobs are in each list of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListCounts {
    pub batch_processing: usize,
    pub batch_failed: usize,
    pub batch_completed: usize,
    pub batch_deleted: usize,
}

/// How far a batch has become jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Expanded {
    pub next: u64,
    pub total: u64,
    pub done: bool,
}

/// A page of the batches that a filter selects.
pub async fn batches(session: &Session, filter: &BatchFilter, page: &PageRequest) -> Result<Page<BatchLine>> {
    let (limit, after) = page.read()?;
    let candidates = candidates::batches(session, after, page.newest_first).await?;
    let look = |bid| look(session, filter, bid);
    let mut page = turn(&candidates.ids, limit, width(session), look).await?;
    page.unreadable.splice(0..0, candidates.bad);
    Ok(page)
}

/// One batch; `None` if it is gone. One whose status cannot be read is an error.
pub async fn batch(session: &Session, bid: Bid) -> Result<Option<BatchLine>> {
    let look = look(session, &BatchFilter::default(), bid).await?;
    match (look.line, look.unreadable.into_iter().next()) {
        (None, Some(Unread { path, why })) => Err(Error::Corrupt { path, why }),
        (line, _) => Ok(line),
    }
}

/// For how many held jobs a batch waits. All held jobs are listed, and not the batch: it may be very large.
pub async fn held_jobs(session: &Session, bid: Bid) -> Result<usize> {
    let held = candidates::names(session, &map::queue(JobState::Held)).await?.unwrap_or_default();
    let held = held.iter().filter_map(|name| QueueRef::parse(JobState::Held, name));
    let refs: Vec<String> = held.map(|entry| map::batch_ref(bid, BatchList::Processing, entry.jid)).collect();
    if refs.is_empty() {
        let there = reads::exists(session, map::batch(bid)).await?.is_some();
        return if there { Ok(0) } else { Err(Error::no_batch(bid)) };
    }
    let mut count = 0;
    for refs in refs.chunks(TOGETHER) {
        count += reads::get_many(session, refs.to_vec()).await?.iter().flatten().count();
    }
    if count == 0 && reads::exists(session, map::batch(bid)).await?.is_none() {
        return Err(Error::no_batch(bid));
    }
    Ok(count)
}

async fn look(session: &Session, filter: &BatchFilter, bid: Bid) -> Result<Look<BatchLine>> {
    node::settled(find(session, filter, bid).await)
}

async fn find(session: &Session, filter: &BatchFilter, bid: Bid) -> Read<Look<BatchLine>> {
    let path = BatchNode::Status.of(bid);
    let Some(status) = node::read_status::<BatchStatus>(session, map::batch(bid), path).await? else {
        return Ok(Look::nothing());
    };
    if !filter.admits_status(&status) {
        return Ok(Look::nothing());
    }
    let submission = node::read(session, BatchNode::Submission.of(bid), Submission::read).await;
    let mut unreadable = Vec::new();
    let submission = if filter.needs_submission(bid, &status) {
        let submission = submission?.unwrap_or_default();
        if !filter.admits_submission(bid, &status, &submission) {
            return Ok(Look::nothing());
        }
        submission
    } else {
        node::spare(submission, &mut unreadable).map_err(Trouble::Ends)?.unwrap_or_default()
    };
    let line = line(session, bid, status, submission, &mut unreadable).await.map_err(Trouble::Ends)?;
    Ok(Look { line: Some(line), unreadable })
}

async fn line(
    session: &Session,
    bid: Bid,
    status: BatchStatus,
    submission: Submission,
    unreadable: &mut Vec<super::Unread>,
) -> Result<BatchLine> {
    let expansion = node::read(session, BatchNode::Expansion.of(bid), Expansion::read).await;
    let expansion = node::spare(expansion, unreadable)?;
    let locked_by = node::spare(node::locked_by(session, BatchNode::Lock.of(bid)).await, unreadable)?;
    Ok(BatchLine {
        bid,
        uuid: uuid(&submission).map(str::to_owned),
        state: status.status,
        message: status.message,
        last_modified: status.last_modified,
        collection: submission.collection().to_owned(),
        profile: submission.profile_name,
        submitter: submission.submitter,
        jobs: list_counts(session, bid).await?,
        expansion: expansion.map(|expansion| Expanded {
            next: expansion.next,
            total: expansion.total,
            done: expansion.done,
        }),
        deleting: reads::exists(session, BatchNode::Deleting.of(bid)).await?.is_some(),
        locked_by,
    })
}

async fn list_counts(session: &Session, bid: Bid) -> Result<ListCounts> {
    let count =
        async |list| Ok::<_, Error>(children(session, map::batch_list(bid, list)).await?.unwrap_or(0));
    Ok(ListCounts {
        batch_processing: count(BatchList::Processing).await?,
        batch_failed: count(BatchList::Failed).await?,
        batch_completed: count(BatchList::Completed).await?,
        batch_deleted: count(BatchList::Deleted).await?,
    })
}

fn uuid(submission: &Submission) -> Option<&str> {
    submission.other.get("uuid").and_then(serde_json::Value::as_str)
}

impl BatchFilter {
    fn admits_status(&self, status: &BatchStatus) -> bool {
        (self.states.is_empty() || self.states.contains(&status.status))
            && is_between(status.last_modified, self.newer_than, self.older_than)
    }

    /// Whether the status alone does not tell.
    fn needs_submission(&self, bid: Bid, status: &BatchStatus) -> bool {
        self.collection.is_some() || self.submitter.is_some() || !self.has_text_in_status(bid, status)
    }

    fn admits_submission(&self, bid: Bid, status: &BatchStatus, submission: &Submission) -> bool {
        self.collection.as_deref().is_none_or(|wanted| wanted == submission.collection())
            && self.submitter.as_deref().is_none_or(|wanted| wanted == submission.submitter)
            && (self.has_text_in_status(bid, status) || self.has_text_in_submission(submission))
    }

    fn has_text_in_status(&self, bid: Bid, status: &BatchStatus) -> bool {
        Text::new(self.text.as_deref())
            .is_none_or(|text| text.is_in(&status.message) || text.is_in(&bid.to_string()))
    }

    fn has_text_in_submission(&self, submission: &Submission) -> bool {
        let payload = submission.payload_url.iter().chain(&submission.payload_filename).map(String::as_str);
        let mut places = payload.chain(uuid(submission)).chain([submission.profile_name.as_str()]);
        Text::new(self.text.as_deref()).is_none_or(|text| places.any(|place| text.is_in(place)))
    }
}
