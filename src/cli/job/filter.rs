//! A choice of jobs.

use ingest_queue::ids::Bid;
use ingest_queue::reasons::GroupKey;
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
    #[arg(long, value_name = "PRIORITY", value_parser = words::any_priority)]
    min_priority: Option<serde_json::Value>,

    /// Of this priority or sooner: 0 to 99, or a class
    #[arg(long, value_name = "PRIORITY", value_parser = words::any_priority)]
    max_priority: Option<serde_json::Value>,

    /// Only those that wait for their process date
    #[arg(long)]
    scheduled: bool,

    /// With a reason of this group, as `job reasons` shows it
    #[arg(long, value_name = "KEY")]
    group: Option<GroupKey>,
}

pub(super) fn state(name: &str) -> Result<JobState, String> {
    name.parse().map_err(|error: UnknownState| error.to_string())
}

/// As it stands in a query: a name without quotes.
fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
            .with("min_priority", self.min_priority.as_ref().map(plain))
            .with("max_priority", self.max_priority.as_ref().map(plain))
            .with("scheduled", self.scheduled.then_some(true))
            .with("group", self.group)
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
            min_priority: self.min_priority.clone(),
            max_priority: self.max_priority.clone(),
            scheduled: self.scheduled.then_some(true),
            group: self.group,
        }
    }
}
