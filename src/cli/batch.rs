//! `ingestd batch`: deposits, from the submission to the last report.

mod act;
mod delete;
mod list;
mod report;
mod show;
mod watch;

use anyhow::Result;
use clap::Subcommand;

pub(super) use list::table;

#[derive(Debug, Subcommand)]
pub(super) enum Batch {
    /// List batches, the newest first
    List(list::List),
    /// Show all that is known of a batch
    Show(show::Show),
    /// Follow batches until they have ended; the exit code tells whether all have completed
    Watch(watch::Watch),
    /// Print the last report that the depositor was sent
    Report(report::Report),
    /// Tell the depositor what has succeeded since the last report
    UpdateReport(act::UpdateReport),
    /// Keep batches that wait from being expanded
    Hold(act::Hold),
    /// Let held batches go on
    Release(act::Release),
    /// Delete batches with all their jobs: their depositors will not be told
    Delete(delete::Delete),
}

impl Batch {
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Batch::List(list) => list.run().await,
            Batch::Show(show) => show.run().await,
            Batch::Watch(watch) => watch.run().await,
            Batch::Report(report) => report.run().await,
            Batch::UpdateReport(update) => update.run().await,
            Batch::Hold(hold) => hold.run().await,
            Batch::Release(release) => release.run().await,
            Batch::Delete(delete) => delete.run().await,
        }
    }
}
