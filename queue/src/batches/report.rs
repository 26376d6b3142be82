//! The report to the depositor: what became of each job.
//!
//! While a batch is reporting no job of it comes back, so the report is the same whenever it is drafted
//! again. A writer of another kind could bring one back: a report is drafted only if all jobs have ended by their statuses. `/outbox/BID-N` says that report N is on its way, and when it was sent: a node that takes over
//! looks there before it sends. Sending is at least once, always as the same number, with the date at which it
//! was put there.
//!
//! A report may name a million jobs. What is read for it is packed at once ([`Rows`]) and goes into the tree as a stream, so that it takes
//! a third of its size in memory, at the most.
//!
//! A batch that could not be expanded has no jobs to report, and a reason to tell: it failed with report 1 in
//! the outbox already, and is failed before and after that is sent.

use std::collections::HashSet;
use std::io;

use futures::stream;
use ingest_store::Kind;
use ingest_store::recipes::{settle, shard};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use tokio_util::io::StreamReader;

use super::lease::{BatchLease, NOT_KEPT};
use crate::date::Date;
use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::journal::EXPIRED;
use crate::map::{self, BatchNode};
use crate::nodes::{self, Numbers, Other, Outgoing, ReportCounts, Rows, StatusReport, Unreadable};
use crate::plan::Lock;
use crate::plan::batch;
use crate::plan::report::{self, Told};
use crate::queue::Queue;
use crate::states::BatchState;

/// In a report: why a batch has no jobs.
pub const WHY: &str = "why";
/// In a report: what is added to the batch's message when it is finished.
pub const NOTE: &str = "note";
/// In a report that is an update: [`Update`].
const UPDATE: &str = "update";
/// In a batch's status: [`Noted`].
const REPORTED: &str = "reported";
/// A report is never larger than this: it takes a third of it in memory, at the most.
const LARGEST: u64 = 2 << 30;
/// From here on a report is read on a thread of its own, so that nobody waits for it.
const LONG: u64 = 1 << 20;

/// A report that is not sent yet, and what it tells that the last one did not.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportDraft {
    pub bid: Bid,
    pub report: StatusReport,
    /// How many of the deleted jobs were not begun in time.
    pub expired: usize,
    /// When this number was sent, if it was: it is not sent again.
    pub sent: Option<Date>,
    /// Whether a report was sent before this one.
    pub is_update: bool,
    /// Jobs that have succeeded since the last report.
    pub newly_successful: Vec<Jid>,
    /// Jobs that have been deleted since the last report.
    pub newly_deleted: Vec<Jid>,
}

impl ReportDraft {
    /// A report that was sent, as it was told. What was new in an update that an older version has sent is not known.
    pub fn of_sent(bid: Bid, report: StatusReport) -> io::Result<Self> {
        let mut expired = 0;
        for job in report.deleted_jobs.iter() {
            expired += usize::from(job?.expired().is_some());
        }
        let sent = report.last_modified;
        let update = Update::of(&report);
        let is_update = update.is_some();
        let Update { completed, deleted } = update.unwrap_or_default();
        let (newly_successful, newly_deleted) = (completed.jids().collect(), deleted.jids().collect());
        Ok(Self { bid, report, expired, sent, is_update, newly_successful, newly_deleted })
    }

    /// The first report always tells something; a later one only if something has changed.
    pub fn is_news(&self) -> bool {
        !self.is_update || !self.newly_successful.is_empty() || !self.newly_deleted.is_empty()
    }

    /// Where the batch goes when the report is sent.
    pub fn outcome(&self) -> BatchState {
        let StatusReport { failed_jobs, successful_jobs, deleted_jobs, .. } = &self.report;
        report::outcome(successful_jobs.len(), failed_jobs.len(), deleted_jobs.len(), self.expired)
    }

    /// The key that every sending of this report carries.
    pub fn key(&self) -> String {
        format!("{}-{}", self.bid, self.report.number)
    }
}

