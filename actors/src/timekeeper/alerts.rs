//! What people should hear of at once.
//!
//! A job that nobody survives is in the log of the node that has seen it; here it is counted, and told to whoever listens.
//! The administrators get a mail: everything in `/alerts` is sent by the elected timekeeper, which removes it when it
//! was sent.
//!
//! **When things break.** A mail that cannot be sent stays in the tree, and is tried again after pauses that grow. If the
//! elected node goes, the next one sends what is left, and what was sent and could not be removed once more, under
//! the same id. Where nobody is to be told (`mail.admins`), alerts are removed.

use std::sync::Arc;
use std::time::Duration;

use ingest_queue::alerts::Owed;
use ingest_queue::queue::Queue;
use ingest_queue::{error, map};
use ingest_steps::alert;
use ingest_store::{Event, TreeWatch};
use tokio::sync::broadcast::error::RecvError;

use crate::elected::Post;
use crate::house::{House, Life, Task};

/// The pause after the first failure; each is twice the one before, up to the longest.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_mins(5);

/// Counts what is seen here, and passes it on.
pub(super) fn follow(house: &Arc<House>, life: &Arc<Life>) -> Task {
    let (house, mut alerts) = (house.clone(), life.queue.alerts());
    Task::spawn(async move {
        loop {
            match alerts.recv().await {
                Ok(alert) => {
                    house.meters.poisoned();
                    house.alert(alert);
                }
                // They are in the log.
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "alerts were not passed on"),
                Err(RecvError::Closed) => return,
            }
        }
    })
}

/// What the elected one does, for as long as it is the one.
pub(super) async fn tell_all(life: Arc<Life>, post: Post) {
    let mut pause = PAUSE;
    let mut watch = match life.queue.session().watch_tree(map::ALERTS).await {
        Ok(watch) => watch,
        Err(error) => {
            tracing::debug!(%error, "alerts are not followed; whoever is elected next does it");
            return;
        }
    };
    loop {
        let all = match run_once(&life, &post).await {
            Ok(all) => all,
            Err(error) => {
                tracing::debug!(%error, "what is to be told could not be looked for");
                false
            }
        };
        if all {
            pause = PAUSE;
            if !more(&mut watch).await {
                return;
            }
        } else {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }
}

/// Tells everything that was not told; says whether nothing is left.
async fn run_once(life: &Life, post: &Post) -> error::Result<bool> {
    let mut all = true;
    for owed in life.queue.owed_alerts().await? {
        all &= tell(life, post, &owed).await?;
    }
    Ok(all)
}

async fn tell(life: &Life, post: &Post, owed: &Owed) -> error::Result<bool> {
    // The gate before an effect outside of the tree: does this node still lead?
    life.queue.session().multi(vec![post.fence()]).await?;
    match alert::tell(&life.services(), &owed.name, &owed.alert).await {
        Ok(told) => {
            life.queue.alert_told(owed, post.fence()).await?;
            tracing::info!(alert = owed.name, told, "an alert is done with");
            Ok(true)
        }
        Err(failure) => {
            tracing::warn!(alert = owed.name, %failure, "the administrators could not be told; it is tried again");
            Ok(false)
        }
    }
}

/// Waits for another; `false`: the session is over.
async fn more(watch: &mut TreeWatch) -> bool {
    loop {
        match watch.next().await {
            Event::Ended(_) => return false,
            Event::Relist(_) => return true,
            Event::Created(at) if Queue::is_alert(&at) => return true,
            _ => {}
        }
    }
}
