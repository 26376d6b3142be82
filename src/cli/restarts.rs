//! `ingestd restarts`: which actors were started again, on all nodes, and why.

use anyhow::Result;
use ingest_queue::date::Date;

use super::client::{Limit, Server};
use super::screen::{Cell, Column, Screen, Table};
use super::words;
use crate::api::wire::{NotAsked, RestartPage};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Restarts {
    #[command(flatten)]
    limit: Limit,

    /// Of this node alone; without it, of all nodes
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Actors whose name begins with this
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,

    /// Of this pool
    #[arg(long)]
    pool: Option<String>,

    /// While it worked on this job
    #[arg(long, value_name = "JID")]
    job: Option<String>,

    /// While it worked on this batch
    #[arg(long, value_name = "BID")]
    batch: Option<String>,

    /// `panic`, `error`, `stall` or `killed`
    #[arg(long)]
    reason: Option<String>,

    /// After this date, or not as long ago as this: 2h, 3days
    #[arg(long, value_name = "WHEN", value_parser = words::moment)]
    newer_than: Option<Date>,

    #[command(flatten)]
    server: Server,
}

impl Restarts {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let ask = client
            .get(&["restarts"])
            .with("node", self.node)
            .with("actor", self.actor)
            .with("pool", self.pool)
            .with("job", self.job)
            .with("batch", self.batch)
            .with("reason", self.reason)
            .with("newer_than", self.newer_than);
        let mut list: RestartPage = client.all(ask, self.limit, |_| {}).await?;
        // Each page names those that it had to do without.
        list.missing.sort_by(|a, b| (&a.node, &a.why).cmp(&(&b.node, &b.why)));
        list.missing.dedup();
        if self.server.json() {
            return self.server.output().print(&list);
        }
        for NotAsked { node, why } in &list.missing {
            let node = node.as_deref().unwrap_or("the other nodes");
            Screen::note(&format!("Without the restarts of {node}: {why}"));
        }
        if list.restarts.is_empty() {
            return Screen::stdout().say("There were no such restarts.");
        }
        let mut table = Table::new([
            Column::word("AT"),
            Column::word("NODE").minor(),
            Column::word("ACTOR"),
            Column::word("REASON"),
            Column::word("JOB"),
            Column::word("BATCH").minor(),
            Column::number("COUNT").minor(),
            Column::number("PAUSE").minor(),
            Column::text("MESSAGE"),
            Column::text("LOCATION").minor(),
        ]);
        for restart in &list.restarts {
            table.row([
                Cell::new(words::date(Some(restart.at))),
                Cell::new(&restart.node),
                Cell::new(&restart.actor),
                Cell::new(&restart.reason),
                Cell::new(restart.job.as_deref().unwrap_or_default()),
                Cell::new(restart.batch.as_deref().unwrap_or_default()),
                Cell::new(restart.count.to_string()),
                Cell::new(words::span(restart.backoff_ms)),
                Cell::new(&restart.message),
                Cell::new(restart.location.as_deref().unwrap_or_default()),
            ]);
        }
        Screen::stdout().table(&table)
    }
}
