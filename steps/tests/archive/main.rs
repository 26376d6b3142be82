//! Archives as depositors send them, and as attackers would.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod damage;
mod kinds;
mod limits;
mod links;
mod made;
mod names;
mod packing;
mod zips;
