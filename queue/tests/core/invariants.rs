//! What holds in every tree, whatever has happened to it. Written from the design, and not from the code.

use std::collections::{BTreeMap, BTreeSet};

use ingest_queue::dialect::Dialect;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, AccessSize};
use ingest_queue::states::{BatchList, BatchState, JobState};

use crate::model::{ModelEngine, Tree};
use crate::tables::{self, JOBS};
use crate::view::{JobView, View};

/// Everything that is wrong with this tree.
pub(crate) fn broken(engine: &ModelEngine, view: &View, dialect: Dialect) -> Vec<String> {
    let tree = engine.tree();
    let mut wrong = Vec::new();
    for (jid, job) in &view.jobs {
        job_is_where_it_says(*jid, job, &mut wrong);
        job_is_in_its_batch(*jid, job, view, &mut wrong);
        history_is_a_chain(*jid, job, dialect, &mut wrong);
    }
    refs_name_jobs(&tree, view, &mut wrong);
    batches_are_whole(&tree, view, &mut wrong);
    uuids_and_batches_agree(&tree, view, &mut wrong);
    locks_have_owners(engine, &tree, view, &mut wrong);
    numbers_are_at_the_counter(&tree, view, &mut wrong);
    wrong
}

/// Exactly one queue ref, with its own state and priority; none once it is cleaned.
fn job_is_where_it_says(jid: Jid, job: &JobView, wrong: &mut Vec<String>) {
    let at: Vec<_> = job.refs.iter().map(|entry| entry.path()).collect();
    let wanted = format!("/jobs/states/{}/{:02}-{jid}", job.name(), job.priority);
    let cleaned = job.state() == JobState::Completed && at.is_empty();
    if at != [wanted.clone()] && !cleaned {
        wrong.push(format!("{jid} should be at {wanted} alone, and is at {at:?}"));
    }
}

/// Exactly one list of its batch, the right one.
fn job_is_in_its_batch(jid: Jid, job: &JobView, view: &View, wrong: &mut Vec<String>) {
    let list = match job.state() {
        JobState::Completed => "batch-completed",
        JobState::Failed => "batch-failed",
        _ => "batch-processing",
    };
    let Some(batch) = view.batches.get(&job.bid) else {
        wrong.push(format!("{jid} is of {}, which is not there", job.bid));
        return;
    };
    let lists: Vec<_> =
        batch.lists.iter().filter(|(_, jobs)| jobs.contains(&jid)).map(|(name, _)| *name).collect();
    if lists != [list] {
        wrong.push(format!("{jid} is {} and in {lists:?} of its batch", job.name()));
    }
}

/// Each transition begins where the one before it ended, is in the table, and has a commit of its own.
fn history_is_a_chain(jid: Jid, job: &JobView, dialect: Dialect, wrong: &mut Vec<String>) {
    let mut commits = BTreeSet::new();
    let mut at = job.history.first().and_then(|entry| entry.from).unwrap_or(job.state());
    for entry in &job.history {
        let from = entry.from.unwrap();
        let is_move = from != entry.to;
        if from != at {
            wrong.push(format!("{jid} went from {from} when it was {at}"));
        }
        if is_move && tables::who(JOBS, &from.to_string(), &entry.to.to_string(), dialect).is_empty() {
            wrong.push(format!("{jid} went from {from} to {}, which is in no table", entry.to));
        }
        if !commits.insert(&entry.commit) {
            wrong.push(format!("{jid} has two transitions of the commit {}", entry.commit));
        }
        at = entry.to;
    }
    if at != job.state() {
        wrong.push(format!("{jid} is {} and its history ends in {at}", job.state()));
    }
}

/// A ref names a job that is there; in `batch-deleted` one that is not.
fn refs_name_jobs(tree: &Tree, view: &View, wrong: &mut Vec<String>) {
    for state in tree.children(map::JOB_STATES) {
        for name in tree.children(&format!("{}/{state}", map::JOB_STATES)) {
            let jid = name.split_once('-').and_then(|(_, jid)| jid.parse::<Jid>().ok());
            if jid.is_none_or(|jid| !view.jobs.contains_key(&jid)) {
                wrong.push(format!("{state}/{name} names no job"));
            }
        }
    }
    for (bid, batch) in &view.batches {
        for (list, jobs) in &batch.lists {
            for jid in jobs {
                let is_ours = view.jobs.get(jid).map(|job| job.bid == *bid);
                let wanted = if *list == "batch-deleted" { None } else { Some(true) };
                if is_ours != wanted {
                    wrong.push(format!("{bid} has {jid} in {list}, and its job is {is_ours:?}"));
                }
            }
        }
    }
}

