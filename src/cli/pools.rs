//! `ingestd pools`: how many work on each state, and how many shall.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;

use super::client::Server;
use super::exit::Failed;
use super::screen::{Cell, Column, Screen, Table};
use crate::api::wire::{ChangePool, PoolLine, PoolList};

/// The command's options.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Pools {
    #[command(subcommand)]
    change: Option<Change>,

    #[command(flatten)]
    show: Show,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Only this pool
    pool: Option<String>,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// Change a pool at once, until the configuration is read again or the node restarts; no work is killed
    Resize(Resize),
}

#[derive(Debug, clap::Args)]
struct Resize {
    /// The pool: a state, `access_small` or `access_large`
    pool: String,

    /// How many work at a time
    size: Option<usize>,

    /// A step that makes no progress for so long is stopped: 10m
    #[arg(long, value_name = "TIME")]
    stall: Option<String>,

    #[command(flatten)]
    server: Server,
}

impl Pools {
    pub(super) async fn run(self) -> Result<()> {
        match self.change {
            Some(Change::Resize(resize)) => resize.run().await,
            None => self.show.run().await,
        }
    }
}

impl Show {
    async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let list: PoolList = match &self.pool {
            Some(pool) => PoolList { pools: vec![client.send(client.get(&["pools", pool])).await?] },
            None => client.send(client.get(&["pools"])).await?,
        };
        if self.server.json() {
            return self.server.output().print(&list);
        }
        Screen::stdout().table(&table(&list.pools))
    }
}

impl Resize {
    async fn run(self) -> Result<()> {
        if self.size.is_none() && self.stall.is_none() {
            return Err(Failed::Usage("say how many, or --stall".to_owned()).into());
        }
        let client = self.server.client()?;
        let change = ChangePool { size: self.size, stall: self.stall };
        let pool: PoolLine =
            client.send(client.ask(Method::PATCH, &["pools", &self.pool]).json(&change)?).await?;
        if self.server.json() {
            return self.server.output().print(&pool);
        }
        if let Some(warning) = &pool.warning {
            Screen::note(&format!("warning: {}: {warning}", pool.name));
        }
        Screen::stdout().table(&table(&[pool]))
    }
}

fn table(pools: &[PoolLine]) -> Table {
    let mut table = Table::new([
        Column::word("POOL"),
        Column::number("SIZE"),
        Column::number("LIVE"),
        Column::number("READY"),
        Column::number("AT WORK"),
        Column::number("ELSEWHERE").minor(),
        Column::number("LATER").minor(),
        Column::word("STALL").minor(),
    ]);
    for pool in pools {
        let waiting = |count: fn(&crate::api::wire::Waiting) -> usize| {
            Cell::new(pool.waiting.as_ref().map(|waiting| count(waiting).to_string()).unwrap_or_default())
        };
        table.row([
            Cell::new(&pool.name),
            Cell::new(pool.size.to_string()),
            Cell::new(pool.live.map(|live| live.to_string()).unwrap_or_default()),
            waiting(|waiting| waiting.ready),
            waiting(|waiting| waiting.taken),
            waiting(|waiting| waiting.locked + waiting.busy),
            waiting(|waiting| waiting.parked + waiting.delayed + waiting.not_due),
            Cell::new(&pool.stall),
        ]);
    }
    table
}
