//! What the proxy promises about the link and its counts.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use ingest_harness::{Direction, Proxy, RequestKind, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zookeeper_client::{Acls, AddWatchMode, Client, CreateMode, CreateOptions};

async fn setup() -> (Proxy, String) {
    let server = Server::shared().await;
    (Proxy::start(server.address()), server.create_chroot().await)
}

async fn through(proxy: &Proxy, chroot: &str) -> Client {
    Client::connect(&format!("{}{chroot}", proxy.connect_string())).await.unwrap()
}

async fn direct(chroot: &str) -> Client {
    Client::connect(&format!("{}{chroot}", Server::shared().await.connect_string())).await.unwrap()
}

fn persistent() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

#[tokio::test]
async fn requests_are_counted_by_kind() {
    let (proxy, chroot) = setup().await;
    let client = through(&proxy, &chroot).await;
    assert_eq!(proxy.count(RequestKind::Connect), 1);
    proxy.reset_counts();

    client.create("/a", b"1", &persistent()).await.unwrap();
    client.set_data("/a", b"2", None).await.unwrap();
    client.get_data("/a").await.unwrap();
    client.get_data("/a").await.unwrap();
    let mut multi = client.new_multi_writer();
    multi.add_create("/b", b"", &persistent()).unwrap();
    multi.commit().await.unwrap();

    let created = proxy.count(RequestKind::Create) + proxy.count(RequestKind::Create2);
    assert_eq!(created, 1);
    assert_eq!(proxy.count(RequestKind::SetData), 1);
    assert_eq!(proxy.counts()[&RequestKind::GetData], 2);
    assert_eq!(proxy.count(RequestKind::Multi), 1);
    assert!(proxy.bytes(Direction::ToServer) > 0 && proxy.bytes(Direction::ToClient) > 0);
    proxy.reset_counts();
    assert!(proxy.counts().is_empty());
    assert_eq!(proxy.bytes(Direction::Both), 0);
}

#[tokio::test]
async fn notifications_are_counted() {
    let (proxy, chroot) = setup().await;
    let client = through(&proxy, &chroot).await;
    let _watcher = client.watch("/", AddWatchMode::PersistentRecursive).await.unwrap();
    assert_eq!(proxy.count(RequestKind::AddWatch), 1);
    let other = direct(&chroot).await;
    other.create("/a", b"", &persistent()).await.unwrap();
    other.create("/b", b"", &persistent()).await.unwrap();
    proxy.wait_for_notifications(2).await;
    assert_eq!(proxy.notifications(), 2);
}

#[tokio::test]
async fn sessions_are_learnt_from_the_servers_answers() {
    let (proxy, chroot) = setup().await;
    let client = through(&proxy, &chroot).await;
    let sessions = proxy.sessions();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].id, client.session_id().0);
    assert_eq!(sessions[0].password.len(), 16);
    assert_eq!(sessions[0].timeout, client.session_timeout());
}

#[tokio::test]
async fn a_cut_link_closes_and_refuses_until_it_is_healed() {
    let (proxy, chroot) = setup().await;
    let client = through(&proxy, &chroot).await;
    proxy.wait_for_connections(1).await;

    proxy.cut();
    proxy.wait_for_connections(0).await;
    let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(refused.read(&mut [0; 1]).await.unwrap_or(0), 0);

    proxy.heal();
    proxy.wait_for_connections(1).await;
    client.create("/a", b"", &persistent()).await.unwrap();
    assert_eq!(proxy.sessions().len(), 1, "the client returned with its session");
}

#[tokio::test]
async fn dropped_connections_may_return_at_once() {
    let (proxy, chroot) = setup().await;
    let client = through(&proxy, &chroot).await;
    proxy.drop_connections();
    proxy.wait_for(RequestKind::Connect, 2).await;
    client.create("/a", b"", &persistent()).await.unwrap();
}

