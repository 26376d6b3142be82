//! `ingestd fsck`: are all invariants of the tree kept? And, with `--repair`, put right what is not.
//!
//! Where a node runs it is asked; with `--config`, `--embedded` or `--zookeeper` the tree is opened directly.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use ingest_queue::date::Clock;
use ingest_queue::dialect::Dialect;
use ingest_queue::fsck::{Code, Options, Progress};
use ingest_queue::queue::{self, Queue};
use ingest_steps::ledger::{self, Checked, Places};
use ingest_steps::settings::Settings as Steps;
use ingest_store::engine::Engine;
use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{EngineConfig, Limits, Session, Store, StoreConfig};
use reqwest::Method;
use serde_json::json;

use super::client::Server;
use super::exit::Failed;
use super::progress;
use super::screen::{Cell, Column, Screen, Table};
use crate::api::wire::{self, FsckLine};
use crate::config::{self, Environment};

/// How long the tree may take to answer at first.
const CONNECT: Duration = Duration::from_secs(10);

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Fsck {
    /// Open the tree of this configuration directly, in its dialect and with its user and certificates
    #[arg(long, value_name = "FILE", conflicts_with_all = ["zookeeper", "embedded", "dialect"])]
    config: Option<PathBuf>,

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

/// A tree that is opened here.
struct Opened {
    store: Store,
    dialect: Dialect,
    /// What the tree is compared with, if the configuration is known.
    places: Option<Steps>,
    /// It is closed when it is done with.
    embedded: Option<Embedded>,
}

impl Fsck {
    pub(super) async fn run(self) -> Result<()> {
        if self.codes {
            return self.tell_codes();
        }
        let found = match self.open()? {
            Some(opened) => self.directly(opened).await?,
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

    /// The table of findings that there are.
    fn tell_codes(&self) -> Result<()> {
        if self.server.json() {
            let code = |code: &Code| {
                let (severity, what, repair) = (code.severity().to_string(), code.title(), code.repair());
                json!({ "code": code, "severity": severity, "what": what, "repair": repair })
            };
            let codes: Vec<_> = Code::ALL.iter().map(code).collect();
            return self.server.output().print(&json!({ "codes": codes }));
        }
        let mut table = Table::new([
            Column::word("CODE"),
            Column::word("SEVERITY"),
            Column::prose("WHAT IS WRONG"),
            Column::prose("REPAIR"),
        ]);
        for code in Code::ALL {
            let (severity, what, repair) = (code.severity().to_string(), code.title(), code.repair());
            table.row([code.to_string(), severity, what.to_owned(), repair.to_owned()].map(Cell::new));
        }
        Screen::stdout().table(&table)
    }

    /// The tree that was named; none if a node is to be asked.
    fn open(&self) -> Result<Option<Opened>> {
        let (config, dialect, places) = if let Some(file) = &self.config {
            let mut loaded = config::load(Some(file), &Environment::of_process())?;
            loaded.steps.uploads = Some(loaded.api.uploads);
            (loaded.store, loaded.node.queue.dialect, Some(loaded.steps))
        } else {
            let engine = match (&self.zookeeper, &self.embedded) {
                (Some(connect), _) => EngineConfig::Zookeeper(ZookeeperConfig::new(connect.as_str())),
                (None, Some(dir)) => EngineConfig::Embedded(EmbeddedConfig::new(dir)),
                (None, None) => return Ok(None),
            };
            (StoreConfig { engine, limits: Limits::default() }, self.dialect.get(), None)
        };
        let (engine, embedded): (Arc<dyn Engine>, _) = match config.engine {
            EngineConfig::Zookeeper(config) => {
                (Arc::new(Zookeeper::new(ZookeeperConfig { connect_limit: CONNECT, ..config })?), None)
            }
            EngineConfig::Embedded(config) => {
                if !config.dir.is_dir() {
                    bail!("{} is not a directory: there is no tree to check", config.dir.display());
                }
                let option = if self.config.is_some() { "--config" } else { "--embedded" };
                let tree = Embedded::open(&config).with_context(|| {
                    format!("a tree that a node has open is checked through the node: leave {option} out")
                })?;
                (Arc::new(tree.clone()), Some(tree))
            }
        };
        Ok(Some(Opened { store: Store::new(engine, config.limits), dialect, places, embedded }))
    }

    async fn directly(&self, opened: Opened) -> Result<wire::Fsck> {
        let session = opened.store.session().await?;
        let found = self.check(&session, opened.dialect, opened.places.as_ref()).await;
        session.close().await?;
        if let Some(tree) = opened.embedded {
            tree.close().await;
        }
        found
    }

    async fn check(
        &self,
        session: &Session,
        dialect: Dialect,
        settings: Option<&Steps>,
    ) -> Result<wire::Fsck> {
        let options = Options::new(dialect);
        let places = match settings {
            Some(settings) => Some(Places::open(settings).await?),
            None => None,
        };
        let of_queue = queue::Settings { dialect, ..queue::Settings::new(options.who.clone()) };
        let queue = Queue::on(session, of_queue, Clock::system());
        let bar = progress::waiting("looking");
        let mut shown = |now: Progress| show(&bar, now.stage, now.done, now.total);
        let checked = ledger::fsck(&queue, &options, places.as_ref(), self.repair, &mut shown).await;
        bar.finish_and_clear();
        let Checked { repaired, report } = checked?;
        Ok(wire::Fsck::new(&repaired, &report))
    }

    /// What to do where no node runs.
    fn hint(&self) -> String {
        let repair = if self.repair { " --repair" } else { "" };
        match config::file_of(&Environment::of_process()) {
            Some(file) => {
                let file = file.display();
                format!("where no node runs, `ingestd fsck --config {file}{repair}` opens the tree directly")
            }
            None => {
                "where no node runs, --config FILE (that of a node), --embedded DIR or --zookeeper CONNECT \
                     opens the tree directly"
                    .to_owned()
            }
        }
    }

    async fn through_a_node(&self) -> Result<wire::Fsck> {
        let client = self.server.client()?;
        let method = if self.repair { Method::POST } else { Method::GET };
        let bar = progress::waiting("looking");
        let asked = client.lines(client.ask(method, &["fsck"])).await;
        let mut lines = match asked {
            Err(error) if matches!(error.downcast_ref(), Some(Failed::NoServer { .. })) => {
                return Err(error.context(self.hint()));
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
