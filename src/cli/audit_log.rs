//! `ingestd audit-log`: who has done what, when and from where.

use anyhow::Result;

use super::client::Server;
use super::screen::{Cell, Column, Screen, Table};
use super::words;
use crate::api::wire::AuditList;

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct AuditLog {
    /// No more than so many
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,

    #[command(flatten)]
    server: Server,
}

impl AuditLog {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let list: AuditList = client.send(client.get(&["audit"]).with("limit", Some(self.limit))).await?;
        if self.server.json() {
            return self.server.output().print(&list);
        }
        if list.entries.is_empty() {
            return Screen::stdout().say("Nobody has done anything yet.");
        }
        let mut table = Table::new([
            Column::word("AT"),
            Column::text("WHO"),
            Column::word("ROLE").minor(),
            Column::word("FROM").minor(),
            Column::number("STATUS"),
            Column::text("WHAT"),
            Column::text("DETAILS"),
        ]);
        for entry in &list.entries {
            table.row([
                Cell::new(words::date(Some(entry.at))),
                Cell::new(&entry.who),
                Cell::new(entry.role.name()),
                Cell::new(&entry.from),
                Cell::new(entry.status.to_string()),
                Cell::new(&entry.what),
                Cell::new(&entry.details),
            ]);
        }
        Screen::stdout().table(&table)
    }
}
