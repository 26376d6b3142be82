//! `ingestd limits` and `ingestd upkeep`: what holds for all nodes, and what one of them does for all.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;

use super::client::{Limit, Server};
use super::screen::{Cell, Column, Screen, Table};
use super::words;
use crate::api::wire::{LimitChanged, LimitPage, SetLimit, UpkeepList, UpkeepRun};

/// The command's options.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct LimitsCommand {
    #[command(subcommand)]
    what: Option<Change>,

    #[command(flatten)]
    list: List,

    #[command(flatten)]
    server: Server,
}

/// Which of them are shown.
#[derive(Debug, clap::Args)]
struct List {
    /// Of this kind: `collection`, `host`, `profile` or `name`
    #[arg(long)]
    kind: Option<String>,

    /// With this in the name
    #[arg(long)]
    text: Option<String>,

    #[command(flatten)]
    limit: Limit,
}

#[derive(Debug, Subcommand)]
enum Change {
    /// Set a limit for all nodes; it goes before what their files say
    Set(Set),
    /// Clear what was set: what the file says holds again
    Clear(Clear),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// `collection`, `host`, `profile` or `name`
    kind: String,

    /// Its name, or `default` for all that are not named
    name: String,
}

#[derive(Debug, clap::Args)]
struct Set {
    #[command(flatten)]
    which: Which,

    /// How many at a time, or `none`
    #[arg(value_parser = number)]
    limit: Number,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct Clear {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    server: Server,
}

/// A limit, or that there is none.
#[derive(Debug, Clone, Copy)]
struct Number(Option<u32>);

fn number(text: &str) -> Result<Number, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Number(None));
    }
    text.parse().map(|limit| Number(Some(limit))).map_err(|_| "it is a number, or `none`".to_owned())
}

impl LimitsCommand {
    pub(super) async fn run(self) -> Result<()> {
        match self.what {
            None => show(&self.server, self.list).await,
            Some(Change::Set(Set { which, limit: Number(limit), server })) => {
                let client = server.client()?;
                let ask = client.ask(Method::PUT, &["limits", &which.kind, &which.name]);
                tell(&server, &client.send(ask.json(&SetLimit { limit })?).await?)
            }
            Some(Change::Clear(Clear { which, server })) => {
                let client = server.client()?;
                let ask = client.ask(Method::DELETE, &["limits", &which.kind, &which.name]);
                tell(&server, &client.send(ask).await?)
            }
        }
    }
}

async fn show(server: &Server, list: List) -> Result<()> {
    let client = server.client()?;
    let ask = client.get(&["limits"]).with("kind", list.kind).with("text", list.text);
    let all: LimitPage = client.all(ask, list.limit, |_| {}).await?;
    if server.json() {
        return server.output().print(&all);
    }
    let screen = Screen::stdout();
    let mut table = Table::new([
        Column::word("KIND"),
        Column::word("NAME"),
        Column::number("LIMIT"),
        Column::number("HELD"),
        Column::number("WAITING"),
        Column::word("FROM").minor(),
        Column::text("JOBS"),
    ]);
    for (kind, limit) in &all.defaults {
        let cells = [kind.as_str(), "default", &limit.to_string(), "", "", "", ""];
        table.row(cells.map(Cell::new));
    }
    for limit in &all.limits {
        let jobs: Vec<_> = limit.holders.iter().filter_map(|holder| holder.job.as_deref()).collect();
        table.row([
            Cell::new(&limit.kind),
            Cell::new(&limit.name),
            Cell::new(limit.limit.map_or("none".to_owned(), |limit| limit.to_string())),
            Cell::new(limit.held.to_string()),
            Cell::new(limit.waiting.to_string()),
            Cell::new(limit.from.as_deref().unwrap_or_default()),
            Cell::new(jobs.join(" ")),
        ]);
    }
    if table.is_empty() {
        return screen.say("Nothing is limited.");
    }
    screen.table(&table)
}

fn tell(server: &Server, changed: &LimitChanged) -> Result<()> {
    if server.json() {
        return server.output().print(changed);
    }
    let LimitChanged { kind, name, limit, changed } = changed;
    let now = limit.map_or("has no limit".to_owned(), |limit| format!("has a limit of {limit}"));
    let already = if *changed { "" } else { ", as before" };
    Screen::stdout().say(&format!("The {kind} {name} {now}{already}."))
}

/// The command's options.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Upkeep {
    #[command(subcommand)]
    what: Option<Run>,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Subcommand)]
enum Run {
    /// Run a routine now
    Run(RunThis),
}

#[derive(Debug, clap::Args)]
struct RunThis {
    /// Which: `ingestd upkeep` lists them
    name: String,

    #[command(flatten)]
    server: Server,
}

impl Upkeep {
    pub(super) async fn run(self) -> Result<()> {
        if let Some(Run::Run(RunThis { name, server })) = self.what {
            let client = server.client()?;
            let ran: UpkeepRun = client.send(client.post(&["upkeep", &name, "run"]).patient()).await?;
            if server.json() {
                return server.output().print(&ran);
            }
            if let Some(error) = ran.error {
                return Err(super::exit::Failed::NotAll(format!("{name}: {error}")).into());
            }
            let took = words::span(ran.took_ms);
            return Screen::stdout()
                .say(&format!("{name}: {} removed, on {}, in {took}.", ran.removed, ran.node));
        }
        let client = self.server.client()?;
        let all: UpkeepList = client.send(client.get(&["upkeep"])).await?;
        if self.server.json() {
            return self.server.output().print(&all);
        }
        let mut table = Table::new([
            Column::word("NAME"),
            Column::number("EVERY"),
            Column::word("LAST RUN"),
            Column::word("NODE"),
            Column::number("REMOVED"),
            Column::number("TOOK").minor(),
            Column::text("WHAT").minor(),
        ]);
        for routine in &all.routines {
            let last = routine.last.as_ref();
            let node = routine.running.as_ref().map(|node| format!("{node}, now"));
            table.row([
                Cell::new(&routine.name),
                Cell::new(words::span(routine.every_ms)),
                Cell::new(words::date(last.map(|last| last.at))),
                Cell::new(node.or_else(|| last.map(|last| last.node.clone())).unwrap_or_default()),
                Cell::new(last.map(|last| last.removed.to_string()).unwrap_or_default()),
                Cell::new(last.map(|last| words::span(last.took_ms)).unwrap_or_default()),
                Cell::new(last.and_then(|last| last.error.as_deref()).unwrap_or(&routine.about)),
            ]);
        }
        Screen::stdout().table(&table)
    }
}
