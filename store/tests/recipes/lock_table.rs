use std::task::Poll;

use ingest_store::recipes::lock_table::{Claim, LockTable, Released};
use ingest_store::{Kind, Mode, Op, Session};

use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_lock_is_taken_together_with_its_fence,
    a_lock_that_is_held_elsewhere_is_refused,
    a_lock_that_is_held_here_is_refused_without_asking_the_tree,
    a_claim_on_an_old_version_leaves_no_lock,
    a_token_is_worth_nothing_after_its_release,
    a_zombie_disturbs_neither_the_lock_nor_the_fence_of_its_successor,
    a_lock_taken_away_by_force_is_not_released_again,
    everything_of_a_dead_holder_is_released,
    a_kept_lock_has_the_next_token,
    an_abandoned_claim_is_swept,
    a_sweep_leaves_what_is_claimed_and_what_is_no_lock,
    after_expiry_everything_is_revoked,
);

pub(crate) const LOCK: &str = "/job/lock";
pub(crate) const FENCE: &str = "/job/status";

pub(crate) async fn with_a_job(session: &Session) {
    session.create("/job", "", Mode::Persistent).await.unwrap();
    session.create(FENCE, "pending", Mode::Persistent).await.unwrap();
}

pub(crate) fn claim(version: i32) -> Claim {
    Claim {
        lock: LOCK.into(),
        owner: "node-1".into(),
        fence: FENCE.into(),
        version,
        data: "taken".into(),
        more: Vec::new(),
        holder: "worker-1".into(),
    }
}

async fn a_lock_is_taken_together_with_its_fence(tree: &Tree) {
    let session = tree.mortal_session().await;
    with_a_job(&session).await;
    let table = LockTable::new(&session);
    let token = table.acquire(claim(0)).await.unwrap();
    assert_eq!((token.version(), token.lock(), token.fence()), (1, LOCK, FENCE));
    let (owner, stat) = session.get(LOCK).await.unwrap();
    assert_eq!((&owner[..], stat.ephemeral_owner), (&b"node-1"[..], session.id()));
    assert_eq!(&session.get(FENCE).await.unwrap().0[..], b"taken");
    assert_eq!(table.release(&token, Some("waiting".into())).await.unwrap(), Released::Now);
    assert!(session.exists(LOCK).await.unwrap().is_none() && table.is_empty());
    assert_eq!(&session.get(FENCE).await.unwrap().0[..], b"waiting");
}

async fn a_lock_that_is_held_elsewhere_is_refused(tree: &Tree) {
    let (mine, theirs) = (tree.mortal_session().await, tree.mortal_session().await);
    with_a_job(&mine).await;
    LockTable::new(&theirs).acquire(claim(0)).await.unwrap();
    let table = LockTable::new(&mine);
    let error = table.acquire(claim(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.failed_op(), error.path()), (Kind::NodeExists, Some(0), Some(LOCK)));
    assert!(table.is_empty());
    assert_eq!(mine.exists(FENCE).await.unwrap().unwrap().version, 1);
}

async fn a_lock_that_is_held_here_is_refused_without_asking_the_tree(tree: &Tree) {
    let session = tree.mortal_session().await;
    with_a_job(&session).await;
    let table = LockTable::new(&session);
    table.acquire(claim(0)).await.unwrap();
    // The lock vanishes behind the table's back: only a table that did not ask still refuses.
    session.delete(LOCK, None).await.unwrap();
    let error = table.acquire(claim(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.failed_op()), (Kind::NodeExists, None));
    assert!(error.to_string().contains("worker-1"), "{error}");
}

async fn a_claim_on_an_old_version_leaves_no_lock(tree: &Tree) {
    let session = tree.mortal_session().await;
    with_a_job(&session).await;
    session.set(FENCE, "moved on", 0).await.unwrap();
    let table = LockTable::new(&session);
    let error = table.acquire(claim(0)).await.unwrap_err();
    assert_eq!((error.kind(), error.failed_op(), error.path()), (Kind::BadVersion, Some(1), Some(FENCE)));
    assert!(session.exists(LOCK).await.unwrap().is_none() && table.is_empty());
}

async fn a_token_is_worth_nothing_after_its_release(tree: &Tree) {
    let session = tree.mortal_session().await;
    with_a_job(&session).await;
    let table = LockTable::new(&session);
    let token = table.acquire(claim(0)).await.unwrap();
    table.release(&token, None).await.unwrap();
    // Nobody has taken it since: the release alone must have spent the token.
    let late = session.multi(vec![token.set("late"), Op::create("/job/result", "")]).await.unwrap_err();
    assert_eq!((late.kind(), late.failed_op()), (Kind::BadVersion, Some(0)));
    assert!(session.multi(vec![token.check()]).await.is_err());
    assert_eq!(&session.get(FENCE).await.unwrap().0[..], b"taken", "a release keeps what the fence says");
}

