//! Jobs that wait for a slot of a limit. They stand aside, and whoever gives a slot back brings the best of them back
//! in line; those who need no slot overtake them.
//!
//! A slot that is free is offered to one job of each state. Whoever is called and does not take it passes the word on, and
//! so does whoever takes one while there is more room. A limit that does not hold in a state any more (the limits were
//! changed) is passed on in the same way, from one to the next, until nobody waits for it there.

use ingest_queue::error::Error;
use ingest_queue::limits::parked_with;
use ingest_queue::limits::rules::Semaphore;
use ingest_queue::map::QueueRef;

use super::Worker;

impl Worker {
    /// Parks a job until a slot is free.
    pub(super) fn wait_for_slot(&self, entry: QueueRef, semaphore: &Semaphore) {
        let key = parked_with(&semaphore.node_name());
        self.finder.park(entry.jid, key.as_str());
        // What it was called for is of no use to it while it waits for another.
        if let Some(other) = self.finder.answered(entry.jid).filter(|called_for| *called_for != key) {
            self.finder.unpark_best(other);
        }
        // A slot may have come back just before that, or the limit may not hold in this state any more.
        self.call_best(entry, semaphore);
    }

    /// Whether somebody who waits for the same slot comes first; then this one waits, too.
    pub(super) async fn gives_way(&self, entry: QueueRef) -> Result<bool, Error> {
        for semaphore in self.queue().limits_of(entry.jid, entry.state).await? {
            let key = parked_with(&semaphore.node_name());
            if self.finder.called_before(entry, key.as_str()) {
                // That one passes the word on, unless it has done so just before.
                self.finder.park(entry.jid, key.as_str());
                if !self.finder.called_before(entry, key) {
                    self.call_best(entry, &semaphore);
                }
                return Ok(true);
            }
            if self.finder.gives_way(entry, parked_with(&semaphore.node_name())) {
                self.wait_for_slot(entry, &semaphore);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same for a job that is to be handed over, as far as is known.
    pub(super) fn must_wait_for_slot(&self, entry: QueueRef) -> bool {
        let waits = |one: &Semaphore| self.finder.gives_way(entry, parked_with(&one.node_name()));
        self.queue().limits().known_of(entry.jid, entry.state).iter().any(waits)
    }

    /// This job has its slots, or does not want them now: what else is free is for the next.
    pub(super) fn pass_on(&self, entry: QueueRef) {
        let called_for = self.finder.answered(entry.jid);
        let limits = self.queue().limits().known_of(entry.jid, entry.state);
        for semaphore in &limits {
            self.call_best(entry, semaphore);
        }
        // What it was called for does not limit it any more: perhaps nobody.
        let is_other = |key: &String| limits.iter().all(|one| parked_with(&one.node_name()) != *key);
        if let Some(key) = called_for.filter(is_other) {
            self.finder.unpark_best(key);
        }
    }

    /// Calls the next of those who wait for a slot, unless there is none for one who waits like this job.
    fn call_best(&self, entry: QueueRef, semaphore: &Semaphore) {
        let limits = self.queue().limits();
        if limits.room(semaphore) != Some(0) || !limits.may_hold(semaphore, entry.state) {
            self.finder.unpark_best(parked_with(&semaphore.node_name()));
        }
    }
}
