//! The nodes of a batch, and the uuid that leads to it. Its jobs are counted in [`super::lists`].

use futures::future::try_join5;
use ingest_store::Op;

use super::Context;
use super::code::Code;
use super::finding::{Fix, Verdict};
use super::lists::{self, ListsView};
use super::reader::{Reader, Seen};
use super::sharded::{self, Sharded};
use crate::dialect::Dialect;
use crate::error::Result;
use crate::ids::Bid;
use crate::journal::KEY;
use crate::map::{self, BatchNode};
use crate::nodes::{BatchStatus, Expansion, Hold, Keys, Node, StatusReport, Submission, read_id};
use crate::states::BatchState;

const NOT_DERIVABLE: &str =
    "none: a person must look; it has jobs, and neither its expansion nor a report says how far it is";
const ROWS_ARE_LOST: &str = "none: a person must look; rows without a job are lost with it: hold the batch's \
     collection, and submit them again";
const ANOTHERS_UUID: &str = "none: a person must look; the uuid leads to another batch";

/// A batch as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BatchView {
    pub(super) bid: Bid,
    there: bool,
    status: Seen<BatchStatus>,
    submission: Seen<Submission>,
    expansion: Seen<Expansion>,
    deleting: Seen<Hold>,
    manifest: Sharded,
    report: Sharded,
    /// The version of a lock that belongs to no session.
    lasting_lock: Option<i32>,
    /// The uuid that the depositor was given, and where it leads.
    uuid: Option<(String, Seen<Bid>)>,
    /// Its key, and who has that.
    key: Option<(String, Seen<Keys>)>,
    /// What else tells how far it is; looked at only if its status does not.
    signs: Option<Signs>,
}

#[derive(Debug, Clone, PartialEq)]
struct Signs {
    lists: ListsView,
    /// A report is on its way or was sent.
    reported: bool,
}

impl BatchView {
    /// Where its key is, while it has one.
    pub(super) fn key_path(&self) -> Option<String> {
        let state = self.status.good()?.status;
        let has = matches!(state, BatchState::Pending | BatchState::Held | BatchState::Processing);
        self.key.as_ref().filter(|_| has).map(|(key, _)| map::journal_key(key))
    }

    /// The uuid that its submission names.
    pub(super) fn uuid(&self) -> Option<&str> {
        self.uuid.as_ref().map(|(uuid, _)| uuid.as_str())
    }
}

pub(super) async fn look(reader: &Reader, bid: Bid) -> Result<BatchView> {
    let at = |node: BatchNode| node.of(bid);
    let status = reader.read::<BatchStatus>(&at(BatchNode::Status)).await?;
    let there = reader.stat(&map::batch(bid)).await?.is_some();
    let (submission_at, expansion_at) = (at(BatchNode::Submission), at(BatchNode::Expansion));
    let (deleting_at, manifest_at, report_at) =
        (at(BatchNode::Deleting), at(BatchNode::Manifest), at(BatchNode::StatusReport));
    let (submission, expansion, deleting, manifest, report) = try_join5(
        reader.read::<Submission>(&submission_at),
        reader.read::<Expansion>(&expansion_at),
        reader.read::<Hold>(&deleting_at),
        sharded::look(reader, &manifest_at, |_| Ok(())),
        sharded::look(reader, &report_at, |data| StatusReport::read(data).map(drop)),
    )
    .await?;
    let lock = reader.stat(&at(BatchNode::Lock)).await?;
    let lasting_lock = lock.filter(|stat| stat.ephemeral_owner == 0).map(|stat| stat.version);
    let uuid = match submission.good().and_then(uuid_of) {
        Some(uuid) => {
            let seen = reader.read_with(&map::batch_uuid(&uuid), read_id::<Bid>).await?;
            Some((uuid, seen))
        }
        None => None,
    };
    let key = match status.good().and_then(|status| status.other.get(KEY)?.as_str()) {
        Some(key) => Some((key.to_owned(), reader.read::<Keys>(&map::journal_key(key)).await?)),
        None => None,
    };
    let signs = match &status {
        Seen::Good { .. } => None,
        _ if !there => None,
        _ => Some(Signs {
            lists: lists::look(reader, bid).await?.0,
            reported: report.value.good() == Some(&true) || in_outbox(reader, bid).await?,
        }),
    };
    Ok(BatchView {
        bid,
        there,
        status,
        submission,
        expansion,
        deleting,
        manifest,
        report,
        lasting_lock,
        uuid,
        key,
        signs,
    })
}

