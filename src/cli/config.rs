//! `ingestd config`: what holds, and what is wrong with it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use serde_json::json;

use super::client::Output;
use super::screen::{Cell, Column, Screen, Table};
use crate::config::{self, Checked, Environment, KeyLine, Problems};

/// The command's commands.
#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Print the configuration that holds, and everything that is wrong with it
    Check(Check),
    /// List all keys, with their defaults and what they do
    Keys(Keys),
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

#[derive(Debug, clap::Args)]
pub(super) struct Keys {
    /// Keys that begin with this
    prefix: Option<String>,

    /// Print the page on the configuration instead, in Markdown
    #[arg(long, conflicts_with_all = ["json", "prefix"])]
    markdown: bool,

    #[command(flatten)]
    output: Output,
}

/// The configuration has so many problems.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has {0} {problems}", problems = if *.0 == 1 { "problem" } else { "problems" })]
pub(super) struct Wrong(pub usize);

impl Config {
    pub(super) fn run(self) -> Result<()> {
        match self {
            Config::Check(check) => check.run(),
            Config::Keys(keys) => keys.run(),
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

impl Keys {
    fn run(self) -> Result<()> {
        let screen = Screen::stdout();
        if self.markdown {
            return screen.plain(&config::page());
        }
        let prefix = self.prefix.unwrap_or_default();
        let keys: Vec<KeyLine> =
            config::key_lines().into_iter().filter(|line| line.key.starts_with(&prefix)).collect();
        if self.output.json {
            return self.output.print(&json!({ "keys": keys }));
        }
        if keys.is_empty() {
            return screen.say(&format!("No key begins with `{prefix}`."));
        }
        let mut table = Table::new([
            Column::text("KEY"),
            Column::word("KIND").minor(),
            Column::text("DEFAULT"),
            Column::word("HOLDS").minor(),
            Column::text("EFFECT"),
        ]);
        for key in &keys {
            let default = match &key.default {
                Some(default) => default.as_str(),
                None if key.required => "(to be given)",
                None => "(absent)",
            };
            table.row([
                Cell::new(&key.key),
                Cell::new(key.kind.as_deref().unwrap_or_default()),
                Cell::new(default),
                Cell::new(if key.live { "at once" } else { "restart" }),
                Cell::new(&key.effect),
            ]);
        }
        screen.table(&table)
    }
}
