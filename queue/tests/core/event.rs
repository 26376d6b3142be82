//! Everything that can happen, in no order. Numbers pick among what there is at the time; the picks
//! are small, so that things meet.

use ingest_queue::map::{AccessSize, HeldQueue, Priority};
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action;
use ingest_queue::states::{AccessState, JobState, Who};
use proptest::prelude::*;

/// The pick of the newest; the few numbers below it are counted from the end.
pub(crate) const NEWEST: u8 = 255;

#[derive(Debug, Clone)]
pub(crate) enum Event {
    CreateBatch {
        node: u8,
        uuid: u8,
        collection: u8,
    },
    AcquireBatch {
        node: u8,
        batch: u8,
    },
    /// With a lease on a batch; 0 is the newest, and any of them may be spent.
    WithBatch {
        lease: u8,
        step: BatchStep,
    },
    /// With the priority of its ref, or with another one: a ref that was seen before it was renamed.
    Acquire {
        node: u8,
        job: u8,
        stale: Option<Priority>,
    },
    WithJob {
        lease: u8,
        step: JobStep,
    },
    WorkerDies {
        node: u8,
        holder: u8,
    },
    SessionDies {
        node: u8,
    },
    Act {
        node: u8,
        job: u8,
        action: Action,
        force: bool,
    },
    ActOnBatch {
        node: u8,
        batch: u8,
        action: BatchAction,
        force: bool,
    },
    RemoveBatch {
        node: u8,
        batch: u8,
        janitor: bool,
        force: bool,
    },
    HoldCollection {
        node: u8,
        collection: u8,
        hold: bool,
    },
    HoldQueue {
        node: u8,
        queue: HeldQueue,
        hold: bool,
    },
    CreateAccess {
        node: u8,
        size: AccessSize,
    },
    AcquireAccess {
        node: u8,
        size: AccessSize,
    },
    WithAccess {
        lease: u8,
        step: AccessStep,
    },
    ActOnAccess {
        node: u8,
        item: u8,
        act: AccessAct,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchStep {
    Release,
    Note,
    Begin,
    /// So many rows, from the cursor or from elsewhere.
    Expand {
        rows: u8,
        astray: bool,
    },
    Fail,
    End,
    Draft,
    Sent,
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobStep {
    Succeed,
    Fail {
        hopeless: bool,
    },
    GiveBack,
    /// To where success leads, and further with the same lock.
    HandOver,
    /// To anywhere, by anybody.
    Advance {
        to: JobState,
        by: Who,
        keep: bool,
    },
    Write,
    SetPriority(Priority),
    Gate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessStep {
    Finish(AccessState),
    GiveBack,
    Rewrite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessAct {
    Requeue,
    Delete,
    Clean,
}

/// One event.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (node(), 0..6_u8, 0..2_u8).prop_map(|(node, uuid, collection)| Event::CreateBatch { node, uuid, collection }),
        2 => (node(), pick()).prop_map(|(node, batch)| Event::AcquireBatch { node, batch }),
        6 => (lease(), batch_step()).prop_map(|(lease, step)| Event::WithBatch { lease, step }),
        8 => (node(), pick(), stale()).prop_map(|(node, job, stale)| Event::Acquire { node, job, stale }),
        14 => (lease(), job_step()).prop_map(|(lease, step)| Event::WithJob { lease, step }),
        1 => (node(), 0..2_u8).prop_map(|(node, holder)| Event::WorkerDies { node, holder }),
        1 => node().prop_map(|node| Event::SessionDies { node }),
        10 => (node(), pick(), action(), any::<bool>())
            .prop_map(|(node, job, action, force)| Event::Act { node, job, action, force }),
        3 => (node(), pick(), batch_action(), any::<bool>())
            .prop_map(|(node, batch, action, force)| Event::ActOnBatch { node, batch, action, force }),
        1 => (node(), pick(), any::<bool>(), any::<bool>())
            .prop_map(|(node, batch, janitor, force)| Event::RemoveBatch { node, batch, janitor, force }),
        2 => (node(), 0..2_u8, any::<bool>())
            .prop_map(|(node, collection, hold)| Event::HoldCollection { node, collection, hold }),
        1 => (node(), prop::sample::select(HeldQueue::ALL.to_vec()), any::<bool>())
            .prop_map(|(node, queue, hold)| Event::HoldQueue { node, queue, hold }),
        1 => (node(), size()).prop_map(|(node, size)| Event::CreateAccess { node, size }),
        1 => (node(), size()).prop_map(|(node, size)| Event::AcquireAccess { node, size }),
        2 => (lease(), access_step()).prop_map(|(lease, step)| Event::WithAccess { lease, step }),
        1 => (node(), pick(), access_act()).prop_map(|(node, item, act)| Event::ActOnAccess { node, item, act }),
    ]
}

pub(crate) fn node() -> impl Strategy<Value = u8> {
    0..2_u8
}

pub(crate) fn pick() -> impl Strategy<Value = u8> {
    0..8_u8
}

/// Mostly the newest.
fn lease() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0), 1 => 0..8_u8]
}

