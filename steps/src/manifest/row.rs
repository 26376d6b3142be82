//! From a line to a row, or to everything that is wrong with it.

use crate::digest::{Algorithm, Digest, NotADigest};

use super::columns::{Column, Kind};
use super::encoding::{decode_local_ids, decode_name, decode_text, is_space};
use super::names::{self, Names};
use super::problems::{Problem, shown};
use super::{NotKept, Row};

/// A field of a line, without the space around it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) text: &'a str,
    /// Where it begins, in bytes; an empty one begins behind its pipe.
    at: usize,
}

impl Field<'_> {
    /// The character of the line where it begins, from 1.
    pub(super) fn column(&self, line: &str) -> u64 {
        column(line, self.at)
    }
}

/// The character of a line at a byte, from 1.
fn column(line: &str, at: usize) -> u64 {
    line.get(..at).unwrap_or(line).chars().count() as u64 + 1
}

/// The fields of a line.
pub(super) fn fields(line: &str) -> impl Iterator<Item = Field<'_>> {
    let mut start = 0;
    line.split('|').map(move |raw| {
        let text = raw.trim_matches(is_space);
        let space = raw.len() - raw.trim_start_matches(is_space).len();
        let at = start + if text.is_empty() { 0 } else { space };
        start += raw.len() + 1;
        Field { text, at }
    })
}

/// The column of the field that a byte of the line is in.
pub(super) fn column_of_field_at(line: &str, at: usize) -> u64 {
    let field = fields(line).take_while(|field| field.at <= at).last();
    field.map_or(1, |field| field.column(line))
}

/// What the columns of a row are, by position.
#[derive(Debug)]
pub(super) struct Layout {
    /// A `None` is ignored.
    columns: Vec<Option<Column>>,
    /// Where values are not kept: how many there were.
    not_kept: Vec<Option<NotKept>>,
    /// Where the number of columns comes from, for the message.
    declared: String,
}

impl Layout {
    pub(super) fn new(
        kind: Kind,
        columns: Vec<Option<Column>>,
        names: Vec<String>,
        declared: String,
    ) -> Self {
        let not_kept = |(at, (column, name)): (usize, (&Option<Column>, String))| {
            let why = match column {
                Some(column) if kind == Kind::Object && !column.is_of_a_file() => {
                    "a file of an object has none; say it of the object, in the submission or in a batch manifest"
                }
                Some(_) => return None,
                None if Column::from_field(&name).is_some() => {
                    "it is the second column of this name, and the first one counts"
                }
                None if name.is_empty() => "`#%fields` gives it no name",
                None => "no such column is known",
            };
            Some(NotKept { column: at + 1, name, values: 0, why })
        };
        let not_kept = columns.iter().zip(names).enumerate().map(not_kept).collect();
        Self { columns, not_kept, declared }
    }

    pub(super) fn not_kept(&self) -> impl Iterator<Item = &NotKept> {
        self.not_kept.iter().flatten().filter(|column| column.values > 0)
    }
}

/// What is at once in more than one column, or has to be there.
#[derive(Debug, Default)]
struct Found<'a> {
    url: Option<Field<'a>>,
    name: Option<Field<'a>>,
    algorithm: Option<Field<'a>>,
    digest: Option<Field<'a>>,
}

