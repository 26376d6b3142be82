//! Slots of limits: taken, kept, given back; and limits that are set.

use ingest_queue::error::Result;
use ingest_queue::limits::rules::Kind;
use ingest_queue::limits::set::Wanted;
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::{JobState, Who};

use super::{jobs, nothing, through_every_fault, through_faults_on_a_server, waiting};
use crate::world::{WHO, bring, deposit, new_jobs};

/// Two jobs that wait to be downloaded, and limits of one.
async fn two_jobs(queue: Queue) -> Result<()> {
    deposit(&queue, "uuid-1", &new_jobs(2)).await?;
    for jid in jobs(&queue).await? {
        bring(&queue, jid, JobState::Downloading).await;
    }
    queue.set_limit(Kind::Host, "example.org", Wanted::AtMost(1)).await?;
    queue.set_limit(Kind::Profile, "demo_content", Wanted::AtMost(1)).await.map(|_| ())
}

/// Taken with the acquire, kept and given back with the hand-over, given back with the end.
async fn slots(queue: Queue) -> Result<()> {
    for entry in waiting(&queue, JobState::Downloading).await? {
        let mut lease = queue.acquire(entry, WHO).await?;
        queue.hand_over(&mut lease, JobState::Processing, Who::Worker, &Change::default()).await?;
        queue.succeed(&mut lease, &Change::default()).await?;
    }
    for entry in waiting(&queue, JobState::Processing).await? {
        let mut lease = queue.acquire(entry, WHO).await?;
        queue.succeed(&mut lease, &Change::default()).await?;
    }
    for line in queue.semaphores().await? {
        assert_eq!(line.holders, [], "{}", line.semaphore);
    }
    Ok(())
}

/// Invariant: whatever breaks, no slot is lost. With limits of one, two jobs can only go one after the other: a slot
/// that is lost would stop the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_slot_of_a_limit_is_lost() {
    through_every_fault(two_jobs, slots).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_slot_of_a_limit_is_lost_on_a_server() {
    through_faults_on_a_server(two_jobs, slots).await;
}

/// The limits are as they were set, whatever is lost on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_set_once() {
    async fn story(queue: Queue) -> Result<()> {
        queue.set_limit(Kind::Collection, "maps", Wanted::AtMost(3)).await?;
        queue.set_limit(Kind::Host, "a", Wanted::NoLimit).await?;
        queue.set_limit(Kind::Host, "b", Wanted::AtMost(1)).await?;
        queue.set_limit(Kind::Host, "b", Wanted::AsTheFileSays).await.map(|_| ())
    }
    through_every_fault(nothing, story).await;
}
