//! What holds in every state, and when everything has come to its end. Written from the design, and not from the code.

use ingest_queue::ids::Jid;
use ingest_queue::map::{self, BatchNode, JobNode, Priority, QueueRef};
use ingest_queue::states::{BatchList, BatchState, JobState};

use super::world::{Setup, World, bid};

impl World {
    pub(super) fn judge(&self, setup: &Setup) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let mut jobs = 0;
        for jid in self.jids() {
            let Some(job) = self.job(jid) else { continue };
            jobs += 1;
            let wanted = QueueRef::new(job.state(), Priority::DEFAULT, jid).path();
            let queues = self.queues_of(jid);
            if queues != [wanted.as_str()] {
                return Err(format!("{jid} is {} and in {queues:?}", job.state()));
            }
            let lists = self.lists_of(jid);
            let wanted = match job.state() {
                JobState::Completed => BatchList::Completed,
                JobState::Failed => BatchList::Failed,
                _ => BatchList::Processing,
            };
            if lists != [wanted] {
                return Err(format!("{jid} is {} and in {lists:?} of its batch", job.state()));
            }
        }
        let deleted = self.list(BatchList::Deleted).len();
        let (expansion, rows) = (self.expansion().0, u64::from(setup.jobs + setup.rows));
        if jobs + deleted != usize::try_from(expansion.next).unwrap() || expansion.next > rows {
            return Err(format!(
                "{jobs} jobs and {deleted} deleted, with {} of {rows} rows expanded",
                expansion.next
            ));
        }
        Ok(())
    }

    fn queues_of(&self, jid: Jid) -> Vec<&str> {
        let end = format!("-{jid}");
        let refs = self.tree.nodes().map(|(path, _)| path);
        refs.filter(|path| path.starts_with("/jobs/states/") && path.ends_with(&end)).collect()
    }

    fn lists_of(&self, jid: Jid) -> Vec<BatchList> {
        let has = |list: &BatchList| self.tree.get(&map::batch_ref(bid(), *list, jid)).is_some();
        BatchList::ALL.into_iter().filter(has).collect()
    }

    /// All jobs and the batch have ended, and nothing is locked; with rows, all of them are jobs.
    pub(super) fn has_come_to_its_end(&self, setup: &Setup) -> bool {
        let locked = self.jids().into_iter().any(|jid| self.tree.get(&JobNode::Lock.of(jid)).is_some());
        if locked || self.tree.get(&BatchNode::Lock.of(bid())).is_some() {
            return false;
        }
        if setup.rows > 0 {
            return self.expansion().0.done;
        }
        let jobs = self.list(BatchList::Processing).is_empty();
        let told = matches!(self.batch().state(), BatchState::Completed | BatchState::Failed);
        jobs && (!setup.batch || (told && !self.mails.is_empty()))
    }
}