/// As many jobs as rows were expanded, and lists that fit the state.
fn batches_are_whole(tree: &Tree, view: &View, wrong: &mut Vec<String>) {
    for (bid, batch) in view.batches.iter().filter(|(_, batch)| !batch.deleting) {
        let state = batch.status.status;
        let jobs: usize = batch.lists.values().map(BTreeSet::len).sum();
        let rows = batch.expansion.as_ref().map_or(0, |expansion| expansion.next);
        if jobs as u64 != rows {
            wrong.push(format!("{bid} has {rows} rows expanded and {jobs} jobs"));
        }
        let ended = batch.expansion.as_ref().is_some_and(|expansion| expansion.done);
        let fits = match state {
            BatchState::Pending | BatchState::Held => batch.expansion.is_none(),
            BatchState::Processing => batch.expansion.is_some(),
            BatchState::Reporting | BatchState::UpdateReporting => {
                (ended || jobs == 0) && batch.list(BatchList::Processing).is_empty()
            }
            BatchState::Completed => {
                ended
                    && jobs > 0
                    && batch.list(BatchList::Processing).is_empty()
                    && batch.list(BatchList::Failed).is_empty()
            }
            BatchState::Failed => ended || batch.expansion.is_none(),
            BatchState::Deleted => false,
        };
        if !fits {
            wrong.push(format!("{bid} is {state} with {:?} and {:?}", batch.expansion, batch.lists));
        }
    }
    for name in tree.children(map::OUTBOX) {
        let batch = name.split_once('-').and_then(|(bid, _)| bid.parse::<Bid>().ok());
        let batch = batch.and_then(|bid| view.batches.get(&bid));
        // One that failed before it had jobs owes its first report.
        let owes = batch.is_some_and(|batch| {
            name.ends_with("-1") && batch.status.status == BatchState::Failed && batch.expansion.is_none()
        });
        if !owes && batch.is_none_or(|batch| !batch.status.status.is_reporting()) {
            wrong.push(format!("the outbox has {name}, whose batch is not reporting"));
        }
    }
}

fn uuids_and_batches_agree(tree: &Tree, view: &View, wrong: &mut Vec<String>) {
    let uuids: BTreeMap<String, String> = tree
        .children(map::BATCH_UUIDS)
        .map(|uuid| {
            (uuid.to_owned(), String::from_utf8_lossy(&tree.get(&map::batch_uuid(uuid)).unwrap().data).into())
        })
        .collect();
    let batches: BTreeMap<String, String> = view
        .batches
        .iter()
        .map(|(bid, batch)| (batch.submission.other["uuid"].as_str().unwrap().to_owned(), bid.to_string()))
        .collect();
    if uuids != batches {
        wrong.push(format!("the uuids are {uuids:?}, and those of the batches {batches:?}"));
    }
}

/// Every lock is of a session that lives, on a job that is being worked on.
fn locks_have_owners(engine: &ModelEngine, tree: &Tree, view: &View, wrong: &mut Vec<String>) {
    let live = engine.live_sessions();
    for (path, node) in tree.nodes() {
        if path.ends_with("/lock") && !live.contains(&node.owner) {
            wrong.push(format!("{path} is of {}, which is over", node.owner));
        }
    }
    for (jid, job) in view.jobs.iter().filter(|(_, job)| job.lock.is_some()) {
        if !job.state().is_taken_from() || job.status.start_processing_date.is_none() {
            wrong.push(format!("{jid} is locked and {:?}", job.status));
        }
    }
}

/// Ids lie below the counter of their directory: none is ahead of it.
fn numbers_are_at_the_counter(tree: &Tree, view: &View, wrong: &mut Vec<String>) {
    let below = |dir: &str, numbers: Vec<u32>| {
        let next = tree.stat(dir).unwrap().next_sequence();
        numbers.into_iter().filter(|number| i64::from(*number) >= i64::from(next)).collect::<Vec<_>>()
    };
    let mut ahead = below(map::JOBS, view.jobs.keys().map(|jid| jid.number()).collect());
    ahead.extend(below(map::BATCHES, view.batches.keys().map(|bid| bid.number()).collect()));
    for size in AccessSize::ALL {
        let items = view.access.keys().filter(|(of, _)| *of == size);
        ahead.extend(below(&size.dir(), items.map(|(_, aid)| aid.number()).collect()));
    }
    if !ahead.is_empty() {
        wrong.push(format!("{ahead:?} are ahead of the counter"));
    }
}
