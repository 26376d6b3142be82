//! What a worker that has died leaves behind is put right: its locks are released, its job is back in line.

use std::sync::Arc;
use std::time::Duration;

use ingest_queue::index::finder::Finder;
use ingest_queue::map::QueueRef;

use crate::desk::Desk;
use crate::house::Life;

/// The pause before a release is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Does it as soon as nothing of the worker runs any more, whatever becomes of whoever asked.
pub(crate) fn later(
    life: &Arc<Life>,
    finder: Option<&Arc<Finder>>,
    desk: &Arc<Desk>,
    entry: Option<QueueRef>,
) {
    let (life, finder, desk) = (life.clone(), finder.cloned(), desk.clone());
    tokio::spawn(async move {
        // A thread that cannot be ended may still be at its files.
        desk.left().await;
        all_of(&life, &desk.holder).await;
        if let (Some(finder), Some(entry)) = (finder, entry) {
            finder.put_back(entry.jid);
        }
    });
}

/// Releases what a holder had. It is tried until it is certain, or the session is over and so are its locks.
pub(crate) async fn all_of(life: &Life, holder: &str) {
    loop {
        match life.queue.release_all_of(holder).await {
            Ok(_) => return,
            Err(error) if life.queue.session().state().is_final() => {
                tracing::debug!(holder, %error, "its locks went with the session");
                return;
            }
            Err(error) => {
                tracing::warn!(holder, %error, "its locks could not be released, and are tried again");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