impl Queue {
    /// The last report that was sent.
    pub async fn last_report(&self, bid: Bid) -> Result<Option<StatusReport>> {
        self.read_last_report(bid).await
    }

    /// The last report that was sent, or as much of it as somebody wants.
    async fn read_last_report<T: DeserializeOwned + Send + 'static>(&self, bid: Bid) -> Result<Option<T>> {
        let path = BatchNode::StatusReport.of(bid);
        let Some(packed) = self.packed(path.clone(), LARGEST).await? else { return Ok(None) };
        let is_long = packed.size() > LONG;
        let read = move || match packed.into_reader() {
            Ok(json) => nodes::read_from(json),
            Err(error) => Err(Unreadable(error.to_string())),
        };
        let read = if is_long {
            match tokio::task::spawn_blocking(read).await {
                Ok(read) => read,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => return Err(Error::lost(bid, "this process ends")),
            }
        } else {
            read()
        };
        read.map(Some).map_err(|why| Error::corrupt(path, why))
    }

    /// How much the last report that was sent names.
    pub async fn report_counts(&self, bid: Bid) -> Result<Option<ReportCounts>> {
        let batch = self.batch(bid).await?;
        let Some(stat) = self.exists(BatchNode::StatusReport.of(bid)).await? else { return Ok(None) };
        let noted = batch.status.other.get(REPORTED).cloned();
        let noted: Option<Noted> = noted.and_then(|noted| serde_json::from_value(noted).ok());
        match noted.filter(|noted| noted.version == stat.version) {
            Some(noted) => Ok(Some(noted.counts)),
            // Whoever has written the report is of an older version, or has repaired it.
            None => Ok(self.last_report(bid).await?.map(|report| report.counts())),
        }
    }

    /// Drafts the next report of a batch that is reporting, and notes in the outbox that it is on its way.
    pub async fn draft_report(&self, lease: &mut BatchLease) -> Result<ReportDraft> {
        self.draft_report_telling(lease, &|_| {}).await
    }

    /// The same; `told` hears of every few jobs that were read for it.
    pub async fn draft_report_telling(
        &self,
        lease: &mut BatchLease,
        told: &(dyn Fn(usize) + Sync),
    ) -> Result<ReportDraft> {
        let bid = lease.bid();
        let state = lease.batch.state();
        let owes =
            state == BatchState::Failed && self.exists(map::outbox(bid, report::FIRST)).await?.is_some();
        if !state.is_reporting() && !owes {
            return Err(Error::forbidden(bid, format!("it is {state} and not reporting")));
        }
        let before = self.read_last_report::<Before>(bid).await?;
        let is_update = before.is_some();
        let number = report::number_after(before.as_ref().map(|before| before.number.unwrap_or_default()));
        let mut other = Other::new();
        if owes {
            other.insert(WHY.into(), lease.batch.status.message.clone().into());
        }
        if let Some(lines) = lease.batch.status.other.get(NOT_KEPT) {
            other.insert(NOT_KEPT.into(), lines.clone());
        }
        if let Some(unended) = self.unended_of(lease, told).await? {
            return Err(Error::forbidden(bid, format!("{}, and it is not reported before", unended.why)));
        }
        let reported = *lease.reported.take().unwrap_or_default();
        let mut report = StatusReport {
            number,
            last_modified: None,
            failed_jobs: reported.failed,
            successful_jobs: reported.successful,
            deleted_jobs: reported.deleted,
            other,
        };
        let before = before.unwrap_or_default();
        let newly = |now: Vec<Jid>, before: &HashSet<Jid>| -> Vec<Jid> {
            now.into_iter().filter(|jid| !before.contains(jid)).collect()
        };
        let newly_successful = newly(reported.successful_jids, &before.successful_jobs);
        let newly_deleted = newly(reported.deleted_jids, &before.deleted_jobs);
        if is_update {
            let (completed, deleted) = (Numbers::of(&newly_successful), Numbers::of(&newly_deleted));
            let update = serde_json::to_value(Update { completed, deleted });
            report.other.extend(update.ok().map(|update| (UPDATE.to_owned(), update)));
        }
        let Outgoing { composed, sent, .. } = self.post(lease, number).await?;
        report.last_modified = Some(composed);
        let expired = reported.expired;
        Ok(ReportDraft { bid, report, expired, sent, is_update, newly_successful, newly_deleted })
    }

    /// Notes that a report was sent.
    pub async fn report_sent(&self, lease: &mut BatchLease, draft: &mut ReportDraft) -> Result<()> {
        let path = map::outbox(draft.bid, draft.report.number);
        let (outgoing, _) =
            self.read::<Outgoing>(path, || Error::lost(draft.bid, "its report is not in the outbox")).await?;
        let (ops, outgoing) = report::sent(outgoing, lease.token.check(), &self.scene());
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        settled.answer.map_err(|error| super::lease::misfit(draft.bid, error))?;
        draft.sent = outgoing.sent;
        Ok(())
    }

    /// The report is sent, or there was nothing to tell: it becomes the batch's last one, and the batch
    /// is completed or failed. Gives the lock back.
    pub async fn finish_report(&self, lease: &mut BatchLease, draft: &ReportDraft) -> Result<BatchState> {
        let bid = draft.bid;
        if draft.is_news() && draft.sent.is_none() {
            return Err(Error::forbidden(bid, "its report is not sent yet"));
        }
        let path = BatchNode::StatusReport.of(bid);
        let mut announced = None;
        if draft.is_news() {
            let json = StreamReader::new(stream::iter(draft.report.pieces()));
            let prepared = shard::prepare_from(&self.session, &path, json).await?;
            let last = self.exists(&path).await?.map(|stat| stat.version);
            announced = Some((prepared.announcement(), last));
        }
        let posted = self.exists(map::outbox(bid, draft.report.number)).await?.is_some();
        let to = draft.outcome();
        let mut ended = lease.batch.clone();
        let is_failed = ended.state() == BatchState::Failed;
        if let Some((_, last)) = &announced {
            let version = last.map_or(0, |last| last + 1);
            let noted = serde_json::to_value(Noted { version, counts: draft.report.counts() });
            ended.status.other.extend(noted.ok().map(|noted| (REPORTED.to_owned(), noted)));
        }
        // If nothing but time was wrong with it, nobody can do anything about it.
        if !is_failed && draft.expired > 0 && draft.report.failed_jobs.is_empty() {
            ended.status.other.insert(EXPIRED.into(), self.now().to_string().into());
        }
        let message = if is_failed { ended.status.message.clone() } else { summary(draft) };
        let message = with_note(message, &draft.report);
        let told = Told { number: draft.report.number, announced, posted, to };
        let plan = report::finish(&ended, told, &message, &self.scene())
            .map_err(|refused| Error::refused(bid, refused))?;
        self.commit_batch(lease, plan, Lock::GiveBack).await?;
        Ok(to)
    }

    /// Batches that have a report in the outbox. One that failed without jobs is found only so.
    pub async fn with_report_in_outbox(&self) -> Result<Vec<Bid>> {
        let names = self.children(map::OUTBOX).await?;
        let bids = names.iter().filter_map(|name| name.split_once('-')?.0.parse().ok());
        let mut bids: Vec<Bid> = bids.collect();
        bids.sort_unstable();
        bids.dedup();
        Ok(bids)
    }

    /// Notes in a batch's status that something was told, besides its reports: at this date.
    pub async fn note_told(&self, lease: &mut BatchLease, what: &str) -> Result<()> {
        let mut marked = lease.batch.clone();
        marked.status.other.insert(what.to_owned(), self.now().to_string().into());
        let (state, message) = (marked.state(), marked.status.message.clone());
        let plan = batch::set(&marked, state, &message, Lock::Keep, &[], &self.scene());
        self.commit_batch(lease, plan, Lock::Keep).await
    }

    /// The gate before an effect outside of the tree: is this lease still good?
    pub async fn gate_of_batch(&self, lease: &BatchLease) -> Result<()> {
        let answer = self.session.multi(vec![lease.token.check()]).await;
        answer.map(|_| ()).map_err(|error| super::lease::misfit(lease.bid(), error))
    }

    /// Puts a report into the outbox, if it is not there; answers what is there.
    async fn post(&self, lease: &mut BatchLease, number: u32) -> Result<Outgoing> {
        let bid = lease.bid();
        let path = map::outbox(bid, number);
        let (ops, outgoing) = report::post(bid, number, lease.token.check(), &self.scene());
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        match settled.answer {
            Ok(_) => Ok(outgoing),
            Err(error) if error.kind() == Kind::NodeExists => {
                let gone = || Error::lost(bid, "its report is not in the outbox any more");
                Ok(self.read::<Outgoing>(path, gone).await?.0)
            }
            Err(error) => Err(super::lease::misfit(bid, error)),
        }
    }
}