fn priority() -> impl Strategy<Value = Priority> {
    prop::sample::select(vec![Priority::FIRST, Priority::DEFAULT, Priority::SLOW, Priority::LAST])
}

fn stale() -> impl Strategy<Value = Option<Priority>> {
    prop_oneof![6 => Just(None), 1 => priority().prop_map(Some)]
}

fn size() -> impl Strategy<Value = AccessSize> {
    prop::sample::select(AccessSize::ALL.to_vec())
}

pub(crate) fn state() -> impl Strategy<Value = JobState> {
    prop::sample::select(JobState::ALL.to_vec())
}

fn batch_step() -> impl Strategy<Value = BatchStep> {
    prop_oneof![
        Just(BatchStep::Release),
        Just(BatchStep::Note),
        Just(BatchStep::Begin),
        (1..4_u8, prop::bool::weighted(0.2)).prop_map(|(rows, astray)| BatchStep::Expand { rows, astray }),
        Just(BatchStep::Fail),
        Just(BatchStep::End),
        Just(BatchStep::Draft),
        Just(BatchStep::Sent),
        Just(BatchStep::Finish),
    ]
}

pub(crate) fn job_step() -> impl Strategy<Value = JobStep> {
    let who = prop::sample::select(vec![Who::Queue, Who::Worker, Who::Admin, Who::Timekeeper, Who::Janitor]);
    prop_oneof![
        4 => Just(JobStep::Succeed),
        2 => prop::bool::weighted(0.3).prop_map(|hopeless| JobStep::Fail { hopeless }),
        2 => Just(JobStep::GiveBack),
        2 => Just(JobStep::HandOver),
        3 => (state(), who, any::<bool>()).prop_map(|(to, by, keep)| JobStep::Advance { to, by, keep }),
        1 => Just(JobStep::Write),
        1 => priority().prop_map(JobStep::SetPriority),
        1 => Just(JobStep::Gate),
    ]
}

pub(crate) fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => Just(Action::Hold),
        2 => Just(Action::Release),
        3 => prop::option::of(state()).prop_map(Action::Requeue),
        1 => priority().prop_map(Action::SetPriority),
        2 => Just(Action::Delete),
        1 => Just(Action::HoldForCollection),
        1 => Just(Action::Reject),
        3 => Just(Action::StartOver),
        1 => Just(Action::Poison),
        3 => Just(Action::Expire),
        1 => Just(Action::Clean),
    ]
}

pub(crate) fn batch_action() -> impl Strategy<Value = BatchAction> {
    prop::sample::select(vec![
        BatchAction::Hold,
        BatchAction::Release,
        BatchAction::UpdateReport,
        BatchAction::HoldForCollection,
    ])
}

fn access_step() -> impl Strategy<Value = AccessStep> {
    prop_oneof![
        prop::sample::select(AccessState::ALL.to_vec()).prop_map(AccessStep::Finish),
        Just(AccessStep::GiveBack),
        Just(AccessStep::Rewrite),
    ]
}

pub(crate) fn access_act() -> impl Strategy<Value = AccessAct> {
    prop::sample::select(vec![AccessAct::Requeue, AccessAct::Delete, AccessAct::Clean])
}
