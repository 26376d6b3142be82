//! A closed loop of load: each of N workers does its next step as soon as the one before is answered,
//! so N requests are in flight. What completes after a warm-up is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// One of those who make load.
pub(crate) trait Worker: Send + 'static {
    /// Does one thing that counts; returns when it is acknowledged.
    fn step(&mut self) -> impl Future<Output = Result<()>> + Send;
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
}

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
    go_on_for(span.warm_up, &mut tasks).await?;
    let (start, before) = (Instant::now(), shared.completed.load(Ordering::Relaxed));
    go_on_for(span.measured, &mut tasks).await?;
    let (time, after) = (start.elapsed(), shared.completed.load(Ordering::Relaxed));
    shared.stop.store(true, Ordering::Relaxed);
    let mut workers = Vec::with_capacity(tasks.len());
    while let Some(worker) = tasks.join_next().await {
        workers.push(worker??);
    }
    if after == before {
        bail!("nothing was completed in {time:?}");
    }
    // Far below the 2^52 that a float counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let per_s = (after - before) as f64 / time.as_secs_f64();
    Ok(Outcome { per_s, completed: shared.completed.load(Ordering::Relaxed), workers })
}

async fn work<W: Worker>(mut worker: W, shared: Arc<Shared>) -> Result<W> {
    while !shared.stop.load(Ordering::Relaxed) {
        worker.step().await?;
        shared.completed.fetch_add(1, Ordering::Relaxed);
    }
    Ok(worker)
}

/// Waits; a task that ends before its time has failed.
async fn go_on_for<W: Worker>(time: Duration, tasks: &mut JoinSet<Result<W>>) -> Result<()> {
    match timeout(time, tasks.join_next()).await {
        Err(_) => Ok(()),
        Ok(Some(ended)) => ended?.and(Ok(())),
        Ok(None) => bail!("there is nobody to make load"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Counter {
        steps: u64,
        fail_at: u64,
    }

    impl Worker for Counter {
        async fn step(&mut self) -> Result<()> {
            self.steps += 1;
            if self.steps == self.fail_at {
                bail!("step {} failed", self.steps);
            }
            tokio::task::yield_now().await;
            Ok(())
        }
    }

    const SHORT: Span = Span { warm_up: Duration::from_millis(5), measured: Duration::from_millis(20) };

    #[tokio::test]
    async fn every_acknowledged_step_is_counted() {
        let counters = (0..3).map(|_| Counter { steps: 0, fail_at: u64::MAX }).collect();
        let outcome = run(counters, SHORT).await.unwrap();
        assert_eq!(outcome.completed, outcome.workers.iter().map(|counter| counter.steps).sum::<u64>());
        assert!(outcome.per_s > 0.0);
    }

    #[tokio::test]
    async fn a_failed_step_ends_the_load_with_its_reason() {
        let counters = vec![Counter { steps: 0, fail_at: u64::MAX }, Counter { steps: 0, fail_at: 3 }];
        let error = run(counters, SHORT).await.unwrap_err();
        assert_eq!(error.to_string(), "step 3 failed");
    }

    #[test]
    fn a_short_measurement_has_a_shorter_warm_up() {
        assert_eq!(Span::measuring(Duration::from_secs(10)).warm_up, Duration::from_secs(2));
        assert_eq!(Span::measuring(Duration::from_secs(1)).warm_up, Duration::from_millis(500));
    }
}
