//! What the check of a tree finds, what it leaves alone, and what a repair makes of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod cluster;
mod corrupt;
mod counters;
mod dangling;
mod faults;
mod half_moved;
mod healthy;
mod live;
mod planted;
mod put_aside;
mod snapshot;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../../../store/tests/support/tree.rs"]
mod tree;

use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::{self, Options, Outcome, Repaired, Report};
use ingest_store::Session;

const BOTH: [Dialect; 2] = [Dialect::Design, Dialect::MrtZk];

pub(crate) async fn check(session: &Session, dialect: Dialect) -> Report {
    fsck::check(session, &Options::new(dialect), &mut |_| ()).await.unwrap()
}

/// Code and path of everything that is found.
pub(crate) async fn found(session: &Session, dialect: Dialect) -> Vec<(&'static str, String)> {
    let report = check(session, dialect).await;
    report.findings.into_iter().map(|finding| (finding.code.text(), finding.path)).collect()
}

pub(crate) async fn repair(session: &Session, dialect: Dialect) -> Vec<Repaired> {
    let report = check(session, dialect).await;
    fsck::repair(session, &Options::new(dialect), &report, &mut |_| ()).await.unwrap()
}

/// Repairs, and expects everything to be put right.
pub(crate) async fn repair_all(session: &Session, dialect: Dialect) {
    let repaired = repair(session, dialect).await;
    for repaired in &repaired {
        assert!(matches!(repaired.outcome, Outcome::Fixed | Outcome::Gone), "{repaired}");
    }
    fsck::clean(session, dialect).await.unwrap();
}
