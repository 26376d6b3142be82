//! How a job is put right: all of it in one multi, under its lock, at the version of its status.
//!
//! Its status decides. A status that nobody can read is rebuilt if its queue and its history agree, or
//! else the job fails: nothing of it is lost, its batch can end, and a person can requeue it. What was
//! unreadable is in the quarantine, and the history tells what was done.

use ingest_store::Op;

use super::JobView;
use super::judge::{may_leave_its_queue, own_ref};
use crate::dialect::Dialect;
use crate::fsck::Context;
use crate::fsck::finding::Kept;
use crate::fsck::quarantine;
use crate::fsck::reader::Seen;
use crate::ids::Bid;
use crate::map::{self, JobNode, QueueRef};
use crate::nodes::{Entry, History, JobStatus, Node, Number, Other};
use crate::states::{BatchList, JobState, States};

/// One multi, and what it needs.
#[derive(Debug)]
pub(in crate::fsck) struct Plan {
    pub(in crate::fsck) ops: Vec<Op>,
    /// The lists that it puts refs into: they are made first if they are not there.
    pub(in crate::fsck) lists: Vec<(Bid, BatchList)>,
    /// For people.
    pub(in crate::fsck) what: String,
}

/// What puts a job right, if something of it is wrong.
pub(in crate::fsck) fn plan(view: &JobView, context: &Context) -> Plan {
    if view.there { mend(view, context) } else { bury(view) }
}

/// A job that is gone is forgotten by the queues, and its batch remembers that it was deleted.
fn bury(view: &JobView) -> Plan {
    let jid = view.jid;
    let mut ops: Vec<Op> = view.queue.iter().map(|entry| Op::delete(entry.path(), None)).collect();
    let mut lists = Vec::new();
    for (bid, list) in view.lists.iter().filter(|(_, list)| *list != BatchList::Deleted) {
        ops.push(Op::delete(map::batch_ref(*bid, *list, jid), None));
        let deleted = (*bid, BatchList::Deleted);
        if !view.lists.contains(&deleted) && !lists.contains(&deleted) {
            lists.push(deleted);
        }
    }
    ops.extend(lists.iter().map(|(bid, list)| Op::create(map::batch_ref(*bid, *list, jid), "")));
    Plan { ops, lists, what: format!("{jid} is gone, and what named it is removed") }
}

fn mend(view: &JobView, context: &Context) -> Plan {
    let jid = view.jid;
    let mut work = Work { view, context, ops: Vec::new(), kept: Vec::new(), done: Vec::new() };
    let status = work.status();
    work.nodes(status.status);
    let lists = work.refs(&status);
    let what = work.done.join("; ");
    work.history(&status, &what);

    let lock = JobNode::Lock.of(jid);
    let mut ops: Vec<Op> =
        view.lasting_lock.map(|version| Op::delete(lock.as_str(), version)).into_iter().collect();
    ops.push(Op::ephemeral(lock.as_str(), context.owner()));
    // Always set, so that whoever has read the job before reads it again.
    let data = status.write(context.dialect);
    ops.push(match view.status.version() {
        Some(version) => Op::set(JobNode::Status.of(jid), data, version),
        None => Op::create(JobNode::Status.of(jid), data),
    });
    // The refs rest on it as well.
    if let Seen::Good { found, .. } = &view.priority {
        ops.push(Op::check(JobNode::Priority.of(jid), found.version));
    }
    let kept = work.kept.len();
    ops.extend(work.kept.iter().map(|(path, keep)| quarantine::op(path, keep, kept, context)));
    ops.append(&mut work.ops);
    ops.push(Op::delete(lock, None));
    Plan { ops, lists, what }
}

struct Work<'a> {
    view: &'a JobView,
    context: &'a Context,
    ops: Vec<Op>,
    kept: Vec<(String, Kept)>,
    done: Vec<String>,
}

