//! How an entry moves between the line, aside and taken: the one place that keeps the parts of the
//! index in step.

use tokio::time::Instant;

use super::waiting::{Aside, Head, Place, Slot, Waiting, Why};
use super::{Index, Presence, Taken, Wake, slot};
use crate::ids::Jid;
use crate::map::QueueRef;
use crate::states::JobState;

impl Index {
    /// The first that is really ready. Heads whose job is busy, or that others come first for, go
    /// aside before anything is compared: each of them once.
    pub(super) fn ready(&mut self, state: JobState, now: Instant) -> Option<Head> {
        loop {
            let waiting = self.states.get(&state)?;
            let is_ready =
                |slot: Slot, since| !self.taken.contains_key(&slot.0) && self.turn(slot.0, since) <= now;
            let Some((slot, _, since)) = waiting.heads().find(|(slot, _, since)| !is_ready(*slot, *since))
            else {
                return waiting.first(self.settings.ageing, now);
            };
            let entry = QueueRef::new(state, slot.1, slot.0);
            self.remove(entry);
            self.offer(entry, since, Some((since, now)));
        }
    }

    /// From when on this node may take a job that all may take from an instant on, each at its turn.
    pub(super) fn turn(&self, jid: Jid, from: Instant) -> Instant {
        from + self.settings.rank_delay * u32::try_from(self.ranks.rank(jid)).unwrap_or(u32::MAX)
    }

    /// An entry of which nothing is known yet, or of which it is only known that it is expected.
    pub(super) fn add(&mut self, entry: QueueRef, now: Instant, turn: Option<(Instant, Instant)>) {
        if !self.states.contains_key(&entry.state) {
            return;
        }
        self.highest = self.highest.max(entry.jid.number());
        if let Some(taken) = self.taken_by(entry) {
            taken.presence = Presence::Listed;
        } else if !self.knows(entry) {
            let come = self.come.get(&entry.jid).copied();
            if let Some((place, _)) = come
                && let Some(waiting) = self.states.get_mut(&entry.state)
            {
                waiting.set_place(slot(entry), place);
            }
            self.offer(entry, come.map_or(now, |(_, at)| at), turn);
        }
    }

    /// Puts an entry where it belongs: aside while its job is busy or not due, or while it is the turn
    /// of others (from an instant on, as seen now); else in line.
    pub(super) fn offer(&mut self, entry: QueueRef, since: Instant, turn: Option<(Instant, Instant)>) {
        if let Some(taken) = self.taken.get_mut(&entry.jid) {
            taken.others.push(entry);
            return self.put_aside(entry, since, Why::Busy);
        }
        if let Some(dated) = self.dates.get_mut(&entry.jid) {
            dated.entries.push(entry);
            return self.put_aside(entry, since, Why::NotDue);
        }
        if let Some((from, now)) = turn {
            let until = self.turn(entry.jid, from);
            if until > now {
                return self.put_aside(entry, since, Why::Turn { from, until });
            }
        }
        if let Some(waiting) = self.states.get_mut(&entry.state) {
            waiting.stand(slot(entry), since);
            self.joined.insert(entry.state);
        }
    }

    pub(super) fn put_aside(&mut self, entry: QueueRef, since: Instant, why: Why) {
        if let Why::Turn { until, .. } | Why::Delayed { until } = why {
            self.timers.insert((until, Wake::Entry(entry)));
        }
        if let Some(waiting) = self.states.get_mut(&entry.state) {
            waiting.put_aside(slot(entry), Aside { since, why });
        }
    }

    /// Takes an entry from where it waits; returns since when it was known.
    pub(super) fn remove(&mut self, entry: QueueRef) -> Option<Instant> {
        let waiting = self.states.get_mut(&entry.state)?;
        if let Some(since) = waiting.leave(slot(entry)) {
            return Some(since);
        }
        let Aside { since, why } = waiting.take_aside(slot(entry))?;
        match why {
            Why::Turn { until, .. } | Why::Delayed { until } => {
                self.timers.remove(&(until, Wake::Entry(entry)));
            }
            Why::NotDue => {
                if let Some(dated) = self.dates.get_mut(&entry.jid) {
                    dated.entries.retain(|other| *other != entry);
                }
            }
            Why::Busy => {
                if let Some(taken) = self.taken.get_mut(&entry.jid) {
                    taken.others.retain(|other| *other != entry);
                }
            }
            Why::Parked(reason) => {
                if let Some(parked) = self.parked.get_mut(&reason) {
                    parked.remove(&entry);
                    if parked.is_empty() {
                        self.parked.remove(&reason);
                    }
                }
            }
        }
        Some(since)
    }

