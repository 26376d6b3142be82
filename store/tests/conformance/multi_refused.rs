//! Multis that are refused: nothing is applied, and the operation to blame is named.

use ingest_store::error::Outcome;
use ingest_store::{Kind, Mode, Op};

use crate::judge::{changed, data, expect_events, is_there, make, refused_op, sorted_children, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_multi_refused_at_its_first_operation_leaves_nothing,
    a_multi_refused_at_a_middle_operation_leaves_nothing,
    a_multi_refused_at_its_last_operation_leaves_nothing,
    a_refused_multi_says_which_operation_and_why,
    the_first_of_two_faults_is_named,
    a_check_of_a_missing_node_refuses_the_multi,
    a_check_at_another_version_refuses_the_multi,
    a_check_sees_the_version_that_the_multi_itself_made,
    a_node_created_twice_in_a_multi_refuses_it,
    a_node_deleted_twice_in_a_multi_refuses_it,
    a_full_dir_is_not_deleted_and_created_in_one_multi,
    a_lock_that_is_taken_refuses_the_multi,
    a_parent_deleted_before_its_child_refuses_the_multi,
    a_child_of_a_sequential_node_of_the_same_multi_has_no_parent,
    a_child_of_an_ephemeral_node_of_the_same_multi_is_refused,
    a_malformed_path_refuses_the_multi_before_it_is_sent,
    a_refused_multi_uses_no_sequence_number,
    a_refused_multi_tells_no_watcher,
    a_refused_multi_leaves_no_ephemeral_node,
    a_single_create_after_a_refused_multi_is_not_hindered,
);

/// One node to set, one to delete, one to read: and four operations that change all but the last.
async fn start(tree: &Tree) -> (ingest_store::Session, Vec<Op>) {
    let session = tree.session().await;
    make(&session, &["/set", "/delete", "/dir"]).await;
    let ops = vec![
        Op::set("/set", "new", 0),
        Op::delete("/delete", 0),
        Op::create("/dir/made", ""),
        Op::ephemeral("/dir/lock", ""),
    ];
    (session, ops)
}

async fn refused_at(tree: &Tree, index: usize) {
    let (session, mut ops) = start(tree).await;
    let before = [stat(&session, "/").await, stat(&session, "/set").await, stat(&session, "/dir").await];
    ops.insert(index, Op::set("/set", "late", 9));
    refused_op(session.multi(ops).await, index, Kind::BadVersion, "/set");

    let after = [stat(&session, "/").await, stat(&session, "/set").await, stat(&session, "/dir").await];
    assert_eq!(after, before);
    assert_eq!(data(&session, "/set").await, "");
    assert_eq!(sorted_children(&session, "/").await, ["delete", "dir", "set"]);
    assert!(sorted_children(&session, "/dir").await.is_empty());
}

async fn a_multi_refused_at_its_first_operation_leaves_nothing(tree: &Tree) {
    refused_at(tree, 0).await;
}

async fn a_multi_refused_at_a_middle_operation_leaves_nothing(tree: &Tree) {
    refused_at(tree, 2).await;
}

async fn a_multi_refused_at_its_last_operation_leaves_nothing(tree: &Tree) {
    refused_at(tree, 4).await;
}

async fn a_refused_multi_says_which_operation_and_why(tree: &Tree) {
    let (session, mut ops) = start(tree).await;
    ops.push(Op::create("/set", ""));
    let error = session.multi(ops).await.unwrap_err();
    assert_eq!(error.to_string(), "operation 4 of the multi: /set: the node exists already");
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

async fn the_first_of_two_faults_is_named(tree: &Tree) {
    let (session, mut ops) = start(tree).await;
    ops.insert(1, Op::delete("/none", None));
    ops.insert(3, Op::create("/set", ""));
    refused_op(session.multi(ops).await, 1, Kind::NoNode, "/none");
}

async fn a_check_of_a_missing_node_refuses_the_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let ops = vec![Op::set("/a", "x", 0), Op::check("/none", None)];
    refused_op(session.multi(ops).await, 1, Kind::NoNode, "/none");
    assert_eq!(data(&session, "/a").await, "");
}

async fn a_check_at_another_version_refuses_the_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let ops = vec![Op::create("/b", ""), Op::check("/a", 1)];
    refused_op(session.multi(ops).await, 1, Kind::BadVersion, "/a");
    assert!(!is_there(&session, "/b").await);
}

async fn a_check_sees_the_version_that_the_multi_itself_made(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let ops = vec![Op::set("/a", "x", 0), Op::check("/a", 0)];
    refused_op(session.multi(ops).await, 1, Kind::BadVersion, "/a");
}

async fn a_node_created_twice_in_a_multi_refuses_it(tree: &Tree) {
    let session = tree.session().await;
    let ops = vec![Op::create("/a", "one"), Op::create("/a", "two")];
    refused_op(session.multi(ops).await, 1, Kind::NodeExists, "/a");
    assert!(!is_there(&session, "/a").await);
}

