//! What the index takes: that of a million waiting jobs fits in 300 MB.
//!
//! Measured as the memory of this process, which therefore does nothing else: one test, one thing after another. The
//! count is smaller; what an entry takes does not grow with it, but for the depth of its trees.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use ingest_queue::ids::Jid;
use ingest_queue::index::{Index, Listing, Reason, Settings};
use ingest_queue::map::{Priority, QueueRef};
use ingest_queue::states::JobState;
use tokio::time::Instant;

const WAITING: u32 = 200_000;
const STATE: JobState = JobState::Pending;
/// 300 MB for a million.
const BYTES_PER_ENTRY: u64 = 300;

/// The memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

fn filled() -> Index {
    let mut index = Index::new(Settings::default());
    let entry = |number| QueueRef::new(STATE, Priority::DEFAULT, Jid::new(number));
    index.relist(&Listing::new(STATE, (0..WAITING).map(entry)), Instant::now());
    assert_eq!(index.waiting(STATE), WAITING as usize);
    index
}

/// All of them wait for the same, as when the whole queue is held.
fn park_all(index: &mut Index) {
    let now = Instant::now();
    while let Some(candidate) = index.take(STATE, now) {
        assert!(index.park(candidate.entry.jid, Reason::Other("held".to_owned())));
    }
    assert_eq!(index.counts(STATE).parked, WAITING as usize);
}

#[test]
fn a_million_jobs_in_line_or_put_aside_fit_in_300_mb() {
    let before = resident();
    let mut index = filled();
    let in_line = resident().saturating_sub(before) / u64::from(WAITING);
    // What was taken for the line is given back piece by piece, and taken again: together they are the most.
    park_all(&mut index);
    let put_aside = resident().saturating_sub(before) / u64::from(WAITING);
    println!("{in_line} bytes an entry in line, {put_aside} put aside");
    assert!((10..=BYTES_PER_ENTRY).contains(&in_line), "{in_line} bytes an entry in line");
    assert!((10..=BYTES_PER_ENTRY).contains(&put_aside), "{put_aside} bytes an entry put aside");
}
