//! Holds on queues and collections.

use ingest_queue::dialect::Dialect;
use ingest_queue::error::Error;
use ingest_queue::holds::Was;
use ingest_queue::map::{self, AccessSize, HeldQueue};
use ingest_queue::nodes::AccessToken;
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, Change};
use ingest_queue::states::{BatchState, JobState, Who};
use ingest_store::Mode;

use crate::tree::{Tree, on_both_engines};
use crate::world::{
    MANIFEST, WHO, acquire, batch_of, bring, clean, entry, queue, snapshot, status, submission,
};

on_both_engines!(
    a_hold_says_who_why_and_when,
    a_held_queue_stops_acquiring_in_pending_and_nothing_else,
    a_job_of_a_held_collection_goes_to_held_and_work_past_pending_goes_on,
    a_job_acquired_before_the_hold_does_not_slip_past_it,
    nothing_is_released_while_its_collection_is_held,
    a_hold_that_is_lifted_holds_nobody_back,
    releasing_a_collection_releases_its_jobs_and_batches,
    two_collections_whose_names_share_a_path_are_told_apart,
    a_held_access_queue_gives_nothing,
    a_hold_by_another_program_holds_too,
);

async fn a_hold_says_who_why_and_when(tree: &Tree) {
    let queue = queue(tree).await;
    let first = queue.hold_collection("demo/content", "an operator", "moving disks").await.unwrap();
    assert_eq!(first, Was::Changed);
    let Was::Already(Some(there)) = queue.hold_collection("demo/content", "another", "").await.unwrap()
    else {
        panic!("a second hold is none");
    };
    assert_eq!(
        (there.who.as_str(), there.why.as_str(), there.when),
        ("an operator", "moving disks", Some(queue.now()))
    );
    queue.hold_queue(HeldQueue::Ingest, "an operator", "upgrade").await.unwrap();
    let holds = queue.read_holds().await.unwrap();
    let named: Vec<(&str, &str)> =
        holds.collections().map(|(name, hold)| (name, hold.why.as_str())).collect();
    assert_eq!(named, [("demo/content", "moving disks")]);
    assert_eq!(holds.queues().map(|(name, _)| name).collect::<Vec<_>>(), ["ingest"]);
    assert!(holds.queue(HeldQueue::Ingest).unwrap().contains("by an operator since 2025-11-16"));
    assert_eq!(queue.release_collection("demo/content").await.unwrap(), Was::Changed);
    assert_eq!(queue.release_collection("demo/content").await.unwrap(), Was::Already(None));
    assert!(matches!(queue.hold_collection(" ", "x", "").await, Err(Error::Invalid(_))));
    clean(queue.session(), Dialect::Design).await;
}

async fn a_held_queue_stops_acquiring_in_pending_and_nothing_else(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 2).await;
    bring(&here, jids[0], JobState::Downloading).await;
    // The other node holds it; this one has not heard.
    there.hold_queue(HeldQueue::Ingest, "an operator", "upgrade").await.unwrap();
    let before = snapshot(here.session()).await;
    let pending = entry(&here, jids[1]).await;
    let refused = here.acquire(pending, WHO).await.unwrap_err();
    assert!(matches!(refused, Error::Changed { .. } | Error::Forbidden { .. }), "{refused:?}");
    let refused = here.acquire(pending, WHO).await.unwrap_err();
    assert!(refused.to_string().contains("the ingest queue: it is held by an operator"), "{refused}");
    assert_eq!(snapshot(here.session()).await, before);
    let mut lease = acquire(&here, jids[0]).await;
    here.succeed(&mut lease, &Change::default()).await.unwrap();
    there.release_queue(HeldQueue::Ingest).await.unwrap();
    here.forget_holds();
    acquire(&here, jids[1]).await;
    clean(here.session(), Dialect::Design).await;
}

async fn a_job_of_a_held_collection_goes_to_held_and_work_past_pending_goes_on(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 2).await;
    bring(&queue, jids[0], JobState::Estimating).await;
    let early = queue.act(jids[1], &Action::HoldForCollection, "", false).await.unwrap_err();
    assert!(early.to_string().contains("is not held"), "{early}");
    let mut lease = acquire(&queue, jids[1]).await;
    let early = queue.advance(&mut lease, JobState::Held, Who::Queue, &Change::default()).await.unwrap_err();
    assert!(early.to_string().contains("is not held"), "{early}");
    queue.give_back(&mut lease, None).await.unwrap();
    queue.hold_collection("demo_content", "an operator", "moving disks").await.unwrap();
    let mut lease = acquire(&queue, jids[1]).await;
    let refused = queue.succeed(&mut lease, &Change::default()).await.unwrap_err();
    assert!(refused.to_string().contains("its collection demo_content is held by an operator"), "{refused}");
    queue.advance(&mut lease, JobState::Held, Who::Queue, &Change::default()).await.unwrap();
    assert_eq!(status(&queue, jids[1]).await.status, JobState::Held);
    bring(&queue, jids[0], JobState::Completed).await;
    let bid = queue.create_batch("two", &submission()).await.unwrap().bid;
    queue.act_on_batch(bid, BatchAction::HoldForCollection, "", false).await.unwrap();
    assert_eq!(queue.batch(bid).await.unwrap().state(), BatchState::Held);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_job_acquired_before_the_hold_does_not_slip_past_it(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    let mut lease = acquire(&here, jids[0]).await;
    // What this node knows of the holds is old from here on.
    there.hold_collection("demo_content", "an operator", "").await.unwrap();
    let refused = here.succeed(&mut lease, &Change::default()).await.unwrap_err();
    assert!(refused.to_string().contains("demo_content is held"), "{refused}");
    assert_eq!(status(&here, jids[0]).await.status, JobState::Pending);
    // So with an expansion.
    let bid = here.create_batch("two", &submission()).await.unwrap().bid;
    let mut batch = here.acquire_batch(bid, WHO).await.unwrap();
    let refused = here.begin_expansion(&mut batch, MANIFEST, 1).await.unwrap_err();
    assert!(refused.to_string().contains("demo_content is held"), "{refused}");
    clean(here.session(), Dialect::Design).await;
}

