//! One action on many jobs: all that a filter selects, and not a page of them.
//!
//! **Exactly once per job and run.** A run has an id, and each job's commit the id `bulk-RUN-JID`, which
//! its history keeps. A job that has it is not touched again: not when the run was killed and is
//! started again with the same id, nor when the job has failed again meanwhile. That holds for the
//! [`History::KEPT`](crate::nodes::History::KEPT) transitions that a history remembers, and as long as
//! whoever applies the action writes the id there, in the commit itself.
//!
//! **Nothing by accident.** A filter that selects every job is refused unless `all` is said. The states
//! that the action is for follow from the state tables, so the [`count`] of a dry run is what the
//! [`run`] will try.
//!
//! **What was counted is what is done.** A run lists the jobs once, and acts on that list: a job that matches later is not
//! touched, and one that does not match any more when its turn comes is left alone. With [`Bulk::expecting`] the
//! list must have as many jobs as somebody has seen in a dry run; otherwise the run ends before it touches any.
//!
//! **Beside others.** At most a quarter of the session's requests are under way for a run.
//!
//! **When things break.** A job that is refused (busy, forbidden, gone) is counted, and the first few are
//! reported with their reason. One that changes meanwhile is looked at again. An error of the store
//! ends the run when what is under way has ended: [`Stopped`] says how far it came; the same run with the same
//! id goes on.

mod action;
mod apply;
mod run;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

pub use action::BulkAction;
pub use run::{count, run};

use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::ids::Jid;
use crate::list::{Filter, JobLine, Unread};
use crate::states::{JobState, States};

/// How many refused jobs, and how many unreadable nodes, are reported with their reason.
pub const REPORTED: usize = 20;

/// How many jobs a dry run shows.
pub const EXAMPLES: usize = 5;

/// The longest id of a run: it is in every commit id.
const MAX_ID: usize = 64;

/// An action on all jobs that a filter selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bulk {
    id: String,
    action: BulkAction,
    filter: Filter,
    expected: Option<usize>,
    repeated: bool,
}

impl Bulk {
    /// Checks the request. `all` allows a filter that selects every job.
    pub fn new(
        id: impl Into<String>,
        action: BulkAction,
        filter: Filter,
        all: bool,
        dialect: Dialect,
    ) -> Result<Self> {
        let id = id.into();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if id.is_empty() || id.len() > MAX_ID || !id.chars().all(fits) {
            return Err(Error::Invalid(format!(
                "the id of a bulk run is 1 to {MAX_ID} letters, digits, `-`, `_` or `.`"
            )));
        }
        if filter.is_empty() && !all {
            return Err(Error::Invalid(format!(
                "{action} which jobs? The filter is empty: narrow it down, or say that all are meant"
            )));
        }
        action.check(dialect)?;
        Ok(Self { id, action, filter: narrowed(action, filter, dialect)?, expected: None, repeated: false })
    }

    /// Only if so many jobs match; otherwise [`Error::NotExpected`], and no job is touched.
    ///
    /// `repeated`: a run with this id may have begun before, so what it has done is counted with those that match. That
    /// reads the history of every job of the batch, or of the tree, if the count differs.
    #[must_use]
    pub fn expecting(self, expected: Option<usize>, repeated: bool) -> Self {
        Self { expected, repeated, ..self }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn action(&self) -> BulkAction {
        self.action
    }

    /// The filter, with the states that the action is for.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// What tells this run's commit on a job from every other.
    pub fn commit_id(&self, jid: Jid) -> String {
        format!("bulk-{}-{jid}", self.id)
    }
}

/// What it does, in words.
impl fmt::Display for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, self.filter)
    }
}

fn narrowed(action: BulkAction, filter: Filter, dialect: Dialect) -> Result<Filter> {
    let possible = action.states(dialect);
    let states: Vec<_> = possible
        .iter()
        .copied()
        .filter(|state| filter.states.is_empty() || filter.states.contains(state))
        .collect();
    if states.is_empty() {
        return Err(Error::Invalid(format!(
            "{action} no jobs: it is for those that are {}, and the filter asks for {}",
            names(&possible),
            names(&filter.states)
        )));
    }
    Ok(Filter { states, ..filter })
}

