//! Commits whose answer is lost: nobody knows what became of them until somebody looks. Whichever commit of a job's
//! life it is, the job ends once, nothing stays locked, and the tree is as it should be.

use std::collections::BTreeSet;

use ingest_actors::node::Node;
use ingest_harness::{FileServer, Matcher, RequestKind};
use ingest_queue::ids::Bid;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState};
use ingest_store::faults::Fault;

use crate::kit::{self, Place};

async fn submit(queue: &Queue, files: &FileServer, number: usize) -> Bid {
    let url = files.put(&format!("/{number}.txt"), format!("{number}"));
    kit::submit(queue, kit::submission(&url, Some("file"))).await
}

/// The batch has one job, which has ended once.
async fn ended_once(queue: &Queue, bid: Bid, what: &str) {
    assert_eq!(kit::reported(queue, bid).await, BatchState::Completed, "{what}");
    let done = kit::jobs(queue, bid, BatchList::Completed).await;
    assert_eq!(done.len(), 1, "{what}");
    let history = queue.history(done[0]).await.unwrap().unwrap();
    // That it has left the queue of those that are completed is no move.
    let moves = history.entries.iter().filter(|entry| entry.from != Some(entry.to));
    let to: Vec<_> = moves.map(|entry| entry.to).collect();
    let each: BTreeSet<_> = to.iter().collect();
    assert_eq!(each.len(), to.len(), "{what}: {to:?}");
    kit::clean(queue).await;
}

/// All objects are stored once, and each depositor was told of one report.
async fn end(place: &Place, queue: &Queue, node: Node, batches: usize) {
    let storage = node.life().await.unwrap().services().storages["default"].clone();
    let stored: Vec<_> = futures::StreamExt::collect::<Vec<_>>(storage.objects()).await;
    let told: BTreeSet<_> = kit::mails(&place.outbox()).into_iter().collect();
    assert_eq!((stored.len(), told.len()), (batches, batches));
    kit::drained(node).await;
    kit::clean(queue).await;
    kit::nothing_left(&place.work("node-1"));
}

/// Breaks one call in so many, one after the other, until a job's life is over before the call comes.
async fn each_call(fault: Fault, in_so_many: usize) {
    let (place, calls) = Place::with_faults();
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    let (mut call, mut batches) = (0, 0);
    loop {
        calls.break_call(call, fault);
        let bid = submit(&queue, &files, batches).await;
        ended_once(&queue, bid, &format!("{fault:?} at call {call}")).await;
        batches += 1;
        if !calls.has_happened() {
            break;
        }
        // After its session a node begins anew.
        assert!(node.ready().await);
        call += in_so_many;
    }
    assert!(batches > 5, "{batches}");
    // A trap that has not sprung by now is to stay so.
    calls.break_call(usize::MAX, fault);
    end(&place, &queue, node, batches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_once_whichever_answer_is_lost_embedded() {
    each_call(Fault::LoseAnswer, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_once_whenever_the_session_ends_with_an_answer_on_its_way_embedded() {
    each_call(Fault::ExpireAfter, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_once_whichever_answer_to_a_commit_is_lost_zookeeper() {
    let (place, proxy) = Place::behind_a_proxy().await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    // From the lock on the batch to its report there are more than so many.
    let commits: Vec<usize> = (0..12).step_by(2).collect();
    for commit in &commits {
        let lost = proxy.drop_reply(Matcher::kind(RequestKind::Multi).skip(*commit as u64));
        let bid = submit(&queue, &files, *commit).await;
        ended_once(&queue, bid, &format!("the answer to commit {commit}")).await;
        assert_eq!(lost.happened().await.err, 0, "it was applied");
    }
    assert_eq!(node.snapshot().await.unwrap().sessions, 1);
    end(&place, &queue, node, commits.len()).await;
}
