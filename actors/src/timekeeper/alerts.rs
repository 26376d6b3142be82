//! What people should hear of at once: a job that nobody survives.
//!
//! It is in the log already, and counted here; the administrators get a mail. That is sent once, and tried a few
//! times: the job itself says the same for as long as it is there.

use std::sync::Arc;
use std::time::Duration;

use ingest_queue::journal::Alert;
use ingest_steps::alert;
use tokio::sync::broadcast::error::RecvError;

use crate::house::{House, Life, Task};

/// How often a mail is tried, and the pause after the first time.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);

pub(super) fn follow(house: &Arc<House>, life: &Arc<Life>) -> Task {
    let (house, life, mut alerts) = (house.clone(), life.clone(), life.queue.alerts());
    Task::spawn(async move {
        loop {
            match alerts.recv().await {
                Ok(alert) => {
                    house.meters.poisoned();
                    house.alert(alert.clone());
                    tell(&life, &alert).await;
                }
                // They are in the log.
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "alerts were not passed on"),
                Err(RecvError::Closed) => return,
            }
        }
    })
}

async fn tell(life: &Arc<Life>, about: &Alert) {
    for attempt in 0..TRIES {
        match alert::poison(&life.services(), about).await {
            Ok(_) => return,
            Err(failure) => {
                tracing::warn!(job = %about.jid, %failure, "the administrators were not told");
                tokio::time::sleep(PAUSE.saturating_mul(1 << attempt)).await;
            }
        }
    }
}