    /// Takes the entries of a job out of line, also those that stand aside only for the turn of others.
    pub(super) fn remove_line(&mut self, jid: Jid) -> Vec<(QueueRef, Instant)> {
        let mut removed = Vec::new();
        for entry in self.entries_of(jid) {
            let for_later = |aside: &Aside| matches!(aside.why, Why::Turn { .. });
            let waiting = self.states.get(&entry.state);
            if waiting.and_then(|waiting| waiting.aside(slot(entry))).is_none_or(for_later)
                && let Some(since) = self.remove(entry)
            {
                removed.push((entry, since));
            }
        }
        removed
    }

    /// The date of a job has come: it stands as if it were inserted then.
    pub(super) fn become_due(
        &mut self,
        jid: Jid,
        at: Instant,
        highest: u32,
        entries: Vec<(QueueRef, Instant)>,
        now: Instant,
    ) {
        self.became_due += 1;
        let place = Place::late(highest.max(jid.number()), self.became_due, jid);
        self.come.insert(jid, (place, at));
        for (entry, _) in entries {
            if let Some(waiting) = self.states.get_mut(&entry.state) {
                waiting.set_place(slot(entry), place);
            }
            self.offer(entry, at, Some((at, now)));
        }
    }

    /// Ends the date of a job, and takes from aside what waited for it.
    pub(super) fn undate(&mut self, jid: Jid) -> Vec<(QueueRef, Instant)> {
        let Some(dated) = self.dates.remove(&jid) else { return Vec::new() };
        self.timers.remove(&(dated.due, Wake::Date(jid)));
        dated.entries.into_iter().filter_map(|entry| Some((entry, self.remove(entry)?))).collect()
    }

    /// The task of a job has ended: its other entries are free. Returns the one it had, if that is still
    /// in the tree.
    pub(super) fn untake(&mut self, jid: Jid) -> Option<(QueueRef, Instant)> {
        let taken = self.taken.remove(&jid)?;
        for other in taken.others {
            if let Some(since) = self.remove(other) {
                self.offer(other, since, None);
            }
        }
        (taken.presence == Presence::Listed).then_some((taken.entry, taken.since))
    }

    pub(super) fn taken_by(&mut self, entry: QueueRef) -> Option<&mut Taken> {
        self.taken.get_mut(&entry.jid).filter(|taken| taken.entry == entry)
    }

    /// What is remembered of a ref that is no more.
    pub(super) fn forget(&mut self, entry: QueueRef) {
        self.doubted.remove(&entry);
        if let Some(waiting) = self.states.get_mut(&entry.state) {
            waiting.forget_place(slot(entry));
        }
    }

    pub(super) fn entries_of(&self, jid: Jid) -> Vec<QueueRef> {
        let of_state = |(state, waiting): (&JobState, &Waiting)| {
            let entry = |slot: Slot| QueueRef::new(*state, slot.1, slot.0);
            waiting.of_job(jid).into_iter().map(entry).collect::<Vec<_>>()
        };
        self.states.iter().flat_map(of_state).collect()
    }

    /// All entries of a state that are in the tree, as far as is known here.
    pub(super) fn known(&self, state: JobState) -> impl Iterator<Item = QueueRef> {
        let waiting = self.states.get(&state).into_iter().flat_map(Waiting::slots);
        let taken = self
            .taken
            .values()
            .filter(move |taken| taken.entry.state == state && taken.presence == Presence::Listed);
        waiting.map(move |slot| QueueRef::new(state, slot.1, slot.0)).chain(taken.map(|taken| taken.entry))
    }
}
