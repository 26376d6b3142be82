//! `ingestd profile`, `ingestd settings` and `ingestd ltime`: what all nodes share by the tree.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Map, Value};

use super::client::Server;
use super::confirm::Confirm;
use super::exit::Failed;
use super::screen::{Cell, Column, Screen, Table};
use crate::api::wire::{
    ChangeSettings, ClusterSettings, Moment, ProfileList, PutProfile, SharedChanged, SharedProfile,
};

/// Profiles.
#[derive(Debug, Subcommand)]
pub(super) enum Profile {
    /// List the profiles that deposits can be for
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Show a profile as it is in the tree
    Show {
        /// The profile's name
        name: String,
        #[command(flatten)]
        server: Server,
    },
    /// Put a profile into the tree, for all nodes (see profiles.source)
    Put {
        /// The file; its name without `.toml` is the profile's
        file: PathBuf,
        #[command(flatten)]
        server: Server,
    },
    /// Remove a profile from the tree; jobs that were made with it end with it
    Delete {
        /// The profile's name
        name: String,
        #[command(flatten)]
        confirm: Confirm,
        #[command(flatten)]
        server: Server,
    },
}

/// Settings of the whole cluster.
#[derive(Debug, Subcommand)]
pub(super) enum Settings {
    /// Show what is set for all nodes, and where the node that answers has its values from
    Show {
        #[command(flatten)]
        server: Server,
    },
    /// Set keys for all nodes: KEY=VALUE
    Set {
        /// A key of the configuration, and what it is to be: JSON or a text
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        server: Server,
    },
    /// Leave keys to each node's own configuration again
    Unset {
        /// A key that was set
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        #[command(flatten)]
        server: Server,
    },
}

/// What `ingestd ltime` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Ltime {
    #[command(flatten)]
    server: Server,
}

impl Ltime {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let moment: Moment = client.send(client.post(&["ltime"])).await?;
        if self.server.json() {
            return self.server.output().print(&moment);
        }
        Screen::stdout().plain(&format!("{}\n", moment.ltime))
    }
}

impl Profile {
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Profile::List { server } => list(&server).await,
            Profile::Show { name, server } => {
                let client = server.client()?;
                let found: SharedProfile = client.send(client.get(&["profiles", &name])).await?;
                if server.json() {
                    return server.output().print(&found);
                }
                let at = found.at.map(|at| format!(" at {at}")).unwrap_or_default();
                let head =
                    format!("# version {}, {}, put by {}{at}\n", found.version, found.digest, found.who);
                Screen::stdout().plain(&format!("{head}{}", found.text))
            }
            Profile::Put { file, server } => {
                let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
                let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                let client = server.client()?;
                let ask = client.ask(Method::PUT, &["profiles", stem]).json(&PutProfile { text })?;
                changed(&server, &client.send(ask).await?)
            }
            Profile::Delete { name, confirm, server } => {
                confirm.can_be_asked("deleting a profile")?;
                confirm.ask(
                    &format!("Delete the profile {name}"),
                    "It goes from the tree, for all nodes: where no file has it too, deposits for it are refused. Jobs \
                     that were made with it end with it.",
                )?;
                let client = server.client()?;
                changed(&server, &client.send(client.ask(Method::DELETE, &["profiles", &name])).await?)
            }
        }
    }
}

async fn list(server: &Server) -> Result<()> {
    let client = server.client()?;
    let list: ProfileList = client.send(client.get(&["profiles"])).await?;
    if server.json() {
        return server.output().print(&list);
    }
    let mut table = Table::new([
        Column::word("PROFILE"),
        Column::word("COLLECTION"),
        Column::text("TITLE"),
        Column::number("PRIORITY"),
        Column::word("FROM"),
    ]);
    for profile in &list.profiles {
        let from = profile.version.map_or_else(|| "file".to_owned(), |version| format!("tree, {version}"));
        table.row([
            Cell::new(&profile.name),
            Cell::new(&profile.collection),
            Cell::new(&profile.title),
            Cell::new(profile.priority.to_string()),
            Cell::new(from),
        ]);
    }
    let screen = Screen::stdout();
    if table.is_empty() { screen.say("There are no profiles.") } else { screen.table(&table) }
}

fn changed(server: &Server, changed: &SharedChanged) -> Result<()> {
    if server.json() {
        return server.output().print(changed);
    }
    let what = if changed.kind == "profile" {
        format!("The profile {}", changed.name)
    } else {
        "The settings".to_owned()
    };
    let are = if changed.kind == "profile" { "is" } else { "are" };
    Screen::stdout().say(&match changed.version {
        None => format!("{what} {are} gone."),
        Some(version) if changed.changed => format!("{what} {are} version {version} now."),
        Some(version) => format!("{what} {are} version {version}, as before."),
    })
}

impl Settings {
    pub(super) async fn run(self) -> Result<()> {
        match self {
            Settings::Show { server } => show(&server).await,
            Settings::Set { settings, server } => {
                let mut set = Map::new();
                for setting in &settings {
                    let wrong = || Failed::Usage(format!("`{setting}`: it looks like KEY=VALUE"));
                    let (key, value) = setting.split_once('=').ok_or_else(wrong)?;
                    let value =
                        serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
                    set.insert(key.trim().to_owned(), value);
                }
                change(&server, &ChangeSettings { set, unset: Vec::new() }).await
            }
            Settings::Unset { keys, server } => {
                change(&server, &ChangeSettings { set: Map::new(), unset: keys }).await
            }
        }
    }
}

async fn change(server: &Server, asked: &ChangeSettings) -> Result<()> {
    let client = server.client()?;
    let ask = client.ask(Method::PATCH, &["settings"]).json(asked)?;
    changed(server, &client.send(ask).await?)
}

async fn show(server: &Server) -> Result<()> {
    let client = server.client()?;
    let found: ClusterSettings = client.send(client.get(&["settings"])).await?;
    if server.json() {
        return server.output().print(&found);
    }
    let screen = Screen::stdout();
    if found.settings.is_empty() {
        screen.say("Nothing is set for the whole cluster.")?;
    }
    let mut table =
        Table::new([Column::word("KEY"), Column::text("VALUE"), Column::text("THIS NODE HAS IT FROM")]);
    for (key, value) in &found.settings {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let source = found.sources.get(key).map_or("the default", String::as_str);
        table.row([Cell::new(key), Cell::new(value), Cell::new(source)]);
    }
    if !table.is_empty() {
        screen.table(&table)?;
    }
    if found.mark != found.applied {
        let (tree, here) = (&found.mark, &found.applied);
        screen.say(&format!("The tree has {tree}, and this node runs {here}: its log says why."))?;
    }
    Ok(())
}
