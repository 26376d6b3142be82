//! Feeds on both engines.
//!
//! Invariants: an item of a feed becomes exactly one batch, in the multi that moves the checkpoint; a feed has one owner
//! at most, and whoever has lost it commits nothing; what a person has done holds from its answer on; feeds of two
//! namespaces know nothing of each other.

use std::collections::BTreeSet;

use ingest_queue::error::Error;
use ingest_queue::feeds::{Asked, FeedLease, Qid};
use ingest_queue::holds::Was;
use ingest_queue::map;
use ingest_queue::nodes::{FeedNode, WorkerNode};
use ingest_queue::queue::Queue;
use ingest_store::Session;

use crate::tree::{Tree, on_both_engines};
use crate::world::{clean, queue, queue_on, read, snapshot, submission};
use ingest_queue::dialect::Dialect;

const WHO: &str = "feed-herbarium";

async fn herbarium(queue: &Queue) -> (Qid, FeedLease) {
    let feed = queue.make_feed("herbarium", "atom").await.unwrap();
    let lease = queue.acquire_feed(feed.qid, WHO).await.unwrap();
    (feed.qid, lease)
}

async fn take(queue: &Queue, lease: &mut FeedLease, number: usize) -> bool {
    let (item, last) = (format!("item {number}"), format!("{number:03}"));
    !queue.take_item(lease, &item, &last, &submission()).await.unwrap().known
}

pub(crate) async fn batches(session: &Session) -> usize {
    session.children(map::BATCHES).await.unwrap().0.len()
}

async fn an_item_becomes_a_batch_and_the_checkpoint_moves_with_it(tree: &Tree) {
    let queue = queue(tree).await;
    let (qid, mut lease) = herbarium(&queue).await;
    assert_eq!(lease.last(), "");
    for number in 0..3 {
        assert!(take(&queue, &mut lease, number).await);
        clean(queue.session(), Dialect::Design).await;
    }
    let feed: FeedNode = read(&snapshot(queue.session()).await, &map::feed(qid));
    assert_eq!((feed.last.as_str(), feed.items, feed.name.as_str()), ("002", 3, "herbarium"));
    let bid = queue.find_batch(&qid.uuid_of("item 2")).await.unwrap();
    assert_eq!((feed.batch, batches(queue.session()).await), (bid, 3));
    queue.release_feed(&mut lease).await.unwrap();
    clean(queue.session(), Dialect::Design).await;
}

async fn an_item_that_comes_again_is_answered_with_its_batch(tree: &Tree) {
    let queue = queue(tree).await;
    let (qid, mut lease) = herbarium(&queue).await;
    let first = queue.take_item(&mut lease, "a", "1", &submission()).await.unwrap();
    let again = queue.take_item(&mut lease, "a", "2", &submission()).await.unwrap();
    assert_eq!((again.bid, first.known, again.known), (first.bid, false, true));
    assert_eq!((lease.last(), lease.feed().node.items), ("2", 1));
    // In another feed the same id is another item.
    let other = queue.make_feed("other", "atom").await.unwrap();
    let mut lease = queue.acquire_feed(other.qid, WHO).await.unwrap();
    assert!(!queue.take_item(&mut lease, "a", "1", &submission()).await.unwrap().known);
    assert_eq!(batches(queue.session()).await, 2);
    assert_eq!(queue.feed(qid).await.unwrap().node.items, 1);
    clean(queue.session(), Dialect::Design).await;
}

async fn items_that_become_nothing_are_counted(tree: &Tree) {
    let queue = queue(tree).await;
    let (qid, mut lease) = herbarium(&queue).await;
    queue.move_feed(&mut lease, "7", 2).await.unwrap();
    let feed = queue.feed(qid).await.unwrap().node;
    assert_eq!((feed.last.as_str(), feed.items, feed.skipped), ("7", 0, 2));
}

