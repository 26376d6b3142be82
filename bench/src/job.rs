//! Jobs as they lie in the tree, and the transition that is measured: one that needs no lock.
//!
//! A job goes from one state to the other and back. Each transition is one multi of five operations:
//! set the status at its version, delete the old queue ref, create the new one, set the history, check
//! the batch's status. Everything that it carries is made beforehand, so that only its way into the
//! tree is measured.

use anyhow::Result;
use bytes::Bytes;
use serde_json::json;

/// The states between which jobs go.
pub(crate) const STATES: [&str; 2] = ["downloading", "processing"];
/// The batch of all jobs.
pub(crate) const BATCH_STATUS: &str = "/batches/bid0000000001/status";

/// Something that jobs can be worked on in: a session of ours, or the bare client.
pub(crate) trait Tree: Clone + Send + Sync + 'static {
    /// Commits the next transition of each job in one multi, which also deletes their locks if they
    /// have been taken.
    fn commit(&self, jobs: &[Job], locked: bool) -> impl Future<Output = Result<()>> + Send;

    /// Takes a job's lock.
    fn lock(&self, job: &Job) -> impl Future<Output = Result<()>> + Send;

    /// Gives it back.
    fn unlock(&self, job: &Job) -> impl Future<Output = Result<()>> + Send;
}

/// A job, and what its worker knows of its nodes.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: String,
    /// The path of the job's own node, the parent of all others.
    pub(crate) node: String,
    pub(crate) status: String,
    pub(crate) history: String,
    pub(crate) lock: String,
    /// What the lock says.
    pub(crate) owner: Bytes,
    stages: [Stage; 2],
    /// Which of the states it is in.
    at: usize,
    /// Of the status: how many transitions were acknowledged.
    pub(crate) version: i32,
    /// How many times the lock was taken.
    pub(crate) locks: i32,
}

/// A job in one of its states.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) state: &'static str,
    pub(crate) queue_ref: String,
    pub(crate) status: Bytes,
    pub(crate) history: Bytes,
}

impl Job {
    pub(crate) fn new(number: usize) -> Self {
        let id = format!("jid{number:010}");
        let node = format!("/jobs/{id}");
        Self {
            status: format!("{node}/status"),
            history: format!("{node}/history"),
            lock: format!("{node}/lock"),
            owner: json!({"node": "node-1", "incarnation": "0c1e8a54", "attempt": 1}).to_string().into(),
            stages: STATES.map(|state| Stage::new(state, &id)),
            at: 0,
            version: 0,
            locks: 0,
            id,
            node,
        }
    }

    /// As it is.
    pub(crate) fn stage(&self) -> &Stage {
        &self.stages[self.at]
    }

    /// As the next transition makes it.
    pub(crate) fn next_stage(&self) -> &Stage {
        &self.stages[1 - self.at]
    }

    /// Takes note of an acknowledged transition.
    pub(crate) fn advance(&mut self) {
        self.at = 1 - self.at;
        self.version += 1;
    }
}

impl Stage {
    fn new(state: &'static str, id: &str) -> Self {
        let before = if state == STATES[0] { "provisioning" } else { STATES[0] };
        let status = json!({
            "status": state,
            "last_successful_status": before,
            "last_modification_date": "2026-01-31T12:34:56.789Z",
            "retry_count": 0,
            "message": "3 files, 1048576 bytes",
            "attempt": 1,
            "recoverable": true,
        });
        let history = json!([
            {"at": "2026-01-31T12:34:50.123Z", "from": "estimating", "to": "provisioning", "node": "node-1",
             "attempt": 1, "commit": "5f1d7a83", "message": ""},
            {"at": "2026-01-31T12:34:56.789Z", "from": before, "to": state, "node": "node-1",
             "attempt": 1, "commit": "9b04c2ee", "message": "3 files"},
        ]);
        Self {
            state,
            queue_ref: format!("/jobs/states/{state}/05-{id}"),
            status: status.to_string().into(),
            history: history.to_string().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_goes_to_the_other_state_and_back() {
        let mut job = Job::new(7);
        assert_eq!(job.stage().queue_ref, "/jobs/states/downloading/05-jid0000000007");
        assert_eq!(job.next_stage().queue_ref, "/jobs/states/processing/05-jid0000000007");
        job.advance();
        assert_eq!(job.stage().state, "processing");
        job.advance();
        assert_eq!((job.stage().state, job.version), ("downloading", 2));
    }

    #[test]
    fn the_data_are_of_a_likely_size() {
        let job = Job::new(1);
        for stage in [job.stage(), job.next_stage()] {
            assert!((180..=220).contains(&stage.status.len()), "{}", stage.status.len());
            assert!((270..=330).contains(&stage.history.len()), "{}", stage.history.len());
        }
    }
}
