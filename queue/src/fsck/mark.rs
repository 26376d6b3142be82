//! Single nodes that lead to a job or a batch, lock something or reserve something, and nodes that
//! should not be there at all.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::future::OptionFuture;
use ingest_store::{Op, Stat, path};

use super::Context;
use super::code::Code;
use super::finding::{Fix, Verdict};
use super::reader::{Found, Reader, Seen};
use super::requests::{self, OfRequest};
use super::sharded;
use crate::alerts::AlertNode;
use crate::dialect::Dialect;
use crate::error::Result;
use crate::feeds::{MOST_FEEDS, Qid};
use crate::ids::{Bid, Jid};
use crate::limits::rules::Rules;
use crate::limits::{Holding, Named};
use crate::map::{self, BatchNode, JobNode};
use crate::nodes::{
    AccessStatus, AccessToken, AssignmentNode, BatchStatus, FeedNode, FrozenProfile, Hold, JobStatus, Keys,
    LocalId, Node, Outgoing, Unreadable, read_id,
};
use crate::plan::job::date_refs;
use crate::states::{AccessState, BatchState, JobState};

/// What a node is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    Directory,
    Unknown,
    /// In a list of refs, and none.
    Stray,
    Uuid,
    Lock,
    Reservation,
    Hold,
    Key,
    /// One that a batch says it has: looked at with the batch, too.
    ClaimedKey,
    Date,
    /// All of them.
    Limits,
    Semaphore,
    Slot,
    Outgoing,
    Alert,
    Space,
    AccessStatus,
    AccessToken,
    Feed,
    /// The directory of feeds.
    Feeds,
    Worker,
    /// What was said of who has which feeds.
    Assignment,
    Request,
    RequestLock,
    RequestResult,
    /// Parameters, data or a waiter.
    OfRequest,
    Profile,
    Conf,
    BatchProfile,
}

/// A node as it was seen, with what it leads to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MarkView {
    mark: Mark,
    path: String,
    node: Seen<bytes::Bytes>,
    /// Ends with a session.
    ephemeral: bool,
    children: i32,
    leads_to: LeadsTo,
}

#[derive(Debug, Clone, PartialEq)]
enum LeadsTo {
    Nothing,
    /// `None`: it is gone.
    Batch(Bid, Option<Seen<BatchState>>),
    /// Every batch that a key names.
    Keyed(BTreeMap<Bid, Option<Seen<BatchState>>>),
    /// A job with its dates.
    Dated(Jid, Option<Seen<JobStatus>>),
    Job(Jid, Option<Seen<JobState>>),
    /// The access item that the node belongs to is there.
    Item(bool),
    /// Of a request; what else was seen of it.
    Request(Box<OfRequest>),
    /// A value that may be larger than a node: why it cannot be read.
    Sharded(Option<String>),
    /// The job that a slot was taken for, whether it is locked, and the version of the slot.
    Slot(Option<Jid>, bool, i32),
}

pub(super) async fn look(reader: &Reader, mark: Mark, at: &str) -> Result<MarkView> {
    let seen = reader.get(at).await?;
    let stat = seen.as_ref().map_or(Stat::default(), |(_, stat)| *stat);
    let node = match seen {
        Some((value, stat)) => Seen::Good { value, found: Found::from(stat) },
        None => Seen::Missing,
    };
    let leads_to = match (mark, node.good()) {
        (Mark::Uuid, Some(data)) => batch(reader, read_id(data).ok()).await?,
        (Mark::Key | Mark::ClaimedKey, Some(data)) => {
            keyed(reader, &Keys::read(data).unwrap_or_default()).await?
        }
        (Mark::Outgoing, Some(_)) => batch(reader, outgoing(path::name(at)).map(|(bid, _)| bid)).await?,
        (Mark::Reservation, Some(data)) => holder(reader, LocalId::read(data).unwrap_or_default()).await?,
        (Mark::Date, _) => match map::parse_journal_date(path::name(at)) {
            Some((_, jid)) => {
                let there = reader.stat(&map::job(jid)).await?;
                let status_at = JobNode::Status.of(jid);
                let status = there.map(|_| reader.read::<JobStatus>(&status_at));
                LeadsTo::Dated(jid, OptionFuture::from(status).await.transpose()?)
            }
            None => LeadsTo::Nothing,
        },
        (Mark::Slot, Some(_)) => slot(reader, path::parent(at)).await?,
        (Mark::AccessStatus | Mark::AccessToken, _) => {
            LeadsTo::Item(reader.stat(path::parent(at)).await?.is_some())
        }
        (Mark::Request | Mark::RequestLock | Mark::RequestResult | Mark::OfRequest, _) => {
            LeadsTo::Request(Box::new(requests::look(reader, path::name(at)).await?))
        }
        (Mark::Profile | Mark::Conf, Some(_)) => {
            LeadsTo::Sharded(sharded::look(reader, at, |_| Ok(())).await?.value.trouble())
        }
        _ => LeadsTo::Nothing,
    };
    let (ephemeral, children) = (stat.ephemeral_owner != 0, stat.num_children);
    Ok(MarkView { mark, path: at.to_owned(), node, ephemeral, children, leads_to })
}

