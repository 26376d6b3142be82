//! The rules of the index told naively: a list, searched from end to end, each time. [`steps`] holds
//! one against the other.

mod steps;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::waiting::effective;
use super::{Candidate, Presence, Ranks, Reason, Settings};
use crate::ids::Jid;
use crate::map::{Priority, QueueRef};
use crate::states::JobState;

const PRIORITIES: [i64; 5] = [5, 6, 79, 80, 99];

const SETTINGS: Settings = Settings {
    ageing: Some(Duration::from_millis(100)),
    rank_delay: Duration::from_millis(50),
    rank_window: 2,
    doubt: Duration::from_millis(120),
};

#[derive(Debug, Clone)]
struct Known {
    entry: QueueRef,
    since: Instant,
    /// The turn of others is counted from here too, until it has passed.
    turn: Option<Instant>,
    place: (u32, u32),
    until: Option<Instant>,
    parked: Option<Reason>,
}

#[derive(Debug)]
struct Taken {
    entry: Known,
    presence: Presence,
}

#[derive(Debug, Default)]
struct Model {
    entries: Vec<Known>,
    taken: Vec<Taken>,
    dates: Vec<(Instant, Jid)>,
    /// Those whose date has come.
    come: HashMap<Jid, ((u32, u32), Instant)>,
    doubted: HashSet<QueueRef>,
    departed: HashSet<QueueRef>,
    highest: u32,
    order: u32,
    /// Of each state: who was first when another was taken, and since when.
    passed: HashMap<JobState, (QueueRef, Instant)>,
    ranks: Ranks,
}

impl Model {
    fn is_taken(&self, jid: Jid) -> bool {
        self.taken.iter().any(|taken| taken.entry.entry.jid == jid)
    }

    fn taken_by(&mut self, entry: QueueRef) -> Option<&mut Taken> {
        self.taken.iter_mut().find(|taken| taken.entry.entry == entry)
    }

    fn due(&self, jid: Jid) -> Option<Instant> {
        self.dates.iter().find(|(_, dated)| *dated == jid).map(|(due, _)| *due)
    }

    fn knows(&self, entry: QueueRef) -> bool {
        self.entries.iter().any(|known| known.entry == entry)
            || self.taken.iter().any(|t| t.entry.entry == entry && t.presence == Presence::Listed)
    }

    fn turn_at(&self, entry: &Known) -> Instant {
        let delay = SETTINGS.rank_delay * u32::try_from(self.ranks.rank(entry.entry.jid)).unwrap();
        entry.turn.unwrap_or(entry.since).max(entry.since) + delay
    }

    /// When it is ready by the passing of time alone.
    fn ready_at(&self, entry: &Known) -> Option<Instant> {
        if self.is_taken(entry.entry.jid) || entry.parked.is_some() {
            return None;
        }
        [Some(self.turn_at(entry)), entry.until, self.due(entry.entry.jid)].into_iter().flatten().max()
    }

    fn key(entry: &Known, now: Instant) -> (u8, (u32, u32), Jid) {
        let waited = now.saturating_duration_since(entry.since);
        (effective(entry.entry.priority, waited, SETTINGS.ageing), entry.place, entry.entry.jid)
    }

    fn first(&self, state: JobState, now: Instant) -> Option<Known> {
        // Only the head of a bucket is lifted by its age, so first the heads, then the best of them.
        let is_ready = |entry: &&Known| self.ready_at(entry).is_some_and(|at| at <= now);
        let ready: Vec<_> = self.entries.iter().filter(|e| e.entry.state == state).filter(is_ready).collect();
        let head_of = |priority: i64| {
            let bucket = ready.iter().filter(|e| e.entry.priority == Priority::nearest(priority));
            bucket.min_by_key(|e| (e.place, e.entry.jid))
        };
        let heads = PRIORITIES.into_iter().filter_map(head_of);
        heads.min_by_key(|e| Self::key(e, now)).map(|e| (*e).clone())
    }