/// What the one who sends the report has to say about it, and how much is not kept.
fn with_note(mut message: String, report: &StatusReport) -> String {
    if let Some(note) = report.other.get(NOTE).and_then(|note| note.as_str()) {
        message = format!("{message}; {note}");
    }
    let lines = not_kept(report);
    match lines.split_first() {
        Some((first, [])) => format!("{message}; {first}"),
        Some((first, rest)) => format!("{message}; {first}; and {} more such columns", rest.len()),
        None => message,
    }
}

/// What a report says is not kept of what was submitted.
pub fn not_kept(report: &StatusReport) -> Vec<&str> {
    let lines = report.other.get(NOT_KEPT).and_then(|lines| lines.as_array());
    lines.into_iter().flatten().filter_map(|line| line.as_str()).collect()
}

/// What an update tells that the report before did not.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Update {
    completed: Numbers,
    deleted: Numbers,
}

impl Update {
    fn of(report: &StatusReport) -> Option<Self> {
        let update: Self = serde_json::from_value(report.other.get(UPDATE)?.clone()).ok()?;
        let is_within =
            |numbers: &Numbers, rows: &Rows| numbers.is_sound() && numbers.count() <= rows.len() as u64;
        let is_sound = is_within(&update.completed, &report.successful_jobs)
            && is_within(&update.deleted, &report.deleted_jobs);
        is_sound.then_some(update)
    }
}

