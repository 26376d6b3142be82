//! Many calls at once: one winner per version, nothing lost, and a bound on what waits.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, poll};
use ingest_store::error::{Next, Outcome};
use ingest_store::{Error, Kind, Limits, Mode, Op, Result, Session, Stat};

use crate::judge::{data, is_there, make, refused_at_all, sorted_children, stat};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    exactly_one_of_many_sets_at_a_version_wins,
    exactly_one_of_many_creates_of_a_name_wins,
    exactly_one_of_many_deletes_wins,
    exactly_one_of_many_multis_behind_a_check_wins,
    many_writers_that_read_again_all_get_their_turn,
    five_hundred_creates_at_once_all_succeed,
    sequential_creates_at_once_get_every_number_once,
    a_refused_call_among_many_refuses_only_itself,
    readers_see_a_multi_wholly_or_not_at_all,
    a_dropped_call_is_applied_all_the_same,
    a_call_that_was_never_polled_is_not_sent,
    dropped_calls_give_their_places_back,
    a_call_without_a_place_is_busy_and_not_sent,
    calls_wait_for_a_place_as_long_as_they_may,
);

async fn exactly_one_of_many_sets_at_a_version_wins(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/a"]).await;
    for version in 0..5 {
        let sets = (0..64).map(|n| {
            let session = if n % 2 == 0 { &one } else { &two };
            async move { (n, session.set("/a", n.to_string(), version).await) }
        });
        let mut winners = Vec::new();
        for (n, result) in join_all(sets).await {
            match result {
                Ok(stat) => winners.push((n, stat.version)),
                Err(error) => assert_eq!(error.kind(), Kind::BadVersion),
            }
        }
        let [(winner, new)] = winners[..] else { panic!("not one winner: {winners:?}") };
        assert_eq!(new, version + 1);
        one.sync().await.unwrap();
        assert_eq!(data(&one, "/a").await, winner.to_string());
    }
}

async fn exactly_one_of_many_creates_of_a_name_wins(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    let creates = (0..64).map(|n| {
        let session = if n % 2 == 0 { &one } else { &two };
        async move { session.create("/lock", "", Mode::Ephemeral).await }
    });
    let results = join_all(creates).await;
    let refused = results.iter().filter_map(|result| result.as_ref().err());
    assert_eq!(refused.map(Error::kind).collect::<Vec<_>>(), [Kind::NodeExists; 63]);
    assert_eq!(stat(&one, "/").await.cversion, 1);
}

async fn exactly_one_of_many_deletes_wins(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let results = join_all((0..64).map(|_| session.delete("/a", 0))).await;
    let refused = results.iter().filter_map(|result| result.as_ref().err());
    assert_eq!(refused.map(Error::kind).collect::<Vec<_>>(), [Kind::NoNode; 63]);
}

async fn exactly_one_of_many_multis_behind_a_check_wins(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/status", "/refs"]).await;
    let multis = (0..64).map(|n| {
        session.multi(vec![Op::create(format!("/refs/{n}"), ""), Op::set("/status", n.to_string(), 0)])
    });
    let results = join_all(multis).await;
    let refused = results.iter().filter_map(|result| result.as_ref().err());
    let faults = refused.map(|error| (error.kind(), error.failed_op())).collect::<Vec<_>>();
    assert_eq!(faults, [(Kind::BadVersion, Some(1)); 63]);
    assert_eq!(sorted_children(&session, "/refs").await, [data(&session, "/status").await]);
}

async fn many_writers_that_read_again_all_get_their_turn(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/sum"]).await;
    let add = async |session: &Session| {
        loop {
            let (bytes, stat) = session.get("/sum").await.unwrap();
            let sum = std::str::from_utf8(&bytes).unwrap().parse::<u32>().unwrap_or(0);
            match session.set("/sum", (sum + 1).to_string(), stat.version).await {
                Ok(_) => return,
                Err(error) => assert_eq!(error.next(), Next::ReadAgain),
            }
        }
    };
    join_all((0..32).map(|n| add(if n % 2 == 0 { &one } else { &two }))).await;
    one.sync().await.unwrap();
    assert_eq!(data(&one, "/sum").await, "32");
    assert_eq!(stat(&one, "/sum").await.version, 32);
}

async fn five_hundred_creates_at_once_all_succeed(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/d"]).await;
    let creates = (0..500).map(|n| session.create(format!("/d/{n:03}"), "", Mode::Persistent));
    let mut zxids = BTreeSet::new();
    for result in join_all(creates).await {
        zxids.insert(result.unwrap().1.czxid);
    }
    assert_eq!(zxids.len(), 500);
    let names = sorted_children(&session, "/d").await;
    assert_eq!(names, (0..500).map(|n| format!("{n:03}")).collect::<Vec<_>>());
}

