//! Feeds: consumed, paused, set back, divided.

use ingest_queue::error::Result;
use ingest_queue::feeds::Qid;
use ingest_queue::map;
use ingest_queue::nodes::WorkerNode;
use ingest_queue::queue::Queue;
use ingest_store::recipes::settle;

use super::{nothing, through_every_fault, through_faults_on_a_server};
use crate::world::{WHO, submission};

/// From the checkpoint on, and the last one again, as a source gives them; the fourth becomes nothing.
async fn consumed(queue: Queue) -> Result<()> {
    let qid = queue.make_feed("herbarium", "atom").await?.qid;
    let mut lease = queue.acquire_feed(qid, WHO).await?;
    let from = lease.last().parse::<usize>().unwrap_or(0);
    for number in from..3 {
        let (item, last) = (format!("item {number}"), number.to_string());
        queue.take_item(&mut lease, &item, &last, &submission()).await?;
    }
    // Passed over once, also if it is done again.
    queue.skip_item(&mut lease, "item 3", "3", "it has no payload").await?;
    queue.release_feed(&mut lease).await?;
    let feed = queue.feed(Qid::of("herbarium")).await?.node;
    assert_eq!((feed.items, feed.skipped, feed.skipped_items.len()), (3, 1, 1));
    Ok(())
}

/// Invariant: whatever breaks at whichever call, every item of a feed becomes exactly one batch, the checkpoint stands
/// behind the last of them, and what was counted is true.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_consumed_item_by_item() {
    through_every_fault(nothing, consumed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_consumed_item_by_item_on_a_server() {
    through_faults_on_a_server(nothing, consumed).await;
}

/// Invariant: what a person does to a feed is done once, and whoever consumes it has lost it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_is_paused_set_back_and_resumed() {
    async fn prepare(queue: Queue) -> Result<()> {
        let qid = queue.make_feed("herbarium", "atom").await?.qid;
        let mut lease = queue.acquire_feed(qid, WHO).await?;
        queue.take_item(&mut lease, "item", "1", &submission()).await.map(|_| ())
    }
    async fn story(queue: Queue) -> Result<()> {
        let qid = Qid::of("herbarium");
        queue.pause_feed(qid, "ann", "it moves").await?;
        queue.reset_feed(qid, "0").await?;
        queue.ask_feed(qid, "ann").await?;
        queue.take_wish(qid).await?;
        queue.resume_feed(qid).await?;
        Ok(())
    }
    through_every_fault(prepare, story).await;
}

/// Invariant: feeds are divided among the workers that live, whatever breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feeds_are_divided() {
    async fn story(queue: Queue) -> Result<()> {
        let offers = ["a", "b", "c"].map(Qid::of).to_vec();
        let worker = WorkerNode { offers, node: "one".into(), ..WorkerNode::default() };
        let at = queue.register_worker(&worker).await?;
        let name = Queue::worker_name(&at);
        while let seen = queue.workers().await?
            && let Some(shares) = seen.divided()
        {
            queue.assign_feeds(&seen, shares).await?;
        }
        assert_eq!(queue.workers().await?.share(&name).len(), 3);
        // It leaves, so that the tree is the same whoever was the first.
        let session = queue.session();
        settle(session, || session.delete(at.as_str(), None))
            .await
            .answer
            .or_else(|error| if error.kind() == ingest_store::Kind::NoNode { Ok(()) } else { Err(error) })?;
        settle(session, || session.set(map::WORKERS, "", None)).await.answer?;
        Ok(())
    }
    through_every_fault(nothing, story).await;
}
