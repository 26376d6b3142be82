//! What a call has changed, held against what it may change.

use std::collections::BTreeSet;

use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map;
use ingest_queue::nodes::History;
use ingest_queue::states::{JobState, States};

use crate::model::Tree;
use crate::oracle::{Fate, Forecast, Scope};
use crate::tables::{ACCESS, BATCHES, JOBS, Row, allows};
use crate::view::{JobView, View};

/// The commits that were ever seen.
pub(crate) type Commits = BTreeSet<String>;

/// Everything about the change from one tree to the next that the call should not have done.
pub(crate) fn wrong_changes(
    (before, old): (&Tree, &View),
    (after, new): (&Tree, &View),
    told: &Forecast,
    done: bool,
    dialect: Dialect,
    commits: &mut Commits,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let poisoned = told.fate == Fate::Poisoned;
    if !done && !poisoned && before != after {
        wrong.push(format!("it was refused and has changed {:?}", differences(before, after)));
    }
    for (jid, was) in &old.jobs {
        match new.jobs.get(jid) {
            Some(is) if is == was => {}
            Some(_) if told.job != Some(*jid) && !died(was, &new.jobs[jid]) => {
                wrong.push(format!("{jid} was changed, and is none of its business"));
            }
            Some(is) => job_change(*jid, was, is, told, done, dialect, commits, &mut wrong),
            None => {
                let alone = told.job == Some(*jid) && by(JOBS, was.name(), "deleted", told, dialect);
                let with_its_batch = told.scope == Scope::Removal && told.batch == Some(was.bid);
                if !alone && !with_its_batch {
                    wrong.push(format!("{jid} was removed"));
                }
                let listed =
                    new.batches.get(&was.bid).map(|batch| batch.lists["batch-deleted"].contains(jid));
                if listed == Some(false) {
                    wrong.push(format!("{jid} was removed and is not in batch-deleted"));
                }
            }
        }
    }
    new_jobs(before, old, new, told, &mut wrong);
    batches(before, old, new, told, dialect, &mut wrong);
    access(old, new, told, dialect, &mut wrong);
    wrong
}

/// A worker died: the lock is gone and the fence has moved, nothing else.
fn died(was: &JobView, is: &JobView) -> bool {
    let same = JobView { lock: None, version: was.version + 1, ..was.clone() };
    was.lock.is_some() && same == *is
}

fn by(rows: &[Row], from: &str, to: &str, told: &Forecast, dialect: Dialect) -> bool {
    told.who.is_some_and(|who| allows(rows, from, &who.to_string(), to, dialect))
}

#[allow(clippy::too_many_arguments)] // a list of everything that is compared
fn job_change(
    jid: Jid,
    was: &JobView,
    is: &JobView,
    told: &Forecast,
    done: bool,
    dialect: Dialect,
    commits: &mut Commits,
    wrong: &mut Vec<String>,
) {
    let (from, to) = (was.state(), is.state());
    let mut must = |right: bool, what: &str| {
        if !right {
            wrong.push(format!("{jid} from {from} to {to}: {what}: {:?} became {:?}", was.status, is.status));
        }
    };
    let moved = from != to;
    if moved {
        must(by(JOBS, from.name(), to.name(), told, dialect), "not by this one");
    }
    must(is.version == was.version || is.version == was.version + 1, "more than one commit");
    let requeued = from == JobState::Failed && moved;
    must(is.status.retry_count == was.status.retry_count + u32::from(requeued), "retry_count");
    let attempt = told.attempt && done;
    must(is.status.attempt == was.status.attempt + u32::from(attempt), "attempt");
    let last = (was.status.last_successful_status, is.status.last_successful_status);
    let back = requeued || (to == JobState::Downloading && from > JobState::Downloading);
    let ahead = from.is_working() && from.success(dialect) == Some(to);
    must(
        match last {
            _ if ahead => last.1 == Some(from),
            // Only what lies before still counts.
            (was, is) if back => is <= was && is.is_none_or(|is| is < to),
            (was, is) => was == is,
        },
        "last_successful_status",
    );
    if to == JobState::Failed && moved {
        must(is.status.recoverable || from == JobState::Pending || done, "recoverable");
        must(from != JobState::Pending || !is.status.recoverable, "a payload that is not what was announced");
    }
    let entries = is.history.len().min(History::KEPT);
    let grown = is.history != was.history;
    must(grown == moved || (grown && told.noted), "a transition is in the history, and nothing else");
    if grown {
        let kept = was.history.len().min(History::KEPT - 1);
        must(entries == kept + 1, "one entry for one transition");
        must(was.history.ends_with(&is.history[..entries - 1]), "the past has changed");
        let entry = &is.history[entries - 1];
        must(entry.from == Some(from) && entry.to == to, "the entry says something else");
        must(commits.insert(entry.commit.clone()), "a commit of its own");
    }
}