async fn nothing_is_released_while_its_collection_is_held(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    let bid = here.create_batch("two", &submission()).await.unwrap().bid;
    here.act(jids[0], &Action::Hold, "", false).await.unwrap();
    here.act_on_batch(bid, BatchAction::Hold, "", false).await.unwrap();
    here.read_holds().await.unwrap();
    there.hold_collection("demo_content", "an operator", "").await.unwrap();
    let before = snapshot(here.session()).await;
    for refused in [
        here.act(jids[0], &Action::Release, "", false).await.map(|_| ()).unwrap_err(),
        here.act_on_batch(bid, BatchAction::Release, "", false).await.map(|_| ()).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("release that first"), "{refused}");
    }
    assert_eq!(snapshot(here.session()).await, before);
    clean(here.session(), Dialect::Design).await;
}

async fn a_hold_that_is_lifted_holds_nobody_back(tree: &Tree) {
    let (here, there) = (queue(tree).await, queue(tree).await);
    let (_, jids) = batch_of(&here, 1).await;
    here.hold_collection("demo_content", "an operator", "").await.unwrap();
    here.read_holds().await.unwrap();
    there.release_collection("demo_content").await.unwrap();
    // This node still thinks that it is held: the move to held rests on that, and is not made.
    let answer = here.act(jids[0], &Action::HoldForCollection, "", false).await.unwrap_err();
    assert!(answer.to_string().contains("is not held"), "{answer}");
    bring(&here, jids[0], JobState::Estimating).await;
    clean(here.session(), Dialect::Design).await;
}

async fn releasing_a_collection_releases_its_jobs_and_batches(tree: &Tree) {
    let queue = queue(tree).await;
    let (_, jids) = batch_of(&queue, 3).await;
    let bid = queue.create_batch("two", &submission()).await.unwrap().bid;
    let mut other = crate::world::new_job(9);
    other.configuration.profile_name = "another".into();
    crate::world::deposit(&queue, "three", &[other]).await.unwrap();
    let foreign = *crate::world::all_jobs(queue.session()).await.last().unwrap();
    queue.act(foreign, &Action::Hold, "", false).await.unwrap();
    queue.hold_collection("demo_content", "an operator", "moving disks").await.unwrap();
    for jid in &jids[..2] {
        queue.act(*jid, &Action::HoldForCollection, "", false).await.unwrap();
    }
    queue.act_on_batch(bid, BatchAction::HoldForCollection, "", false).await.unwrap();
    let mut steps = 0;
    let released =
        queue.release_collection_and_all("demo_content", "an operator", |_| steps += 1).await.unwrap();
    assert_eq!((released.jobs, released.batches), (2, 1));
    assert!(steps > 0);
    for jid in &jids {
        assert_eq!(status(&queue, *jid).await.status, JobState::Pending);
    }
    assert_eq!(queue.batch(bid).await.unwrap().state(), BatchState::Pending);
    assert_eq!(status(&queue, foreign).await.status, JobState::Held);
    clean(queue.session(), Dialect::Design).await;
}

async fn two_collections_whose_names_share_a_path_are_told_apart(tree: &Tree) {
    let queue = queue(tree).await;
    queue.hold_collection("a/b", "an operator", "").await.unwrap();
    let error = queue.hold_collection("a_b", "an operator", "").await.unwrap_err();
    assert!(error.to_string().contains("holds a/b already"), "{error}");
    let error = queue.release_collection("a_b").await.unwrap_err();
    assert!(error.to_string().contains("holds a/b"), "{error}");
    let holds = queue.read_holds().await.unwrap();
    assert!(holds.collection("a/b").is_some() && holds.collection("a_b").is_none());
}

async fn a_held_access_queue_gives_nothing(tree: &Tree) {
    let queue = queue(tree).await;
    let aid = queue.create_access(AccessSize::Small, &AccessToken::default()).await.unwrap();
    queue.hold_queue(HeldQueue::AccessSmall, "an operator", "").await.unwrap();
    assert!(queue.acquire_access(AccessSize::Small, WHO).await.unwrap().is_none());
    queue.release_queue(HeldQueue::AccessSmall).await.unwrap();
    let lease = queue.acquire_access(AccessSize::Small, WHO).await.unwrap().unwrap();
    assert_eq!(lease.item().aid, aid);
    clean(queue.session(), Dialect::Design).await;
}

async fn a_hold_by_another_program_holds_too(tree: &Tree) {
    let queue = crate::world::queue_on(&tree.session().await, Dialect::MrtZk).await;
    let (_, jids) = batch_of(&queue, 1).await;
    queue.read_holds().await.unwrap();
    // Empty data, and no word to anybody.
    queue.session().create(map::collection_hold("demo_content"), "", Mode::Persistent).await.unwrap();
    let mut lease = acquire(&queue, jids[0]).await;
    let refused = queue.succeed(&mut lease, &Change::default()).await.unwrap_err();
    assert!(refused.to_string().contains("demo_content is held by somebody"), "{refused}");
    assert_eq!(queue.release_collection("demo_content").await.unwrap(), Was::Changed);
    queue.succeed(&mut lease, &Change::default()).await.unwrap();
    clean(queue.session(), Dialect::MrtZk).await;
}
