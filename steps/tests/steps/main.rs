//! The steps on a queue and on services of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod check;
mod admit;
mod assemble;
mod breaking;
mod callback;
mod conclude;
mod expand;
mod expand_faults;
mod fixture;
mod admit;
mod faults;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../minter/service.rs"]
mod ezid;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../kit/mod.rs"]
mod kit;
mod tell;
mod made;
mod process;
mod process_faults;
mod record;
#[allow(dead_code, unused_imports, unused_macros, reason = "each suite uses its part of it")]
#[path = "../../../store/tests/support/tree.rs"]
mod tree;
