//! The lists of a batch against its status and its expansion: how many jobs it has, and whether it may
//! have any that run.
//!
//! A batch whose jobs move all the time is never twice the same: it is then not judged, and counted as
//! unsettled.

use std::collections::HashSet;

use futures::future::{try_join_all, try_join3};
use ingest_store::Op;

use super::Context;
use super::code::Code;
use super::finding::{Fix, Verdict};
use super::reader::{Reader, Seen};
use crate::dialect::Dialect;
use crate::error::Result;
use crate::ids::{Bid, Jid};
use crate::map::{self, BatchNode, JobNode};
use crate::nodes::{BatchStatus, Expansion, JobStatus, Node};
use crate::states::{BatchList, BatchState};

/// The lists of a batch as they were seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListsView {
    bid: Bid,
    status: Seen<BatchStatus>,
    expansion: Seen<Expansion>,
    deleting: bool,
    /// How many refs each has, and its last change; `None` if it is not there. In the order of
    /// [`BatchList::ALL`].
    lists: [Option<(usize, i64)>; 4],
    /// Over all lists, each once.
    jobs: usize,
    /// Those that the expansion does not name, if it names any.
    unnamed: usize,
    /// Of a batch that has ended: refs in `batch-processing` of jobs that have, too. They are taken out one by one.
    stale: usize,
}

/// What the lists hold.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) refs: Vec<(Jid, BatchList)>,
    /// Paths of what is no ref.
    pub(super) strays: Vec<String>,
    /// Paths of what is no list.
    pub(super) unknown: Vec<String>,
}

impl ListsView {
    pub(super) fn bid(&self) -> Bid {
        self.bid
    }

    pub(super) fn jobs(&self) -> usize {
        self.jobs
    }

    fn running(&self) -> usize {
        let lists = BatchList::ALL.into_iter().zip(self.lists);
        let running = lists.filter(|(list, _)| *list == BatchList::Processing);
        running.filter_map(|(_, seen)| seen.map(|(count, _)| count)).sum::<usize>().saturating_sub(self.stale)
    }

    fn has(&self, list: BatchList) -> bool {
        BatchList::ALL.into_iter().zip(self.lists).any(|(known, seen)| known == list && seen.is_some())
    }

    #[cfg(test)]
    pub(super) fn with_jobs(bid: Bid, jobs: usize) -> Self {
        let (status, expansion) = (Seen::Missing, Seen::Missing);
        Self { bid, status, expansion, deleting: false, lists: [Some((0, 0)); 4], jobs, unnamed: 0, stale: 0 }
    }
}

pub(super) async fn look(reader: &Reader, bid: Bid) -> Result<(ListsView, Listed)> {
    let status = reader.read::<BatchStatus>(&BatchNode::Status.of(bid)).await?;
    let (expansion_at, deleting_at) = (BatchNode::Expansion.of(bid), BatchNode::Deleting.of(bid));
    let dir = BatchNode::States.of(bid);
    let (expansion, deleting, names) =
        try_join3(reader.read::<Expansion>(&expansion_at), reader.stat(&deleting_at), reader.names(&dir))
            .await?;
    let names = names.map(|(names, _)| names).unwrap_or_default();
    let mut listed = Listed::default();
    let is_list = |name: &&String| BatchList::ALL.iter().any(|list| list.name() == name.as_str());
    listed.unknown = names.iter().filter(|name| !is_list(name)).map(|name| format!("{dir}/{name}")).collect();
    let reads = BatchList::ALL.map(|list| async move { reader.names(&map::batch_list(bid, list)).await });
    let mut lists = [None; 4];
    let mut jobs = HashSet::new();
    for ((list, seen), read) in BatchList::ALL.into_iter().zip(&mut lists).zip(try_join_all(reads).await?) {
        let Some((names, stat)) = read else {
            continue;
        };
        *seen = Some((names.len(), stat.pzxid));
        for name in names {
            if let Ok(jid) = name.parse::<Jid>() {
                jobs.insert(jid);
                listed.refs.push((jid, list));
            } else {
                listed.strays.push(format!("{}/{name}", map::batch_list(bid, list)));
            }
        }
    }
    let numbers = expansion.good().map(|expansion| &expansion.numbers).filter(|numbers| !numbers.is_empty());
    let unnamed = numbers.map_or(0, |numbers| jobs.iter().filter(|jid| !numbers.contains(**jid)).count());
    let (deleting, jobs) = (deleting.is_some(), jobs.len());
    let mut stale = 0;
    if status.good().is_some_and(|status| ended(status.status)) {
        for (jid, _) in listed.refs.iter().filter(|(_, list)| *list == BatchList::Processing) {
            let of_job = reader.read::<JobStatus>(&JobNode::Status.of(*jid)).await?;
            stale += usize::from(of_job.good().is_some_and(|job| job.status.list() != BatchList::Processing));
        }
    }
    Ok((ListsView { bid, status, expansion, deleting, lists, jobs, unnamed, stale }, listed))
}

