//! Which failures are of one kind: the group of a reason.
//!
//! A status says in words why a job failed, and the words name what differs from job to job: a URL, a file, a count.
//! The [`template`] is the reason without that, and the [`GroupKey`] is a digest of the template. Whoever counts
//! groups and whoever selects the jobs of a group asks [`GroupKey::of`], so both mean the same jobs.
//!
//! The template replaces, in each line:
//!
//! | in the reason | in the template |
//! |---|---|
//! | a URL: `scheme://…` up to a blank or a quotation mark | `<url>` |
//! | a path that does not begin with a slash, as of a file of the payload, up to a blank; between the beginning (or `: `) and `: URL` also with blanks | `<path>` |
//! | what stands between two backticks, two `"` or two `'` | `<name>`, in the same marks |
//! | a status code of HTTP: 400 to 599 before a capitalised word, or after `answers`, `answered`, `status`, `code`, `HTTP` | as it is |
//! | any other word with a digit: numbers, ids, digests, dates, addresses | `#`; several in a row are one |
//! | blanks | one space |
//!
//! After that, items of a list (after `, ` and `; `) that follow an equal one, equal lines, empty lines, and
//! `and # more` are left out: how many things are wrong makes no other group.
//!
//! **Long reasons.** A status keeps 16 KiB of a reason. What is longer is cut by [`shortened`], which writes the key of the
//! whole reason behind the cut: two reasons that are cut at different places are in the same group if they were in
//! the same group whole.
//!
//! **Other versions.** The key begins with the version of these rules. A key of another version is refused and never
//! compared.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How many bytes of a reason a status keeps.
pub const MAX_REASON: usize = 16 << 10;

/// Version and length of a key: `g1-` and 16 hexadecimal digits.
const PREFIX: &str = "g1-";
const DIGITS: usize = 16;

/// Words after which a number of three digits is a status code.
const BEFORE_CODES: [&str; 5] = ["answers", "answered", "status", "code", "HTTP"];

/// Left out: it says how long a list is.
const AND_MORE: &str = "and # more";

/// The identity of a group of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupKey(u64);

impl GroupKey {
    /// The group of a reason as a status keeps it.
    pub fn of(reason: &str) -> Self {
        kept_key(reason).unwrap_or_else(|| Self::of_template(&template(reason)))
    }

    fn of_template(template: &str) -> Self {
        let digest = Sha256::digest(template.as_bytes());
        Self(digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:0DIGITS$x}", self.0)
    }
}

/// A text that is no key of a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no key of a group: that is `g1-` and 16 hexadecimal digits, as `ingestd job reasons` shows it"
)]
pub struct NoGroupKey(String);

impl FromStr for GroupKey {
    type Err = NoGroupKey;

    fn from_str(text: &str) -> Result<Self, NoGroupKey> {
        let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        let digits =
            text.strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS && digits.chars().all(is_digit));
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number
            .map(Self)
            .ok_or_else(|| NoGroupKey(text.chars().take(40).collect::<String>().escape_debug().to_string()))
    }
}

impl TryFrom<String> for GroupKey {
    type Error = NoGroupKey;

    fn try_from(text: String) -> Result<Self, NoGroupKey> {
        text.parse()
    }
}

impl From<GroupKey> for String {
    fn from(key: GroupKey) -> Self {
        key.to_string()
    }
}

/// A reason as a status keeps it. One of more than [`MAX_REASON`] bytes is cut, and says how long it was and to which group
/// it belongs.
pub fn shortened(reason: &str) -> String {
    if reason.len() <= MAX_REASON {
        return reason.to_owned();
    }
    let end = (0..=MAX_REASON).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    format!("{}… ({} bytes, group {})", &reason[..end], reason.len(), GroupKey::of(reason))
}

/// The key that [`shortened`] has written behind a reason. Only a reason that was cut is so long, so nobody else writes one.
fn kept_key(reason: &str) -> Option<GroupKey> {
    if reason.len() <= MAX_REASON {
        return None;
    }
    let (_, behind) = reason.rsplit_once("… (")?;
    let (bytes, key) = behind.strip_suffix(')')?.split_once(" bytes, group ")?;
    bytes.parse::<usize>().ok()?;
    key.parse().ok()
}

