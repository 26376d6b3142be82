//! What the index promises, one thing each. [`super::model`] has the combinations.

mod shared;
mod slots;

use std::time::Duration;

use tokio::time::Instant;

use super::{Counts, Index, Listing, Reason, Seen, Settings};
use crate::ids::Jid;
use crate::map::{Priority, QueueRef};
use crate::states::JobState::{self, Completed, Downloading, Estimating, Pending};

const MINUTE: Duration = Duration::from_mins(1);
const MS: Duration = Duration::from_millis(1);

fn at(state: JobState, priority: i64, number: u32) -> QueueRef {
    QueueRef::new(state, Priority::nearest(priority), Jid::new(number))
}

fn pending(priority: i64, number: u32) -> QueueRef {
    at(Pending, priority, number)
}

fn index(entries: &[QueueRef], now: Instant) -> Index {
    let mut index = Index::new(Settings { ageing: Some(MINUTE), ..Settings::default() });
    for entry in entries {
        index.created(*entry, now);
    }
    index
}

fn take(index: &mut Index, now: Instant) -> Option<QueueRef> {
    index.take(Pending, now).map(|candidate| candidate.entry)
}

fn take_all(index: &mut Index, now: Instant) -> Vec<QueueRef> {
    std::iter::from_fn(|| take(index, now)).collect()
}

#[test]
fn all_that_is_there_is_known_wherever_it_stands() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1), pending(5, 2), pending(70, 3), at(Estimating, 5, 4)], now);
    let taken = take(&mut index, now).unwrap();
    let parked = take(&mut index, now).unwrap();
    index.park(parked.jid, Reason::Other("a limit".into()));
    assert_eq!((taken, parked), (pending(5, 1), pending(5, 2)));
    let all = |index: &Index, state| {
        let mut all = index.all(state);
        all.sort_unstable();
        all
    };
    assert_eq!(all(&index, Pending), [1, 2, 3].map(Jid::new));
    assert_eq!(all(&index, Estimating), [Jid::new(4)]);
    assert_eq!(all(&index, Completed), []);
    index.finished(taken);
    index.deleted(taken);
    assert_eq!(all(&index, Pending), [2, 3].map(Jid::new));
}

#[test]
fn lower_priorities_come_first_and_then_lower_ids() {
    let now = Instant::now();
    let order = [pending(3, 9), pending(5, 1), pending(5, 2), pending(5, 30), pending(70, 0)];
    let mut index = index(&[order[3], order[1], order[4], order[0], order[2]], now);
    assert_eq!(take_all(&mut index, now), order);
    assert_eq!(take(&mut index, now), None);
}

#[test]
fn each_state_has_its_own_line() {
    let now = Instant::now();
    let mut index = index(&[at(Estimating, 5, 1), pending(5, 2), at(Completed, 0, 3)], now);
    assert_eq!(take_all(&mut index, now), [pending(5, 2)]);
    assert_eq!(index.take(Completed, now), None);
    assert_eq!(index.take(Estimating, now).map(|candidate| candidate.entry), Some(at(Estimating, 5, 1)));
}

#[test]
fn waiting_lifts_the_head_of_a_bucket_one_step_each_interval() {
    let now = Instant::now();
    let mut index = index(&[pending(20, 1), pending(20, 2)], now);
    index.created(pending(15, 3), now + MINUTE * 5);
    index.created(pending(14, 4), now + MINUTE * 5);
    // The first two have become 15 meanwhile, and are older than 3.
    let order = [pending(14, 4), pending(20, 1), pending(20, 2), pending(15, 3)];
    assert_eq!(take_all(&mut index, now + MINUTE * 5), order);
}

#[test]
fn a_slow_job_runs_only_when_nothing_else_is_ready_however_long_it_waits() {
    let now = Instant::now();
    let later = now + MINUTE * 10_000;
    let mut index = index(&[pending(99, 1), pending(80, 2)], now);
    index.created(pending(79, 3), later);
    assert_eq!(take_all(&mut index, later), [pending(79, 3), pending(99, 1), pending(80, 2)]);
}

