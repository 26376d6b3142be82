//! A whole node, on both engines: every payload kind from its submission to its report.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod kit;
mod whole;
