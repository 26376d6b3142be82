//! Fetching from servers that behave badly.

mod addresses;
mod bad_server;
mod kit;
mod limits;
mod resume;
mod retries;
mod sizes;
mod whole;
