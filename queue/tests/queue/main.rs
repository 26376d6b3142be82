//! The queue on both engines: every transition, races, zombies, and faults at every call.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod access;
mod batches;
mod dialect;
mod ends;
mod every_fault;
mod every_transition;
mod feeds;
mod holds;
mod jobs;
mod journal;
mod limits;
mod names;
mod races;
mod reports;
mod requests;
mod retention;
mod scheduled;
mod shared;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../../../store/tests/support/tree.rs"]
mod tree;
mod world;
mod zombies;