async fn batch(reader: &Reader, bid: Option<Bid>) -> Result<LeadsTo> {
    let Some(bid) = bid else {
        return Ok(LeadsTo::Nothing);
    };
    let there = reader.stat(&map::batch(bid)).await?;
    let status_at = BatchNode::Status.of(bid);
    let status =
        OptionFuture::from(there.map(|_| reader.read::<BatchStatus>(&status_at))).await.transpose()?;
    Ok(LeadsTo::Batch(bid, status.map(|status| status.map(|status| status.status))))
}

async fn keyed(reader: &Reader, keys: &Keys) -> Result<LeadsTo> {
    let mut found = BTreeMap::new();
    for bid in keys.keys.iter().flat_map(|keyed| keyed.waiting.into_iter().chain(keyed.running)) {
        if let LeadsTo::Batch(bid, state) = batch(reader, Some(bid)).await? {
            found.insert(bid, state);
        }
    }
    Ok(LeadsTo::Keyed(found))
}

async fn job(reader: &Reader, jid: Option<Jid>) -> Result<LeadsTo> {
    let Some(jid) = jid else {
        return Ok(LeadsTo::Nothing);
    };
    let there = reader.stat(&map::job(jid)).await?;
    let status_at = JobNode::Status.of(jid);
    let status = OptionFuture::from(there.map(|_| reader.read::<JobStatus>(&status_at))).await.transpose()?;
    Ok(LeadsTo::Job(jid, status.map(|status| status.map(|status| status.status))))
}

/// Who took a slot, and whether they still are at it. Whoever works on a job has its lock.
async fn slot(reader: &Reader, at: &str) -> Result<LeadsTo> {
    let Some((data, stat)) = reader.get(at).await? else { return Ok(LeadsTo::Nothing) };
    let jid = Holding::read(&data).ok().and_then(|holding| holding.job);
    let locked = match jid {
        Some(jid) => reader.stat(&JobNode::Lock.of(jid)).await?.is_some(),
        None => false,
    };
    Ok(LeadsTo::Slot(jid, locked, stat.version))
}

/// The job that a local id is kept for: of several the first that has not ended.
async fn holder(reader: &Reader, reserved: LocalId) -> Result<LeadsTo> {
    let mut found = job(reader, reserved.jid).await?;
    for jid in reserved.also {
        if lost_job(&found, is_under_way).is_none() {
            break;
        }
        found = job(reader, Some(jid)).await?;
    }
    Ok(found)
}

fn is_under_way(state: JobState) -> bool {
    state != JobState::Completed
}

/// Why a slot that somebody holds should be nobody's.
fn leaked(view: &MarkView) -> Option<String> {
    match view.leads_to {
        LeadsTo::Slot(Some(jid), false, _) => Some(format!("it is held for {jid}, which nobody works on")),
        LeadsTo::Slot(None, ..) => Some("nobody can tell for which job it is held".to_owned()),
        _ => None,
    }
}

fn too_many(view: &MarkView) -> Option<String> {
    let feeds = usize::try_from(view.children).unwrap_or(0);
    (feeds > MOST_FEEDS).then(|| format!("{feeds} feeds, and {MOST_FEEDS} are the most"))
}

