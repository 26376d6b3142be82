//! `ingestd audit-log`: who has done what, when and from where.

use anyhow::Result;
use ingest_queue::date::Date;

use super::client::{Limit, Server};
use super::screen::{Cell, Column, Screen, Table};
use super::words;
use crate::api::wire::AuditPage;

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct AuditLog {
    /// Of this person alone
    #[arg(long, value_name = "NAME")]
    who: Option<String>,

    /// After this date, or not as long ago as this: 2h, 3days
    #[arg(long, value_name = "WHEN", value_parser = words::moment)]
    newer_than: Option<Date>,

    #[command(flatten)]
    limit: Limit,

    #[command(flatten)]
    server: Server,
}

impl AuditLog {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let is_narrowed = self.who.is_some() || self.newer_than.is_some();
        let ask = client.get(&["audit"]).with("who", self.who).with("newer_than", self.newer_than);
        let list: AuditPage = client.all(ask, self.limit, |_| {}).await?;
        if self.server.json() {
            return self.server.output().print(&list);
        }
        if list.entries.is_empty() && is_narrowed {
            return Screen::stdout().say("Nobody has done anything like that.");
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
