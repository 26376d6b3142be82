//! Jobs: made, moved, handed over, held, released, requeued, alone and in bulk.

use ingest_queue::bulk::{Bulk, BulkAction};
use ingest_queue::dialect::Dialect;
use ingest_queue::error::Result;
use ingest_queue::ids::Jid;
use ingest_queue::list::Filter;
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::queue::Queue;
use ingest_queue::states::{JobState, States, Who};

use super::batches::{failed, mixed};
use super::{jobs, nothing, the_batch, through_every_fault, waiting};
use crate::world::{WHO, deposit, new_jobs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expansion_ends_with_one_job_per_row() {
    async fn story(queue: Queue) -> Result<()> {
        // More than fit into two multis.
        deposit(&queue, "uuid-1", &new_jobs(240)).await?;
        assert_eq!(jobs(&queue).await?.len(), 240);
        Ok(())
    }
    Box::pin(through_every_fault(nothing, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_walk_through_their_states_once() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(2)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        for state in JobState::ALL.iter().copied().filter(|state| state.is_taken_from()) {
            if state == JobState::Storing {
                continue;
            }
            for entry in waiting(&queue, state).await? {
                let mut lease = queue.acquire(entry, WHO).await?;
                if state == JobState::Downloading && entry.jid.number() % 2 == 0 {
                    queue.fail(&mut lease, &Change::message("no route to host")).await?;
                } else {
                    queue.succeed(&mut lease, &Change::message("done")).await?;
                }
            }
        }
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_handed_over_from_state_to_state() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(1)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        for state in JobState::ALL.iter().copied().filter(|state| state.is_taken_from()) {
            if state == JobState::Storing {
                continue;
            }
            for entry in waiting(&queue, state).await? {
                let mut lease = match state {
                    JobState::Pending => queue.admit(entry, WHO).await?,
                    _ => queue.acquire(entry, WHO).await?,
                };
                while let Some(next) = lease.job().state().success(Dialect::Design) {
                    let from = lease.job().state();
                    let by = if from == JobState::Pending { Who::Queue } else { Who::Worker };
                    if next == JobState::Completed {
                        queue.advance(&mut lease, next, by, &Change::default()).await?;
                    } else {
                        queue.hand_over(&mut lease, next, by, &Change::default()).await?;
                    }
                }
            }
        }
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_held_released_requeued_and_deleted() {
    async fn prepare(queue: Queue) -> Result<()> {
        mixed(&queue).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        let jids = jobs(&queue).await?;
        let commit = |what: &str, jid: Jid| format!("{what}-{jid}");
        let held = jids[2];
        queue.act_once(held, &Action::Release, "", false, commit("release", held)).await?;
        let waits = jids[jids.len() - 1];
        queue
            .act_once(waits, &Action::SetPriority(crate::world::priority(70)), "", false, commit("p", waits))
            .await?;
        queue.act_once(waits, &Action::Hold, "", false, commit("hold", waits)).await?;
        let failed = jids[1];
        queue.act_once(failed, &Action::Requeue(None), "", false, commit("requeue", failed)).await?;
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_action_touches_every_job_once() {
    async fn prepare(queue: Queue) -> Result<()> {
        let _ = failed(&queue).await?;
        Ok(())
    }
    async fn story(queue: Queue) -> Result<()> {
        let filter = Filter { batch: Some(the_batch()), ..Filter::default() };
        let action = BulkAction::Requeue { to: None };
        let bulk = Bulk::new("spring", action, filter, false, Dialect::Design)?;
        let summary = queue.bulk(&bulk, "an operator", |_| ()).await.map_err(|stopped| stopped.error)?;
        assert!(summary.refusals.is_empty(), "{summary:?}");
        assert!(waiting(&queue, JobState::Failed).await?.is_empty());
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_is_held_and_released_with_all_that_it_held() {
    async fn prepare(queue: Queue) -> Result<()> {
        deposit(&queue, "uuid-1", &new_jobs(2)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        queue.hold_collection("demo_content", "an operator", "moving disks").await?;
        for entry in waiting(&queue, JobState::Pending).await? {
            queue
                .act_once(entry.jid, &Action::HoldForCollection, "", false, format!("h-{}", entry.jid))
                .await?;
        }
        queue.release_collection_and_all("demo_content", "an operator", |_| ()).await?;
        Ok(())
    }
    // A second hold has another date of its own only if the clock moves, and it does not.
    Box::pin(through_every_fault(prepare, story)).await;
}