    /// Who is taken instead of the first, because this node comes first for it.
    fn own_turn(&self, first: &Known, now: Instant) -> Option<Known> {
        let passed = self.passed.get(&first.entry.state).filter(|(entry, _)| *entry == first.entry);
        let rank = u32::try_from(self.ranks.rank(first.entry.jid)).unwrap();
        if passed.map_or(now, |(_, since)| *since) + SETTINGS.rank_delay * rank <= now {
            return None;
        }
        let (state, priority) = (first.entry.state, first.entry.priority);
        let last = first.place.0 + SETTINGS.rank_window;
        let own = |e: &&Known| {
            (e.entry.state, e.entry.priority) == (state, priority)
                && e.place.0 <= last
                && self.ranks.rank(e.entry.jid) == 0
                && self.ready_at(e).is_some_and(|at| at <= now)
        };
        self.entries.iter().filter(own).min_by_key(|e| (e.place, e.entry.jid)).cloned()
    }

    fn advance(&mut self, now: Instant) {
        loop {
            let date = self.dates.iter().min().copied().filter(|(due, _)| *due <= now);
            let until = self.entries.iter().filter_map(|entry| entry.until).min().filter(|at| *at <= now);
            match (date, until) {
                (Some((due, jid)), until) if until.is_none_or(|until| due <= until) => {
                    self.dates.retain(|date| *date != (due, jid));
                    self.become_due(jid, due, self.highest);
                }
                (_, Some(until)) => {
                    let free = self.entries.iter_mut().filter(|entry| entry.until == Some(until));
                    free.for_each(|entry| entry.until = None);
                }
                _ => break,
            }
        }
        for at in 0..self.entries.len() {
            if self.turn_at(&self.entries[at]) <= now {
                self.entries[at].turn = None;
            }
        }
    }

    fn become_due(&mut self, jid: Jid, at: Instant, highest: u32) {
        self.order += 1;
        let (place, busy) = ((highest.max(jid.number()), self.order), self.is_taken(jid));
        self.come.insert(jid, (place, at));
        for entry in self.entries.iter_mut().filter(|e| e.entry.jid == jid && !busy) {
            if entry.until.is_none() && entry.parked.is_none() {
                (entry.place, entry.since, entry.turn) = (place, at, None);
            }
        }
    }

    fn came(&mut self, jid: Jid, at: Instant, highest: Option<u32>) {
        if !self.come.contains_key(&jid) {
            self.dates.retain(|(_, dated)| *dated != jid);
            self.become_due(jid, at, highest.unwrap_or(self.highest));
        }
    }

    fn offer(&mut self, mut entry: Known, turn: Option<Instant>) {
        let jid = entry.entry.jid;
        entry.turn = turn.filter(|_| !self.is_taken(jid) && self.due(jid).is_none());
        (entry.until, entry.parked) = (None, None);
        self.entries.push(entry);
    }

    fn created(&mut self, entry: QueueRef, now: Instant, turn: Option<Instant>) {
        self.highest = self.highest.max(entry.jid.number());
        if let Some(taken) = self.taken_by(entry) {
            taken.presence = Presence::Listed;
        } else if !self.knows(entry) {
            let (place, since) = self.come.get(&entry.jid).copied().unwrap_or(((entry.jid.number(), 0), now));
            let new = Known { entry, since, turn: None, place, until: None, parked: None };
            self.offer(new, turn);
        }
    }

    fn deleted(&mut self, entry: QueueRef) {
        if self.departed.remove(&entry) {
            return;
        }
        if let Some(taken) = self.taken_by(entry) {
            taken.presence = Presence::Gone;
            taken.entry.place = (entry.jid.number(), 0);
        }
        self.entries.retain(|known| known.entry != entry);
        self.doubted.remove(&entry);
    }

    fn take(&mut self, state: JobState, now: Instant) -> Option<Candidate> {
        let first = self.first(state, now)?;
        let own = self.own_turn(&first, now);
        let since = self.passed.remove(&state).filter(|(entry, _)| *entry == first.entry).map(|(_, at)| at);
        if own.is_some() {
            self.passed.insert(state, (first.entry, since.unwrap_or(now)));
        }
        let entry = own.unwrap_or(first);
        self.entries.retain(|known| known.entry != entry.entry);
        let candidate = Candidate { entry: entry.entry, rank: self.ranks.rank(entry.entry.jid) };
        self.taken.push(Taken { entry, presence: Presence::Listed });
        Some(candidate)
    }

