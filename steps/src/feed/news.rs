//! What is new, in order. Pure.
//!
//! Items of the web have a time and an id, and are consumed in that order. The checkpoint is the last that was consumed:
//! `2026-11-17T07:00:00.000Z ID`. Sources list in any order, repeat themselves, and publish late; so what is asked for
//! is everything since the checkpoint less the overlap, in whatever order it comes; what was consumed already is left out;
//! and of the rest the oldest come first, so many at a time.
//!
//! A source that has a list of everything beside one of what has changed reads the former until all of it was consumed once:
//! as long as it was not, the checkpoint begins with `first`, so that whoever goes on after a crash, or with the next 50,000,
//! knows ([`Gather::first_of_all`]).

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_queue::date::Date;

use super::{Item, News};

/// So many items are held in memory: the oldest.
pub const MOST: usize = 50_000;

/// Before the checkpoint of a source of which not everything was consumed once.
const FIRST: &str = "first ";

/// The checkpoint of a source on the web.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint {
    pub date: Date,
    pub id: String,
}

impl Checkpoint {
    /// `None`: nothing was consumed. A bare date is one, too: what a person sets.
    pub fn read(last: &str) -> Result<Option<Self>, String> {
        if last.is_empty() {
            return Ok(None);
        }
        let plain = last.strip_prefix(FIRST).unwrap_or(last);
        let (date, id) = plain.split_once(' ').unwrap_or((plain, ""));
        let date = time(date).ok_or_else(|| {
            format!("the checkpoint `{last}` is not a date and an id: set it to a date, or to nothing")
        })?;
        Ok(Some(Self { date, id: id.to_owned() }))
    }

    pub fn write(&self) -> String {
        // One line: an id may be anything.
        let id: String = self.id.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{} {id}", self.date).trim_end().to_owned()
    }
}

/// A date as feeds write it: with or without a time, seconds, or their fractions.
pub fn time(text: &str) -> Option<Date> {
    let text = text.trim();
    let day = |text: &str| text.parse::<jiff::civil::Date>().ok();
    if text.len() == 10 {
        return day(text).and_then(|_| format!("{text}T00:00:00Z").parse().ok());
    }
    text.parse().ok().or_else(|| {
        // `2026-11-17T07:00Z`, `2026-11-17T07:00+01:00`.
        let (minute, zone) = (text.get(..16)?, text.get(16..)?);
        format!("{minute}:00{zone}").parse().ok()
    })
}

/// What a source has given out, as far as it may come again.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<String, Date>);

impl Seen {
    pub fn add(&mut self, item: &Item) {
        self.0.insert(item.id.clone(), item.date.unwrap_or(Date::from_millis(i64::MAX)));
    }

    /// Forgets what cannot come again.
    fn forget(&mut self, before: Date) {
        self.0.retain(|_, date| *date >= before);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Gathers what a source lists.
#[derive(Debug)]
pub struct Gather<'s> {
    last: Option<Checkpoint>,
    from: Option<Date>,
    seen: &'s Seen,
    most: usize,
    kept: BTreeMap<(Date, String), Item>,
    more: bool,
    /// Not everything was consumed once.
    is_first: bool,
    /// That is said in the checkpoint.
    marks_first: bool,
}

impl<'s> Gather<'s> {
    pub fn new(last: &str, overlap: Duration, seen: &'s mut Seen) -> Result<Self, String> {
        Self::at_most(last, overlap, seen, MOST)
    }

    pub fn at_most(last: &str, overlap: Duration, seen: &'s mut Seen, most: usize) -> Result<Self, String> {
        let is_first = last.is_empty() || last.starts_with(FIRST);
        let last = Checkpoint::read(last)?;
        let millis = i64::try_from(overlap.as_millis()).unwrap_or(i64::MAX);
        let from = last.as_ref().map(|last| Date::from_millis(last.date.millis().saturating_sub(millis)));
        if let Some(from) = from {
            seen.forget(from);
        }
        let kept = BTreeMap::new();
        Ok(Self { last, from, seen, most, kept, more: false, is_first, marks_first: false })
    }

