//! What the actors of a node share, and where they find each other.
//!
//! [`House`] lives as long as the node. [`Life`] lives as long as one session of the tree: everything that must not
//! outlive the session is in there, and a new session brings a new one.

mod directory;
mod life;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use ingest_queue::journal::Alert;
use ingest_queue::shared::SharedNow;
use ingest_steps::profile::Profiles;
use ingest_steps::services::Services;
use ingest_store::{SessionState, Store};
use parking_lot::RwLock;
use ractor::ActorRef;
use tokio::sync::{broadcast, watch};

pub use self::directory::Directory;
pub(crate) use self::directory::tell;
pub use self::life::{Component, Life};
use crate::crash::Crash;
use crate::desk::Floor;
use crate::feeds::board::Board;
use crate::gate::Auditor;
use crate::meters::Meters;
use crate::restart::Verdict;
use crate::restart_log::{Restart, RestartLog};
use crate::settings::Settings;
use crate::shared::Judge;
use crate::work::Work;
use crate::{access, batches, feeds, pools, registrar, root};

/// Whether the node takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Running,
    /// It takes nothing new until it is resumed.
    Paused,
    /// It takes nothing new, and ends when what it has is done.
    Draining,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Running => "running",
            Mode::Paused => "paused",
            Mode::Draining => "draining",
        }
    }
}

/// What lives as long as the node.
#[derive(Debug)]
pub struct House {
    pub name: String,
    pub incarnation: String,
    pub settings: ArcSwap<Settings>,
    pub store: Store,
    pub work: Arc<dyn Work>,
    pub log: RestartLog,
    pub floor: Arc<Floor>,
    pub counts: Counts,
    /// What was committed, by all sessions.
    pub committed: Arc<ingest_queue::committer::Counts>,
    /// The numbers of batches and jobs that were seen in use, by all sessions.
    pub(crate) seen: Arc<ingest_queue::queue::SeenNumbers>,
    pub meters: Meters,
    /// How the feeds of this node fare.
    pub feeds: Board,
    /// What has ended, on any node.
    pub ended: crate::stats::Ended,
    pub directory: Directory,
    mode: watch::Sender<Mode>,
    link: watch::Sender<SessionState>,
    /// Why the tree is not the one to work on.
    barred: watch::Sender<Option<Arc<str>>>,
    life: watch::Sender<Option<Arc<Life>>>,
    /// The services as they were opened last: all but the minters outlive a session.
    pub(crate) services: ArcSwapOption<Services>,
    pub(crate) steps: ArcSwap<ingest_steps::settings::Settings>,
    last_restart: RwLock<Option<String>>,
    /// The elections that this node leads now.
    pub leads: RwLock<BTreeSet<&'static str>>,
    /// Each restart, for whoever listens.
    restarts: broadcast::Sender<Restart>,
    /// Each alert, for whoever listens.
    alerts: broadcast::Sender<Alert>,
    /// How many actors were started.
    actors: AtomicU64,
    /// The profiles of the files, as they were read last.
    pub(crate) files: ArcSwap<Profiles>,
    /// What all nodes share, as this one has applied it.
    shared: watch::Sender<Arc<SharedNow>>,
    /// Which settings of the cluster hold here, and where the values come from that are not the default.
    settings_mark: RwLock<Option<String>>,
    sources: RwLock<BTreeMap<String, String>>,
    pub(crate) judge: Judge,
    /// Each request of the tree that was answered here, for whoever listens.
    auditor: Auditor,
    pub(crate) root: OnceLock<ActorRef<root::Message>>,
}

/// What is counted, since the node began.
#[derive(Debug, Default)]
pub struct Counts {
    pub restarts: AtomicU64,
    /// Entries of the index that no event had told of.
    pub sweep_healed: AtomicU64,
    pub sessions: AtomicU64,
    pub stalls: AtomicU64,
    pub handed_over: AtomicU64,
}

