//! What is found wrong with a bag.

use std::fmt;

use super::{FetchRow, Version};
use crate::outcome::{Failure, Result};

/// More problems than this are only counted.
const KEPT: usize = 10_000;
/// So many stand in the message of a failed job.
const TOLD: usize = 5;

/// What kind of problem it is; the names in text are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// No `bagit.txt`.
    NoDeclaration,
    /// A `bagit.txt` that does not say what it should, or more.
    BadDeclaration,
    UnknownVersion,
    UnknownEncoding,
    /// No `data/`.
    NoPayload,
    NoManifest,
    UnknownAlgorithm,
    /// A line of a tag file that cannot be read.
    BadLine,
    /// A path that leaves the bag or cannot be.
    BadPath,
    /// A file in a list where files of its sort do not belong.
    Misplaced,
    ListedTwice,
    /// A listed file that is not there.
    Missing,
    /// A listed file that is not there, and that `fetch.txt` says where to get.
    NotFetched,
    /// A payload file, or a file of `fetch.txt`, that is not in the manifests, or a manifest that is not in a tag
    /// manifest.
    NotListed,
    /// A link, device or the like.
    NotAFile,
    /// A name that is not UTF-8.
    BadName,
    WrongDigest,
    WrongSize,
    /// `Payload-Oxum` is something else than the payload.
    WrongOxum,
    /// A path that was written in a way of its own.
    OddPath,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Code::NoDeclaration => "no-declaration",
            Code::BadDeclaration => "bad-declaration",
            Code::UnknownVersion => "unknown-version",
            Code::UnknownEncoding => "unknown-encoding",
            Code::NoPayload => "no-payload",
            Code::NoManifest => "no-manifest",
            Code::UnknownAlgorithm => "unknown-algorithm",
            Code::BadLine => "bad-line",
            Code::BadPath => "bad-path",
            Code::Misplaced => "misplaced",
            Code::ListedTwice => "listed-twice",
            Code::Missing => "missing",
            Code::NotFetched => "not-fetched",
            Code::NotListed => "not-listed",
            Code::NotAFile => "not-a-file",
            Code::BadName => "bad-name",
            Code::WrongDigest => "wrong-digest",
            Code::WrongSize => "wrong-size",
            Code::WrongOxum => "wrong-oxum",
            Code::OddPath => "odd-path",
        }
    }

    /// Whether a bag with it can still be complete.
    fn is_about_content(self) -> bool {
        matches!(self, Code::WrongDigest | Code::WrongSize | Code::WrongOxum)
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    /// The file that it is about, from the bag's directory.
    pub path: String,
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.path.escape_debug(), self.why, self.code.as_str())
    }
}

/// Where readers put what they find.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    more: u64,
    incomplete: bool,
}

impl Notes {
    pub(super) fn problem(&mut self, code: Code, path: impl Into<String>, why: impl Into<String>) {
        self.incomplete |= !code.is_about_content();
        if self.problems.len() < KEPT {
            self.problems.push(Problem { code, path: path.into(), why: why.into() });
        } else {
            self.more += 1;
        }
    }

    pub(super) fn warning(&mut self, code: Code, path: impl Into<String>, why: impl Into<String>) {
        if self.warnings.len() < KEPT {
            self.warnings.push(Problem { code, path: path.into(), why: why.into() });
        }
    }
}

/// What validation found.
#[derive(Debug, Clone, Default)]
pub struct BagReport {
    /// `None` where the bag does not tell.
    pub version: Option<Version>,
    /// Payload files and their bytes.
    pub files: u64,
    pub bytes: u64,
    /// All that is wrong, or the first 10,000.
    pub problems: Vec<Problem>,
    /// How many problems there are beyond those.
    pub more: u64,
    pub warnings: Vec<Problem>,
    pub info: Vec<(String, String)>,
    pub fetch: Vec<FetchRow>,
    complete: bool,
}

impl BagReport {
    pub(super) fn take(&mut self, notes: Notes) {
        self.complete = !notes.incomplete;
        self.problems = notes.problems;
        self.warnings = notes.warnings;
        self.more = notes.more;
    }

    /// All that is listed is present, all payload is listed, and the bag's own files are as they should be.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// Complete, and all digests and sizes are right.
    pub fn valid(&self) -> bool {
        self.complete && self.problems.is_empty()
    }

    /// A bag that is not valid is a failure that names its first problems.
    pub fn verdict(&self) -> Result<()> {
        if self.valid() {
            return Ok(());
        }
        let kind = if self.complete { "not valid" } else { "not complete" };
        let told: Vec<_> = self.problems.iter().take(TOLD).map(Problem::to_string).collect();
        let rest = (self.problems.len() - told.len()) as u64 + self.more;
        let rest = if rest == 0 { String::new() } else { format!("; and {rest} more") };
        Err(Failure::hopeless(format!("the bag is {kind}: {}{rest}", told.join("; "))))
    }
}
