//! `ingestd run` as processes: killed, stopped, told, restarted, on servers that go and come.
//!
//! The short counts fit into some minutes. `INGESTD_KILL_SECONDS`, `INGESTD_IDLE_SECONDS` and `INGESTD_OUTAGE_SECONDS`
//! make the tests longer whose subject is time; `INGESTD_SEED` repeats who was killed when.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]
mod alone;
mod api;
mod behind;
mod changes;
mod checks;
mod ends;
mod feeds;
mod idle;
mod killed;
mod kit;
mod limits;
mod logs;
mod place;
mod restored;
mod servers;
mod service;
mod shared;
mod stopped;
mod taken_over;
