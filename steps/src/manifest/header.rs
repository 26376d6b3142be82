//! What stands before the rows: which kind of manifest it is, and what its columns are.
//!
//! **When things break.** Every fault of the header is found before the rows are looked at. Rows are looked at
//! only if it is known what they are: of a file that is no manifest at all there is a word on its first
//! lines, not one on each.

use std::io::BufRead;

use super::columns::{Column, Kind, Term};
use super::encoding::is_space;
use super::lines::{Line, Lines};
use super::problems::{Problem, Problems, shown};
use super::row::{Layout, fields};
use super::{Error, Limits};

/// How a manifest begins.
pub(super) const FIRST: &str = "#%checkm_0.7";
/// How manifests of every version begin.
const SIGN: &[u8] = b"#%checkm";
/// How it ends.
pub(super) const LAST: &str = "#%eof";

/// What a line is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Blank,
    Profile,
    Fields,
    Eof,
    /// Says nothing that is needed: prefixes, other directives, remarks.
    Remark,
    Row,
}

pub(super) fn purpose(line: &str) -> Purpose {
    let line = line.trim_matches(is_space);
    if line.is_empty() {
        return Purpose::Blank;
    }
    if !line.starts_with('#') {
        return Purpose::Row;
    }
    let word = line.split('|').next().unwrap_or(line).trim_matches(is_space);
    if word.eq_ignore_ascii_case(LAST) {
        Purpose::Eof
    } else if word.eq_ignore_ascii_case("#%profile") {
        Purpose::Profile
    } else if word.eq_ignore_ascii_case("#%fields") {
        Purpose::Fields
    } else {
        Purpose::Remark
    }
}

/// What a line has that is no text, or too long a one.
pub(super) fn unreadable(number: u64, line: &Line<'_>, limits: Limits) -> Option<Problem> {
    match line {
        Line::Text(_) => None,
        Line::TooLong => {
            let why = format!("the line is longer than {} bytes", limits.line);
            Some(Problem::new(number, 1, why))
        }
        Line::NotText(before) => {
            let why = "not UTF-8; save the manifest in this encoding";
            // The field that it is in begins before it, or with it.
            let field = fields(before).last().filter(|field| !field.text.is_empty());
            let column = field.map_or(before.chars().count() as u64 + 1, |field| field.column(before));
            Some(Problem::new(number, column, why))
        }
    }
}

/// The header as far as it was read.
#[derive(Debug)]
pub(super) struct Header {
    profile: Option<u64>,
    kind: Option<Kind>,
    fields: Option<u64>,
    columns: Vec<Option<Column>>,
    /// What `#%fields` calls them.
    names: Vec<String>,
    /// There was neither a row nor a `#%eof` behind it.
    pub(super) at_end: bool,
    pub(super) problems: Problems,
}

impl Header {
    /// Reads up to the first row, or to the end; both are left to be read.
    pub(super) fn read<R: BufRead>(lines: &mut Lines<R>, limits: Limits) -> Result<Self, Error> {
        let mut header = Header {
            profile: None,
            kind: None,
            fields: None,
            columns: Vec::new(),
            names: Vec::new(),
            at_end: false,
            problems: Problems::none(limits.problems),
        };
        let mut begun = false;
        loop {
            let (number, line) = match lines.next() {
                Ok(Some(next)) => next,
                Ok(None) => {
                    // Of an empty one it goes without saying.
                    header.at_end = begun;
                    break;
                }
                Err(error) => return Err(Error::Unreadable { line: lines.number(), error }),
            };
            let text = match line {
                Line::Text(text) | Line::NotText(text) => text,
                Line::TooLong => "",
            };
            let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
            let purpose = if line == Line::TooLong { Purpose::Row } else { purpose(text) };
            if purpose == Purpose::Blank && matches!(line, Line::Text(_)) {
                continue;
            }
            if !std::mem::replace(&mut begun, true) {
                header.first(number, text);
            }
            if matches!(purpose, Purpose::Row | Purpose::Blank | Purpose::Eof) {
                lines.put_back();
                break;
            }
            match unreadable(number, &line, limits) {
                Some(problem) => {
                    header.problems.push(problem);
                    // It is there, and cannot be read: that is one fault, not two.
                    if purpose == Purpose::Profile {
                        header.profile = Some(number);
                    }
                }
                None if purpose == Purpose::Profile => header.profile(number, text),
                None if purpose == Purpose::Fields => header.fields(number, text),
                None => {}
            }
        }
        if !begun {
            let why = format!("the manifest is empty; it begins with `{FIRST}` and ends with `{LAST}`");
            header.problems.push(Problem::new(1, 1, why));
        } else if header.profile.is_none() {
            let why = format!(
                "no `#%profile` before this line; it says what the rows are, such as `{}`",
                Kind::Object.profile()
            );
            header.problems.push(Problem::new(lines.number().max(1), 1, why));
        }
        header.check_fields();
        header.problems.sort();
        Ok(header)
    }

