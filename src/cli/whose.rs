//! Whose batches or jobs are meant, and since when they are as they are.

use ingest_queue::date::Date;

use super::client::Ask;
use super::words;

/// All that is said must hold.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Whose {
    /// Of this collection
    #[arg(long, value_name = "MNEMONIC")]
    pub collection: Option<String>,

    /// Of this submitter
    #[arg(long, value_name = "NAME")]
    pub submitter: Option<String>,

    /// Last changed before this date, or longer ago than this: 2h, 3days
    #[arg(long, value_name = "WHEN", value_parser = words::moment)]
    pub older_than: Option<Date>,

    /// Last changed after this date, or not as long ago as this
    #[arg(long, value_name = "WHEN", value_parser = words::moment)]
    pub newer_than: Option<Date>,
}

impl Whose {
    /// As the parameters of a list.
    pub(super) fn ask(&self, ask: Ask) -> Ask {
        ask.with("collection", self.collection.as_ref())
            .with("submitter", self.submitter.as_ref())
            .with("older_than", self.older_than)
            .with("newer_than", self.newer_than)
    }
}
