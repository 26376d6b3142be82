//! Events that follow each other: the usual ways of batches and jobs, so that the ends of the tables are
//! reached, among events in no order.

use ingest_queue::map::{AccessSize, Priority};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action;
use ingest_queue::states::{AccessState, JobState};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::event::{
    AccessAct, AccessStep, BatchStep, Event, JobStep, NEWEST, access_act, action, batch_action, event,
    job_step, node, pick, state,
};

/// What happens one after the other: a batch first, then anything.
pub(crate) fn phrases(most: usize) -> impl Strategy<Value = Vec<Vec<Event>>> {
    let begin = (node(), 0..2_u8).prop_map(|(node, collection)| new_batch((node, 9, collection, true)));
    (begin, vec(phrase(), 1..most)).prop_map(|(begin, rest)| [vec![begin], rest].concat())
}

/// Single events, and the usual ways of batches and jobs, so that the ends of the tables are reached.
fn phrase() -> impl Strategy<Value = Vec<Event>> {
    prop_oneof![
        14 => event().prop_map(|event| vec![event]),
        1 => (node(), 0..6_u8, 0..2_u8, any::<bool>()).prop_map(new_batch),
        8 => (node(), pick(), 0..8_usize, last_step(), action()).prop_map(walk),
        1 => (node(), 0..6_u8, any::<bool>()).prop_map(whole_life),
        2 => (node(), pick(), 1..8_usize, state()).prop_map(fail_and_try_again),
        1 => (node(), pick(), 0..8_usize).prop_map(crash),
        1 => (node(), 0..6_u8).prop_map(cannot_be_expanded),
        1 => node().prop_map(finish_all),
        2 => (node(), pick()).prop_map(report),
        2 => (node(), pick(), batch_action(), any::<bool>()).prop_map(report_again),
        1 => (node(), pick(), 0..2_u8).prop_map(hold),
        2 => (node(), pick(), action()).prop_map(hold_one),
        1 => (node(), pick(), any::<bool>(), access_act()).prop_map(access),
    ]
}

fn new_batch((node, uuid, collection, whole): (u8, u8, u8, bool)) -> Vec<Event> {
    let with = |step| Event::WithBatch { lease: 0, step };
    let mut events = vec![
        Event::CreateBatch { node, uuid, collection },
        Event::AcquireBatch { node, batch: NEWEST },
        with(BatchStep::Begin),
        with(BatchStep::Expand { rows: 2, astray: false }),
    ];
    if whole {
        events.push(with(BatchStep::Expand { rows: 9, astray: false }));
    }
    events.push(with(BatchStep::Release));
    events
}

/// Mostly such that somebody else can have the job.
fn last_step() -> impl Strategy<Value = JobStep> {
    prop_oneof![2 => Just(JobStep::GiveBack), 1 => job_step()]
}

/// A batch whose jobs fail, are tried again and end well.
fn whole_life((node, uuid, clean): (u8, u8, bool)) -> Vec<Event> {
    let mut events = new_batch((node, uuid, 0, true));
    let jobs = [NEWEST - 2, NEWEST - 1, NEWEST];
    let failed = JobStep::Fail { hopeless: false };
    events.extend(jobs.into_iter().flat_map(|job| walk((node, job, 3, failed, Action::Clean))));
    events.extend(report((node, NEWEST)));
    let again = |job| Event::Act { node, job, action: Action::Requeue(None), force: false };
    events.extend(jobs.map(again));
    events.extend(jobs.into_iter().flat_map(|job| walk((node, job, 4, JobStep::Succeed, Action::Clean))));
    events.push(Event::ActOnBatch { node, batch: NEWEST, action: BatchAction::UpdateReport, force: false });
    events.extend(report((node, NEWEST)));
    events.push(Event::RemoveBatch { node, batch: NEWEST, janitor: clean, force: false });
    events
}

