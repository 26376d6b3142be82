//! The steps on a queue and on services of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod admit;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../archive/made.rs"]
mod archives;
mod assemble;
#[allow(dead_code, reason = "each suite uses its part of it")]
mod breaking;
mod callback;
mod check;
mod clean;
mod conclude;
mod download;
mod download_again;
mod download_containers;
mod estimate;
mod expand;
mod expand_faults;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../minter/service.rs"]
mod ezid;
mod faults;
mod feeds;
mod fixture;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../kit/mod.rs"]
mod kit;
mod made;
mod process;
mod process_faults;
mod record;
mod restored;
mod rights;
mod tell;
#[allow(dead_code, unused_imports, unused_macros, reason = "each suite uses its part of it")]
#[path = "../../../store/tests/support/tree.rs"]
mod tree;
mod unrecorded;
mod updates;
