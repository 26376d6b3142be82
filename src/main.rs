//! `ingestd`: the process. The command line is in [`cli`], one command a file.

mod cli;
#[allow(dead_code, reason = "the daemon uses the rest")]
mod config;
#[allow(dead_code, reason = "the daemon uses it")]
mod logs;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
