//! What depositors are told: that a submission is queued, what became of a batch, what has changed since.
//!
//! A report is composed from what the queue has drafted and from nothing else, so the same number is the
//! same message whenever and wherever it is composed again. Its Message-ID is the batch and the number:
//! `bid0000000001-1@host`; that of the mail that a submission is queued has the number 0.

mod table;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;
use std::time::{Duration, SystemTime};

use ingest_queue::batches::{ReportDraft, WHY, not_kept};
use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::nodes::{ReportCounts, ReportedJob, Rows, Submission};
use quick_xml::escape::escape;

pub use self::table::Table;
use crate::mail::{Attached, Message};
use crate::outcome::{Failure, Result};
use crate::profile::Profile;

/// Failed jobs that a mail names; the attachment has all of them, if it holds them.
const NAMED: usize = 200;
/// An attachment is no larger than this: servers refuse large mails for good, and a report that is refused keeps its batch from its end.
const LARGEST: usize = 10 << 20;

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub from: String,
    /// The right-hand side of the Message-IDs: a name that is the same on all nodes.
    pub host: String,
}

/// About which batch, and to whom.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    pub bid: Bid,
    pub submission: &'a Submission,
    pub profile: &'a Profile,
}

impl About<'_> {
    /// Everybody who is told: the profile's addresses, and those that the submission gave.
    pub fn recipients(&self) -> Vec<String> {
        let given =
            self.submission.other.get("notification").and_then(|value| value.as_str()).unwrap_or_default();
        let given = given.split([',', ';']).map(str::trim).filter(|address| !address.is_empty());
        let mut all: Vec<String> = Vec::new();
        for address in self.profile.notify.to.iter().map(String::as_str).chain(given) {
            if !all.iter().any(|known| known.eq_ignore_ascii_case(address)) {
                all.push(address.to_owned());
            }
        }
        all
    }

    fn message(&self, sender: &Sender, number: u32, date: Date, subject: String) -> Message {
        let millis = u64::try_from(date.millis()).unwrap_or_default();
        Message {
            id: format!("{}-{number}@{}", self.bid, sender.host),
            from: sender.from.clone(),
            to: self.recipients(),
            subject,
            date: SystemTime::UNIX_EPOCH + Duration::from_millis(millis),
            text: String::new(),
            html: String::new(),
            attachments: Vec::new(),
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let payload = self.submission.payload_filename.as_ref().or(self.submission.payload_url.as_ref());
        let mut facts = vec![
            ("Batch", self.bid.to_string()),
            ("Collection", format!("{} ({})", self.profile.title, self.profile.collection)),
            ("Submitted by", self.submission.submitter.clone()),
        ];
        facts.extend(payload.map(|payload| ("Payload", without_user(payload))));
        facts
    }
}

/// The mail that a submission is queued.
pub fn queued(about: &About<'_>, sender: &Sender, at: Date) -> Message {
    let mut message = about.message(sender, 0, at, format!("Ingest: OK -- Submission queued: {}", about.bid));
    let body = Body {
        lead: "Your submission was received and waits in the queue. A report follows when all of it is done."
            .into(),
        facts: about.facts(),
        parts: Vec::new(),
    };
    (message.text, message.html) = (body.text(), body.html());
    message
}

/// The report of a batch, or the update of one: what the draft says.
pub fn report(about: &About<'_>, draft: &ReportDraft, sender: &Sender) -> Result<Message> {
    let report = &draft.report;
    let wrong = |error: &dyn std::fmt::Display| Failure::fail(format!("report {}: {error}", draft.key()));
    let Some(date) = report.last_modified else { return Err(wrong(&"it has no date")) };
    let ReportCounts { completed, failed, deleted: all_deleted, .. } = report.counts();
    let expired = draft.expired;
    let deleted = all_deleted.saturating_sub(expired);
    let verdict = match (failed + expired, completed) {
        (0, 0) => "FAILED",
        (0, _) => "OK",
        (_, 0) => "FAILED",
        _ => "PARTLY FAILED",
    };
    let kind = if draft.is_update { "Update of batch" } else { "Batch" };
    let subject =
        format!("Ingest: {verdict} -- {kind} {}: {completed} completed, {failed} failed", about.bid);
    let mut message = about.message(sender, report.number, date, subject);
    let mut counts = format!("{completed} completed, {failed} failed");
    for (count, what) in [(expired, "expired"), (deleted, "deleted")] {
        if count > 0 {
            // Writing to a string does not fail.
            let _ = write!(counts, ", {count} {what}");
        }
    }
    let mut facts = about.facts();
    facts.push(("Objects", counts));
    let part = |heading: &str, count: usize, rows: &Rows, is_of_it: &dyn Fn(&ReportedJob) -> bool| {
        part(heading, count, rows, is_of_it).map_err(|error| wrong(&error))
    };
    let (successful, gone) = (&report.successful_jobs, &report.deleted_jobs);
    let parts = if draft.is_update {
        let among = |jids: &[Jid]| -> HashSet<Jid> { jids.iter().copied().collect() };
        let (stored, removed) = (among(&draft.newly_successful), among(&draft.newly_deleted));
        vec![
            part("Completed since the last report", stored.len(), successful, &|job| {
                stored.contains(&job.jid)
            })?,
            part("Deleted since the last report", removed.len(), gone, &|job| removed.contains(&job.jid))?,
            part("Still not resolved", failed, &report.failed_jobs, &|_| true)?,
        ]
    } else {
        vec![
            why(draft),
            not_kept_of(draft),
            part("Failed", failed, &report.failed_jobs, &|_| true)?,
            part("Expired before they were begun", expired, gone, &|job| job.expired().is_some())?,
            part("Deleted before they were done", deleted, gone, &|job| job.expired().is_none())?,
        ]
    };
    let lead = match (draft.is_update, failed + expired) {
        (true, _) => "This is what has changed since the last report.",
        (false, 0) if completed > 0 => "Everything that you submitted is stored.",
        (false, 0) => "Nothing of your submission could be stored.",
        (false, _) => "Some of your submission could not be stored.",
    };
    let (mut data, mut rows) = (Vec::new(), 0);
    let mut table = Table::new(about, report);
    while data.len() < LARGEST
        && let Some((piece, count)) = table.piece().map_err(|error| wrong(&error))?
    {
        data.extend_from_slice(&piece);
        rows += count;
    }
    let all = completed + failed + all_deleted;
    if rows < all {
        let bid = about.bid;
        facts.push((
            "Attached",
            format!(
                "the first {rows} of {all} objects; `ingestd batch report {bid} --format csv` has all of them"
            ),
        ));
    }
    let body = Body { lead: lead.into(), facts, parts: parts.into_iter().flatten().collect() };
    (message.text, message.html) = (body.text(), body.html());
    message.attachments = vec![Attached {
        name: format!("{}-{}.csv", about.bid, report.number),
        mime: "text/csv; charset=utf-8".into(),
        data,
    }];
    Ok(message)
}

