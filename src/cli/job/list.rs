//! `ingestd job list`.

use anyhow::Result;
use ingest_queue::states::States as _;

use super::filter::Filter;
use crate::api::wire::{JobLine, JobPage};
use crate::cli::client::{Limit, Server};
use crate::cli::screen::{Cell, Column, Screen, Table};
use crate::cli::{progress, words};

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    limit: Limit,

    #[command(flatten)]
    filter: Filter,

    #[command(flatten)]
    server: Server,
}

impl List {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let ask = self.filter.ask(client.get(&["jobs"]));
        let bar = progress::waiting("reading");
        let page: JobPage =
            client.all(ask, self.limit, |count| bar.set_message(format!("{count} jobs"))).await?;
        bar.finish_and_clear();
        if self.server.json() {
            return self.server.output().print(&page);
        }
        if page.jobs.is_empty() {
            Screen::stdout().say("There are no such jobs.")?;
        } else {
            Screen::stdout().table(&table(&page.jobs))?;
        }
        super::unreadable(&page.unreadable);
        Ok(())
    }
}

pub(crate) fn table(jobs: &[JobLine]) -> Table {
    let mut table = Table::new([
        Column::word("JOB"),
        Column::word("BATCH"),
        Column::word("STATE"),
        Column::number("PRIORITY").minor(),
        Column::number("RETRIES").minor(),
        Column::text("COLLECTION").minor(),
        Column::text("IDENTIFIER"),
        Column::word("CHANGED").minor(),
        Column::word("NOT BEFORE").minor(),
        Column::text("MESSAGE"),
    ]);
    for job in jobs {
        let identifier = job.primary_id.clone().unwrap_or_else(|| job.local_ids.join("; "));
        table.row([
            Cell::new(job.jid.to_string()),
            Cell::new(job.bid.map(|bid| bid.to_string()).unwrap_or_default()),
            Cell::state(job.state.name()),
            Cell::new(match &job.class {
                Some(class) => format!("{} {class}", job.priority),
                None => job.priority.to_string(),
            }),
            Cell::new(job.retry_count.to_string()),
            Cell::new(&job.collection),
            Cell::new(identifier),
            Cell::new(words::date(job.last_modified)),
            Cell::new(words::date(job.process_date)),
            Cell::new(&job.message),
        ]);
    }
    table
}
