//! Against floods: the same message of the same callsite about the same subject is written so often in a window, and
//! then only counted.
//!
//! The subject is what the [`SUBJECTS`] among the fields of the event and of the spans around it say. Messages about two jobs
//! are never counted as one, so whoever looks for a job in the log finds every kind of line about it.
//!
//! When the window is over, at the next event of anybody, a line says how often it was repeated, with the subject. What
//! is remembered is bounded; if there is more than that in a window, the oldest that nothing was counted of is forgotten, and
//! after those the oldest is told early and forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Metadata;
use tracing::callsite::Identifier;

use super::settings;

/// Messages that are remembered.
const MOST: usize = 1_000;

/// Fields that say what an event is about. Others (an error, a count, a pause) may differ from one repetition to the next.
pub(super) const SUBJECTS: [&str; 16] = [
    "job", "jid", "batch", "bid", "feed", "item", "aid", "ark", "request", "id", "node", "actor", "pool",
    "name", "alert", "holder",
];

/// The subjects of an event, each once, in the order of [`SUBJECTS`].
pub(super) type About = Vec<(&'static str, String)>;

/// Letters of a message, and of a subject, that are remembered.
const LONGEST: usize = 300;

/// Targets whose lines are all written: each is a record of its own.
const EXEMPT: [&str; 1] = ["ingest_actors::restart_log"];

/// What was counted, to be told.
#[derive(Debug, Clone)]
pub(super) struct Repeated {
    pub metadata: &'static Metadata<'static>,
    pub message: String,
    pub about: About,
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
    about: About,
    began: Instant,
    written: u32,
    held_back: u64,
}

impl Seen {
    fn repeated(&self) -> Option<Repeated> {
        let Self { metadata, message, about, held_back: times, .. } = self;
        (*times > 0).then(|| Repeated {
            metadata,
            message: message.clone(),
            about: about.clone(),
            times: *times,
        })
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

    pub(super) fn judge(
        &self,
        metadata: &'static Metadata<'static>,
        message: &str,
        about: About,
        now: Instant,
    ) -> Verdict {
        if EXEMPT.contains(&metadata.target()) {
            return Verdict { write: true, before: Vec::new() };
        }
        let mut hasher = self.hasher.build_hasher();
        message.hash(&mut hasher);
        about.hash(&mut hasher);
        self.state.lock().judge((metadata.callsite(), hasher.finish()), metadata, message, about, now)
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
        about: About,
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
            about: about
                .into_iter()
                .map(|(name, value)| (name, value.chars().take(LONGEST).collect()))
                .collect(),
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
            // What repeats stays, or many others would let it be written again and again.
            let oldest = self.seen.iter().min_by_key(|(_, seen)| (seen.held_back > 0, seen.began));
            let oldest = oldest.map(|(key, _)| key.clone());
            told.extend(oldest.and_then(|key| self.seen.remove(&key)).and_then(|seen| seen.repeated()));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use tracing::{Subscriber, subscriber};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;

    struct Catch(Mutex<Option<&'static Metadata<'static>>>);

    impl<S: Subscriber> Layer<S> for &'static Catch {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            *self.0.lock() = Some(event.metadata());
        }
    }

    fn metadata() -> &'static Metadata<'static> {
        let catch: &'static Catch = Box::leak(Box::new(Catch(Mutex::new(None))));
        subscriber::with_default(tracing_subscriber::Registry::default().with(catch), || {
            tracing::error!("x");
        });
        catch.0.lock().take().unwrap()
    }

    const WINDOW: Duration = Duration::from_mins(1);

    fn throttle(times: u32) -> Throttle {
        Throttle::new(settings::Throttle { times, within: WINDOW })
    }

    fn judge(
        throttle: &Throttle,
        metadata: &'static Metadata<'static>,
        message: &str,
        now: Instant,
    ) -> Verdict {
        throttle.judge(metadata, message, About::new(), now)
    }

    fn told(verdict: &Verdict) -> Vec<(&str, u64)> {
        verdict.before.iter().map(|repeated| (repeated.message.as_str(), repeated.times)).collect()
    }

    #[test]
    fn a_new_window_begins_with_what_the_old_one_held_back() {
        let (throttle, metadata, start) = (throttle(2), metadata(), Instant::now());
        let writes = |seconds| judge(&throttle, metadata, "full", start + Duration::from_secs(seconds)).write;
        assert_eq!([0, 1, 2, 59].map(writes), [true, true, false, false]);
        let next = judge(&throttle, metadata, "full", start + WINDOW);
        assert!(next.write);
        assert_eq!(told(&next), [("full", 2)]);
        assert_eq!(
            told(&judge(&throttle, metadata, "full", start + 3 * WINDOW)),
            [],
            "nothing was held back"
        );
    }

    #[test]
    fn another_event_after_the_window_tells_it_too() {
        let (throttle, metadata, start) = (throttle(1), metadata(), Instant::now());
        judge(&throttle, metadata, "full", start);
        judge(&throttle, metadata, "full", start);
        let early = judge(&throttle, metadata, "other", start + WINDOW / 2);
        assert_eq!(told(&early), []);
        let late = judge(&throttle, metadata, "another", start + WINDOW);
        assert_eq!(told(&late), [("full", 1)]);
        assert_eq!(throttle.take_all().len(), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_nothing_counted_is_lost() {
        let (throttle, metadata, start) = (throttle(1), metadata(), Instant::now());
        let mut counted = 0;
        for number in 0..3 * MOST {
            let message = format!("{number}{}", "x".repeat(2 * LONGEST));
            for _ in 0..2 {
                let now = start + Duration::from_millis(number as u64);
                let about = vec![("job", format!("{number}{}", "x".repeat(2 * LONGEST)))];
                counted += throttle.judge(metadata, &message, about, now).before.len();
            }
        }
        assert!(throttle.state.lock().seen.len() <= MOST);
        let left = throttle.take_all();
        assert_eq!(counted + left.len(), 3 * MOST);
        assert!(left.iter().all(|repeated| repeated.message.len() <= LONGEST));
        assert!(left.iter().all(|repeated| repeated.about[0].1.len() == LONGEST));
    }

    #[test]
    fn what_repeats_is_held_back_among_any_number_of_others() {
        let (throttle, metadata, start) = (throttle(1), metadata(), Instant::now());
        let mut written = 0;
        for number in 0..3 * MOST {
            for _ in 0..2 {
                written += usize::from(judge(&throttle, metadata, "the disk is full", start).write);
            }
            let about = vec![("job", number.to_string())];
            assert!(throttle.judge(metadata, "failed", about, start).write, "{number}");
        }
        assert_eq!(written, 1);
        assert!(throttle.state.lock().seen.len() <= MOST);
    }
}
