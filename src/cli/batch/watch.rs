//! `ingestd batch watch`.

use anyhow::Result;

use crate::cli::client::Server;
use crate::cli::follow::follow;

#[derive(Debug, clap::Args)]
pub(crate) struct Watch {
    /// The batches, or their uuids
    #[arg(required = true)]
    batch: Vec<String>,

    #[command(flatten)]
    server: Server,
}

impl Watch {
    pub(super) async fn run(self) -> Result<()> {
        follow(&self.server.client()?, &self.batch, self.server.output()).await
    }
}
