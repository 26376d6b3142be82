//! A job and everything that names it: its nodes, its queue refs and the lists of batches.
//!
//! A job that is gone and is still named somewhere is looked at in the same way.

mod judge;
mod plan;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::future::{try_join_all, try_join4};

pub(super) use judge::judge;
pub(super) use plan::plan;

use super::reader::{Reader, Seen};
use crate::error::Result;
use crate::ids::{Bid, Jid};
use crate::map::{self, JobNode, Priority, QueueRef};
use crate::nodes::{
    Configuration, History, Identifiers, Inventory, JobStatus, Metadata, Node, Number, Schedule, Unreadable,
    Work, read_id,
};
use crate::states::BatchList;

/// Nodes that a job may have, and that are only read here to see whether they can be.
const OPTIONAL: [JobNode; 6] = [
    JobNode::SpaceNeeded,
    JobNode::Identifiers,
    JobNode::Metadata,
    JobNode::Inventory,
    JobNode::Schedule,
    JobNode::Work,
];

/// Where a job was seen to be named: looked at again when the job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hints {
    pub(super) jid: Jid,
    pub(super) queue: Vec<QueueRef>,
    pub(super) lists: Vec<(Bid, BatchList)>,
}

/// A job as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobView {
    pub(super) jid: Jid,
    /// `/jobs/JID` is there.
    pub(super) there: bool,
    pub(super) status: Seen<JobStatus>,
    pub(super) bid: Seen<Bid>,
    pub(super) configuration: Seen<Configuration>,
    pub(super) priority: Seen<Priority>,
    pub(super) history: Seen<History>,
    /// Other nodes of it that cannot be read.
    pub(super) unreadable: Vec<(JobNode, Seen<()>)>,
    /// The version of a lock that belongs to no session.
    pub(super) lasting_lock: Option<i32>,
    pub(super) queue: BTreeSet<QueueRef>,
    pub(super) lists: BTreeSet<(Bid, BatchList)>,
    /// Whether each batch that is named anywhere is there.
    pub(super) batches: BTreeMap<Bid, bool>,
}

/// How it is found out where a job is named.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refs<'a> {
    /// The hints are what was listed a moment ago, and these are the batches.
    Listed(&'a HashSet<Bid>),
    /// The hints, and where the job should be, are looked at one by one.
    Looked,
}

impl JobView {
    pub(super) fn priority(&self) -> Priority {
        self.priority.good().copied().unwrap_or_default()
    }

    /// The batch that it belongs to, from what can be read.
    pub(super) fn home(&self) -> Option<Bid> {
        let configured = self.configuration.good().and_then(|configuration| configuration.batch_id);
        self.bid.good().copied().or(configured).or_else(|| self.only_lister())
    }

    /// The batch that lists it, if it is one.
    fn only_lister(&self) -> Option<Bid> {
        let listers: BTreeSet<Bid> = self.lists.iter().map(|(bid, _)| *bid).collect();
        listers.first().copied().filter(|_| listers.len() == 1)
    }

    /// The batch that it belongs to, if that is there.
    pub(super) fn live_home(&self) -> Option<Bid> {
        self.home().filter(|bid| self.batches.get(bid) == Some(&true))
    }

    /// It has failed, and says that it cannot be tried again.
    fn failed_for_good(&self) -> bool {
        let failed = crate::states::JobState::Failed;
        self.status.good().is_some_and(|status| status.status == failed && !status.recoverable)
    }
}

/// Looks at a job. What is read here may be of different moments: see [`super::thing::Thing::settled`].
pub(super) async fn look(reader: &Reader, hints: &Hints, refs: Refs<'_>) -> Result<JobView> {
    let jid = hints.jid;
    let status = reader.read::<JobStatus>(&JobNode::Status.of(jid)).await?;
    let names = reader.names(&map::job(jid)).await?.map(|(names, _)| names);
    let there = names.is_some();
    let names = names.unwrap_or_default();
    let has = |node: &JobNode| names.iter().any(|name| name == node.name());
    let (bid, configuration, priority, history) = try_join4(
        optional(reader, jid, JobNode::Bid, has(&JobNode::Bid), read_id),
        optional(reader, jid, JobNode::Configuration, has(&JobNode::Configuration), Configuration::read),
        optional(reader, jid, JobNode::Priority, has(&JobNode::Priority), read_priority),
        optional(reader, jid, JobNode::History, has(&JobNode::History), History::read),
    )
    .await?;
    let others = OPTIONAL.into_iter().filter(&has).map(|node| async move {
        let seen = reader.read_with(&node.of(jid), |data| readable(node, data)).await?;
        Ok::<_, crate::error::Error>((node, seen))
    });
    let mut unreadable = try_join_all(others).await?;
    unreadable.retain(|(_, seen)| matches!(seen, Seen::Bad { .. }));
    let lock = if has(&JobNode::Lock) { reader.stat(&JobNode::Lock.of(jid)).await? } else { None };
    let lasting_lock = lock.filter(|stat| stat.ephemeral_owner == 0).map(|stat| stat.version);
    let mut view = JobView {
        jid,
        there,
        status,
        bid,
        configuration,
        priority,
        history,
        unreadable,
        lasting_lock,
        queue: hints.queue.iter().copied().collect(),
        lists: hints.lists.iter().copied().collect(),
        batches: BTreeMap::new(),
    };
    match refs {
        Refs::Listed(batches) => {
            view.batches = named_batches(&view).map(|bid| (bid, batches.contains(&bid))).collect();
        }
        Refs::Looked => look_at_refs(reader, &mut view).await?,
    }
    Ok(view)
}