/// What the report before told of.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Before {
    number: Option<u32>,
    #[serde(deserialize_with = "jids")]
    successful_jobs: HashSet<Jid>,
    #[serde(deserialize_with = "jids")]
    deleted_jobs: HashSet<Jid>,
}

/// Which jobs a list names, and nothing else of them.
fn jids<'de, D: Deserializer<'de>>(list: D) -> Result<HashSet<Jid>, D::Error> {
    #[derive(Deserialize)]
    struct Named {
        jid: Jid,
    }

    let named = Option::<Vec<Named>>::deserialize(list)?;
    Ok(named.into_iter().flatten().map(|job| job.jid).collect())
}

/// `reported` in a batch's status: how much its last report names, so that nobody reads it for that.
#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    /// Of the report's node: what is noted of another one does not count.
    version: i32,
    #[serde(flatten)]
    counts: ReportCounts,
}

fn summary(draft: &ReportDraft) -> String {
    let ReportCounts { completed, failed, deleted, .. } = draft.report.counts();
    let expired = draft.expired;
    let counts = [
        (completed, "completed", true),
        (failed, "failed", true),
        (expired, "expired", false),
        (deleted.saturating_sub(expired), "deleted", false),
    ];
    let told = counts.iter().filter(|(count, _, always)| *always || *count > 0);
    told.map(|(count, what, _)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}