/// Takes `BID-N` apart.
pub(super) fn outgoing(name: &str) -> Option<(Bid, u32)> {
    let (bid, number) = name.split_once('-')?;
    Some((bid.parse().ok()?, number.parse().ok()?))
}

pub(super) fn judge(view: &MarkView, context: &Context) -> Option<Verdict> {
    let Seen::Good { value: data, found } = &view.node else {
        return missing(view, context);
    };
    let dialect = context.dialect;
    let name = path::name(&view.path);
    let remove = Fix::Remove { version: found.version };
    let verdict = |code, what: String, fix| Verdict::new(code, view.path.as_str(), what, fix);
    // What goes, goes with its data kept; an empty node has none.
    let put_away = |code, what: String| {
        let found = verdict(code, what.clone(), remove.clone());
        Some(if data.is_empty() { found } else { found.keeping(what, data.clone()) })
    };
    // What stays, stays with something that can be read.
    let replace = |code, what: String, data_now| {
        let fix = Fix::Write { version: Some(found.version), data: data_now };
        let found = verdict(code, what.clone(), fix);
        Some(if data.is_empty() { found } else { found.keeping(what, data.clone()) })
    };
    match view.mark {
        Mark::Directory => None,
        Mark::Unknown => {
            let what = format!("nothing in the map is called `{name}` here");
            Some(verdict(Code::UnknownNode, what, Fix::Person(Code::UnknownNode.repair())))
        }
        Mark::Stray => {
            let what = format!("`{name}` is no reference");
            let empty = data.is_empty() && view.children == 0;
            let fix = if empty { remove } else { Fix::Person("none: a person must look; it is not empty") };
            Some(verdict(Code::NotARef, what.clone(), fix).keeping(what, data.clone()))
        }
        Mark::Lock | Mark::Worker if view.ephemeral => None,
        Mark::Slot if view.ephemeral => Some(verdict(Code::LeakedSlot, leaked(view)?, remove)),
        Mark::Lock => Some(verdict(Code::LastingLock, format!("`{name}` belongs to no session"), remove)),
        Mark::Slot => Some(verdict(Code::LastingSlot, format!("`{name}` belongs to no session"), remove)),
        Mark::Worker => put_away(Code::LastingWorker, format!("`{name}` belongs to no session")),
        Mark::Feed => match feed(name, data) {
            Ok(()) => None,
            Err(Misfit::Name(what)) => {
                Some(verdict(Code::FeedName, what, Fix::Person(Code::FeedName.repair())))
            }
            Err(Misfit::Unreadable(what)) => replace(Code::Feed, what, context.paused_feed().write(dialect)),
        },
        Mark::Feeds => {
            Some(verdict(Code::TooManyFeeds, too_many(view)?, Fix::Person(Code::TooManyFeeds.repair())))
        }
        Mark::Uuid => put_away(Code::LostUuid, lost_batch(view, |_| true)?),
        Mark::Key | Mark::ClaimedKey => {
            let keys = match Keys::read(data) {
                Ok(keys) => keys,
                Err(_) if view.mark == Mark::ClaimedKey => return None,
                Err(Unreadable(why)) => return put_away(Code::LostKey, format!("it cannot be read: {why}")),
            };
            let (left, what) = lost_key(view, &keys)?;
            if left.is_empty() {
                return put_away(Code::LostKey, what);
            }
            replace(Code::LostKey, what, left.write(dialect))
        }
        Mark::Outgoing => {
            let trouble = Outgoing::read(data).err().map(|Unreadable(why)| format!("cannot be read: {why}"));
            put_away(Code::LostReport, lost_batch(view, |_| true).or(trouble)?)
        }
        Mark::Alert => {
            let Unreadable(why) = AlertNode::read(data).err()?;
            put_away(Code::Alert, format!("it cannot be read: {why}"))
        }
        Mark::Date => put_away(Code::LostDate, lost_date(view)?),
        Mark::Reservation => put_away(Code::LocalId, reservation(view, data, dialect)?),
        Mark::Hold | Mark::Assignment | Mark::Limits if data.is_empty() => None,
        Mark::Assignment | Mark::Hold | Mark::Limits | Mark::Semaphore | Mark::AccessStatus => {
            let (code, what, now) = unreadable(view, data, context)?;
            replace(code, what, now)
        }
        Mark::Space => put_away(Code::Space, space(data).err()?),
        Mark::AccessToken => {
            let Unreadable(why) = AccessToken::read(data).err()?;
            let fix = Fix::Person(Code::AccessToken.repair());
            Some(verdict(Code::AccessToken, format!("its token cannot be read: {why}"), fix))
        }
        Mark::Request | Mark::RequestLock | Mark::RequestResult | Mark::OfRequest => {
            let LeadsTo::Request(seen) = &view.leads_to else { return None };
            requests::judge(view.mark, &view.path, data, found.version, seen, context)
        }
        Mark::Profile | Mark::Conf => {
            let LeadsTo::Sharded(Some(why)) = &view.leads_to else { return None };
            let code = if view.mark == Mark::Profile { Code::Profile } else { Code::Conf };
            Some(verdict(code, format!("`{name}` {why}"), Fix::Person(code.repair())))
        }
        Mark::BatchProfile => {
            let Unreadable(why) = FrozenProfile::read(data).err()?;
            put_away(Code::BatchProfile, format!("it cannot be read: {why}"))
        }
    }
}

