//! The ids that may match: names only, from the shortest list that has all of them.
//!
//! A batch's lists if a batch is given, the queues if states are, else everything below `/jobs`. A completed job leaves its
//! queue some day: `completed` also takes what is below `/jobs` and in no other queue. Lists
//! are read in the order in which jobs move on, so that one that moves meanwhile is seen; one that is
//! seen twice counts once. Long ones come from where they are known already, see [`kept`](super::kept).

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use ingest_store::{Kind, Session};

use super::access::{AccessFilter, Place};
use super::filter::Filter;
use super::kept::Names;
use super::{BAD_NAMES, Unread};
use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::map::{self, AccessSize, QueueRef};
use crate::reads;
use crate::states::{BatchList, JobState};

/// Ids in their order.
#[derive(Debug)]
pub(super) struct Candidates<I> {
    pub(super) ids: Vec<I>,
    /// Names that are no ids.
    pub(super) bad: Vec<Unread>,
}

impl<I: Ord> Candidates<I> {
    fn new() -> Self {
        Self { ids: Vec::new(), bad: Vec::new() }
    }

    /// Adds the names of a directory; false if it is not there.
    async fn add<E: Display>(
        &mut self,
        session: &Session,
        dir: &str,
        read: impl Fn(&str) -> Result<I, E>,
    ) -> Result<bool> {
        let Some(names) = names(session, dir).await? else {
            return Ok(false);
        };
        for name in names {
            match read(&name) {
                Ok(id) => self.ids.push(id),
                Err(_) if self.bad.len() >= BAD_NAMES => {}
                Err(why) => self.bad.push(Unread::new(ingest_store::path::join(dir, &name), &why)),
            }
        }
        Ok(true)
    }

    /// Ids that are known otherwise.
    fn add_known(&mut self, ids: impl IntoIterator<Item = I>) {
        self.ids.extend(ids);
    }

    /// In order, each once, and only those after an id; what is no id belongs to the beginning.
    fn after(mut self, after: Option<I>, newest_first: bool) -> Self {
        if let Some(after) = after {
            self.ids.retain(|id| if newest_first { *id < after } else { *id > after });
            self.bad.clear();
        }
        self.ids.sort_unstable();
        self.ids.dedup();
        if newest_first {
            self.ids.reverse();
        }
        self.bad.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        self
    }
}

impl Candidates<Jid> {
    /// Adds the jobs of a directory, which is the queue of a state or not; false if it is not there.
    async fn add_jobs<E: Display>(
        &mut self,
        names: &impl Names,
        dir: &str,
        state: Option<JobState>,
        read: impl Fn(&str) -> Result<Jid, E>,
    ) -> Result<bool> {
        let session = names.session();
        let Some(kept) = names.kept() else { return self.add(session, dir, read).await };
        let Some(stat) = kept.is_long(session, dir).await? else {
            return self.add(session, dir, read).await;
        };
        if let Some(waiting) = state.and_then(|state| names.waiting(state)) {
            self.add_known(waiting);
            return Ok(true);
        }
        let Some(list) = kept.list(session, dir, &stat, read).await? else { return Ok(false) };
        self.add_known(list.ids.iter().copied());
        self.bad.extend(list.bad.iter().cloned());
        Ok(true)
    }
}

/// The access items that may match.
pub(super) async fn access(
    session: &Session,
    filter: &AccessFilter,
    after: Option<Place>,
    newest_first: bool,
) -> Result<Candidates<Place>> {
    let mut candidates = Candidates::new();
    let sizes = AccessSize::ALL.into_iter().filter(|size| filter.size.is_none_or(|only| only == *size));
    for size in sizes {
        if let Some(aid) = filter.aid {
            candidates.add_known([Place { size, aid }]);
        } else {
            let read = |name: &str| name.parse().map(|aid| Place { size, aid });
            candidates.add(session, &size.dir(), read).await?;
        }
    }
    Ok(candidates.after(after, newest_first))
}

/// The jobs that may match.
pub(super) async fn jobs(
    names: &impl Names,
    filter: &Filter,
    after: Option<Jid>,
    newest_first: bool,
) -> Result<Candidates<Jid>> {
    let mut candidates = Candidates::new();
    if let Some(bid) = filter.batch {
        let mut there = false;
        for list in BatchList::ALL.into_iter().filter(|list| wants(filter, *list)) {
            there |= candidates.add_jobs(names, &map::batch_list(bid, list), None, Jid::from_str).await?;
        }
        if !there && reads::exists(names.session(), map::batch(bid)).await?.is_none() {
            return Err(Error::no_batch(bid));
        }
    } else if filter.states.is_empty() {
        candidates.add_jobs(names, map::JOBS, None, Jid::from_str).await?;
        candidates.bad.retain(|bad| bad.path != map::JOB_STATES);
    } else {
        for state in filter.states.iter().copied().collect::<BTreeSet<JobState>>() {
            let read = |name: &str| {
                let entry = QueueRef::parse(state, name).map(|entry| entry.jid);
                entry.ok_or("it is not two digits, a hyphen and a job id")
            };
            candidates.add_jobs(names, &map::queue(state), Some(state), read).await?;
        }
        if filter.states.contains(&JobState::Completed) {
            let unqueued = unqueued(names, &filter.states).await?;
            candidates.add_known(unqueued);
        }
    }
    Ok(candidates.after(after, newest_first))
}

/// The jobs that are in no queue but those of these states.
async fn unqueued(names: &impl Names, states: &[JobState]) -> Result<Vec<Jid>> {
    let mut queued = Candidates::new();
    for state in JobState::ALL.iter().copied().filter(|state| !states.contains(state)) {
        let read = |name: &str| QueueRef::parse(state, name).map(|entry| entry.jid).ok_or("no ref");
        queued.add_jobs(names, &map::queue(state), Some(state), read).await?;
    }
    queued.ids.sort_unstable();
    let mut jobs = Candidates::new();
    jobs.add_jobs(names, map::JOBS, None, Jid::from_str).await?;
    jobs.ids.retain(|jid| queued.ids.binary_search(jid).is_err());
    Ok(jobs.ids)
}

fn wants(filter: &Filter, list: BatchList) -> bool {
    filter.states.is_empty() || filter.states.iter().any(|state| state.list() == list)
}

/// All batches.
pub(super) async fn batches(
    session: &Session,
    after: Option<Bid>,
    newest_first: bool,
) -> Result<Candidates<Bid>> {
    let mut candidates = Candidates::new();
    candidates.add(session, map::BATCHES, Bid::from_str).await?;
    Ok(candidates.after(after, newest_first))
}

/// The names in a directory; `None` if it is not there.
pub(super) async fn names(session: &Session, dir: &str) -> Result<Option<Vec<String>>> {
    match reads::children(session, dir).await {
        Ok(names) => Ok(Some(names)),
        Err(error) if error.kind() == Kind::NoNode => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The same; none if it is not there.
pub(crate) async fn names_in(session: &Session, dir: &str) -> Result<Vec<String>> {
    Ok(names(session, dir).await?.unwrap_or_default())
}
