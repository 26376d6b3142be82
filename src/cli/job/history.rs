//! `ingestd job history`.

use anyhow::Result;
use ingest_queue::ids::Jid;
use ingest_queue::states::States;

use crate::api::wire::JobHistory;
use crate::cli::client::Server;
use crate::cli::screen::{Cell, Column, Screen, Table};
use crate::cli::words;

#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The job
    job: Jid,

    #[command(flatten)]
    server: Server,
}

impl History {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let history: JobHistory =
            client.send(client.get(&["jobs", &self.job.to_string(), "history"])).await?;
        if self.server.json() {
            return self.server.output().print(&history);
        }
        let mut table = Table::new([
            Column::word("AT"),
            Column::word("FROM"),
            Column::word("TO"),
            Column::number("ATTEMPT").minor(),
            Column::text("NODE").minor(),
            Column::text("MESSAGE"),
        ]);
        for step in &history.history {
            table.row([
                Cell::new(words::date(Some(step.at))),
                Cell::state(step.from.map(States::name).unwrap_or_default()),
                Cell::state(step.to.name()),
                Cell::new(step.attempt.to_string()),
                Cell::new(&step.node),
                Cell::new(&step.message),
            ]);
        }
        if table.is_empty() {
            return Screen::stdout().say("It has not moved yet.");
        }
        Screen::stdout().table(&table)
    }
}