fn names(states: &[JobState]) -> String {
    states.iter().map(|state| state.name()).collect::<Vec<_>>().join(" or ")
}

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DryRun {
    /// In words.
    pub what: String,
    pub total: usize,
    pub states: BTreeMap<JobState, usize>,
    /// The first few.
    pub examples: Vec<JobLine>,
    /// How many candidates could not be judged, and the first of them.
    pub unreadable: usize,
    pub first_unreadable: Vec<Unread>,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    #[default]
    Counting,
    Running,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Progress {
    pub phase: Phase,
    /// Candidates in this phase, and how many of them were looked at.
    pub candidates: usize,
    pub looked_at: usize,
    /// How many match: those found so far while counting, and the result of the count after it.
    pub total: usize,
    pub done: usize,
    /// Done before, by the same run.
    pub skipped: usize,
    /// Not there any more, or not as the filter wants it, when their turn came.
    pub gone: usize,
    pub refused: usize,
    pub unreadable: usize,
}

/// A job that the action was not applied to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub jid: Jid,
    pub why: String,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub id: String,
    /// In words.
    pub what: String,
    #[serde(flatten)]
    pub progress: Progress,
    /// The first [`REPORTED`].
    pub refusals: Vec<Refusal>,
    pub first_unreadable: Vec<Unread>,
}

impl Summary {
    fn new(bulk: &Bulk) -> Self {
        Self {
            id: bulk.id.clone(),
            what: bulk.to_string(),
            progress: Progress::default(),
            refusals: Vec::new(),
            first_unreadable: Vec::new(),
        }
    }
}

/// A run that ended too early. What it did is done; the same run with the same id goes on.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", .summary.last_words(.error))]
pub struct Stopped {
    pub summary: Summary,
    #[source]
    pub error: Error,
}

impl Summary {
    fn last_words(&self, error: &Error) -> String {
        let Progress { phase, total, done, skipped, gone, refused, .. } = self.progress;
        let far = match phase {
            Phase::Counting => "while it was counting, before any job was touched".to_owned(),
            Phase::Running => format!(
                "after {} of {total} jobs ({done} done, {skipped} done before, {refused} refused)",
                done + skipped + gone + refused
            ),
        };
        let Self { id, what, .. } = self;
        format!("the bulk run {id} ({what}) stopped {far}: {error}; run it again with the same id to go on")
    }
}

/// Keeps the first of them.
fn report<T>(kept: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    let room = REPORTED.saturating_sub(kept.len());
    kept.extend(more.into_iter().take(room));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(id: &str, filter: Filter, all: bool) -> Result<Bulk> {
        Bulk::new(id, BulkAction::Delete, filter, all, Dialect::Design)
    }

    fn of(states: &[JobState]) -> Filter {
        Filter { states: states.to_vec(), ..Filter::default() }
    }

    #[test]
    fn an_empty_filter_is_refused_unless_all_jobs_are_meant() {
        for empty in [Filter::default(), Filter { text: Some(" ".into()), ..Filter::default() }] {
            let error = bulk("a", empty.clone(), false).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains("empty"), "{error}");
            assert_eq!(bulk("a", empty, true).unwrap().filter().states, [JobState::Held, JobState::Failed]);
        }
    }

    #[test]
    fn the_filter_is_narrowed_to_the_states_that_the_action_is_for() {
        let wide = of(&[JobState::Completed, JobState::Failed, JobState::Pending]);
        let narrow = bulk("a", wide, false).unwrap();
        assert_eq!(narrow.filter(), &of(&[JobState::Failed]));
        assert_eq!(narrow.to_string(), "delete jobs that are failed");
        let error = bulk("a", of(&[JobState::Completed]), false).unwrap_err().to_string();
        assert!(error.contains("held or failed") && error.contains("asks for completed"), "{error}");
    }

    #[test]
    fn the_id_of_a_run_is_checked_and_is_in_every_commit() {
        for bad in ["", "a b", "a/b", &"x".repeat(65)] {
            assert!(bulk(bad, of(&[JobState::Failed]), false).is_err(), "{bad}");
        }
        let good = bulk("2026-11-16.a_b", of(&[JobState::Failed]), false).unwrap();
        assert_eq!(good.commit_id(Jid::new(3)), "bulk-2026-11-16.a_b-jid0000000003");
    }

    #[test]
    fn a_run_that_stopped_says_how_far_it_came_and_how_to_go_on() {
        let mut summary = Summary::new(&bulk("b7", of(&[JobState::Failed]), false).unwrap());
        let error = Error::Invalid("the store is gone".into());
        let words = Stopped { summary: summary.clone(), error: error.clone() }.to_string();
        assert!(words.contains("before any job was touched"), "{words}");
        summary.progress = Progress {
            phase: Phase::Running,
            total: 9,
            done: 4,
            skipped: 1,
            refused: 2,
            ..Progress::default()
        };
        let words = Stopped { summary, error }.to_string();
        assert_eq!(
            words,
            "the bulk run b7 (delete jobs that are failed) stopped after 7 of 9 jobs (4 done, 1 done before, \
             2 refused): the store is gone; run it again with the same id to go on"
        );
    }
}
