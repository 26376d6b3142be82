//! `ingestd nodes`, `pause`, `resume` and `drain`.

use anyhow::Result;

use super::client::{Client, Server};
use super::confirm::Confirm;
use super::exit::Failed;
use super::screen::{Cell, Column, Paint, Records, Screen, Table};
use super::words;
use crate::api::wire::{ModeChanged, NodeLine, NodeList, NodeNow};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Nodes {
    /// Show the node that answers, and what it works on
    #[arg(long)]
    this: bool,

    #[command(flatten)]
    server: Server,
}

/// What `pause` and `resume` take.
#[derive(Debug, clap::Args)]
pub(super) struct Mode {
    /// The node's name; otherwise the one that answers
    node: Option<String>,

    #[command(flatten)]
    server: Server,
}

/// What `drain` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Drain {
    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    mode: Mode,
}

impl Nodes {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        if self.this {
            let node: NodeNow = client.send(client.get(&["node"])).await?;
            return if self.server.json() { self.server.output().print(&node) } else { this(&node) };
        }
        let list: NodeList = client.send(client.get(&["nodes"])).await?;
        if self.server.json() {
            return self.server.output().print(&list);
        }
        let mut table = Table::new([
            Column::word("NODE"),
            Column::word("STATE"),
            Column::word("VERSION").minor(),
            Column::number("WORKERS"),
            Column::number("RESTARTS"),
            Column::text("LEADS"),
            Column::word("SINCE").minor(),
            Column::text("URL"),
            Column::word("PROFILES").minor(),
            Column::word("SETTINGS").minor(),
            Column::text("LAST RESTART").minor(),
            Column::word("INCARNATION").minor(),
        ]);
        for node in &list.nodes {
            let name = if node.this { format!("{} *", node.node) } else { node.node.clone() };
            table.row([
                Cell::new(name),
                Cell::state(&node.state),
                Cell::new(&node.version),
                Cell::new(node.pools.values().sum::<usize>().to_string()),
                Cell::new(node.restarts.to_string()),
                Cell::new(node.leads.join(", ")),
                Cell::new(words::to_the_second(&node.since)),
                Cell::new(node.url.as_deref().unwrap_or_default()),
                runs(&node.profiles, &list.profiles),
                runs(&node.settings, &list.settings),
                Cell::new(node.last_restart.as_deref().map(words::to_the_second).unwrap_or_default()),
                Cell::new(&node.incarnation),
            ]);
        }
        let screen = Screen::stdout();
        screen.table(&table)?;
        for node in list.nodes.iter().filter(|node| node.lags) {
            screen.say(&format!(
                "{} is behind: it runs the profiles {} and the settings {}, and the tree has {} and {}.",
                node.node, node.profiles, node.settings, list.profiles, list.settings
            ))?;
        }
        Ok(())
    }
}

/// What a node runs, seen at once if it is not what the tree has.
fn runs(here: &str, tree: &str) -> Cell {
    if here == tree { Cell::new(here) } else { Cell::new(here).painted(Paint::of_state("failed")) }
}

fn this(node: &NodeNow) -> Result<()> {
    let screen = Screen::stdout();
    let mut records = Records::default();
    records.add("node", &node.node);
    records.add("component", &node.component);
    records.add("version", &node.version);
    records.state("mode", &node.mode);
    records.state("session", &node.session);
    records.add("takes work", if node.ready { "yes" } else { "no" });
    let counts = [
        ("moved", node.moved),
        ("handed over", node.handed_over),
        ("restarts", node.restarts),
        ("stalls", node.stalls),
        ("sessions", node.sessions),
        ("healed by sweeps", node.sweep_healed),
    ];
    for (label, count) in counts {
        records.add(label, count.to_string());
    }
    screen.records(&records)?;
    if node.working.is_empty() {
        return screen.say("It works on nothing now.");
    }
    let mut table = Table::new([
        Column::word("WORKER"),
        Column::word("JOB"),
        Column::word("BATCH"),
        Column::number("FOR"),
        Column::number("FILES"),
        Column::number("BYTES"),
    ]);
    for work in &node.working {
        let of =
            |done: String, all: u64, shown: String| if all > 0 { format!("{done}/{shown}") } else { done };
        table.row([
            Cell::new(&work.worker),
            Cell::new(work.job.as_deref().unwrap_or_default()),
            Cell::new(work.batch.as_deref().unwrap_or_default()),
            Cell::new(words::span(work.running_ms)),
            Cell::new(of(work.done_files.to_string(), work.all_files, work.all_files.to_string())),
            Cell::new(of(words::bytes(work.done_bytes), work.all_bytes, words::bytes(work.all_bytes))),
        ]);
    }
    screen.table(&table)
}

impl Drain {
    pub(super) async fn run(self) -> Result<()> {
        self.confirm.can_be_asked("draining a node")?;
        let client = self.mode.client().await?;
        let name = self.mode.node.clone().unwrap_or_else(|| format!("the node at {}", client.server()));
        self.confirm.ask(
            &format!("Drain {name}"),
            "It takes nothing new, gives back what does not come to its end within shutdown.grace, and its process \
             ends: it has to be started again where it runs.",
        )?;
        self.mode.change(&client, "drain").await
    }
}

impl Mode {
    pub(super) async fn run(self, mode: &str) -> Result<()> {
        let client = self.client().await?;
        self.change(&client, mode).await
    }

    async fn change(&self, client: &Client, mode: &str) -> Result<()> {
        let changed: ModeChanged = client.send(client.post(&["node", mode])).await?;
        if self.server.json() {
            return self.server.output().print(&changed);
        }
        let already = if changed.changed { "" } else { ", as before" };
        let more = if changed.mode == "draining" { ": it ends when what runs is done" } else { "" };
        Screen::stdout().say(&format!("The node at {} is {}{already}{more}.", client.server(), changed.mode))
    }

    /// The node that is meant.
    async fn client(&self) -> Result<Client> {
        let client = self.server.client()?;
        let Some(name) = &self.node else { return Ok(client) };
        let list: NodeList = client.send(client.get(&["nodes"])).await?;
        let is_meant = |node: &&NodeLine| node.node == *name || node.component == *name;
        let Some(node) = list.nodes.iter().find(is_meant) else {
            let names: Vec<_> = list.nodes.iter().map(|node| node.node.as_str()).collect();
            let why = format!("there is no node {name}: there are {}", names.join(", "));
            return Err(Failed::NotThere(why).into());
        };
        match &node.url {
            _ if node.this => Ok(client),
            Some(url) => Ok(client.at(url.parse()?)),
            None => {
                Err(Failed::NotThere(format!("{name} does not say where it answers: use --server")).into())
            }
        }
    }
}
