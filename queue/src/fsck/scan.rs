//! The first pass over the whole tree: everything that does not look right is a suspect.
//!
//! What is kept in memory is a few bytes for each reference. Listings and jobs are of different
//! moments, so a suspect may have moved meanwhile; it is looked at again afterwards.

use std::collections::{BTreeSet, HashSet};

use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::path;

use super::job::{self, Hints, Refs};
use super::lists;
use super::mark::{self, Mark};
use super::reader::Reader;
use super::thing::Thing;
use super::{Context, Counts, Observer, Progress, batch};
use crate::error::Result;
use crate::feeds::Qid;
use crate::feeds::workers::is_worker;
use crate::ids::{Aid, Bid, Jid};
use crate::map::{self, AccessSize, BatchNode, QueueRef, RequestNode};
use crate::plan::job::date_refs;
use crate::states::{BatchList, JobState, States};

/// How many things are looked at side by side; their reads share the reader's bound.
const SIDE_BY_SIDE: usize = 32;

/// Names that may stand at the top.
const TOPS: &[&str] = &[
    map::BATCHES,
    map::BATCH_UUIDS,
    map::JOBS,
    map::LOCKS,
    map::ACCESS,
    map::OUTBOX,
    map::ALERTS,
    map::SPACE,
    map::MINTER,
    map::REPOSITORY,
    map::COMPONENTS,
    map::SEMAPHORES,
    map::QUARANTINE,
    map::QUEUES,
    map::WORKERS,
    map::REQUESTS,
    map::PROFILES,
    // ZooKeeper's own.
    "/zookeeper",
];

pub(super) struct Scan<'a, 'o> {
    reader: &'a Reader,
    context: &'a Context,
    observer: &'a mut Observer<'o>,
    pub(super) suspects: Vec<Thing>,
    pub(super) counts: Counts,
    /// Sorted by job.
    queue_refs: Vec<QueueRef>,
    list_refs: Vec<(Jid, Bid, BatchList)>,
    batches: HashSet<Bid>,
    /// Uuids, and paths of keys, that are looked at with their batch.
    claimed: HashSet<String>,
    /// Dates that jobs wait for, and where they are kept.
    dates: BTreeSet<String>,
}

impl<'a, 'o> Scan<'a, 'o> {
    pub(super) fn new(reader: &'a Reader, context: &'a Context, observer: &'a mut Observer<'o>) -> Self {
        Self {
            reader,
            context,
            observer,
            suspects: Vec::new(),
            counts: Counts::default(),
            queue_refs: Vec::new(),
            list_refs: Vec::new(),
            batches: HashSet::new(),
            claimed: HashSet::new(),
            dates: BTreeSet::new(),
        }
    }

    pub(super) async fn run(&mut self) -> Result<()> {
        self.tops().await?;
        self.queues().await?;
        self.batches().await?;
        self.jobs().await?;
        self.marks().await
    }

    async fn names(&self, dir: &str) -> Result<Vec<String>> {
        Ok(self.reader.names(dir).await?.map(|(names, _)| names).unwrap_or_default())
    }

