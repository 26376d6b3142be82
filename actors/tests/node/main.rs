//! Nodes in this process: whole runs, the supervision tree, and every way in which a part of a node can fail.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod again;
mod cluster;
mod counted;
mod ending;
mod errors;
mod escalation;
mod feeds;
mod free_names;
mod holds;
mod journal;
mod kit;
mod limits;
#[path = "../../../steps/tests/whole/made.rs"]
mod made;
mod panics;
mod peers;
mod recorder;
mod requests;
mod resize;
mod room;
mod sessions;
mod settling;
mod several;
mod stalls;
mod tree;
mod trick;
mod unknown;
mod upkeep;
mod uploads;
mod waiting;
mod whole;