/// A reason without what differs from job to job.
pub fn template(reason: &str) -> String {
    let mut seen = HashSet::new();
    let mut lines = Vec::new();
    for line in reason.lines() {
        let line = without_repeats(&without_details(line));
        if !line.is_empty() && line != AND_MORE && seen.insert(line.clone()) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// Leaves out what follows an equal item of a list.
fn without_repeats(line: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    for part in line.split("; ") {
        let mut items: Vec<&str> = Vec::new();
        for item in part.split(", ") {
            let repeats = |last: &&str| {
                *last == item || last.strip_suffix(item).is_some_and(|lead| lead.ends_with(": "))
            };
            if item != AND_MORE && !items.last().is_some_and(repeats) {
                items.push(item);
            }
        }
        let part = items.join(", ");
        if !part.is_empty() && kept.last() != Some(&part) {
            kept.push(part);
        }
    }
    kept.join("; ")
}

fn without_details(line: &str) -> String {
    let mut reader = Reader { rest: line, ..Reader::default() };
    while reader.step() {}
    reader.template.trim_end().to_owned()
}

/// Reads a line once, from its beginning to its end.
#[derive(Debug, Default)]
struct Reader<'a> {
    rest: &'a str,
    /// The character before the rest, and the word before it.
    before: Option<char>,
    word: &'a str,
    /// From here to so many bytes before the end of the line no path begins; and there is the next `: `.
    no_path: Option<usize>,
    colon: Option<usize>,
    /// Marks that nothing closes in the rest, so that nobody looks for them again.
    never_closed: Vec<char>,
    template: String,
}

impl<'a> Reader<'a> {
    /// Takes one thing; false at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        let begins_word = !self.before.is_some_and(char::is_alphanumeric);
        if first.is_whitespace() {
            self.take(first.len_utf8());
            if !self.template.is_empty() && !self.template.ends_with(' ') {
                self.template.push(' ');
            }
        } else if let Some(length) = self.url().filter(|_| begins_word) {
            self.take(length);
            self.template.push_str("<url>");
        } else if let Some(length) = self.quoted(first).filter(|_| begins_word) {
            self.take(length);
            self.template.extend([first, '<']);
            self.template.push_str("name>");
            self.template.push(first);
        } else if is_gap(first) {
            self.take(first.len_utf8());
            self.template.push(first);
        } else if let Some(length) = self.path().filter(|_| begins_word) {
            self.take(length);
            self.template.push_str("<path>");
        } else {
            self.word();
        }
        true
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.before = taken.chars().next_back();
        self.rest = rest;
        taken
    }

    /// The length of the URL that begins here.
    fn url(&self) -> Option<usize> {
        if !begins_url(self.rest) {
            return None;
        }
        let ends = |c: char| c.is_whitespace() || "\"`<>".contains(c);
        let url = &self.rest[..self.rest.find(ends).unwrap_or(self.rest.len())];
        // What closes belongs to the URL if it was opened there.
        let (round, square) = (url.contains('('), url.contains('['));
        let is_after = |c: char| ".,;:'".contains(c) || c == ')' && !round || c == ']' && !square;
        Some(url.trim_end_matches(is_after).len())
    }

    /// The length of the path that begins here.
    fn path(&mut self) -> Option<usize> {
        if self.no_path.is_some_and(|end| self.rest.len() > end) {
            return None;
        }
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let chunk = &self.rest[..end];
        let is_path = chunk.find('/').is_some_and(|at| at > 0 && !chunk[..at].ends_with(':'));
        if !is_path || !chunk.contains(char::is_alphabetic) {
            self.no_path = Some(self.rest.len() - end);
            return None;
        }
        // Names have blanks: between the beginning, or a colon, and a URL it is seen where they end.
        let is_first = self.template.is_empty() || self.template.ends_with(": ");
        let colon = if is_first { self.colon() } else { None };
        let before_url = colon.filter(|at| begins_url(&self.rest[at + 2..]));
        before_url.or_else(|| Some(chunk.trim_end_matches(|c| ".,;:)]'".contains(c)).len()))
    }

    /// Where the next `: ` is. It is looked for once.
    fn colon(&mut self) -> Option<usize> {
        let left = match self.colon.filter(|left| *left <= self.rest.len()) {
            Some(left) => left,
            None => self.rest.find(": ").map_or(0, |at| self.rest.len() - at),
        };
        self.colon = Some(left);
        (left > 0).then(|| self.rest.len() - left)
    }

    /// The length of what is quoted here, with its marks.
    fn quoted(&mut self, mark: char) -> Option<usize> {
        if !"`\"'".contains(mark) || self.never_closed.contains(&mark) {
            return None;
        }
        let (inside, mut escaped) = (&self.rest[1..], false);
        for (at, c) in inside.char_indices() {
            if c == mark && !escaped {
                let after = inside[at + 1..].chars().next();
                // An apostrophe is in a word.
                if mark != '\'' || !after.is_some_and(char::is_alphanumeric) {
                    return Some(at + 2);
                }
            }
            escaped = c == '\\' && mark == '"' && !escaped;
        }
        self.never_closed.push(mark);
        None
    }

    fn word(&mut self) {
        let mut last = self.before;
        let mut length = 0;
        for (at, c) in self.rest.char_indices() {
            let next = self.rest[at + c.len_utf8()..].chars().next();
            let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
            let in_number = ",:".contains(c) && at > 0 && is_digit(last) && is_digit(next);
            if c.is_whitespace() || is_gap(c) && !in_number {
                break;
            }
            (last, length) = (Some(c), at + c.len_utf8());
        }
        let word = self.take(length);
        if !word.chars().any(|c| c.is_ascii_digit()) || self.is_code(word) {
            self.template.push_str(word);
        } else if !self.template.ends_with("# ") {
            self.template.push('#');
        }
        self.word = word;
    }

    /// Whether the word that was just taken is a status code.
    fn is_code(&self, word: &str) -> bool {
        let is_code = word.len() == 3 && word.parse().is_ok_and(|code: u16| (400..600).contains(&code));
        let named = self.rest.strip_prefix(' ').and_then(|rest| rest.chars().next());
        is_code && (named.is_some_and(|c| c.is_uppercase() || c == '<') || BEFORE_CODES.contains(&self.word))
    }
}

fn begins_url(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let scheme = text.char_indices().take(20).find(|(_, c)| !fits(*c)).map(|(at, _)| at);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.is_some_and(|at| text[at..].starts_with("://"))
}

/// What stands between words.
fn is_gap(c: char) -> bool {
    ":;,()[]{}<>=\"`".contains(c)
}

#[cfg(test)]
mod tests;
