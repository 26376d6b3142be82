//! What has happened since it was told last: gathered, bounded, in no order.

use std::collections::{BTreeMap, BTreeSet};

use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, QueueRef};
use ingest_queue::states::JobState;
use ingest_store::Event;

use crate::api::wire::{BatchesChanged, JobMoved, JobsMoved};

/// Jobs or batches that one event names.
const MOST: usize = 500;

/// Gathered changes.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an event of its own")]
pub(super) struct Gathered {
    moved: BTreeMap<Jid, Option<JobState>>,
    more_jobs: usize,
    changed: BTreeSet<Bid>,
    gone: BTreeSet<Bid>,
    more_batches: usize,
    pub holds: bool,
    pub nodes: bool,
    pub access: bool,
    pub requests: bool,
    pub node: bool,
    /// How many are in each state may be others now.
    pub counts: bool,
}

impl Gathered {
    /// What a listener has to know first.
    pub(super) fn of_the_beginning() -> Self {
        Self { counts: true, node: true, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A queue has changed.
    pub(super) fn job(&mut self, event: &Event) {
        let (path, came) = match event {
            Event::Created(path) => (path, true),
            Event::Deleted(path) => (path, false),
            _ => return,
        };
        let Some(QueueRef { state, jid, .. }) = QueueRef::from_path(path) else { return };
        self.counts = true;
        if self.moved.len() >= MOST && !self.moved.contains_key(&jid) {
            self.more_jobs += usize::from(came);
            return;
        }
        let now = self.moved.entry(jid).or_insert(None);
        if came {
            *now = Some(state);
        } else if *now == Some(state) {
            // It left the queue that it was last seen in; otherwise it is in another already.
            *now = None;
        }
    }

    /// Something below the batches has changed.
    pub(super) fn batch(&mut self, event: &Event) {
        let (Event::Created(path) | Event::Deleted(path) | Event::Changed(path)) = event else { return };
        let Some(below) = path.strip_prefix(map::BATCHES).and_then(|below| below.strip_prefix('/')) else {
            return;
        };
        let mut names = below.split('/');
        let Some(Ok(bid)) = names.next().map(str::parse::<Bid>) else { return };
        let next = names.next();
        // Shards of manifests and reports, and locks, are not what people look at.
        if !matches!(next, None | Some("status" | "states" | "expansion" | "status-report" | "deleting")) {
            return;
        }
        if self.changed.len() + self.gone.len() >= MOST && !self.changed.contains(&bid) {
            self.more_batches += 1;
        } else if next.is_none() && matches!(event, Event::Deleted(_)) {
            self.changed.remove(&bid);
            self.gone.insert(bid);
        } else if !self.gone.contains(&bid) {
            self.changed.insert(bid);
        }
    }

    pub(super) fn jobs(&mut self) -> Option<JobsMoved> {
        let more = std::mem::take(&mut self.more_jobs);
        let moved = std::mem::take(&mut self.moved);
        (more > 0 || !moved.is_empty()).then(|| JobsMoved {
            moved: moved.into_iter().map(|(jid, state)| JobMoved { jid, state }).collect(),
            more,
        })
    }

    pub(super) fn batches(&mut self) -> Option<BatchesChanged> {
        let more = std::mem::take(&mut self.more_batches);
        let changed: Vec<Bid> = std::mem::take(&mut self.changed).into_iter().collect();
        let gone: Vec<Bid> = std::mem::take(&mut self.gone).into_iter().collect();
        (more > 0 || !changed.is_empty() || !gone.is_empty()).then_some(BatchesChanged {
            changed,
            gone,
            more,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(state: &str, jid: u32) -> String {
        format!("/jobs/states/{state}/05-{}", Jid::new(jid))
    }

    #[test]
    fn a_job_is_told_where_it_is_now() {
        let mut gathered = Gathered::default();
        gathered.job(&Event::Created(queue("pending", 1)));
        gathered.job(&Event::Deleted(queue("pending", 1)));
        gathered.job(&Event::Created(queue("estimating", 1)));
        gathered.job(&Event::Created(queue("failed", 2)));
        gathered.job(&Event::Deleted(queue("failed", 2)));
        // The new place before the old one is left.
        gathered.job(&Event::Created(queue("held", 3)));
        gathered.job(&Event::Deleted(queue("pending", 3)));
        gathered.job(&Event::Created("/jobs/states/held".into()));
        let moved = gathered.jobs().unwrap();
        let states: Vec<_> = moved.moved.iter().map(|job| job.state).collect();
        assert_eq!(states, [Some(JobState::Estimating), None, Some(JobState::Held)]);
        assert!(gathered.counts && gathered.jobs().is_none());
    }

    #[test]
    fn many_jobs_are_counted_and_not_kept() {
        let mut gathered = Gathered::default();
        for jid in 0..2_000 {
            gathered.job(&Event::Created(queue("pending", jid)));
        }
        let moved = gathered.jobs().unwrap();
        assert_eq!((moved.moved.len(), moved.more), (MOST, 1_500));
    }

    #[test]
    fn a_batch_that_goes_is_gone_and_not_changed() {
        let mut gathered = Gathered::default();
        let at = |below: &str| format!("/batches/{}{below}", Bid::new(4));
        gathered.batch(&Event::Changed(at("/status")));
        gathered.batch(&Event::Created(at("/manifest/x")));
        gathered.batch(&Event::Deleted(at("")));
        gathered.batch(&Event::Deleted(at("/states")));
        gathered.batch(&Event::Changed("/batches/nonsense/status".into()));
        let told = gathered.batches().unwrap();
        assert_eq!((told.changed.len(), told.gone, told.more), (0, vec![Bid::new(4)], 0));
        assert!(gathered.is_empty());
    }
}
