//! `ingestd access submit` and `get`.
//!
//! **When things break.** A file appears under its name only when it is whole, and never over another, unless that is
//! meant. What is not there yet is exit code 8, or waited for: the node says when to ask again.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use reqwest::header::{CONTENT_DISPOSITION, RETRY_AFTER};
use reqwest::{Response, StatusCode};

use crate::api::wire::{AccessPending, AccessRequest, AccessRequested};
use crate::cli::client::{Client, Server};
use crate::cli::exit::Failed;
use crate::cli::screen::Screen;
use crate::cli::{progress, words};

/// How often a node that does not say when is asked.
const AGAIN: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Submit {
    /// The object
    ark: String,

    /// Its version; otherwise the newest
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,

    /// As `zip` or as `bag`
    #[arg(long, value_name = "FORM")]
    form: Option<String>,

    /// Wait until it is there, and fetch it
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    to: To,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// What was given to whoever asked
    token: String,

    /// Wait until it is there
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    to: To,

    #[command(flatten)]
    server: Server,
}

/// Where a file goes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct To {
    /// Where to: a file, a directory, or - for stdout; otherwise here, under its own name
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Replace a file that is there
    #[arg(long)]
    overwrite: bool,
}

impl Submit {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let request = AccessRequest { ark: self.ark, version: self.version, form: self.form };
        let asked: AccessRequested = client.send(client.post(&["access"]).json(&request)?).await?;
        if self.server.json() {
            self.server.output().line(&asked)?;
        } else {
            let AccessRequested { token, ark, version, bytes, anticipated, .. } = &asked;
            Screen::stdout().say(&format!(
                "{ark} version {version}, {}, is expected at {}. Its token:",
                words::bytes(*bytes),
                words::date(Some(*anticipated)),
            ))?;
            Screen::stdout().plain(&format!("{token}\n"))?;
        }
        if self.wait { get(&client, &asked.token, true, &self.to, &self.server).await } else { Ok(()) }
    }
}

impl Get {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        get(&client, &self.token, self.wait, &self.to, &self.server).await
    }
}

async fn get(client: &Client, token: &str, wait: bool, to: &To, server: &Server) -> Result<()> {
    let bar = progress::waiting("it is being put together");
    let answer = loop {
        let answer = client.answer(client.get(&["access", token]).patient()).await?;
        if answer.status() != StatusCode::ACCEPTED {
            break answer;
        }
        let after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        if !wait {
            let pending: AccessPending = client.read(answer).await?;
            let when = words::date(pending.anticipated);
            let when = if when.is_empty() { String::new() } else { format!(", and is expected at {when}") };
            bail!(Failed::NotYet(format!("it is {}{when}: try again then, or say --wait", pending.state)));
        }
        tokio::time::sleep(after.map_or(AGAIN, Duration::from_secs)).await;
    };
    bar.finish_and_clear();
    let name = own_name(&answer).unwrap_or_else(|| "object.zip".to_owned());
    save(client, answer, &name, to, server).await
}

/// Writes an answer's body to a file, and says where.
pub(crate) async fn save(
    client: &Client,
    answer: Response,
    name: &str,
    to: &To,
    server: &Server,
) -> Result<()> {
    let bar = progress::bytes(answer.content_length(), "receiving");
    let mut stream = answer.bytes_stream();
    if to.output.as_deref() == Some(Path::new("-")) {
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| client.unreachable(error))?;
            std::io::stdout().write_all(&piece).context("stdout")?;
            bar.inc(piece.len() as u64);
        }
        bar.finish_and_clear();
        return Ok(std::io::stdout().flush()?);
    }
    let path = match &to.output {
        None => PathBuf::from(name),
        Some(path) if path.is_dir() => path.join(name),
        Some(path) => path.clone(),
    };
    let shown = path.display().to_string();
    let exists = || Failed::Usage(format!("{shown} is there already: say --output, or --overwrite"));
    if !to.overwrite && path.exists() {
        bail!(exists());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut part = tempfile::NamedTempFile::new_in(parent).with_context(|| parent.display().to_string())?;
    let mut bytes = 0;
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| client.unreachable(error))?;
        part.write_all(&piece).with_context(|| shown.clone())?;
        bytes += piece.len() as u64;
        bar.inc(piece.len() as u64);
    }
    bar.finish_and_clear();
    part.as_file().sync_all().with_context(|| shown.clone())?;
    if to.overwrite {
        part.persist(&path).with_context(|| shown.clone())?;
    } else {
        let kept = part.persist_noclobber(&path);
        kept.map_err(|error| {
            let there = error.error.kind() == std::io::ErrorKind::AlreadyExists;
            if there {
                anyhow::Error::from(exists())
            } else {
                anyhow::Error::from(error.error).context(shown.clone())
            }
        })?;
    }
    if server.json() {
        return server.output().line(&serde_json::json!({ "file": shown, "bytes": bytes }));
    }
    Screen::stdout().say(&format!("{shown}: {}", words::bytes(bytes)))
}

/// The name that the node gives it, without any directory.
fn own_name(answer: &Response) -> Option<String> {
    let header = answer.headers().get(CONTENT_DISPOSITION)?.to_str().ok()?;
    let name = header.split(';').find_map(|part| part.trim().strip_prefix("filename="))?;
    let name = name.trim_matches('"');
    let name = name.rsplit(['/', '\\']).next()?;
    let odd = name.is_empty() || name.starts_with('.') || name.chars().any(char::is_control);
    (!odd).then(|| name.to_owned())
}
