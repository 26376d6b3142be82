//! Batches: ended, reported, reported again, deleted.

use ingest_queue::error::{Error, Result};
use ingest_queue::ids::Bid;
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchState, JobState};

use super::{jobs, report, the_batch, through_every_fault, waiting};
use crate::world::{WHO, deposit, new_jobs};

/// A batch of which one job is done, one failed, one held and one waits.
pub(super) async fn mixed(queue: &Queue) -> Result<Bid> {
    let bid = deposit(queue, "uuid-1", &new_jobs(4)).await?;
    let jids = jobs(queue).await?;
    crate::world::bring(queue, jids[0], JobState::Completed).await;
    crate::world::bring(queue, jids[1], JobState::Failed).await;
    crate::world::bring(queue, jids[2], JobState::Held).await;
    Ok(bid)
}

/// The same, ended: the batch has failed.
pub(super) async fn failed(queue: &Queue) -> Result<Bid> {
    let bid = mixed(queue).await?;
    let jids = jobs(queue).await?;
    queue.act(jids[2], &Action::Release, "", false).await?;
    for jid in &jids[2..] {
        crate::world::bring(queue, *jid, JobState::Failed).await;
    }
    report(queue, bid).await?;
    Ok(bid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_ends_and_reports() {
    async fn prepare(queue: Queue) -> Result<()> {
        let bid = mixed(&queue).await?;
        assert_eq!(bid, the_batch());
        let jids = jobs(&queue).await?;
        queue.act(jids[2], &Action::Release, "", false).await?;
        for jid in &jids[2..] {
            crate::world::bring(&queue, *jid, JobState::Completed).await;
        }
        Ok(())
    }
    async fn story(queue: Queue) -> Result<()> {
        report(&queue, the_batch()).await
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_is_reported() {
    async fn prepare(queue: Queue) -> Result<()> {
        failed(&queue).await?;
        let jids = jobs(&queue).await?;
        queue.act(jids[1], &Action::Requeue(None), "", false).await?;
        crate::world::bring(&queue, jids[1], JobState::Completed).await;
        Ok(())
    }
    async fn story(queue: Queue) -> Result<()> {
        let reported = queue.last_report(the_batch()).await?.map_or(0, |report| report.number);
        if queue.batch(the_batch()).await?.state() == BatchState::Failed && reported == 1 {
            queue.act_on_batch(the_batch(), BatchAction::UpdateReport, "", false).await?;
        }
        report(&queue, the_batch()).await
    }
    Box::pin(through_every_fault(prepare, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_deleted_with_all_its_jobs() {
    async fn prepare(queue: Queue) -> Result<()> {
        failed(&queue).await?;
        // One that was requeued, and is being worked on when the batch goes.
        let jids = jobs(&queue).await?;
        queue.act(jids[1], &Action::Requeue(None), "", false).await?;
        // Something of another batch stays.
        deposit(&queue, "uuid-2", &new_jobs(2)).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        for entry in waiting(&queue, JobState::Downloading).await? {
            queue.acquire(entry, WHO).await?;
        }
        match queue.delete_batch(the_batch(), "an operator", "not wanted", false, |_| ()).await {
            // Not found: it was killed after its last step.
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        queue.locks().revoke_all();
        Ok(())
    }
    Box::pin(through_every_fault(prepare, story)).await;
}
