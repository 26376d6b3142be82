//! How a submission becomes part of one that waits under the same key. Pure.

use serde_json::Value;

use crate::date::Date;
use crate::nodes::{Other, Submission};

const PROCESS: &str = "process_date";
const EXPIRATION: &str = "expiration_date";
const PRIORITY: &str = "priority";
/// The uuid that the batch was made with.
pub(crate) const UUID: &str = "uuid";
/// Those of the submissions that have become part of it.
pub(crate) const ALSO: &str = "merged_uuids";
/// How many of them are kept: the oldest of more are forgotten.
const MOST_UUIDS: usize = 100;

/// What comes of two submissions with one key.
#[derive(Debug, Clone, PartialEq)]
pub enum Merge {
    /// One, and the uuid that leads to it no longer.
    Merged(Box<Submission>, Option<String>),
    /// The new one is older than the one that waits.
    Stale,
}

impl Submission {
    /// Not to be begun before then.
    pub fn process_date(&self) -> Option<Date> {
        date(&self.other, PROCESS)
    }

    /// Not to be begun after then; `None` is never.
    pub fn expiration_date(&self) -> Option<Date> {
        date(&self.other, EXPIRATION)
    }

    /// Every uuid that leads to its batch.
    pub fn uuids(&self) -> impl Iterator<Item = &str> {
        let also = self.other.get(ALSO).and_then(Value::as_array).into_iter().flatten();
        self.other.get(UUID).into_iter().chain(also).filter_map(Value::as_str)
    }

    pub fn is_expired(&self, now: Date) -> bool {
        self.expiration_date().is_some_and(|date| date <= now)
    }

    fn set_date(&mut self, name: &str, date: Option<Date>) {
        match date {
            Some(date) => self.other.insert(name.to_owned(), date.to_string().into()),
            None => self.other.remove(name),
        };
    }
}

/// A date among the other fields; 0 and what cannot be read are none.
fn date(other: &Other, name: &str) -> Option<Date> {
    serde_json::from_value(other.get(name)?.clone()).ok()
}

/// A submission as it is kept: with its insertion date, and no process date before that.
pub fn dated(mut submission: Submission, now: Date) -> Submission {
    let inserted = *submission.insertion_date.get_or_insert(now);
    let process = submission.process_date().map(|date| date.max(inserted));
    let expiration = submission.expiration_date();
    submission.set_date(PROCESS, process);
    submission.set_date(EXPIRATION, expiration);
    submission
}

/// The new submission with what is kept of the one that waits: its batch, its uuid and its insertion date; the
/// latest process date, the latest expiration (never is later than any), the smallest priority.
pub fn merge(stored: &Submission, new: &Submission, uuid: &str, now: Date) -> Merge {
    let new = dated(new.clone(), now);
    let older = |inserted: Date| new.insertion_date.is_some_and(|date| date < inserted);
    if stored.insertion_date.is_some_and(older) {
        return Merge::Stale;
    }
    let mut merged = new.clone();
    merged.batch_id.clone_from(&stored.batch_id);
    merged.insertion_date = stored.insertion_date.or(new.insertion_date);
    merged.set_date(PROCESS, stored.process_date().max(new.process_date()));
    let latest = match (stored.expiration_date(), new.expiration_date()) {
        (Some(stored), Some(new)) => Some(stored.max(new)),
        _ => None,
    };
    merged.set_date(EXPIRATION, latest);
    let priorities = [stored, &new].into_iter().filter_map(|one| one.other.get(PRIORITY)?.as_i64());
    if let Some(smallest) = priorities.min() {
        merged.other.insert(PRIORITY.to_owned(), smallest.into());
    }
    let forgotten = take_over_uuids(&mut merged, stored, uuid);
    Merge::Merged(Box::new(merged), forgotten)
}