/// The uuid of a submission, if it can be a name in a path.
fn uuid_of(submission: &Submission) -> Option<String> {
    let uuid = submission.other.get("uuid")?.as_str()?.to_owned();
    let fits = !uuid.contains('/') && ingest_store::path::validate(&map::batch_uuid(&uuid), false).is_ok();
    fits.then_some(uuid)
}

async fn in_outbox(reader: &Reader, bid: Bid) -> Result<bool> {
    let prefix = format!("{bid}-");
    let names = reader.names(map::OUTBOX).await?.map(|(names, _)| names).unwrap_or_default();
    Ok(names.iter().any(|name| name.starts_with(&prefix)))
}

pub(super) fn judge(view: &BatchView, context: &Context) -> Vec<Verdict> {
    let bid = view.bid;
    let mut found = Vec::new();
    if !view.there {
        return found;
    }
    if let Some(trouble) = view.status.trouble() {
        found.push(status(view, &trouble, context));
    }
    if let Some(trouble) = view.submission.trouble() {
        let what = format!("the submission of {bid} {trouble}");
        let fix = Fix::Person(Code::Submission.repair());
        found.push(Verdict::new(Code::Submission, BatchNode::Submission.of(bid), what, fix));
    }
    deleting(view, context, &mut found);
    manifest(view, &mut found);
    if let Seen::Bad { why, data, found: seen } = &view.report.value {
        let what = format!("the last report of {bid} cannot be read: {why}");
        let fix = Fix::Write { version: Some(seen.version), data: "".into() };
        let path = BatchNode::StatusReport.of(bid);
        found.push(Verdict::new(Code::BatchNode, path, what, fix).keeping(why, data.clone()));
    }
    for (node, value) in [(BatchNode::Manifest, &view.manifest), (BatchNode::StatusReport, &view.report)] {
        if !value.leftovers.is_empty() {
            let what = format!("{} values beside it are announced by nobody", value.leftovers.len());
            found.push(Verdict::new(Code::Leftover, node.of(bid), what, Fix::Collect));
        }
    }
    if let Some(version) = view.lasting_lock {
        let what = format!("the lock of {bid} belongs to no session");
        found.push(Verdict::new(Code::LastingLock, BatchNode::Lock.of(bid), what, Fix::Remove { version }));
    }
    if let Some((uuid, seen)) = &view.uuid {
        found.extend(uuid_leads_home(bid, uuid, seen));
    }
    if let (Some((key, seen)), Some(status)) = (&view.key, view.status.good())
        && view.deleting.is_missing()
    {
        found.extend(key_leads_home(bid, status.status, key, seen, context.dialect));
    }
    found
}

/// Held needs a person to go on; processing and failed go on or wait as the tables say. None of them
/// forgets a job or tells a depositor something that is not so.
fn status(view: &BatchView, trouble: &str, context: &Context) -> Verdict {
    let bid = view.bid;
    let path = BatchNode::Status.of(bid);
    let what = format!("the status of {bid} {trouble}");
    let Some(state) = derived(view, context.dialect) else {
        return Verdict::new(Code::BatchStatus, path, what, Fix::Person(NOT_DERIVABLE));
    };
    let mut status = BatchStatus::new(state, context.now);
    status.commits.push(context.commit.clone());
    if let Some(key) = view.submission.good().and_then(|submission| submission.key.as_deref()) {
        status.other.insert(KEY.into(), key.into());
    }
    status.message = match &view.status {
        Seen::Bad { .. } => {
            format!("its status was unreadable; see {}", super::quarantine::place(&path, context))
        }
        _ => "its status was missing".to_owned(),
    };
    let fix = Fix::Write { version: view.status.version(), data: status.write(context.dialect) };
    let verdict = Verdict::new(Code::BatchStatus, path, what, fix);
    match &view.status {
        Seen::Bad { why, data, .. } => verdict.keeping(why, data.clone()),
        _ => verdict,
    }
}

fn derived(view: &BatchView, dialect: Dialect) -> Option<BatchState> {
    let signs = view.signs.as_ref()?;
    if !view.deleting.is_missing() || signs.reported {
        return Some(BatchState::Failed);
    }
    if signs.lists.jobs() == 0 && view.expansion.is_missing() {
        return Some(BatchState::Held);
    }
    (view.expansion.good().is_some() || dialect == Dialect::MrtZk).then_some(BatchState::Processing)
}

