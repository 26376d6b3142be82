//! `ingestd config`: what holds, and what is wrong with it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use serde_json::json;

use crate::config::{self, Checked, Environment, Problems};

/// The command's commands.
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Print the configuration that holds, and everything that is wrong with it
    Check(Check),
}

#[derive(Debug, clap::Args)]
pub(super) struct Check {
    /// The file; otherwise that of `INGESTD_CONFIG`, config/ingestd.toml or /etc/ingestd/ingestd.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print json
    #[arg(long)]
    json: bool,
}

/// The configuration has so many problems.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has {0} {problems}", problems = if *.0 == 1 { "problem" } else { "problems" })]
pub(super) struct Wrong(pub usize);

impl Config {
    pub(super) fn run(self) -> Result<()> {
        match self {
            Config::Check(check) => check.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<()> {
        let Checked { effective, problems, .. } =
            config::check(self.config.as_deref(), &Environment::of_process());
        if self.json {
            let sources: serde_json::Map<_, _> =
                effective.sources().into_iter().map(|(key, source)| (key, source.into())).collect();
            let all = json!({ "effective": effective.json(), "sources": sources, "problems": problems });
            println!("{}", serde_json::to_string_pretty(&all)?);
            return if problems.is_empty() { Ok(()) } else { Err(Wrong(problems.len()).into()) };
        }
        print!("{}", effective.text());
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems).into()) }
    }
}
