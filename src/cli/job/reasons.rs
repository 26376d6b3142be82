//! `ingestd job reasons`.

use anyhow::Result;

use super::filter::Filter;
use crate::api::wire;
use crate::cli::client::Server;
use crate::cli::screen::{Cell, Column, Screen, Table};

#[derive(Debug, clap::Args)]
pub(crate) struct Reasons {
    #[command(flatten)]
    filter: Filter,

    #[command(flatten)]
    server: Server,
}

impl Reasons {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let reasons: wire::Reasons = client.send(self.filter.ask(client.get(&["jobs", "reasons"]))).await?;
        if self.server.json() {
            return self.server.output().print(&reasons);
        }
        if reasons.groups.is_empty() {
            return Screen::stdout().say("There are no such jobs.");
        }
        let mut table = Table::new([
            Column::number("JOBS"),
            Column::word("GROUP"),
            Column::word("FIRST").minor(),
            Column::text("REASON"),
        ]);
        for group in &reasons.groups {
            let first = group.jobs.first().map(ToString::to_string).unwrap_or_default();
            table.row([
                Cell::new(group.count.to_string()),
                Cell::new(group.group.to_string()),
                Cell::new(first),
                Cell::new(&group.example),
            ]);
        }
        Screen::stdout().table(&table)?;
        Screen::note("One of them: `ingestd job requeue --group KEY --dry-run`");
        if reasons.left > 0 {
            Screen::note(&format!("{} more jobs were not looked at: narrow it down", reasons.left));
        }
        Ok(())
    }
}