/// Why a node that has to stay cannot be read, and what stands there instead.
fn unreadable(view: &MarkView, data: &[u8], context: &Context) -> Option<(Code, String, Bytes)> {
    let (name, dialect) = (path::name(&view.path), context.dialect);
    Some(match view.mark {
        Mark::Assignment => {
            let Unreadable(why) = AssignmentNode::read(data).err()?;
            (Code::Assignment, format!("it cannot be read: {why}"), Bytes::new())
        }
        Mark::Hold => {
            let Unreadable(why) = Hold::read(data).err()?;
            let what = format!("the hold `{name}` cannot be read: {why}");
            (Code::Hold, what, context.hold(name).write(dialect))
        }
        Mark::Limits => {
            let Unreadable(why) = Rules::read(data).err()?;
            (Code::Semaphore, format!("the limits cannot be read: {why}"), Bytes::new())
        }
        Mark::Semaphore => {
            let Unreadable(why) = Named::read(data).and_then(Named::sound).err()?;
            let what = format!("the name of `{name}` cannot be read: {why}");
            (Code::Semaphore, what, Named::of(name).write(dialect))
        }
        Mark::AccessStatus => {
            let Unreadable(why) = AccessStatus::read(data).err()?;
            let what = format!("its status cannot be read: {why}");
            (Code::AccessStatus, what, failed(&view.path, true, context))
        }
        _ => return None,
    })
}

/// What a repair rests on: that what the node leads to is still as it was seen.
pub(super) fn guard(view: &MarkView) -> Option<Op> {
    let (path, version) = match &view.leads_to {
        LeadsTo::Batch(bid, Some(status)) => (BatchNode::Status.of(*bid), status.version()),
        LeadsTo::Job(jid, Some(status)) => (JobNode::Status.of(*jid), status.version()),
        LeadsTo::Slot(_, _, version) => (path::parent(&view.path).to_owned(), Some(*version)),
        LeadsTo::Dated(jid, Some(status)) => (JobNode::Status.of(*jid), status.version()),
        _ => return None,
    };
    version.map(|version| Op::check(path, version))
}

/// Few nodes have to be there.
fn missing(view: &MarkView, context: &Context) -> Option<Verdict> {
    let verdict = |code, what: &str, fix| Some(Verdict::new(code, view.path.as_str(), what, fix));
    let make = |data| Fix::Write { version: None, data };
    match (view.mark, &view.leads_to) {
        (Mark::Directory, _) => verdict(Code::NoDirectory, "it is missing", make("".into())),
        (Mark::AccessStatus, LeadsTo::Item(true)) => {
            verdict(Code::AccessStatus, "its status is missing", make(failed(&view.path, false, context)))
        }
        (Mark::Date, LeadsTo::Dated(jid, Some(Seen::Good { value, .. })))
            if date_refs(*jid, value).any(|at| at == view.path) =>
        {
            let what = format!("{jid} is {} and has this date, and it is not kept", value.status);
            Some(Verdict::new(Code::NoDate, view.path.as_str(), what, make("".into())))
        }
        (Mark::AccessToken, LeadsTo::Item(true)) => {
            verdict(Code::AccessToken, "its token is missing", Fix::Person(Code::AccessToken.repair()))
        }
        _ => None,
    }
}

