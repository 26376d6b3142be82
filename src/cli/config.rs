//! `ingestd config`: what holds, and what is wrong with it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use serde_json::json;

use super::client::{Output, Server};
use super::request::{TreeOption, told};
use super::screen::{Cell, Column, Screen, Table};
use crate::api::wire::ClusterSettings;
use crate::config::{self, Checked, Cluster, Environment, KeyLine, Problems};

/// What stands below a configuration that is that of a node alone.
const NOT_LOOKED: &str = "The settings of the cluster were not looked at: --cluster lays them over the file.";

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

    /// Lay the settings of the cluster over the file, as a node does; a node is asked for them, or the tree with --tree
    #[arg(long)]
    cluster: bool,

    #[command(flatten)]
    at: TreeOption,

    #[command(flatten)]
    server: Server,
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
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Config::Check(check) => check.run().await,
            Config::Keys(keys) => keys.run(),
        }
    }
}

impl Check {
    async fn run(self) -> Result<()> {
        let looked = if self.cluster { Some(self.look().await?) } else { None };
        let environment = Environment::of_process();
        let Checked { effective, problems, .. } = match looked.as_ref().and_then(Option::as_ref) {
            Some(cluster) => config::check_with(self.config.as_deref(), &environment, cluster),
            None => config::check(self.config.as_deref(), &environment),
        };
        if self.server.json() {
            let sources: serde_json::Map<_, _> =
                effective.sources().into_iter().map(|(key, source)| (key, source.into())).collect();
            let mark =
                looked.as_ref().map(|found| found.as_ref().map_or("-", |cluster| cluster.mark.as_str()));
            let all = json!({
                "effective": effective.json(), "sources": sources, "problems": problems,
                "cluster": { "looked": looked.is_some(), "mark": mark },
            });
            self.server.output().print(&all)?;
            return if problems.is_empty() { Ok(()) } else { Err(Wrong(problems.len()).into()) };
        }
        let last = match &looked {
            None => NOT_LOOKED.to_owned(),
            Some(None) => "Nothing is set for the whole cluster.".to_owned(),
            Some(Some(cluster)) => format!("With the settings of the cluster, {}.", cluster.mark),
        };
        Screen::stdout().text(&format!("{}# {last}\n", effective.text()))?;
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems).into()) }
    }
}

impl Check {
    /// The settings of the cluster, if there are any.
    async fn look(&self) -> Result<Option<Cluster>> {
        if let Some((queue, session)) = self.at.open().await? {
            let found = queue.shared_settings().await.map_err(told);
            let _ = session.close().await;
            return Ok(found?.map(|found| Cluster { mark: found.mark(), text: found.text }));
        }
        let client = self.server.client()?;
        let found: ClusterSettings = client.send(client.get(&["settings"])).await?;
        if found.settings.is_empty() {
            return Ok(None);
        }
        let mut table = toml::Table::new();
        for (key, value) in &found.settings {
            insert(&mut table, &key.split('.').collect::<Vec<_>>(), toml::Value::try_from(value)?);
        }
        Ok(Some(Cluster { mark: found.mark, text: toml::to_string(&table)? }))
    }
}

fn insert(table: &mut toml::Table, path: &[&str], value: toml::Value) {
    match path {
        [] => {}
        [last] => {
            table.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = table.entry((*first).to_owned()).or_insert_with(|| toml::Table::new().into());
            if let toml::Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
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
