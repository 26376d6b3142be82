//! What is given up while the server cannot be reached.
//!
//! Invariant: a place in a queue, or a slot, goes as soon as the server can be told, though its owner was told that it could
//! not be. Nobody has to wait for the end of a session that lives.

use std::sync::Arc;
use std::time::Duration;

use ingest_harness::{Proxy, Server, chroot};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::recipes::rw_lock;
use ingest_store::recipes::semaphore::Semaphore;
use ingest_store::{Kind, Limits, Result, Session, SessionState, Store};

use crate::tree::{PATIENCE, within};

const RW: &str = "/system/conf-lock";

/// A session behind a proxy that outlives every wait here and whose calls do not, and one beside it.
async fn cut_off() -> (Proxy, Session, Session) {
    let (server, chroot) = (Server::shared().await, chroot());
    let proxy = Proxy::start(server.address());
    let open = async |connect: String, deadline: Duration| {
        let config = ZookeeperConfig {
            session_timeout: PATIENCE,
            ..ZookeeperConfig::new(format!("{connect}{chroot}"))
        };
        let engine = Zookeeper::new(config).unwrap();
        let limits = Limits { deadline, ..Limits::default() };
        Store::new(Arc::new(engine), limits).session().await.unwrap()
    };
    let beside = open(server.connect_string(), PATIENCE).await;
    let session = open(proxy.connect_string(), Duration::from_millis(500)).await;
    (proxy, session, beside)
}

/// Repeats what the short deadline of the session ended before the server had answered.
async fn insist<T>(take: impl AsyncFn() -> Result<T>) -> T {
    within(async {
        loop {
            match take().await {
                Ok(taken) => return taken,
                Err(error) => assert_eq!(error.kind(), Kind::Deadline, "{error}"),
            }
        }
    })
    .await
}

async fn cut(proxy: &Proxy, session: &Session) {
    proxy.cut();
    within(session.states().wait_for(|status| status.state == SessionState::Suspended)).await.unwrap();
}

/// Everything that was begun before this has been refused when it returns, if it was tried once only.
async fn the_deadline_passes(session: &Session) {
    for _ in 0..2 {
        assert_eq!(session.sync().await.unwrap_err().kind(), Kind::Suspended);
    }
}

#[tokio::test]
async fn a_lock_that_could_not_be_released_is_when_the_server_is_back() {
    let (proxy, session, beside) = cut_off().await;
    let held = insist(async || rw_lock::read(&session, RW, "reader").await).await;
    cut(&proxy, &session).await;
    assert_eq!(held.release().await.unwrap_err().kind(), Kind::Suspended);
    the_deadline_passes(&session).await;
    proxy.heal();
    within(rw_lock::write(&beside, RW, "writer")).await.unwrap().release().await.unwrap();
    assert_eq!(beside.children(RW).await.unwrap().0, Vec::<String>::new());
    assert_eq!(session.state(), SessionState::Connected, "it was not for its session to go");
}

#[tokio::test]
async fn a_lock_that_was_dropped_while_the_server_was_away_is_released_when_it_is_back() {
    let (proxy, session, beside) = cut_off().await;
    let held = insist(async || rw_lock::read(&session, RW, "reader").await).await;
    cut(&proxy, &session).await;
    drop(held);
    the_deadline_passes(&session).await;
    proxy.heal();
    within(rw_lock::write(&beside, RW, "writer")).await.unwrap().release().await.unwrap();
    assert_eq!(beside.children(RW).await.unwrap().0, Vec::<String>::new());
    assert_eq!(session.state(), SessionState::Connected, "it was not for its session to go");
}

#[tokio::test]
async fn a_slot_that_could_not_be_given_back_is_when_the_server_is_back() {
    let (proxy, session, beside) = cut_off().await;
    let (here, there) = (Semaphore::new(&session, "/semaphores/s"), Semaphore::new(&beside, "/semaphores/s"));
    there.set_limit(1).await.unwrap();
    let slot = insist(async || here.acquire("here").await).await;
    cut(&proxy, &session).await;
    assert_eq!(slot.release().await.unwrap_err().kind(), Kind::Suspended);
    the_deadline_passes(&session).await;
    proxy.heal();
    within(there.acquire("there")).await.unwrap();
    assert_eq!(session.state(), SessionState::Connected, "it was not for its session to go");
}
