//! What can be done to many jobs at once, and which jobs it can be done to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::map::Priority;
use crate::states::{JobState, States, To, Who, Why};

/// What a person does to each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum BulkAction {
    /// Tries failed jobs again: from the state after the last successful one, or from a chosen one.
    Requeue {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<JobState>,
    },
    Release,
    Hold,
    Delete,
    SetPriority(Priority),
}

impl BulkAction {
    /// The states in which it can be done, by the state tables.
    pub fn states(self, dialect: Dialect) -> Vec<JobState> {
        JobState::queues(dialect).filter(|state| self.is_for(*state, dialect)).collect()
    }

    fn is_for(self, state: JobState, dialect: Dialect) -> bool {
        match self.why() {
            Some(why) => state.may(why, Who::Admin, dialect).is_ok(),
            // A priority means something as long as the job can still go to another queue.
            None => state.moves(dialect).any(|row| matches!(row.to, To::State(_) | To::Restart(_))),
        }
    }

    fn why(self) -> Option<Why> {
        match self {
            BulkAction::Requeue { .. } => Some(Why::Requeue),
            BulkAction::Release => Some(Why::Release),
            BulkAction::Hold => Some(Why::Hold),
            BulkAction::Delete => Some(Why::Delete),
            BulkAction::SetPriority(_) => None,
        }
    }

    /// Refuses what could not be done to any job.
    pub(super) fn check(self, dialect: Dialect) -> Result<()> {
        let BulkAction::Requeue { to: Some(to) } = self else {
            return Ok(());
        };
        let what = || format!("requeue to {to}");
        if JobState::queues(dialect).all(|queue| queue != to) {
            return Err(Error::Invalid(format!("{}: there is no such queue here", what())));
        }
        let allowed = JobState::Failed.may_go(to, Who::Admin, dialect);
        allowed.map(drop).map_err(|refused| Error::Refused { what: what(), refused })
    }
}

/// As a beginning of a sentence that goes on with the jobs.
impl fmt::Display for BulkAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BulkAction::Requeue { to: None } => f.write_str("requeue"),
            BulkAction::Requeue { to: Some(to) } => write!(f, "requeue to {to}:"),
            BulkAction::Release => f.write_str("release"),
            BulkAction::Hold => f.write_str("hold"),
            BulkAction::Delete => f.write_str("delete"),
            BulkAction::SetPriority(priority) => write!(f, "set the priority to {priority} of"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobState::{Completed, Deleted, Estimating, Failed, Held, Pending, Provisioning, Storing};

    #[test]
    fn the_tables_say_which_jobs_can_match() {
        let states = |action: BulkAction| action.states(Dialect::Design);
        assert_eq!(states(BulkAction::Requeue { to: None }), [Failed]);
        assert_eq!(states(BulkAction::Release), [Held]);
        assert_eq!(states(BulkAction::Hold), [Pending, Estimating, Provisioning]);
        assert_eq!(states(BulkAction::Delete), [Held, Failed]);
    }

    #[test]
    fn a_priority_is_for_jobs_that_have_somewhere_to_go() {
        for dialect in [Dialect::Design, Dialect::MrtZk] {
            let states = BulkAction::SetPriority(Priority::FIRST).states(dialect);
            let without: Vec<_> = JobState::queues(dialect).filter(|state| !states.contains(state)).collect();
            assert!(without.iter().all(|state| [Completed, Deleted].contains(state)), "{without:?}");
            assert_eq!(states.contains(&Storing), dialect == Dialect::MrtZk);
        }
    }

    #[test]
    fn a_requeue_to_a_state_that_nobody_can_start_in_is_refused() {
        let check = |to, dialect| BulkAction::Requeue { to: Some(to) }.check(dialect);
        assert!(check(JobState::Downloading, Dialect::Design).is_ok());
        assert!(check(Storing, Dialect::MrtZk).is_ok());
        let error = check(Storing, Dialect::Design).unwrap_err().to_string();
        assert!(error.contains("no such queue"), "{error}");
        let error = check(Completed, Dialect::Design).unwrap_err().to_string();
        assert!(error.contains("cannot be moved to completed by the admin"), "{error}");
    }

    #[test]
    fn an_action_is_read_as_it_is_written() {
        for (action, json) in [
            (BulkAction::Requeue { to: None }, r#"{"requeue":{}}"#),
            (BulkAction::Requeue { to: Some(JobState::Notify) }, r#"{"requeue":{"to":"notify"}}"#),
            (BulkAction::Hold, r#""hold""#),
            (BulkAction::SetPriority(Priority::SLOW), r#"{"set-priority":80}"#),
        ] {
            assert_eq!(serde_json::to_string(&action).unwrap(), json);
            assert_eq!(serde_json::from_str::<BulkAction>(json).unwrap(), action);
        }
    }
}
