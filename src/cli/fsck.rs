//! `ingestd fsck`: are all invariants of the tree kept? And, with `--repair`, put right what is not.
//!
//! Where a node runs it is asked; with `--embedded` or `--zookeeper` the tree is opened directly.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use ingest_queue::fsck::{self, Code, Options, Progress};
use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Store};
use reqwest::Method;

use super::client::Server;
use super::exit::Failed;
use super::progress;
use super::screen::Screen;
use crate::api::wire::{self, FsckLine};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Fsck {
    /// Open the tree on this ensemble (host:port,host:port/chroot) directly
    #[arg(long, value_name = "CONNECT", conflicts_with = "embedded")]
    zookeeper: Option<String>,

    /// Open the tree in this directory directly; its daemon must not be running
    #[arg(long, value_name = "DIR")]
    embedded: Option<PathBuf>,

    /// Put right what is safe to put right, and put aside what nobody can read
    #[arg(long)]
    repair: bool,

    /// Print the table of findings that there are, and nothing else
    #[arg(long)]
    codes: bool,

    #[command(flatten)]
    dialect: super::DialectOption,

    #[command(flatten)]
    server: Server,
}

/// A tree that is opened here; the embedded one is closed when it is done with.
type Opened = (Arc<dyn Engine>, Option<Embedded>);

impl Fsck {
    pub(super) async fn run(self) -> Result<()> {
        if self.codes {
            return Screen::stdout().plain(&Code::table());
        }
        let found = match self.engine()? {
            Some((engine, embedded)) => self.directly(engine, embedded).await?,
            None => self.through_a_node().await?,
        };
        if self.server.json() {
            self.server.output().print(&found)?;
        } else {
            print(&found)?;
        }
        if found.is_clean() {
            return Ok(());
        }
        let hint =
            if self.repair { "look at what is left by hand" } else { "--repair puts right what is safe" };
        Err(Failed::Found(format!("the tree is not clean; {hint}")).into())
    }

    fn engine(&self) -> Result<Option<Opened>> {
        if let Some(connect) = &self.zookeeper {
            let limit = Duration::from_secs(10);
            let config = ZookeeperConfig { connect_limit: limit, ..ZookeeperConfig::new(connect.as_str()) };
            return Ok(Some((Arc::new(Zookeeper::new(config)?), None)));
        }
        let Some(dir) = &self.embedded else { return Ok(None) };
        if !dir.is_dir() {
            bail!("{} is not a directory: there is no tree to check", dir.display());
        }
        let tree = Embedded::open(&EmbeddedConfig::new(dir))
            .context("a tree that a node has open is checked through the node: leave --embedded out")?;
        Ok(Some((Arc::new(tree.clone()), Some(tree))))
    }

    async fn directly(&self, engine: Arc<dyn Engine>, embedded: Option<Embedded>) -> Result<wire::Fsck> {
        let session = Store::new(engine, Limits::default()).session().await?;
        let found = self.check(&session).await;
        session.close().await?;
        if let Some(tree) = embedded {
            tree.close().await;
        }
        found
    }

    async fn check(&self, session: &ingest_store::Session) -> Result<wire::Fsck> {
        let options = Options::new(self.dialect.get());
        let bar = progress::waiting("looking");
        let mut shown = |now: Progress| show(&bar, now.stage, now.done, now.total);
        let mut report = fsck::check(session, &options, &mut shown).await?;
        let mut repaired = Vec::new();
        if self.repair && !report.findings.is_empty() {
            repaired = fsck::repair(session, &options, &report, &mut shown).await?;
            report = fsck::check(session, &options, &mut shown).await?;
        }
        bar.finish_and_clear();
        Ok(wire::Fsck::new(&repaired, &report))
    }

    async fn through_a_node(&self) -> Result<wire::Fsck> {
        let client = self.server.client()?;
        let method = if self.repair { Method::POST } else { Method::GET };
        let bar = progress::waiting("looking");
        let asked = client.lines(client.ask(method, &["fsck"])).await;
        let mut lines = match asked {
            Err(error) if matches!(error.downcast_ref(), Some(Failed::NoServer { .. })) => {
                let hint =
                    "where no node runs, --embedded DIR or --zookeeper CONNECT opens the tree directly";
                return Err(error.context(hint));
            }
            other => other?,
        };
        loop {
            match lines.next().await? {
                Some(FsckLine::Progress(now)) => show(&bar, &now.stage, now.done, now.total),
                Some(FsckLine::Done(found)) => {
                    bar.finish_and_clear();
                    return Ok(found);
                }
                Some(FsckLine::Problem(problem)) => return Err(Failed::Problem(Box::new(problem)).into()),
                None => return Err(client.not_understood("the answer has broken off").into()),
            }
        }
    }
}

fn show(bar: &ProgressBar, stage: &str, done: usize, total: usize) {
    if done == total || done.is_multiple_of(100) {
        bar.set_message(format!("{stage}: {done} of {total}"));
    }
}

fn print(found: &wire::Fsck) -> Result<()> {
    let screen = Screen::stdout();
    for repaired in &found.repaired {
        screen
            .say(&format!("{} {} {}: {}", repaired.code, repaired.outcome, repaired.path, repaired.what))?;
    }
    for finding in &found.report.findings {
        let wire::FsckFinding { code, severity, path, what, repair, .. } = finding;
        screen.say(&format!("{code} {severity} {path}: {what}; repair: {repair}"))?;
    }
    let counts = &found.report.counts;
    screen.say(&format!(
        "{} jobs, {} batches, {} access items: {} findings, {} repaired",
        counts.jobs,
        counts.batches,
        counts.access_items,
        found.report.findings.len(),
        found.repaired.iter().filter(|repaired| repaired.outcome == "fixed").count(),
    ))
}
