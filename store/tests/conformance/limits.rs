//! How much fits: bytes, operations, children.

use ingest_store::node::MAX_REQUEST;
use ingest_store::{Kind, Mode, Op, OpResult, SessionState};

use crate::judge::{is_there, make, refused, refused_at_all, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_node_holds_a_megabyte,
    a_request_of_exactly_the_limit_is_taken,
    a_request_over_the_limit_is_refused_and_the_session_lives,
    a_multi_over_the_limit_is_refused_and_nothing_is_applied,
    a_multi_of_many_small_operations_fills_the_limit,
    a_thousand_operations_fit_in_a_multi,
    five_thousand_children_are_listed,
    a_node_of_the_largest_size_can_be_watched_and_replaced,
);

/// The largest data of a node at this path.
fn room(path: &str) -> usize {
    MAX_REQUEST - Op::create(path, "").size()
}

async fn a_node_holds_a_megabyte(tree: &Tree) {
    let session = tree.session().await;
    let data = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect::<Vec<_>>();
    session.create("/a", data.clone(), Mode::Persistent).await.unwrap();
    let (read, stat) = session.get("/a").await.unwrap();
    assert!(read == data);
    assert_eq!(stat.data_length, 1_000_000);
}

async fn a_request_of_exactly_the_limit_is_taken(tree: &Tree) {
    let session = tree.session().await;
    let data = vec![7; room("/a")];
    session.create("/a", data.clone(), Mode::Persistent).await.unwrap();
    session.set("/a", data.clone(), 0).await.unwrap();
    session.multi(vec![Op::set("/a", data.clone(), 1)]).await.unwrap();
    assert!(session.get("/a").await.unwrap().0 == data);
}

async fn a_request_over_the_limit_is_refused_and_the_session_lives(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let connections = session.states().borrow().connections;
    for size in [room("/b") + 1, 2 << 20] {
        refused(session.create("/b", vec![0; size], Mode::Persistent).await, Kind::TooLarge, "/b");
        refused(session.set("/a", vec![0; size], None).await, Kind::TooLarge, "/a");
    }
    assert!(!is_there(&session, "/b").await);
    assert_eq!(stat(&session, "/a").await.version, 0);
    session.set("/a", "small", 0).await.unwrap();
    assert_eq!(session.state(), SessionState::Connected);
    assert_eq!(session.states().borrow().connections, connections);
}

async fn a_multi_over_the_limit_is_refused_and_nothing_is_applied(tree: &Tree) {
    let session = tree.session().await;
    let ops = (0..3).map(|n| Op::create(format!("/{n}"), vec![0; 400_000])).collect();
    let error = refused_at_all(session.multi(ops).await, Kind::TooLarge);
    assert_eq!(error.failed_op(), None);
    assert_eq!(stat(&session, "/").await.num_children, 0);
    make(&session, &["/a"]).await;
}

async fn a_multi_of_many_small_operations_fills_the_limit(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/d"]).await;
    let mut left = MAX_REQUEST;
    let mut ops = Vec::new();
    loop {
        let op = Op::create(format!("/d/{}", ops.len()), "");
        let Some(rest) = left.checked_sub(op.size()) else { break };
        left = rest;
        ops.push(op);
    }
    let count = ops.len();
    assert_eq!(session.multi(ops).await.unwrap().len(), count);
    assert_eq!(usize::try_from(stat(&session, "/d").await.num_children).unwrap(), count);
}

async fn a_thousand_operations_fit_in_a_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/d"]).await;
    let ops = (0..1000).map(|n| Op::create(format!("/d/{n:04}"), n.to_string())).collect();
    let results = session.multi(ops).await.unwrap();
    assert_eq!(results.len(), 1000);
    assert_eq!(results[999], OpResult::Created { path: "/d/0999".into() });
    let last = session.get("/d/0999").await.unwrap();
    assert_eq!(&last.0[..], b"999");
    assert_eq!(stat(&session, "/d").await.cversion, 1000);
}

async fn five_thousand_children_are_listed(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/d"]).await;
    for thousand in 0..5 {
        let numbers = thousand * 1000..(thousand + 1) * 1000;
        let ops = numbers.map(|n| Op::create(format!("/d/{n:05}"), "")).collect();
        session.multi(ops).await.unwrap();
    }
    let (mut names, stat) = session.children("/d").await.unwrap();
    names.sort_unstable();
    assert_eq!(names, (0..5000).map(|n| format!("{n:05}")).collect::<Vec<_>>());
    assert_eq!((stat.num_children, stat.next_sequence()), (5000, 5000));
}

async fn a_node_of_the_largest_size_can_be_watched_and_replaced(tree: &Tree) {
    let session = tree.session().await;
    session.create("/a", vec![1; room("/a")], Mode::Persistent).await.unwrap();
    let (seen, watch) = session.watch_exists("/a").await.unwrap();
    assert_eq!(usize::try_from(seen.unwrap().data_length).unwrap(), room("/a"));
    let delete = Op::delete("/a", 0);
    let data = vec![2; room("/a") - delete.size()];
    session.multi(vec![delete, Op::create("/a", data)]).await.unwrap();
    assert_eq!(crate::tree::within(watch.woken()).await, ingest_store::Woken::Deleted);
    assert_eq!(session.get("/a").await.unwrap().0[0], 2);
}
