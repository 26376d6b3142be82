//! The report to the depositor: what became of each job.
//!
//! While a batch is reporting no job of it comes back, so the report is the same whenever it is drafted
//! again. `/outbox/BID-N` says that report N is on its way, and when it was sent: a node that takes over
//! looks there before it sends. Sending is at least once, always as the same number, with the date at which it
//! was put there.
//!
//! A batch that could not be expanded has no jobs to report, and a reason to tell: it failed with report 1 in
//! the outbox already, and is failed before and after that is sent.

use ingest_store::Kind;
use ingest_store::recipes::{settle, shard};

use super::lease::BatchLease;
use crate::date::Date;
use crate::error::{Error, Result};
use crate::ids::{Bid, Jid};
use crate::journal::EXPIRED;
use crate::map::{self, BatchNode};
use crate::nodes::{Node, Other, Outgoing, ReportedJob, StatusReport};
use crate::plan::Lock;
use crate::plan::batch;
use crate::plan::report::{self, Told};
use crate::queue::Queue;
use crate::states::BatchState;

/// In a report: why a batch has no jobs.
pub const WHY: &str = "why";
/// In a report: what is added to the batch's message when it is finished.
pub const NOTE: &str = "note";
/// A report is never larger than this.
const LARGEST: u64 = 1 << 30;

/// A report that is not sent yet, and what it tells that the last one did not.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportDraft {
    pub bid: Bid,
    pub report: StatusReport,
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
    /// The first report always tells something; a later one only if something has changed.
    pub fn is_news(&self) -> bool {
        !self.is_update || !self.newly_successful.is_empty() || !self.newly_deleted.is_empty()
    }

    /// Where the batch goes when the report is sent.
    pub fn outcome(&self) -> BatchState {
        let StatusReport { failed_jobs, successful_jobs, deleted_jobs, .. } = &self.report;
        report::outcome(successful_jobs.len(), failed_jobs.len(), deleted_jobs.len(), self.expired())
    }

    /// How many jobs were not begun in time.
    pub fn expired(&self) -> usize {
        expired(&self.report)
    }

    /// The key that every sending of this report carries.
    pub fn key(&self) -> String {
        format!("{}-{}", self.bid, self.report.number)
    }
}

impl Queue {
    /// The last report that was sent.
    pub async fn last_report(&self, bid: Bid) -> Result<Option<StatusReport>> {
        let path = BatchNode::StatusReport.of(bid);
        let data = self.sharded(path.clone(), LARGEST).await?;
        data.map(|data| StatusReport::read(&data).map_err(|why| Error::corrupt(path, why))).transpose()
    }

    /// Drafts the next report of a batch that is reporting, and notes in the outbox that it is on its way.
    pub async fn draft_report(&self, lease: &mut BatchLease) -> Result<ReportDraft> {
        let bid = lease.bid();
        let state = lease.batch.state();
        let owes =
            state == BatchState::Failed && self.exists(map::outbox(bid, report::FIRST)).await?.is_some();
        if !state.is_reporting() && !owes {
            return Err(Error::forbidden(bid, format!("it is {state} and not reporting")));
        }
        let last = self.last_report(bid).await?;
        let number = report::number_after(last.as_ref().map(|last| last.number));
        let mut other = Other::new();
        if owes {
            other.insert(WHY.into(), lease.batch.status.message.clone().into());
        }
        let reported = self.reported(bid).await?;
        let mut report = StatusReport {
            number,
            last_modified: None,
            failed_jobs: reported.failed,
            successful_jobs: reported.successful,
            deleted_jobs: reported.deleted,
            other,
        };
        let (is_update, before) = (last.is_some(), last.unwrap_or_default());
        let newly_successful = newly(&report.successful_jobs, &before.successful_jobs);
        let newly_deleted = newly(&report.deleted_jobs, &before.deleted_jobs);
        // It may be as large as the new one.
        drop(before);
        let Outgoing { composed, sent, .. } = self.post(lease, number).await?;
        report.last_modified = Some(composed);
        Ok(ReportDraft { bid, report, sent, is_update, newly_successful, newly_deleted })
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
            let data = draft.report.write(self.dialect());
            let prepared = shard::prepare(&self.session, &path, &data).await?;
            let last = self.exists(&path).await?.map(|stat| stat.version);
            announced = Some((prepared.announcement(), last));
        }
        let posted = self.exists(map::outbox(bid, draft.report.number)).await?.is_some();
        let to = draft.outcome();
        let mut ended = lease.batch.clone();
        let is_failed = ended.state() == BatchState::Failed;
        // If nothing but time was wrong with it, nobody can do anything about it.
        if !is_failed && draft.expired() > 0 && draft.report.failed_jobs.is_empty() {
            ended.status.other.insert(EXPIRED.into(), self.now().to_string().into());
        }
        let message = if is_failed { ended.status.message.clone() } else { summary(&draft.report) };
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

/// What the one who sends the report has to say about it.
fn with_note(message: String, report: &StatusReport) -> String {
    match report.other.get(NOTE).and_then(|note| note.as_str()) {
        Some(note) => format!("{message}; {note}"),
        None => message,
    }
}

fn newly(now: &[ReportedJob], before: &[ReportedJob]) -> Vec<Jid> {
    let before: std::collections::HashSet<Jid> = before.iter().map(|job| job.jid).collect();
    now.iter().map(|job| job.jid).filter(|jid| !before.contains(jid)).collect()
}

fn summary(report: &StatusReport) -> String {
    let (completed, failed) = (report.successful_jobs.len(), report.failed_jobs.len());
    let expired = expired(report);
    let counts = [
        (completed, "completed", true),
        (failed, "failed", true),
        (expired, "expired", false),
        (report.deleted_jobs.len() - expired, "deleted", false),
    ];
    let told = counts.iter().filter(|(count, _, always)| *always || *count > 0);
    told.map(|(count, what, _)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

fn expired(report: &StatusReport) -> usize {
    report.deleted_jobs.iter().filter(|job| job.expired().is_some()).count()
}
