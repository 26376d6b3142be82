//! Where the actors of a node find each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use ingest_queue::states::JobState;
use parking_lot::RwLock;
use ractor::ActorRef;

use crate::bench::Bench;
use crate::root::Role;
use crate::{access, batches, feeds, gate, janitor, pools, registrar, timekeeper, watcher};

/// Where actors find each other. An actor is there before it looks at anything for the first time, so that whatever it
/// does not see it is told; one that has died is not there.
#[derive(Debug, Default)]
pub struct Directory {
    pub(crate) registrar: RwLock<Option<ActorRef<registrar::Message>>>,
    pub(crate) watcher: RwLock<Option<ActorRef<watcher::Message>>>,
    pub(crate) batches: RwLock<Option<ActorRef<batches::Message>>>,
    pub(crate) pools: RwLock<Option<ActorRef<pools::Message>>>,
    pub(crate) access: RwLock<Option<ActorRef<access::Message>>>,
    pub(crate) feeds: RwLock<Option<ActorRef<feeds::Message>>>,
    pub(crate) timekeeper: RwLock<Option<ActorRef<timekeeper::Message>>>,
    pub(crate) janitor: RwLock<Option<ActorRef<janitor::Message>>>,
    pub(crate) gate: RwLock<Option<ActorRef<gate::Message>>>,
    /// The idle workers of each state.
    pub(crate) benches: RwLock<BTreeMap<JobState, Arc<Bench>>>,
}

impl Directory {
    /// A child of the root is not to be found any more.
    pub(crate) fn forget(&self, role: Role) {
        match role {
            Role::Registrar => *self.registrar.write() = None,
            Role::Watcher => *self.watcher.write() = None,
            Role::Batches => *self.batches.write() = None,
            Role::Pools => {
                *self.pools.write() = None;
                self.benches.write().clear();
            }
            Role::Access => *self.access.write() = None,
            Role::Timekeeper => *self.timekeeper.write() = None,
            Role::Janitor => *self.janitor.write() = None,
            Role::Gate => *self.gate.write() = None,
            Role::Feeds => *self.feeds.write() = None,
            Role::Session | Role::Committer => {}
        }
    }

    pub(crate) fn bench(&self, state: JobState) -> Option<Arc<Bench>> {
        self.benches.read().get(&state).cloned()
    }
}

/// Tells an actor something; if it is being restarted, it looks for itself when it is back.
pub(crate) fn tell<M: ractor::Message>(to: &RwLock<Option<ActorRef<M>>>, message: M) {
    if let Some(actor) = &*to.read() {
        let _ = actor.cast(message);
    }
}
