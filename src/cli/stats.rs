//! `ingestd stats`: what waited and what ended over time, in the whole cluster.

use anyhow::Result;

use super::client::Server;
use super::screen::{Cell, Column, Screen, Table};
use super::words;
use crate::api::wire::StatsList;

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Stats {
    #[command(flatten)]
    server: Server,
}

impl Stats {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let list: StatsList = client.send(client.get(&["stats"])).await?;
        if self.server.json() {
            return self.server.output().print(&list);
        }
        if list.lines.is_empty() {
            return Screen::stdout().say(
                "Nothing was written down yet: a line is added every `stats.every` in which something waits or ends.",
            );
        }
        let mut table = Table::new([
            Column::word("AT"),
            Column::number("COMPLETED"),
            Column::number("FAILED"),
            Column::text("WAITING"),
            Column::word("WRITTEN BY").minor(),
        ]);
        for line in &list.lines {
            let waiting: Vec<_> =
                line.waiting.iter().map(|(state, count)| format!("{count} {state}")).collect();
            table.row([
                Cell::new(words::date(Some(line.at))),
                Cell::new(line.completed.to_string()),
                Cell::new(line.failed.to_string()),
                Cell::new(waiting.join(", ")),
                Cell::new(&line.node),
            ]);
        }
        Screen::stdout().table(&table)
    }
}
