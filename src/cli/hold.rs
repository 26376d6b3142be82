//! `ingestd hold` and `ingestd release`: queues and collections, until somebody lets them go on.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;

use super::client::{Limit, Server};
use super::screen::{Cell, Column, Screen, Table};
use super::{batch, job, progress, words};
use crate::api::wire::{BatchPage, HoldChanged, Holds, JobPage, SetHold, StillHeld};

#[derive(Debug, Subcommand)]
pub(super) enum Hold {
    /// List what is held, by whom and why
    List(List),
    /// Start nothing new of a queue; what has begun goes on
    Queue(HoldThis<Queue>),
    /// Let a collection's batches and jobs wait; what has begun goes on
    Collection(HoldThis<Collection>),
}

#[derive(Debug, Subcommand)]
pub(super) enum Release {
    /// Let a queue go on
    Queue(ReleaseQueue),
    /// Let a collection go on
    Collection(ReleaseCollection),
}

#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(super) struct Queue {
    /// `ingest`, `accessSmall` or `accessLarge`
    queue: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct Collection {
    /// The collection's mnemonic
    collection: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct HoldThis<T: clap::Args> {
    #[command(flatten)]
    what: T,

    /// Why, for whoever finds it held
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseQueue {
    #[command(flatten)]
    what: Queue,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseCollection {
    #[command(flatten)]
    what: Collection,

    /// Also release what the hold had stopped
    #[arg(long)]
    all: bool,

    /// Only tell which jobs and batches that would be
    #[arg(long, requires = "all")]
    dry_run: bool,

    #[command(flatten)]
    server: Server,
}

impl Hold {
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Hold::List(list) => list.run().await,
            Hold::Queue(hold) => put(&hold.server, "queues", &hold.what.queue, hold.reason).await,
            Hold::Collection(hold) => {
                put(&hold.server, "collections", &hold.what.collection, hold.reason).await
            }
        }
    }
}

impl Release {
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Release::Queue(release) => lift(&release.server, "queues", &release.what.queue, false).await,
            Release::Collection(release) if release.dry_run => release.tell_which().await,
            Release::Collection(release) => {
                lift(&release.server, "collections", &release.what.collection, release.all).await
            }
        }
    }
}

impl List {
    async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let holds: Holds = client.send(client.get(&["holds"])).await?;
        if self.server.json() {
            return self.server.output().print(&holds);
        }
        let mut table = Table::new([
            Column::word("KIND"),
            Column::word("NAME"),
            Column::text("WHO"),
            Column::word("SINCE").minor(),
            Column::text("WHY"),
        ]);
        for (kind, holds) in [("queue", &holds.queues), ("collection", &holds.collections)] {
            for hold in holds {
                table.row([
                    Cell::new(kind),
                    Cell::new(&hold.name),
                    Cell::new(&hold.who),
                    Cell::new(words::date(hold.when)),
                    Cell::new(&hold.why),
                ]);
            }
        }
        if table.is_empty() {
            return Screen::stdout().say("Nothing is held.");
        }
        Screen::stdout().table(&table)
    }
}

impl ReleaseCollection {
    /// What `--all` would release, and nothing is.
    async fn tell_which(&self) -> Result<()> {
        let (client, collection) = (self.server.client()?, &self.what.collection);
        let held =
            |what: &str| client.get(&[what]).with("state", Some("held")).with("collection", Some(collection));
        let bar = progress::waiting("reading");
        let (jobs, batches) = (held("jobs"), held("batches"));
        let jobs: JobPage = client.all(jobs, Limit::default(), |_| {}).await?;
        let batches: BatchPage = client.all(batches, Limit::default(), |_| {}).await?;
        bar.finish_and_clear();
        if self.server.json() {
            let (jobs, batches) = (&jobs.jobs, &batches.batches);
            let which = serde_json::json!({ "collection": collection, "jobs": jobs, "batches": batches });
            return self.server.output().print(&which);
        }
        let screen = Screen::stdout();
        let count = [
            words::count(jobs.jobs.len(), "job", "jobs"),
            words::count(batches.batches.len(), "batch", "batches"),
        ];
        screen.say(&format!("Would be released with {collection}: {}.", count.join(", ")))?;
        if !batches.batches.is_empty() {
            screen.table(&batch::table(&batches.batches))?;
        }
        if !jobs.jobs.is_empty() {
            screen.table(&job::table(&jobs.jobs))?;
        }
        job::unreadable(&batches.unreadable);
        job::unreadable(&jobs.unreadable);
        Ok(())
    }
}

async fn put(server: &Server, kind: &str, name: &str, reason: String) -> Result<()> {
    let client = server.client()?;
    let ask = client.ask(Method::PUT, &["holds", kind, name]).json(&SetHold { reason })?;
    tell(server, &client.send(ask).await?)
}

async fn lift(server: &Server, kind: &str, name: &str, all: bool) -> Result<()> {
    let client = server.client()?;
    let ask = client.ask(Method::DELETE, &["holds", kind, name]).with("all", all.then_some(true)).patient();
    tell(server, &client.send(ask).await?)
}

fn tell(server: &Server, changed: &HoldChanged) -> Result<()> {
    if server.json() {
        return server.output().print(changed);
    }
    let HoldChanged { kind, name, held, changed, released, warning, still_held } = changed;
    let word = match (held, changed) {
        (true, true) => "is held now",
        (true, false) => "was held already",
        (false, true) => "is not held any more",
        (false, false) => "was not held",
    };
    Screen::stdout().say(&format!("The {kind} {name} {word}."))?;
    if let Some(warning) = warning {
        Screen::note(&format!("warning: {warning}"));
    }
    if let Some(released) = released {
        let jobs = words::count(released.jobs, "job", "jobs");
        let batches = words::count(released.batches, "batch", "batches");
        Screen::stdout().say(&format!("Released: {jobs}, {batches}."))?;
    }
    if let Some(StillHeld { jobs, batches, command: Some(command) }) = still_held {
        let jobs = words::count(*jobs, "job", "jobs");
        let batches = words::count(*batches, "batch", "batches");
        Screen::stdout().say(&format!("Still held: {jobs}, {batches}. They are released by: {command}"))?;
    }
    if let Some(released) = released {
        for refused in &released.refused {
            Screen::note(&format!("refused: {refused}"));
        }
        if !released.refused.is_empty() {
            let why = format!("{} were refused", released.refused.len());
            return Err(super::exit::Failed::NotAll(why).into());
        }
    }
    Ok(())
}
