//! `ingestd batch list`.

use anyhow::Result;
use ingest_queue::states::States as _;

use crate::api::wire::{BatchLine, BatchPage};
use crate::cli::client::{Limit, Server};
use crate::cli::screen::{Cell, Column, Paint, Screen, Table};
use crate::cli::whose::Whose;
use crate::cli::{progress, words};

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// In any of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<String>,

    #[command(flatten)]
    whose: Whose,

    /// With this in a name, an id or the message
    #[arg(long)]
    text: Option<String>,

    /// From the oldest on; otherwise from the newest
    #[arg(long)]
    oldest_first: bool,

    #[command(flatten)]
    limit: Limit,

    #[command(flatten)]
    server: Server,
}

impl List {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let states = (!self.state.is_empty()).then(|| self.state.join(","));
        let order = if self.oldest_first { "oldest" } else { "newest" };
        let ask = self.whose.ask(client.get(&["batches"]).with("state", states)).with("text", self.text);
        let ask = ask.with("order", Some(order));
        let bar = progress::waiting("reading");
        let page: BatchPage =
            client.all(ask, self.limit, |count| bar.set_message(format!("{count} batches"))).await?;
        bar.finish_and_clear();
        if self.server.json() {
            return self.server.output().print(&page);
        }
        print(&page)
    }
}

fn print(page: &BatchPage) -> Result<()> {
    let screen = Screen::stdout();
    if page.batches.is_empty() {
        screen.say("There are no such batches.")?;
    } else {
        screen.table(&table(&page.batches))?;
    }
    crate::cli::job::unreadable(&page.unreadable);
    Ok(())
}

pub(crate) fn table(batches: &[BatchLine]) -> Table {
    let mut table = Table::new([
        Column::word("BATCH"),
        Column::word("STATE"),
        Column::number("JOBS"),
        Column::number("DONE"),
        Column::number("FAILED"),
        Column::text("PROFILE").minor(),
        Column::text("SUBMITTER").minor(),
        Column::word("CHANGED").minor(),
        Column::text("MESSAGE"),
    ]);
    for batch in batches {
        table.row(row(batch));
    }
    table
}

fn row(batch: &BatchLine) -> [Cell; 9] {
    let jobs = &batch.jobs;
    let all = jobs.processing + jobs.failed + jobs.completed + jobs.deleted;
    let state = if batch.deleting { Cell::state("deleted") } else { Cell::state(batch.state.name()) };
    [
        Cell::new(batch.bid.to_string()),
        state,
        Cell::new(all.to_string()),
        Cell::count(jobs.completed, Paint::Good),
        Cell::count(jobs.failed, Paint::Bad),
        Cell::new(&batch.profile),
        Cell::new(&batch.submitter),
        Cell::new(words::date(batch.last_modified)),
        Cell::new(&batch.message),
    ]
}
