//! What is measured while the node works: counters and histograms, for whoever asks.
//!
//! Labels are names of states, pools and feeds, and reasons: there are few, whatever comes.

use std::sync::Arc;
use std::time::Duration;

use ingest_queue::committer;
use ingest_queue::states::{JobState, States as _};
use ingest_steps::feed::Round;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type OfState = [(&'static str, &'static str); 1];
type OfMove = [(&'static str, &'static str); 2];
type OfDeath = [(&'static str, String); 2];
type OfFeed = [(&'static str, String); 1];
type OfItem = [(&'static str, String); 2];

/// The meters of a node.
#[derive(Debug)]
pub struct Meters {
    /// Moves are counted where they are committed, whoever makes them.
    committed: Arc<committer::Counts>,
    steps: Family<OfState, Histogram>,
    waiting: Family<OfState, Histogram>,
    bytes: Family<OfState, Counter>,
    retries: Family<OfState, Counter>,
    restarts: Family<OfDeath, Counter>,
    commits: Histogram,
    items: Family<OfItem, Counter>,
    feed_errors: Family<OfFeed, Counter>,
    poisoned: Counter,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            committed: Arc::default(),
            // 5 ms to an hour and a half, and 100 ms to a day and more.
            steps: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.005, 4.0, 11))),
            waiting: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.1, 4.0, 11))),
            bytes: Family::default(),
            retries: Family::default(),
            restarts: Family::default(),
            // 1 ms to a minute.
            commits: Histogram::new(exponential_buckets(0.001, 4.0, 9)),
            items: Family::default(),
            feed_errors: Family::default(),
            poisoned: Counter::default(),
        }
    }
}

fn of(state: JobState) -> OfState {
    [("state", state.name())]
}

impl Meters {
    pub(crate) fn new(committed: Arc<committer::Counts>) -> Self {
        Self { committed, ..Self::default() }
    }

    /// Names all of them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        let transitions = Family::<OfMove, Counter>::default();
        for ((from, to), count) in self.committed.moves() {
            transitions.get_or_create(&[("from", from.name()), ("to", to.name())]).inc_by(count);
        }
        registry.register("transitions", "Jobs that this node has moved", transitions);
        registry.register("step_seconds", "How long the work of a state took", self.steps.clone());
        registry.register(
            "waiting_seconds",
            "How long jobs waited in a state before this node took them",
            self.waiting.clone(),
        );
        registry.register("bytes", "Bytes that steps have worked on", self.bytes.clone());
        registry.register(
            "retries",
            "Steps that ended without a transition, to be tried again",
            self.retries.clone(),
        );
        registry.register("restarts", "Actors that were started again", self.restarts.clone());
        registry.register(
            "commit_seconds",
            "How long the tree took to commit what came of a step",
            self.commits.clone(),
        );
        let items = "Items of feeds that were consumed here: made into a batch, known before, or passed over";
        registry.register("feed_items", items, self.items.clone());
        registry.register("feed_errors", "Feeds that could not be asked", self.feed_errors.clone());
        registry.register(
            "poisoned_jobs",
            "Jobs that failed because they crashed or stalled their worker too often",
            self.poisoned.clone(),
        );
    }

    pub(crate) fn poisoned(&self) {
        self.poisoned.inc();
    }

    pub(crate) fn stepped(&self, state: JobState, took: Duration, bytes: u64) {
        self.steps.get_or_create(&of(state)).observe(took.as_secs_f64());
        self.bytes.get_or_create(&of(state)).inc_by(bytes);
    }

    /// The tree has answered to the commit of a transition.
    pub(crate) fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    /// A job was taken out of the queue, after it had waited for so long.
    pub(crate) fn taken(&self, state: JobState, waited: Option<Duration>) {
        if let Some(waited) = waited {
            self.waiting.get_or_create(&of(state)).observe(waited.as_secs_f64());
        }
    }

    /// A feed was asked, and what it said was consumed.
    pub(crate) fn consumed(&self, feed: &str, round: &Round) {
        let counts = [("taken", round.taken), ("known", round.known), ("skipped", round.skipped)];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            self.items.get_or_create(&[("feed", feed.to_owned()), ("became", what.to_owned())]).inc_by(count);
        }
    }

    pub(crate) fn feed_failed(&self, feed: &str) {
        self.feed_errors.get_or_create(&[("feed", feed.to_owned())]).inc();
    }

    pub(crate) fn given_back(&self, state: JobState) {
        self.retries.get_or_create(&of(state)).inc();
    }

    pub(crate) fn restarted(&self, pool: Option<&str>, reason: &str) {
        let pool = pool.unwrap_or_default().to_owned();
        self.restarts.get_or_create(&[("pool", pool), ("reason", reason.to_owned())]).inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn everything_that_is_counted_is_told_under_its_name() {
        let meters = Meters::default();
        meters.committed.moved(JobState::Estimating, JobState::Provisioning);
        meters.taken(JobState::Provisioning, Some(Duration::from_secs(2)));
        meters.taken(JobState::Pending, None);
        meters.stepped(JobState::Downloading, Duration::from_secs(1), 7);
        meters.given_back(JobState::Recording);
        meters.restarted(Some("notify"), "panic");
        meters.restarted(None, "error");
        meters.committed(Duration::from_millis(5));
        let (mut registry, mut text) = (Registry::with_prefix("ingestd"), String::new());
        meters.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        for line in [
            "ingestd_transitions_total{from=\"estimating\",to=\"provisioning\"} 1",
            "ingestd_step_seconds_count{state=\"downloading\"} 1",
            "ingestd_waiting_seconds_sum{state=\"provisioning\"} 2.0",
            "ingestd_bytes_total{state=\"downloading\"} 7",
            "ingestd_retries_total{state=\"recording\"} 1",
            "ingestd_restarts_total{pool=\"notify\",reason=\"panic\"} 1",
            "ingestd_restarts_total{pool=\"\",reason=\"error\"} 1",
            "ingestd_commit_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
