//! `ingestd access`: objects that somebody wants to have.

mod fetch;
mod items;

use anyhow::Result;
use clap::Subcommand;

pub(super) use fetch::{To, save};

#[derive(Debug, Subcommand)]
pub(super) enum Access {
    /// Ask for an object
    Submit(fetch::Submit),
    /// Fetch what was asked for
    Get(fetch::Get),
    /// List what was asked for
    List(items::List),
    /// Try a failed item again
    Requeue(items::Requeue),
    /// Delete a failed item: whoever asked will not be told
    Delete(items::Delete),
}

impl Access {
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Access::Submit(submit) => submit.run().await,
            Access::Get(get) => get.run().await,
            Access::List(list) => list.run().await,
            Access::Requeue(requeue) => requeue.run().await,
            Access::Delete(delete) => delete.run().await,
        }
    }
}
