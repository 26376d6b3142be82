//! A closed loop of load: each of N workers does its next step as soon as the one before is answered,
//! so N requests are in flight. What completes after a warm-up is counted. Work that is made beforehand
//! may run out: then what is measured ends there.
//!
//! Or one who makes load in rounds: then the time between them, in which the next is prepared, does not
//! count.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// One of those who make load.
pub(crate) trait Worker: Send + 'static {
    /// Does one thing that counts, and returns when it is acknowledged; or breaks, because there is
    /// nothing left to do.
    fn step(&mut self) -> impl Future<Output = Result<ControlFlow<()>>> + Send;
}

/// How long load is made, uncounted and counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

impl Span {
    /// With a warm-up that fits a measurement of this length.
    pub(crate) fn measuring(measured: Duration) -> Self {
        Self { warm_up: (measured / 2).min(Duration::from_secs(2)), measured }
    }

    /// One of so many parts.
    pub(crate) fn slice(self, of: u32) -> Self {
        Self { warm_up: self.warm_up / of, measured: self.measured / of }
    }
}

/// The one in the middle: what a moment of other work on the machine does not move.
pub(crate) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
    }
}

/// How much a span without a complete step is extended at a time.
const GRAIN: Duration = Duration::from_millis(1);

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome<W> {
    /// Steps per second of the measured time.
    pub(crate) per_s: f64,
    /// All steps that were acknowledged, those of the warm-up and of the end too.
    pub(crate) completed: u64,
    pub(crate) workers: Vec<W>,
}

#[derive(Debug, Default)]
struct Shared {
    completed: AtomicU64,
    stop: AtomicBool,
}

/// Lets all workers work for the given time, and then finish their last step. The first that fails
/// ends it.
pub(crate) async fn run<W: Worker>(workers: Vec<W>, span: Span) -> Result<Outcome<W>> {
    let shared = Arc::new(Shared::default());
    let mut tasks = JoinSet::new();
    for worker in workers {
        tasks.spawn(work(worker, shared.clone()));
    }
    let mut workers = Vec::with_capacity(tasks.len());
    workers.extend(go_on_for(span.warm_up, &mut tasks).await?);
    if !workers.is_empty() {
        bail!("there was work for less than the {:?} of the warm-up", span.warm_up);
    }
    let (start, before) = (Instant::now(), shared.completed.load(Ordering::Relaxed));
    workers.extend(go_on_for(span.measured, &mut tasks).await?);
    // On a busy machine one step can take longer than a short span: measure on until one is complete.
    while workers.is_empty() && shared.completed.load(Ordering::Relaxed) == before {
        workers.extend(go_on_for(GRAIN, &mut tasks).await?);
    }
    let (time, after) = (start.elapsed(), shared.completed.load(Ordering::Relaxed));
    shared.stop.store(true, Ordering::Relaxed);
    while let Some(worker) = tasks.join_next().await {
        workers.push(worker??);
    }
    if after == before {
        bail!("the work ran out before anything was measured");
    }
    let per_s = rate(after - before, time);
    Ok(Outcome { per_s, completed: shared.completed.load(Ordering::Relaxed), workers })
}

async fn work<W: Worker>(mut worker: W, shared: Arc<Shared>) -> Result<W> {
    while !shared.stop.load(Ordering::Relaxed) {
        if worker.step().await?.is_break() {
            break;
        }
        shared.completed.fetch_add(1, Ordering::Relaxed);
    }
    Ok(worker)
}

/// Waits; a task that ends before its time has failed, or found nothing left to do.
async fn go_on_for<W: Worker>(time: Duration, tasks: &mut JoinSet<Result<W>>) -> Result<Option<W>> {
    match timeout(time, tasks.join_next()).await {
        Err(_) => Ok(None),
        Ok(Some(ended)) => Ok(Some(ended??)),
        Ok(None) => bail!("there is nobody to make load"),
    }
}

/// One who makes load in rounds.
pub(crate) trait Rounds {
    type Round;

    /// Makes the next round ready. Its time does not count.
    async fn prepare(&mut self) -> Result<Self::Round>;

    /// Does it; returns how many things were acknowledged.
    async fn play(&mut self, round: Self::Round) -> Result<u64>;
}

/// Plays rounds until their own time has come to the given one; things per second of the measured time.
pub(crate) async fn in_rounds(player: &mut impl Rounds, span: Span) -> Result<f64> {
    let mut per_s = 0.0;
    for part in [span.warm_up, span.measured] {
        let (mut time, mut done) = (Duration::ZERO, 0);
        while time < part {
            let round = player.prepare().await?;
            let start = Instant::now();
            done += player.play(round).await?;
            time += start.elapsed();
        }
        per_s = rate(done, time);
    }
    Ok(per_s)
}

