//! What a worker that has died leaves behind is put right: its locks are released, its job is back in line.
//!
//! A worker that panicked has said to the tree all that it wanted to say. One that was ended from outside, or that
//! does not know what became of its commit, may have a commit on its way that takes a lock or moves a fence: what it
//! leaves in the tree is looked for when all of that has arrived.

use std::sync::Arc;
use std::time::Duration;

use ingest_queue::index::finder::Finder;
use ingest_queue::map::QueueRef;

use crate::crash::Reason;
use crate::desk::Desk;
use crate::house::{House, Life};

/// The pause before a release is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Does it as soon as nothing of the worker runs any more, whatever becomes of whoever asked. Its desk is closed.
pub(crate) fn later(
    life: &Arc<Life>,
    finder: Option<&Arc<Finder>>,
    desk: &Arc<Desk>,
    entry: Option<QueueRef>,
    why: Reason,
) {
    let (life, finder, desk) = (life.clone(), finder.cloned(), desk.clone());
    tokio::spawn(async move {
        // A thread that cannot be ended may still be at its files.
        desk.left().await;
        all_of(&life, &desk.holder, why != Reason::Panic).await;
        if let (Some(finder), Some(entry)) = (finder, entry) {
            finder.put_back(entry.jid);
        }
        // Those who wait for room are passed over while they are locked.
        life.freed().poke();
    });
}

/// The same for all workers of some pools, who have died with their supervisor.
pub(crate) fn all_at(
    house: &House,
    life: &Arc<Life>,
    finder: Option<&Arc<Finder>>,
    pools: impl Fn(&str) -> bool,
) {
    for desk in house.floor.desks().into_iter().filter(|desk| pools(&desk.pool)) {
        if let Some(current) = desk.close() {
            later(life, finder, &desk, current.entry, Reason::Killed);
        }
    }
}

/// Releases what a holder had, and if wanted also what nobody here claims. It is tried until it is certain, or the
/// session is over and so are its locks.
pub(crate) async fn all_of(life: &Life, holder: &str, thoroughly: bool) {
    let queue = &life.queue;
    let mut states = queue.session().states();
    let over = async {
        let _ = states.wait_for(|now| now.state.is_final()).await;
    };
    let release = async {
        loop {
            let released = async {
                queue.release_all_of(holder).await?;
                if thoroughly {
                    queue.sweep_locks().await?;
                }
                // Others may wait for the object that it was at.
                queue.sweep_names().await?;
                Ok::<_, ingest_queue::error::Error>(())
            };
            let Err(error) = released.await else { return };
            tracing::warn!(holder, %error, "its locks could not be released, and are tried again");
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        biased;
        () = over => tracing::debug!(holder, "its locks went with the session"),
        () = release => {}
    }
}
