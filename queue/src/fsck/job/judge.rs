//! The invariants of one job. Its status is the truth; everything that names the job is a hint.

use super::JobView;
use crate::dialect::Dialect;
use crate::fsck::code::Code;
use crate::fsck::finding::{Fix, Verdict};
use crate::fsck::reader::Seen;
use crate::map::{self, JobNode, QueueRef};
use crate::nodes::JobStatus;
use crate::states::{BatchList, JobState};

const LOOK_FOR_ITS_BATCH: &str =
    "none: a person must look; no node and no list tells which batch the job belongs to";

/// Everything that is wrong with a job.
pub(in crate::fsck) fn judge(view: &JobView, dialect: Dialect) -> Vec<Verdict> {
    if !view.there {
        return gone(view);
    }
    let mut found = Vec::new();
    nodes(view, &mut found);
    if let Some(status) = view.status.good() {
        queue(view, status, dialect, &mut found);
    }
    batch(view, &mut found);
    if view.lasting_lock.is_some() {
        let what = format!("the lock of {} belongs to no session", view.jid);
        found.push(Verdict::new(Code::LastingLock, JobNode::Lock.of(view.jid), what, Fix::Together));
    }
    found
}

fn gone(view: &JobView) -> Vec<Verdict> {
    let jid = view.jid;
    let queue = view.queue.iter().map(|entry| {
        let what = format!("{jid} is in the queue {}, and is gone", entry.state);
        Verdict::new(Code::GoneFromQueue, entry.path(), what, Fix::Together)
    });
    let lists = view.lists.iter().filter(|(_, list)| *list != BatchList::Deleted).map(|(bid, list)| {
        let what = format!("{jid} is in {} of {bid}, and is gone", list.name());
        Verdict::new(Code::GoneFromList, map::batch_ref(*bid, *list, jid), what, Fix::Together)
    });
    queue.chain(lists).collect()
}

fn nodes(view: &JobView, found: &mut Vec<Verdict>) {
    let jid = view.jid;
    let mut add = |code, node: JobNode, what: String, fix| {
        found.push(Verdict::new(code, node.of(jid), what, fix));
    };
    if let Some(trouble) = view.status.trouble() {
        add(Code::JobStatus, JobNode::Status, format!("the status of {jid} {trouble}"), Fix::Together);
    }
    match (&view.configuration, view.configuration.trouble()) {
        (Seen::Missing, _) if view.failed_for_good() => {
            let what = format!("{jid} has failed and its configuration is gone: it cannot be tried again");
            add(Code::FailedForGood, JobNode::Configuration, what, Fix::Person(Code::FailedForGood.repair()));
        }
        (_, Some(trouble)) => {
            let what = format!("the configuration of {jid} {trouble}");
            add(Code::JobConfiguration, JobNode::Configuration, what, Fix::Together);
        }
        (configuration, None) => {
            let named = configuration.good().and_then(|configuration| configuration.batch_id);
            if let (Some(bid), Some(named)) = (view.bid.good(), named)
                && *bid != named
            {
                let what = format!("{jid} belongs to {bid}, and its configuration names {named}");
                add(Code::TwoBatches, JobNode::Bid, what, Fix::Person(Code::TwoBatches.repair()));
            }
        }
    }
    if let Some(trouble) = view.bid.trouble() {
        let fix = if view.home().is_some() { Fix::Together } else { Fix::Person(LOOK_FOR_ITS_BATCH) };
        add(Code::JobBid, JobNode::Bid, format!("the bid of {jid} {trouble}"), fix);
    }
    for (node, why) in [(JobNode::Priority, why(&view.priority)), (JobNode::History, why(&view.history))]
        .into_iter()
        .chain(view.unreadable.iter().map(|(node, seen)| (*node, why(seen))))
    {
        if let Some(why) = why {
            let what = format!("the {} of {jid} cannot be read: {why}", node.name());
            add(Code::JobNode, node, what, Fix::Together);
        }
    }
}

/// Of a node that may be missing.
fn why<T>(seen: &Seen<T>) -> Option<&str> {
    match seen {
        Seen::Bad { why, .. } => Some(why),
        _ => None,
    }
}

