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

mod api;
mod changes;
mod cli;
mod config;
mod dashboard;
mod logs;
mod systemd;
mod traces;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
