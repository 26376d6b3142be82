//! Listing, counting and bulk actions, on both engines.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod batches;
mod bulk;
mod bulk_stopped;
mod cost;
mod kept;
mod paging;
mod planted;
mod selecting;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../../../store/tests/support/tree.rs"]
mod tree;
mod unreadable;
