//! How properties are run: seeded, shrinking, and as often as asked for.

use std::fmt::Debug;
use std::future::Future;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// `INGESTD_CASES`, or so many.
pub(crate) fn cases(default: u32) -> u32 {
    number("INGESTD_CASES").map_or(default, |cases| u32::try_from(cases).unwrap())
}

/// Runs so many cases; the one that fails is made as small as it can be.
pub(crate) fn check<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value) -> Result<(), String>)
where
    S::Value: Debug,
{
    let seed = number("INGESTD_SEED").unwrap_or(0);
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let run = |value| property(value).map_err(TestCaseError::fail);
    match TestRunner::new_with_rng(config, rng).run(strategy, run) {
        Ok(()) => {}
        Err(TestError::Fail(why, value)) => panic!("{why}\n(seed {seed}) with {value:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Runs a future to its end, on a clock that moves only when everything waits.
pub(crate) fn complete<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}
