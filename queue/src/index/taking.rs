//! What those who work on jobs ask and say: the next one, and what became of it.

use tokio::time::Instant;

use super::waiting::{Head, Place, Why, effective};
use super::{Candidate, Index, Presence, Reason, Seen, Taken, slot};
use crate::ids::Jid;
use crate::map::{Priority, QueueRef};
use crate::states::JobState;

impl Index {
    /// The next job of a state. It is taken until one of the calls below says otherwise.
    pub fn take(&mut self, state: JobState, now: Instant) -> Option<Candidate> {
        self.advance(now);
        let head = self.ready(state, now)?;
        let head = self.own_turn(state, &head, now);
        let entry = QueueRef::new(state, head.slot.1, head.slot.0);
        self.states.get_mut(&state)?.leave(head.slot)?;
        let taken = Taken { entry, since: head.since, presence: Presence::Listed, others: Vec::new() };
        self.taken.insert(entry.jid, taken);
        Some(Candidate { entry, rank: self.ranks.rank(entry.jid) })
    }

    /// Whether the pool of this ref's state would choose it before everything that is ready there now, whoever comes
    /// first for it: this node has it. The ref need not be there yet, and its job may be taken.
    pub fn is_next(&mut self, entry: QueueRef, now: Instant) -> bool {
        self.advance(now);
        let Some(waiting) = self.states.get(&entry.state) else { return false };
        let aside = waiting.aside(slot(entry)).map(|aside| &aside.why);
        if self.dates.contains_key(&entry.jid) || matches!(aside, Some(Why::Delayed { .. } | Why::Parked(_)))
        {
            return false;
        }
        let since = waiting.since(slot(entry)).unwrap_or(now);
        let waited = now.saturating_duration_since(since);
        let own = (effective(entry.priority, waited, self.settings.ageing), waiting.place(slot(entry)));
        self.ready(entry.state, now).is_none_or(|head| own <= (head.effective, head.place))
    }

    /// The ref is removed from the tree by a commit of this node, and the task has ended.
    pub fn finished(&mut self, entry: QueueRef) {
        let event_is_due = match self.taken_by(entry).map(|taken| taken.presence) {
            Some(presence) => {
                self.untake(entry.jid);
                presence != Presence::Gone
            }
            None => self.remove(entry).is_some(),
        };
        self.forget(entry);
        if event_is_due {
            self.departed.insert(entry);
        }
    }

    /// A commit of this node moved the job to another queue, and the task goes on there under the same lock.
    pub fn hand_over(&mut self, from: QueueRef, to: QueueRef, now: Instant) {
        let Some(presence) = self.taken_by(from).map(|taken| taken.presence) else { return };
        self.forget(from);
        if presence != Presence::Gone {
            self.departed.insert(from);
        }
        let seen = self.remove(to);
        if let Some(taken) = self.taken_by(from) {
            taken.entry = to;
            taken.since = seen.unwrap_or(now);
            taken.presence = if seen.is_some() { Presence::Listed } else { Presence::Expected };
        }
    }

    /// The task has ended, and the job is to be taken again, here or elsewhere.
    pub fn put_back(&mut self, jid: Jid, now: Instant) {
        self.advance(now);
        if let Some((entry, since)) = self.untake(jid) {
            self.doubted.remove(&entry);
            self.offer(entry, since, Some((now, now)));
        }
    }

    /// The task has ended, and the job waits for something else than its turn. Whatever brings it back may
    /// have happened just before: look once more after parking. Says whether it is there to be parked.
    pub fn park(&mut self, jid: Jid, reason: Reason) -> bool {
        let Some((entry, since)) = self.untake(jid) else { return false };
        self.doubted.remove(&entry);
        self.parked.entry(reason.clone()).or_default().insert(entry);
        self.put_aside(entry, since, Why::Parked(reason));
        true
    }

    /// What parked these jobs has passed; returns how many there were.
    pub fn unpark(&mut self, reason: &Reason, now: Instant) -> usize {
        self.advance(now);
        let entries = self.parked.remove(reason).unwrap_or_default();
        for entry in &entries {
            if let Some(since) = self.remove(*entry) {
                self.offer(*entry, since, Some((now, now)));
            }
        }
        entries.len()
    }

    /// What parked these jobs has become possible for one: the best of each state is back in line, and the others wait
    /// on. Returns how many that were.
    pub fn unpark_best(&mut self, reason: &Reason, now: Instant) -> usize {
        self.advance(now);
        let states: Vec<JobState> = self.states.keys().copied().collect();
        let best: Vec<_> =
            states.into_iter().filter_map(|state| self.best_parked(reason, state, now)).collect();
        for (_, entry) in &best {
            if let Some(since) = self.remove(*entry) {
                self.called.insert(entry.jid, reason.clone());
                self.offer(*entry, since, Some((now, now)));
            }
        }
        best.len()
    }