/// A heading and a line for each job; nothing if there is none.
type Part = (String, Vec<String>);

fn part(
    heading: &str,
    count: usize,
    rows: &Rows,
    is_of_it: &dyn Fn(&ReportedJob) -> bool,
) -> io::Result<Option<Part>> {
    if count == 0 {
        return Ok(None);
    }
    let jobs = rows.iter().filter(|job| !job.as_ref().is_ok_and(|job| !is_of_it(job)));
    let mut lines = jobs.take(NAMED).map(|job| Ok(line(&job?))).collect::<io::Result<Vec<_>>>()?;
    if count > NAMED {
        lines.push(format!("and {} more; the attachment goes on", count - NAMED));
    }
    Ok(Some((format!("{heading} ({count})"), lines)))
}

/// Why there are no jobs at all, a line a reason.
fn why(draft: &ReportDraft) -> Option<Part> {
    let reasons = draft.report.other.get(WHY)?.as_str()?.lines();
    let plain = |line: &str| line.split(char::is_control).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<_> = reasons.map(plain).filter(|line| !line.trim().is_empty()).collect();
    if lines.len() > NAMED {
        let more = lines.split_off(NAMED).len();
        lines.push(format!("and {more} more"));
    }
    (!lines.is_empty()).then(|| ("Why".to_owned(), lines))
}

/// What of the submission is not kept, a line a column.
fn not_kept_of(draft: &ReportDraft) -> Option<Part> {
    let plain = |line: &str| line.split(char::is_control).collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = not_kept(&draft.report).into_iter().map(plain).collect();
    (!lines.is_empty()).then(|| ("Not kept".to_owned(), lines))
}

fn line(job: &ReportedJob) -> String {
    let names = job.primary_id.iter().chain(&job.local_id).map(String::as_str).collect::<Vec<_>>().join(", ");
    let what = if names.is_empty() { without_user(&job.payload_url) } else { names };
    let mut line = format!("{}: {what}", job.jid);
    if !job.message.is_empty() {
        let _ = write!(line, " - {}", job.message);
    }
    line.split(char::is_control).collect::<Vec<_>>().join(" ")
}

/// A depositor's URL without what only the depositor should know.
fn without_user(text: &str) -> String {
    url::Url::parse(text).map_or_else(|_| text.to_owned(), |url| crate::fetch::redacted(&url))
}

/// The words of a mail, once as plain text and once as HTML.
struct Body {
    lead: String,
    facts: Vec<(&'static str, String)>,
    parts: Vec<Part>,
}

impl Body {
    fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.lead);
        for (name, value) in &self.facts {
            let _ = writeln!(text, "{name}: {value}");
        }
        for (heading, lines) in &self.parts {
            let _ = writeln!(text, "\n{heading}");
            for line in lines {
                let _ = writeln!(text, "- {line}");
            }
        }
        text
    }

    fn html(&self) -> String {
        let mut html = format!("<!DOCTYPE html>\n<html><body>\n<p>{}</p>\n<table>\n", escape(&self.lead));
        for (name, value) in &self.facts {
            let _ = writeln!(html, "<tr><th align=\"left\">{name}</th><td>{}</td></tr>", escape(value));
        }
        html.push_str("</table>\n");
        for (heading, lines) in &self.parts {
            let _ = writeln!(html, "<h3>{}</h3>\n<ul>", escape(heading));
            for line in lines {
                let _ = writeln!(html, "<li>{}</li>", escape(line));
            }
            html.push_str("</ul>\n");
        }
        html.push_str("</body></html>\n");
        html
    }
}

#[cfg(test)]
mod tests;