#[test]
fn a_head_that_is_known_to_have_waited_longer_is_lifted_by_all_of_it() {
    let now = Instant::now() + MINUTE * 60;
    let mut index = index(&[pending(10, 1), pending(5, 2)], now);
    index.known_since(pending(10, 1), now - MINUTE * 6, now);
    assert_eq!(take_all(&mut index, now), [pending(10, 1), pending(5, 2)]);
}

#[test]
fn a_dated_job_takes_its_place_among_those_inserted_before_and_after_it_was_due() {
    let now = Instant::now();
    let due = now + MINUTE;
    let mut index = index(&[], now);
    index.date(Jid::new(1), Some(due), now);
    for number in [1, 2, 3] {
        index.created(pending(5, number), now);
    }
    index.date(Jid::new(2), Some(due - MS), now);
    assert_eq!(index.counts(Pending), Counts { ready: 1, not_due: 2, ..Counts::default() });
    assert_eq!(index.next_wakeup(), Some(due - MS));
    index.created(pending(5, 4), due + MS);
    let order = [3, 2, 1, 4].map(|number| pending(5, number));
    assert_eq!(take_all(&mut index, due + MS), order);
}

#[test]
fn jobs_whose_dates_had_come_stand_as_if_they_were_inserted_then() {
    let now = Instant::now() + MINUTE * 60;
    // Half of them are told of before their refs, half after.
    let mut index = index(&[pending(5, 1), pending(5, 3), pending(5, 5), pending(5, 7)], now);
    let ago = |minutes| now - MINUTE * minutes;
    index.came(Jid::new(2), ago(9), Some(3), now);
    index.came(Jid::new(1), ago(8), Some(3), now);
    index.came(Jid::new(4), ago(7), Some(5), now);
    index.relist(&Listing::new(Pending, (1..=7).map(|number| pending(5, number))), now);
    // What comes late, and what comes now.
    index.came(Jid::new(6), now, None, now);
    index.created(pending(5, 8), now);
    let order = [3, 2, 1, 5, 4, 7, 6, 8].map(|number| pending(5, number));
    assert_eq!(index.line(Pending), order);
    assert_eq!(index.since(pending(5, 4)), Some(ago(7)), "its age counts from its date");
    // Told again, it stays where it is; renamed, too; and when its date is taken away it is as any other.
    index.came(Jid::new(2), now, None, now);
    index.deleted(pending(5, 1));
    index.created(pending(5, 1), now);
    assert_eq!(index.line(Pending), order);
    index.date(Jid::new(1), None, now);
    index.deleted(pending(5, 1));
    index.created(pending(5, 1), now);
    assert_eq!(index.line(Pending)[..3], [1, 3, 2].map(|number| pending(5, number)));
}

#[test]
fn a_date_that_is_taken_away_makes_it_a_job_like_any_other() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1), pending(5, 2)], now);
    index.date(Jid::new(1), Some(now + MINUTE), now);
    index.date(Jid::new(1), None, now);
    assert_eq!(take_all(&mut index, now), [pending(5, 1), pending(5, 2)]);
    assert_eq!(index.next_wakeup(), None);
}

#[test]
fn a_date_outlives_a_change_of_priority() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1)], now);
    index.date(Jid::new(1), Some(now + MINUTE), now);
    index.deleted(pending(5, 1));
    index.created(pending(9, 1), now);
    assert_eq!(take(&mut index, now), None);
    assert_eq!(take(&mut index, now + MINUTE), Some(pending(9, 1)));
}

#[test]
fn a_taken_job_is_not_offered_by_another_ref_until_its_task_has_ended() {
    let now = Instant::now();
    // One duplicate was there before, one comes while the task runs.
    let mut index = index(&[pending(5, 1), at(Downloading, 5, 1)], now);
    assert_eq!(take(&mut index, now), Some(pending(5, 1)));
    index.created(at(Estimating, 5, 1), now);
    assert_eq!(index.take(Estimating, now), None);
    assert_eq!(index.take(Downloading, now), None);
    index.finished(pending(5, 1));
    assert_eq!(index.take(Estimating, now).map(|candidate| candidate.entry), Some(at(Estimating, 5, 1)));
}

