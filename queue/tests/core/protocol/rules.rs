//! What holds in every state, and when everything has come to its end. Written from the design, and not from the code.

use std::collections::HashSet;

use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, BatchNode, QueueRef};
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::path;

use super::people::is_far_enough;
use super::setup::Setup;
use super::world::{World, bid};

impl World {
    pub(super) fn judge(&self, setup: &Setup, known: &mut HashSet<u64>) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        // Many states have one tree.
        if known.insert(self.tree.print()) {
            self.judge_tree(setup)?;
        }
        self.judge_what_was_sent()
    }

    fn judge_tree(&self, setup: &Setup) -> Result<(), String> {
        let mut jobs = 0;
        for jid in self.jids() {
            let Some(job) = self.job(jid) else { continue };
            jobs += 1;
            if job.status.attempt > setup.takings() {
                return Err(format!("{jid} is taken again and again: {} times", job.status.attempt));
            }
            let wanted = QueueRef::new(job.state(), job.priority, jid).path();
            let queues = self.queues_of(jid);
            if queues != [wanted.as_str()] {
                return Err(format!("{jid} is {} with {} and in {queues:?}", job.state(), job.priority));
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

    /// What the tree says of reports is so.
    fn judge_what_was_sent(&self) -> Result<(), String> {
        let last = self.last_report().unwrap_or(0);
        let noted = self.outgoing(last + 1).is_some_and(|outgoing| outgoing.sent.is_some());
        for number in (1..=last).chain(noted.then_some(last + 1)) {
            if !self.mails.iter().any(|mail| mail.number == number) {
                return Err(format!("report {number} is noted as sent, and was not"));
            }
        }
        Ok(())
    }

    fn queues_of(&self, jid: Jid) -> Vec<String> {
        let end = jid.to_string();
        let queues = JobState::queues(Dialect::Design).map(map::queue);
        let refs = queues.into_iter().flat_map(|queue| {
            self.tree.children(&queue).map(|name| path::join(&queue, name)).collect::<Vec<_>>()
        });
        refs.filter(|path| path.ends_with(&end)).collect()
    }

    fn lists_of(&self, jid: Jid) -> Vec<BatchList> {
        let has = |list: &BatchList| self.tree.get(&map::batch_ref(bid(), *list, jid)).is_some();
        BatchList::ALL.into_iter().filter(has).collect()
    }

    /// All rows are jobs, all jobs and the batch have ended, or wait for a person, and nothing is locked.
    pub(super) fn has_come_to_its_end(&self, setup: &Setup) -> bool {
        if self.jids().into_iter().any(|jid| self.is_locked(jid))
            || self.tree.get(&BatchNode::Lock.of(bid())).is_some()
            || !self.expansion().0.done
        {
            return false;
        }
        let states: Vec<JobState> =
            self.jids().into_iter().filter_map(|jid| Some(self.job(jid)?.state())).collect();
        let told = matches!(self.batch().state(), BatchState::Completed | BatchState::Failed);
        let waits = states.contains(&JobState::Held);
        let batch = !setup.batch || waits || (told && !self.mails.is_empty());
        batch && states.into_iter().all(|state| is_far_enough(setup, state))
    }
}
