//! Checkm 0.7 manifests: what depositors send, read row by row, and written.
//!
//! [`Reader`] finds the kind and the columns in the header, then gives one [`Row`] after the other; it holds
//! one line at a time. [`validate`] reads to the end and answers with a [`Summary`] or with every problem,
//! each with its line and column. [`Writer`] writes what [`Reader`] reads back. [`inline`] makes the same rows
//! of a manifest that came inside a submission.
//!
//! What is accepted is wider than what is written: any case of field names and algorithms, any prefix, blank
//! lines, either line end, comments, a byte order mark, short rows, trailing pipes, `@` before a URL.
//!
//! No value of a row is dropped silently. One behind the last column that the header declares is a fault of its row.
//! One in a column that `#%fields` names and that nothing is known of, that comes a second time, or that a file of an
//! object does not have, is counted: [`NotKept`] says how many there are, and why. The modified time is read and not
//! used: it is informative.
//!
//! Memory: a line (64 KiB at most), the problems (100 at most), and for an object manifest 16 bytes of hash
//! and 4 of line number for every file name and every directory in them (a million directories at most), to
//! see a name twice, or as a file and a directory; in a hash table with its slack that is about 45 MB for a
//! million files in few directories (65 MB for the moment in which it grows), and twice as much where every file
//! has a directory of its own. The three batch kinds keep nothing per row.
//!
//! **When things break.** A manifest that is wrong is [`Error::Corrupt`], with the places: no repetition helps,
//! it has to be submitted again. A manifest that cannot be read (disk, network) is [`Error::Unreadable`] and
//! says nothing about the manifest. A manifest that was cut off has no `#%eof` and is corrupt, whatever its
//! rows look like; so check the whole of it with [`validate`] before anything is made of a row.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead};

mod columns;
mod encoding;
mod header;
pub mod inline;
mod lines;
mod names;
mod problems;
mod read;
mod row;
pub mod write;

pub use columns::{Column, Kind, Term};
pub(crate) use header::{begins_as_manifest, sniff, why_unknown};
pub use names::fault as fault_of_name;
pub use problems::{Problem, Problems};
pub use read::Reader;
pub use write::Writer;

use crate::digest::Digest;
use crate::outcome::Failure;

/// How much of a manifest is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one line, without its end. Default 64 KiB.
    pub line: usize,
    /// The most problems that are listed; the others are counted. Default 100.
    pub problems: usize,
    /// The most rows. Default ten million.
    pub rows: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line: 64 << 10, problems: 100, rows: 10_000_000 }
    }
}

/// A row: a file of an object, or an object of a batch. No text is empty or has space around it, except that
/// file names may have space around them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// As it was sent, without a leading `@`. Nothing in it is decoded.
    pub url: String,
    pub digest: Option<Digest>,
    pub size: Option<u64>,
    /// Informative: any text.
    pub modified: Option<String>,
    /// Decoded, and a path that stays below its directory.
    pub name: String,
    pub mime_type: Option<String>,
    /// Given for a new version of an object that exists.
    pub primary_id: Option<String>,
    /// The depositor's own name of the row; only in a manifest inside a submission.
    pub key: Option<String>,
    /// Each once, in the order in which they came.
    pub local_ids: Vec<String>,
    pub creator: Option<String>,
    pub title: Option<String>,
    pub date: Option<String>,
    /// The optional columns, as far as they hold something.
    pub dublin_core: BTreeMap<Term, String>,
}

/// Why there is no row, or no manifest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The depositor has to repair it and submit it again.
    #[error(transparent)]
    Corrupt(#[from] Problems),
    /// It may be whole; here it could not be read.
    #[error("the manifest could not be read after line {line}: {error}")]
    Unreadable { line: u64, error: io::Error },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Corrupt(problems) => Failure::hopeless(problems.to_string()),
            Error::Unreadable { .. } => Failure::later(error.to_string()),
        }
    }
}

/// Values of one column that are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotKept {
    /// From 1.
    pub column: usize,
    /// As the header names it.
    pub name: String,
    /// How many rows have one.
    pub values: u64,
    pub why: &'static str,
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, name, values, why } = self;
        let what = if *values == 1 { "1 value is" } else { &format!("{values} values are") };
        write!(f, "column {column} of the manifest (`{}`): {what} not kept: {why}", problems::shown(name))
    }
}

/// What a manifest that has no fault holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub kind: Kind,
    pub rows: u64,
    /// How many rows say their size.
    pub rows_with_size: u64,
    /// How many rows have a digest.
    pub rows_with_digest: u64,
    /// The sum of the sizes that are given.
    pub bytes: u64,
    /// The columns whose values are not kept, if rows have any there.
    pub not_kept: Vec<NotKept>,
}

/// Reads a manifest to its end and finds every problem, with the default [`Limits`]. Blocks on `input`.
pub fn validate(input: impl BufRead) -> Result<Summary, Error> {
    validate_within(input, Limits::default())
}

/// [`validate`] with limits of the caller's.
pub fn validate_within(input: impl BufRead, limits: Limits) -> Result<Summary, Error> {
    // A fault in the header does not hide those of the rows, as long as it is known what a row is.
    let (mut reader, mut problems) = Reader::start(input, limits)?;
    let (kind, not_kept) = (reader.kind(), Vec::new());
    let mut summary = Summary { kind, rows: 0, rows_with_size: 0, rows_with_digest: 0, bytes: 0, not_kept };
    for item in &mut reader {
        match item {
            Ok(row) => {
                summary.rows += 1;
                summary.rows_with_size += u64::from(row.size.is_some());
                summary.rows_with_digest += u64::from(row.digest.is_some());
                summary.bytes = summary.bytes.saturating_add(row.size.unwrap_or(0));
            }
            Err(Error::Corrupt(more)) => problems.extend(more),
            Err(error) => return Err(error),
        }
    }
    problems.into_result()?;
    summary.not_kept = reader.not_kept();
    Ok(summary)
}