fn deleting(view: &BatchView, context: &Context, found: &mut Vec<Verdict>) {
    let (bid, path) = (view.bid, BatchNode::Deleting.of(view.bid));
    match &view.deleting {
        Seen::Missing => {}
        Seen::Good { value, .. } => {
            let what = format!("{bid} is being deleted by {}: run the deletion again", value.who);
            found.push(Verdict::new(
                Code::BeingDeleted,
                path,
                what,
                Fix::Person(Code::BeingDeleted.repair()),
            ));
        }
        Seen::Bad { why, data, found: seen } => {
            let what = format!("the mark on {bid}, which is being deleted, cannot be read: {why}");
            let fix =
                Fix::Write { version: Some(seen.version), data: context.hold("").write(context.dialect) };
            found.push(Verdict::new(Code::BatchNode, path, what, fix).keeping(why, data.clone()));
        }
    }
}

fn manifest(view: &BatchView, found: &mut Vec<Verdict>) {
    let (bid, path) = (view.bid, BatchNode::Manifest.of(view.bid));
    let expanding = view.expansion.good().is_some_and(|expansion| !expansion.done);
    let state = view.status.good().map(|status| status.status);
    let waiting = matches!(state, Some(BatchState::Pending | BatchState::Held));
    match &view.manifest.value {
        Seen::Bad { why, data, found: seen } => {
            let what = format!("the manifest of {bid} cannot be read: {why}");
            let needed = expanding || (view.expansion.good().is_none() && !waiting);
            let fix = if needed {
                Fix::Person(ROWS_ARE_LOST)
            } else {
                Fix::Write { version: Some(seen.version), data: "".into() }
            };
            found.push(Verdict::new(Code::Manifest, path, what, fix).keeping(why, data.clone()));
        }
        Seen::Missing | Seen::Good { value: false, .. } if expanding && view.deleting.is_missing() => {
            let what = format!("{bid} is not expanded to its end, and its manifest is missing");
            found.push(Verdict::new(Code::Manifest, path, what, Fix::Person(ROWS_ARE_LOST)));
        }
        Seen::Missing | Seen::Good { .. } => {}
    }
}

/// While it waits or is processed, its key names it.
fn key_leads_home(
    bid: Bid,
    state: BatchState,
    key: &str,
    seen: &Seen<Keys>,
    dialect: Dialect,
) -> Option<Verdict> {
    let keys = seen.good().cloned().unwrap_or_default();
    let keyed = keys.of(key).cloned().unwrap_or_default();
    let (named, after) = match state {
        BatchState::Pending | BatchState::Held => (keyed.waiting, keys.waits(key, bid)),
        BatchState::Processing => (keyed.running, keys.begins(key, bid)),
        _ => return None,
    };
    if named == Some(bid) {
        return None;
    }
    let path = map::journal_key(key);
    if let Some(other) = named {
        let what = format!("{bid} is {state}, and its key `{key}` leads to {other}");
        return Some(Verdict::new(Code::NoKey, path, what, Fix::Person(Code::NoKey.repair())));
    }
    let what = format!("{bid} is {state}, and its key `{key}` does not lead to it");
    let fix = Fix::Write { version: seen.version(), data: after.write(dialect) };
    let verdict = Verdict::new(Code::NoKey, path, what, fix);
    Some(match seen {
        Seen::Bad { why, data, .. } => verdict.keeping(why, data.clone()),
        _ => verdict,
    })
}

fn uuid_leads_home(bid: Bid, uuid: &str, seen: &Seen<Bid>) -> Option<Verdict> {
    let path = map::batch_uuid(uuid);
    let what = match seen {
        Seen::Good { value, .. } if *value == bid => return None,
        Seen::Good { value, .. } => {
            let what = format!("the uuid {uuid} of {bid} leads to {value}");
            return Some(Verdict::new(Code::NoUuid, path, what, Fix::Person(ANOTHERS_UUID)));
        }
        Seen::Missing => format!("the uuid {uuid} of {bid} is missing"),
        Seen::Bad { why, .. } => format!("the uuid {uuid} of {bid} cannot be read: {why}"),
    };
    let fix = Fix::Write { version: seen.version(), data: bid.to_string().into() };
    let verdict = Verdict::new(Code::NoUuid, path, what, fix);
    Some(match seen {
        Seen::Bad { why, data, .. } => verdict.keeping(why, data.clone()),
        _ => verdict,
    })
}

