//! A choice of jobs.

use ingest_queue::date::Date;
use ingest_queue::ids::Bid;
use ingest_queue::states::{JobState, States as _, UnknownState};

use crate::api::wire::JobFilter;
use crate::cli::client::Ask;
use crate::cli::words;

/// All that is said must hold.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Which jobs")]
pub(crate) struct Filter {
    /// In any of these states
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<JobState>,

    /// Of this batch
    #[arg(long, value_name = "BID")]
    batch: Option<Bid>,

    /// Of this collection
    #[arg(long, value_name = "MNEMONIC")]
    collection: Option<String>,

    /// Of this submitter
    #[arg(long, value_name = "NAME")]
    submitter: Option<String>,

    /// Last changed before this date, or longer ago than this: 2h, 3days
    #[arg(long, value_name = "WHEN", value_parser = words::moment)]
    older_than: Option<Date>,

    /// Last changed after this date, or not as long ago as this
    #[arg(long, value_name = "WHEN", value_parser = words::moment)]
    newer_than: Option<Date>,

    /// With this in the message, an id, the profile or the payload's URL
    #[arg(long)]
    text: Option<String>,

    /// Of this priority or later: 0 to 99, or a class
    #[arg(long, value_name = "PRIORITY", value_parser = words::priority)]
    min_priority: Option<u8>,

    /// Of this priority or sooner: 0 to 99, or a class
    #[arg(long, value_name = "PRIORITY", value_parser = words::priority)]
    max_priority: Option<u8>,
}

pub(super) fn state(name: &str) -> Result<JobState, String> {
    name.parse().map_err(|error: UnknownState| error.to_string())
}

impl Filter {
    pub(super) fn is_empty(&self) -> bool {
        self.wire() == JobFilter::default()
    }

    /// As the parameters of a list.
    pub(super) fn ask(&self, ask: Ask) -> Ask {
        let states: Vec<_> = self.state.iter().map(|state| state.name()).collect();
        ask.with("state", (!states.is_empty()).then(|| states.join(",")))
            .with("batch", self.batch)
            .with("collection", self.collection.as_ref())
            .with("submitter", self.submitter.as_ref())
            .with("older_than", self.older_than)
            .with("newer_than", self.newer_than)
            .with("text", self.text.as_ref())
            .with("min_priority", self.min_priority)
            .with("max_priority", self.max_priority)
    }

    /// As it goes with an action on many jobs.
    pub(super) fn wire(&self) -> JobFilter {
        JobFilter {
            states: self.state.clone(),
            batch: self.batch,
            collection: self.collection.clone(),
            submitter: self.submitter.clone(),
            older_than: self.older_than,
            newer_than: self.newer_than,
            text: self.text.clone(),
            min_priority: self.min_priority,
            max_priority: self.max_priority,
        }
    }
}
