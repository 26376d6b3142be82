use ingest_store::Mode;
use ingest_store::recipes::ltime;

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