    /// The names in a directory that `known` does not know are suspects.
    async fn known(&mut self, dir: &str, mark: Mark, known: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let names = self.names(dir).await?;
        let (known, unknown): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| known(name));
        self.suspects.extend(unknown.iter().map(|name| Thing::Mark(mark, path::join(dir, name))));
        Ok(known)
    }

    async fn tops(&mut self) -> Result<()> {
        let known = |name: &str| {
            map::OTHER_TOPS.contains(&name) || TOPS.iter().any(|top| top.strip_prefix('/') == Some(name))
        };
        let tops = self.known("/", Mark::Unknown, known).await?;
        let directories = map::directories(self.context.dialect);
        // A tree that no node has ever used has none of them, and lacks nothing.
        let is_ours = |name: &String| directories.iter().any(|dir| path::is_within(dir, &format!("/{name}")));
        if tops.iter().any(is_ours) {
            let marks = directories.into_iter().map(|dir| (Mark::Directory, dir)).collect();
            self.look_at("directories", marks).await?;
        }
        for (dir, below) in [
            (map::LOCKS, &["queue", "collections", "storage", "inventory", "localid"][..]),
            (map::JOURNAL, &["keys", "dates", "expirations"]),
            (map::ACCESS, &["small", "large"]),
            (map::REQUESTS, &RequestNode::ALL.map(RequestNode::name)),
            ("/system", &["conf", "conf-lock", "stats"]),
        ] {
            self.known(dir, Mark::Unknown, |name| below.contains(&name)).await?;
        }
        Ok(())
    }

    async fn queues(&mut self) -> Result<()> {
        let is_state = |name: &str| JobState::ALL.iter().any(|state| state.name() == name);
        self.known(map::JOB_STATES, Mark::Unknown, is_state).await?;
        for (done, state) in JobState::ALL.iter().copied().enumerate() {
            let dir = map::queue(state);
            let is_ref = |name: &str| QueueRef::parse(state, name).is_some();
            let names = self.known(&dir, Mark::Stray, is_ref).await?;
            self.queue_refs.extend(names.iter().filter_map(|name| QueueRef::parse(state, name)));
            self.tell("queues", done + 1, JobState::ALL.len());
        }
        self.queue_refs.sort_unstable_by_key(|entry| entry.jid);
        self.counts.queue_refs = self.queue_refs.len();
        Ok(())
    }

    async fn batches(&mut self) -> Result<()> {
        let names = self.known(map::BATCHES, Mark::Unknown, |name| name.parse::<Bid>().is_ok()).await?;
        let bids: Vec<Bid> = names.iter().filter_map(|name| name.parse().ok()).collect();
        self.batches = bids.iter().copied().collect();
        self.counts.batches = bids.len();
        let (reader, total) = (self.reader, bids.len());
        let mut looks = stream::iter(bids)
            .map(|bid| async move {
                let batch = batch::look(reader, bid).await?;
                let (lists, listed) = lists::look(reader, bid).await?;
                Ok::<_, crate::error::Error>((bid, batch, lists, listed))
            })
            .buffer_unordered(SIDE_BY_SIDE);
        let mut done = 0;
        while let Some((bid, batch, lists, listed)) = looks.try_next().await? {
            if !batch::judge(&batch, self.context).is_empty() {
                self.suspects.push(Thing::Batch(bid));
            }
            if !lists::judge(&lists, self.context).is_empty() {
                self.suspects.push(Thing::Lists(bid));
            }
            self.claimed.extend(batch.uuid().map(str::to_owned));
            self.claimed.extend(batch.key_path());
            self.list_refs.extend(listed.refs.into_iter().map(|(jid, list)| (jid, bid, list)));
            self.suspects.extend(listed.strays.into_iter().map(|at| Thing::Mark(Mark::Stray, at)));
            self.suspects.extend(listed.unknown.into_iter().map(|at| Thing::Mark(Mark::Unknown, at)));
            done += 1;
            self.observer.tell(Progress { stage: "batches", done, total });
        }
        self.list_refs.sort_unstable();
        self.counts.batch_refs = self.list_refs.len();
        Ok(())
    }

    async fn jobs(&mut self) -> Result<()> {
        let is_known = |name: &str| name == "states" || name.parse::<Jid>().is_ok();
        let names = self.known(map::JOBS, Mark::Unknown, is_known).await?;
        let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
        self.counts.jobs = jids.len();
        drop(names);
        // Jobs that are only named are looked at as well.
        jids.extend(self.queue_refs.iter().map(|entry| entry.jid));
        jids.extend(self.list_refs.iter().map(|(jid, ..)| *jid));
        jids.sort_unstable();
        jids.dedup();
        let (reader, total) = (self.reader, jids.len());
        let (queue_refs, list_refs, batches) = (&self.queue_refs, &self.list_refs, &self.batches);
        let mut looks = stream::iter(jids)
            .map(|jid| async move {
                let hints = hints(jid, queue_refs, list_refs);
                let view = job::look(reader, &hints, Refs::Listed(batches)).await?;
                Ok::<_, crate::error::Error>((hints, view))
            })
            .buffer_unordered(SIDE_BY_SIDE);
        let mut done = 0;
        while let Some((hints, view)) = looks.try_next().await? {
            if !job::judge(&view, self.context.dialect).is_empty() {
                self.suspects.push(Thing::Job(hints));
            }
            if let Some(status) = view.status.good() {
                self.dates.extend(date_refs(view.jid, status));
            }
            done += 1;
            self.observer.tell(Progress { stage: "jobs", done, total });
        }
        Ok(())
    }

    /// Single nodes that lead somewhere, lock or reserve.
    pub(super) async fn marks(&mut self) -> Result<()> {
        let mut marks = Vec::new();
        for (dir, mark) in [
            (map::BATCH_UUIDS, Mark::Uuid),
            (map::STORAGE_LOCKS, Mark::Lock),
            (map::INVENTORY_LOCKS, Mark::Lock),
            (map::LOCAL_IDS, Mark::Reservation),
            (map::QUEUE_HOLDS, Mark::Hold),
            (map::COLLECTION_HOLDS, Mark::Hold),
            (map::JOURNAL_KEYS, Mark::Key),
            (map::SPACE, Mark::Space),
            (map::ALERTS, Mark::Alert),
        ] {
            let names = self.names(dir).await?;
            let names = names.iter().filter(|name| mark != Mark::Uuid || !self.claimed.contains(*name));
            marks.extend(names.map(|name| match path::join(dir, name) {
                at if mark == Mark::Key && self.claimed.contains(&at) => (Mark::ClaimedKey, at),
                at => (mark, at),
            }));
        }
        let is_date = |name: &str| map::parse_journal_date(name).is_some();
        let mut dates = std::mem::take(&mut self.dates);
        for dir in [map::JOURNAL_DATES, map::JOURNAL_EXPIRATIONS] {
            let names = self.known(dir, Mark::Stray, is_date).await?;
            dates.extend(names.iter().map(|name| path::join(dir, name)));
        }
        marks.extend(dates.into_iter().map(|at| (Mark::Date, at)));
        let is_report = |name: &str| mark::outgoing(name).is_some();
        let reports = self.known(map::OUTBOX, Mark::Stray, is_report).await?;
        marks.extend(reports.iter().map(|name| (Mark::Outgoing, path::join(map::OUTBOX, name))));
        marks.push((Mark::Limits, map::SEMAPHORES.to_owned()));
        for name in self.names(map::SEMAPHORES).await? {
            let semaphore = path::join(map::SEMAPHORES, &name);
            let is_slot = |name: &str| crate::limits::slot_number(name).is_some();
            for slot in self.known(&semaphore, Mark::Unknown, is_slot).await? {
                let slot = path::join(&semaphore, &slot);
                let held = self.known(&slot, Mark::Unknown, |name| name == "holder").await?;
                marks.extend(held.iter().map(|holder| (Mark::Slot, path::join(&slot, holder))));
            }
            marks.push((Mark::Semaphore, semaphore));
        }
        for name in self.names(map::ELECTIONS).await? {
            let election = path::join(map::ELECTIONS, &name);
            let candidates = self.names(&election).await?;
            marks.extend(candidates.iter().map(|one| (Mark::Lock, path::join(&election, one))));
        }
        for name in self.names(map::CLEANUP).await? {
            marks.push((Mark::Lock, path::join(&path::join(map::CLEANUP, &name), "lock")));
        }
        for size in AccessSize::ALL {
            let names = self.known(&size.dir(), Mark::Unknown, |name| name.parse::<Aid>().is_ok()).await?;
            for aid in names.iter().filter_map(|name| name.parse().ok()) {
                self.counts.access_items += 1;
                marks.push((Mark::AccessStatus, size.status(aid)));
                marks.push((Mark::AccessToken, size.token(aid)));
                marks.push((Mark::Lock, size.lock(aid)));
            }
        }
        self.feeds(&mut marks).await?;
        for (node, mark) in [
            (RequestNode::Request, Mark::Request),
            (RequestNode::Lock, Mark::RequestLock),
            (RequestNode::Result, Mark::RequestResult),
            (RequestNode::Params, Mark::OfRequest),
            (RequestNode::ResultData, Mark::OfRequest),
            (RequestNode::Waiter, Mark::OfRequest),
        ] {
            let names = self.names(&node.dir()).await?;
            marks.extend(names.iter().map(|name| (mark, node.of(name))));
        }
        let profiles = self.names(map::PROFILES).await?;
        marks.extend(profiles.iter().map(|name| (Mark::Profile, path::join(map::PROFILES, name))));
        marks.push((Mark::Conf, map::CONF.to_owned()));
        marks.extend(self.batches.iter().map(|bid| (Mark::BatchProfile, BatchNode::Profile.of(*bid))));
        self.counts.quarantined = self.names(map::QUARANTINE).await?.len();
        self.look_at("marks", marks).await
    }

    /// Feeds, and those who consume them.
    async fn feeds(&mut self, marks: &mut Vec<(Mark, String)>) -> Result<()> {
        let is_feed = |name: &str| name.parse::<Qid>().is_ok();
        let qids = self.known(map::QUEUES, Mark::Unknown, is_feed).await?;
        for qid in qids.iter().filter_map(|name| name.parse::<Qid>().ok()) {
            self.known(&map::feed(qid), Mark::Unknown, |name| matches!(name, "lock" | "ask")).await?;
            marks.push((Mark::Feed, map::feed(qid)));
            marks.push((Mark::Lock, map::feed_lock(qid)));
        }
        self.counts.feeds = qids.len();
        marks.push((Mark::Feeds, map::QUEUES.to_owned()));
        let workers = self.known(map::WORKERS, Mark::Unknown, is_worker).await?;
        marks.extend(workers.iter().map(|name| (Mark::Worker, path::join(map::WORKERS, name))));
        marks.push((Mark::Assignment, map::WORKERS.to_owned()));
        Ok(())
    }

    /// Only these.
    pub(super) async fn keys(&mut self) -> Result<()> {
        let names = self.names(map::JOURNAL_KEYS).await?;
        let marks = names.iter().map(|name| (Mark::Key, path::join(map::JOURNAL_KEYS, name))).collect();
        self.look_at("keys", marks).await
    }

    async fn look_at(&mut self, stage: &'static str, marks: Vec<(Mark, String)>) -> Result<()> {
        let (reader, total) = (self.reader, marks.len());
        let mut looks = stream::iter(marks)
            .map(|(mark, at)| async move {
                let view = mark::look(reader, mark, &at).await?;
                Ok::<_, crate::error::Error>((mark, at, view))
            })
            .buffer_unordered(SIDE_BY_SIDE);
        let mut done = 0;
        while let Some((mark, at, view)) = looks.try_next().await? {
            if mark::judge(&view, self.context).is_some() {
                self.suspects.push(Thing::Mark(mark, at));
            }
            done += 1;
            self.observer.tell(Progress { stage, done, total });
        }
        Ok(())
    }

    fn tell(&mut self, stage: &'static str, done: usize, total: usize) {
        self.observer.tell(Progress { stage, done, total });
    }
}

/// Where a job is named, out of lists that are sorted by job.
fn hints(jid: Jid, queue: &[QueueRef], lists: &[(Jid, Bid, BatchList)]) -> Hints {
    let from = queue.partition_point(|entry| entry.jid < jid);
    let queue = queue[from..].iter().copied().take_while(|entry| entry.jid == jid).collect();
    let from = lists.partition_point(|(listed, ..)| *listed < jid);
    let own = lists[from..].iter().take_while(|(listed, ..)| *listed == jid);
    Hints { jid, queue, lists: own.map(|(_, bid, list)| (*bid, *list)).collect() }
}
