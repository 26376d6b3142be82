//! `ingestd demo`: the whole thing, on a machine with nothing but this program.
//!
//! A node in a directory of its own, a small server with sample deposits, one deposit of each kind. What is shown is
//! what the node answers; nothing is scripted, and if anything goes otherwise than it is told here, the demo fails. One picture is
//! served with one byte altered: its job fails, the source is repaired, the job is requeued, and the depositor gets an
//! update.
//!
//! **When things break.** The reason is the last line, and the node's log is named. The node ends with the demo.

mod deposits;
mod mail;
mod node;
mod samples;
mod source;
mod story;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

use self::node::Node;
use self::samples::Samples;
use self::source::Source;
use self::story::Story;
use super::client::Server;

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Demo {
    /// End by itself when all is told, instead of letting the node run until Ctrl-C
    #[arg(long)]
    once: bool,

    /// Keep everything in this directory, which must be empty or not there; otherwise in a temporary one, which is removed at the end
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Use this ensemble (host:port,host:port/chroot) instead of an embedded tree
    #[arg(long, value_name = "CONNECT")]
    zookeeper: Option<String>,

    /// Take the samples from this directory instead of those that ship
    #[arg(long, value_name = "DIR", hide = true)]
    samples: Option<PathBuf>,
}

impl Demo {
    pub(super) async fn run(self) -> Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("signals cannot be listened to")?;
        let temporary;
        let dir = if let Some(dir) = &self.dir {
            empty(dir).with_context(|| dir.display().to_string())?;
            std::fs::canonicalize(dir)?
        } else {
            temporary = tempfile::Builder::new().prefix("ingestd-demo-").tempdir();
            let made =
                temporary.as_ref().map_err(|error| anyhow::anyhow!("no temporary directory: {error}"))?;
            made.path().to_owned()
        };
        let samples = Samples::load(self.samples.as_deref())?;
        let source = Source::start().await?;
        let mut node = Node::start(&dir, self.zookeeper.as_deref()).await?;
        let client = Server::at(node.address.parse().context("the node's address")?).client()?;
        let story = Story { client, dir: &dir, log: node.log().to_owned(), kept: self.dir.is_some() };
        let told = tokio::select! {
            told = story.tell(&samples, &source, !self.once) => told,
            ended = node.ended() => ended,
            _ = terminate.recv() => Err(anyhow::anyhow!("told to end before all was told")),
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted before all was told")),
        };
        if told.is_ok() && !self.once {
            tokio::select! {
                ended = node.ended() => ended?,
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        let ended = node.end().await;
        told?;
        ended?;
        story.farewell()
    }
}

/// Makes a directory, or finds it empty.
fn empty(dir: &std::path::Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    anyhow::ensure!(
        std::fs::read_dir(dir)?.next().is_none(),
        "it is not empty: give the demo a directory of its own"
    );
    Ok(())
}
