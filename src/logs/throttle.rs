//! Against floods: the same message of the same callsite is written so often in a window, and then only counted.
//!
//! When the window is over, at the next event of anybody, a line says how often it was repeated. What is remembered is
//! bounded; if there are more different messages than that in a window, the oldest is told early and forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Metadata;
use tracing::callsite::Identifier;

use super::settings;

/// Messages that are remembered.
const MOST: usize = 1_000;

/// Letters of a message that are remembered.
const LONGEST: usize = 300;

/// Targets whose lines are all written: each is a record of its own.
const EXEMPT: [&str; 1] = ["ingest_actors::restart_log"];

/// What was counted, to be told.
#[derive(Debug, Clone)]
pub(super) struct Repeated {
    pub metadata: &'static Metadata<'static>,
    pub message: String,
    pub times: u64,
}

/// What becomes of an event.
#[derive(Debug)]
pub(super) struct Verdict {
    pub write: bool,
    /// Told before it.
    pub before: Vec<Repeated>,
}

#[derive(Debug)]
pub(super) struct Throttle {
    state: Mutex<State>,
    hasher: RandomState,
}

#[derive(Debug)]
struct State {
    settings: settings::Throttle,
    seen: HashMap<(Identifier, u64), Seen>,
    /// When the first window ends in which anything was held back.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    metadata: &'static Metadata<'static>,
    message: String,
    began: Instant,
    written: u32,
    held_back: u64,
}

impl Seen {
    fn repeated(&self) -> Option<Repeated> {
        let Self { metadata, message, held_back: times, .. } = self;
        (*times > 0).then(|| Repeated { metadata, message: message.clone(), times: *times })
    }

    fn is_over(&self, within: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= within
    }
}

impl Throttle {
    pub(super) fn new(settings: settings::Throttle) -> Self {
        let state = State { settings, seen: HashMap::new(), due: None };
        Self { state: Mutex::new(state), hasher: RandomState::new() }
    }

    /// From now on. Windows that have begun are judged by it, too.
    pub(super) fn set(&self, settings: settings::Throttle) {
        let mut state = self.state.lock();
        state.settings = settings;
        // Looked at anew with the next event.
        state.due = state.seen.values().any(|seen| seen.held_back > 0).then(Instant::now);
    }

    pub(super) fn judge(&self, metadata: &'static Metadata<'static>, message: &str, now: Instant) -> Verdict {
        if EXEMPT.contains(&metadata.target()) {
            return Verdict { write: true, before: Vec::new() };
        }
        let key = (metadata.callsite(), self.hasher.hash_one(message));
        self.state.lock().judge(key, metadata, message, now)
    }

    /// Everything that was held back.
    pub(super) fn take_all(&self) -> Vec<Repeated> {
        let mut state = self.state.lock();
        state.due = None;
        state.seen.drain().filter_map(|(_, seen)| seen.repeated()).collect()
    }
}

impl State {
    fn judge(
        &mut self,
        key: (Identifier, u64),
        metadata: &'static Metadata<'static>,
        message: &str,
        now: Instant,
    ) -> Verdict {
        let settings::Throttle { times, within } = self.settings;
        let mut before = if self.due.is_some_and(|due| due <= now) { self.sweep(now) } else { Vec::new() };
        if times == 0 {
            return Verdict { write: true, before };
        }
        if !self.seen.contains_key(&key) && self.seen.len() >= MOST {
            before.extend(self.make_room(now));
        }
        let seen = self.seen.entry(key).or_insert_with(|| Seen {
            metadata,
            message: message.chars().take(LONGEST).collect(),
            began: now,
            written: 0,
            held_back: 0,
        });
        if seen.is_over(within, now) {
            before.extend(seen.repeated());
            (seen.began, seen.written, seen.held_back) = (now, 0, 0);
        }
        let write = seen.written < times;
        if write {
            seen.written += 1;
        } else {
            seen.held_back += 1;
            let end = seen.began + within;
            self.due = Some(self.due.map_or(end, |due| due.min(end)));
        }
        Verdict { write, before }
    }

    /// Forgets what is over, and returns what of it was held back.
    fn sweep(&mut self, now: Instant) -> Vec<Repeated> {
        let settings::Throttle { times, within } = self.settings;
        let mut over = Vec::new();
        self.seen.retain(|_, seen| {
            let keep = times > 0 && !seen.is_over(within, now);
            if !keep {
                over.extend(seen.repeated());
            }
            keep
        });
        let held_back = self.seen.values().filter(|seen| seen.held_back > 0);
        self.due = held_back.map(|seen| seen.began + within).min();
        over
    }

    fn make_room(&mut self, now: Instant) -> Vec<Repeated> {
        let mut told = self.sweep(now);
        if self.seen.len() >= MOST {
            let oldest = self.seen.iter().min_by_key(|(_, seen)| seen.began).map(|(key, _)| key.clone());
            told.extend(oldest.and_then(|key| self.seen.remove(&key)).and_then(|seen| seen.repeated()));
        }
        told
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.seen.len()
    }
}
