//! Keys and expirations.

use ingest_queue::error::Result;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;

use super::{nothing, report, the_batch, through_every_fault, waiting};
use crate::world::{WHO, deposit, new_jobs};

/// Invariant: whatever breaks, each submission under a key is in the batch that it was answered with; one waits, one
/// is processed, and the second is not begun before the first has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_under_one_key_are_merged_queued_and_begun_in_turn() {
    async fn story(queue: Queue) -> Result<()> {
        use crate::journal::{begin, keyed};
        let first = queue.create_batch("u-1", &keyed("k", "one")).await?.bid;
        assert_eq!(first, the_batch());
        let second = queue.create_batch("u-2", &keyed("k", "two")).await?.bid;
        assert_eq!(second, the_batch(), "merged, or known");
        begin(&queue, first, 1).await?;
        let behind = queue.create_batch("u-3", &keyed("k", "three")).await?.bid;
        assert_eq!(behind, Bid::new(1));
        for state in [JobState::Pending, JobState::Estimating] {
            for entry in waiting(&queue, state).await? {
                if queue.job(entry.jid).await?.bid == first {
                    let mut lease = queue.acquire(entry, WHO).await?;
                    queue.succeed(&mut lease, &Change::default()).await?;
                }
            }
        }
        for entry in waiting(&queue, JobState::Provisioning).await? {
            let mut lease = queue.acquire(entry, WHO).await?;
            queue.fail(&mut lease, &Change::message("too large")).await?;
        }
        report(&queue, first).await?;
        begin(&queue, behind, 1).await
    }
    Box::pin(through_every_fault(nothing, story)).await;
}

/// Invariant: whatever breaks, a job that has expired is begun by nobody, goes once, and its batch names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_job_goes_and_is_reported() {
    async fn prepare(queue: Queue) -> Result<()> {
        let mut jobs = new_jobs(2);
        let past = ingest_queue::date::Date::from_millis(queue.now().millis() - 1);
        jobs[0].schedule =
            Some(ingest_queue::nodes::Schedule { expiration_date: Some(past), ..Default::default() });
        deposit(&queue, "uuid-1", &jobs).await?;
        crate::world::bring(&queue, Jid::new(2), JobState::Completed).await;
        Ok(())
    }
    async fn story(queue: Queue) -> Result<()> {
        queue.expire(Jid::new(1)).await?;
        report(&queue, the_batch()).await
    }
    Box::pin(through_every_fault(prepare, story)).await;
}
