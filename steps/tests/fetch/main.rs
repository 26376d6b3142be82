//! Fetching from servers that behave badly.

#![allow(clippy::unwrap_used, reason = "a test ends where its ground is missing")]

mod addresses;
mod anything;
#[path = "../kit/clock.rs"]
mod clock;
mod codings;
mod kit;
mod limits;
mod resume;
mod retries;
mod sizes;
mod tls;
mod whole;
