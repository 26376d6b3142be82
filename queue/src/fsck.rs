//! The invariants of the tree, in code: what is checked, what is found, how it is put right.
//!
//! Every live job is in exactly one queue, with its own status and priority, and in exactly one list of
//! its batch, the right one; nothing leads to a batch or a job that is gone; no lock outlives its
//! session; every node can be read. Each thing that can be wrong is a [`Code`].
//!
//! [`check`] only reads, and can be run on a tree in full work: whatever does not look right is looked
//! at again until two looks agree. [`repair()`] puts right what is safe to put right, each thing in one
//! multi, and loses nothing: what cannot be read goes to `/quarantine`. The rest is for a person, and
//! says so.
//!
//! **When things break.** Nothing that a node holds stops a check. If the store fails, or forbids
//! reading, the check ends with its error. A repair that is interrupted can be run again.
//!
//! Not checked: the registry. A value beyond 1 MiB is
//! only counted, and not read. A job whose refs come and go outside of any transition, between two
//! looks, may be missed.

mod batch;
mod code;
mod counters;
mod finding;
mod job;
mod lists;
mod mark;
mod quarantine;
mod reader;
mod repair;
mod requests;
mod scan;
mod sharded;
mod thing;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use ingest_store::Session;

pub use code::{Code, Severity};
pub use finding::{Finding, Outcome, Repaired};

use crate::date::{Clock, Date};
use crate::dialect::Dialect;
use crate::error::Result;
use crate::ids::Bid;
use crate::nodes::{FeedNode, Hold, Node, Owner};
use reader::Reader;
use thing::Thing;

/// How many suspects are looked at side by side.
const SIDE_BY_SIDE: usize = 32;

/// How a tree is checked and repaired.
#[derive(Debug, Clone)]
pub struct Options {
    pub dialect: Dialect,
    /// Who repairs, for histories and locks.
    pub who: String,
    pub clock: Clock,
    /// How old parts of a large value must be before they count as left behind.
    pub grace: Duration,
}

impl Options {
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, who: "fsck".to_owned(), clock: Clock::system(), grace: Duration::from_hours(1) }
    }
}

/// How far a check or a repair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub stage: &'static str,
    pub done: usize,
    pub total: usize,
}

/// What was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    pub jobs: usize,
    pub batches: usize,
    pub queue_refs: usize,
    pub batch_refs: usize,
    pub access_items: usize,
    pub feeds: usize,
    /// What earlier repairs have put away.
    pub quarantined: usize,
    /// Things that did not look right at first.
    pub suspects: usize,
    /// Those of them that changed at every look, and were not judged.
    pub unsettled: usize,
}

/// What a check has found.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// In the order of their paths.
    pub findings: Vec<Finding>,
    pub counts: Counts,
    #[serde(with = "humantime_serde")]
    pub took: Duration,
}

impl Report {
    /// Nothing is wrong; there may be something worth knowing.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Info)
    }

    /// All findings, a line each.
    pub fn text(&self) -> String {
        self.findings.iter().fold(String::new(), |mut text, finding| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{finding}");
            text
        })
    }
}

/// Checks the whole tree, without changing it.
pub async fn check(
    session: &Session,
    options: &Options,
    progress: &mut (dyn FnMut(Progress) + Send + Sync),
) -> Result<Report> {
    let started = Instant::now();
    let reader = Reader::new(session);
    let context = Context::new(options);
    let mut observer = Observer(progress);
    reader.freshen().await?;
    let mut scan = scan::Scan::new(&reader, &context, &mut observer);
    Box::pin(scan.run()).await?;
    let (suspects, mut counts) = (std::mem::take(&mut scan.suspects), std::mem::take(&mut scan.counts));
    drop(scan);
    counts.suspects = suspects.len();

    let (mut findings, unsettled) = confirm(&reader, &context, suspects, &mut observer).await?;
    counts.unsettled = unsettled;
    findings.extend(counters::check(&reader).await?);
    sort(&mut findings);
    Ok(Report { findings, counts, took: started.elapsed() })
}

/// What is certainly wrong with these things, and how many of them never kept still.
async fn confirm(
    reader: &Reader,
    context: &Context,
    suspects: Vec<Thing>,
    observer: &mut Observer<'_>,
) -> Result<(Vec<Finding>, usize)> {
    reader.freshen().await?;
    let total = suspects.len();
    let mut looks = stream::iter(suspects)
        .map(|thing| async move {
            let view = thing.settled(reader).await?;
            Ok::<_, crate::error::Error>((view.map(|view| view.judge(context)), thing))
        })
        .buffer_unordered(SIDE_BY_SIDE);
    let (mut findings, mut unsettled, mut done) = (Vec::new(), 0, 0);
    while let Some((verdicts, thing)) = looks.try_next().await? {
        match verdicts {
            Some(verdicts) => findings.extend(verdicts.into_iter().map(|verdict| verdict.finding(&thing))),
            None => unsettled += 1,
        }
        done += 1;
        observer.tell(Progress { stage: "suspects", done, total });
    }
    sort(&mut findings);
    Ok((findings, unsettled))
}

fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| (&a.path, a.code).cmp(&(&b.path, b.code)));
}

/// Puts right what a check has found, as far as it is safe; says what became of each finding, and of
/// those that came to light by it: what leads to a job that has failed now, a batch that has jobs again.
pub async fn repair(
    session: &Session,
    options: &Options,
    report: &Report,
    progress: &mut (dyn FnMut(Progress) + Send + Sync),
) -> Result<Vec<Repaired>> {
    let reader = Reader::new(session);
    let context = Context::new(options);
    let mut observer = Observer(progress);
    let mut repaired = Box::pin(repair::all(&reader, options, &report.findings, &mut observer)).await?;
    repaired.extend(counters::repair(&reader, &report.findings).await?);

    let fixed: Vec<_> = repaired.iter().filter(|repaired| repaired.outcome == Outcome::Fixed).collect();
    if fixed.is_empty() {
        return Ok(repaired);
    }
    let touched: BTreeSet<Bid> = fixed.into_iter().filter_map(repair::batch).collect();
    let lists = touched.into_iter().map(Thing::Lists).collect();
    let (mut findings, _) = confirm(&reader, &context, lists, &mut observer).await?;
    let mut scan = scan::Scan::new(&reader, &context, &mut observer);
    Box::pin(scan.marks()).await?;
    let marks = std::mem::take(&mut scan.suspects);
    drop(scan);
    findings.extend(confirm(&reader, &context, marks, &mut observer).await?.0);
    findings
        .retain(|finding| !repaired.iter().any(|old| old.code == finding.code && old.path == finding.path));
    repaired.extend(Box::pin(repair::all(&reader, options, &findings, &mut observer)).await?);
    Ok(repaired)
}

/// Removes the keys that lead to nothing that waits, so many at the most; says how many that were.
pub async fn collect_keys(session: &Session, options: &Options, most: usize) -> Result<usize> {
    let reader = Reader::new(session);
    let context = Context::new(options);
    let mut silent = |_| ();
    let mut observer = Observer(&mut silent);
    reader.freshen().await?;
    let mut scan = scan::Scan::new(&reader, &context, &mut observer);
    Box::pin(scan.keys()).await?;
    let suspects = std::mem::take(&mut scan.suspects);
    drop(scan);
    let (findings, _) = confirm(&reader, &context, suspects, &mut observer).await?;
    let mut rest = findings.as_slice();
    let mut removed = 0;
    // What could not be removed does not keep those behind it.
    while removed < most && !rest.is_empty() {
        let (some, others) = rest.split_at((most - removed).min(rest.len()));
        let repaired = Box::pin(repair::all(&reader, options, some, &mut observer)).await?;
        removed += repaired.iter().filter(|one| one.outcome == Outcome::Fixed).count();
        rest = others;
    }
    Ok(removed)
}

/// Whether the tree is clean; if not, everything that was found, as text.
pub async fn clean(session: &Session, dialect: Dialect) -> std::result::Result<(), String> {
    let report =
        check(session, &Options::new(dialect), &mut |_| ()).await.map_err(|error| error.to_string())?;
    if report.is_clean() { Ok(()) } else { Err(report.text()) }
}

/// Whoever wants to know how far it is.
struct Observer<'o>(&'o mut (dyn FnMut(Progress) + Send + Sync));

impl Observer<'_> {
    fn tell(&mut self, progress: Progress) {
        (self.0)(progress);
    }
}

/// What a judge and a repair need to know besides the tree.
#[derive(Debug, Clone)]
struct Context {
    dialect: Dialect,
    who: String,
    now: Date,
    /// Of the one commit that this is for.
    commit: String,
}

impl Context {
    fn new(options: &Options) -> Self {
        let commit = uuid::Uuid::new_v4().simple().to_string();
        Self { dialect: options.dialect, who: options.who.clone(), now: options.clock.now(), commit }
    }

    /// What stands in a lock while it is there.
    fn owner(&self) -> Bytes {
        let (node, commit) = (self.who.clone(), self.commit.clone());
        Owner { node, commit, since: Some(self.now), ..Owner::default() }.write(self.dialect)
    }

    /// A hold whose author nobody knows any more.
    fn hold(&self, name: &str) -> Hold {
        let why = "what was written here could not be read; it is in the quarantine".to_owned();
        Hold { name: name.to_owned(), who: self.who.clone(), why, when: Some(self.now), ..Hold::default() }
    }

    /// A feed whose checkpoint nobody knows any more: what it would do by itself is to begin anew.
    fn paused_feed(&self) -> FeedNode {
        let why = "its checkpoint could not be read; it is in the quarantine: set it, and go on".to_owned();
        let hold = Hold { who: self.who.clone(), why, when: Some(self.now), ..Hold::default() };
        FeedNode { paused: Some(hold), commit: self.commit.clone(), ..FeedNode::default() }
    }

    #[cfg(test)]
    fn for_tests() -> Self {
        let clock = Clock::fixed(Date::from_millis(1_763_000_000_000));
        Self::new(&Options { clock, ..Options::new(Dialect::Design) })
    }
}
