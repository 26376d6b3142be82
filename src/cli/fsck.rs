//! `ingestd fsck`: are all invariants of the tree kept? And, with `--repair`, put right what is not.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ingest_queue::fsck::{self, Code, Options, Outcome, Progress};
use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Limits, Store};

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Fsck {
    /// The tree on this ensemble (host:port,host:port/chroot)
    #[arg(long, value_name = "CONNECT", required_unless_present_any = ["embedded", "codes"], conflicts_with = "embedded")]
    zookeeper: Option<String>,

    /// The tree in this directory; its daemon must not be running
    #[arg(long, value_name = "DIR")]
    embedded: Option<PathBuf>,

    /// Put right what is safe to put right, and put aside what nobody can read
    #[arg(long)]
    repair: bool,

    /// Print json
    #[arg(long)]
    json: bool,

    /// Print the table of findings that there are, and nothing else
    #[arg(long)]
    codes: bool,

    #[command(flatten)]
    dialect: super::DialectOption,
}

impl Fsck {
    pub(super) async fn run(self) -> Result<()> {
        if self.codes {
            print!("{}", Code::table());
            return Ok(());
        }
        let (engine, embedded) = self.engine()?;
        let session = Store::new(engine, Limits::default()).session().await?;
        let answer = self.check(&session).await;
        session.close().await?;
        if let Some(tree) = embedded {
            tree.close().await;
        }
        answer
    }

    fn engine(&self) -> Result<(Arc<dyn Engine>, Option<Embedded>)> {
        if let Some(connect) = &self.zookeeper {
            let limit = Duration::from_secs(10);
            let config = ZookeeperConfig { connect_limit: limit, ..ZookeeperConfig::new(connect.as_str()) };
            return Ok((Arc::new(Zookeeper::new(config)?), None));
        }
        let dir = self.embedded.as_ref().context("say which tree: --zookeeper or --embedded")?;
        if !dir.is_dir() {
            bail!("{} is not a directory: there is no tree to check", dir.display());
        }
        let tree = Embedded::open(&EmbeddedConfig::new(dir))?;
        Ok((Arc::new(tree.clone()), Some(tree)))
    }

    async fn check(&self, session: &ingest_store::Session) -> Result<()> {
        let options = Options::new(self.dialect.get());
        let mut shown = shown_progress();
        let mut report = fsck::check(session, &options, &mut shown).await?;
        let mut repaired = Vec::new();
        if self.repair && !report.findings.is_empty() {
            repaired = fsck::repair(session, &options, &report, &mut shown).await?;
            report = fsck::check(session, &options, &mut shown).await?;
        }
        if self.json {
            let text = serde_json::json!({ "repaired": repaired, "report": report });
            println!("{}", serde_json::to_string_pretty(&text)?);
        } else {
            for repaired in &repaired {
                println!("{repaired}");
            }
            print!("{}", report.text());
            let counts = &report.counts;
            println!(
                "{} jobs, {} batches, {} access items: {} findings, {} repaired",
                counts.jobs,
                counts.batches,
                counts.access_items,
                report.findings.len(),
                repaired.iter().filter(|repaired| repaired.outcome == Outcome::Fixed).count(),
            );
        }
        if report.is_clean() {
            return Ok(());
        }
        let hint =
            if self.repair { "look at what is left by hand" } else { "--repair puts right what is safe" };
        bail!("the tree is not clean; {hint}")
    }
}

/// A line on the terminal that is written over; nothing into a file.
fn shown_progress() -> impl FnMut(Progress) + Send {
    let terminal = std::io::stderr().is_terminal();
    move |Progress { stage, done, total }| {
        if terminal && (done == total || done.is_multiple_of(100)) {
            eprint!("\r\x1b[K{stage}: {done} of {total}");
            if done == total {
                eprint!("\r\x1b[K");
            }
        }
    }
}
