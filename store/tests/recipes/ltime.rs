use std::sync::Arc;
use std::time::Duration;

use ingest_harness::{Laggard, chroot};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::recipes::ltime;
use ingest_store::{Limits, Mode, Session, Store};

use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    the_clock_only_goes_forward,
    whoever_waits_for_a_moment_reads_what_was_before_it,
    a_waiter_for_the_future_is_woken_when_it_comes,
);

async fn the_clock_only_goes_forward(tree: &Tree) {
    let (one, two) = (tree.mortal_session().await, tree.mortal_session().await);
    let mut last = ltime::tick(&one).await.unwrap();
    for session in [&two, &one, &two] {
        session.create_with_parents("/other/n-", "", Mode::PersistentSequential).await.unwrap();
        let now = ltime::tick(session).await.unwrap();
        assert!(now > last);
        last = now;
    }
}

async fn whoever_waits_for_a_moment_reads_what_was_before_it(tree: &Tree) {
    let (writer, reader) = (tree.mortal_session().await, tree.mortal_session().await);
    writer.create("/seen", "", Mode::Persistent).await.unwrap();
    let moment = ltime::tick(&writer).await.unwrap();
    within(ltime::wait_for(&reader, moment)).await.unwrap();
    assert!(reader.exists("/seen").await.unwrap().is_some());
}

async fn a_waiter_for_the_future_is_woken_when_it_comes(tree: &Tree) {
    let (writer, reader) = (tree.mortal_session().await, tree.mortal_session().await);
    let now = ltime::tick(&writer).await.unwrap();
    let future = ltime::Ltime(now.0 + 3);
    let mut waiting = tokio::spawn(async move { ltime::wait_for(&reader, future).await });
    let mut ticking = now;
    while ticking < future {
        assert!(!waiting.is_finished());
        ticking = ltime::tick(&writer).await.unwrap();
    }
    within(&mut waiting).await.unwrap().unwrap();
}

/// On servers that are all there, with a chroot of its own.
async fn session_at(connect: &str, chroot: &str) -> Session {
    let config = ZookeeperConfig {
        session_timeout: Duration::from_mins(1),
        ..ZookeeperConfig::new(format!("{connect}{chroot}"))
    };
    Store::new(Arc::new(Zookeeper::new(config).unwrap()), Limits::default()).session().await.unwrap()
}

/// What holds: **whoever waits for a moment never reads what was before it**, however far its server is behind, and
/// meanwhile the session reads on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_behind_is_waited_for_and_nothing_stale_is_read() {
    let (laggard, chroot) = (Laggard::start().await, chroot());
    let writer = session_at(&laggard.others(), &chroot).await;
    let reader = session_at(&laggard.connect_string(), &chroot).await;
    writer.create("/seen", "old", Mode::Persistent).await.unwrap();
    let before = ltime::tick(&writer).await.unwrap();
    within(ltime::wait_for(&reader, before)).await.unwrap();
    let read = async |session: &Session| session.get("/seen").await.unwrap().0;
    assert_eq!(read(&reader).await, "old");

    laggard.fall_behind();
    writer.set("/seen", "new", None).await.unwrap();
    let moment = ltime::tick(&writer).await.unwrap();
    let waits = reader.clone();
    let waiting = tokio::spawn(async move {
        ltime::wait_for(&waits, moment).await.unwrap();
        read(&waits).await
    });
    // Its server answers, also on this session, and what it answers is old.
    for _ in 0..20 {
        assert_eq!(within(read(&reader)).await, "old");
        assert!(!waiting.is_finished());
    }
    laggard.catch_up();
    assert_eq!(within(waiting).await.unwrap(), "new");
    writer.close().await.unwrap();
    reader.close().await.unwrap();
}
