//! Servers that are not there.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use ingest_harness::{Proxy, Server, chroot, shared_connect_string_with_chroot};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::{Kind, Limits, Mode, Result, Session};
use tokio::sync::watch;

use crate::identity::open;
use crate::{says, within};

/// What all tests of this process log. A subscriber of one thread alone would not do: whether a line
/// is wanted is remembered for all threads.
fn log() -> watch::Receiver<String> {
    struct Log(watch::Sender<String>);
    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send_modify(|log| log.push_str(&String::from_utf8_lossy(bytes)));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    static LOG: OnceLock<watch::Receiver<String>> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let (sender, log) = watch::channel(String::new());
        let level = tracing::Level::INFO;
        let writer = move || Log(sender.clone());
        tracing_subscriber::fmt().with_ansi(false).with_max_level(level).with_writer(writer).init();
        log
    });
    log.clone()
}

#[tokio::test]
async fn a_server_that_is_down_at_start_is_waited_for_and_the_reason_is_seen() {
    let mut log = log();
    let server = Server::start_default().await;
    server.stop().await;
    let host = server.connect_string();
    let opening = tokio::spawn(open(ZookeeperConfig::new(format!("{host}{}", chroot()))));

    // The host has a port of its own: its lines are this test's.
    let refused = format!("{host}: Connection refused");
    let second = |line: &str| line.contains("attempt=2") && line.contains(&host);
    let seen = within(log.wait_for(|log| log.lines().any(second))).await.unwrap().clone();
    for line in seen.lines().filter(|line| line.contains(&host)) {
        let complete = line.contains("WARN") && line.contains("no ZooKeeper session yet");
        assert!(complete && line.contains(&refused), "{line}");
    }

    server.restart().await;
    let session = within(opening).await.unwrap().unwrap();
    session.create("/a", "", Mode::Persistent).await.unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_server_that_stays_down_is_given_up_with_its_name_and_the_reason() {
    let server = Server::start_default().await;
    server.stop().await;
    let host = server.connect_string();
    let config =
        ZookeeperConfig { connect_limit: Duration::from_secs(1), ..ZookeeperConfig::new(host.as_str()) };
    let error = within(open(config)).await.unwrap_err();
    let reason = format!("in 1s: {host}: Connection refused");
    says(&error, Kind::Unreachable, &["no server could be reached: tried ", &reason]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_with_its_name_and_the_reason() {
    let proxy = Proxy::start(Server::shared().await.address());
    proxy.stall(ingest_harness::Direction::Both);
    let host = proxy.connect_string();
    let config =
        ZookeeperConfig { connect_limit: Duration::from_secs(1), ..ZookeeperConfig::new(host.as_str()) };
    let error = within(open(config)).await.unwrap_err();
    let reason = format!("{host}: accepts connections but gives no session");
    says(&error, Kind::Unreachable, &[&reason]);
}

#[tokio::test]
async fn a_server_that_answers_late_is_waited_for() {
    let proxy = Proxy::start(Server::shared().await.address());
    proxy.stall(ingest_harness::Direction::Both);
    let opening = tokio::spawn(open(ZookeeperConfig::new(format!("{}{}", proxy.connect_string(), chroot()))));
    proxy.wait_for_connections(1).await;
    proxy.heal();
    let session = within(opening).await.unwrap().unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn one_live_host_of_several_is_enough_and_all_dead_ones_are_named() {
    let (one, two) = tokio::join!(Server::start_default(), Server::start_default());
    one.stop().await;
    let hosts = [one.connect_string(), two.connect_string()];
    // The default limit: a busy server may take long to grant the session.
    let config = ZookeeperConfig::new(format!("{},{}{}", hosts[0], hosts[1], chroot()));
    let session = within(open(config.clone())).await.unwrap();
    session.close().await.unwrap();
    two.stop().await;
    let impatient = ZookeeperConfig { connect_limit: Duration::from_secs(2), ..config };
    let error = within(open(impatient)).await.unwrap_err();
    let refused = hosts.map(|host| format!("{host}: Connection refused"));
    says(&error, Kind::Unreachable, &[&refused[0], &refused[1]]);
}

#[tokio::test]
async fn a_chroot_of_several_levels_is_made_also_by_clients_that_race_for_it() {
    let connect = format!("{}/deep/down", shared_connect_string_with_chroot().await);
    let config = ZookeeperConfig::new(connect);
    let engine = Arc::new(Zookeeper::new(config).unwrap());
    let racers = (0..8).map(|_| Session::open(engine.clone(), Limits::default()));
    let sessions = futures::future::join_all(racers).await;
    let sessions = sessions.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    sessions[0].create("/a", "", Mode::Persistent).await.unwrap();
    for session in sessions {
        session.sync().await.unwrap();
        assert_eq!(session.children("/").await.unwrap().0, ["a"]);
        session.close().await.unwrap();
    }
}
