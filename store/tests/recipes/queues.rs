//! Elections and read/write locks: queues of contenders.
//!
//! Invariants: nobody leads or holds while one before it does that it has to wait for, and whoever has lost its place
//! cannot commit. A place goes with its owner or its session, so the next one always gets its turn.

use ingest_store::recipes::election::{Candidate, Leader};
use ingest_store::recipes::rw_lock;
use ingest_store::{Kind, Mode, Op, Session};
use tokio::task::JoinHandle;

use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    the_first_candidate_leads_and_the_next_follows_when_it_resigns,
    the_end_of_the_leaders_session_is_the_beginning_of_the_next_one,
    a_leader_that_has_lost_its_session_cannot_commit,
    a_candidate_that_stands_down_is_not_waited_for,
    a_dropped_candidate_leaves_the_queue,
    an_expired_leader_is_told_to_stop,
    readers_share_and_a_writer_waits_for_all_of_them,
    a_reader_waits_for_the_writer_before_it_and_nobody_overtakes,
    a_lock_comes_back_when_its_holder_dies_or_is_dropped,
);

const ELECTION: &str = "/elections/timer";
const RW: &str = "/system/conf-lock";

async fn leader(session: &Session) -> Leader {
    within(Candidate::join(session, ELECTION, "n").await.unwrap().lead()).await.unwrap()
}

/// A candidate that has its place before this returns.
async fn follower(session: &Session) -> JoinHandle<Leader> {
    let candidate = Candidate::join(session, ELECTION, "n").await.unwrap();
    tokio::spawn(async move { candidate.lead().await.unwrap() })
}

async fn queued(session: &Session, path: &str) -> i32 {
    session.exists(path).await.unwrap().unwrap().num_children
}

async fn the_first_candidate_leads_and_the_next_follows_when_it_resigns(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    let first = leader(&one).await;
    let second = follower(&two).await;
    one.multi(vec![first.fence()]).await.unwrap();
    assert!(!second.is_finished());
    first.resign().await.unwrap();
    let second = within(second).await.unwrap();
    two.multi(vec![second.fence()]).await.unwrap();
    assert_eq!(queued(&two, ELECTION).await, 1);
}

async fn the_end_of_the_leaders_session_is_the_beginning_of_the_next_one(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    let _first = leader(&one).await;
    let second = follower(&two).await;
    tree.expire(&one).await;
    let second = within(second).await.unwrap();
    two.multi(vec![second.fence()]).await.unwrap();
}

async fn a_leader_that_has_lost_its_session_cannot_commit(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    two.create("/counter", "", Mode::Persistent).await.unwrap();
    let old = leader(&one).await;
    let fence = old.fence();
    one.multi(vec![fence.clone(), Op::set("/counter", "old", None)]).await.unwrap();
    tree.expire(&one).await;
    // Even through a session that lives: the place in the queue is gone for good.
    let error = two.multi(vec![fence, Op::set("/counter", "zombie", None)]).await.unwrap_err();
    assert_eq!((error.kind(), error.failed_op()), (Kind::NoNode, Some(0)));
    assert_eq!(&two.get("/counter").await.unwrap().0[..], b"old");
}

async fn a_candidate_that_stands_down_is_not_waited_for(tree: &Tree) {
    let session = tree.mortal_session().await;
    let first = leader(&session).await;
    let second = Candidate::join(&session, ELECTION, "n").await.unwrap();
    let third = follower(&session).await;
    second.withdraw().await.unwrap();
    first.resign().await.unwrap();
    within(third).await.unwrap();
}

async fn a_dropped_candidate_leaves_the_queue(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    let first = leader(&one).await;
    drop(Candidate::join(&one, ELECTION, "n").await.unwrap());
    let third = follower(&two).await;
    drop(first);
    within(third).await.unwrap();
}

async fn an_expired_leader_is_told_to_stop(tree: &Tree) {
    let session = tree.mortal_session().await;
    let leader = leader(&session).await;
    let told = tokio::spawn(async move { leader.deposed().await });
    tree.expire(&session).await;
    within(told).await.unwrap();
}

async fn readers_share_and_a_writer_waits_for_all_of_them(tree: &Tree) {
    let session = tree.mortal_session().await;
    let first = within(rw_lock::read(&session, RW, "r1")).await.unwrap();
    let second = within(rw_lock::read(&session, RW, "r2")).await.unwrap();
    let writer = tokio::spawn({
        let session = session.clone();
        async move { rw_lock::write(&session, RW, "w").await.unwrap() }
    });
    first.release().await.unwrap();
    assert!(!writer.is_finished());
    session.multi(vec![second.fence()]).await.unwrap();
    second.release().await.unwrap();
    within(writer).await.unwrap();
}

async fn a_reader_waits_for_the_writer_before_it_and_nobody_overtakes(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    let writer = within(rw_lock::write(&one, RW, "w")).await.unwrap();
    let mut watch = two.watch_tree(RW).await.unwrap();
    let reader = tokio::spawn({
        let two = two.clone();
        async move { rw_lock::read(&two, RW, "r").await.unwrap() }
    });
    within(watch.next()).await;
    assert!(!reader.is_finished());
    one.multi(vec![writer.fence()]).await.unwrap();
    let second_writer = tokio::spawn({
        let one = one.clone();
        async move { rw_lock::write(&one, RW, "w2").await.unwrap() }
    });
    writer.release().await.unwrap();
    let reader = within(reader).await.unwrap();
    assert!(!second_writer.is_finished());
    reader.release().await.unwrap();
    within(second_writer).await.unwrap();
}

async fn a_lock_comes_back_when_its_holder_dies_or_is_dropped(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    let held = within(rw_lock::write(&one, RW, "w")).await.unwrap();
    drop(held);
    let held = within(rw_lock::write(&one, RW, "w")).await.unwrap();
    tree.expire(&one).await;
    within(rw_lock::write(&two, RW, "w")).await.unwrap();
    drop(held);
}
