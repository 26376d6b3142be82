//! The objects of a report as a table: a row each, what failed or was deleted first.

use std::io;

use ingest_queue::nodes::{ReportedJob, StatusReport};

use super::About;

const COLUMNS: [&str; 13] = [
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
];
/// A piece has this many bytes, and what its last row has over it.
const PIECE: usize = 16 << 10;

/// A table that is made piece by piece.
pub struct Table {
    bid: String,
    submitter: String,
    profile: String,
    /// What became of them, by list.
    jobs: Box<dyn Iterator<Item = io::Result<(&'static str, ReportedJob)>> + Send>,
    /// Its heading is not made yet.
    begins: bool,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("bid", &self.bid).finish_non_exhaustive()
    }
}

impl Table {
    pub fn new(about: &About<'_>, report: &StatusReport) -> Self {
        let lists = [
            ("failed", &report.failed_jobs),
            ("deleted", &report.deleted_jobs),
            ("completed", &report.successful_jobs),
        ];
        let lists = lists.map(|(became, rows)| rows.iter().map(move |job| Ok((became, job?))));
        Self {
            bid: about.bid.to_string(),
            submitter: about.submission.submitter.clone(),
            profile: about.profile.name.clone(),
            jobs: Box::new(lists.into_iter().flatten()),
            begins: true,
        }
    }

    /// The next rows as CSV, and how many they are; `None` behind the last ones. The first piece has the heading.
    pub fn piece(&mut self) -> io::Result<Option<(Vec<u8>, usize)>> {
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
        let begins = std::mem::take(&mut self.begins);
        if begins {
            writer.write_record(COLUMNS)?;
        }
        let mut count = 0;
        // What the writer holds back is little.
        while writer.get_ref().len() < PIECE
            && let Some(job) = self.jobs.next()
        {
            let (became, job) = job?;
            writer.write_record(self.row(became, job).map(harmless))?;
            count += 1;
        }
        let piece = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        Ok((begins || count > 0).then_some((piece, count)))
    }

    fn row(&self, became: &str, job: ReportedJob) -> [String; COLUMNS.len()] {
        let became = if job.expired().is_some() { "expired" } else { became };
        [
            self.bid.clone(),
            job.jid.to_string(),
            self.submitter.clone(),
            file_name(&job.payload_url),
            job.payload_type,
            self.profile.clone(),
            job.primary_id.unwrap_or_default(),
            job.local_id.join("; "),
            job.erc_who.unwrap_or_default(),
            job.erc_what.unwrap_or_default(),
            job.erc_when.unwrap_or_default(),
            became.to_owned(),
            job.message,
        ]
    }
}

/// A spreadsheet takes a cell that begins so for a formula, and runs it.
fn harmless(cell: String) -> String {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{cell}") } else { cell }
}

fn file_name(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}
