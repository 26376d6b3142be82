//! Jobs that this node has just moved on.
//!
//! The next state of a job is mostly taken by the node that did the one before. It knows what the three
//! reads before an acquire would say. That is a guess and nothing rests on it: the acquire commits at
//! the version that was known, and if the store refuses it, the job is read.

use std::collections::{HashMap, VecDeque};

use crate::ids::Jid;
use crate::map::QueueRef;
use crate::plan::job::Job;

/// A bounded number of jobs, each as it was after its last transition.
#[derive(Debug, Default)]
pub(crate) struct Known {
    jobs: HashMap<Jid, Job>,
    /// In the order in which they came; those that were taken are still named.
    order: VecDeque<Jid>,
}

impl Known {
    /// Jobs that wait longer than this many others are read again.
    const MOST: usize = 1024;

    pub(crate) fn put(&mut self, job: Job) {
        if self.order.len() == Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.jobs.remove(&oldest);
        }
        self.order.push_back(job.jid);
        self.jobs.insert(job.jid, job);
    }

    pub(crate) fn has(&self, entry: QueueRef) -> bool {
        self.jobs.get(&entry.jid).is_some_and(|job| job.entry() == entry)
    }

    /// The job, if it is known to be where the ref says. It is not known any more.
    pub(crate) fn take(&mut self, entry: QueueRef) -> Option<Job> {
        self.jobs.remove(&entry.jid).filter(|job| job.entry() == entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::Date;
    use crate::ids::Bid;
    use crate::map::Priority;
    use crate::nodes::JobStatus;
    use crate::states::JobState;

    fn job(number: u32) -> Job {
        let status = JobStatus::new(JobState::Estimating, Date::from_millis(0));
        let (jid, bid, priority) = (Jid::new(number), Bid::new(0), Priority::DEFAULT);
        Job { jid, bid, priority, status, version: 2, history: None }
    }

    #[test]
    fn a_job_is_known_once_and_only_where_it_was_left() {
        let mut known = Known::default();
        known.put(job(1));
        assert_eq!(known.take(job(1).entry()), Some(job(1)));
        assert_eq!(known.take(job(1).entry()), None);
        known.put(job(1));
        assert_eq!(known.take(QueueRef { state: JobState::Downloading, ..job(1).entry() }), None);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut known = Known::default();
        for number in 0..3_000 {
            known.put(job(number));
        }
        assert_eq!((known.jobs.len(), known.order.len()), (Known::MOST, Known::MOST));
        assert_eq!(known.take(job(0).entry()), None);
        assert_eq!(known.take(job(2_999).entry()), Some(job(2_999)));
    }
}