async fn a_node_deleted_twice_in_a_multi_refuses_it(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let ops = vec![Op::delete("/a", None), Op::delete("/a", None)];
    refused_op(session.multi(ops).await, 1, Kind::NoNode, "/a");
    assert!(is_there(&session, "/a").await);
}

async fn a_full_dir_is_not_deleted_and_created_in_one_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/dir", "/dir/child"]).await;
    let before = stat(&session, "/dir").await;
    let ops = vec![Op::delete("/dir", None), Op::create("/dir", "")];
    refused_op(session.multi(ops).await, 0, Kind::NotEmpty, "/dir");
    assert_eq!(stat(&session, "/dir").await, before);
}

async fn a_lock_that_is_taken_refuses_the_multi(tree: &Tree) {
    let (owner, admin) = (tree.session().await, tree.session().await);
    make(&owner, &["/job"]).await;
    owner.create("/job/lock", "owner", Mode::Ephemeral).await.unwrap();
    let ops = vec![
        Op::ephemeral("/job/lock", "admin"),
        Op::set("/job", "held", None),
        Op::delete("/job/lock", None),
    ];
    refused_op(admin.multi(ops).await, 0, Kind::NodeExists, "/job/lock");
    assert_eq!(stat(&owner, "/job").await.version, 0);
    assert_eq!(data(&owner, "/job/lock").await, "owner");
}

async fn a_parent_deleted_before_its_child_refuses_the_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b"]).await;
    let ops = vec![Op::delete("/a", None), Op::delete("/a/b", None)];
    refused_op(session.multi(ops).await, 0, Kind::NotEmpty, "/a");
    let ops = vec![Op::delete("/a/b", None), Op::delete("/a", None), Op::create("/a/c", "")];
    refused_op(session.multi(ops).await, 2, Kind::NoNode, "/a/c");
    assert!(is_there(&session, "/a/b").await);
}

async fn a_child_of_a_sequential_node_of_the_same_multi_has_no_parent(tree: &Tree) {
    let session = tree.session().await;
    let ops = vec![
        Op::Create { path: "/jid".into(), data: "".into(), mode: Mode::PersistentSequential },
        Op::create("/jid/status", ""),
    ];
    refused_op(session.multi(ops).await, 1, Kind::NoNode, "/jid/status");
    assert!(sorted_children(&session, "/").await.is_empty());
}

async fn a_child_of_an_ephemeral_node_of_the_same_multi_is_refused(tree: &Tree) {
    let session = tree.session().await;
    let ops = vec![Op::ephemeral("/e", ""), Op::create("/e/child", "")];
    refused_op(session.multi(ops).await, 1, Kind::NoChildrenForEphemerals, "/e/child");
    assert!(!is_there(&session, "/e").await);
}

async fn a_malformed_path_refuses_the_multi_before_it_is_sent(tree: &Tree) {
    let (session, mut ops) = start(tree).await;
    ops.insert(3, Op::set("/a/", "", None));
    refused_op(session.multi(ops).await, 3, Kind::BadArguments, "/a/");
    let ops = vec![Op::set("/set", "x", None), Op::delete("/", None)];
    refused_op(session.multi(ops).await, 1, Kind::BadArguments, "/");
    assert_eq!(stat(&session, "/set").await.version, 0);
}

async fn a_refused_multi_uses_no_sequence_number(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q"]).await;
    let next = Op::Create { path: "/q/n".into(), data: "".into(), mode: Mode::PersistentSequential };
    for _ in 0..3 {
        let ops = vec![next.clone(), next.clone(), Op::check("/none", None)];
        refused_op(session.multi(ops).await, 2, Kind::NoNode, "/none");
    }
    let (path, _) = session.create("/q/n", "", Mode::PersistentSequential).await.unwrap();
    assert_eq!(path, "/q/n0000000000");
}

async fn a_refused_multi_tells_no_watcher(tree: &Tree) {
    let (session, mut ops) = start(tree).await;
    let mut watch = session.watch_tree("/").await.unwrap();
    ops.push(Op::check("/none", None));
    refused_op(session.multi(ops).await, 4, Kind::NoNode, "/none");
    session.set("/set", "real", 0).await.unwrap();
    expect_events(&mut watch, &[changed("/set")]).await;
}

async fn a_refused_multi_leaves_no_ephemeral_node(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    let ops = vec![Op::ephemeral("/e", ""), Op::check("/none", None)];
    refused_op(one.multi(ops).await, 1, Kind::NoNode, "/none");
    // The name is now another's, and must survive the end of the first.
    make(&two, &["/e"]).await;
    one.close().await.unwrap();
    two.sync().await.unwrap();
    assert!(is_there(&two, "/e").await);
}

async fn a_single_create_after_a_refused_multi_is_not_hindered(tree: &Tree) {
    let session = tree.session().await;
    let ops = vec![Op::create("/a", "multi"), Op::create("/a/b", ""), Op::check("/none", None)];
    let (multi, single) = tokio::join!(session.multi(ops), session.create("/a", "single", Mode::Persistent));
    refused_op(multi, 2, Kind::NoNode, "/none");
    single.unwrap();
    assert_eq!(data(&session, "/a").await, "single");
    assert!(sorted_children(&session, "/a").await.is_empty());
}