fn rate(done: u64, time: Duration) -> f64 {
    // Far below the 2^52 that a float counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let done = done as f64;
    done / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Counter {
        steps: u64,
        fail_at: u64,
        end_at: u64,
    }

    fn counter() -> Counter {
        Counter { steps: 0, fail_at: u64::MAX, end_at: u64::MAX }
    }

    impl Worker for Counter {
        async fn step(&mut self) -> Result<ControlFlow<()>> {
            if self.steps == self.end_at {
                return Ok(ControlFlow::Break(()));
            }
            self.steps += 1;
            if self.steps == self.fail_at {
                bail!("step {} failed", self.steps);
            }
            tokio::task::yield_now().await;
            Ok(ControlFlow::Continue(()))
        }
    }

    const SHORT: Span = Span { warm_up: Duration::from_millis(5), measured: Duration::from_millis(20) };

    #[tokio::test]
    async fn every_acknowledged_step_is_counted() {
        let counters = (0..3).map(|_| counter()).collect();
        let outcome = run(counters, SHORT).await.unwrap();
        assert_eq!(outcome.completed, outcome.workers.iter().map(|counter| counter.steps).sum::<u64>());
        assert!(outcome.per_s > 0.0);
    }

    /// A step that ends when the test says so, after it has said that it began.
    #[derive(Debug)]
    struct Gated {
        begun: Arc<tokio::sync::Semaphore>,
        may_end: Arc<tokio::sync::Semaphore>,
    }

    impl Worker for Gated {
        async fn step(&mut self) -> Result<ControlFlow<()>> {
            self.begun.add_permits(1);
            // There is never a permit: it waits until the gate is closed, and from then on for nothing.
            let _closed = self.may_end.acquire().await;
            tokio::task::yield_now().await;
            Ok(ControlFlow::Continue(()))
        }
    }

    #[tokio::test]
    async fn a_span_that_is_shorter_than_a_step_goes_on_until_a_step_is_complete() {
        let gate = || Arc::new(tokio::sync::Semaphore::new(0));
        let (begun, may_end) = (gate(), gate());
        let running =
            tokio::spawn(run(vec![Gated { begun: begun.clone(), may_end: may_end.clone() }], SHORT));
        begun.acquire().await.unwrap().forget();
        // Longer than the whole span: only a span that waits for its first step is still under way then.
        ingest_harness::let_pass(4 * (SHORT.warm_up + SHORT.measured)).await;
        assert!(!running.is_finished());
        may_end.close();
        let outcome = running.await.unwrap().unwrap();
        assert!(outcome.per_s > 0.0 && outcome.completed >= 1, "{outcome:?}");
    }

    #[tokio::test]
    async fn a_failed_step_ends_the_load_with_its_reason() {
        let counters = vec![counter(), Counter { fail_at: 3, ..counter() }];
        let until_it_fails = Span { warm_up: Duration::ZERO, measured: Duration::from_hours(1) };
        let error = run(counters, until_it_fails).await.unwrap_err();
        assert_eq!(error.to_string(), "step 3 failed");
    }

    #[tokio::test]
    async fn load_ends_when_nothing_is_left_to_do() {
        let never = Span { warm_up: Duration::ZERO, measured: Duration::from_hours(1) };
        let counters = vec![counter(), Counter { end_at: 100_000, ..counter() }];
        let outcome = run(counters, never).await.unwrap();
        assert_eq!(outcome.workers.len(), 2);
        assert_eq!(outcome.completed, outcome.workers.iter().map(|counter| counter.steps).sum::<u64>());
    }

    #[tokio::test]
    async fn work_that_ends_within_the_warm_up_gives_no_number() {
        let span = Span { warm_up: Duration::from_hours(1), measured: Duration::from_secs(1) };
        let error = run(vec![Counter { end_at: 3, ..counter() }], span).await.unwrap_err();
        assert!(error.to_string().contains("of the warm-up"), "{error}");
    }

    struct Slow(Duration);

    impl Rounds for Slow {
        type Round = u64;

        async fn prepare(&mut self) -> Result<u64> {
            self.0 += Duration::from_millis(1);
            Ok(5)
        }

        async fn play(&mut self, round: u64) -> Result<u64> {
            ingest_harness::let_pass(Duration::from_millis(1)).await;
            Ok(round)
        }
    }

    #[tokio::test]
    async fn rounds_are_played_until_their_own_time_is_over() {
        let mut slow = Slow(Duration::ZERO);
        let per_s = in_rounds(&mut slow, SHORT).await.unwrap();
        assert!(per_s > 0.0 && per_s <= 5_000.0, "{per_s}");
        assert!(slow.0 <= SHORT.warm_up + SHORT.measured + Duration::from_millis(2), "{:?}", slow.0);
    }

    #[test]
    fn the_middle_is_not_moved_by_the_ends() {
        assert!((middle(vec![3.0, 1.0, 900.0]) - 3.0).abs() < 1e-9);
        assert!((middle(vec![0.0, 4.0, 2.0, 900.0]) - 3.0).abs() < 1e-9);
        assert!(middle(Vec::new()).is_nan());
    }

    #[test]
    fn a_short_measurement_has_a_shorter_warm_up() {
        assert_eq!(Span::measuring(Duration::from_secs(10)).warm_up, Duration::from_secs(2));
        assert_eq!(Span::measuring(Duration::from_secs(1)).warm_up, Duration::from_millis(500));
    }
}
