//! Lost answers on a real server: it has committed, and the client cannot know.

use ingest_harness::{Matcher, Proxy, RequestKind, Server};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::recipes::election::Candidate;
use ingest_store::recipes::lock_table::{LockTable, Released};
use ingest_store::recipes::semaphore::Semaphore;
use ingest_store::{Limits, Session, Store};

use crate::lock_table::{FENCE, LOCK, claim, with_a_job};
use crate::tree::within;

async fn proxied() -> (Proxy, Session) {
    let proxy = Proxy::start(Server::shared().await.address());
    let connect = format!("{}{}", proxy.connect_string(), ingest_harness::chroot());
    let engine = Zookeeper::new(ZookeeperConfig::new(connect)).unwrap();
    let store = Store::new(std::sync::Arc::new(engine), Limits::default());
    (proxy, store.session().await.unwrap())
}

#[tokio::test]
async fn an_acquire_whose_answer_is_lost_is_still_ours_and_bumps_the_fence_once() {
    let (proxy, session) = proxied().await;
    with_a_job(&session).await;
    let table = LockTable::new(&session);
    let lost = proxy.drop_reply(Matcher::kind(RequestKind::Multi));
    let token = within(table.acquire(claim(0))).await.unwrap();
    assert_eq!(within(lost.happened()).await.err, 0, "the server had committed it");
    assert_eq!(token.version(), 1);
    session.multi(vec![token.check()]).await.unwrap();
    assert_eq!(session.exists(LOCK).await.unwrap().unwrap().ephemeral_owner, session.id());
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_is_known_to_have_happened() {
    let (proxy, session) = proxied().await;
    with_a_job(&session).await;
    let table = LockTable::new(&session);
    let token = table.acquire(claim(0)).await.unwrap();
    let lost = proxy.drop_reply(Matcher::kind(RequestKind::Multi));
    assert_eq!(within(table.release(&token, None)).await.unwrap(), Released::Now);
    assert_eq!(within(lost.happened()).await.err, 0);
    assert_eq!(session.get(FENCE).await.unwrap().1.version, 2);
    assert!(session.exists(LOCK).await.unwrap().is_none() && table.is_empty());
}

#[tokio::test]
async fn an_acquire_that_never_reached_the_server_is_sent_again() {
    let (proxy, session) = proxied().await;
    with_a_job(&session).await;
    let lost = proxy.drop_request(Matcher::kind(RequestKind::Multi));
    let token = within(LockTable::new(&session).acquire(claim(0))).await.unwrap();
    within(lost.happened()).await;
    assert_eq!(token.version(), 1);
}

#[tokio::test]
async fn a_candidate_whose_answer_is_lost_stands_once() {
    let (proxy, session) = proxied().await;
    session.make_dirs("/elections/e").await.unwrap();
    let lost = proxy.drop_reply(Matcher::kind(RequestKind::Create2));
    let candidate = within(Candidate::join(&session, "/elections/e", "me")).await.unwrap();
    assert_eq!(within(lost.happened()).await.err, 0);
    assert_eq!(session.children("/elections/e").await.unwrap().0.len(), 1);
    within(candidate.lead()).await.unwrap();
}

#[tokio::test]
async fn a_slot_whose_answer_is_lost_is_held_once() {
    let (proxy, session) = proxied().await;
    let semaphore = Semaphore::new(&session, "/semaphores/s");
    semaphore.set_limit(2).await.unwrap();
    let lost = proxy.drop_reply(Matcher::kind(RequestKind::Multi));
    let _slot = within(semaphore.try_acquire("me")).await.unwrap().unwrap();
    assert_eq!(within(lost.happened()).await.err, 0);
    assert_eq!(semaphore.held().await.unwrap(), 1);
}
