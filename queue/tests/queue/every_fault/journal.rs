//! Keys, process dates and expirations.

use std::time::Duration;

use ingest_queue::error::Result;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::index;
use ingest_queue::index::finder::Finder;
use ingest_queue::map;
use ingest_queue::nodes::Schedule;
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use ingest_store::recipes::settle;

use super::{nothing, report, the_batch, through_every_fault, through_faults_on_a_server, waiting};
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

const HOUR: Duration = Duration::from_hours(1);

/// Two jobs that are dated, the second earlier than the first.
async fn dated(queue: Queue) -> Result<()> {
    let mut jobs = new_jobs(2);
    for (job, hours) in jobs.iter_mut().zip([2, 1]) {
        let process_date = Some(queue.now().after(HOUR * hours));
        job.schedule = Some(Schedule { process_date, ..Schedule::default() });
    }
    deposit(&queue, "uuid-1", &jobs).await?;
    Ok(())
}

/// The dates come, the jobs are taken, and go on.
async fn begun(queue: Queue) -> Result<()> {
    let finder = Finder::start_by(queue.session(), index::Settings::default(), queue.clock().clone()).await?;
    let pending = waiting(&queue, JobState::Pending).await?;
    assert_eq!(finder.counts(JobState::Pending).ready, 0, "none is due");
    queue.clock().advance(2 * HOUR);
    finder.reckon_dates();
    for expected in pending.iter().rev() {
        // It ends with the session.
        let Some(due) = finder.next(JobState::Pending).await else { break };
        assert_eq!(due.entry, *expected);
        let mut lease = queue.admit(due.entry, WHO).await?;
        finder.finished(due.entry);
        queue.give_back(&mut lease, None).await?;
    }
    for entry in waiting(&queue, JobState::Estimating).await? {
        let mut lease = queue.acquire(entry, WHO).await?;
        queue.succeed(&mut lease, &Change::default()).await?;
    }
    let session = queue.session();
    let (dates, _) = settle(session, || session.children(map::JOURNAL_DATES)).await.answer?;
    assert_eq!(dates, Vec::<String>::new());
    Ok(())
}

async fn dated_and_begun(queue: Queue) -> Result<()> {
    dated(queue.clone()).await?;
    begun(queue).await
}

/// Invariant: whatever breaks, a job has a date as long as it waits for it, is not taken before, is not forgotten when it
/// has come, and leaves no date behind when it was begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dated_job_is_taken_when_its_date_has_come() {
    Box::pin(through_every_fault(nothing, dated_and_begun)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dated_job_is_taken_when_its_date_has_come_on_a_server() {
    Box::pin(through_faults_on_a_server(dated, begun)).await;
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