fn failed(path: &str, kept: bool, context: &Context) -> bytes::Bytes {
    let mut status = AccessStatus::new(AccessState::Failed, context.now);
    status.commits.push(context.commit.clone());
    status.message = if kept {
        format!("its status was unreadable; see {}", super::quarantine::place(path, context))
    } else {
        "its status was missing".to_owned()
    };
    status.write(context.dialect)
}

/// Why it does not lead to a batch that `fits`.
fn lost_batch(view: &MarkView, fits: impl Fn(BatchState) -> bool) -> Option<String> {
    match &view.leads_to {
        LeadsTo::Batch(bid, None) => Some(format!("it leads to {bid}, which is gone")),
        LeadsTo::Batch(bid, Some(Seen::Good { value, .. })) if !fits(*value) => {
            Some(format!("it leads to {bid}, which is {value}"))
        }
        // What a batch that nobody can read waits for is not known.
        LeadsTo::Batch(..) => None,
        _ => Some("it names no batch".to_owned()),
    }
}

/// What is left of a key, and why it is less.
fn lost_key(view: &MarkView, keys: &Keys) -> Option<(Keys, String)> {
    let LeadsTo::Keyed(found) = &view.leads_to else { return None };
    let has = |bid: Bid, fits: fn(BatchState) -> bool| match found.get(&bid) {
        Some(Some(Seen::Good { value, .. })) => fits(*value),
        // What a batch that nobody can read waits for is not known.
        Some(Some(_)) => true,
        _ => false,
    };
    let waits = |state| matches!(state, BatchState::Pending | BatchState::Held);
    let mut left = keys.only(|bid| has(bid, waits), |bid| has(bid, |state| state == BatchState::Processing));
    left.keys.retain(|keyed| map::journal_key(&keyed.key) == view.path);
    if left == *keys && !keys.is_empty() {
        return None;
    }
    let states = found.iter().map(|(bid, state)| match state {
        Some(Seen::Good { value, .. }) => format!("{bid} is {value}"),
        Some(_) => format!("{bid} cannot be read"),
        None => format!("{bid} is gone"),
    });
    let states: Vec<String> = states.collect();
    Some((left, format!("it leads to what does not have it: {}", states.join(", "))))
}

fn lost_date(view: &MarkView) -> Option<String> {
    match &view.leads_to {
        LeadsTo::Dated(jid, None) => Some(format!("it is kept for {jid}, which is gone")),
        LeadsTo::Dated(jid, Some(Seen::Good { value, .. }))
            if !date_refs(*jid, value).any(|at| at == view.path) =>
        {
            Some(format!("it is kept for {jid}, which is {} and does not wait for it", value.status))
        }
        // What a job that nobody can read waits for is not known.
        LeadsTo::Dated(..) => None,
        _ => Some("it names no job".to_owned()),
    }
}

fn lost_job(leads_to: &LeadsTo, fits: impl Fn(JobState) -> bool) -> Option<String> {
    match leads_to {
        LeadsTo::Job(jid, None) => Some(format!("it is kept for {jid}, which is gone")),
        LeadsTo::Job(jid, Some(Seen::Good { value, .. })) if !fits(*value) => {
            Some(format!("it is kept for {jid}, which is {value}"))
        }
        LeadsTo::Job(..) => None,
        _ => Some("it names no job".to_owned()),
    }
}

