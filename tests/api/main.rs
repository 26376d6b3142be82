//! The HTTP API, spoken to as others do: a node is a process of its own, on a port that was free.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod access;
mod acting;
mod document;
mod events;
mod files;
mod kit;
mod monitoring;
mod node;
mod reading;
mod security;
mod submitting;
mod tree_away;