fn queue(view: &JobView, status: &JobStatus, dialect: Dialect, found: &mut Vec<Verdict>) {
    let (jid, state) = (view.jid, status.status);
    if !JobState::queues(dialect).any(|known| known == state) {
        let what = format!("{jid} is {state}, and there is no such queue in this dialect");
        let fix = Fix::Person(Code::NoSuchQueue.repair());
        found.push(Verdict::new(Code::NoSuchQueue, JobNode::Status.of(jid), what, fix));
        return;
    }
    let own = own_ref(view, state);
    for entry in view.queue.iter().filter(|entry| **entry != own) {
        let what = format!(
            "{jid} is {state} with priority {}, and is in the queue {} with priority {}",
            own.priority, entry.state, entry.priority
        );
        found.push(Verdict::new(Code::WrongQueue, entry.path(), what, Fix::Together));
    }
    if !view.queue.contains(&own) && !may_leave_its_queue(state) {
        let what = format!("{jid} is {state} with priority {}, and is not in that queue", own.priority);
        found.push(Verdict::new(Code::InNoQueue, own.path(), what, Fix::Together));
    }
}

/// Where a job in this state belongs. If nobody can read its priority, the queue tells it.
pub(super) fn own_ref(view: &JobView, state: JobState) -> QueueRef {
    let mut in_its_queue = view.queue.iter().filter(|entry| entry.state == state);
    match (&view.priority, in_its_queue.next(), in_its_queue.next()) {
        (Seen::Bad { .. }, Some(only), None) => *only,
        _ => QueueRef::new(state, view.priority(), view.jid),
    }
}

/// A completed job is cleaned up some day, and a deleted one of the other dialect may have been.
pub(super) fn may_leave_its_queue(state: JobState) -> bool {
    matches!(state, JobState::Completed | JobState::Deleted)
}

