//! `ingestd export`: a batch's whole record as a bag.

use anyhow::Result;

use super::access::{To, save};
use super::client::Server;
use super::progress;

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Export {
    /// The batch, or its uuid
    batch: String,

    #[command(flatten)]
    to: To,

    #[command(flatten)]
    server: Server,
}

impl Export {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let bar = progress::waiting("gathering the record");
        let answer = client.answer(client.get(&["batches", &self.batch, "export"]).patient()).await;
        bar.finish_and_clear();
        let name = format!("{}.zip", self.batch.replace(['/', '\\'], "_"));
        save(&client, answer?, &name, &self.to, &self.server).await
    }
}
