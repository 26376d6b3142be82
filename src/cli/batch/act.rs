//! `ingestd batch hold`, `release` and `update-report`.

use anyhow::Result;
use ingest_queue::states::States as _;

use crate::api::wire::{BatchActed, Doing};
use crate::cli::client::Server;
use crate::cli::many::each;

macro_rules! action {
    ($name:ident, $path:literal, $done:literal) => {
        #[derive(Debug, clap::Args)]
        pub(crate) struct $name {
            #[command(flatten)]
            what: What,
        }

        impl $name {
            pub(super) async fn run(self) -> Result<()> {
                self.what.run($path, $done).await
            }
        }
    };
}

action!(Hold, "hold", "held");
action!(Release, "release", "released");
action!(UpdateReport, "update-report", "reports what is new");

#[derive(Debug, clap::Args)]
struct What {
    /// The batches, or their uuids
    #[arg(required = true)]
    batch: Vec<String>,

    /// Why, for the status
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,

    /// Take the lock away from whoever works on it
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    server: Server,
}

impl What {
    async fn run(self, path: &str, done: &str) -> Result<()> {
        let client = self.server.client()?;
        let doing = Doing { reason: self.reason, force: self.force };
        let act = async |batch: &str| {
            client.send::<BatchActed>(client.post(&["batches", batch, path]).json(&doing)?).await
        };
        let told = |acted: &BatchActed| {
            format!("{} {done}: it was {}, and is {}", acted.bid, acted.from.name(), acted.state.name())
        };
        each(&self.batch, self.server.output(), act, told).await
    }
}
