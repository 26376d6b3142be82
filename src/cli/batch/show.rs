//! `ingestd batch show`.

use anyhow::Result;
use ingest_queue::states::States as _;

use crate::api::wire::Batch;
use crate::cli::client::Server;
use crate::cli::screen::{Records, Screen};
use crate::cli::words;

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The batch, or the uuid that its depositor was given
    batch: String,

    #[command(flatten)]
    server: Server,
}

impl Show {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let batch: Batch = client.send(client.get(&["batches", &self.batch])).await?;
        if self.server.json() {
            return self.server.output().print(&batch);
        }
        Screen::stdout().records(&records(&batch))
    }
}

fn records(batch: &Batch) -> Records {
    let line = &batch.line;
    let mut records = Records::default();
    records.add("batch", line.bid.to_string());
    records.add("uuid", line.uuid.as_deref().unwrap_or_default());
    records.state("state", line.state.name());
    records.add("message", &line.message);
    records.add("changed", words::date(line.last_modified));
    records.add("profile", &line.profile);
    records.add("collection", &line.collection);
    records.add("submitter", &line.submitter);
    let jobs = &line.jobs;
    records.add(
        "jobs",
        format!(
            "{} under way, {} completed, {} failed, {} deleted",
            jobs.processing, jobs.completed, jobs.failed, jobs.deleted
        ),
    );
    if batch.held_jobs > 0 {
        records.add("waits for", words::count(batch.held_jobs, "held job", "held jobs"));
    }
    if let Some(expansion) = &line.expansion {
        let rows = format!("{} of {} rows are jobs", expansion.next, expansion.total);
        records.add("expansion", if expansion.done { rows + ", done" } else { rows });
    }
    if let Some(lock) = &line.locked_by {
        let node = lock.node.as_deref().unwrap_or("a node");
        records.add("worked on", format!("by {node} since {}", words::date(Some(lock.since))));
    }
    if line.deleting {
        records.add("deleting", "it is being deleted");
    }
    if let Some(report) = &batch.report {
        let sent = match report.sent {
            Some(_) => format!("sent {}", words::date(report.sent)),
            None => "not sent yet".to_owned(),
        };
        records.add(
            "report",
            format!(
                "number {}, {sent}: {} completed, {} failed, {} deleted",
                report.number, report.completed, report.failed, report.deleted
            ),
        );
    }
    records.object("submission", &batch.submission);
    records
}
