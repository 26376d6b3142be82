//! Every command, run as an operator runs it, against a node that is a process of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod access;
mod batches;
mod feeds;
mod jobs;
#[allow(
    dead_code,
    unused_imports,
    clippy::wrong_self_convention,
    clippy::duration_suboptimal_units,
    reason = "the tests of the API use the rest"
)]
#[path = "../api/kit.rs"]
mod kit;
mod many;
mod node;
mod ran;
mod requests;
#[path = "../kit/running.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod running;
mod submitting;
mod terminal;
mod tree;
mod usage;
mod width;