/// What a repair of the batch rests on, under its lock.
pub(super) fn guard(view: &BatchView) -> Vec<Op> {
    let path = BatchNode::Status.of(view.bid);
    view.status.version().map(|version| Op::check(path, version)).into_iter().collect()
}

/// The version of a lock to be removed before ours is made.
pub(super) fn lasting_lock(view: &BatchView) -> Option<i32> {
    view.lasting_lock
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::Date;

    fn whole() -> Sharded {
        Sharded { value: Seen::value(true), leftovers: Vec::new() }
    }

    fn healthy(state: BatchState) -> BatchView {
        let expansion = Expansion { next: 3, total: 3, done: true, ..Expansion::default() };
        BatchView {
            bid: Bid::new(1),
            there: true,
            status: Seen::value(BatchStatus::new(state, Date::from_millis(0))),
            submission: Seen::value(Submission::default()),
            expansion: Seen::value(expansion),
            deleting: Seen::Missing,
            manifest: whole(),
            report: whole(),
            lasting_lock: None,
            uuid: Some(("u".into(), Seen::value(Bid::new(1)))),
            key: None,
            signs: None,
        }
    }

    /// What is spoilt, how, and what is found.
    type Row = (&'static str, fn(&mut BatchView), &'static [&'static str]);

    fn codes(view: &BatchView) -> Vec<String> {
        judge(view, &Context::for_tests())
            .into_iter()
            .map(|found| format!("{}{}", found.code, if found.is_by_hand() { " by hand" } else { "" }))
            .collect()
    }

    #[test]
    fn each_node_of_a_batch_has_its_finding() {
        let table: &[Row] = &[
            ("as it should be", |_| {}, &[]),
            ("no submission", |view| view.submission = Seen::Missing, &["B02 by hand"]),
            ("no uuid", |view| view.uuid = Some(("u".into(), Seen::Missing)), &["U02"]),
            ("an unreadable uuid", |view| view.uuid = Some(("u".into(), Seen::garbage())), &["U02"]),
            (
                "a uuid that leads elsewhere",
                |view| view.uuid = Some(("u".into(), Seen::value(Bid::new(2)))),
                &["U02 by hand"],
            ),
            ("being deleted", |view| view.deleting = Seen::value(Hold::default()), &["B07 by hand"]),
            ("being deleted, by nobody knows whom", |view| view.deleting = Seen::garbage(), &["B08"]),
            ("an unreadable report", |view| view.report.value = Seen::garbage(), &["B08"]),
            ("a manifest that is not needed", |view| view.manifest.value = Seen::garbage(), &["B10"]),
            ("parts", |view| view.report.leftovers.push("x".into()), &["S04"]),
            ("a lock", |view| view.lasting_lock = Some(0), &["L01"]),
        ];
        for (name, spoil, expected) in table {
            let mut view = healthy(BatchState::Completed);
            spoil(&mut view);
            assert_eq!(codes(&view), *expected, "{name}");
        }
    }

    #[test]
    fn a_manifest_whose_rows_are_not_all_jobs_is_needed() {
        let mut view = healthy(BatchState::Processing);
        view.expansion = Seen::value(Expansion { next: 1, total: 3, ..Expansion::default() });
        assert_eq!(codes(&view), [""; 0]);
        for manifest in [Seen::garbage(), Seen::Missing, Seen::value(false)] {
            view.manifest.value = manifest;
            assert_eq!(codes(&view), ["B10 by hand"]);
        }
    }

    #[test]
    fn a_status_is_derived_only_where_nothing_is_lost_by_it() {
        let mut view = healthy(BatchState::Pending);
        view.status = Seen::Missing;
        let mut derive = |jobs, expansion, reported, dialect| {
            view.signs = Some(Signs { lists: ListsView::with_jobs(view.bid, jobs), reported });
            view.expansion = expansion;
            derived(&view, dialect)
        };
        let (design, foreign) = (Dialect::Design, Dialect::MrtZk);
        let done = || Seen::value(Expansion::default());
        assert_eq!(derive(0, Seen::Missing, false, design), Some(BatchState::Held));
        assert_eq!(derive(3, done(), false, design), Some(BatchState::Processing));
        assert_eq!(derive(3, done(), true, design), Some(BatchState::Failed));
        assert_eq!(derive(3, Seen::garbage(), false, design), None);
        assert_eq!(derive(3, Seen::Missing, false, foreign), Some(BatchState::Processing));
    }
}
