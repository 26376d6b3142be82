//! Whatever happens, in whatever order: the index and the list agree.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{Model, PRIORITIES, SETTINGS};
use crate::ids::Jid;
use crate::index::{Index, Listing, Reason, Seen};
use crate::map::{Priority, QueueRef};
use crate::states::JobState;

const STATES: [JobState; 2] = [JobState::Pending, JobState::Estimating];
const JOBS: u32 = 5;
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Step {
    Created(QueueRef),
    Deleted(QueueRef),
    Relist(JobState, Vec<QueueRef>),
    Date(Jid, Option<u64>),
    Came(Jid, u64, Option<u32>),
    Take(JobState),
    Finished(QueueRef),
    HandOver(QueueRef, QueueRef),
    PutBack(Jid),
    ParkLocked(Jid),
    Park(Jid),
    Unpark,
    UnparkLocked(Jid),
    Delay(Jid, u64),
    Disagrees(QueueRef),
    IsNext(QueueRef),
    Components(usize),
    KnownSince(QueueRef, u64),
    Pass(u64),
}

fn job() -> impl Strategy<Value = Jid> {
    (0..JOBS).prop_map(Jid::new)
}

fn entry() -> impl Strategy<Value = QueueRef> {
    let (states, priorities) = (prop::sample::select(&STATES[..]), prop::sample::select(&PRIORITIES[..]));
    (states, priorities, job()).prop_map(|(state, p, jid)| QueueRef::new(state, Priority::nearest(p), jid))
}

fn step() -> impl Strategy<Value = Step> {
    let state = || prop::sample::select(&STATES[..]);
    prop_oneof![
        12 => entry().prop_map(Step::Created),
        4 => entry().prop_map(Step::Deleted),
        1 => (state(), prop::collection::vec(entry(), 0..12)).prop_map(|(s, listed)| Step::Relist(s, listed)),
        3 => (job(), prop::option::of(0..400_u64)).prop_map(|(jid, due)| Step::Date(jid, due)),
        2 => (job(), 0..400_u64, prop::option::of(0..JOBS)).prop_map(|(jid, ago, n)| Step::Came(jid, ago, n)),
        12 => state().prop_map(Step::Take),
        3 => entry().prop_map(Step::Finished),
        2 => (entry(), entry()).prop_map(|(from, to)| Step::HandOver(from, QueueRef { jid: from.jid, ..to })),
        4 => job().prop_map(Step::PutBack),
        2 => job().prop_map(Step::ParkLocked),
        2 => job().prop_map(Step::Park),
        1 => Just(Step::Unpark),
        1 => job().prop_map(Step::UnparkLocked),
        2 => (job(), 0..300_u64).prop_map(|(jid, until)| Step::Delay(jid, until)),
        2 => entry().prop_map(Step::Disagrees),
        4 => entry().prop_map(Step::IsNext),
        1 => (1..8_usize).prop_map(Step::Components),
        1 => (entry(), 0..500_u64).prop_map(|(entry, ago)| Step::KnownSince(entry, ago)),
        10 => (0..200_u64).prop_map(Step::Pass),
    ]
}

/// An instant that lies well after the machine's start, so that there is one before it.
fn beginning() -> Instant {
    Instant::now() + Duration::from_hours(1)
}

