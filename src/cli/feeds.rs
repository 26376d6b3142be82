//! `ingestd feeds`: where submissions come from by themselves, how far they were consumed, and by whom.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;

use super::client::{Limit, Server};
use super::confirm::Confirm;
use super::screen::{Cell, Column, Records, Screen, Table};
use super::words;
use crate::api::wire::{FeedChanged, FeedLine, FeedPage, FeedReset, ResetFeed, SetHold};

#[derive(Debug, Subcommand)]
pub(super) enum Feeds {
    /// List all feeds, and the nodes that consume them
    List(List),
    /// Show how a feed fares
    Show(OfFeed),
    /// Let nothing of a feed become a batch until it is resumed
    Pause(Pause),
    /// Let a feed go on where it stopped
    Resume(OfFeed),
    /// Ask a feed now, on whatever node consumes it
    Ask(OfFeed),
    /// Set the checkpoint of a feed: what lies behind it comes again
    Reset(Reset),
    /// Forget a feed that nobody consumes any more, with its checkpoint
    Forget(Forget),
}

#[derive(Debug, clap::Args)]
pub(super) struct List {
    /// With this in the name, the kind, the place, the checkpoint or the trouble
    #[arg(long)]
    text: Option<String>,

    /// That this node consumes, or is to consume
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    #[command(flatten)]
    limit: Limit,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(super) struct OfFeed {
    /// The feed's name in the configuration
    feed: String,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(super) struct Pause {
    /// The feed's name in the configuration
    feed: String,

    /// Why, for whoever finds it paused
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(super) struct Reset {
    /// The feed's name in the configuration
    feed: String,

    /// The checkpoint: a date, or one as `show` tells it; without it the feed begins anew
    #[arg(long, value_name = "CHECKPOINT", default_value = "")]
    to: String,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(super) struct Forget {
    /// The feed's name in the configuration
    feed: String,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    server: Server,
}

impl Feeds {
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Feeds::List(list) => list.run().await,
            Feeds::Show(show) => show.show().await,
            Feeds::Pause(pause) => pause.run().await,
            Feeds::Resume(of) => of.act("resume", ["goes on", "was not paused"]).await,
            Feeds::Ask(of) => of.act("ask", ["is asked now", "is about to be asked already"]).await,
            Feeds::Reset(reset) => reset.run().await,
            Feeds::Forget(forget) => forget.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let is_narrowed = self.text.is_some() || self.node.is_some();
        let ask = client.get(&["feeds"]).with("text", self.text).with("node", self.node);
        let list: FeedPage = client.all(ask, self.limit, |_| {}).await?;
        if self.server.json() {
            return self.server.output().print(&list);
        }
        if list.feeds.is_empty() && is_narrowed {
            return Screen::stdout().say("There are no such feeds.");
        }
        if list.feeds.is_empty() {
            return Screen::stdout().say("There are no feeds: the configuration has no [feeds.NAME].");
        }
        let mut table = Table::new([
            Column::word("FEED"),
            Column::word("KIND"),
            Column::word("STATE"),
            Column::word("NODE"),
            Column::number("ITEMS"),
            Column::number("SKIPPED").minor(),
            Column::word("MOVED").minor(),
            Column::text("LAST"),
            Column::text("TROUBLE"),
        ]);
        for feed in &list.feeds {
            table.row([
                Cell::new(&feed.name),
                Cell::new(&feed.kind),
                Cell::state(state(feed)),
                Cell::new(feed.node.as_deref().unwrap_or_default()),
                Cell::new(feed.items.to_string()),
                Cell::new(feed.skipped.to_string()),
                Cell::new(words::date(feed.moved)),
                Cell::new(&feed.last),
                Cell::new(feed.trouble.as_deref().unwrap_or_default()),
            ]);
        }
        Screen::stdout().table(&table)
    }
}

/// In a word.
fn state(feed: &FeedLine) -> &'static str {
    match (&feed.paused, &feed.trouble, &feed.node) {
        (Some(_), ..) => "paused",
        (_, Some(_), _) => "failing",
        (_, _, Some(_)) => "consumed",
        _ => "waiting",
    }
}

impl OfFeed {
    async fn show(self) -> Result<()> {
        let client = self.server.client()?;
        let feed: FeedLine = client.send(client.get(&["feeds", &self.feed])).await?;
        if self.server.json() {
            return self.server.output().print(&feed);
        }
        let mut records = Records::default();
        records.add("feed", &feed.name);
        records.add("kind", &feed.kind);
        records.add("in the tree", &feed.qid);
        records.state("state", state(&feed));
        if let Some(paused) = &feed.paused {
            let when = words::date(paused.when);
            records.add("paused", format!("by {} {when}: {}", paused.who, paused.why));
        }
        let nobody = || "nobody".to_owned();
        records.add("consumed by", feed.node.clone().unwrap_or_else(nobody));
        records.add("assigned to", feed.assigned.clone().unwrap_or_else(nobody));
        records.add("checkpoint", if feed.last.is_empty() { "the beginning" } else { &feed.last });
        records.add("moved", words::date(feed.moved));
        records.add("items", feed.items.to_string());
        records.add("passed over", feed.skipped.to_string());
        for skipped in &feed.skipped_items {
            let when = words::date(skipped.when);
            records.add("skipped item", format!("{}: {} ({when})", skipped.item, skipped.why));
        }
        if let Some(batch) = feed.batch {
            records.add("last batch", batch.to_string());
        }
        if let Some(trouble) = &feed.trouble {
            records.add("trouble", trouble);
        }
        if let Some(configured) = &feed.configured {
            records.add("place", &configured.place);
            records.add("profile", &configured.profile);
            records.add("submitter", &configured.submitter);
            records.add("policy", &configured.policy);
        }
        if let Some(here) = &feed.here {
            records.add("on this node", &here.doing);
            records.add("last asked", words::date(here.asked_at));
            records.add("asked again", words::date(here.next));
            records.add("lag", words::span(here.lag_ms));
            records.add("errors", here.errors.to_string());
        }
        Screen::stdout().records(&records)
    }

    async fn act(self, action: &str, [now, already]: [&str; 2]) -> Result<()> {
        let client = self.server.client()?;
        let changed: FeedChanged = client.send(client.post(&["feeds", &self.feed, action])).await?;
        tell(&self.server, &changed, now, already)
    }
}

fn tell(server: &Server, changed: &FeedChanged, now: &str, already: &str) -> Result<()> {
    if server.json() {
        return server.output().print(changed);
    }
    let word = if changed.changed { now } else { already };
    Screen::stdout().say(&format!("The feed {} {word}.", changed.name))
}

impl Pause {
    async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let ask = client.post(&["feeds", &self.feed, "pause"]).json(&SetHold { reason: self.reason })?;
        let changed: FeedChanged = client.send(ask).await?;
        tell(&self.server, &changed, "is paused: nothing of it becomes a batch", "was paused already")
    }
}

impl Reset {
    async fn run(self) -> Result<()> {
        let what = format!("Setting the checkpoint of {}", self.feed);
        self.confirm.ask(
            &what,
            "What lies behind the new checkpoint comes again; items whose batches are gone from the tree are \
             submitted again.",
        )?;
        let client = self.server.client()?;
        let reset = ResetFeed { last: self.to, confirm: self.feed.clone() };
        let ask = client.post(&["feeds", &self.feed, "reset"]).json(&reset)?;
        let done: FeedReset = client.send(ask).await?;
        if self.server.json() {
            return self.server.output().print(&done);
        }
        let shown = |last: &str| if last.is_empty() { "the beginning".to_owned() } else { last.to_owned() };
        let (before, last) = (shown(&done.before), shown(&done.last));
        Screen::stdout().say(&format!("The feed {} goes on at {last}; it was at {before}.", done.name))
    }
}

impl Forget {
    async fn run(self) -> Result<()> {
        let warning = "Its checkpoint goes: a feed of this name begins anew.";
        self.confirm.ask(&format!("Forgetting {}", self.feed), warning)?;
        let client = self.server.client()?;
        let changed: FeedChanged = client.send(client.ask(Method::DELETE, &["feeds", &self.feed])).await?;
        tell(&self.server, &changed, "is forgotten", "is forgotten")
    }
}