#[test]
fn a_finished_ref_is_gone_at_once_and_late_events_do_not_bring_it_back() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1)], now);
    take(&mut index, now);
    index.finished(pending(5, 1));
    assert!(!index.knows(pending(5, 1)));
    index.created(pending(5, 1), now);
    assert_eq!(take(&mut index, now), None);
    index.deleted(pending(5, 1));
    // Now it is another one of the same name.
    index.created(pending(5, 1), now);
    assert_eq!(take(&mut index, now), Some(pending(5, 1)));
}

#[test]
fn a_ref_that_went_before_its_task_ended_may_come_again() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1)], now);
    take(&mut index, now);
    index.deleted(pending(5, 1));
    index.finished(pending(5, 1));
    index.created(pending(5, 1), now);
    assert_eq!(take(&mut index, now), Some(pending(5, 1)));
}

#[test]
fn a_job_that_is_put_back_is_offered_again_unless_its_ref_has_gone() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1), pending(5, 2)], now);
    take(&mut index, now);
    index.put_back(Jid::new(1), now);
    assert_eq!(take(&mut index, now), Some(pending(5, 1)));
    index.deleted(pending(5, 1));
    index.put_back(Jid::new(1), now);
    assert_eq!(take_all(&mut index, now), [pending(5, 2)]);
}

#[test]
fn a_job_that_is_handed_over_stays_taken_in_its_next_state() {
    let now = Instant::now();
    let (from, to) = (pending(5, 1), at(Estimating, 5, 1));
    for event_comes_first in [true, false] {
        let mut index = index(&[from], now);
        take(&mut index, now);
        if event_comes_first {
            index.deleted(from);
            index.created(to, now);
        }
        index.hand_over(from, to, now);
        if !event_comes_first {
            index.deleted(from);
            index.created(to, now);
        }
        assert_eq!(index.take(Estimating, now), None);
        index.put_back(Jid::new(1), now);
        assert_eq!(index.take(Estimating, now).map(|candidate| candidate.entry), Some(to));
    }
}

#[test]
fn a_state_that_was_passed_before_its_event_came_is_never_offered() {
    let now = Instant::now();
    let (from, to) = (pending(5, 1), at(Estimating, 5, 1));
    let mut index = index(&[from], now);
    take(&mut index, now);
    index.hand_over(from, to, now);
    index.finished(to);
    index.deleted(from);
    index.created(to, now);
    assert_eq!(index.take(Estimating, now), None);
    index.deleted(to);
    assert_eq!(index.waiting(Estimating), 0);
}

#[test]
fn a_parked_job_blocks_nobody_and_comes_back_with_its_key() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1), pending(5, 2), pending(5, 3)], now);
    let full = Reason::Other("collection".into());
    take(&mut index, now);
    assert!(index.park(Jid::new(1), full.clone()));
    take(&mut index, now);
    assert!(index.park(Jid::new(2), Reason::Locked(Jid::new(2))));
    assert_eq!(index.counts(Pending), Counts { ready: 1, locked: 1, parked: 1, ..Counts::default() });
    assert_eq!(take_all(&mut index, now), [pending(5, 3)]);
    assert_eq!(index.unpark(&full, now), 1);
    assert_eq!(take_all(&mut index, now), [pending(5, 1)]);
    assert_eq!(index.unpark(&Reason::Locked(Jid::new(2)), now), 1);
    assert_eq!(take_all(&mut index, now), [pending(5, 2)]);
}

#[test]
fn a_parked_ref_that_is_deleted_leaves_nothing_parked() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1)], now);
    take(&mut index, now);
    index.park(Jid::new(1), Reason::Locked(Jid::new(1)));
    index.deleted(pending(5, 1));
    assert!(!index.is_parked(&Reason::Locked(Jid::new(1))));
    assert_eq!(index.waiting(Pending), 0);
}

#[test]
fn a_delayed_job_is_back_when_its_time_has_come() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1)], now);
    take(&mut index, now);
    index.delay(Jid::new(1), now + MINUTE);
    assert_eq!(index.next_wakeup(), Some(now + MINUTE));
    assert_eq!(take(&mut index, now + MINUTE - MS), None);
    assert_eq!(take(&mut index, now + MINUTE), Some(pending(5, 1)));
}

