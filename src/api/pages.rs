//! Pages of what is read whole: lists by name, and logs, the newest first.
//!
//! A place in a log is a moment, a node, and how many lines that node has there so far. What is written between two
//! pages is newer than both, and moves nothing; what was thrown away meanwhile is missing, and nothing else.

use std::cmp::Ordering;
use std::fmt;

use ingest_queue::date::Date;

use super::problem::{Answer, Refusal};

/// How many lines a page has, if nobody says, and at the most.
const PAGE: usize = 50;
const MOST: usize = 1000;

/// How long the name of a node can be in a place, in bytes.
const LONGEST: usize = 200;

/// How many lines are wanted.
pub(crate) fn limit_of(limit: Option<usize>) -> Answer<usize> {
    match limit.unwrap_or(PAGE) {
        limit if (1..=MOST).contains(&limit) => Ok(limit),
        _ => Err(Refusal::field("limit", format!("it is 1 to {MOST}"))),
    }
}

/// A page of lines that come in the order of their keys.
pub(crate) fn by_key<T>(
    lines: impl IntoIterator<Item = T>,
    after: Option<&str>,
    limit: usize,
    key: impl Fn(&T) -> String,
) -> (Vec<T>, Option<String>) {
    let after = after.filter(|after| !after.is_empty());
    let wanted = lines.into_iter().filter(|line| after.is_none_or(|after| key(line).as_str() > after));
    let mut page: Vec<T> = wanted.take(limit + 1).collect();
    let more = page.len() > limit;
    page.truncate(limit);
    let next = page.last().filter(|_| more).map(key);
    (page, next)
}

/// A line of a log.
pub(crate) trait Logged {
    fn at(&self) -> Date;
    /// Whose log it is from, where there are several.
    fn node(&self) -> &str;
}