fn reservation(view: &MarkView, data: &[u8], dialect: Dialect) -> Option<String> {
    match LocalId::read(data) {
        // Other systems lock local ids in their own way.
        Err(_) if dialect == Dialect::MrtZk => None,
        Err(Unreadable(why)) => Some(format!("it cannot be read: {why}")),
        Ok(reserved) => {
            let LocalId { owner, local_id, jid, .. } = &reserved;
            if jid.is_none() && dialect == Dialect::MrtZk {
                return None;
            }
            if map::local_id(owner, local_id) != view.path {
                return Some(format!("`{local_id}` of `{owner}` is not what its name stands for"));
            }
            lost_job(&view.leads_to, is_under_way)
        }
    }
}

/// Why a feed's node is not right.
enum Misfit {
    Unreadable(String),
    Name(String),
}

fn feed(qid: &str, data: &[u8]) -> std::result::Result<(), Misfit> {
    let feed = FeedNode::read(data)
        .map_err(|Unreadable(why)| Misfit::Unreadable(format!("its checkpoint cannot be read: {why}")))?;
    let fits = feed.name.is_empty() || Qid::of(&feed.name).to_string() == qid;
    if fits { Ok(()) } else { Err(Misfit::Name(format!("`{}` is not what its name stands for", feed.name))) }
}