/// Jobs are made only by an expansion, at the counter.
fn new_jobs(before: &Tree, old: &View, new: &View, told: &Forecast, wrong: &mut Vec<String>) {
    let made: Vec<Jid> = new.jobs.keys().filter(|jid| !old.jobs.contains_key(jid)).copied().collect();
    let next = u32::try_from(before.stat(map::JOBS).unwrap().next_sequence()).unwrap();
    let wanted: Vec<Jid> = (0..).map(|n| Jid::new(next + n)).take(made.len()).collect();
    if made != wanted || (!made.is_empty() && told.scope != Scope::Jobs) {
        wrong.push(format!("{made:?} were made when the counter was at {next}"));
    }
    for job in made.iter().map(|jid| &new.jobs[jid]) {
        let fresh = job.state() == JobState::Pending && job.status.attempt == 0 && job.history.is_empty();
        if !fresh || Some(job.bid) != told.batch {
            wrong.push(format!("a new job is {job:?}"));
        }
    }
}

fn batches(
    before: &Tree,
    old: &View,
    new: &View,
    told: &Forecast,
    dialect: Dialect,
    wrong: &mut Vec<String>,
) {
    for (bid, was) in &old.batches {
        let from = was.status.status.name();
        let Some(is) = new.batches.get(bid) else {
            let allowed = was.deleting || by(BATCHES, from, "deleted", told, dialect);
            if !(allowed && told.scope == Scope::Removal && told.batch == Some(*bid)) {
                wrong.push(format!("{bid} was removed"));
            }
            continue;
        };
        let to = is.status.status.name();
        if from != to && !(told.batch == Some(*bid) && by(BATCHES, from, to, told, dialect)) {
            wrong.push(format!("{bid} went from {from} to {to} by {:?}", told.who));
        }
        if is.version > was.version + 1 {
            wrong.push(format!("{bid} was committed more than once"));
        }
    }
    let made: Vec<Bid> = new.batches.keys().filter(|bid| !old.batches.contains_key(bid)).copied().collect();
    let next = u32::try_from(before.stat(map::BATCHES).unwrap().next_sequence()).unwrap();
    let one = told.scope == Scope::Batch && made == [Bid::new(next)];
    if !made.is_empty() && !one {
        wrong.push(format!("{made:?} were made when the counter was at {next}"));
    }
}

fn access(old: &View, new: &View, told: &Forecast, dialect: Dialect, wrong: &mut Vec<String>) {
    for (id, was) in &old.access {
        let from = was.status.status.name();
        let to = new.access.get(id).map_or("deleted", |is| is.status.status.name());
        if from != to && !by(ACCESS, from, to, told, dialect) {
            wrong.push(format!("{id:?} went from {from} to {to} by {:?}", told.who));
        }
    }
}

fn differences(before: &Tree, after: &Tree) -> Vec<String> {
    let old: BTreeSet<_> = before.nodes().map(|(path, node)| format!("{path} {node:?}")).collect();
    let new: BTreeSet<_> = after.nodes().map(|(path, node)| format!("{path} {node:?}")).collect();
    old.symmetric_difference(&new).cloned().collect()
}