impl Work<'_> {
    /// Keeps what cannot be read.
    fn keep<T>(&mut self, node: JobNode, seen: &Seen<T>) {
        if let Seen::Bad { why, data, .. } = seen {
            let path = node.of(self.view.jid);
            self.done.push(format!(
                "unreadable {} is in {}",
                node.name(),
                quarantine::place(&path, self.context)
            ));
            self.kept.push((path, Kept { why: why.clone(), data: data.clone() }));
        }
    }

    /// The status that the job has from now on.
    fn status(&mut self) -> JobStatus {
        let view = self.view;
        self.keep(JobNode::Status, &view.status);
        self.keep(JobNode::Configuration, &view.configuration);
        if let Seen::Bad { found, .. } = &view.configuration {
            self.ops.push(Op::delete(JobNode::Configuration.of(view.jid), found.version));
        }
        let known = view.status.good().cloned();
        if view.configuration.good().is_none() && !view.failed_for_good() {
            let why =
                trouble("configuration", &view.configuration, view, JobNode::Configuration, self.context);
            self.done.push("failed without its configuration".into());
            return JobStatus { recoverable: false, ..self.failed(known, why) };
        }
        if let Some(status) = known {
            return status;
        }
        if let Some(status) = rebuilt(view, self.context) {
            self.done.push(format!("status rebuilt as {} from queue and history", status.status));
            return status;
        }
        let why = trouble("status", &view.status, view, JobNode::Status, self.context);
        self.done.push("failed, as its status is not known".into());
        self.failed(None, why)
    }

    fn failed(&self, known: Option<JobStatus>, message: String) -> JobStatus {
        let new = || JobStatus::new(JobState::Failed, self.context.now);
        JobStatus {
            status: JobState::Failed,
            last_modification_date: Some(self.context.now),
            message,
            start_processing_date: None,
            ..known.unwrap_or_else(new)
        }
    }

    fn nodes(&mut self, state: JobState) {
        let (view, jid) = (self.view, self.view.jid);
        if let (None, Some(bid)) = (view.bid.good(), view.home()) {
            self.keep(JobNode::Bid, &view.bid);
            self.ops.push(match view.bid.version() {
                Some(version) => Op::set(JobNode::Bid.of(jid), bid.to_string(), version),
                None => Op::create(JobNode::Bid.of(jid), bid.to_string()),
            });
            self.done.push(format!("bid is {bid}"));
        }
        if let Seen::Bad { data, found, .. } = &view.priority {
            self.keep(JobNode::Priority, &view.priority);
            let priority = self.own(state, data).priority;
            let number = Number(i64::from(priority.number())).write(self.context.dialect);
            self.ops.push(Op::set(JobNode::Priority.of(jid), number, found.version));
            self.done.push(format!("priority is {priority}"));
        }
        for (node, seen) in &view.unreadable {
            self.keep(*node, seen);
            if let Seen::Bad { found, .. } = seen {
                self.ops.push(Op::delete(node.of(jid), found.version));
            }
        }
    }

    /// Where the job belongs from now on: a number out of range is brought into it.
    fn own(&self, state: JobState, priority: &[u8]) -> QueueRef {
        let own = own_ref(self.view, state);
        match Number::read(priority) {
            Ok(Number(number)) if !self.view.queue.contains(&own) => {
                QueueRef { priority: map::Priority::nearest(number), ..own }
            }
            _ => own,
        }
    }

    fn refs(&mut self, status: &JobStatus) -> Vec<(Bid, BatchList)> {
        let (view, jid, state) = (self.view, self.view.jid, status.status);
        if JobState::queues(self.context.dialect).any(|known| known == state) {
            let own = match &view.priority {
                Seen::Bad { data, .. } => self.own(state, data),
                _ => own_ref(view, state),
            };
            let wrong: Vec<_> = view.queue.iter().filter(|entry| **entry != own).collect();
            // A job that was moved half way goes the other half, and is cleaned up in its time.
            let needed = !may_leave_its_queue(state) || !wrong.is_empty();
            for entry in wrong {
                self.ops.push(Op::delete(entry.path(), None));
                self.done.push(format!("taken out of the queue {} {}", entry.state, entry.priority));
            }
            if needed && !view.queue.contains(&own) {
                self.ops.push(Op::create(own.path(), ""));
                self.done.push(format!("put into the queue {} {}", own.state, own.priority));
            } else if needed && state.is_taken_from() {
                // Whoever has put it aside because it could not be read hears of it, and takes it.
                self.ops.extend([Op::delete(own.path(), None), Op::create(own.path(), "")]);
            }
        }
        let Some(home) = view.live_home() else {
            return Vec::new();
        };
        let own = (home, state.list());
        for (bid, list) in view.lists.iter().filter(|entry| **entry != own) {
            self.ops.push(Op::delete(map::batch_ref(*bid, *list, jid), None));
            self.done.push(format!("taken out of {} of {bid}", list.name()));
        }
        if view.lists.contains(&own) {
            return Vec::new();
        }
        self.ops.push(Op::create(map::batch_ref(home, own.1, jid), ""));
        self.done.push(format!("put into {} of {home}", own.1.name()));
        vec![own]
    }

    fn history(&mut self, status: &JobStatus, message: &str) {
        let (view, context) = (self.view, self.context);
        self.keep(JobNode::History, &view.history);
        let entry = Entry {
            at: context.now,
            from: view.status.good().map(|status| status.status),
            to: status.status,
            node: context.who.clone(),
            attempt: status.attempt,
            commit: context.commit.clone(),
            message: format!("fsck: {message}"),
            other: Other::new(),
        };
        let history = view.history.good().cloned().unwrap_or_default().and(entry);
        let (path, data) = (JobNode::History.of(view.jid), History::write(&history, context.dialect));
        self.ops.push(match view.history.version() {
            Some(version) => Op::set(path, data, version),
            None => Op::create(path, data),
        });
    }
}