async fn sequential_creates_at_once_get_every_number_once(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/q"]).await;
    let creates = (0..200).map(|n| {
        let session = if n % 2 == 0 { &one } else { &two };
        async move { session.create("/q/n", "", Mode::PersistentSequential).await.unwrap().0 }
    });
    let made = join_all(creates).await.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(made, (0..200).map(|n| format!("/q/n{n:010}")).collect());
}

async fn a_refused_call_among_many_refuses_only_itself(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/d"]).await;
    let calls = (0..100).map(|n| {
        let path = if n % 10 == 3 { format!("/none/{n}") } else { format!("/d/{n}") };
        session.create(path, "", Mode::Persistent)
    });
    for (n, result) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!(result.err().map(|error| error.kind()), (n % 10 == 3).then_some(Kind::NoNode));
    }
    assert_eq!(stat(&session, "/d").await.num_children, 90);
}

async fn readers_see_a_multi_wholly_or_not_at_all(tree: &Tree) {
    let (writer, reader) = (tree.session().await, tree.session().await);
    make(&writer, &["/a", "/a/b"]).await;
    let write = async {
        for n in 0..100 {
            let value = n.to_string();
            let ops = vec![Op::set("/a", value.clone(), n), Op::set("/a/b", value, n)];
            writer.multi(ops).await.unwrap();
        }
    };
    let read = async {
        loop {
            // In this order the second can only be newer.
            let first = stat(&reader, "/a").await;
            let second = stat(&reader, "/a/b").await;
            assert!(second.version >= first.version);
            if first.version == 100 {
                return;
            }
        }
    };
    within(async { tokio::join!(write, read) }).await;
}

async fn a_dropped_call_is_applied_all_the_same(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/d"]).await;
    for n in 0..20 {
        let mut call = Box::pin(session.create(format!("/d/{n}"), "", Mode::Persistent));
        let _ = poll!(call.as_mut());
    }
    session.sync().await.unwrap();
    assert_eq!(stat(&session, "/d").await.num_children, 20);
}

async fn a_call_that_was_never_polled_is_not_sent(tree: &Tree) {
    let session = tree.session().await;
    drop(session.create("/a", "", Mode::Persistent));
    session.sync().await.unwrap();
    assert!(!is_there(&session, "/a").await);
}

async fn dropped_calls_give_their_places_back(tree: &Tree) {
    let session = tree.session_with(Limits { max_requests: 2, ..Limits::default() }).await;
    make(&session, &["/d"]).await;
    for n in 0..100 {
        let mut call = Box::pin(session.create(format!("/d/{n}"), "", Mode::Persistent));
        let _ = poll!(call.as_mut());
        drop(call);
        // Needs a place of its own beside that of the dropped call.
        within(session.sync()).await.unwrap();
    }
    assert_eq!(stat(&session, "/d").await.num_children, 100);
    let (one, two) = tokio::join!(session.get("/d"), session.get("/d"));
    assert_eq!(one.unwrap(), two.unwrap());
}

/// A call that has been sent and keeps its place until it is polled again.
async fn hold_a_place(session: &Session) -> BoxFuture<'_, Result<(String, Stat)>> {
    loop {
        let mut call = session.create("/held", "", Mode::PersistentSequential).boxed();
        // An answer that is there at once holds nothing: try again.
        if poll!(call.as_mut()).is_pending() {
            return call;
        }
    }
}

async fn a_call_without_a_place_is_busy_and_not_sent(tree: &Tree) {
    let limits = Limits { max_requests: 1, deadline: Duration::from_millis(300), ..Limits::default() };
    let session = tree.session_with(limits).await;
    // What must be answered is asked on a session that is patient.
    let witness = tree.session().await;
    make(&witness, &["/a"]).await;
    let held = hold_a_place(&session).await;
    let error = refused_at_all(within(session.set("/a", "late", None)).await, Kind::Busy);
    assert_eq!((error.outcome(), error.next()), (Outcome::NotApplied, Next::RetryLater));
    assert_eq!(error.to_string(), "too many requests are waiting: 1 for 300ms");
    // Its own deadline has passed as well by now, but dropping it gives the place back.
    drop(held);
    within(async { while session.sync().await.is_err() {} }).await;
    witness.sync().await.unwrap();
    assert_eq!(stat(&witness, "/a").await.version, 0);
    within(async { while session.set("/a", "now", None).await.is_err() {} }).await;
    witness.sync().await.unwrap();
    assert_eq!(data(&witness, "/a").await, "now");
}

async fn calls_wait_for_a_place_as_long_as_they_may(tree: &Tree) {
    let session = tree.session_with(Limits { max_requests: 1, ..Limits::default() }).await;
    make(&session, &["/a"]).await;
    let held = hold_a_place(&session).await;
    let mut waiting = pin!(session.set("/a", "patient", 0));
    assert!(poll!(waiting.as_mut()).is_pending());
    held.await.unwrap();
    assert_eq!(within(waiting).await.unwrap().version, 1);
}