async fn optional<T>(
    reader: &Reader,
    jid: Jid,
    node: JobNode,
    there: bool,
    parse: impl FnOnce(&[u8]) -> std::result::Result<T, Unreadable>,
) -> Result<Seen<T>> {
    if there { reader.read_with(&node.of(jid), parse).await } else { Ok(Seen::Missing) }
}

/// Every batch that the job or a list names.
fn named_batches(view: &JobView) -> impl Iterator<Item = Bid> {
    let configured = view.configuration.good().and_then(|configuration| configuration.batch_id);
    let named = view.bid.good().copied().into_iter().chain(configured);
    named.chain(view.lists.iter().map(|(bid, _)| *bid)).collect::<BTreeSet<_>>().into_iter()
}

async fn look_at_refs(reader: &Reader, view: &mut JobView) -> Result<()> {
    let jid = view.jid;
    let own = view.status.good().map(|status| QueueRef::new(status.status, view.priority(), jid));
    let candidates: BTreeSet<QueueRef> = view.queue.iter().copied().chain(own).collect();
    let queue = candidates.into_iter().map(|entry| async move {
        Ok::<_, crate::error::Error>(reader.stat(&entry.path()).await?.map(|_| entry))
    });
    view.queue = try_join_all(queue).await?.into_iter().flatten().collect();

    let batches = named_batches(view).map(|bid| async move {
        let there = reader.stat(&map::batch(bid)).await?.is_some();
        let lists = BatchList::ALL.map(|list| async move {
            let there = there && reader.stat(&map::batch_ref(bid, list, jid)).await?.is_some();
            Ok::<_, crate::error::Error>(there.then_some((bid, list)))
        });
        Ok::<_, crate::error::Error>((bid, there, try_join_all(lists).await?))
    });
    let batches = try_join_all(batches).await?;
    view.batches = batches.iter().map(|(bid, there, _)| (*bid, *there)).collect();
    view.lists = batches.into_iter().flat_map(|(.., lists)| lists).flatten().collect();
    Ok(())
}

fn read_priority(data: &[u8]) -> std::result::Result<Priority, Unreadable> {
    let Number(number) = Number::read(data)?;
    Priority::new(number).ok_or_else(|| Unreadable(format!("{number} is not a priority from 0 to 99")))
}

fn readable(node: JobNode, data: &[u8]) -> std::result::Result<(), Unreadable> {
    match node {
        JobNode::SpaceNeeded => Number::read(data).map(drop),
        JobNode::Identifiers => Identifiers::read(data).map(drop),
        JobNode::Metadata => Metadata::read(data).map(drop),
        JobNode::Inventory => Inventory::read(data).map(drop),
        JobNode::Schedule => Schedule::read(data).map(drop),
        JobNode::Work => Work::read(data).map(drop),
        // The others are read for what they say, or are not ours to judge.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::Date;
    use crate::states::JobState;

    pub(super) fn jid() -> Jid {
        Jid::new(3)
    }

    pub(super) fn bid() -> Bid {
        Bid::new(1)
    }

    pub(super) fn priority(number: i64) -> Priority {
        Priority::nearest(number)
    }

    /// A job with priority 7 that is as it should be.
    pub(super) fn healthy(state: JobState) -> JobView {
        let configuration = Configuration { batch_id: Some(bid()), ..Configuration::default() };
        JobView {
            jid: jid(),
            there: true,
            status: Seen::value(JobStatus::new(state, Date::from_millis(0))),
            bid: Seen::value(bid()),
            configuration: Seen::value(configuration),
            priority: Seen::value(priority(7)),
            history: Seen::Missing,
            unreadable: Vec::new(),
            lasting_lock: None,
            queue: [QueueRef::new(state, priority(7), jid())].into(),
            lists: [(bid(), state.list())].into(),
            batches: [(bid(), true)].into(),
        }
    }
}
