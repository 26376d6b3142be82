//! What an ensemble promises.

// In a test, also in its helpers, an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

use ingest_harness::Ensemble;
use zookeeper_client::{Acls, Client, CreateMode};

#[tokio::test]
async fn a_lost_leader_is_followed_by_another_and_heals() {
    let ensemble = Ensemble::start(3).await;
    let first = ensemble.kill_leader().await;
    assert!(!ensemble.server(first).is_running());
    let second = ensemble.leader().await;
    assert_ne!(first, second);
    ensemble.heal().await;
    assert!(ensemble.server(first).is_serving().await);
}

#[tokio::test]
async fn without_a_quorum_nothing_is_served_until_it_heals() {
    let ensemble = Ensemble::start(3).await;
    let client = Client::connect(&ensemble.connect_string()).await.unwrap();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/kept", b"", &options).await.unwrap();

    let survivor = ensemble.lose_quorum().await;
    assert!(ensemble.server(survivor).is_running());
    assert!(!ensemble.server(survivor).is_serving().await);

    ensemble.heal().await;
    ensemble.leader().await;
    let client = Client::connect(&ensemble.connect_string_of(survivor)).await.unwrap();
    assert!(client.check_stat("/kept").await.unwrap().is_some());
}

#[tokio::test]
async fn a_paused_leader_is_replaced_and_follows_when_it_returns() {
    let ensemble = Ensemble::start(3).await;
    let first = ensemble.leader().await;
    ensemble.pause(first);
    let second = ensemble.leader().await;
    assert_ne!(first, second);
    ensemble.heal().await;
    assert_eq!(ensemble.leader().await, second);
}

#[tokio::test]
async fn a_rolling_restart_replaces_every_process_and_ends_serving() {
    let ensemble = Ensemble::start(3).await;
    let pids = || ensemble.servers().iter().map(ingest_harness::Server::pid).collect::<Vec<_>>();
    let before = pids();
    ensemble.rolling_restart().await;
    assert!(pids().iter().all(|pid| !before.contains(pid)));
    ensemble.leader().await;
}
