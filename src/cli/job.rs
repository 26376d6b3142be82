//! `ingestd job`: objects on their way.

mod act;
mod bulk;
mod filter;
mod history;
mod list;
mod reasons;
mod show;

use anyhow::Result;
use clap::Subcommand;

pub(super) use list::table;

use super::screen::Screen;
use crate::api::wire::Unreadable;

#[derive(Debug, Subcommand)]
pub(super) enum Job {
    /// List jobs
    List(list::List),
    /// Show all that is known of a job
    Show(show::Show),
    /// Show what became of a job, the oldest first
    History(history::History),
    /// Group failed jobs by what went wrong, the most frequent first
    Reasons(reasons::Reasons),
    /// Try failed jobs again
    Requeue(act::Requeue),
    /// Keep jobs that wait from going on
    Hold(act::Hold),
    /// Let held jobs go on
    Release(act::Release),
    /// Delete failed or held jobs: their depositors will not be told
    Delete(act::Delete),
    /// Let jobs run sooner or later
    Priority(act::Priority),
}

impl Job {
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Job::List(list) => list.run().await,
            Job::Show(show) => show.run().await,
            Job::History(history) => history.run().await,
            Job::Reasons(reasons) => reasons.run().await,
            Job::Requeue(requeue) => requeue.run().await,
            Job::Hold(hold) => hold.run().await,
            Job::Release(release) => release.run().await,
            Job::Delete(delete) => delete.run().await,
            Job::Priority(priority) => priority.run().await,
        }
    }
}

/// Tells what was left out of a list, beside it.
pub(super) fn unreadable(nodes: &[Unreadable]) {
    for node in nodes {
        Screen::note(&format!("left out: {}: {}; see `ingestd fsck`", node.path, node.why));
    }
}