#[test]
fn a_ref_that_disagrees_is_left_alone_once_and_repaired_the_second_time() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1)], now);
    let doubt = Settings::default().doubt;
    take(&mut index, now);
    assert_eq!(index.disagrees(pending(5, 1), now), Seen::Once);
    assert_eq!(take(&mut index, now + doubt - MS), None);
    assert_eq!(take(&mut index, now + doubt), Some(pending(5, 1)));
    assert_eq!(index.disagrees(pending(5, 1), now + doubt), Seen::Twice);
    assert_eq!(take(&mut index, now + doubt * 2), None, "it stays taken while it is repaired");
}

#[test]
fn a_ref_that_agreed_meanwhile_has_to_disagree_twice_again() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1)], now);
    let doubt = Settings::default().doubt;
    take(&mut index, now);
    index.disagrees(pending(5, 1), now);
    take(&mut index, now + doubt);
    index.put_back(Jid::new(1), now + doubt);
    take(&mut index, now + doubt);
    assert_eq!(index.disagrees(pending(5, 1), now + doubt), Seen::Once);
}

#[test]
fn a_listing_adds_what_is_new_removes_what_is_gone_and_keeps_what_is_known() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1), pending(5, 2), pending(5, 3), at(Estimating, 5, 9)], now);
    take(&mut index, now);
    take(&mut index, now);
    index.park(Jid::new(2), Reason::Other("full".into()));
    let listed = Listing::new(Pending, [pending(5, 4), pending(5, 1), pending(5, 2)]);
    assert_eq!(index.relist(&listed, now), 2);
    assert_eq!(index.relist(&listed, now), 0);
    assert_eq!(take_all(&mut index, now), [pending(5, 4)]);
    index.put_back(Jid::new(1), now);
    assert_eq!(take_all(&mut index, now), [pending(5, 1)]);
    assert_eq!(index.waiting(Estimating), 1);
}

#[test]
fn a_job_is_next_if_nothing_that_is_ready_there_comes_before_it() {
    let now = Instant::now();
    let mut index = index(&[at(Estimating, 5, 7), pending(5, 3)], now);
    take(&mut index, now);
    assert!(index.is_next(at(Estimating, 5, 3), now));
    assert!(index.is_next(at(Estimating, 4, 9), now));
    assert!(!index.is_next(at(Estimating, 5, 8), now));
    assert!(!index.is_next(at(Estimating, 6, 3), now));
    assert!(index.is_next(at(Downloading, 99, 3), now));
    assert!(!index.is_next(at(Completed, 0, 3), now), "nobody takes from there");
    index.take(Estimating, now);
    assert!(index.is_next(at(Estimating, 6, 3), now), "what is taken is not ready");
    index.date(Jid::new(3), Some(now + MINUTE), now);
    assert!(!index.is_next(at(Estimating, 5, 3), now), "it is not due");
}

#[test]
fn taking_costs_the_same_with_many_waiting() {
    let now = Instant::now();
    // Time is noise on a busy machine: what grows with the number of waiting jobs shows all the same.
    let cost = |count: u32| {
        let mut index = Index::new(Settings { ageing: Some(MINUTE), ..Settings::default() });
        let listed = (0..count).map(|number| pending(i64::from(number % 100), number));
        let listed = Listing::new(Pending, listed);
        index.relist(&listed, now);
        let round = |_| {
            let start = std::time::Instant::now();
            for _ in 0..100 {
                let entry = take(&mut index, now).expect("there is more");
                index.put_back(entry.jid, now);
            }
            start.elapsed()
        };
        (0..20).map(round).min().expect("there were rounds")
    };
    let (few, many) = (cost(1_000), cost(200_000));
    assert!(many < few * 20, "{few:?} with a thousand, {many:?} with two hundred times as many");
}

#[test]
fn the_longest_wait_is_that_of_the_first_in_any_line() {
    let now = Instant::now();
    let mut index = index(&[pending(5, 1)], now);
    index.created(pending(2, 7), now + MINUTE);
    assert_eq!(index.longest_wait(Pending, now + 2 * MINUTE), Some(2 * MINUTE));
    assert_eq!(index.longest_wait(Estimating, now), None);
    index.deleted(pending(5, 1));
    assert_eq!(index.longest_wait(Pending, now + 2 * MINUTE), Some(MINUTE));
}
