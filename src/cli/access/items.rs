//! `ingestd access list`, `requeue` and `delete`.

use anyhow::Result;
use ingest_queue::ids::Aid;
use ingest_queue::states::States as _;
use reqwest::Method;

use crate::api::wire::{AccessActed, AccessPage};
use crate::cli::client::{Client, Limit, Server};
use crate::cli::confirm::Confirm;
use crate::cli::exit::Failed;
use crate::cli::many::each;
use crate::cli::screen::{Cell, Column, Screen, Table};
use crate::cli::{progress, words};

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Of the queue `small` or `large`
    #[arg(long)]
    size: Option<String>,

    /// In any of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<String>,

    #[command(flatten)]
    limit: Limit,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The items
    #[arg(required = true)]
    item: Vec<Aid>,

    /// Of the queue `small` or `large`; otherwise it is looked for
    #[arg(long)]
    size: Option<String>,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Requeue {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    which: Which,
}

impl List {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let states = (!self.state.is_empty()).then(|| self.state.join(","));
        let ask = client.get(&["access"]).with("size", self.size).with("state", states);
        let bar = progress::waiting("reading");
        let page: AccessPage =
            client.all(ask, self.limit, |count| bar.set_message(format!("{count} items"))).await?;
        bar.finish_and_clear();
        if self.server.json() {
            return self.server.output().print(&page);
        }
        crate::cli::job::unreadable(&page.unreadable);
        if page.items.is_empty() {
            return Screen::stdout().say("Nobody has asked for anything like that.");
        }
        let mut table = Table::new([
            Column::word("ITEM"),
            Column::word("SIZE"),
            Column::word("STATE"),
            Column::text("OBJECT"),
            Column::number("VERSION").minor(),
            Column::number("BYTES").minor(),
            Column::word("CHANGED").minor(),
            Column::text("MESSAGE"),
        ]);
        for item in &page.items {
            table.row([
                Cell::new(item.aid.to_string()),
                Cell::new(item.size.name()),
                Cell::state(item.state.name()),
                Cell::new(item.ark.as_deref().unwrap_or_default()),
                Cell::new(item.version.map(|version| version.to_string()).unwrap_or_default()),
                Cell::new(words::bytes(item.bytes)),
                Cell::new(words::date(item.last_modified)),
                Cell::new(&item.message),
            ]);
        }
        Screen::stdout().table(&table)
    }
}

impl Requeue {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.which.server.client()?;
        let act = async |aid: &str| {
            let size = self.which.size(&client, aid).await?;
            client.send::<AccessActed>(client.post(&["access", "items", &size, aid, "requeue"])).await
        };
        each(&self.which.names(), self.which.server.output(), act, |acted| {
            format!("{} is {}", acted.aid, acted.state.map_or("gone", |state| state.name()))
        })
        .await
    }
}

impl Delete {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.which.server.client()?;
        let act = async |aid: &str| {
            let warning = format!("Whoever asked for {aid} will not be told: the token leads nowhere then.");
            self.confirm.can_be_asked("deleting an item")?;
            let size = self.which.size(&client, aid).await?;
            self.confirm.ask(&format!("Delete {aid}"), &warning)?;
            let path = ["access", "items", &size, aid];
            client.send::<AccessActed>(client.ask(Method::DELETE, &path).with("confirm", Some(true))).await
        };
        each(&self.which.names(), self.which.server.output(), act, |acted| {
            format!("{} is deleted", acted.aid)
        })
        .await
    }
}

impl Which {
    fn names(&self) -> Vec<String> {
        self.item.iter().map(ToString::to_string).collect()
    }

    /// The queue that has it.
    async fn size(&self, client: &Client, aid: &str) -> Result<String> {
        if let Some(size) = &self.size {
            return Ok(size.clone());
        }
        let found: AccessPage = client.send(client.get(&["access"]).with("aid", Some(aid))).await?;
        match found.items.as_slice() {
            [item] => Ok(item.size.name().to_owned()),
            [] => Err(Failed::NotThere(format!("there is no item {aid}")).into()),
            _ => Err(Failed::Usage(format!("both queues have an item {aid}: say --size")).into()),
        }
    }
}
