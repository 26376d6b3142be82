//! The embedded engine dies at random moments, and afterwards the tree holds exactly what was
//! acknowledged, plus at most what was in flight, whole.
//!
//! - `killed`: a child process that is killed with SIGKILL. What the operating system had is kept.
//! - `power`: a disk that forgets, at the moment of the cut, any part of what was not synced.
//!
//! `INGESTD_CRASHES=N` sets how often each dies.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod killed;
mod lossy_disk;
mod power;
mod workload;

/// How often to die: fewer times by default, all of them in the long run.
fn crashes(default: u32) -> u32 {
    std::env::var("INGESTD_CRASHES").map_or(default, |text| text.parse().expect("a number"))
}