pub(super) fn judge(view: &ListsView, context: &Context) -> Vec<Verdict> {
    // Without a status nothing is expected, and half a deletion has any number of jobs.
    let Some(status) = view.status.good().filter(|_| !view.deleting) else {
        return Vec::new();
    };
    let (bid, state, jobs) = (view.bid, status.status, view.jobs);
    let mut found = Vec::new();
    if matches!(state, BatchState::Pending | BatchState::Held) {
        if jobs > 0 {
            let what = format!("{bid} is {state} and has {jobs} jobs");
            let fix = Fix::Person(Code::EarlyJobs.repair());
            found.push(Verdict::new(Code::EarlyJobs, BatchNode::States.of(bid), what, fix));
        }
        return found;
    }
    match &view.expansion {
        Seen::Good { value, .. } => {
            found.extend(count(view, state, value));
            found.extend(numbers(view, value, context));
        }
        _ => found.extend(expansion(view, state, context)),
    }
    if ended(state) && view.running() > 0 {
        found.push(running(view, status, context));
    }
    let expanded = view.expansion.good().is_some();
    if state == BatchState::Processing && expanded && !view.has(BatchList::Processing) {
        let path = map::batch_list(bid, BatchList::Processing);
        let what = format!("{bid} is {state} and has no {}", BatchList::Processing.name());
        found.push(Verdict::new(Code::NoList, path, what, Fix::Write { version: None, data: "".into() }));
    }
    found
}

fn ended(state: BatchState) -> bool {
    matches!(state, BatchState::Reporting | BatchState::UpdateReporting | BatchState::Completed)
}

fn count(view: &ListsView, state: BatchState, expansion: &Expansion) -> Option<Verdict> {
    let (bid, jobs) = (view.bid, view.jobs);
    let Expansion { next, total, done, .. } = expansion;
    let what = if jobs as u64 != *next {
        format!("{next} rows of {bid} have become jobs, and its lists name {jobs}")
    } else if next > total || (*done && next != total) {
        format!("the expansion of {bid} has come to row {next} of {total}, done: {done}")
    } else if !done && ended(state) {
        format!("{bid} is {state}, and only {next} of its {total} rows have become jobs")
    } else {
        return None;
    };
    let fix = Fix::Person(Code::JobCount.repair());
    Some(Verdict::new(Code::JobCount, BatchNode::Expansion.of(bid), what, fix))
}

/// They are a help, and nothing is lost with them.
fn numbers(view: &ListsView, expansion: &Expansion, context: &Context) -> Option<Verdict> {
    let (bid, Expansion { next, numbers, .. }) = (view.bid, expansion);
    let what = if numbers.is_empty() {
        return None;
    } else if !numbers.is_sound() {
        format!("the expansion of {bid} names a number twice, or one that cannot be")
    } else if numbers.count() != *next {
        format!("the expansion of {bid} names {} numbers for {next} jobs", numbers.count())
    } else if view.unnamed > 0 {
        format!("{} jobs of {bid} have numbers that its expansion does not name", view.unnamed)
    } else {
        return None;
    };
    let without = Expansion {
        numbers: crate::nodes::Numbers::default(),
        commit: context.commit.clone(),
        ..expansion.clone()
    };
    let fix = Fix::Write { version: view.expansion.version(), data: without.write(context.dialect) };
    Some(Verdict::new(Code::Numbers, BatchNode::Expansion.of(bid), what, fix))
}

/// Past processing the expansion was done, so the jobs tell all of it.
fn expansion(view: &ListsView, state: BatchState, context: &Context) -> Option<Verdict> {
    let (bid, jobs) = (view.bid, view.jobs as u64);
    let missing = view.expansion.is_missing();
    let never_expanded = matches!(state, BatchState::Failed | BatchState::Deleted) && jobs == 0;
    if missing && (context.dialect == Dialect::MrtZk || never_expanded) {
        return None;
    }
    let what = format!("the expansion of {bid} {}", view.expansion.trouble()?);
    let fix = if state == BatchState::Processing {
        Fix::Person("none: a person must look; nothing else says which rows have become jobs")
    } else {
        let commit = context.commit.clone();
        let rebuilt = Expansion { next: jobs, total: jobs, done: true, commit, ..Expansion::default() };
        Fix::Write { version: view.expansion.version(), data: rebuilt.write(context.dialect) }
    };
    let verdict = Verdict::new(Code::Expansion, BatchNode::Expansion.of(bid), what, fix);
    Some(match &view.expansion {
        Seen::Bad { why, data, .. } => verdict.keeping(why, data.clone()),
        _ => verdict,
    })
}

/// The report has yet to come, or it was sent: then a person asks for another, as for any failed batch.
fn running(view: &ListsView, status: &BatchStatus, context: &Context) -> Verdict {
    let (bid, state, jobs) = (view.bid, status.status, view.running());
    let what = format!("{bid} is {state} and has {jobs} jobs in {}", BatchList::Processing.name());
    let back = if state == BatchState::Reporting { BatchState::Processing } else { BatchState::Failed };
    let message = format!("was {state} with {jobs} jobs that had not ended");
    let next = status.next(back, context.now, &message, &context.commit);
    let fix = Fix::Write { version: view.status.version(), data: next.write(context.dialect) };
    Verdict::new(Code::RunningJobs, BatchNode::Status.of(bid), what, fix)
}

