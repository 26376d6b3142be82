//! Alerts: kept in the commit that makes them true, and removed when they were told.

use ingest_queue::error::{Error, Result};
use ingest_queue::map;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_store::Op;

use super::{jobs, nothing, through_every_fault, through_faults_on_a_server, waiting};
use crate::world::{WHO, acquire, bring, deposit, new_jobs};

/// A feed that fails again and again, and whoever consumes it says so each time.
async fn failing(queue: Queue) -> Result<()> {
    let qid = queue.make_feed("herbarium", "atom").await?.qid;
    let mut lease = queue.acquire_feed(qid, WHO).await?;
    for _ in 0..2 {
        queue.alert_feed(&mut lease, "no route to host").await?;
    }
    queue.release_feed(&mut lease).await?;
    let owed = queue.owed_alerts().await?;
    assert_eq!(owed.len(), 1, "{owed:?}");
    assert_eq!(owed[0].alert.feed.as_deref(), Some("herbarium"));
    Ok(())
}

/// Invariant: whatever breaks, the administrators are owed one alert of a feed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_alert_is_owed_for_a_feed_that_fails() {
    through_every_fault(nothing, failing).await;
}

/// A job whose worker has died so often that once more is too often.
async fn crashed(queue: Queue) -> Result<()> {
    deposit(&queue, "uuid-1", &new_jobs(1)).await?;
    let jid = jobs(&queue).await?[0];
    bring(&queue, jid, JobState::Downloading).await;
    // Four are the most, and the first of these has none to count.
    for _ in 0..4 {
        drop(acquire(&queue, jid).await);
        queue.release_all_of(WHO).await?;
    }
    Ok(())
}

async fn poisoned(queue: Queue) -> Result<()> {
    for entry in waiting(&queue, JobState::Downloading).await? {
        match queue.acquire(entry, WHO).await {
            Err(Error::Changed { .. }) => {}
            Err(error) => return Err(error),
            Ok(_) => panic!("nobody survives it"),
        }
    }
    assert_eq!(waiting(&queue, JobState::Failed).await?.len(), 1);
    let owed = queue.owed_alerts().await?;
    assert_eq!(owed.len(), 1, "{owed:?}");
    assert!(owed[0].alert.job.is_some() && owed[0].alert.why.starts_with("poison"), "{owed:?}");
    Ok(())
}

/// Invariant: whatever breaks, a job that nobody survives fails once, and one alert of it is owed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_alert_is_owed_for_a_job_that_nobody_survives() {
    through_every_fault(crashed, poisoned).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_alert_is_owed_for_a_job_that_nobody_survives_on_a_server() {
    through_faults_on_a_server(crashed, poisoned).await;
}

/// Invariant: whatever breaks, an alert that was told is owed no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alert_that_was_told_goes() {
    async fn told(queue: Queue) -> Result<()> {
        for owed in queue.owed_alerts().await? {
            // In place of the fence of an election: something that holds.
            queue.alert_told(&owed, Op::check(map::ALERTS, 0)).await?;
        }
        assert!(queue.owed_alerts().await?.is_empty());
        assert!(queue.owed_alerts().await?.is_empty());
        Ok(())
    }
    through_every_fault(failing, told).await;
}