impl Counts {
    pub(crate) fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

impl House {
    pub(crate) fn new(
        name: String,
        incarnation: String,
        settings: Settings,
        steps: ingest_steps::settings::Settings,
        store: Store,
        work: Arc<dyn Work>,
        log: RestartLog,
    ) -> Self {
        let committed: Arc<ingest_queue::committer::Counts> = Arc::default();
        Self {
            name,
            incarnation,
            settings: ArcSwap::from_pointee(settings),
            store,
            work,
            log,
            floor: Arc::default(),
            counts: Counts::default(),
            meters: Meters::new(committed.clone()),
            committed,
            seen: Arc::default(),
            feeds: Board::default(),
            ended: crate::stats::Ended::default(),
            directory: Directory::default(),
            mode: watch::Sender::new(Mode::Running),
            link: watch::Sender::new(SessionState::Suspended),
            barred: watch::Sender::new(None),
            life: watch::Sender::new(None),
            services: ArcSwapOption::empty(),
            steps: ArcSwap::from_pointee(steps),
            last_restart: RwLock::default(),
            leads: RwLock::default(),
            restarts: broadcast::Sender::new(64),
            alerts: broadcast::Sender::new(64),
            actors: AtomicU64::new(0),
            files: ArcSwap::default(),
            shared: watch::Sender::new(Arc::default()),
            settings_mark: RwLock::default(),
            sources: RwLock::default(),
            judge: Judge::default(),
            auditor: Auditor::default(),
            root: OnceLock::new(),
        }
    }

    /// A name for an actor that no other has, in this process.
    pub(crate) fn actor_name(&self, name: &str) -> String {
        let life = self.actors.fetch_add(1, Ordering::Relaxed);
        format!("{}:{name}#{life}", self.incarnation)
    }

    pub fn mode(&self) -> Mode {
        *self.mode.borrow()
    }

    /// Answers whether that is new. A node that drains does not come back.
    pub(crate) fn set_mode(&self, mode: Mode) -> bool {
        let changed = self.mode.send_if_modified(|now| {
            let changes = *now != mode && *now != Mode::Draining;
            if changes {
                *now = mode;
            }
            changes
        });
        if changed {
            if mode != Mode::Draining {
                tracing::info!(mode = mode.name(), "the node has another mode");
            }
            self.look_for_work();
        }
        changed
    }

    /// Whether work is taken has changed.
    fn look_for_work(&self) {
        tell(&self.directory.registrar, registrar::Message::Refresh);
        tell(&self.directory.batches, batches::Message::LookAgain);
        tell(&self.directory.access, access::Message::Look);
        tell(&self.directory.feeds, feeds::Message::Refresh);
    }

    /// Why this node must not work on the tree that it has opened; none if it may. See [`ingest_steps::ledger`].
    pub fn barred(&self) -> Option<Arc<str>> {
        self.barred.borrow().clone()
    }

    pub(crate) fn set_barred(&self, why: Option<Arc<str>>) {
        let changed = self.barred.send_if_modified(|now| {
            let changes = *now != why;
            *now = why;
            changes
        });
        if changed {
            self.look_for_work();
        }
    }

    /// The mode and its changes.
    pub fn modes(&self) -> watch::Receiver<Mode> {
        self.mode.subscribe()
    }

    /// The state of the session and its changes.
    pub fn links(&self) -> watch::Receiver<SessionState> {
        self.link.subscribe()
    }

    /// Restarts from now on.
    pub fn restarts(&self) -> broadcast::Receiver<Restart> {
        self.restarts.subscribe()
    }

    /// Who writes down what was done here for requests of the tree.
    pub fn auditor(&self) -> &Auditor {
        &self.auditor
    }

    /// What all nodes share, as this one knows it.
    pub fn shared(&self) -> Arc<SharedNow> {
        self.shared.borrow().clone()
    }

    /// The same and its changes.
    pub fn shared_changes(&self) -> watch::Receiver<Arc<SharedNow>> {
        self.shared.subscribe()
    }

    /// Answers whether that is new.
    pub(crate) fn set_shared(&self, now: SharedNow) -> bool {
        self.shared.send_if_modified(|before| {
            let changes = **before != now;
            if changes {
                *before = Arc::new(now);
            }
            changes
        })
    }

    /// Which settings of the cluster hold here; absent: nobody applies them.
    pub fn settings_mark(&self) -> Option<String> {
        self.settings_mark.read().clone()
    }

    /// Where the values of the configuration come from that are not the default.
    pub fn sources(&self) -> BTreeMap<String, String> {
        self.sources.read().clone()
    }

    /// Whoever reads the configuration says where its values come from, before it applies them.
    pub fn note_sources(&self, sources: BTreeMap<String, String>) {
        *self.sources.write() = sources;
    }

    /// And which settings of the cluster hold here, when it has.
    pub fn applied_settings(&self, mark: String) {
        *self.settings_mark.write() = Some(mark);
        tell(&self.directory.registrar, registrar::Message::Refresh);
    }

