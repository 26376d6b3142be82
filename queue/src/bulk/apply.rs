//! Bulk actions on the real queue.

use super::{Bulk, BulkAction, Progress, Stopped, Summary};
use crate::jobs::signed;
use crate::plan::job::Action;
use crate::queue::Queue;

impl BulkAction {
    /// What is done to each job.
    fn action(self) -> Action {
        match self {
            BulkAction::Requeue { to } => Action::Requeue(to),
            BulkAction::Release => Action::Release,
            BulkAction::Hold => Action::Hold,
            BulkAction::Delete => Action::Delete,
            BulkAction::SetPriority(priority) => Action::SetPriority(priority),
        }
    }
}

impl Queue {
    /// Does a bulk action, or goes on with one: the same id is the same run.
    pub async fn bulk(
        &self,
        bulk: &Bulk,
        who: &str,
        progress: impl FnMut(&Progress),
    ) -> Result<Summary, Stopped> {
        let action = bulk.action().action();
        let message = signed(who, &format!("bulk run {}", bulk.id()));
        let apply = |jid, commit| {
            let (action, message) = (&action, &message);
            async move { self.act_once(jid, action, message, false, commit).await.map(|_| ()) }
        };
        super::run(&self.session, bulk, apply, progress).await
    }
}