async fn items_that_can_become_nothing_are_counted_once_and_the_last_are_kept_with_their_reasons(
    tree: &Tree,
) {
    let queue = queue(tree).await;
    let (qid, mut lease) = herbarium(&queue).await;
    // One that moves nothing, and one that moves the checkpoint; each comes again.
    for is_new in [true, false] {
        assert_eq!(queue.skip_item(&mut lease, "a", "", "it has no date").await.unwrap(), is_new);
    }
    for (last, is_new) in [("1", true), ("1", false), ("2", false)] {
        assert_eq!(queue.skip_item(&mut lease, "b", last, "it has no payload").await.unwrap(), is_new);
        assert_eq!(lease.last(), last);
    }
    let feed = queue.feed(qid).await.unwrap().node;
    assert_eq!((feed.skipped, feed.skipped_items.len()), (2, 2));
    assert_eq!(
        (feed.skipped_items[1].item.as_str(), feed.skipped_items[1].why.as_str()),
        ("b", "it has no payload")
    );
    assert!(feed.skipped_items[1].when.is_some());
    // Long ids and reasons are cut, and long ids are still told from each other.
    let long = "ä".repeat(1000);
    for end in ["x", "y"] {
        assert!(queue.skip_item(&mut lease, &format!("{long}{end}"), "2", &long).await.unwrap());
    }
    for number in 0..30 {
        queue.skip_item(&mut lease, &number.to_string(), "2", "why").await.unwrap();
    }
    let feed = queue.feed(qid).await.unwrap().node;
    assert_eq!(
        (feed.skipped, feed.skipped_items.len(), feed.skipped_items[19].item.as_str()),
        (34, 20, "29")
    );
    // What lies behind a checkpoint that a person has set is passed over anew.
    queue.release_feed(&mut lease).await.unwrap();
    queue.reset_feed(qid, "").await.unwrap();
    let feed = queue.feed(qid).await.unwrap().node;
    assert_eq!((feed.skipped, feed.skipped_items), (34, Vec::new()));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_feed_has_one_owner_and_the_next_goes_on_where_it_stopped(tree: &Tree) {
    let (one, other) = (queue(tree).await, queue(tree).await);
    let (qid, mut lease) = herbarium(&one).await;
    take(&one, &mut lease, 0).await;
    let busy = other.acquire_feed(qid, WHO).await.unwrap_err();
    assert!(matches!(&busy, Error::Busy { node, .. } if node == "node-1"), "{busy}");
    one.release_feed(&mut lease).await.unwrap();
    let mut next = other.acquire_feed(qid, WHO).await.unwrap();
    assert_eq!(next.last(), "000");
    assert!(!take(&other, &mut next, 0).await);
    assert!(take(&other, &mut next, 1).await);
    // The one before has nothing left to say.
    let late = one.take_item(&mut lease, "late", "9", &submission()).await.unwrap_err();
    assert!(matches!(late, Error::Lost { .. }), "{late}");
    assert_eq!(batches(one.session()).await, 2);
    clean(one.session(), Dialect::Design).await;
}

async fn an_owner_whose_session_ends_commits_nothing_more(tree: &Tree) {
    let mortal = tree.mortal_session().await;
    let first = queue_on(&mortal, Dialect::Design).await;
    let (qid, mut lease) = herbarium(&first).await;
    take(&first, &mut lease, 0).await;
    tree.expire(&mortal).await;
    let next = queue(tree).await;
    let mut lease_of_next = next.acquire_feed(qid, WHO).await.unwrap();
    assert!(first.take_item(&mut lease, "late", "9", &submission()).await.is_err());
    assert!(!take(&next, &mut lease_of_next, 0).await);
    assert!(take(&next, &mut lease_of_next, 1).await);
    assert_eq!(batches(next.session()).await, 2);
    clean(next.session(), Dialect::Design).await;
}

async fn nothing_is_consumed_after_a_pause_was_answered(tree: &Tree) {
    let (owner, person) = (queue(tree).await, queue(tree).await);
    let (qid, mut lease) = herbarium(&owner).await;
    take(&owner, &mut lease, 0).await;
    assert_eq!(person.pause_feed(qid, "ann", "the source is being moved").await.unwrap(), Was::Changed);
    let refused = owner.take_item(&mut lease, "item 1", "001", &submission()).await.unwrap_err();
    assert!(matches!(refused, Error::Lost { .. }), "{refused}");
    // The lock was taken away; the one who had it may give it up without harm.
    assert!(matches!(owner.release_feed(&mut lease).await, Err(Error::Lost { .. })));
    let paused = owner.acquire_feed(qid, WHO).await.unwrap_err().to_string();
    assert!(paused.contains("ann") && paused.contains("being moved"), "{paused}");
    let Was::Already(Some(hold)) = person.pause_feed(qid, "bob", "again").await.unwrap() else {
        panic!("it was paused before")
    };
    assert_eq!(hold.who, "ann");
    assert_eq!(person.resume_feed(qid).await.unwrap(), Was::Changed);
    assert_eq!(person.resume_feed(qid).await.unwrap(), Was::Already(None));
    let mut lease = owner.acquire_feed(qid, WHO).await.unwrap();
    assert!(take(&owner, &mut lease, 1).await);
    clean(owner.session(), Dialect::Design).await;
}

async fn a_checkpoint_that_is_set_back_brings_nothing_twice(tree: &Tree) {
    let queue = queue(tree).await;
    let (qid, mut lease) = herbarium(&queue).await;
    for number in 0..3 {
        take(&queue, &mut lease, number).await;
    }
    assert_eq!(queue.reset_feed(qid, "").await.unwrap(), "002");
    assert!(queue.take_item(&mut lease, "x", "x", &submission()).await.is_err());
    queue.locks().revoke_all();
    let mut lease = queue.acquire_feed(qid, WHO).await.unwrap();
    assert_eq!(lease.last(), "");
    for number in 0..4 {
        assert_eq!(take(&queue, &mut lease, number).await, number == 3);
    }
    assert_eq!((batches(queue.session()).await, lease.feed().node.items), (4, 4));
    let wrong = queue.reset_feed(qid, "two\nlines").await.unwrap_err();
    assert!(matches!(wrong, Error::Invalid(_)), "{wrong}");
    clean(queue.session(), Dialect::Design).await;
}

async fn a_wish_to_ask_is_taken_once(tree: &Tree) {
    let queue = queue(tree).await;
    let qid = queue.make_feed("herbarium", "atom").await.unwrap().qid;
    assert_eq!(queue.ask_feed(qid, "ann").await.unwrap(), Asked::Now);
    assert_eq!(queue.ask_feed(qid, "ann").await.unwrap(), Asked::Already);
    clean(queue.session(), Dialect::Design).await;
    assert!(queue.list_feeds().await.unwrap()[0].asked);
    assert!(queue.take_wish(qid).await.unwrap());
    assert!(!queue.take_wish(qid).await.unwrap());
    let unknown = queue.ask_feed(Qid::of("no such feed"), "ann").await.unwrap_err();
    assert!(matches!(unknown, Error::NotFound(_)), "{unknown}");
}

async fn what_is_wrong_stands_in_the_lock_and_goes_with_it(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, mut lease) = herbarium(&queue).await;
    queue.note_trouble(&lease, Some("503")).await.unwrap();
    let trouble = async || queue.list_feeds().await.unwrap()[0].trouble().map(str::to_owned);
    assert_eq!(trouble().await.as_deref(), Some("503"));
    // It moves no fence.
    assert!(take(&queue, &mut lease, 0).await);
    queue.note_trouble(&lease, None).await.unwrap();
    assert_eq!(trouble().await, None);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_feed_is_forgotten_when_nobody_has_it(tree: &Tree) {
    let queue = queue(tree).await;
    let (qid, mut lease) = herbarium(&queue).await;
    queue.ask_feed(qid, "ann").await.unwrap();
    let busy = queue.forget_feed(qid).await.unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
    queue.release_feed(&mut lease).await.unwrap();
    queue.forget_feed(qid).await.unwrap();
    assert!(queue.list_feeds().await.unwrap().is_empty());
    clean(queue.session(), Dialect::Design).await;
}

async fn two_namespaces_have_feeds_of_the_same_name(tree: &Tree) {
    let here = queue(tree).await;
    let neighbour = match here.session().engine() {
        "zookeeper" => Tree::zookeeper().await,
        _ => Tree::embedded(),
    };
    let there = queue(&neighbour).await;
    let (qid, mut ours) = herbarium(&here).await;
    let (same, mut theirs) = herbarium(&there).await;
    assert_eq!(qid, same);
    for number in 0..3 {
        assert!(take(&here, &mut ours, number).await);
    }
    assert!(take(&there, &mut theirs, 0).await);
    here.pause_feed(qid, "ann", "here only").await.unwrap();
    assert!(take(&there, &mut theirs, 1).await);
    assert_eq!((batches(here.session()).await, batches(there.session()).await), (3, 2));
    here.register_worker(&WorkerNode::default()).await.unwrap();
    assert_eq!(there.workers().await.unwrap().all.len(), 0);
    clean(here.session(), Dialect::Design).await;
    clean(there.session(), Dialect::Design).await;
    neighbour.close().await;
}

async fn the_first_worker_divides_and_the_next_one_after_it(tree: &Tree) {
    let (one, other) = (queue(tree).await, queue(tree).await);
    let offers: Vec<Qid> = ["a", "b", "c", "d"].map(Qid::of).to_vec();
    let worker =
        |node: &str| WorkerNode { offers: offers.clone(), node: node.into(), ..WorkerNode::default() };
    let first = Queue::worker_name(&one.register_worker(&worker("one")).await.unwrap());
    let second = Queue::worker_name(&other.register_worker(&worker("other")).await.unwrap());
    // Asked again, it is the same worker.
    assert_eq!(Queue::worker_name(&one.register_worker(&worker("one")).await.unwrap()), first);
    let seen = other.workers().await.unwrap();
    assert_eq!(seen.first(), Some(first.as_str()));
    let shares = seen.divided().unwrap();
    assert!(one.assign_feeds(&seen, shares.clone()).await.unwrap());
    // Who rests on something older is refused.
    assert!(!other.assign_feeds(&seen, shares).await.unwrap());
    let seen = other.workers().await.unwrap();
    assert_eq!((seen.share(&first).len(), seen.share(&second).len()), (2, 2));
    assert_eq!(seen.divided(), None);
    one.session().close().await.unwrap();
    let seen = other.workers().await.unwrap();
    assert_eq!(seen.first(), Some(second.as_str()));
    assert!(other.assign_feeds(&seen, seen.divided().unwrap()).await.unwrap());
    let share = other.workers().await.unwrap().share(&second);
    assert_eq!(share, offers.into_iter().collect::<BTreeSet<_>>());
    clean(other.session(), Dialect::Design).await;
}

async fn eight_sessions_race_for_a_feed_and_no_item_comes_twice(tree: &Tree) {
    let mut racers = Vec::new();
    for _ in 0..8 {
        let queue = queue(tree).await;
        racers.push(tokio::spawn(async move {
            let qid = queue.make_feed("herbarium", "atom").await.unwrap().qid;
            let mut made = 0;
            // Each takes the feed when it can, takes an item or two, and gives it back.
            while made < 3 {
                let Ok(mut lease) = queue.acquire_feed(qid, WHO).await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let next = lease.last().parse::<usize>().map_or(0, |last| last + 1);
                made += usize::from(take(&queue, &mut lease, next).await);
                assert!(!take(&queue, &mut lease, next).await);
                queue.release_feed(&mut lease).await.unwrap();
            }
        }));
    }
    for racer in racers {
        racer.await.unwrap();
    }
    let queue = queue(tree).await;
    let feed = queue.feed(Qid::of("herbarium")).await.unwrap().node;
    assert_eq!((feed.items, feed.last.as_str()), (24, "023"));
    assert_eq!(batches(queue.session()).await, 24);
    clean(queue.session(), Dialect::Design).await;
}

on_both_engines!(
    an_item_becomes_a_batch_and_the_checkpoint_moves_with_it,
    an_item_that_comes_again_is_answered_with_its_batch,
    items_that_become_nothing_are_counted,
    items_that_can_become_nothing_are_counted_once_and_the_last_are_kept_with_their_reasons,
    a_feed_has_one_owner_and_the_next_goes_on_where_it_stopped,
    an_owner_whose_session_ends_commits_nothing_more,
    nothing_is_consumed_after_a_pause_was_answered,
    a_checkpoint_that_is_set_back_brings_nothing_twice,
    a_wish_to_ask_is_taken_once,
    what_is_wrong_stands_in_the_lock_and_goes_with_it,
    a_feed_is_forgotten_when_nobody_has_it,
    two_namespaces_have_feeds_of_the_same_name,
    the_first_worker_divides_and_the_next_one_after_it,
    eight_sessions_race_for_a_feed_and_no_item_comes_twice,
);

/// The most there may be. They are made by hand: each by its own call would take a while.
#[tokio::test]
async fn more_than_ten_thousand_feeds_are_refused() {
    use ingest_queue::feeds::MOST_FEEDS;
    use ingest_store::Op;
    let tree = Tree::embedded();
    let queue = queue(&tree).await;
    let names: Vec<String> = (0..MOST_FEEDS).map(|number| map::feed(Qid::of(&number.to_string()))).collect();
    for some in names.chunks(500) {
        let ops = some.iter().map(|at| Op::create(at.as_str(), r#"{"last":""}"#)).collect();
        queue.session().multi(ops).await.unwrap();
    }
    let refused = queue.make_feed("one more", "atom").await.unwrap_err().to_string();
    assert!(refused.contains("10000"), "{refused}");
    // One that is there is no more.
    queue.make_feed("17", "atom").await.unwrap();
    tree.close().await;
}