    fn untake(&mut self, jid: Jid) -> Option<Known> {
        let at = self.taken.iter().position(|taken| taken.entry.entry.jid == jid)?;
        let taken = self.taken.remove(at);
        (taken.presence == Presence::Listed).then_some(taken.entry)
    }

    fn aside(&mut self, jid: Jid, until: Option<Instant>, parked: Option<Reason>) -> Option<QueueRef> {
        let entry = self.untake(jid)?;
        self.doubted.remove(&entry.entry);
        self.entries.push(Known { until, parked, turn: None, ..entry.clone() });
        Some(entry.entry)
    }

    fn finished(&mut self, entry: QueueRef) {
        let event_is_due = match self.taken_by(entry).map(|taken| taken.presence) {
            Some(presence) => {
                self.untake(entry.jid);
                presence != Presence::Gone
            }
            None => self.knows(entry),
        };
        self.entries.retain(|known| known.entry != entry);
        self.doubted.remove(&entry);
        if event_is_due {
            self.departed.insert(entry);
        }
    }

    fn hand_over(&mut self, from: QueueRef, to: QueueRef, now: Instant) {
        let Some(presence) = self.taken_by(from).map(|taken| taken.presence) else { return };
        self.doubted.remove(&from);
        if presence != Presence::Gone {
            self.departed.insert(from);
        }
        let seen = self.entries.iter().position(|e| e.entry == to).map(|at| self.entries.remove(at));
        let presence = if seen.is_some() { Presence::Listed } else { Presence::Expected };
        let place = (to.jid.number(), 0);
        let new = Known { entry: to, since: now, turn: None, place, until: None, parked: None };
        if let Some(taken) = self.taken_by(from) {
            *taken = Taken { entry: seen.unwrap_or(new), presence };
        }
    }

    fn relist(&mut self, state: JobState, listed: &HashSet<QueueRef>, now: Instant) {
        self.departed.retain(|entry| entry.state != state);
        let taken = self.taken.iter().map(|taken| &taken.entry);
        let known = self.entries.iter().chain(taken).map(|known| known.entry);
        let gone =
            known.filter(|entry| entry.state == state && !listed.contains(entry) && self.knows(*entry));
        for entry in gone.collect::<Vec<_>>() {
            self.deleted(entry);
        }
        for entry in listed {
            self.created(*entry, now, None);
        }
    }

    fn unpark(&mut self, is_meant: impl Fn(&Reason) -> bool, now: Instant) {
        let meant = |e: &Known| e.parked.as_ref().is_some_and(&is_meant);
        let (free, rest) = self.entries.drain(..).partition(meant);
        self.entries = rest;
        let free: Vec<Known> = free;
        for entry in free {
            self.offer(entry, Some(now));
        }
    }

    fn date(&mut self, jid: Jid, due: Option<Instant>) {
        self.come.remove(&jid);
        let had_one = self.due(jid).is_some();
        self.dates.retain(|(_, dated)| *dated != jid);
        self.dates.extend(due.map(|due| (due, jid)));
        if due.is_some() || had_one {
            let mine = self.entries.iter_mut().filter(|entry| entry.entry.jid == jid);
            mine.for_each(|entry| entry.turn = None);
        }
    }

    fn is_next(&self, entry: QueueRef, now: Instant) -> bool {
        let known = self.entries.iter().find(|known| known.entry == entry).cloned();
        let is_aside = |known: &Known| known.until.is_some() || known.parked.is_some();
        if self.due(entry.jid).is_some() || known.as_ref().is_some_and(is_aside) {
            return false;
        }
        let taken = self.taken.iter().find(|t| t.entry.entry == entry).map(|t| t.entry.place);
        let place = taken.unwrap_or((entry.jid.number(), 0));
        let new = Known { entry, since: now, turn: None, place, until: None, parked: None };
        let own = Self::key(&known.unwrap_or(new), now);
        self.first(entry.state, now).is_none_or(|first| own <= Self::key(&first, now))
    }
}
