//! Whole runs: from a submission to its report, through every step, with the services that a configuration
//! chooses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod backends;
mod callback_service;
mod every_kind;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../minter/service.rs"]
mod ezid;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../kit/mod.rs"]
mod kit;
#[allow(dead_code, reason = "each suite uses its part of it")]
mod made;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../inventory/server.rs"]
mod postgres;
mod storage_service;
#[allow(dead_code, unused_imports, unused_macros, reason = "each suite uses its part of it")]
#[path = "../../../store/tests/support/tree.rs"]
mod tree;
mod walk;
