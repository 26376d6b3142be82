//! A job as a line of a listing.

use ingest_store::Session;
use serde::Serialize;

use super::filter::Filter;
use super::kept::Names;
use super::node::{self, LockedBy, Read};
use super::{Look, Page, PageRequest, candidates, turn, width};
use crate::date::Date;
use crate::error::Result;
use crate::ids::{Bid, Jid};
use crate::map::{self, JobNode, Priority};
use crate::nodes::{Configuration, History, Identifiers, JobStatus, Node, Number, read_id};
use crate::reads;
use crate::states::{BatchList, JobState};

/// What a person sees of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobLine {
    pub jid: Jid,
    pub bid: Option<Bid>,
    pub state: JobState,
    pub priority: Priority,
    pub space_needed: i64,
    pub profile: String,
    pub collection: String,
    pub submitter: String,
    pub message: String,
    pub retry_count: u32,
    pub attempt: u32,
    pub recoverable: bool,
    pub last_modified: Option<Date>,
    /// What it waits for.
    pub process_date: Option<Date>,
    /// When it is too late to begin it.
    pub expiration_date: Option<Date>,
    pub primary_id: Option<String>,
    pub local_ids: Vec<String>,
    pub locked_by: Option<LockedBy>,
}

impl JobLine {
    /// A job that is gone, and that only its batch still names.
    fn deleted(jid: Jid, bid: Bid) -> Self {
        Self {
            jid,
            bid: Some(bid),
            state: JobState::Deleted,
            priority: Priority::DEFAULT,
            space_needed: 0,
            profile: String::new(),
            collection: String::new(),
            submitter: String::new(),
            message: String::new(),
            retry_count: 0,
            attempt: 0,
            recoverable: false,
            last_modified: None,
            process_date: None,
            expiration_date: None,
            primary_id: None,
            local_ids: Vec::new(),
            locked_by: None,
        }
    }
}

/// A page of the jobs that a filter selects. A deleted job has no details any more: it is shown with
/// its batch, as long as the filter asks for none.
pub async fn jobs(names: &impl Names, filter: &Filter, page: &PageRequest) -> Result<Page<JobLine>> {
    let (limit, after) = page.read()?;
    let candidates = candidates::jobs(names, filter, after, page.newest_first).await?;
    let session = names.session();
    let look = |jid| look(session, filter, jid);
    let mut page = turn(&candidates.ids, limit, width(session), look).await?;
    page.unreadable.splice(0..0, candidates.bad);
    Ok(page)
}

/// One job, as far as it can be read; `None` if it is gone.
pub(crate) async fn job_line(session: &Session, jid: Jid) -> Result<Option<JobLine>> {
    Ok(look(session, &Filter::default(), jid).await?.line)
}

async fn look(session: &Session, filter: &Filter, jid: Jid) -> Result<Look<JobLine>> {
    node::settled(find(session, filter, jid).await)
}

async fn find(session: &Session, filter: &Filter, jid: Jid) -> Read<Look<JobLine>> {
    let mut job = Job::new(session, jid);
    let Some(status) = job.status().await? else {
        return deleted(session, filter, jid).await;
    };
    if job.matches(filter, &status).await? {
        job.line(status, filter.batch).await
    } else {
        Ok(Look::nothing())
    }
}

async fn deleted(session: &Session, filter: &Filter, jid: Jid) -> Read<Look<JobLine>> {
    if let Some(bid) = filter.batch
        && filter.admits_state(JobState::Deleted)
        && !filter.needs_details()
        && reads::exists(session, map::batch_ref(bid, BatchList::Deleted, jid)).await?.is_some()
    {
        return Ok(Look::line(JobLine::deleted(jid, bid)));
    }
    Ok(Look::nothing())
}

/// A job whose nodes are read when they are needed, and once.
#[derive(Debug)]
pub(super) struct Job<'a> {
    session: &'a Session,
    jid: Jid,
    configuration: Option<Configuration>,
    identifiers: Option<Identifiers>,
    priority: Option<Priority>,
}

impl<'a> Job<'a> {
    pub(super) fn new(session: &'a Session, jid: Jid) -> Self {
        Self { session, jid, configuration: None, identifiers: None, priority: None }
    }