/// Where a page of a log has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    at: Date,
    shown: usize,
    /// In bytes: it is only compared.
    node: Vec<u8>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.", self.at.millis(), self.shown)?;
        self.node.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Place {
    /// The `next` of the page before; an empty text is none.
    pub(crate) fn read(text: Option<&str>) -> Answer<Option<Self>> {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
        let wrong = || Refusal::field("after", "it is the `next` of the page before");
        Self::parse(text).ok_or_else(wrong).map(Some)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (at, shown, node) = (parts.next()?, parts.next()?, parts.next()?);
        let is_number = |text: &str, longest: usize| {
            (1..=longest).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let fits = is_number(at.strip_prefix('-').unwrap_or(at), 15)
            && is_number(shown, 6)
            && node.len() <= 2 * LONGEST
            && node.len().is_multiple_of(2)
            && node.bytes().all(is_hex);
        if !fits || parts.next().is_some() {
            return None;
        }
        let bytes = (0..node.len()).step_by(2).map(|at| u8::from_str_radix(&node[at..at + 2], 16).ok());
        let (at, shown) = (Date::from_millis(at.parse().ok()?), shown.parse().ok()?);
        Some(Self { at, shown, node: bytes.collect::<Option<_>>()? })
    }

    /// Whether this line comes later; `same` counts those of the same moment and node.
    fn is_before(&self, line: &impl Logged, same: &mut usize) -> bool {
        match (line.at().cmp(&self.at), name(line).cmp(self.node.as_slice())) {
            (Ordering::Less, _) | (Ordering::Equal, Ordering::Greater) => true,
            (Ordering::Equal, Ordering::Equal) => {
                *same += 1;
                *same > self.shown
            }
            _ => false,
        }
    }
}

fn name(line: &impl Logged) -> &[u8] {
    let name = line.node().as_bytes();
    &name[..name.len().min(LONGEST)]
}

/// Lines in the order of pages: the newest first, those of one moment by node, and within a node as they are.
pub(crate) fn newest_first<T: Logged>(lines: &mut [T]) {
    lines.sort_by(|a, b| b.at().cmp(&a.at()).then_with(|| name(a).cmp(name(b))));
}

/// What of the lines of a log comes after a place, in the order of pages.
pub(crate) fn after<T: Logged>(mut lines: Vec<T>, place: Option<&Place>) -> Vec<T> {
    newest_first(&mut lines);
    if let Some(place) = place {
        let mut same = 0;
        lines.retain(|line| place.is_before(line, &mut same));
    }
    lines
}

/// The first so many of the lines that come after a place, and where the next page begins. `more`: somebody else has
/// lines that are not among these.
pub(crate) fn of_log<T: Logged>(
    mut lines: Vec<T>,
    place: Option<&Place>,
    limit: usize,
    more: bool,
) -> (Vec<T>, Option<String>) {
    let more = more || lines.len() > limit;
    lines.truncate(limit);
    let next = lines.last().filter(|_| more).map(|last| {
        let (at, node) = (last.at(), name(last));
        let here = lines.iter().filter(|line| line.at() == at && name(*line) == node).count();
        let before =
            place.filter(|place| place.at == at && place.node == node).map_or(0, |place| place.shown);
        Place { at, shown: before + here, node: node.to_vec() }.to_string()
    });
    (lines, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Line(i64, &'static str, u32);

    impl Logged for Line {
        fn at(&self) -> Date {
            Date::from_millis(self.0)
        }

        fn node(&self) -> &str {
            self.1
        }
    }

    fn logs() -> Vec<Vec<Line>> {
        // One clock was set back; much happens at once on both.
        let a = [(9, 1), (9, 2), (7, 3), (8, 4), (8, 5), (8, 6), (8, 7), (-3, 8)];
        let b = [(9, 1), (8, 2), (8, 3), (8, 4), (2, 5)];
        let of = |node, lines: &[(i64, u32)]| lines.iter().map(|(at, n)| Line(*at, node, *n)).collect();
        vec![of("a", &a), of("b", &b)]
    }

    fn walk(limit: usize) -> Vec<Line> {
        let (mut all, mut place) = (Vec::new(), None::<Place>);
        loop {
            // As nodes do it: each gives its own page, and one puts them together.
            let (mut found, mut more) = (Vec::new(), false);
            for log in logs() {
                let (page, next) = of_log(after(log, place.as_ref()), place.as_ref(), limit, false);
                found.extend(page);
                more |= next.is_some();
            }
            newest_first(&mut found);
            let (page, next) = of_log(found, place.as_ref(), limit, more);
            assert!(page.len() <= limit);
            all.extend(page);
            match next {
                Some(next) => place = Place::read(Some(&next)).unwrap(),
                None => return all,
            }
        }
    }

    #[test]
    fn every_line_is_on_one_page_whatever_its_size() {
        let mut expected: Vec<Line> = logs().concat();
        newest_first(&mut expected);
        assert_eq!(expected.iter().map(|line| line.0).take(4).collect::<Vec<_>>(), [9, 9, 9, 8]);
        for limit in 1..20 {
            assert_eq!(walk(limit), expected, "{limit}");
        }
    }

    #[test]
    fn what_is_written_meanwhile_moves_nothing() {
        let log: Vec<Line> = (0..6).rev().map(|at| Line(at, "a", 0)).collect();
        let (first, next) = of_log(after(log.clone(), None), None, 3, false);
        let place = Place::read(next.as_deref()).unwrap();
        let longer = [vec![Line(7, "a", 1), Line(6, "a", 1)], log.clone()].concat();
        let (second, end) = of_log(after(longer, place.as_ref()), place.as_ref(), 3, false);
        assert_eq!((first, second, end), (log[..3].to_vec(), log[3..].to_vec(), None));
    }

    #[test]
    fn a_place_is_what_a_page_has_said() {
        for good in ["-5.3.", "1763430000000.12.6e6f64652d31", "0.0.ff"] {
            assert_eq!(Place::parse(good).map(|place| place.to_string()).as_deref(), Some(good));
        }
        assert_eq!(Place::read(Some("")).unwrap(), None);
        for wrong in
            ["x", "1", "1.2", "1.2.3", "1.2.3g", "1.2.aa.", "--1.2.", "1.2.AA", "+1.2.", "1.1234567."]
        {
            assert!(Place::read(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_by_name_go_on_after_a_name() {
        let names = ["a", "b", "c", "d", "e"];
        let page = |after, limit| by_key(names, after, limit, |name| (*name).to_owned());
        assert_eq!(page(None, 2), (vec!["a", "b"], Some("b".to_owned())));
        assert_eq!(page(Some("b"), 2), (vec!["c", "d"], Some("d".to_owned())));
        assert_eq!(page(Some("d"), 2), (vec!["e"], None));
        assert_eq!(page(Some(""), 5), (names.to_vec(), None));
        assert_eq!(page(Some("bb"), 1), (vec!["c"], Some("c".to_owned())), "also after one that is gone");
    }
}