async fn a_zombie_disturbs_neither_the_lock_nor_the_fence_of_its_successor(tree: &Tree) {
    let (mine, theirs) = (tree.mortal_session().await, tree.mortal_session().await);
    with_a_job(&mine).await;
    let (zombie, successor) = (LockTable::new(&mine), LockTable::new(&theirs));
    let old = zombie.acquire(claim(0)).await.unwrap();
    zombie.release(&old, None).await.unwrap();
    let new = successor.acquire(claim(2)).await.unwrap();
    assert_eq!(zombie.release(&old, None).await.unwrap(), Released::Before);
    assert_eq!(zombie.release(&old, Some("garbage".into())).await.unwrap(), Released::Before);
    assert!(mine.multi(vec![old.set("late"), Op::delete(LOCK, None)]).await.is_err());
    let lock = mine.exists(LOCK).await.unwrap().unwrap();
    assert_eq!(lock.ephemeral_owner, theirs.id());
    theirs.multi(vec![new.check()]).await.unwrap();
}

async fn a_lock_taken_away_by_force_is_not_released_again(tree: &Tree) {
    let (mine, admin) = (tree.mortal_session().await, tree.mortal_session().await);
    with_a_job(&mine).await;
    let table = LockTable::new(&mine);
    let token = table.acquire(claim(0)).await.unwrap();
    let force = vec![Op::set(FENCE, "forced", token.version()), Op::delete(LOCK, None)];
    admin.multi(force).await.unwrap();
    assert_eq!(table.release(&token, None).await.unwrap(), Released::Before);
    assert_eq!(&mine.get(FENCE).await.unwrap().0[..], b"forced");
    assert!(table.is_empty(), "a lock that is lost is forgotten");
}

async fn everything_of_a_dead_holder_is_released(tree: &Tree) {
    let session = tree.mortal_session().await;
    let table = LockTable::new(&session);
    for n in 0..4 {
        session.create_with_parents(format!("/j{n}/status"), "", Mode::Persistent).await.unwrap();
        let holder = if n < 3 { "dead" } else { "alive" }.to_owned();
        let (lock, fence) = (format!("/j{n}/lock"), format!("/j{n}/status"));
        table.acquire(Claim { lock, fence, holder, ..claim(0) }).await.unwrap();
    }
    assert_eq!(table.release_all_of("dead").await.unwrap(), 3);
    assert_eq!((table.len(), session.ephemerals("/").await.unwrap()), (1, vec!["/j3/lock".to_owned()]));
}

async fn a_kept_lock_has_the_next_token(tree: &Tree) {
    let session = tree.mortal_session().await;
    with_a_job(&session).await;
    let table = LockTable::new(&session);
    let first = table.acquire(claim(0)).await.unwrap();
    session.multi(vec![first.set("downloading")]).await.unwrap();
    let second = table.kept(&first, first.version() + 1);
    assert!(session.multi(vec![first.check()]).await.is_err());
    session.multi(vec![second.set("done"), Op::delete(LOCK, None)]).await.unwrap();
    table.gone(&first);
    assert!(table.is_empty());
}

async fn an_abandoned_claim_is_swept(tree: &Tree) {
    let session = tree.mortal_session().await;
    with_a_job(&session).await;
    let table = LockTable::new(&session);
    // Polled once, so that it is sent, and dropped before its answer. An answer that is there at once abandons nothing: then it
    // is released, and the next version is claimed.
    let mut version = 0;
    loop {
        let mut acquire = Box::pin(table.acquire(claim(version)));
        let Poll::Ready(answer) = futures::poll!(&mut acquire) else { break };
        table.release(&answer.unwrap(), None).await.unwrap();
        version = session.exists(FENCE).await.unwrap().unwrap().version;
    }
    let fence_of = |lock: &str| (lock == LOCK).then(|| FENCE.to_owned());
    let swept = table.sweep("/", fence_of).await.unwrap();
    assert!(swept.is_empty() || swept == [LOCK]);
    assert!(session.exists(LOCK).await.unwrap().is_none() && table.is_empty());
    let version = session.exists(FENCE).await.unwrap().unwrap().version;
    table.acquire(claim(version)).await.unwrap();
}

async fn a_sweep_leaves_what_is_claimed_and_what_is_no_lock(tree: &Tree) {
    let session = tree.mortal_session().await;
    with_a_job(&session).await;
    session.create("/registered", "", Mode::Ephemeral).await.unwrap();
    let table = LockTable::new(&session);
    let token = table.acquire(claim(0)).await.unwrap();
    let fence_of = |lock: &str| (lock == LOCK).then(|| FENCE.to_owned());
    assert!(table.sweep("/", fence_of).await.unwrap().is_empty());
    assert!(session.exists("/registered").await.unwrap().is_some());
    session.multi(vec![token.check()]).await.unwrap();
    // An orphan: a lock of this session that another table has lost.
    assert_eq!(LockTable::new(&session).sweep("/", fence_of).await.unwrap(), [LOCK]);
}

async fn after_expiry_everything_is_revoked(tree: &Tree) {
    let (mine, other) = (tree.mortal_session().await, tree.mortal_session().await);
    with_a_job(&mine).await;
    let table = LockTable::new(&mine);
    let token = table.acquire(claim(0)).await.unwrap();
    tree.expire(&mine).await;
    assert_eq!(table.release(&token, None).await.unwrap_err().kind(), Kind::Expired);
    assert_eq!(table.revoke_all(), [token]);
    assert!(table.is_empty() && other.exists(LOCK).await.unwrap().is_none());
}
