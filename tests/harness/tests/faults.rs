//! What traps for single requests, and faults of sessions, promise.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use ingest_harness::{Direction, Matcher, Proxy, RequestKind, Server, expire_session, session_is_gone};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, MultiWriteError, SessionState};

/// A proxy in front of the shared server, a client through it and one beside it, in a chroot.
async fn setup() -> (Proxy, Client, Client) {
    let server = Server::shared().await;
    let chroot = server.create_chroot().await;
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&format!("{}{chroot}", proxy.connect_string())).await.unwrap();
    let witness = Client::connect(&format!("{}{chroot}", server.connect_string())).await.unwrap();
    (proxy, client, witness)
}

fn persistent() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

async fn multi_create(client: &Client, path: &str) -> Result<(), Error> {
    let mut multi = client.new_multi_writer();
    multi.add_create(path, b"", &persistent())?;
    multi.commit().await.map(drop).map_err(|failed| match failed {
        MultiWriteError::RequestFailed { source } | MultiWriteError::OperationFailed { source, .. } => source,
    })
}

#[tokio::test]
async fn a_request_whose_reply_is_dropped_is_committed_and_the_client_does_not_know() {
    let (proxy, client, witness) = setup().await;
    let dropped = proxy.drop_reply(RequestKind::Multi);
    let failed = multi_create(&client, "/a").await.unwrap_err();
    assert_eq!(failed, Error::ConnectionLoss);

    let reply = dropped.happened().await;
    assert_eq!((reply.err, reply.kind), (0, RequestKind::Multi));
    let stat = witness.check_stat("/a").await.unwrap().expect("committed");
    assert_eq!(stat.czxid, reply.zxid);

    multi_create(&client, "/b").await.expect("the trap springs once, and the client is back");
}

#[tokio::test]
async fn a_dropped_request_is_not_committed() {
    let (proxy, client, witness) = setup().await;
    let dropped = proxy.drop_request("/a");
    assert_eq!(client.create("/a", b"", &persistent()).await.unwrap_err(), Error::ConnectionLoss);
    let request = dropped.happened().await;
    assert!(matches!(request.kind, RequestKind::Create | RequestKind::Create2));
    assert!(witness.check_stat("/a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_stalled_reply_holds_all_that_follows_and_arrives_on_heal() {
    let (proxy, client, witness) = setup().await;
    let stalled = proxy.stall_reply(Matcher::kind(RequestKind::Multi).with_path("/a"));
    let committing = tokio::spawn({
        let client = client.clone();
        async move { multi_create(&client, "/a").await }
    });
    assert_eq!(stalled.happened().await.err, 0);
    let reading = tokio::spawn(async move { client.get_data("/a").await });
    proxy.wait_for(RequestKind::GetData, 1).await;
    assert!(witness.check_stat("/a").await.unwrap().is_some());
    assert!(!committing.is_finished() && !reading.is_finished());

    proxy.heal();
    committing.await.unwrap().unwrap();
    reading.await.unwrap().unwrap();
    assert_eq!(proxy.count(RequestKind::Connect), 1);
}

#[tokio::test]
async fn a_trap_aims_at_one_request_of_many() {
    let (proxy, client, witness) = setup().await;
    let dropped = proxy.drop_request(Matcher::kind(RequestKind::Multi).skip(2));
    multi_create(&client, "/a").await.unwrap();
    multi_create(&client, "/b").await.unwrap();
    assert!(!dropped.has_happened());
    multi_create(&client, "/c").await.unwrap_err();
    dropped.happened().await;
    let mut children = witness.list_children("/").await.unwrap();
    children.sort();
    assert_eq!(children, ["a", "b"]);
}

#[tokio::test]
async fn a_trap_whose_connection_ends_before_the_reply_waits_for_the_retry() {
    let (proxy, client, witness) = setup().await;
    let dropped = proxy.drop_reply(RequestKind::SetData);
    proxy.delay(Direction::ToServer, Duration::from_mins(1));
    let first = client.set_data("/", b"1", None);
    proxy.wait_for(RequestKind::SetData, 1).await;
    proxy.delay(Direction::ToServer, Duration::ZERO);
    proxy.drop_connections();
    first.await.unwrap_err();
    assert!(!dropped.has_happened());

    client.set_data("/", b"2", None).await.unwrap_err();
    dropped.happened().await;
    assert_eq!(witness.get_data("/").await.unwrap().0, b"2");
}

#[tokio::test]
async fn a_healed_proxy_has_no_traps() {
    let (proxy, client, _) = setup().await;
    let dropped = proxy.drop_reply(Matcher::any());
    proxy.heal();
    multi_create(&client, "/a").await.unwrap();
    assert!(!dropped.has_happened());
}

#[tokio::test]
async fn an_expired_session_loses_its_ephemerals_and_its_client_learns_it() {
    let (proxy, client, witness) = setup().await;
    let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    client.create("/mine", b"", &ephemeral).await.unwrap();
    let session = proxy.sessions().pop().unwrap();
    assert!(!session_is_gone(proxy.target(), session.id, &session.password).await);

    proxy.expire_latest_session().await;

    assert!(witness.check_stat("/mine").await.unwrap().is_none());
    assert!(session_is_gone(proxy.target(), session.id, &session.password).await);
    let mut states = client.state_watcher();
    loop {
        let state = states.state();
        if state.is_terminated() {
            assert_eq!(state, SessionState::Expired);
            break;
        }
        states.changed().await;
    }
}

#[tokio::test]
async fn a_session_that_is_gone_can_be_expired_again() {
    let (proxy, _client, _) = setup().await;
    let session = proxy.sessions().pop().unwrap();
    proxy.expire_session(session.id).await;
    expire_session(proxy.target(), session.id, &session.password).await;
}