/// An object or a number; nothing was reserved in an empty one.
fn space(data: &[u8]) -> std::result::Result<(), String> {
    use serde_json::Value::{Number, Object};
    match serde_json::from_slice(data) {
        Ok(Object(_) | Number(_)) => Ok(()),
        _ if data.is_empty() => Ok(()),
        Ok(_) => Err("it is neither an object nor a number".to_owned()),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::Date;

    fn view(mark: Mark, path: &str, data: &str, leads_to: LeadsTo) -> MarkView {
        let node = Seen::value(bytes::Bytes::from(data.to_owned()));
        MarkView { mark, path: path.into(), node, ephemeral: false, children: 0, leads_to }
    }

    fn code_in(view: &MarkView, dialect: Dialect) -> Option<&'static str> {
        judge(view, &Context { dialect, ..Context::for_tests() }).map(|found| found.code.text())
    }

    fn code(view: &MarkView) -> Option<&'static str> {
        code_in(view, Dialect::Design)
    }

    fn to_batch(state: Option<BatchState>) -> LeadsTo {
        LeadsTo::Batch(Bid::new(1), state.map(Seen::value))
    }

    fn to_job(state: Option<JobState>) -> LeadsTo {
        LeadsTo::Job(Jid::new(1), state.map(Seen::value))
    }

    #[test]
    fn what_leads_to_a_batch_leads_to_one_that_fits() {
        let bid = "bid0000000001";
        let lost = |mark, state| code(&view(mark, "/x", bid, to_batch(state)));
        assert_eq!(lost(Mark::Uuid, Some(BatchState::Completed)), None);
        assert_eq!(lost(Mark::Uuid, None), Some("U01"));
    }

    fn key_view(keys: &Keys, states: &[(u32, Option<BatchState>)]) -> MarkView {
        let data = String::from_utf8(keys.write(Dialect::Design).to_vec()).unwrap();
        let found = states.iter().map(|(bid, state)| (Bid::new(*bid), state.map(Seen::value))).collect();
        view(Mark::Key, &map::journal_key("k"), &data, LeadsTo::Keyed(found))
    }

    #[test]
    fn a_key_leads_to_one_that_waits_and_one_that_is_processed() {
        use BatchState::{Held, Pending, Processing, Reporting};
        let waits = Keys::default().waits("k", Bid::new(1));
        let lost = |state| code(&key_view(&waits, &[(1, state)]));
        assert_eq!((lost(Some(Pending)), lost(Some(Held))), (None, None));
        assert_eq!((lost(Some(Processing)), lost(None)), (Some("K01"), Some("K01")));
        let both = waits.begins("k", Bid::new(1)).waits("k", Bid::new(2));
        assert_eq!(code(&key_view(&both, &[(1, Some(Processing)), (2, Some(Pending))])), None);
        // The one that has ended goes, the one that waits stays.
        let ended = key_view(&both, &[(1, Some(Reporting)), (2, Some(Pending))]);
        let found = judge(&ended, &Context::for_tests()).unwrap();
        assert_eq!(found.code, Code::LostKey);
        let Fix::Write { data, .. } = found.fix else { panic!("{:?}", found.fix) };
        assert_eq!(Keys::read(&data).unwrap(), Keys::default().waits("k", Bid::new(2)));
        let another = Keys::default().waits("another", Bid::new(1));
        assert_eq!(
            code(&key_view(&another, &[(1, Some(Pending))])),
            Some("K01"),
            "it lies under another hash"
        );
        assert_eq!(code(&view(Mark::Key, "/x", "garbage", LeadsTo::Nothing)), Some("K01"));
    }

    #[test]
    fn a_date_is_kept_as_long_as_its_job_waits_for_it_and_no_longer() {
        let (date, jid) = (Date::from_millis(7), Jid::new(1));
        let of = |status: Option<JobStatus>| LeadsTo::Dated(jid, status.map(Seen::value));
        let waiting = |process_date, expiration_date| JobStatus {
            process_date,
            expiration_date,
            ..JobStatus::new(JobState::Pending, date)
        };
        let (due, late) = (map::journal_date(7, jid), map::journal_expiration(7, jid));
        for (at, status) in [(&due, waiting(Some(date), None)), (&late, waiting(None, Some(date)))] {
            let there = view(Mark::Date, at, "", of(Some(status.clone())));
            assert_eq!(code(&there), None, "{at}");
            assert_eq!(code(&MarkView { node: Seen::Missing, ..there }), Some("K03"), "{at}");
            for other in [None, Some(waiting(None, None))] {
                let lost = view(Mark::Date, at, "", of(other));
                assert_eq!(code(&lost), Some("K02"), "{at}");
                assert_eq!(code(&MarkView { node: Seen::Missing, ..lost }), None, "{at}");
            }
        }
        // One that is kept twice is kept once too often.
        assert_eq!(
            code(&view(Mark::Date, &map::journal_date(8, jid), "", of(Some(waiting(Some(date), None))))),
            Some("K02")
        );
    }

    #[test]
    fn a_local_id_is_reserved_for_a_job_that_has_not_ended() {
        let reserved = r#"{"owner":"o","local_id":"l","primary_id":"ark:/1/2","jid":"jid0000000001"}"#;
        let path = map::local_id("o", "l");
        let lost = |path: &str, state| code(&view(Mark::Reservation, path, reserved, to_job(state)));
        assert_eq!(lost(&path, Some(JobState::Failed)), None);
        assert_eq!(lost(&path, Some(JobState::Completed)), Some("L02"));
        assert_eq!(lost(&path, None), Some("L02"));
        assert_eq!(lost(&map::local_id("o", "other"), Some(JobState::Failed)), Some("L02"));
        let foreign = view(Mark::Reservation, "/locks/localid/o_l", "", LeadsTo::Nothing);
        assert_eq!((code(&foreign), code_in(&foreign, Dialect::MrtZk)), (Some("L02"), None));
    }

    #[test]
    fn locks_and_slots_end_with_a_session() {
        for (mark, text) in [(Mark::Lock, "L01"), (Mark::Slot, "S01")] {
            let mut lock = view(mark, "/x", "", LeadsTo::Nothing);
            assert_eq!(code(&lock), Some(text));
            lock.ephemeral = true;
            assert_eq!(code(&lock), None);
        }
    }

    #[test]
    fn a_slot_is_held_for_a_job_that_somebody_works_on() {
        let held = |leads_to| {
            code(&MarkView { ephemeral: true, ..view(Mark::Slot, "/x/0000/holder", "", leads_to) })
        };
        assert_eq!(held(LeadsTo::Slot(Some(Jid::new(1)), true, 4)), None);
        assert_eq!(held(LeadsTo::Slot(Some(Jid::new(1)), false, 4)), Some("S02"));
        assert_eq!(held(LeadsTo::Slot(None, false, 4)), Some("S02"));
    }

    #[test]
    fn limits_and_semaphores_can_be_read() {
        let of = |mark, path, data| code(&view(mark, path, data, LeadsTo::Nothing));
        assert_eq!(of(Mark::Limits, "/semaphores", ""), None);
        assert_eq!(of(Mark::Limits, "/semaphores", r#"{"set":{"hosts":{"h":1}}}"#), None);
        assert_eq!(of(Mark::Limits, "/semaphores", "?"), Some("S03"));
        assert_eq!(of(Mark::Semaphore, "/semaphores/host-h", r#"{"kind":"host","name":"h"}"#), None);
        assert_eq!(of(Mark::Semaphore, "/semaphores/host-h", "?"), Some("S03"));
    }

    #[test]
    fn a_feed_can_be_read_and_has_its_own_name() {
        let qid = Qid::of("herbarium");
        let feed = |data: &str| view(Mark::Feed, &map::feed(qid), data, LeadsTo::Nothing);
        assert_eq!(code(&feed(r#"{"last":""}"#)), None);
        assert_eq!(code(&feed(r#"{"last":"2026","name":"herbarium"}"#)), None);
        assert_eq!(code(&feed(r#"{"last":"","name":"another"}"#)), Some("F02"));
        let found = judge(&feed("garbage"), &Context::for_tests()).unwrap();
        assert_eq!(found.code.text(), "F01");
        let Fix::Write { data, .. } = &found.fix else { panic!("{found:?}") };
        assert!(FeedNode::read(data).unwrap().paused.is_some() && found.keep.is_some());
    }

    #[test]
    fn a_worker_goes_with_its_session_and_what_is_assigned_can_be_read() {
        let mut worker = view(Mark::Worker, "/workers/worker-0000000001", "{}", LeadsTo::Nothing);
        assert_eq!(code(&worker), Some("F03"));
        worker.ephemeral = true;
        assert_eq!(code(&worker), None);
        let assigned = |data: &str| code(&view(Mark::Assignment, map::WORKERS, data, LeadsTo::Nothing));
        assert_eq!((assigned(""), assigned(r#"{"assigned":{}}"#)), (None, None));
        assert_eq!(assigned("[1]"), Some("F04"));
        let mut feeds = view(Mark::Feeds, map::QUEUES, "", LeadsTo::Nothing);
        feeds.children = 10_000;
        assert_eq!(code(&feeds), None);
        feeds.children += 1;
        assert_eq!(code(&feeds), Some("F05"));
    }

    #[test]
    fn an_unreadable_hold_stays_a_hold() {
        let hold = |data| view(Mark::Hold, "/locks/collections/x", data, LeadsTo::Nothing);
        assert_eq!((code(&hold("")), code(&hold("{}"))), (None, None));
        let found = judge(&hold("garbage"), &Context::for_tests()).unwrap();
        assert!(matches!(found.fix, Fix::Write { version: Some(0), .. }) && found.keep.is_some());
    }

    #[test]
    fn a_stray_is_removed_only_if_it_is_an_empty_leaf() {
        let mut stray = view(Mark::Stray, "/jobs/states/held/what", "", LeadsTo::Nothing);
        assert!(!judge(&stray, &Context::for_tests()).unwrap().is_by_hand());
        stray.children = 1;
        assert!(judge(&stray, &Context::for_tests()).unwrap().is_by_hand());
        let full = view(Mark::Stray, "/jobs/states/held/what", "x", LeadsTo::Nothing);
        assert!(judge(&full, &Context::for_tests()).unwrap().is_by_hand());
    }

    #[test]
    fn an_access_item_has_a_status_and_a_token() {
        let item = |mark, data: &str| view(mark, "/access/small/qid0000000001/x", data, LeadsTo::Item(true));
        let status = AccessStatus::new(AccessState::Pending, Date::from_millis(0)).write(Dialect::Design);
        let status = String::from_utf8(status.to_vec()).unwrap();
        assert_eq!(code(&item(Mark::AccessStatus, &status)), None);
        assert_eq!(code(&item(Mark::AccessStatus, "[1]")), Some("A01"));
        assert_eq!(code(&item(Mark::AccessToken, "{}")), None);
        assert_eq!(code(&item(Mark::AccessToken, "[1]")), Some("A02"));
        let gone =
            |leads_to| code(&MarkView { node: Seen::Missing, leads_to, ..item(Mark::AccessStatus, "") });
        assert_eq!((gone(LeadsTo::Item(true)), gone(LeadsTo::Item(false))), (Some("A01"), None));
    }
}