/// What a person reads in the status.
fn trouble<T>(name: &str, seen: &Seen<T>, view: &JobView, node: JobNode, context: &Context) -> String {
    match seen {
        Seen::Bad { .. } => {
            format!("its {name} was unreadable; see {}", quarantine::place(&node.of(view.jid), context))
        }
        _ => format!("its {name} was missing"),
    }
}

/// The status as the history tells it, if the queue says the same.
fn rebuilt(view: &JobView, context: &Context) -> Option<JobStatus> {
    let history = view.history.good()?;
    let last = history.entries.last()?;
    let mut queue = view.queue.iter();
    let agreed = match (queue.next(), queue.next()) {
        (Some(only), None) => only.state == last.to,
        // Cleaned up: its batch knows.
        (None, _) => {
            last.to == JobState::Completed
                && view.lists.iter().map(|(_, list)| *list).eq([BatchList::Completed])
        }
        _ => false,
    };
    agreed.then(|| JobStatus {
        last_successful_status: last_success(history, context.dialect),
        attempt: last.attempt,
        message: last.message.clone(),
        ..JobStatus::new(last.to, last.at)
    })
}

fn last_success(history: &History, dialect: Dialect) -> Option<JobState> {
    history.entries.iter().rev().find_map(|entry| {
        entry.from.filter(|from| from.is_working() && from.success(dialect) == Some(entry.to))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bid, healthy, jid, priority};
    use super::*;
    use crate::date::Date;

    fn entry(from: JobState, to: JobState) -> Entry {
        let (node, commit, message) = ("n".to_owned(), "c".to_owned(), String::new());
        let (at, from, other) = (Date::from_millis(9), Some(from), Other::new());
        Entry { at, from, to, node, attempt: 4, commit, message, other }
    }

    fn written(plan: &Plan) -> JobStatus {
        let data = plan.ops.iter().find_map(|op| match op {
            Op::Set { path, data, .. } | Op::Create { path, data, .. } if path.ends_with("/status") => {
                Some(data)
            }
            _ => None,
        });
        JobStatus::read(data.expect("the status is always written")).unwrap()
    }

    fn has(plan: &Plan, wanted: &Op) -> bool {
        plan.ops.contains(wanted)
    }

    fn planned(view: &JobView) -> Plan {
        let plan = plan(view, &Context::for_tests());
        let lock = JobNode::Lock.of(jid());
        assert!(matches!(&plan.ops[0], Op::Create { path, .. } if *path == lock), "under its lock");
        assert_eq!(plan.ops.last(), Some(&Op::delete(lock, None)));
        plan
    }

    #[test]
    fn refs_follow_the_status() {
        let mut job = healthy(JobState::Processing);
        let left_behind = QueueRef::new(JobState::Downloading, priority(7), jid());
        job.queue = [left_behind].into();
        job.lists = [(bid(), BatchList::Failed)].into();
        let plan = planned(&job);
        let own = QueueRef::new(JobState::Processing, priority(7), jid());
        assert!(has(&plan, &Op::delete(left_behind.path(), None)) && has(&plan, &Op::create(own.path(), "")));
        assert!(has(&plan, &Op::create(map::batch_ref(bid(), BatchList::Processing, jid()), "")));
        assert_eq!(
            (written(&plan).status, plan.lists),
            (JobState::Processing, vec![(bid(), BatchList::Processing)])
        );
    }

    #[test]
    fn a_status_is_rebuilt_only_if_queue_and_history_agree() {
        let mut job = healthy(JobState::Processing);
        job.status = Seen::garbage();
        job.history =
            Seen::value(History { entries: vec![entry(JobState::Downloading, JobState::Processing)] });
        let status = written(&planned(&job));
        assert_eq!((status.status, status.attempt), (JobState::Processing, 4));
        assert_eq!(status.last_successful_status, Some(JobState::Downloading));
        job.queue = [QueueRef::new(JobState::Notify, priority(7), jid())].into();
        let plan = planned(&job);
        let status = written(&plan);
        assert_eq!((status.status, status.recoverable), (JobState::Failed, true));
        assert!(status.message.contains("unreadable; see /quarantine/jobs_jid"), "{}", status.message);
        assert!(has(&plan, &Op::create(map::batch_ref(bid(), BatchList::Failed, jid()), "")));
    }

    #[test]
    fn a_job_without_configuration_fails_for_good_and_keeps_what_is_known() {
        let mut job = healthy(JobState::Notify);
        job.configuration = Seen::Missing;
        let mut status = JobStatus::new(JobState::Notify, Date::from_millis(1));
        (status.retry_count, status.last_successful_status) = (2, Some(JobState::Recording));
        job.status = Seen::value(status);
        let status = written(&planned(&job));
        assert_eq!((status.status, status.recoverable, status.retry_count), (JobState::Failed, false, 2));
        assert_eq!(status.last_successful_status, Some(JobState::Recording));
    }

    #[test]
    fn an_unreadable_priority_becomes_that_of_the_queue_or_the_nearest_or_the_default() {
        let mut job = healthy(JobState::Notify);
        job.priority = Seen::garbage();
        let set = |number: &str| Op::set(JobNode::Priority.of(jid()), number.to_owned(), 0);
        assert!(has(&planned(&job), &set("7")));
        job.queue.clear();
        assert!(has(&planned(&job), &set("5")));
        if let Seen::Bad { data, .. } = &mut job.priority {
            *data = "240".into();
        }
        let plan = planned(&job);
        let own = QueueRef::new(JobState::Notify, priority(99), jid());
        assert!(has(&plan, &set("99")) && has(&plan, &Op::create(own.path(), "")));
    }

    #[test]
    fn a_job_that_is_gone_goes_to_batch_deleted_once() {
        let mut job = healthy(JobState::Notify);
        job.there = false;
        job.lists.insert((bid(), BatchList::Failed));
        let plan = plan(&job, &Context::for_tests());
        let deleted = map::batch_ref(bid(), BatchList::Deleted, jid());
        assert_eq!(plan.ops.iter().filter(|op| **op == Op::create(deleted.as_str(), "")).count(), 1);
        assert_eq!(plan.ops.len(), 4);
    }
}
