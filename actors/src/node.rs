//! A node: everything under one root, started, watched and ended from outside.
//!
//! ```no_run
//! # async fn f(config: ingest_actors::node::Config) -> Result<(), Box<dyn std::error::Error>> {
//! use ingest_actors::node::{End, Node};
//!
//! let node = Node::start(config).await?;
//! node.ready().await;
//! node.drain();
//! assert_eq!(node.ended().await, End::Drained);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use ingest_steps::profile::Profiles;
use ingest_store::Store;
use parking_lot::RwLock;
use ractor::{Actor, ActorCell, ActorRef, RpcReplyPort};
use tokio::sync::watch;

use crate::actions::{By, Order, Refused, perform};
use crate::gate::{self, Snapshot};
use crate::house::{House, Life, Mode, tell};
pub use crate::janitor::Swept;
pub use crate::janitor::upkeep::{self, Ran, Routine};
use crate::restart_log::{Restart, RestartLog};
use crate::root::{self, Root};
use crate::settings::Settings;
use crate::work::{Nothing, Steps, Work};
use crate::{access, feeds, janitor, pools, registrar, shared, timekeeper, watcher};

/// What a node is made of.
#[derive(Debug)]
pub struct Config {
    pub store: Store,
    pub node: Settings,
    pub steps: ingest_steps::settings::Settings,
    /// Absent: the real steps, or none if `node.work` says so.
    pub work: Option<Arc<dyn Work>>,
}

/// How a node has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Everything that was under way came to its end.
    Drained,
    /// The grace was over: what ran was stopped and given back, and perhaps not all of it.
    Hurried,
    /// It was told to end at once.
    AtOnce,
    /// Something died too often.
    GaveUp(String),
    /// It could not work at all.
    Refused(String),
}

/// A node that runs.
#[derive(Debug)]
pub struct Node {
    house: Arc<House>,
    root: ActorRef<root::Message>,
    ended: watch::Receiver<Option<End>>,
    ready: watch::Receiver<bool>,
}

/// An actor and those below it.
#[derive(Debug, Clone)]
pub struct Branch {
    pub name: String,
    pub cell: ActorCell,
    pub children: Vec<Branch>,
}

impl Node {
    /// Starts a node. It works when it is [`Node::ready`].
    pub async fn start(config: Config) -> Result<Self, String> {
        let Config { store, node, steps, work } = config;
        let name = if node.node.name.is_empty() { host_name() } else { node.node.name.clone() };
        let (dir, bound) = (node.node.dir.clone(), node.node.restart_log);
        let log = tokio::task::spawn_blocking(move || {
            RestartLog::open(&dir, bound).map_err(|error| format!("{}: {error}", dir.display()))
        });
        let log = log.await.map_err(|error| error.to_string())??;
        let work: Arc<dyn Work> = match work {
            Some(work) => work,
            None if node.node.work => Arc::new(Steps),
            None => Arc::new(Nothing),
        };
        let incarnation = ingest_queue::queue::Settings::new("").incarnation;
        let house = Arc::new(House::new(name, incarnation, node, steps, store, work, log));
        let (ended_sender, ended) = watch::channel(None);
        let (ready_sender, ready) = watch::channel(false);
        let setup = root::Setup { house: house.clone(), ended: ended_sender, ready: ready_sender };
        let root_name = Some(house.actor_name("root"));
        let (root, _) = Actor::spawn(root_name, Root, setup).await.map_err(|error| error.to_string())?;
        let _ = house.root.set(root.clone());
        Ok(Self { house, root, ended, ready })
    }

    /// Waits until all actors run; `false` if the node ended before.
    pub async fn ready(&self) -> bool {
        self.ready.clone().wait_for(|ready| *ready).await.is_ok()
    }

    /// Whether all actors run now.
    pub fn has_started(&self) -> bool {
        *self.ready.borrow()
    }

