//! `ingestd batch delete`.

use anyhow::Result;
use ingest_queue::states::States as _;
use reqwest::Method;

use crate::api::wire::{Batch, BatchDeleted};
use crate::cli::client::Server;
use crate::cli::confirm::Confirm;
use crate::cli::many::each;

#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// The batches, or their uuids
    #[arg(required = true)]
    batch: Vec<String>,

    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Take the lock away from whoever works on it
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    server: Server,
}

impl Delete {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let act = async |name: &str| {
            self.confirm.can_be_asked("deleting a batch")?;
            if !self.confirm.is_given() {
                let batch: Batch = client.send(client.get(&["batches", name])).await?;
                self.confirm.ask(&format!("Delete {}", batch.line.bid), &warning(&batch))?;
            }
            let ask = client.ask(Method::DELETE, &["batches", name]).with("confirm", Some(true)).patient();
            let ask = ask.with("reason", self.reason.as_ref()).with("force", self.force.then_some(true));
            client.send::<BatchDeleted>(ask).await
        };
        let told = |deleted: &BatchDeleted| {
            format!("{} is deleted, with {} jobs: {}", deleted.bid, deleted.deleted_jobs, deleted.warning)
        };
        each(&self.batch, self.server.output(), act, told).await
    }
}

/// What is lost, and what the depositor will not be told.
fn warning(batch: &Batch) -> String {
    let line = &batch.line;
    let jobs = &line.jobs;
    let all = jobs.processing + jobs.failed + jobs.completed + jobs.deleted;
    let silent = jobs.processing + jobs.failed;
    let told = match &batch.report {
        Some(report) => format!("Report {} was the last; no other will follow, ", report.number),
        None => "No report was sent, and none will be, ".to_owned(),
    };
    format!(
        "{} of {} is {} and has {all} jobs. {told}and the depositor will not be told what becomes of {silent} of them. What is stored stays.",
        line.bid,
        line.submitter,
        line.state.name(),
    )
}
