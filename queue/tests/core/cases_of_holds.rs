//! Holds, as each node sees them: what another node has set or lifted counts here too.

use ingest_queue::error::Error;
use ingest_queue::map::{AccessSize, HeldQueue};
use ingest_queue::nodes::AccessToken;
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::Action;
use ingest_queue::states::{BatchState, JobState, Who};

use crate::stage::{COLLECTION, Stage, change};

#[tokio::test]
async fn a_hold_elsewhere_does_not_disturb_a_job_that_leaves_pending() {
    let (stage, jid) = Stage::with_job(JobState::Pending).await;
    let mut lease = stage.acquire(jid).await;
    stage.second().await.hold_collection("another", "admin", "").await.unwrap();
    stage.queue.succeed(&mut lease, &change()).await.unwrap();
    assert_eq!(stage.job(jid).state(), JobState::Estimating);
}

#[tokio::test]
async fn a_job_whose_collection_was_held_meanwhile_stays_pending() {
    let (stage, jid) = Stage::with_job(JobState::Pending).await;
    let mut lease = stage.acquire(jid).await;
    stage.second().await.hold_collection(COLLECTION, "admin", "").await.unwrap();
    let moved = stage.queue.succeed(&mut lease, &change()).await;
    assert!(matches!(moved, Err(Error::Forbidden { .. })), "{moved:?}");
    stage.queue.advance(&mut lease, JobState::Held, Who::Queue, &change()).await.unwrap();
    stage.assert_whole();
}

#[tokio::test]
async fn a_job_is_not_held_for_a_collection_that_was_released_meanwhile() {
    let (stage, jid) = Stage::with_job(JobState::Pending).await;
    let second = stage.second().await;
    second.hold_collection(COLLECTION, "admin", "").await.unwrap();
    let mut lease = stage.acquire(jid).await;
    stage.queue.succeed(&mut lease, &change()).await.unwrap_err();
    second.release_collection(COLLECTION).await.unwrap();
    let held = stage.queue.advance(&mut lease, JobState::Held, Who::Queue, &change()).await;
    assert!(matches!(held, Err(Error::Forbidden { .. })), "{held:?}");
    stage.queue.succeed(&mut lease, &change()).await.unwrap();
}

#[tokio::test]
async fn a_queue_that_another_node_has_released_is_open_here_too() {
    let (stage, jid) = Stage::with_job(JobState::Pending).await;
    let second = stage.second().await;
    second.hold_queue(HeldQueue::Ingest, "admin", "").await.unwrap();
    stage.queue.forget_holds();
    let held = stage.queue.acquire(stage.entry(jid), "worker").await;
    assert!(matches!(held, Err(Error::Forbidden { .. })), "{held:?}");
    second.release_queue(HeldQueue::Ingest).await.unwrap();
    stage.queue.acquire(stage.entry(jid), "worker").await.unwrap();
}

#[tokio::test]
async fn an_access_queue_that_another_node_has_released_is_open_here_too() {
    let stage = Stage::empty().await;
    let second = stage.second().await;
    stage.queue.create_access(AccessSize::Small, &AccessToken::default()).await.unwrap();
    second.hold_queue(HeldQueue::AccessSmall, "admin", "").await.unwrap();
    assert!(stage.queue.acquire_access(AccessSize::Small, "access").await.unwrap().is_none());
    second.release_queue(HeldQueue::AccessSmall).await.unwrap();
    assert!(stage.queue.acquire_access(AccessSize::Small, "access").await.unwrap().is_some());
}

#[tokio::test]
async fn a_hold_on_one_queue_does_not_disturb_another() {
    let (stage, jid) = Stage::with_job(JobState::Pending).await;
    let second = stage.second().await;
    stage.queue.create_access(AccessSize::Small, &AccessToken::default()).await.unwrap();
    second.hold_queue(HeldQueue::AccessLarge, "admin", "").await.unwrap();
    assert!(stage.queue.acquire_access(AccessSize::Small, "access").await.unwrap().is_some());
    second.release_queue(HeldQueue::AccessLarge).await.unwrap();
    stage.queue.acquire(stage.entry(jid), "worker").await.unwrap();
}

#[tokio::test]
async fn what_a_collection_held_is_released_here_once_another_node_has_released_the_collection() {
    let (stage, jid) = Stage::with_job(JobState::Pending).await;
    let second = stage.second().await;
    second.hold_collection(COLLECTION, "admin", "").await.unwrap();
    stage.queue.act(jid, &Action::HoldForCollection, "", false).await.unwrap();
    let early = stage.queue.act(jid, &Action::Release, "", false).await;
    assert!(matches!(early, Err(Error::Forbidden { .. })), "{early:?}");
    second.release_collection(COLLECTION).await.unwrap();
    stage.queue.act(jid, &Action::Release, "", false).await.unwrap();
    second.hold_collection(COLLECTION, "admin", "").await.unwrap();
    stage.queue.act(jid, &Action::HoldForCollection, "", false).await.unwrap();
}

#[tokio::test]
async fn a_batch_is_expanded_here_once_another_node_has_released_its_collection() {
    let stage = Stage::empty().await;
    let second = stage.second().await;
    second.hold_collection(COLLECTION, "admin", "").await.unwrap();
    let mut lease = stage.batch_lease().await;
    stage.queue.begin_expansion(&mut lease, b"digest", 1).await.unwrap_err();
    second.release_collection(COLLECTION).await.unwrap();
    stage.queue.begin_expansion(&mut lease, b"digest", 1).await.unwrap();
}

#[tokio::test]
async fn a_batch_is_held_and_released_by_what_is_true_now() {
    let stage = Stage::empty().await;
    let second = stage.second().await;
    let act = async |action| stage.queue.act_on_batch(stage.bid, action, "", false).await;
    act(BatchAction::HoldForCollection).await.unwrap_err();
    second.hold_collection(COLLECTION, "admin", "").await.unwrap();
    act(BatchAction::HoldForCollection).await.unwrap();
    act(BatchAction::Release).await.unwrap_err();
    second.release_collection(COLLECTION).await.unwrap();
    assert_eq!(act(BatchAction::Release).await.unwrap(), BatchState::Pending);
}
