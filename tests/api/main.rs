//! The HTTP API, spoken to as others do: a node is a process of its own, on a port that was free.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod access;
mod acting;
mod audited;
mod document;
mod events;
mod files;
mod fuzz;
mod hostile;
mod kit;
mod leaving;
mod limits;
mod load;
mod monitoring;
mod node;
mod peers;
mod reading;
mod requests;
mod rights;
mod roles;
#[path = "../kit/running.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod running;
mod security;
mod submitting;
mod traces;
mod tree_away;
