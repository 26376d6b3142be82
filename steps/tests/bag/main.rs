//! Bags of every version, right and wrong in one thing each.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod declaration;
mod fetch;
mod finding;
mod made;
mod manifests;
mod writing;
