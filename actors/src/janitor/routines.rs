//! What is done in a round.

use ingest_queue::batches::may_be_cleaned;
use ingest_queue::error::Error;
use ingest_queue::map;
use ingest_steps::outcome::{Cancel, Progress};
use ingest_steps::step::assemble;
use ingest_steps::step::clean::{self, Removed};
use ingest_store::recipes::look;

use super::State;
use super::upkeep::{Ran, Routine};

/// Batches that go in one round at most.
const MOST_BATCHES: usize = 100;

/// What a round did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// Locks of this session that nobody claimed.
    pub locks: usize,
    /// Directories of attempts.
    pub directories: usize,
    /// Files that expansions have left of their manifests.
    pub manifests: usize,
    /// Completed jobs that left their queue.
    pub jobs: usize,
    pub batches: usize,
    pub access_items: usize,
    /// Management requests that nobody waited for.
    pub requests: usize,
    /// Slots of limits, and semaphores.
    pub semaphores: usize,
    pub keys: usize,
    pub shards: usize,
}

impl State {
    pub(super) async fn round(&self) -> Swept {
        let mut swept = Swept::default();
        if !self.house.takes_work() {
            return swept;
        }
        let queue = &self.life.queue;
        match queue.sweep_locks().await {
            Ok(locks) => swept.locks += locks.len(),
            Err(error) => tracing::warn!(%error, "locks could not be looked for"),
        }
        match queue.sweep_names().await {
            Ok(names) => swept.locks += names.len(),
            Err(error) => tracing::warn!(%error, "locks on objects could not be looked for"),
        }
        let removed = self.leftovers().await;
        (swept.directories, swept.manifests) = (removed.attempts.len(), removed.manifests);
        swept.access_items = self.access().await;
        if swept != Swept::default() {
            let Swept { locks, directories, manifests, access_items, .. } = swept;
            tracing::info!(locks, directories, manifests, access_items, "cleaned up");
        }
        swept
    }

    /// What jobs have left on this node's disk that do not need it any more.
    pub(super) async fn leftovers(&self) -> Removed {
        if !self.house.work.is_real() {
            return Removed::default();
        }
        let (services, progress, cancel) = (self.life.services(), Progress::default(), Cancel::new());
        match clean::leftovers(&self.life.queue, &services, &progress, &cancel).await {
            Ok(removed) => removed,
            Err(failure) => {
                tracing::warn!(%failure, "the working directory could not be cleaned up");
                Removed::default()
            }
        }
    }

    /// The same, with all that one node does for all, whether or not it is time for it.
    pub(super) async fn everything(&self) -> Swept {
        let mut swept = self.round().await;
        if !self.house.takes_work() {
            return swept;
        }
        for routine in Routine::ALL {
            let Ran::Now(run) = self.run_once(routine).await else { continue };
            *match routine {
                Routine::Jobs => &mut swept.jobs,
                Routine::Batches => &mut swept.batches,
                Routine::Requests => &mut swept.requests,
                Routine::Semaphores => &mut swept.semaphores,
                Routine::Keys => &mut swept.keys,
                Routine::Shards => &mut swept.shards,
            } += run.removed;
        }
        swept
    }

    /// Completed and expired batches leave the tree when they have been there long enough.
    pub(super) async fn batches(&self) -> Result<usize, Error> {
        let queue = &self.life.queue;
        let session = queue.session();
        let keep = self.house.settings.load().upkeep.keep_batches;
        let (names, _) = look(session, || session.children(map::BATCHES)).await?;
        let mut cleaned = 0;
        for bid in names.iter().filter_map(|name| name.parse().ok()) {
            let batch = match queue.batch(bid).await {
                Ok(batch) => batch,
                Err(error @ Error::Store(_)) => return Err(error),
                Err(_) => continue,
            };
            let old = batch.status.last_modified.is_some_and(|at| at.until(queue.now()) >= keep);
            if !may_be_cleaned(&batch) || !old {
                continue;
            }
            match queue.clean_batch(bid, |_| {}).await {
                Ok(_) => cleaned += 1,
                Err(error @ Error::Store(_)) => return Err(error),
                Err(error) => tracing::debug!(batch = %bid, %error, "a batch is left for later"),
            }
            if cleaned == MOST_BATCHES {
                break;
            }
        }
        Ok(cleaned)
    }

    /// Each node looks at its own disk.
    async fn access(&self) -> usize {
        match assemble::expire(&self.life.queue, &self.life.services(), &Cancel::new()).await {
            Ok(expired) => expired.items.len(),
            Err(failure) => {
                tracing::warn!(%failure, "access items could not be looked at");
                0
            }
        }
    }
}
