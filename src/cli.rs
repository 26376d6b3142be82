//! The command line.
//!
//! Exit codes: 0 done, 1 it failed (the reason is the last line on stderr), 2 the command itself was
//! wrong, 3 the configuration is wrong (every problem is a line on stderr). `run` has more: see [`run`].

mod config;
mod demo;
mod fsck;
mod run;
mod states;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use ingest_queue::dialect::Dialect;

use crate::config::Problems;

/// The exit code of every command that was given a configuration with problems.
const BAD_CONFIGURATION: u8 = 3;

#[derive(Debug, Parser)]
#[command(name = "ingestd", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node: take jobs and do their work until told to end
    Run(run::Run),
    /// Show what there is, on a tree in a temporary directory
    Demo(demo::Demo),
    /// Print the states that jobs, batches and access items have, and who moves them
    States(states::Print),
    /// Check every invariant of the tree, and repair it
    Fsck(fsck::Fsck),
    /// Look at the configuration
    #[command(subcommand)]
    Config(config::Config),
}

/// How the tree is written.
#[derive(Debug, Clone, Copy, clap::Args)]
struct DialectOption {
    /// The dialect of the tree
    #[arg(long, value_enum, default_value = "design")]
    dialect: DialectName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DialectName {
    Design,
    MrtZk,
}

impl DialectOption {
    fn get(self) -> Dialect {
        match self.dialect {
            DialectName::Design => Dialect::Design,
            DialectName::MrtZk => Dialect::MrtZk,
        }
    }
}

pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::anyhow!(error).context("no threads to run on")),
    };
    let done = runtime.block_on(async {
        match arguments.command {
            Command::Run(run) => run.run().await,
            Command::Demo(demo) => demo.run().await,
            Command::States(print) => print.run(),
            Command::Fsck(fsck) => fsck.run().await,
            Command::Config(config) => config.run(),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    if let Some(problems) = error.downcast_ref::<Problems>() {
        eprintln!("{problems}");
        return failed(&config::Wrong(problems.0.len()).into());
    }
    eprintln!("ingestd: {error:#}");
    if let Some(ended) = error.downcast_ref::<run::Ended>() {
        return ExitCode::from(ended.code());
    }
    if error.is::<config::Wrong>() { ExitCode::from(BAD_CONFIGURATION) } else { ExitCode::FAILURE }
}