    /// Whose fields other profiles have is no matter here.
    fn check_fields(&mut self) {
        let (Some(number), Some(_)) = (self.fields, self.kind) else { return };
        for needed in [Column::Url, Column::Name] {
            if !self.columns.contains(&Some(needed)) {
                let why = format!("`#%fields` has no {needed}; every manifest needs it");
                self.problems.push(Problem::new(number, 1, why));
            }
        }
    }

    /// The kind and the columns by position; `None` if it is not known what a row is.
    pub(super) fn known(&mut self) -> Option<(Kind, Layout)> {
        let kind = self.kind?;
        if self.fields.is_none() {
            let optional = Term::ALL.into_iter().map(Column::DublinCore);
            let columns: Vec<_> = kind.columns().iter().copied().chain(optional).map(Some).collect();
            let names = columns.iter().flatten().map(Column::to_string).collect();
            return Some((
                kind,
                Layout::new(kind, columns, names, format!("a {kind} without `#%fields` has")),
            ));
        }
        let (columns, names) = (std::mem::take(&mut self.columns), std::mem::take(&mut self.names));
        let has = |column| columns.contains(&Some(column));
        (has(Column::Url) && has(Column::Name))
            .then(|| (kind, Layout::new(kind, columns, names, "`#%fields` declares".to_owned())))
    }

    fn first(&mut self, number: u64, line: &str) {
        let line = line.trim_matches(is_space);
        if !line.eq_ignore_ascii_case(FIRST) {
            let why = format!("the first line is `{FIRST}` in a manifest, and here it is `{}`", shown(line));
            self.problems.push(Problem::new(number, 1, why));
        }
    }

    fn profile(&mut self, number: u64, line: &str) {
        if let Some(before) = self.profile {
            let why = format!("a second `#%profile`; the first is on line {before}");
            self.problems.push(Problem::new(number, 1, why));
            return;
        }
        self.profile = Some(number);
        let Some(field) = fields(line).nth(1).filter(|field| !field.text.is_empty()) else {
            let why = "`#%profile` names no profile; write it behind a `|`";
            self.problems.push(Problem::new(number, 1, why));
            return;
        };
        self.kind = Kind::from_profile(field.text);
        if self.kind.is_none() {
            let known = Kind::ALL.map(Kind::profile).join(", ");
            let why = format!("the profile `{}` is not known; known are {known}", shown(field.text));
            self.problems.push(Problem::new(number, field.column(line), why));
        }
    }

    fn fields(&mut self, number: u64, line: &str) {
        if let Some(before) = self.fields {
            let why = format!("a second `#%fields`; the first is on line {before}");
            self.problems.push(Problem::new(number, 1, why));
            return;
        }
        self.fields = Some(number);
        for field in fields(line).skip(1) {
            // Where a name comes twice (mrt:title, dc:title), the first one counts.
            let column =
                Column::from_field(field.text).filter(|column| !self.columns.contains(&Some(*column)));
            self.columns.push(column);
            self.names.push(field.text.to_owned());
        }
        // A pipe at the end declares nothing.
        while self.names.last().is_some_and(String::is_empty) {
            self.names.pop();
            self.columns.pop();
        }
    }
}

/// Whether a file begins as a Checkm manifest of any version: `#%checkm`, in any case, behind a byte order mark, space and
/// blank lines, as depositors send it. Also in UTF-16, in which no manifest is read: so nobody takes it for something else.
pub(crate) fn begins_as_manifest(bytes: &[u8]) -> bool {
    let begins = |text: &mut dyn Iterator<Item = u8>| {
        let text = text.skip_while(u8::is_ascii_whitespace).take(SIGN.len()).collect::<Vec<_>>();
        text.eq_ignore_ascii_case(SIGN)
    };
    let half = |bytes: &[u8], first: usize| {
        let units = bytes.as_chunks::<2>().0.iter();
        begins(&mut units.map(|unit| if unit[1 - first] == 0 { unit[first] } else { u8::MAX }))
    };
    match bytes {
        [0xff, 0xfe, text @ ..] => half(text, 0),
        [0xfe, 0xff, text @ ..] => half(text, 1),
        [0xef, 0xbb, 0xbf, text @ ..] | text => begins(&mut text.iter().copied()),
    }
}

/// The profile that the first bytes of a file name, as far as they go.
fn profile_of(text: &str) -> Option<&str> {
    let lines = text.trim_start_matches('\u{feff}').lines().filter(|line| purpose(line) != Purpose::Blank);
    let profile = lines
        .take_while(|line| line.trim_start_matches(is_space).starts_with('#'))
        .find(|line| purpose(line) == Purpose::Profile)?;
    fields(profile).nth(1).map(|uri| uri.text)
}

/// Why a file that begins as a manifest does not say which kind it is.
pub(crate) fn why_unknown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match profile_of(&text).filter(|uri| !uri.is_empty()) {
        Some(uri) => format!("its `#%profile` is `{}`, which is not known", shown(uri)),
        None => format!("it has no `#%profile` in its first {} bytes", bytes.len()),
    }
}

/// The kind that the first bytes of a file say, as far as they go.
pub(crate) fn sniff(bytes: &[u8]) -> Option<Kind> {
    Kind::from_profile(profile_of(&String::from_utf8_lossy(bytes))?)
}
