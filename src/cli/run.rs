//! `ingestd run`: a node, until it is told to end.
//!
//! The first SIGTERM or SIGINT drains it: nothing new is taken, what runs comes to its end within `shutdown.grace`, and
//! what is left is stopped and given back. The second one ends it at once. SIGHUP, or a change of the configuration
//! file or of a profile, reads the configuration again: what can hold at once does, the rest is named; a file with a
//! problem changes nothing.
//!
//! Exit codes, besides those of all commands: 4 it cannot work at all (the tree refuses it, or a service cannot be
//! opened), 5 something died too often, 6 the grace was over and not everything had come to its end, 7 it was told to
//! end at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ingest_actors::actions::FieldProblem;
use ingest_actors::node::{Config, End, Node};
use ingest_queue::shared::Document;
use ingest_steps::settings::Settings as Steps;
use ingest_steps::urls::Urls;
use ingest_store::Store;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

use crate::api;
use crate::changes::Changes;
use crate::config::{self, Cluster, Environment, Loaded};
use crate::dashboard;
use crate::logs::{self, LogHandle};
use crate::systemd::Systemd;
use crate::traces;

/// The command's options.
#[derive(Debug, clap::Args)]
pub(super) struct Run {
    /// The configuration; by default config/ingestd.toml or /etc/ingestd/ingestd.toml, if one is there
    #[arg(long, value_name = "FILE", env = config::CONFIG)]
    config: Option<PathBuf>,

    /// End when the process ends that has started this one
    #[arg(long, hide = true)]
    with_parent: bool,
}

/// How the node has ended, if not as it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("it cannot work: {0}")]
    Refused(String),
    #[error("it gave up: {0}")]
    GaveUp(String),
    #[error("the grace was over before everything that ran had come to its end")]
    Hurried,
    #[error("it was told to end at once")]
    AtOnce,
}

impl Ended {
    pub(super) fn code(&self) -> u8 {
        match self {
            Ended::Refused(_) => 4,
            Ended::GaveUp(_) => 5,
            Ended::Hurried => 6,
            Ended::AtOnce => 7,
        }
    }
}