    /// Whether everything that there is has still to be consumed once. Until it is, checkpoints say so from here on.
    pub fn first_of_all(&mut self) -> bool {
        self.marks_first = self.is_first;
        self.is_first
    }

    /// What is older is of no interest; `None`: everything is.
    pub fn from(&self) -> Option<Date> {
        self.from
    }

    /// What the source lists. An item without a date may be new at any time: it is never too old.
    pub fn add(&mut self, item: Item) {
        let at = item.date.or_else(|| self.last.as_ref().map(|last| last.date));
        let at = at.unwrap_or(Date::from_millis(0));
        if self.from.is_some_and(|from| at < from) || self.seen.0.contains_key(&item.id) {
            return;
        }
        self.kept.insert((at, item.id.clone()), item);
        if self.kept.len() > self.most {
            self.kept.pop_last();
            self.more = true;
        }
    }

    /// All of it, in order, each with the checkpoint behind it. The checkpoint never goes back, and an item without a date
    /// does not move it.
    pub fn finish(self) -> News {
        let mut last = self.last;
        let mut items: Vec<Item> = Vec::with_capacity(self.kept.len());
        let all = self.kept.len();
        for ((date, id), mut item) in self.kept {
            let here = Checkpoint { date, id };
            if item.date.is_some() && last.as_ref().is_none_or(|last| *last < here) {
                last = Some(here);
            }
            item.last = last.as_ref().map(Checkpoint::write).unwrap_or_default();
            let is_the_end = items.len() + 1 == all && !self.more;
            if self.marks_first && !is_the_end && !item.last.is_empty() {
                item.last.insert_str(0, FIRST);
            }
            items.push(item);
        }
        News { items, more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::What;
    use super::*;

    fn item(second: u64, id: &str) -> Item {
        let date = Some(Date::from_millis(i64::try_from(second).unwrap() * 1_000));
        Item { date, ..Item::new(id, What::Nothing(String::new())) }
    }

    fn ids(news: &News) -> Vec<&str> {
        news.items.iter().map(|item| item.id.as_str()).collect()
    }

    #[test]
    fn dates_are_read_as_feeds_write_them() {
        let millis = |text| time(text).map(Date::millis);
        assert_eq!(millis("1970-01-02"), Some(86_400_000));
        assert_eq!(millis("1970-01-01T00:01Z"), Some(60_000));
        assert_eq!(millis("1970-01-01T01:01+01:00"), Some(60_000));
        assert_eq!(millis(" 1970-01-01T00:00:01.5Z\n"), Some(1_500));
        for bad in ["", "yesterday", "1970-13-01", "1970-01-01T00", "üüüüüüüüüü"] {
            assert_eq!(millis(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_checkpoint_is_a_date_and_an_id() {
        let last = Checkpoint { date: Date::from_millis(1_000), id: "urn:a b".into() };
        assert_eq!(last.write(), "1970-01-01T00:00:01.000Z urn:a b");
        assert_eq!(Checkpoint::read(&last.write()), Ok(Some(last)));
        assert_eq!(Checkpoint::read(""), Ok(None));
        assert_eq!(Checkpoint::read("1970-01-02").unwrap().unwrap().id, "");
        assert!(Checkpoint::read("what").unwrap_err().contains("`what`"));
    }

    #[test]
    fn the_oldest_come_first_and_those_that_were_consumed_not_again() {
        let mut seen = Seen::default();
        let mut gather = Gather::at_most("", Duration::ZERO, &mut seen, 2).unwrap();
        for (second, id) in [(3, "c"), (1, "a"), (2, "b"), (1, "a")] {
            gather.add(item(second, id));
        }
        let news = gather.finish();
        assert_eq!((ids(&news), news.more), (vec!["a", "b"], true));
        assert_eq!(news.items[1].last, "1970-01-01T00:00:02.000Z b");
        news.items.iter().for_each(|item| seen.add(item));
        let mut gather = Gather::at_most(&news.items[1].last, Duration::ZERO, &mut seen, 2).unwrap();
        for (second, id) in [(3, "c"), (1, "a"), (2, "b"), (2, "aa")] {
            gather.add(item(second, id));
        }
        // `aa` was published late, and is as old as the checkpoint: it is not lost.
        let news = gather.finish();
        assert_eq!((ids(&news), news.more), (vec!["aa", "c"], false));
        assert_eq!(news.items[0].last, "1970-01-01T00:00:02.000Z b");
        assert_eq!(news.items[1].last, "1970-01-01T00:00:03.000Z c");
    }

    #[test]
    fn what_is_published_late_is_found_within_the_overlap() {
        let mut seen = Seen::default();
        let last = "1970-01-01T00:01:40.000Z x";
        let mut gather = Gather::at_most(last, Duration::from_mins(1), &mut seen, 9).unwrap();
        for (second, id) in [(39, "too old"), (40, "late"), (100, "new")] {
            gather.add(item(second, id));
        }
        assert_eq!(ids(&gather.finish()), ["late", "new"]);
    }

    #[test]
    fn checkpoints_say_until_its_end_that_everything_is_consumed_for_the_first_time() {
        let mut seen = Seen::default();
        let mut ask = |last: &str, most| {
            let mut gather = Gather::at_most(last, Duration::ZERO, &mut seen, most).unwrap();
            let is_first = gather.first_of_all();
            (1..5).for_each(|second| gather.add(item(second, &second.to_string())));
            let lasts: Vec<String> = gather.finish().items.into_iter().map(|item| item.last).collect();
            (is_first, lasts)
        };
        let second = |second: u64| format!("1970-01-01T00:00:0{second}.000Z {second}");
        let first = |number: u64| format!("first {}", second(number));
        // So many at a time, or as far as it came: what was the last comes again.
        assert_eq!(ask("", 2), (true, vec![first(1), first(2)]));
        assert_eq!(ask(&first(2), 9), (true, vec![first(2), first(3), second(4)]));
        assert_eq!(ask(&second(4), 9), (false, vec![second(4)]));
        // What a person sets is a date from which on changes are wanted.
        assert!(!ask("1970-01-01", 9).0);
        assert!(Checkpoint::read("first what").is_err());
    }

    #[test]
    fn an_item_without_a_date_moves_no_checkpoint() {
        let mut seen = Seen::default();
        let undated = || Item::new("undated", What::Nothing("why".into()));
        let mut gather = Gather::new("", Duration::ZERO, &mut seen).unwrap();
        gather.add(undated());
        gather.add(item(1, "a"));
        let news = gather.finish();
        let all: Vec<_> = news.items.iter().map(|item| (item.id.as_str(), item.last.as_str())).collect();
        assert_eq!(all, [("undated", ""), ("a", "1970-01-01T00:00:01.000Z a")]);
        // Behind a checkpoint it is not too old either.
        let mut gather = Gather::new("2026-01-01", Duration::ZERO, &mut seen).unwrap();
        gather.add(undated());
        assert_eq!(gather.finish().items[0].last, "2026-01-01T00:00:00.000Z");
    }

    proptest! {
        /// However a source lists, and however often it is asked in between: every item is given out once, and the
        /// checkpoint only goes forward.
        #[test]
        fn every_item_is_given_out_once(
            seconds in prop::collection::vec(0..20_u64, 0..40), most in 1..7_usize, overlap in 0..30_u64,
        ) {
            let (mut seen, mut last, mut found) = (Seen::default(), String::new(), Vec::new());
            loop {
                let overlap = Duration::from_secs(overlap);
                let mut gather = Gather::at_most(&last, overlap, &mut seen, most).unwrap();
                for (number, second) in seconds.iter().enumerate() {
                    gather.add(item(*second, &number.to_string()));
                }
                let news = gather.finish();
                for item in &news.items {
                    seen.add(item);
                    let before = Checkpoint::read(&last).unwrap();
                    prop_assert!(before <= Checkpoint::read(&item.last).unwrap());
                    last.clone_from(&item.last);
                    found.push(item.id.parse::<usize>().unwrap());
                }
                if !news.more {
                    break;
                }
            }
            found.sort_unstable();
            prop_assert_eq!(found, (0..seconds.len()).collect::<Vec<_>>());
        }
    }
}