    /// Whether all actors run now, and work is taken.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow() && self.house.takes_work()
    }

    /// Ends when what is under way is done, within `shutdown.grace`.
    pub fn drain(&self) {
        let _ = self.root.cast(root::Message::Drain);
    }

    /// Ends now.
    pub fn stop(&self) {
        let _ = self.root.cast(root::Message::StopNow);
    }

    /// Waits for the end.
    pub async fn ended(&self) -> End {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        end.unwrap_or_else(|| End::GaveUp("the root has died".into()))
    }

    pub fn house(&self) -> &Arc<House> {
        &self.house
    }

    /// Takes nothing new until it is resumed. `None` if it cannot be asked; `false` if it was so already.
    pub async fn pause(&self) -> Option<bool> {
        self.ask(&self.house.directory.gate, |reply| gate::Message::Mode(Mode::Paused, reply)).await
    }

    pub async fn resume(&self) -> Option<bool> {
        self.ask(&self.house.directory.gate, |reply| gate::Message::Mode(Mode::Running, reply)).await
    }

    /// Makes the janitor's round now; says what it did.
    pub async fn clean_up(&self) -> Option<Swept> {
        self.ask(&self.house.directory.janitor, janitor::Message::RunOnce).await
    }

    /// Runs a cleanup routine now, if no other node does; `None` if the node cannot be asked.
    pub async fn run_upkeep(&self, routine: Routine) -> Option<Ran> {
        self.ask(&self.house.directory.janitor, |reply| janitor::Message::Run(routine, reply)).await
    }

    /// Applies what all nodes share as the tree has it now, if this node has not heard of it yet. `None`: it could not.
    pub async fn see_shared(&self) -> Option<()> {
        let life = self.house.life()?;
        let (now, here) = (life.queue.shared_unlocked().await.ok()?, self.house.shared());
        // What cannot be read is never applied: it is no reason to look again and again.
        let again = *here != now && now.unreadable.is_empty();
        let question = |reply| watcher::Message::LookAtShared(again, reply);
        self.ask(&self.house.directory.watcher, question).await
    }

    async fn ask<M: ractor::Message, T: Send + 'static>(
        &self,
        whom: &RwLock<Option<ActorRef<M>>>,
        question: impl FnOnce(RpcReplyPort<T>) -> M,
    ) -> Option<T> {
        let actor = whom.read().clone()?;
        match actor.call(question, None).await {
            Ok(ractor::rpc::CallResult::Success(answer)) => Some(answer),
            _ => None,
        }
    }

    /// What stands on the session that there is now; waits for one. `None` if the node has ended.
    pub async fn life(&self) -> Option<Arc<Life>> {
        let mut lives = self.house.lives();
        let found = lives.wait_for(Option::is_some).await.ok()?;
        found.clone()
    }

    /// The node as it is now, if it can be asked.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        self.ask(&self.house.directory.gate, gate::Message::Snapshot).await
    }

    /// The last restarts, the newest first. Blocks for one short read.
    pub fn restarts(&self, count: usize) -> std::io::Result<Vec<Restart>> {
        self.house.log.last(count)
    }

    /// Applies what can be changed while it runs. The caller says what cannot.
    pub fn apply(&self, node: Settings, steps: ingest_steps::settings::Settings) {
        let node = Arc::new(node);
        let before = self.house.settings.swap(node.clone());
        self.house.steps.store(Arc::new(steps.clone()));
        if let Some(before) = self.house.services.load_full() {
            self.house.services.store(Some(Arc::new(before.with_settings(steps.clone()))));
        }
        if let Some(life) = self.house.life() {
            let changed = life.services().with_settings(steps);
            life.services.store(Arc::new(changed));
            life.freed().poke();
        }
        tell(&self.house.directory.pools, pools::Message::Resize);
        tell(&self.house.directory.access, access::Message::Resize);
        tell(&self.house.directory.feeds, feeds::Message::Refresh);
        // What was to be looked at after the old times is looked at after the new ones.
        if before.pools != node.pools {
            tell(&self.house.directory.timekeeper, timekeeper::Message::WatchAll);
        }
        if before.limits != node.limits {
            tell(&self.house.directory.watcher, watcher::Message::Configured);
        }
        if before.upkeep != node.upkeep {
            tell(&self.house.directory.watcher, watcher::Message::Rearm);
            tell(&self.house.directory.janitor, janitor::Message::Rearm);
        }
        tell(&self.house.directory.registrar, registrar::Message::Refresh);
    }

    /// Gives the pools other sizes or patience, until settings are applied again.
    pub fn set_pools(&self, change: impl FnOnce(&mut crate::settings::Pools)) {
        self.house.set_pools(change);
    }

    /// Does what was ordered, here and now. `None`: there is no session, so nothing can be done.
    pub async fn perform(&self, order: &Order, by: &By) -> Option<Result<serde_json::Value, Refused>> {
        let life = self.house.life()?;
        Some(perform(&self.house, &life, order, by, &|_| {}).await)
    }

    /// Applies profiles that were read anew, and says how many there are. Steps that run end with those that they
    /// began with.
    pub fn apply_profiles(&self, profiles: Profiles) -> usize {
        self.house.files.store(Arc::new(profiles));
        let Some(services) = self.house.services.load_full() else { return 0 };
        shared::combine(&self.house, &services);
        services.profiles.read().iter().count()
    }

    /// All actors, as they are supervised now.
    pub fn tree(&self) -> Branch {
        branch(&self.root.get_cell())
    }
}

fn branch(cell: &ActorCell) -> Branch {
    let name = cell.get_name().unwrap_or_default();
    // Without the incarnation before it and the life behind it.
    let plain = name.split_once(':').map_or(name.as_str(), |(_, name)| name);
    let plain = plain.rsplit_once('#').map_or(plain, |(name, _)| name);
    let mut children: Vec<Branch> = cell.get_children().iter().map(branch).collect();
    children.sort_by(|a, b| a.name.cmp(&b.name));
    Branch { name: plain.to_owned(), cell: cell.clone(), children }
}

/// The machine's name.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String =
        name.trim().chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')).collect();
    if name.is_empty() { "node".to_owned() } else { name }
}