/// What a repair rests on, under the lock of the batch. The lists themselves may move on.
pub(super) fn guard(view: &ListsView) -> Vec<Op> {
    let path = BatchNode::Status.of(view.bid);
    view.status.version().map(|version| Op::check(path, version)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::Date;

    fn view(state: BatchState, counts: [usize; 4], expansion: Seen<Expansion>) -> ListsView {
        ListsView {
            bid: Bid::new(1),
            status: Seen::value(BatchStatus::new(state, Date::from_millis(0))),
            expansion,
            deleting: false,
            lists: counts.map(|count| Some((count, 0))),
            jobs: counts.iter().sum(),
            unnamed: 0,
            stale: 0,
        }
    }

    fn at(next: u64, total: u64) -> Seen<Expansion> {
        Seen::value(Expansion { next, total, done: next == total, ..Expansion::default() })
    }

    fn codes(view: &ListsView, dialect: Dialect) -> Vec<String> {
        judge(view, &Context { dialect, ..Context::for_tests() })
            .into_iter()
            .map(|found| format!("{}{}", found.code, if found.is_by_hand() { " by hand" } else { "" }))
            .collect()
    }

    #[test]
    fn the_jobs_of_a_batch_fit_its_status_and_its_expansion() {
        use BatchState::{Completed, Failed, Held, Pending, Processing, Reporting, UpdateReporting};
        let garbage = Seen::garbage;
        let table = [
            (Pending, [0, 0, 0, 0], Seen::Missing, &[][..]),
            (Held, [1, 0, 0, 0], Seen::Missing, &["B05 by hand"]),
            (Processing, [2, 1, 0, 1], at(4, 9), &[]),
            (Processing, [2, 1, 0, 0], at(4, 9), &["B04 by hand"]),
            (Processing, [2, 0, 0, 0], Seen::Missing, &["B03 by hand"]),
            (Processing, [2, 0, 0, 0], garbage(), &["B03 by hand"]),
            (Reporting, [0, 1, 1, 0], at(2, 2), &[]),
            (Reporting, [1, 0, 1, 0], at(2, 2), &["B06"]),
            (UpdateReporting, [1, 0, 1, 0], at(2, 2), &["B06"]),
            (Completed, [1, 0, 1, 0], at(2, 2), &["B06"]),
            (Completed, [0, 0, 2, 0], Seen::Missing, &["B03"]),
            (Completed, [0, 0, 2, 0], at(2, 3), &["B04 by hand"]),
            (Failed, [1, 0, 1, 0], at(2, 2), &[]),
            (Failed, [0, 0, 0, 0], Seen::Missing, &[]),
            (Failed, [0, 1, 0, 0], Seen::Missing, &["B03"]),
            (Failed, [0, 0, 0, 0], garbage(), &["B03"]),
        ];
        for (state, counts, expansion, expected) in table {
            let view = view(state, counts, expansion);
            assert_eq!(codes(&view, Dialect::Design), expected, "{view:?}");
        }
    }

    #[test]
    fn the_numbers_of_an_expansion_are_those_of_its_jobs_or_are_left_out() {
        use crate::nodes::Numbers;
        let named = |numbers: Numbers| {
            let expansion = Expansion { next: 3, total: 3, done: true, numbers, ..Expansion::default() };
            view(BatchState::Completed, [0, 1, 2, 0], Seen::value(expansion))
        };
        let runs = |text: &str| serde_json::from_str::<Numbers>(text).unwrap();
        let mut good = named(runs("[[4,2],[9,1]]"));
        assert_eq!(codes(&good, Dialect::Design), [""; 0]);
        assert_eq!(codes(&named(Numbers::default()), Dialect::Design), [""; 0]);
        for wrong in ["[[4,2]]", "[[4,4]]", "[[4,2],[5,1]]"] {
            assert_eq!(codes(&named(runs(wrong)), Dialect::Design), ["B11"], "{wrong}");
        }
        good.unnamed = 1;
        assert_eq!(codes(&good, Dialect::Design), ["B11"]);
    }

    #[test]
    fn a_batch_of_the_other_dialect_needs_no_expansion() {
        let mut foreign = view(BatchState::Completed, [0, 0, 2, 0], Seen::Missing);
        assert_eq!(codes(&foreign, Dialect::MrtZk), [""; 0]);
        foreign.lists = [None; 4];
        foreign.jobs = 0;
        assert_eq!(codes(&foreign, Dialect::MrtZk), [""; 0]);
    }

    #[test]
    fn a_batch_that_is_being_deleted_may_have_any_number_of_jobs() {
        let mut half = view(BatchState::Completed, [1, 0, 0, 0], at(2, 2));
        half.deleting = true;
        assert_eq!(codes(&half, Dialect::Design), [""; 0]);
    }

    #[test]
    fn a_batch_without_the_list_of_running_jobs_cannot_end() {
        let mut batch = view(BatchState::Processing, [0, 0, 2, 0], at(2, 2));
        batch.lists[0] = None;
        assert_eq!(codes(&batch, Dialect::Design), ["B09"]);
    }
}
