//! The recipes, on both engines and under faults.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod every_fault;
mod given_up;
mod lock_table;
mod lost_answers;
mod ltime;
mod queues;
mod semaphore;
mod shard;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../support/tree.rs"]
mod tree;