    /// Says by whom settings of the cluster are judged before they are written.
    pub fn judge_settings_by(&self, judge: Box<crate::shared::Judging>) {
        self.judge.set(judge);
    }

    /// Ends when what is under way is done.
    pub(crate) fn drain(&self) {
        if let Some(root) = self.root.get() {
            let _ = root.cast(root::Message::Drain);
        }
    }

    /// Gives the pools other sizes or patience, until settings are applied again.
    pub(crate) fn set_pools(&self, change: impl FnOnce(&mut crate::settings::Pools)) {
        let mut settings = Settings::clone(&self.settings.load());
        change(&mut settings.pools);
        self.settings.store(Arc::new(settings));
        tell(&self.directory.pools, pools::Message::Resize);
        tell(&self.directory.access, access::Message::Resize);
        tell(&self.directory.registrar, registrar::Message::Refresh);
    }

    pub fn link(&self) -> SessionState {
        *self.link.borrow()
    }

    pub(crate) fn set_link(&self, state: SessionState) {
        self.link.send_replace(state);
    }

    /// Whether something new may be started now.
    pub fn takes_work(&self) -> bool {
        self.mode() == Mode::Running
            && self.link() == SessionState::Connected
            && self.barred.borrow().is_none()
    }

    /// Waits until something new may be started.
    pub(crate) async fn may_take_work(&self) {
        let (mut mode, mut link) = (self.mode.subscribe(), self.link.subscribe());
        let mut barred = self.barred.subscribe();
        loop {
            let runs = *mode.borrow_and_update() == Mode::Running;
            let connected = *link.borrow_and_update() == SessionState::Connected;
            if barred.borrow_and_update().is_none() && runs && connected {
                return;
            }
            // The senders live as long as this.
            tokio::select! {
                _ = mode.changed() => {}
                _ = link.changed() => {}
                _ = barred.changed() => {}
            }
        }
    }

    /// The life of the session that there is now.
    pub fn life(&self) -> Option<Arc<Life>> {
        self.life.borrow().clone()
    }

    /// The lives of sessions, as they come and go.
    pub fn lives(&self) -> watch::Receiver<Option<Arc<Life>>> {
        self.life.subscribe()
    }

    pub(crate) fn set_life(&self, life: Option<Arc<Life>>) {
        self.life.send_replace(life);
    }

    /// What people should hear of at once, from now on.
    pub fn alerts(&self) -> broadcast::Receiver<Alert> {
        self.alerts.subscribe()
    }

    pub(crate) fn alert(&self, alert: Alert) {
        // Nobody has to listen.
        let _ = self.alerts.send(alert);
    }

    pub(crate) fn last_restart(&self) -> Option<String> {
        self.last_restart.read().clone()
    }

    /// Writes down that an actor is started again.
    pub(crate) fn restarted(&self, actor: &str, crash: &Crash, verdict: Verdict, about: About) {
        Counts::add(&self.counts.restarts, 1);
        self.meters.restarted(about.pool.as_deref(), crash.reason.name());
        let (count, backoff) = match verdict {
            Verdict::Again { count, after } => (count, after),
            Verdict::GiveUp { count } => (count, Duration::ZERO),
        };
        let at = ingest_queue::date::Clock::system().now();
        *self.last_restart.write() = Some(format!("{at} {actor}: {}", crash.reason.name()));
        let restart = Restart {
            at,
            node: self.name.clone(),
            actor: actor.to_owned(),
            pool: about.pool,
            state: about.state,
            job: about.job,
            batch: about.batch,
            reason: crash.reason.name().to_owned(),
            message: crash.message.clone(),
            location: crash.location.clone(),
            count,
            backoff_ms: u64::try_from(backoff.as_millis()).unwrap_or(u64::MAX),
        };
        self.log.write(&restart);
        // Nobody may be listening.
        let _ = self.restarts.send(restart);
        if let Verdict::GiveUp { count } = verdict {
            tracing::error!(actor, count, why = crash.message, "it died too often, and is given up");
        }
        tell(&self.directory.registrar, registrar::Message::Refresh);
    }
}

/// What an actor that died was about.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) pool: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) job: Option<String>,
    pub(crate) batch: Option<String>,
}

/// A task that ends with its owner.
#[derive(Debug)]
pub(crate) struct Task(tokio::task::JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
