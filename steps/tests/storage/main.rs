//! Where objects are kept, from outside: what is stored, read back, audited, and what a kill leaves.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod http;
mod kill;
mod objects;
mod ocfl;
mod power;
mod s3;
mod s3_faults;
