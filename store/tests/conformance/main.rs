//! One tree, two engines: every behaviour here is promised by the embedded engine and by a real
//! ZooKeeper server alike.
//!
//! Each module lists its behaviours, and `on_both_engines!` makes a test of each on both engines:
//! `deleting::embedded::…` and `deleting::zookeeper::…`. Whoever adds a behaviour that only one of
//! them has, has found a bug.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../support/tree.rs"]
mod tree;

mod concurrency;
mod counters;
mod creating;
mod deleting;
mod ephemerals;
mod exists_watches;
mod judge;
mod limits;
mod making_dirs;
mod multi;
mod multi_refused;
mod reading;
mod sessions;
mod setting;
mod tree_watches;
mod watch_ends;
mod watches_together;