/// Reads a line whose columns are known by position. A name that is in `names` already
/// is a fault, and a new one is in it afterwards, whatever else is wrong with its row.
pub(super) fn parse(
    line: &str,
    number: u64,
    layout: &mut Layout,
    names: Option<&mut Names>,
) -> Result<Row, Vec<Problem>> {
    if let Some(at) = line.find('\0') {
        let column = column_of_field_at(line, at);
        return Err(vec![Problem::new(number, column, "holds a NUL character; a manifest is text")]);
    }
    let mut row = Row::default();
    let mut found = Found::default();
    let mut problems = Vec::new();
    let mut keep = |field: Field<'_>, outcome: Result<(), String>| {
        problems.extend(outcome.err().map(|why| Problem::new(number, field.column(line), why)));
    };
    let (mut count, mut surplus) = (0, None);
    for (index, field) in fields(line).enumerate() {
        if !field.text.is_empty() {
            count = index + 1;
            if let Some(Some(column)) = layout.not_kept.get_mut(index) {
                column.values += 1;
            }
        }
        let Some(column) = layout.columns.get(index) else {
            surplus = surplus.or(Some(field).filter(|field| !field.text.is_empty()));
            continue;
        };
        let Some(column) = column else { continue };
        match column {
            Column::Url => found.url = Some(field),
            Column::Name => found.name = Some(field),
            Column::Algorithm => found.algorithm = Some(field),
            Column::Digest => found.digest = Some(field),
            _ if field.text.is_empty() => {}
            Column::Size => keep(field, size(field.text).map(|size| row.size = Some(size))),
            Column::LocalId => row.local_ids = decode_local_ids(field.text),
            Column::DublinCore(term) => {
                row.dublin_core.insert(*term, decode_text(field.text));
            }
            Column::Modified => row.modified = Some(decode_text(field.text)),
            Column::MimeType => row.mime_type = Some(decode_text(field.text)),
            Column::PrimaryId => row.primary_id = Some(decode_text(field.text)),
            Column::Creator => row.creator = Some(decode_text(field.text)),
            Column::Title => row.title = Some(decode_text(field.text)),
            Column::Date => row.date = Some(decode_text(field.text)),
        }
    }
    if let Some(field) = surplus {
        let (declared, most) = (&layout.declared, layout.columns.len());
        let text = shown(field.text);
        keep(
            field,
            Err(format!(
                "the row has {count} columns, and {declared} {most}: `{text}` would be lost; declare its column in \
                 `#%fields`, or take it out"
            )),
        );
    }
    let missing = Field { text: "", at: line.len() };
    let field = found.url.unwrap_or(missing);
    keep(field, url(field.text).map(|url| row.url = url));
    let (field, digest) = digest(found.algorithm.unwrap_or(missing), found.digest.unwrap_or(missing));
    keep(field, digest.map(|digest| row.digest = digest));
    let field = found.name.unwrap_or(missing);
    keep(field, name(field.text, number, names).map(|name| row.name = name));
    if problems.is_empty() {
        return Ok(row);
    }
    problems.sort_by_key(|problem| problem.column);
    Err(problems)
}

fn url(text: &str) -> Result<String, String> {
    // A leading `@` is sent by some; it is no part of the URL.
    let url = text.strip_prefix('@').unwrap_or(text).trim_matches(is_space);
    if url.is_empty() {
        return Err(format!("the row has no URL ({}); every row needs one", Column::Url));
    }
    match url_fault(url) {
        Some(why) => Err(format!("`{}`: {why}", shown(url))),
        None => Ok(url.to_owned()),
    }
}

/// What no URL of a row may be. They stand there as they are: nothing in them is encoded or decoded.
pub(super) fn url_fault(url: &str) -> Option<&'static str> {
    if url.is_empty() {
        Some("there is no URL")
    } else if url.starts_with(['#', '@']) {
        Some("a URL does not begin with `#` or `@`")
    } else if url.starts_with(is_space) || url.ends_with(is_space) {
        Some("a URL has no space around it")
    } else if url.contains(|char: char| char == '|' || char.is_control()) {
        Some("a URL has no `|`, no line end and no other control character in it; percent-encode it")
    } else {
        None
    }
}

fn name(text: &str, line: u64, names: Option<&mut Names>) -> Result<String, String> {
    if text.is_empty() {
        return Err(format!("the row has no file name ({}); every row needs one", Column::Name));
    }
    let name = decode_name(text);
    if let Some(why) = names::fault(&name) {
        return Err(format!("the file name `{}` {why}", shown(&name)));
    }
    match names.map(|names| names.insert(&name, line)) {
        Some(Err(clash)) => Err(format!("the file name `{}` {}", shown(&name), clash.why())),
        _ => Ok(name),
    }
}

fn size(text: &str) -> Result<u64, String> {
    // `parse` alone would take `+5`.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        let why = if digits { "too large a number" } else { "no number" };
        format!("the size `{}` is {why}; give bytes in decimal digits, or leave it empty", shown(text))
    })
}

/// The digest, or why there is none, with the field that is to blame.
fn digest<'a>(algorithm: Field<'a>, value: Field<'a>) -> (Field<'a>, Result<Option<Digest>, String>) {
    match (algorithm.text, value.text) {
        ("", "") => (value, Ok(None)),
        ("", _) => (value, Err("a digest without its algorithm; give both or neither".to_owned())),
        (name, "") => {
            let why = format!("the algorithm `{}` without a digest; give both or neither", shown(name));
            (algorithm, Err(why))
        }
        (name, hex) => match name.parse::<Algorithm>() {
            Ok(known) => (value, Digest::new(known, hex).map(Some).map_err(|error| not_a_digest(&error))),
            Err(error) => (algorithm, Err(not_a_digest(&error))),
        },
    }
}

/// The error's own words, but for texts of any length in it.
fn not_a_digest(error: &NotADigest) -> String {
    match error {
        NotADigest::Length { algorithm, value } => format!(
            "a {algorithm} digest has {} hex digits, and `{}` has {} characters",
            algorithm.digits(),
            shown(value),
            value.chars().count()
        ),
        NotADigest::Algorithm(name) => NotADigest::Algorithm(shown(name)).to_string(),
        NotADigest::Hex(value) => NotADigest::Hex(shown(value)).to_string(),
    }
}
