//! Nodes in this process: whole runs, the supervision tree, and every way in which a part of a node can fail.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod again;
mod ending;
mod escalation;
mod holds;
#[allow(dead_code, reason = "not all tests are there yet")]
mod kit;
#[path = "../../../steps/tests/whole/made.rs"]
mod made;
mod panics;
mod resize;
mod room;
mod sessions;
mod several;
mod stalls;
mod tree;
#[allow(dead_code, reason = "not all tests are there yet")]
mod trick;
mod whole;
