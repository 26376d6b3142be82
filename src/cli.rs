//! The command line: a command a file.
//!
//! | to find | look in |
//! |---|---|
//! | how commands end, and the exit codes | [`exit`] |
//! | what speaks to a node | [`client`] |
//! | what people read | [`screen`], [`progress`] |
//! | whether it is meant | [`confirm`] |

mod access;
mod audit;
mod audit_log;
mod batch;
mod client;
mod completions;
mod config;
mod confirm;
mod demo;
mod exit;
mod export;
mod feeds;
mod follow;
mod fsck;
mod hold;
mod job;
mod limits;
mod many;
mod nodes;
mod pools;
mod progress;
mod request;
mod restarts;
mod run;
mod screen;
mod shared;
mod states;
mod stats;
mod submit;
mod user;
mod whose;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use ingest_queue::dialect::Dialect;

/// The exit code of every command that was given a configuration with problems.
const BAD_CONFIGURATION: u8 = 3;

#[derive(Debug, Parser)]
#[command(name = "ingestd", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Command {
    /// Run a node: take jobs and do their work until told to end
    Run(run::Run),
    /// Show what there is, on a tree in a temporary directory
    Demo(demo::Demo),
    /// Hand over a file, a directory, a URL or a manifest
    Submit(submit::Submit),
    /// Look at batches, and act on them
    #[command(subcommand)]
    Batch(batch::Batch),
    /// Look at jobs, and act on one or on many
    #[command(subcommand)]
    Job(job::Job),
    /// Hold a queue or a collection
    #[command(subcommand)]
    Hold(hold::Hold),
    /// Let a queue or a collection go on
    #[command(subcommand)]
    Release(hold::Release),
    /// Look at feeds, and act on them
    #[command(subcommand)]
    Feeds(feeds::Feeds),
    /// Let a node take nothing new
    Pause(nodes::Mode),
    /// Let a paused node take work again
    Resume(nodes::Mode),
    /// Let a node end when what runs there is done
    Drain(nodes::Drain),
    /// Show how many work on each state, and change it
    Pools(pools::Pools),
    /// Show how many are worked on at a time over all nodes, and change it
    Limits(limits::LimitsCommand),
    /// Show when each cleanup routine last ran, and run one now
    Upkeep(limits::Upkeep),
    /// Ask for stored objects, and fetch them
    #[command(subcommand)]
    Access(access::Access),
    /// List the nodes that live
    Nodes(nodes::Nodes),
    /// Show what waited and what ended over time, in the whole cluster
    Stats(stats::Stats),
    /// Ask something of the nodes by the tree, without HTTP
    Request(request::Request),
    /// List what was asked so, and what came of it
    Requests(request::Requests),
    /// Look at profiles, and share them with all nodes
    #[command(subcommand)]
    Profile(shared::Profile),
    /// Look at the settings of the whole cluster, and change them
    #[command(subcommand)]
    Settings(shared::Settings),
    /// Print the moment of the cluster, for `--ltime` of a command that asks another node
    Ltime(shared::Ltime),
    /// List which actors were started again, and why
    Restarts(restarts::Restarts),
    /// List who has done what through the API
    AuditLog(audit_log::AuditLog),
    /// Print the states that jobs, batches and access items have, and who moves them
    States(states::Print),
    /// Check every invariant of the tree, and repair it
    Fsck(fsck::Fsck),
    /// Compare stored objects with their digests and with the inventory
    Audit(audit::Audit),
    /// Save a batch's whole record as a BagIt bag
    Export(export::Export),
    /// Look at the configuration
    #[command(subcommand)]
    Config(config::Config),
    /// Print what completes commands in a shell
    Completions(completions::Completions),
    /// Write the pages for man
    Man(completions::Man),
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

/// All commands, with the exit codes in the help.
fn command() -> clap::Command {
    let mut codes = screen::Records::default();
    for (code, means) in exit::CODES {
        codes.add(&format!("  {code}"), means);
    }
    let help = format!("Exit codes:\n{}", screen::Screen::stdout().help(&codes));
    Arguments::command().after_long_help(help.clone()).after_help(help)
}

pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::from_arg_matches(&command().get_matches()) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(&anyhow::anyhow!(error).context("no threads to run on")),
    };
    let done = runtime.block_on(arguments.command.run());
    // What still waits for a terminal or a disk does not keep the process.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failed(&error),
    }
}

impl Command {
    async fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Run(run) => run.run().await,
            Command::Demo(demo) => demo.run().await,
            Command::Submit(submit) => submit.run().await,
            Command::Batch(batch) => batch.run().await,
            Command::Job(job) => job.run().await,
            Command::Hold(hold) => hold.run().await,
            Command::Release(release) => release.run().await,
            Command::Feeds(feeds) => feeds.run().await,
            Command::Pause(mode) => mode.run("pause").await,
            Command::Resume(mode) => mode.run("resume").await,
            Command::Drain(drain) => drain.run().await,
            Command::Pools(pools) => pools.run().await,
            Command::Limits(limits) => limits.run().await,
            Command::Upkeep(upkeep) => upkeep.run().await,
            Command::Access(access) => access.run().await,
            Command::Nodes(nodes) => nodes.run().await,
            Command::Stats(stats) => stats.run().await,
            Command::Request(request) => request.run().await,
            Command::Requests(requests) => requests.run().await,
            Command::Profile(profile) => profile.run().await,
            Command::Settings(settings) => settings.run().await,
            Command::Ltime(ltime) => ltime.run().await,
            Command::Restarts(restarts) => restarts.run().await,
            Command::AuditLog(log) => log.run().await,
            Command::States(print) => print.run(),
            Command::Fsck(fsck) => fsck.run().await,
            Command::Audit(audit) => audit.run().await,
            Command::Export(export) => export.run().await,
            Command::Config(config) => config.run().await,
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that print what no program reads, or nothing at all.
    const PLAIN: [&str; 3] = ["ingestd run", "ingestd demo", "ingestd completions"];

    fn leaves(command: &clap::Command, name: &str, found: &mut Vec<(String, bool)>) {
        let children: Vec<_> = command.get_subcommands().filter(|child| child.get_name() != "help").collect();
        let has_json = command.get_arguments().any(|argument| argument.get_id() == "json");
        if children.is_empty() || has_json {
            found.push((name.to_owned(), has_json));
        }
        for child in children {
            leaves(child, &format!("{name} {}", child.get_name()), found);
        }
    }

    #[test]
    fn every_command_can_answer_in_json() {
        let (mut command, mut found) = (command(), Vec::new());
        command.build();
        leaves(&command, "ingestd", &mut found);
        assert!(found.len() > 40, "{found:?}");
        let without: Vec<&str> =
            found.iter().filter(|(_, has_json)| !has_json).map(|(name, _)| name.as_str()).collect();
        assert_eq!(without, PLAIN);
    }

    fn unexplained(command: &clap::Command, name: &str, found: &mut Vec<String>) {
        let arguments = command.get_arguments().filter(|argument| argument.get_help().is_none());
        found.extend(arguments.map(|argument| format!("{name} {}", argument.get_id())));
        if command.get_about().is_none() {
            found.push(name.to_owned());
        }
        for child in command.get_subcommands().filter(|child| child.get_name() != "help") {
            unexplained(child, &format!("{name} {}", child.get_name()), found);
        }
    }

    #[test]
    fn every_command_and_every_argument_says_what_it_is() {
        let (mut command, mut found) = (command(), Vec::new());
        command.build();
        unexplained(&command, "ingestd", &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