    /// `None` if the job is gone. Its date is that of its last change, whatever an older version has written.
    pub(super) async fn status(&self) -> Read<Option<JobStatus>> {
        let (dir, at) = (map::job(self.jid), JobNode::Status.of(self.jid));
        let Some(mut status) = node::read_status::<JobStatus>(self.session, dir, at).await? else {
            return Ok(None);
        };
        if status.status == JobState::Completed {
            let history = node::read(self.session, JobNode::History.of(self.jid), History::read).await;
            // Without it, what the status says will do.
            let history = node::spare(history, &mut Vec::new()).map_err(node::Trouble::Ends)?;
            status.last_modification_date = status.last_changed(history.as_ref());
        }
        Ok(Some(status))
    }

    pub(super) async fn matches(&mut self, filter: &Filter, status: &JobStatus) -> Read<bool> {
        if !filter.admits_status(status)
            || filter.needs_priority() && !filter.admits_priority(self.priority().await?)
            || filter.needs_configuration() && !filter.admits_configuration(self.configuration().await?)
        {
            return Ok(false);
        }
        let Some(text) = filter.text() else {
            return Ok(true);
        };
        Ok(text.is_in_status(self.jid, status)
            || text.is_in_configuration(self.configuration().await?)
            || text.is_in_identifiers(self.identifiers().await?))
    }

    /// What can be read of it; the rest is reported beside it.
    async fn line(mut self, status: JobStatus, batch: Option<Bid>) -> Read<Look<JobLine>> {
        self.rest(status, batch).await.map_err(node::Trouble::Ends)
    }

    async fn rest(&mut self, status: JobStatus, batch: Option<Bid>) -> Result<Look<JobLine>> {
        let (session, jid, mut unreadable) = (self.session, self.jid, Vec::new());
        let bid = match batch {
            Some(bid) => Some(bid),
            None => node::spare(node::read(session, JobNode::Bid.of(jid), read_id).await, &mut unreadable)?,
        };
        let priority = node::spare(self.priority().await, &mut unreadable)?;
        let space = node::read(session, JobNode::SpaceNeeded.of(jid), Number::read).await;
        let space = node::spare(space, &mut unreadable)?;
        let configuration = node::spare(self.configuration().await.cloned(), &mut unreadable)?;
        let identifiers = node::spare(self.identifiers().await.cloned(), &mut unreadable)?;
        let locked_by = node::spare(node::locked_by(session, JobNode::Lock.of(jid)).await, &mut unreadable)?;
        let local_ids = if identifiers.local_id.is_empty() {
            configuration.local_id.clone()
        } else {
            identifiers.local_id
        };
        let line = JobLine {
            jid,
            bid,
            state: status.status,
            priority,
            space_needed: space.map_or(0, |number| number.0),
            collection: configuration.collection().to_owned(),
            profile: configuration.profile_name,
            submitter: configuration.submitter,
            message: status.message,
            retry_count: status.retry_count,
            attempt: status.attempt,
            recoverable: status.recoverable,
            last_modified: status.last_modification_date,
            process_date: status.process_date,
            expiration_date: status.expiration_date,
            primary_id: identifiers.primary_id,
            local_ids,
            locked_by,
        };
        Ok(Look { line: Some(line), unreadable })
    }

    async fn priority(&mut self) -> Read<Priority> {
        if let Some(priority) = self.priority {
            return Ok(priority);
        }
        let number = node::read(self.session, JobNode::Priority.of(self.jid), Number::read).await?;
        let priority = number.map_or(Priority::DEFAULT, |number| Priority::nearest(number.0));
        Ok(*self.priority.insert(priority))
    }

    async fn configuration(&mut self) -> Read<&Configuration> {
        let (session, path) = (self.session, JobNode::Configuration.of(self.jid));
        once(&mut self.configuration, session, path).await
    }

    async fn identifiers(&mut self) -> Read<&Identifiers> {
        let (session, path) = (self.session, JobNode::Identifiers.of(self.jid));
        once(&mut self.identifiers, session, path).await
    }
}

/// Reads a node unless it was read before. One that is not there is like an empty one.
async fn once<'a, T: Node + Default>(
    slot: &'a mut Option<T>,
    session: &Session,
    path: String,
) -> Read<&'a T> {
    match slot {
        Some(content) => Ok(content),
        slot => Ok(slot.insert(node::read(session, path, T::read).await?.unwrap_or_default())),
    }
}
