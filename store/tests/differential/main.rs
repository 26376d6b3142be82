//! The embedded engine against a real ZooKeeper server: random sequences of operations, and every
//! answer, error, counter, event and the final tree must be the same.
//!
//! `INGESTD_SEQUENCES=N` sets how many sequences are run, `INGESTD_SEED=S` runs sequence S alone and
//! prints it step by step.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod canon;
mod coverage;
mod generate;
mod side;

use futures::StreamExt;
use ingest_harness::Server;

use coverage::Coverage;
use generate::Generator;
use side::Side;

const STEPS: usize = 45;
const SEQUENCES: u64 = 240;
/// How many sequences run side by side: both engines answer more when asked by more.
const AT_A_TIME: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_engine_cannot_be_told_from_a_zookeeper_server() {
    let only = number("INGESTD_SEED");
    let seeds = only.map_or(0..number("INGESTD_SEQUENCES").unwrap_or(SEQUENCES), |seed| seed..seed + 1);
    let server = Server::shared().await;
    let mut coverage = Coverage::default();
    let mut runs = futures::stream::iter(seeds)
        .map(|seed| tokio::spawn(run(seed, server, only.is_some())))
        .buffer_unordered(AT_A_TIME);
    while let Some(run) = runs.next().await {
        match run.unwrap() {
            Ok(of_run) => coverage.add(&of_run),
            Err(difference) => panic!("{difference}"),
        }
    }
    println!("{coverage}");
    if only.is_none() {
        coverage.assert_complete();
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// One sequence; an error says where the engines differ and how to see it again.
async fn run(seed: u64, server: &'static Server, loud: bool) -> Result<Coverage, String> {
    let dir = tempfile::tempdir().unwrap();
    let mut embedded = Side::embedded(dir.path()).await;
    let mut zookeeper = Side::zookeeper(server).await;
    let mut generator = Generator::new(seed);
    let mut coverage = Coverage::default();
    let mut log = Vec::new();
    let differs = |log: &[String], ours: String, theirs: String| {
        let steps = log.join("\n  ");
        format!(
            "seed {seed} (INGESTD_SEED={seed} runs it alone):\n  {steps}\nembedded:  {ours}\nzookeeper: {theirs}"
        )
    };
    for number in 0..STEPS {
        let step = generator.next();
        if loud {
            println!("{number:3} {step:?}");
        }
        log.push(format!("{number:3} {step:?}"));
        let ours = embedded.take(&step).await;
        let theirs = zookeeper.take(&step).await;
        if ours != theirs {
            return Err(differs(&log, format!("{ours:?}"), format!("{theirs:?}")));
        }
        coverage.count(&step, &ours);
        generator.learn(&step, &ours);
    }
    let (ours, theirs) = (embedded.end().await, zookeeper.end().await);
    if ours != theirs {
        return Err(differs(&log, format!("{ours:#?}"), format!("{theirs:#?}")));
    }
    Ok(coverage)
}

#[test]
fn a_seed_is_replayed_as_it_was() {
    let steps = |seed| {
        let mut generator = Generator::new(seed);
        (0..STEPS).map(|_| format!("{:?}", generator.next())).collect::<Vec<_>>()
    };
    assert_eq!(steps(7), steps(7));
    assert_ne!(steps(7), steps(8));
}