impl Run {
    pub(super) async fn run(self) -> Result<()> {
        if self.with_parent {
            let drain = Some(rustix::process::Signal::TERM);
            rustix::process::set_parent_process_death_signal(drain)
                .context("the parent cannot be followed")?;
        }
        let environment = Environment::of_process();
        let loaded = config::load(self.config.as_deref(), &environment)?;
        let name = &loaded.node.node.name;
        let (layer, exporter) = traces::begin(&loaded.traces, &loaded.store, name).map_err(Ended::Refused)?;
        let log = logs::init(&loaded.log, layer);
        let file = loaded.path.as_ref().map_or("the defaults".to_owned(), |path| path.display().to_string());
        tracing::info!(version = env!("CARGO_PKG_VERSION"), config = file, "ingestd starts");
        let store = Store::open(&loaded.store).map_err(|error| Ended::Refused(error.to_string()))?;
        // Before the node: the URLs of its files have the port in them.
        let bound = api::bind(loaded.api.clone(), &loaded.node.node.dir).await.map_err(Ended::Refused)?;
        let urls = bound.urls().clone();
        let (node, steps) = (loaded.node.clone(), with_urls(&loaded, &urls));
        let node = Node::start(Config { store, node, steps, work: None }).await.map_err(Ended::Refused)?;
        let node = Arc::new(node);
        let (asked, of_judge) = (self.config.clone(), environment.clone());
        node.house().judge_settings_by(Box::new(move |text| {
            let cluster = Cluster { mark: "new".into(), text: text.to_owned() };
            let problems = config::judge_cluster(asked.as_deref(), &of_judge, &cluster);
            let field = |problem: config::Problem| {
                let message = config::Problem { key: String::new(), ..problem.clone() }.to_string();
                FieldProblem { field: problem.key, message }
            };
            problems.into_iter().map(field).collect()
        }));
        let signals = Signals::new().context("signals cannot be listened to")?;
        let changes = Changes::watch(&loaded);
        let systemd = Systemd::of_process();
        let address = bound.urls().public().to_string();
        let (end, ending) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn(bound.serve(node.clone(), dashboard::router(), async {
            // Told, or nobody is left to tell.
            let _ = ending.await;
        }));
        let cluster = None;
        let daemon =
            Daemon { asked: self.config, environment, loaded, log, node, systemd, urls, address, cluster };
        let ended = daemon.live(signals, changes).await;
        drop(end);
        let _ = serving.await;
        if let Some(exporter) = exporter {
            exporter.finish().await;
        }
        match ended {
            End::Drained => Ok(()),
            End::Refused(why) => Err(Ended::Refused(why).into()),
            End::GaveUp(why) => Err(Ended::GaveUp(why).into()),
            End::Hurried => Err(Ended::Hurried.into()),
            End::AtOnce => Err(Ended::AtOnce.into()),
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

/// A node and what surrounds it.
struct Daemon {
    /// The file that was asked for on the command line.
    asked: Option<PathBuf>,
    environment: Environment,
    loaded: Loaded,
    log: LogHandle,
    node: Arc<Node>,
    systemd: Systemd,
    urls: Urls,
    /// Where the API is.
    address: String,
    /// The settings of the cluster, as they are to hold.
    cluster: Option<Cluster>,
}

/// The settings of the steps, on a node that serves its files and keeps uploads.
fn with_urls(loaded: &Loaded, urls: &Urls) -> Steps {
    let mut steps = loaded.steps.clone();
    steps.uploads = Some(loaded.api.uploads.clone());
    steps.fetch.public_url = Some(urls.public().clone());
    steps.urls = Some(urls.clone());
    steps
}

impl Daemon {
    async fn live(mut self, mut signals: Signals, mut changes: Changes) -> End {
        let mut told = false;
        let mut ready = false;
        let watchdog = self.systemd.watchdog();
        let mut shared = self.node.house().shared_changes();
        self.note_sources(&self.loaded);
        self.say_what_holds();
        let mut beat = tokio::time::interval(watchdog.unwrap_or(Duration::from_hours(1)));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                end = self.node.ended() => {
                    self.systemd.say("STOPPING=1");
                    return end;
                }
                is_ready = self.node.ready(), if !ready => {
                    if is_ready {
                        ready = true;
                        tracing::info!(node = self.node.house().name, api = self.address, "ready");
                        self.systemd.say("READY=1\nSTATUS=takes work");
                    }
                }
                _ = signals.terminate.recv() => told = self.end(told),
                _ = signals.interrupt.recv() => told = self.end(told),
                _ = signals.hang_up.recv() => self.reload("SIGHUP", &mut changes),
                what = changes.next() => self.reload(&what, &mut changes),
                // Its sender lives as long as the node.
                Ok(()) = shared.changed() => {
                    let settings = shared.borrow_and_update().settings.clone();
                    self.follow_cluster(settings.as_ref(), &mut changes);
                }
                // It is asked whether it lives: a node that does not answer is not kept alive by this, and keeps
                // nobody from ending it.
                _ = beat.tick(), if ready && watchdog.is_some() => {
                    let answer = tokio::time::timeout(beat.period(), self.node.snapshot()).await;
                    // Without a session nobody is there to be asked, and that is no reason to be ended.
                    if matches!(answer, Ok(Some(_))) || self.node.house().life().is_none() {
                        self.systemd.say("WATCHDOG=1");
                    }
                }
            }
        }
    }

    fn end(&self, told: bool) -> bool {
        if told {
            tracing::warn!("told again to end: it ends at once");
            self.node.stop();
        } else {
            self.systemd.say("STOPPING=1\nSTATUS=draining");
            self.node.drain();
        }
        true
    }

    /// The settings of the cluster are these now. Those that do not fit this node change nothing, and the node says by
    /// its mark that it does not run them.
    fn follow_cluster(&mut self, settings: Option<&Document>, changes: &mut Changes) {
        let cluster = settings.map(|one| Cluster { mark: one.mark(), text: one.text.clone() });
        if cluster != self.cluster {
            self.cluster = cluster;
            self.reload("the settings of the cluster have changed", changes);
        }
    }

    /// Whoever sees a value can see where it comes from: that is noted first.
    fn note_sources(&self, of: &Loaded) {
        self.node.house().note_sources(of.effective.sources().into_iter().collect());
    }

    /// Says in the registry which settings of the cluster hold here.
    fn say_what_holds(&self) {
        let mark = self.cluster.as_ref().map_or_else(|| "-".to_owned(), |cluster| cluster.mark.clone());
        self.node.house().applied_settings(mark);
    }

    /// Reads the configuration and the profiles again. What is wrong with them changes nothing.
    fn reload(&mut self, why: &str, changes: &mut Changes) {
        self.systemd.reloading();
        match config::load_with(self.asked.as_deref(), &self.environment, self.cluster.as_ref()) {
            Err(problems) => {
                for problem in &problems.0 {
                    tracing::error!(%problem, "the configuration is wrong");
                }
                let count = problems.0.len();
                tracing::error!(count, because = why, "not reloaded: nothing has changed");
            }
            Ok(new) => {
                if let Err(problem) = self.apply(&new, why) {
                    tracing::error!(problem, "the configuration is wrong");
                    tracing::error!(count = 1, because = why, "not reloaded: nothing has changed");
                }
            }
        }
        changes.follow(&self.loaded);
        self.systemd.say("READY=1");
    }

    /// What needs a restart stays as it was, and is told with every reload until then.
    fn apply(&mut self, new: &Loaded, why: &str) -> Result<(), String> {
        let differs = config::difference(&self.loaded, new);
        let holds = config::changed_live(&self.loaded, new)?;
        let of_files = &holds.steps.profiles;
        let profiles = ingest_steps::services::load(of_files)
            .map_err(|error| format!("profiles in {}: {error}", of_files.dir.display()))?;
        for change in &differs {
            if change.live {
                tracing::info!(%change, "applied");
            } else {
                tracing::warn!(%change, "needs a restart");
            }
        }
        self.note_sources(&holds);
        self.log.reload(&holds.log);
        self.node.apply(holds.node.clone(), with_urls(&holds, &self.urls));
        let count = self.node.apply_profiles(profiles);
        let live = differs.iter().filter(|change| change.live).count();
        let later = differs.len() - live;
        tracing::info!(because = why, applied = live, need_a_restart = later, profiles = count, "reloaded");
        self.loaded = holds;
        self.say_what_holds();
        Ok(())
    }
}