/// A job that is asked for by a ref of another priority first, then by its own, through some states, then one more step, then
/// somebody else.
fn walk((node, job, states, step, action): (u8, u8, usize, JobStep, Action)) -> Vec<Event> {
    let acquire = |stale| Event::Acquire { node, job, stale };
    let mut events = vec![acquire(Some(Priority::LAST)), acquire(None)];
    events.extend((0..states).map(|_| Event::WithJob { lease: 0, step: JobStep::HandOver }));
    events.push(Event::WithJob { lease: 0, step });
    events.push(Event::Act { node, job, action, force: false });
    events
}

fn fail_and_try_again((node, job, states, to): (u8, u8, usize, JobState)) -> Vec<Event> {
    walk((node, job, states, JobStep::Fail { hopeless: false }, Action::Requeue(Some(to))))
}

fn cannot_be_expanded((node, uuid): (u8, u8)) -> Vec<Event> {
    vec![
        Event::CreateBatch { node, uuid, collection: 0 },
        Event::AcquireBatch { node, batch: NEWEST },
        Event::WithBatch { lease: 0, step: BatchStep::Fail },
    ]
}

fn crash((node, job, states): (u8, u8, usize)) -> Vec<Event> {
    let acquire = Event::Acquire { node, job, stale: None };
    let dies = Event::WorkerDies { node, holder: job };
    let mut events = vec![acquire.clone()];
    events.extend((0..states).map(|_| Event::WithJob { lease: 0, step: JobStep::HandOver }));
    for _ in 0..3 {
        events.extend([dies.clone(), acquire.clone()]);
    }
    events
}

/// The first jobs to their end.
fn finish_all(node: u8) -> Vec<Event> {
    let all = |job| walk((node, job, 7, JobStep::Succeed, Action::Clean));
    (0..3).flat_map(all).collect()
}

fn report((node, batch): (u8, u8)) -> Vec<Event> {
    let steps = [BatchStep::End, BatchStep::Draft, BatchStep::Sent, BatchStep::Finish, BatchStep::Release];
    let with = steps.map(|step| Event::WithBatch { lease: 0, step });
    [Event::AcquireBatch { node, batch }].into_iter().chain(with).collect()
}

fn report_again((node, batch, action, remove): (u8, u8, BatchAction, bool)) -> Vec<Event> {
    let mut events = report((node, batch));
    events.push(Event::ActOnBatch { node, batch, action, force: false });
    events.extend(report((node, batch)));
    events.push(Event::RemoveBatch { node, batch, janitor: remove, force: false });
    events
}

/// A held collection, with what is pending of it, and released again.
fn hold((node, pick, collection): (u8, u8, u8)) -> Vec<Event> {
    let act = |action| Event::Act { node, job: pick, action, force: false };
    let act_on_batch = |action| Event::ActOnBatch { node, batch: pick, action, force: false };
    vec![
        Event::CreateBatch { node, uuid: pick, collection },
        Event::HoldCollection { node, collection, hold: true },
        act(Action::HoldForCollection),
        act_on_batch(BatchAction::HoldForCollection),
        act(Action::Release),
        Event::HoldCollection { node: node + 1, collection, hold: false },
        act(Action::Release),
        act_on_batch(BatchAction::Release),
    ]
}

fn hold_one((node, job, action): (u8, u8, Action)) -> Vec<Event> {
    [Action::Hold, action].map(|action| Event::Act { node, job, action, force: false }).into()
}

fn access((node, item, good, act): (u8, u8, bool, AccessAct)) -> Vec<Event> {
    let size = if item % 2 == 0 { AccessSize::Small } else { AccessSize::Large };
    let end = if good { AccessState::Completed } else { AccessState::Failed };
    vec![
        Event::CreateAccess { node, size },
        Event::AcquireAccess { node, size },
        Event::WithAccess { lease: 0, step: AccessStep::Finish(end) },
        Event::ActOnAccess { node, item, act },
    ]
}
