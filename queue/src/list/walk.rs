//! All jobs that a filter selects, chunk by chunk: for what is done to each of them.
//!
//! The names are listed once, at the beginning: jobs that come later are not met. Each job is read when
//! its chunk is, and only as far as the filter needs.

use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::Session;
use serde::Serialize;

use super::filter::Filter;
use super::job_line::Job;
use super::node::{self, Read};
use super::{Look, Unread, candidates, width};
use crate::error::Result;
use crate::ids::Jid;
use crate::states::JobState;

/// How many candidates a chunk looks at.
const CHUNK: usize = 256;

/// A job that was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Selected {
    pub jid: Jid,
    pub state: JobState,
}

/// A part of a walk, in the order of ids; it can be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub jobs: Vec<Selected>,
    pub unreadable: Vec<Unread>,
    /// How many candidates were looked at.
    pub looked_at: usize,
}

/// A walk under way.
#[derive(Debug)]
pub struct Walk<'a> {
    session: &'a Session,
    filter: &'a Filter,
    ids: std::vec::IntoIter<Jid>,
    bad: Vec<Unread>,
}

/// Begins a walk, after an id if one is given.
pub async fn walk<'a>(session: &'a Session, filter: &'a Filter, after: Option<Jid>) -> Result<Walk<'a>> {
    let candidates = candidates::jobs(session, filter, after, false).await?;
    Ok(Walk { session, filter, ids: candidates.ids.into_iter(), bad: candidates.bad })
}

/// A walk over jobs that were selected before: what is not selected any more is left out.
pub(crate) fn walk_again<'a>(session: &'a Session, filter: &'a Filter, jobs: &[Selected]) -> Walk<'a> {
    let ids: Vec<Jid> = jobs.iter().map(|job| job.jid).collect();
    Walk { session, filter, ids: ids.into_iter(), bad: Vec::new() }
}

impl Walk<'_> {
    /// How many candidates were not looked at yet.
    pub fn left(&self) -> usize {
        self.ids.len()
    }

    /// The next chunk; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Chunk>> {
        let mut unreadable = std::mem::take(&mut self.bad);
        let ids: Vec<Jid> = self.ids.by_ref().take(CHUNK).collect();
        if ids.is_empty() && unreadable.is_empty() {
            return Ok(None);
        }
        let looked_at = ids.len();
        let (session, filter) = (self.session, self.filter);
        let looks: Vec<_> = stream::iter(ids)
            .map(|jid| look(session, filter, jid))
            .buffered(width(session))
            .try_collect()
            .await?;
        let mut jobs = Vec::new();
        for look in looks {
            jobs.extend(look.line);
            unreadable.extend(look.unreadable);
        }
        Ok(Some(Chunk { jobs, unreadable, looked_at }))
    }
}

async fn look(session: &Session, filter: &Filter, jid: Jid) -> Result<Look<Selected>> {
    node::settled(find(session, filter, jid).await)
}

async fn find(session: &Session, filter: &Filter, jid: Jid) -> Read<Look<Selected>> {
    let mut job = Job::new(session, jid);
    match job.status().await? {
        Some(status) if job.matches(filter, &status).await? => {
            Ok(Look::line(Selected { jid, state: status.status }))
        }
        _ => Ok(Look::nothing()),
    }
}

/// Whether a filter still selects a job; one that cannot be read is not selected.
pub(crate) async fn still_selects(session: &Session, filter: &Filter, jid: Jid) -> Result<bool> {
    Ok(look(session, filter, jid).await?.line.is_some())
}
