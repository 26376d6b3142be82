//! The database of what is kept: objects, their versions, files and digests, and who deposited them.
//!
//! | to find | look in |
//! |---|---|
//! | the embedded one, and the one for many nodes | [`sqlite`], [`postgres`] |
//! | the tables, and how they change from release to release | `tables` |
//! | how a version is recorded, and what is refused | `recording` |
//! | how objects are read | `reading` |
//! | which numbers of the tree's counters are used | `ledger` |
//! | which repository it belongs to, and what it knows of a restored tree | `repository` |
//! | the little that the two databases differ in | `engine` |
//!
//! A version that was stored and never recorded is recorded together with the next one, as *superseded*: it is kept and
//! not served ([why](../../../docs/adr/0025-a-version-that-was-not-recorded-is-superseded.md)).
//!
//! A version is recorded in one transaction, whole or not at all. Versions of an object follow each other
//! without gaps and never change. A local id of an owner belongs to one object.
//!
//! **When things break.** An answer that was lost leaves a doubt, and the same call again settles it: a
//! version that is there already, of the same job with the same files, is answered with
//! [`Recorded::already`]. Whatever else does not fit is refused, with what is there and what was to be.

mod engine;
mod ledger;
pub mod postgres;
mod reading;
mod recording;
mod repository;
pub mod sqlite;
mod tables;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use futures::future::BoxFuture;
use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};

use crate::ark::Ark;
use crate::digest::Digest;
use crate::identity::Identity;
use crate::outcome::{Failure, Result};

/// The longest owner, collection, key and local id, in bytes: they are in indexes, which have a bound.
pub const MAX_NAME: usize = 1024;

/// One version of an object, as it is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub ark: Ark,
    pub owner: String,
    pub collection: String,
    /// The first is 1.
    pub version: u32,
    /// The same for all attempts of one job in one state.
    pub key: String,
    /// Names of the object in its owner's world; they stay with it from version to version.
    pub local_ids: Vec<String>,
    pub title: Option<String>,
    pub creator: Option<String>,
    pub date: Option<String>,
    pub files: Vec<File>,
    pub ingest: Ingest,
}

/// A file of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub size: u64,
    /// At most one of each algorithm.
    pub digests: Vec<Digest>,
    pub mime: Option<String>,
}

/// Where a version came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingest {
    pub bid: Bid,
    pub jid: Jid,
    pub submitter: String,
    pub profile: String,
    pub at: Date,
}

/// A version that was stored before the one that is to be recorded, and was not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    pub record: Record,
    /// No job vouches for it.
    pub superseded: bool,
}

/// What there is to know of an object without its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub owner: String,
    /// Of the newest version.
    pub collection: String,
    /// The newest version.
    pub head: u32,
    /// Those that are kept and not served.
    pub superseded: BTreeSet<u32>,
}

impl Summary {
    /// The newest version that is served.
    pub fn current(&self) -> Option<u32> {
        (1..=self.head).rev().find(|version| !self.superseded.contains(version))
    }
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// It was there before this call.
    pub already: bool,
}

/// An object with all its versions, as they are at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub ark: Ark,
    pub owner: String,
    /// Of the newest version.
    pub collection: String,
    /// In their order.
    pub local_ids: Vec<String>,
    /// From the first to the newest.
    pub versions: Vec<Version>,
}

/// A version that was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub version: u32,
    pub key: String,
    pub title: Option<String>,
    pub creator: Option<String>,
    pub date: Option<String>,
    /// In the order of their paths.
    pub files: Vec<File>,
    pub ingest: Ingest,
    /// It was stored and its job did not record it: it is kept and not served.
    pub superseded: bool,
}

/// The rows of an object, for an audit: it believes nothing, and reads also what no program has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// The newest version by the object's own row; absent where there is no such row.
    pub head: Option<u32>,
    pub versions: BTreeMap<u32, VersionRows>,
}

/// The rows of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionRows {
    /// Whether it has a row of its own.
    pub version: bool,
    /// Whether there is a row that says where it came from.
    pub ingest: bool,
    pub files: Vec<FileRows>,
}

/// The rows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRows {
    pub path: String,
    pub size: u64,
    /// Algorithm and value, as they are written.
    pub digests: Vec<(String, String)>,
}

/// A database of what is kept.
pub trait Inventory: std::fmt::Debug + Send + Sync {
    /// Records a version, whole or not at all. May be repeated.
    fn record<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<Recorded>> {
        self.record_after(&[], record)
    }

    /// The same, together with the versions before it that are missing, in their order. One of them that is there by now
    /// stays as it is.
    fn record_after<'a>(
        &'a self,
        before: &'a [Unrecorded],
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Recorded>>;

    /// Whose an object is and which versions it has.
    fn summary<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Option<Summary>>>;