fn batch(view: &JobView, found: &mut Vec<Verdict>) {
    let jid = view.jid;
    let Some(home) = view.home() else {
        return;
    };
    if view.live_home().is_none() {
        let what = format!("{jid} belongs to {home}, which is not there");
        found.push(Verdict::new(
            Code::NoBatch,
            JobNode::Bid.of(jid),
            what,
            Fix::Person(Code::NoBatch.repair()),
        ));
        return;
    }
    let Some(state) = view.status.good().map(|status| status.status) else {
        return;
    };
    let own = (home, state.list());
    for (bid, list) in view.lists.iter().filter(|entry| **entry != own) {
        let what = format!(
            "{jid} of {home} is {state}, which is {}, and is in {} of {bid}",
            own.1.name(),
            list.name()
        );
        found.push(Verdict::new(Code::WrongList, map::batch_ref(*bid, *list, jid), what, Fix::Together));
    }
    if !view.lists.contains(&own) {
        let what = format!("{jid} is {state}, and is not in {} of {home}", own.1.name());
        found.push(Verdict::new(Code::InNoList, map::batch_ref(home, own.1, jid), what, Fix::Together));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::{bid, healthy, jid, priority};
    use super::*;
    use crate::ids::Bid;
    use crate::nodes::{Configuration, JobStatus};

    /// What is spoilt, how, and what is found.
    type Row = (&'static str, fn(&mut JobView), &'static [&'static str]);

    fn codes(view: &JobView) -> Vec<String> {
        codes_in(view, Dialect::Design)
    }

    fn codes_in(view: &JobView, dialect: Dialect) -> Vec<String> {
        judge(view, dialect)
            .into_iter()
            .map(|found| format!("{}{}", found.code, if found.is_by_hand() { " by hand" } else { "" }))
            .collect()
    }

    fn entry(state: JobState, number: i64) -> QueueRef {
        QueueRef::new(state, priority(number), jid())
    }

    #[test]
    fn a_healthy_job_is_clean_in_every_state_of_either_dialect() {
        for dialect in [Dialect::Design, Dialect::MrtZk] {
            for state in JobState::queues(dialect) {
                assert_eq!(codes_in(&healthy(state), dialect), [""; 0], "{state}");
            }
        }
    }

    #[test]
    fn a_job_is_found_wherever_it_should_not_be_and_missed_where_it_should() {
        let table: &[Row] = &[
            ("in no queue", |job| job.queue.clear(), &["J05"]),
            ("left behind", |job| job.queue = [entry(JobState::Pending, 7)].into(), &["J06", "J05"]),
            (
                "doubled",
                |job| {
                    job.queue.insert(entry(JobState::Held, 7));
                },
                &["J06"],
            ),
            ("another priority", |job| job.queue = [entry(JobState::Downloading, 5)].into(), &["J06", "J05"]),
            ("no priority means 05", |job| job.priority = Seen::Missing, &["J06", "J05"]),
            (
                "an unreadable priority does not matter to the queue",
                |job| job.priority = Seen::garbage(),
                &["J04"],
            ),
            ("in no list", |job| job.lists.clear(), &["J07"]),
            (
                "in two lists",
                |job| {
                    job.lists.insert((bid(), BatchList::Failed));
                },
                &["J08"],
            ),
            ("in batch-deleted", |job| job.lists = [(bid(), BatchList::Deleted)].into(), &["J08", "J07"]),
            (
                "of another batch",
                |job| {
                    job.lists.insert((Bid::new(9), BatchList::Processing));
                },
                &["J08"],
            ),
            (
                "no batch",
                |job| {
                    job.batches.insert(bid(), false);
                },
                &["J09 by hand"],
            ),
            ("a lasting lock", |job| job.lasting_lock = Some(0), &["L01"]),
            ("no status", |job| job.status = Seen::Missing, &["J01"]),
            ("an unreadable status", |job| job.status = Seen::garbage(), &["J01"]),
            ("no bid", |job| job.bid = Seen::Missing, &["J03"]),
            ("no configuration", |job| job.configuration = Seen::Missing, &["J02"]),
            ("an unreadable history", |job| job.history = Seen::garbage(), &["J04"]),
            ("an unreadable node", |job| job.unreadable = vec![(JobNode::Work, Seen::garbage())], &["J04"]),
        ];
        for (name, spoil, expected) in table {
            let mut job = healthy(JobState::Downloading);
            spoil(&mut job);
            assert_eq!(codes(&job), *expected, "{name}");
        }
    }

    #[test]
    fn a_completed_job_may_have_left_its_queue_and_no_other_may() {
        let mut job = healthy(JobState::Completed);
        job.queue.clear();
        assert_eq!(codes(&job), [""; 0]);
        job.queue = [entry(JobState::Notify, 7)].into();
        assert_eq!(codes(&job), ["J06"]);
        let mut job = healthy(JobState::Failed);
        job.queue.clear();
        assert_eq!(codes(&job), ["J05"]);
    }

    #[test]
    fn a_job_that_is_gone_may_only_be_in_batch_deleted() {
        let mut job = healthy(JobState::Downloading);
        (job.there, job.status) = (false, Seen::Missing);
        job.lists.insert((bid(), BatchList::Deleted));
        assert_eq!(codes(&job), ["J10", "J11"]);
        job.queue.clear();
        job.lists = [(bid(), BatchList::Deleted)].into();
        assert_eq!(codes(&job), [""; 0]);
    }

    #[test]
    fn the_batch_of_a_job_is_told_by_its_bid_or_its_configuration_or_the_one_list() {
        let mut job = healthy(JobState::Downloading);
        (job.bid, job.configuration) = (Seen::garbage(), Seen::value(Configuration::default()));
        assert_eq!((job.home(), codes(&job)), (Some(bid()), vec!["J03".to_owned()]));
        job.lists.insert((Bid::new(9), BatchList::Processing));
        assert_eq!((job.home(), codes(&job)), (None, vec!["J03 by hand".to_owned()]));
        let mut job = healthy(JobState::Downloading);
        let elsewhere = Configuration { batch_id: Some(Bid::new(9)), ..Configuration::default() };
        job.configuration = Seen::value(elsewhere);
        assert_eq!(codes(&job), ["J13 by hand"]);
    }

    #[test]
    fn a_job_without_configuration_that_has_failed_for_good_is_only_mentioned() {
        let mut job = healthy(JobState::Failed);
        job.configuration = Seen::Missing;
        assert_eq!(codes(&job), ["J02"]);
        let mut status = JobStatus::new(JobState::Failed, crate::date::Date::from_millis(0));
        status.recoverable = false;
        job.status = Seen::value(status);
        assert_eq!(codes(&job), ["J12 by hand"]);
    }

    #[test]
    fn states_of_the_other_dialect_have_no_queue_here() {
        for state in [JobState::Storing, JobState::Deleted] {
            assert!(codes(&healthy(state)).contains(&"J14 by hand".to_owned()), "{state}");
        }
    }

    #[test]
    fn nothing_is_judged_twice() {
        let mut job = healthy(JobState::Downloading);
        job.queue = JobState::ALL.iter().map(|state| entry(*state, 7)).collect();
        let paths: Vec<_> = judge(&job, Dialect::Design).into_iter().map(|found| found.path).collect();
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len());
        assert_eq!(paths.len(), JobState::ALL.len() - 1);
    }
}
