//! What depositors are told: that a submission is queued, what became of a batch, what has changed since.
//!
//! A report is composed from what the queue has drafted and from nothing else, so the same number is the
//! same message whenever and wherever it is composed again. Its Message-ID is the batch and the number:
//! `bid0000000001-1@host`; that of the mail that a submission is queued has the number 0.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use ingest_queue::batches::{ReportDraft, WHY};
use ingest_queue::date::Date;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::nodes::{ReportedJob, Submission};
use quick_xml::escape::escape;

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
    let Some(date) = report.last_modified else {
        return Err(Failure::fail(format!("report {} has no date", draft.key())));
    };
    let (expired, removed): (Vec<_>, Vec<_>) =
        report.deleted_jobs.iter().cloned().partition(|job| job.expired().is_some());
    let (completed, failed, deleted) =
        (report.successful_jobs.len(), report.failed_jobs.len(), removed.len());
    let verdict = match (failed + expired.len(), completed) {
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
    for (count, what) in [(expired.len(), "expired"), (deleted, "deleted")] {
        if count > 0 {
            // Writing to a string does not fail.
            let _ = write!(counts, ", {count} {what}");
        }
    }
    let mut facts = about.facts();
    facts.push(("Objects", counts));
    let find = |jobs: &'_ [ReportedJob], jids: &[Jid]| -> Vec<ReportedJob> {
        jobs.iter().filter(|job| jids.contains(&job.jid)).cloned().collect()
    };
    let mut parts = Vec::new();
    if draft.is_update {
        parts.push(part(
            "Completed since the last report",
            &find(&report.successful_jobs, &draft.newly_successful),
        ));
        parts.push(part("Deleted since the last report", &find(&report.deleted_jobs, &draft.newly_deleted)));
        parts.push(part("Still not resolved", &report.failed_jobs));
    } else {
        parts.push(why(draft));
        parts.push(part("Failed", &report.failed_jobs));
        parts.push(part("Expired before they were begun", &expired));
        parts.push(part("Deleted before they were done", &removed));
    }
    let lead = match (draft.is_update, failed + expired.len()) {
        (true, _) => "This is what has changed since the last report.",
        (false, 0) if completed > 0 => "Everything that you submitted is stored.",
        (false, 0) => "Nothing of your submission could be stored.",
        (false, _) => "Some of your submission could not be stored.",
    };
    let Table { data, rows } = table(about, draft, LARGEST)?;
    let all = completed + failed + report.deleted_jobs.len();
    if rows < all {
        let bid = about.bid;
        facts.push((
            "Attached",
            format!("the first {rows} of {all} objects; `ingestd batch report {bid}` has all of them"),
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

fn part(heading: &str, jobs: &[ReportedJob]) -> Option<Part> {
    let mut lines: Vec<_> = jobs.iter().take(NAMED).map(line).collect();
    if jobs.len() > NAMED {
        lines.push(format!("and {} more; the attachment goes on", jobs.len() - NAMED));
    }
    (!lines.is_empty()).then(|| (format!("{heading} ({})", jobs.len()), lines))
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

fn line(job: &ReportedJob) -> String {
    let names = job.primary_id.iter().chain(&job.local_id).map(String::as_str).collect::<Vec<_>>().join(", ");
    let what = if names.is_empty() { without_user(&job.payload_url) } else { names };
    let mut line = format!("{}: {what}", job.jid);
    if !job.message.is_empty() {
        let _ = write!(line, " - {}", job.message);
    }
    line.split(char::is_control).collect::<Vec<_>>().join(" ")
}

/// What is attached.
struct Table {
    data: Vec<u8>,
    /// How many objects it has.
    rows: usize,
}

/// A row an object, what failed or was deleted first, up to a size.
fn table(about: &About<'_>, draft: &ReportDraft, most: usize) -> Result<Table> {
    let wrong = |error: &dyn std::fmt::Display| Failure::fail(format!("report {}: {error}", draft.key()));
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer
        .write_record([
            "batch",
            "job",
            "submitter",
            "file_name",
            "type",
            "profile",
            "primary_id",
            "local_id",
            "creator",
            "title",
            "date",
            "status",
            "message",
        ])
        .map_err(|error| wrong(&error))?;
    let report = &draft.report;
    let mut rows = 0;
    'full: for (status, jobs) in [
        ("failed", &report.failed_jobs),
        ("deleted", &report.deleted_jobs),
        ("completed", &report.successful_jobs),
    ] {
        for job in jobs {
            // What the writer holds back is little.
            if writer.get_ref().len() >= most {
                break 'full;
            }
            rows += 1;
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            let record = [
                about.bid.to_string(),
                job.jid.to_string(),
                about.submission.submitter.clone(),
                file_name(&job.payload_url),
                job.payload_type.clone(),
                about.profile.name.clone(),
                text(&job.primary_id),
                job.local_id.join("; "),
                text(&job.erc_who),
                text(&job.erc_what),
                text(&job.erc_when),
                if job.expired().is_some() { "expired" } else { status }.to_owned(),
                job.message.clone(),
            ];
            writer.write_record(record.map(|cell| harmless(&cell))).map_err(|error| wrong(&error))?;
        }
    }
    let data = writer.into_inner().map_err(|error| wrong(&error))?;
    Ok(Table { data, rows })
}

/// A spreadsheet takes a cell that begins so for a formula, and runs it.
fn harmless(cell: &str) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{cell}") } else { cell.to_owned() }
}

fn file_name(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
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
