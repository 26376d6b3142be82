//! Finding the next job, on both engines and under faults.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod breaking;
mod dates;
mod finding;
mod locked;
mod queues;
mod timing;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../../../store/tests/support/tree.rs"]
mod tree;