    /// The object that has this local id of an owner.
    fn find<'a>(&'a self, owner: &'a str, local_id: &'a str) -> BoxFuture<'a, Result<Option<Ark>>>;

    /// An object with all its versions and files.
    fn object<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Option<Object>>>;

    /// The local ids of an object, in their order; none if there is no such object.
    fn local_ids<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<Vec<String>>>;

    /// A page of the names of all objects, in the database's own order: those after this one. The end is an empty
    /// page. They are what the rows say, also where that is no ARK.
    fn objects<'a>(&'a self, after: Option<&'a str>) -> BoxFuture<'a, Result<Vec<String>>>;

    /// Those of these names that no object has.
    fn unlisted<'a>(&'a self, names: &'a [String]) -> BoxFuture<'a, Result<Vec<String>>>;

    /// The rows of an object as they are, whole or not; nothing if there is not one.
    fn rows<'a>(&'a self, ark: &'a str) -> BoxFuture<'a, Result<Option<Rows>>>;

    /// Whether an object has this name.
    fn knows<'a>(&'a self, ark: &'a Ark) -> BoxFuture<'a, Result<bool>>;

    /// For each counter of the tree, the first number that was never used, as far as the inventory was told.
    fn counters(&self) -> BoxFuture<'_, Result<BTreeMap<String, u64>>>;

    /// Raises counters; one that is higher already stays.
    fn raise<'a>(&'a self, counters: &'a [(&'a str, u64)]) -> BoxFuture<'a, Result<()>>;

    /// Claims a range of numbers, unless some of them may have been used before: two that claim the same range are never
    /// both granted it. A counter that is new here begins at the count of objects whose names begin with `prefix`.
    fn claim<'a>(
        &'a self,
        counter: &'a str,
        numbers: Range<u64>,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Claim>>;

    /// Where the database is, for people.
    fn place(&self) -> String;

    /// The repository that it belongs to; `None` if nobody has written one.
    fn identity(&self) -> BoxFuture<'_, Result<Option<Identity>>>;

    /// Writes the repository that it belongs to; one that is there stays.
    fn identify<'a>(&'a self, identity: &'a Identity) -> BoxFuture<'a, Result<()>>;

    /// The newest version that this job recorded, or that one recorded which it has replaced.
    fn ingested(&self, bid: Bid, jid: Jid) -> BoxFuture<'_, Result<Option<Ingested>>>;

    /// What jobs of a batch recorded whose numbers are in this range, and which nobody has replaced.
    fn ingests_of(&self, bid: Bid, jids: Range<u32>) -> BoxFuture<'_, Result<Vec<Ingested>>>;

    /// Lets a job take over what a job recorded that the tree has lost; `false` if another has. May be repeated.
    fn replace_job(&self, lost: Jid, replacement: Jid) -> BoxFuture<'_, Result<bool>>;
}

/// A version, by the job that recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingested {
    pub jid: Jid,
    pub ark: Ark,
    pub version: u32,
}

/// What became of a claim of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    Granted,
    /// Some of them may be used; the first number that is not.
    Used(u64),
}

/// The counters that give batches and jobs their numbers.
pub const BATCHES: &str = "batches";
pub const JOBS: &str = "jobs";

impl Record {
    /// Whether it can be recorded at all, in any of the databases.
    pub fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Failure::hopeless(format!("{} cannot be recorded: {why}", self.ark)));
        if self.version == 0 {
            return refuse("the first version is 1, and not 0".into());
        }
        let names = [("owner", &self.owner), ("collection", &self.collection), ("key", &self.key)];
        for (what, name) in names.into_iter().chain(self.local_ids.iter().map(|id| ("local id", id))) {
            if name.is_empty() || name.len() > MAX_NAME {
                return refuse(format!("the {what} `{}` is not 1 to {MAX_NAME} bytes long", shown(name)));
            }
        }
        // PostgreSQL holds no NUL in a text.
        if let Some(text) = self.texts().find(|text| text.contains('\0')) {
            return refuse(format!("there is a NUL in `{}`", shown(text)));
        }
        let mut paths = HashSet::new();
        for file in &self.files {
            if file.path.is_empty() || !paths.insert(&file.path) {
                return refuse(format!("the path `{}` is empty or there twice", shown(&file.path)));
            }
            if i64::try_from(file.size).is_err() {
                return refuse(format!("{}: no file has {} bytes", shown(&file.path), file.size));
            }
            let algorithms: HashSet<_> = file.digests.iter().map(Digest::algorithm).collect();
            if algorithms.len() < file.digests.len() {
                return refuse(format!("{}: two digests of one algorithm", shown(&file.path)));
            }
        }
        Ok(())
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        let fixed = [&self.owner, &self.collection, &self.key, &self.ingest.submitter, &self.ingest.profile]
            .into_iter();
        let described = [&self.title, &self.creator, &self.date].into_iter().flatten();
        let files = self.files.iter().flat_map(|file| [Some(&file.path), file.mime.as_ref()]).flatten();
        fixed.chain(described).chain(&self.local_ids).chain(files)
    }
}

/// What is shown of text that may be hostile.
fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}
