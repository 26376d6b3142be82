//! `ingestd`: the process.
//!
//! | to find | look in |
//! |---|---|
//! | the commands, one a file | [`cli`] |
//! | the HTTP API | [`api`] |
//! | the dashboard | [`dashboard`] |
//! | the configuration: read, judged, shown | [`config`] |
//! | changes of it on the disk | [`changes`] |
//! | the logs | [`logs`] |
//! | traces, for a collector | [`traces`] |
//! | what a service manager is told | [`systemd`] |
//! | what the fuzzer tries | `fuzzed` |
//!
//! A library only so that the fuzzer can reach it: the program is [`main`] and nothing else.

#![allow(rustdoc::private_intra_doc_links, reason = "those who read this work on it")]

mod api;
mod changes;
mod cli;
mod config;
mod dashboard;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzed;
mod logs;
mod systemd;
mod traces;

use std::process::ExitCode;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    cli::main()
}
