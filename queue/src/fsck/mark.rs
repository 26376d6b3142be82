//! Single nodes that lead to a job or a batch, lock something or reserve something, and nodes that
//! should not be there at all.

mod look;

pub(super) use look::look;

use std::collections::BTreeMap;

use bytes::Bytes;
use ingest_store::{Op, path};

use super::Context;
use super::code::Code;
use super::finding::{Fix, Verdict};
use super::reader::Seen;
use super::requests::{self, OfRequest};
use crate::alerts::AlertNode;
use crate::dialect::Dialect;
use crate::feeds::{MOST_FEEDS, Qid};
use crate::ids::{Bid, Jid};
use crate::limits::Named;
use crate::limits::rules::Rules;
use crate::map::{self, BatchNode, JobNode};
use crate::nodes::{
    AccessStatus, AccessToken, AssignmentNode, FeedNode, FrozenProfile, Hold, JobStatus, Keys, LocalId, Node,
    Outgoing, Unreadable,
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
mod tests;
