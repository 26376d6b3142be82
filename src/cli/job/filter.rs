//! A choice of jobs.

use ingest_queue::ids::Bid;
use ingest_queue::states::{JobState, States as _, UnknownState};

use crate::api::wire::JobFilter;
use crate::cli::client::Ask;
use crate::cli::whose::Whose;
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

    #[command(flatten)]
    whose: Whose,

    /// With this in the message, an id, the profile or the payload's URL
    #[arg(long)]
    text: Option<String>,

    /// Of this priority or later: 0 to 99, or a class
    #[arg(long, value_name = "PRIORITY", value_parser = words::priority)]
    min_priority: Option<u8>,

    /// Of this priority or sooner: 0 to 99, or a class
    #[arg(long, value_name = "PRIORITY", value_parser = words::priority)]
    max_priority: Option<u8>,

    /// Only those that wait for their process date
    #[arg(long)]
    scheduled: bool,
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
        let ask = ask.with("state", (!states.is_empty()).then(|| states.join(","))).with("batch", self.batch);
        self.whose
            .ask(ask)
            .with("text", self.text.as_ref())
            .with("min_priority", self.min_priority)
            .with("max_priority", self.max_priority)
            .with("scheduled", self.scheduled.then_some(true))
    }

    /// As it goes with an action on many jobs.
    pub(super) fn wire(&self) -> JobFilter {
        JobFilter {
            states: self.state.clone(),
            batch: self.batch,
            collection: self.whose.collection.clone(),
            submitter: self.whose.submitter.clone(),
            older_than: self.whose.older_than,
            newer_than: self.whose.newer_than,
            text: self.text.clone(),
            min_priority: self.min_priority,
            max_priority: self.max_priority,
            scheduled: self.scheduled.then_some(true),
        }
    }
}
