//! The command line.
//!
//! Exit codes: 0 done, 1 it failed (the reason is the last line on stderr), 2 the command itself was
//! wrong.

mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "ingestd", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what there is, on a tree in a temporary directory
    Demo(demo::Demo),
}

pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::anyhow!(error).context("no threads to run on")),
    };
    let done = runtime.block_on(async {
        match arguments.command {
            Command::Demo(demo) => demo.run().await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("ingestd: {error:#}");
    ExitCode::FAILURE
}