fn apply(index: &mut Index, model: &mut Model, step: &Step, now: &mut Instant) {
    let ms = Duration::from_millis;
    model.advance(*now);
    let other = Reason::Other("limit".into());
    match step.clone() {
        Step::Created(entry) => {
            index.created(entry, *now);
            if !model.departed.contains(&entry) {
                model.created(entry, *now, Some(*now));
            }
        }
        Step::Deleted(entry) => {
            index.deleted(entry);
            model.deleted(entry);
        }
        Step::Relist(state, listed) => {
            let listed: HashSet<_> = listed.into_iter().filter(|entry| entry.state == state).collect();
            index.relist(&Listing::new(state, listed.iter().copied()), *now);
            model.relist(state, &listed, *now);
        }
        Step::Date(jid, due) => {
            let due = due.map(|due| *now + ms(due)).filter(|due| *due > *now);
            index.date(jid, due, *now);
            model.date(jid, due);
        }
        Step::Came(jid, ago, highest) => {
            index.came(jid, *now - ms(ago), highest, *now);
            model.came(jid, *now - ms(ago), highest);
        }
        Step::Take(state) => {
            assert_eq!(index.take(state, *now), model.take(state, *now));
        }
        Step::Finished(entry) => {
            index.finished(entry);
            model.finished(entry);
        }
        Step::HandOver(from, to) => {
            index.hand_over(from, to, *now);
            model.hand_over(from, to, *now);
        }
        Step::PutBack(jid) => {
            index.put_back(jid, *now);
            if let Some(entry) = model.untake(jid) {
                model.doubted.remove(&entry.entry);
                model.offer(entry, Some(*now));
            }
        }
        Step::ParkLocked(jid) => {
            let parked = model.aside(jid, None, Some(Reason::Locked(jid)));
            assert_eq!(index.park(jid, Reason::Locked(jid)), parked.is_some());
        }
        Step::Park(jid) => {
            let parked = model.aside(jid, None, Some(other.clone()));
            assert_eq!(index.park(jid, other), parked.is_some());
        }
        Step::Unpark => {
            index.unpark(&other, *now);
            model.unpark(|reason| *reason == other, *now);
        }
        Step::UnparkLocked(jid) => {
            index.unpark(&Reason::Locked(jid), *now);
            model.unpark(|reason| *reason == Reason::Locked(jid), *now);
        }
        Step::Delay(jid, until) => {
            index.delay(jid, *now + ms(until));
            model.aside(jid, Some(*now + ms(until)), None);
        }
        Step::Disagrees(entry) => {
            let seen = if model.doubted.contains(&entry) { Seen::Twice } else { Seen::Once };
            if seen == Seen::Once && model.taken_by(entry).is_some() {
                let there = model.aside(entry.jid, Some(*now + SETTINGS.doubt), None);
                model.doubted.extend(there);
            }
            assert_eq!(index.disagrees(entry, *now), seen);
        }
        Step::IsNext(entry) => {
            assert_eq!(index.is_next(entry, *now), model.is_next(entry, *now), "{entry:?}");
        }
        Step::Components(bits) => components(index, model, bits, *now),
        Step::KnownSince(entry, ago) => {
            index.known_since(entry, *now - ms(ago), *now);
            let taken = model.taken.iter_mut().map(|taken| &mut taken.entry);
            let known = model.entries.iter_mut().chain(taken).find(|known| known.entry == entry);
            if let Some(known) = known
                && known.place.1 == 0
            {
                known.turn = known.turn.filter(|turn| *turn != known.since);
                known.since = known.since.min(*now - ms(ago));
            }
        }
        Step::Pass(time) => *now += ms(time),
    }
}

fn components(index: &mut Index, model: &mut Model, bits: usize, now: Instant) {
    let live = NAMES.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    let live: Vec<_> = live.map(|(_, name)| (*name).to_owned()).collect();
    index.components(live.clone(), "a", now);
    if model.ranks.set(live, "a") {
        model.unpark(|reason| matches!(reason, Reason::Locked(_)), now);
    }
    // What is ranked anew while its job is busy is ranked from its arrival when it is free.
    for at in 0..model.entries.len() {
        if model.is_taken(model.entries[at].entry.jid) {
            model.entries[at].turn = None;
        }
    }
}

fn compare(index: &mut Index, model: &Model, now: Instant) {
    for state in STATES {
        let count = model.entries.iter().filter(|entry| entry.entry.state == state).count();
        assert_eq!(index.waiting(state), count, "{state}");
        // What can become ready by time alone is waited for, once the head has been looked at.
        let _ = index.ready(state, now);
        let in_time = model.entries.iter().filter(|entry| entry.entry.state == state);
        let next = in_time.filter_map(|e| model.ready_at(e)).filter(|at| *at > now).min();
        if model.first(state, now).is_none()
            && let Some(next) = next
        {
            let wakeup = index.next_wakeup().expect("something becomes ready in time");
            assert!(wakeup <= next);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_chooses_what_a_plain_list_would(steps in prop::collection::vec(step(), 1..120)) {
        let (mut index, mut model, mut now) = (Index::new(SETTINGS), Model::default(), beginning());
        for step in &steps {
            apply(&mut index, &mut model, step, &mut now);
            model.advance(now);
            index.advance(now);
            compare(&mut index, &model, now);
        }
    }
}
