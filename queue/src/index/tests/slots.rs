//! Those who wait for a slot of a limit: who is called, and who gives way.

use tokio::time::Instant;

use super::{MINUTE, MS, at, index, pending, take, take_all};
use crate::ids::Jid;
use crate::index::{Candidate, Index, Listing, Reason, Seen};
use crate::states::JobState::{Downloading, Estimating, Pending};

#[test]
fn of_those_who_wait_for_a_slot_the_best_of_each_state_is_called_and_the_others_wait_on() {
    let now = Instant::now();
    let entries = [pending(5, 1), pending(3, 7), pending(3, 4), at(Downloading, 9, 2), at(Downloading, 9, 3)];
    let mut index = index(&entries, now);
    let limit = Reason::Other("limit host-a".into());
    for state in [Pending, Downloading] {
        while let Some(Candidate { entry, .. }) = index.take(state, now) {
            index.park(entry.jid, limit.clone());
        }
    }
    assert_eq!(index.parked_with(&limit), 5);
    assert_eq!(index.unpark_best(&limit, now), 2);
    assert_eq!(index.take(Pending, now).map(|one| one.entry), Some(pending(3, 4)));
    assert_eq!(index.take(Downloading, now).map(|one| one.entry), Some(at(Downloading, 9, 2)));
    assert_eq!((index.take(Pending, now), index.parked_with(&limit)), (None, 3));
    // Whoever comes late gives way to those who were parked, in the order of the line.
    assert!(index.gives_way(pending(4, 8), &limit, now));
    assert!(index.gives_way(pending(3, 8), &limit, now));
    assert!(!index.gives_way(pending(2, 8), &limit, now));
    assert!(!index.gives_way(at(Estimating, 9, 8), &limit, now));
    // Nor does anybody get ahead of one that was called and is just trying.
    assert!(index.called_before(pending(3, 7), &limit, now));
    assert!(
        !index.called_before(pending(3, 4), &limit, now) && !index.called_before(pending(2, 8), &limit, now)
    );
    index.answered(Jid::new(4));
    assert!(!index.called_before(pending(3, 7), &limit, now));
    // One that was called and is gone before it tried leaves that to the next.
    assert_eq!(index.unpark_best(&limit, now), 2);
    assert_eq!(index.deleted(pending(3, 7)), Some(limit.clone()));
    assert_eq!((index.deleted(pending(5, 1)), index.deleted(at(Downloading, 9, 2))), (None, None));
}

/// Three jobs that wait for a slot, and the first of them is called.
fn called(now: Instant) -> (Index, Reason) {
    let mut index = index(&[pending(5, 1), pending(5, 2), pending(5, 3)], now);
    let limit = Reason::Other("limit host-a".into());
    for entry in take_all(&mut index, now) {
        index.park(entry.jid, limit.clone());
    }
    assert_eq!(index.unpark_best(&limit, now), 1);
    (index, limit)
}

#[test]
fn one_that_was_called_is_so_until_it_is_answered_wherever_it_stood_meanwhile() {
    let now = Instant::now();
    let jid = Jid::new(1);
    let stood: [fn(&mut Index, Instant); 4] = [
        |index, now| index.put_back(Jid::new(1), now),
        |index, _| assert!(index.park(Jid::new(1), Reason::Locked(Jid::new(1)))),
        |index, now| index.delay(Jid::new(1), now + MS),
        |index, now| assert_eq!(index.disagrees(pending(5, 1), now), Seen::Once),
    ];
    for stood in stood {
        let (mut index, limit) = called(now);
        assert_eq!(take(&mut index, now), Some(pending(5, 1)));
        stood(&mut index, now);
        assert_eq!((index.answered(jid), index.answered(jid)), (Some(limit), None));
    }
}

#[test]
fn one_that_was_called_and_does_not_try_for_now_leaves_that_to_the_next() {
    let now = Instant::now();
    // Its ref is gone, and no event has told so.
    let (mut index, _) = called(now);
    index.relist(&Listing::new(Pending, [pending(5, 2), pending(5, 3)]), now);
    assert_eq!(take_all(&mut index, now), [pending(5, 2)]);
    // It got a date.
    let (mut index, _) = called(now);
    index.date(Jid::new(1), Some(now + MINUTE), now);
    assert_eq!(take_all(&mut index, now), [pending(5, 2)]);
    // One that has tried before that has had its turn.
    let (mut index, _) = called(now);
    assert_eq!(take(&mut index, now), Some(pending(5, 1)));
    index.date(Jid::new(1), Some(now + MINUTE), now);
    assert_eq!(take_all(&mut index, now), []);
}

#[test]
fn who_has_waited_long_for_a_slot_is_lifted() {
    let now = Instant::now();
    let mut index = index(&[pending(9, 1)], now);
    let limit = Reason::Other("limit host-a".into());
    let later = now + MINUTE * 6;
    take(&mut index, now);
    index.park(Jid::new(1), limit.clone());
    assert!(!index.gives_way(pending(5, 8), &limit, now));
    assert!(index.gives_way(pending(5, 8), &limit, later));
}