/// The first uuid stays the batch's own; the new one joins the others.
fn take_over_uuids(merged: &mut Submission, stored: &Submission, uuid: &str) -> Option<String> {
    let mut others: Vec<&str> = stored.uuids().skip(1).filter(|known| *known != uuid).collect();
    others.push(uuid);
    let forgotten = (others.len() > MOST_UUIDS).then(|| others.remove(0).to_owned());
    let others: Vec<Value> = others.into_iter().map(Value::from).collect();
    merged.other.remove(UUID);
    if let Some(own) = stored.other.get(UUID) {
        merged.other.insert(UUID.to_owned(), own.clone());
    }
    merged.other.insert(ALSO.to_owned(), others.into());
    forgotten
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the rules speak of; everything else is user data.
    #[derive(Debug, Clone)]
    struct Drawn {
        inserted: i64,
        process: Option<i64>,
        expiration: Option<i64>,
        priority: Option<i64>,
        title: u8,
    }

    fn drawn() -> impl Strategy<Value = Drawn> {
        let some = || prop::option::of(0_i64..50);
        (0_i64..50, some(), some(), prop::option::of(0_i64..=99), any::<u8>()).prop_map(
            |(inserted, process, expiration, priority, title)| Drawn {
                inserted,
                process,
                expiration,
                priority,
                title,
            },
        )
    }

    fn at(millis: i64) -> Date {
        Date::from_millis(millis)
    }

    fn submission(drawn: &Drawn) -> Submission {
        let mut made = Submission {
            profile_name: "p".into(),
            submitter: "s".into(),
            key: Some("k".into()),
            insertion_date: Some(at(drawn.inserted)),
            erc_what: Some(format!("title {}", drawn.title)),
            ..Submission::default()
        };
        made.set_date(PROCESS, drawn.process.map(at));
        made.set_date(EXPIRATION, drawn.expiration.map(at));
        if let Some(priority) = drawn.priority {
            made.other.insert(PRIORITY.into(), priority.into());
        }
        made
    }

    fn first(drawn: &Drawn) -> Submission {
        let mut made = dated(submission(drawn), at(0));
        made.batch_id = Some("bid0000000001".into());
        made.other.insert(UUID.into(), "first".into());
        made
    }

    fn merged(stored: &Submission, new: &Submission) -> Option<Submission> {
        match merge(stored, new, "second", at(0)) {
            Merge::Merged(merged, _) => Some(*merged),
            Merge::Stale => None,
        }
    }

    proptest! {
        #[test]
        fn an_older_one_is_stale_and_any_other_is_merged(a in drawn(), b in drawn()) {
            prop_assert_eq!(merged(&first(&a), &submission(&b)).is_none(), b.inserted < a.inserted);
        }

        #[test]
        fn the_rules_of_a_merge(a in drawn(), b in drawn()) {
            let stored = first(&a);
            let Some(both) = merged(&stored, &submission(&b)) else { return Ok(()) };
            prop_assert_eq!(both.insertion_date, Some(at(a.inserted)), "the first insertion is kept");
            prop_assert_eq!(&both.batch_id, &stored.batch_id);
            // Never before its own insertion, and the later of the two.
            let raised = |one: &Drawn| one.process.map(|date| date.max(one.inserted));
            prop_assert_eq!(both.process_date(), raised(&a).max(raised(&b)).map(at));
            let latest = a.expiration.zip(b.expiration).map(|(a, b)| at(a.max(b)));
            prop_assert_eq!(both.expiration_date(), latest, "never is later than any date");
            let smallest = a.priority.into_iter().chain(b.priority).min();
            prop_assert_eq!(both.other.get(PRIORITY).and_then(Value::as_i64), smallest);
            let title = format!("title {}", b.title);
            prop_assert_eq!(both.erc_what, Some(title), "user data is the new one's");
        }

        #[test]
        fn the_same_twice_is_the_same_once(a in drawn(), b in drawn()) {
            let Some(once) = merged(&first(&a), &submission(&b)) else { return Ok(()) };
            // The second of the two is not older than the first: the first's date was kept.
            prop_assert_eq!(merged(&once, &submission(&b)), Some(once));
        }

        #[test]
        fn dates_and_priority_do_not_depend_on_the_order(a in drawn(), b in drawn(), c in drawn()) {
            let zero = Drawn { inserted: 0, ..a };
            let fold = |others: [&Drawn; 2]| {
                others.iter().fold(first(&zero), |stored, new| merged(&stored, &submission(new)).unwrap())
            };
            let (one, other) = (fold([&b, &c]), fold([&c, &b]));
            prop_assert_eq!(one.process_date(), other.process_date());
            prop_assert_eq!(one.expiration_date(), other.expiration_date());
            prop_assert_eq!(one.other.get(PRIORITY), other.other.get(PRIORITY));
        }
    }

    #[test]
    fn every_uuid_leads_to_the_batch_until_there_are_too_many() {
        let zero = Drawn { inserted: 0, process: None, expiration: None, priority: None, title: 0 };
        let mut stored = first(&zero);
        for number in 0..=MOST_UUIDS {
            let uuid = format!("u{number}");
            let Merge::Merged(both, forgotten) = merge(&stored, &submission(&zero), &uuid, at(0)) else {
                panic!("stale");
            };
            assert_eq!(forgotten, (number == MOST_UUIDS).then(|| "u0".to_owned()));
            stored = *both;
        }
        let uuids: Vec<&str> = stored.uuids().collect();
        assert_eq!((uuids.len(), uuids[0], uuids[1]), (MOST_UUIDS + 1, "first", "u1"));
    }

    #[test]
    fn zero_is_no_date() {
        let mut never =
            submission(&Drawn { inserted: 5, process: None, expiration: None, priority: None, title: 0 });
        never.other.insert(EXPIRATION.into(), 0.into());
        assert_eq!(dated(never, at(9)).other.get(EXPIRATION), None);
    }
}