#[tokio::test]
async fn requests_stalled_towards_the_server_arrive_on_heal() {
    let (proxy, chroot) = setup().await;
    let client = through(&proxy, &chroot).await;
    proxy.stall(Direction::ToServer);
    let set = client.set_data("/", b"late", None);
    proxy.wait_for(RequestKind::SetData, 1).await;

    let other = direct(&chroot).await;
    assert_eq!(other.get_data("/").await.unwrap().0, b"");
    proxy.heal();
    set.await.unwrap();
    assert_eq!(other.get_data("/").await.unwrap().0, b"late");
    assert_eq!(proxy.count(RequestKind::Connect), 1);
}

#[tokio::test]
async fn replies_stalled_towards_the_client_arrive_on_heal() {
    let (proxy, chroot) = setup().await;
    let client = through(&proxy, &chroot).await;
    let other = direct(&chroot).await;
    let (_, _, changed) = other.get_and_watch_data("/").await.unwrap();
    proxy.stall(Direction::ToClient);
    let before = proxy.bytes(Direction::ToClient);
    let mut set = Box::pin(client.set_data("/", b"done", None));

    changed.changed().await;
    assert_eq!(other.get_data("/").await.unwrap().0, b"done");
    assert!(poll_once(&mut set).await.is_none(), "the client has no answer");
    proxy.heal();
    set.await.unwrap();
    assert!(proxy.bytes(Direction::ToClient) > before);
}

#[tokio::test]
async fn a_delay_keeps_order_and_lets_requests_overlap() {
    const DELAY: Duration = Duration::from_millis(150);
    let (proxy, chroot) = setup().await;
    let client = through(&proxy, &chroot).await;
    proxy.delay(Direction::Both, DELAY);

    let start = Instant::now();
    let writes: Vec<_> = (0..20).map(|n: u32| client.set_data("/", n.to_string().as_bytes(), None)).collect();
    let mut versions = Vec::new();
    for write in writes {
        versions.push(write.await.unwrap().version);
    }
    let took = start.elapsed();
    assert!(took >= 2 * DELAY, "each way costs the delay: {took:?}");
    // One after the other they would take at least twice the delay each, so any less proves that they overlap.
    assert!(took < 20 * 2 * DELAY, "twenty requests overlap: {took:?}");
    assert_eq!(versions, (1..=20).collect::<Vec<_>>());

    proxy.heal();
    assert_eq!(client.get_data("/").await.unwrap().0, b"19");
}

#[tokio::test]
async fn four_letter_words_pass_as_they_are() {
    let (proxy, _) = setup().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(b"srvr").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("Mode: standalone"));
    assert!(proxy.counts().is_empty());
}

#[tokio::test]
async fn other_protocols_pass_with_the_faults_of_the_link() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start_raw(listener.local_addr().unwrap());
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut bytes = [0; 8];

    // These four bytes could be the length of a greeting.
    client.write_all(&[0, 0, 0, 45]).await.unwrap();
    server.read_exact(&mut bytes[..4]).await.unwrap();
    server.write_all(b"hello").await.unwrap();
    client.read_exact(&mut bytes[..5]).await.unwrap();
    assert_eq!(&bytes[..5], b"hello");

    // Each half of a raw connection ends on its own.
    client.shutdown().await.unwrap();
    assert_eq!(server.read(&mut bytes).await.unwrap(), 0);
    server.write_all(b"bye").await.unwrap();
    client.read_exact(&mut bytes[..3]).await.unwrap();
    proxy.cut();
    assert_eq!(client.read(&mut bytes).await.unwrap_or(0), 0);
}

#[tokio::test(start_paused = true)]
async fn waits_take_real_time_while_the_tests_time_is_paused() {
    let (proxy, chroot) = setup().await;
    let connect = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let address = format!("{}{chroot}", proxy.connect_string());
        let client = runtime.block_on(Client::connect(&address)).unwrap();
        (proxy, client)
    });
    let (proxy, _client) = connect.await.unwrap();
    proxy.wait_for(RequestKind::Connect, 1).await;
}

#[tokio::test]
async fn a_dropped_proxy_closes_its_connections() {
    let (proxy, _) = setup().await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.wait_for_connections(1).await;
    let address = proxy.address();
    drop(proxy);
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(address).await.is_err());
}

/// What a future has now, without waiting.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut future = std::pin::Pin::new(future);
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
