//! What was done and what it was seen to have done; what was found broken.
//!
//! A fault without a witness is no fault: a node that was killed while it did nothing proves nothing. Such ones are
//! counted apart, and a run with too few witnesses of a kind has failed, whatever else it shows.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::kind::{KINDS, Kind};

/// What became of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It hit, and this was seen.
    Witnessed(String),
    /// It was made, and nothing proves that it hit.
    Missed(String),
}

/// How often a kind was made and seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) made: usize,
    pub(crate) witnessed: usize,
}

/// The book of a run.
#[derive(Debug)]
pub(crate) struct Witnesses {
    began: Instant,
    counts: Mutex<BTreeMap<Kind, Count>>,
    breaches: Mutex<Vec<String>>,
}

impl Witnesses {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), counts: Mutex::default(), breaches: Mutex::default() }
    }

    /// Since the beginning of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// A line of progress.
    pub(crate) fn tell(&self, what: &str) {
        eprintln!("chaos: {:>6.1}s {what}", self.elapsed().as_secs_f64());
    }

    pub(crate) fn enter(&self, kind: Kind, outcome: &Outcome) {
        let (mark, seen, what) = match outcome {
            Outcome::Witnessed(what) => ("", 1, what),
            Outcome::Missed(what) => ("no witness: ", 0, what),
        };
        {
            let mut counts = self.counts.lock();
            let count = counts.entry(kind).or_default();
            count.made += 1;
            count.witnessed += seen;
        }
        if kind != Kind::BadServer {
            self.tell(&format!("{}: {mark}{what}", kind.name()));
        }
    }

    /// Something that must never be.
    pub(crate) fn breach(&self, what: impl Into<String>) {
        let what = what.into();
        self.tell(&format!("BROKEN: {what}"));
        self.breaches.lock().push(what);
    }

    pub(crate) fn breaches(&self) -> Vec<String> {
        self.breaches.lock().clone()
    }

    pub(crate) fn count(&self, kind: Kind) -> Count {
        self.counts.lock().get(&kind).copied().unwrap_or_default()
    }

    /// How many faults have had a witness.
    pub(crate) fn seen(&self) -> usize {
        self.counts.lock().values().map(|count| count.witnessed).sum()
    }

    /// The kinds that were seen too rarely, as breaches.
    pub(crate) fn judge_minimum(&self, kinds: &[Kind], length: Duration) {
        for line in KINDS.iter().filter(|line| kinds.contains(&line.kind)) {
            let (seen, minimum) = (self.count(line.kind).witnessed, line.kind.minimum(length));
            if seen < minimum {
                self.breach(format!("too few witnesses: {}: {seen} of at least {minimum}", line.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_without_a_witness_does_not_count() {
        let (book, length) = (Witnesses::new(), Duration::from_secs(30));
        book.enter(Kind::Kill, &Outcome::Missed("it did nothing".into()));
        book.judge_minimum(&[Kind::Kill], length);
        assert_eq!(book.breaches(), ["too few witnesses: kill -9: 0 of at least 1"]);
        book.enter(Kind::Kill, &Outcome::Witnessed("2 locks".into()));
        assert_eq!(book.count(Kind::Kill), Count { made: 2, witnessed: 1 });
        let enough = Witnesses::new();
        enough.enter(Kind::Kill, &Outcome::Witnessed("2 locks".into()));
        enough.judge_minimum(&[Kind::Kill], length);
        assert!(enough.breaches().is_empty());
    }
}
