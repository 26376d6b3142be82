//! The audit of stored objects: the verdict on everything that can be damaged, in a storage and in the inventory.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

mod covered;
mod fixture;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../storage/objects.rs"]
mod objects;
#[allow(dead_code, unused_imports, unused_macros, reason = "each suite uses its part of it")]
#[path = "../inventory/place.rs"]
mod place;
mod rows;
#[allow(dead_code, reason = "each suite uses its part of it")]
#[path = "../inventory/server.rs"]
mod server;
mod stored;
mod table;
mod union;