    /// Whether somebody who was called for this, in the same state and before this ref, is just trying to get it.
    pub fn called_before(&self, entry: QueueRef, reason: &Reason, now: Instant) -> bool {
        let mine = self.order(entry, now);
        let mut trying = self.called.iter().filter(|(jid, called)| **jid != entry.jid && *called == reason);
        trying.any(|(jid, _)| {
            let other = self.taken.get(jid).map(|taken| taken.entry);
            other.is_some_and(|other| other.state == entry.state && self.order(other, now) < mine)
        })
    }

    /// It is known whether a job that was called got what it was called for: answers what that was. Until then it is
    /// called, also if it was put back or aside meanwhile.
    pub fn answered(&mut self, jid: Jid) -> Option<Reason> {
        self.called.remove(&jid)
    }

    /// Whether somebody who is parked with this in the same state comes before this ref.
    pub fn gives_way(&self, entry: QueueRef, reason: &Reason, now: Instant) -> bool {
        let best = self.best_parked(reason, entry.state, now);
        best.is_some_and(|(order, best)| best.jid != entry.jid && order < self.order(entry, now))
    }

    /// How many are parked with this.
    pub fn parked_with(&self, reason: &Reason) -> usize {
        self.parked.get(reason).map_or(0, std::collections::BTreeSet::len)
    }

    /// What jobs are parked with, other than locks.
    pub fn reasons(&self) -> Vec<String> {
        let other = |reason: &Reason| match reason {
            Reason::Other(key) => Some(key.clone()),
            Reason::Locked(_) => None,
        };
        self.parked.keys().filter_map(other).collect()
    }

    /// One that this node comes first for, of the same priority and little further back than the first; else the first
    /// itself. The first is left to those who come before this node as long as any job is, from when it came to be the first.
    fn own_turn(&mut self, state: JobState, head: &Head, now: Instant) -> Head {
        let is_own = |jid| self.ranks.rank(jid) == 0 && !self.taken.contains_key(&jid);
        let Some(waiting) = self.states.get(&state) else { return *head };
        let is_left = self.turn(head.slot.0, waiting.passed_over(head).unwrap_or(now)) > now;
        // One in as many as there are nodes is found soon, however many stand in the window.
        let own = is_left
            .then(|| waiting.behind(head, self.settings.rank_window).find(|behind| is_own(behind.slot.0)))
            .flatten();
        if let Some(waiting) = self.states.get_mut(&state) {
            waiting.pass_over(own.is_some().then_some(head), now);
        }
        own.unwrap_or(*head)
    }

    /// The first of each bucket is looked at, as in line.
    fn best_parked(&self, reason: &Reason, state: JobState, now: Instant) -> Option<((u8, Place), QueueRef)> {
        let parked = self.parked.get(reason)?;
        let mut best = None;
        let mut from = QueueRef::new(state, Priority::FIRST, Jid::new(0));
        while let Some(head) = parked.range(from..).next().copied().filter(|head| head.state == state) {
            let found = (self.order(head, now), head);
            if best.as_ref().is_none_or(|best| found < *best) {
                best = Some(found);
            }
            let Some(next) = Priority::new(i64::from(head.priority.number()) + 1) else { break };
            from = QueueRef::new(state, next, Jid::new(0));
        }
        best
    }

    /// What decides who comes first.
    fn order(&self, entry: QueueRef, now: Instant) -> (u8, Place) {
        let waiting = self.states.get(&entry.state);
        let taken = self.taken.get(&entry.jid).filter(|taken| taken.entry == entry).map(|taken| taken.since);
        let since = waiting.and_then(|waiting| waiting.since(slot(entry))).or(taken).unwrap_or(now);
        let waited = now.saturating_duration_since(since);
        let place = waiting.map_or(Place::own(entry.jid), |waiting| waiting.place(slot(entry)));
        (effective(entry.priority, waited, self.settings.ageing), place)
    }

    /// Everything that was locked elsewhere is to be tried again.
    pub fn unpark_locked(&mut self, now: Instant) -> usize {
        let locked = self.parked.keys().filter(|reason| matches!(reason, Reason::Locked(_))).cloned();
        let locked: Vec<_> = locked.collect();
        locked.iter().map(|reason| self.unpark(reason, now)).sum()
    }

    pub fn is_parked(&self, reason: &Reason) -> bool {
        self.parked.contains_key(reason)
    }

    /// The task has ended, and the job is not to be taken before then.
    pub fn delay(&mut self, jid: Jid, until: Instant) {
        if let Some((entry, since)) = self.untake(jid) {
            self.doubted.remove(&entry);
            self.put_aside(entry, since, Why::Delayed { until });
        }
    }

    /// The status of this taken job says another state than its ref.
    pub fn disagrees(&mut self, entry: QueueRef, now: Instant) -> Seen {
        if self.doubted.contains(&entry) {
            return Seen::Twice;
        }
        if self.taken_by(entry).is_some() {
            self.delay(entry.jid, now + self.settings.doubt);
            // Nothing to remember of one that has gone meanwhile.
            if self.knows(entry) {
                self.doubted.insert(entry);
            }
        }
        Seen::Once
    }
}
