//! What lives as long as a session of the tree, and must not outlive it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use ingest_queue::committer::Serving;
use ingest_queue::index::finder::Finder;
use ingest_queue::queue::Queue;
use ingest_steps::services::Services;
use ingest_steps::step::admit::Freed;
use parking_lot::RwLock;
use tokio::sync::watch;

/// A component as its node says, with its name in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// `HOST-NNNNNNNNNN`.
    pub path_name: String,
    pub node: String,
    pub file_system: String,
}

/// What lives as long as a session of the tree.
#[derive(Debug)]
pub struct Life {
    pub queue: Queue,
    pub serving: Serving,
    pub services: ArcSwap<Services>,
    pub finder: ArcSwapOption<Finder>,
    /// Its own name among the components, when it is known.
    pub own_name: RwLock<String>,
    pub components: RwLock<Vec<Component>>,
    /// Since when no component has had this file system.
    pub gone: RwLock<BTreeMap<String, std::time::Instant>>,
    /// Jobs that have ended since somebody asked.
    pub(crate) ended: Ended,
    /// Whether the ingest queue is held, as the watcher knows it.
    pub(crate) held: watch::Sender<bool>,
    /// Somebody has come or gone: requests for a node that is not there any more are anybody's.
    pub(crate) living: tokio::sync::Notify,
}

/// Jobs that have ended. If nobody asks, they are forgotten, and that is known.
#[derive(Debug, Default)]
pub(crate) struct Ended(parking_lot::Mutex<(Vec<ingest_queue::ids::Jid>, bool)>);

impl Ended {
    const MOST: usize = 100_000;

    pub(crate) fn add(&self, jid: ingest_queue::ids::Jid) {
        let (jids, missing) = &mut *self.0.lock();
        if jids.len() < Self::MOST {
            jids.push(jid);
        } else {
            jids.clear();
            *missing = true;
        }
    }

    /// Some may be missing.
    pub(crate) fn missed(&self) {
        self.0.lock().1 = true;
    }

    /// `None`: some are missing.
    pub(crate) fn drain(&self) -> Option<Vec<ingest_queue::ids::Jid>> {
        let (jids, missing) = std::mem::take(&mut *self.0.lock());
        (!missing).then_some(jids)
    }
}

/// Lists for people: what waits is in the index already.
impl ingest_queue::list::Names for Life {
    fn session(&self) -> &ingest_store::Session {
        self.queue.session()
    }

    fn kept(&self) -> Option<&ingest_queue::list::Kept> {
        ingest_queue::list::Names::kept(&self.queue)
    }

    fn waiting(&self, state: ingest_queue::states::JobState) -> Option<Vec<ingest_queue::ids::Jid>> {
        self.finder.load().as_ref()?.all(state)
    }
}

impl Life {
    pub(crate) fn new(queue: Queue, serving: Serving, services: Services) -> Self {
        Self {
            queue,
            serving,
            services: ArcSwap::from_pointee(services),
            finder: ArcSwapOption::empty(),
            own_name: RwLock::default(),
            components: RwLock::default(),
            gone: RwLock::default(),
            ended: Ended::default(),
            held: watch::Sender::new(false),
            living: tokio::sync::Notify::new(),
        }
    }

    pub fn services(&self) -> Arc<Services> {
        self.services.load_full()
    }

    pub fn finder(&self) -> Option<Arc<Finder>> {
        self.finder.load_full()
    }

    pub fn freed(&self) -> Freed {
        self.services.load().freed.clone()
    }

    /// How many other nodes come before this one, for a thing with this number.
    pub(crate) fn rank(&self, number: u32) -> u32 {
        let names: Vec<String> = self.components.read().iter().map(|one| one.path_name.clone()).collect();
        let rank = ingest_queue::index::rank_of(&names, &self.own_name.read(), number);
        u32::try_from(rank).unwrap_or(u32::MAX)
    }
}
