//! Multis that are applied: all at once, each operation above the ones before.

use ingest_store::{Mode, Op, OpResult};

use crate::judge::{data, is_there, make, sorted_children, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    every_operation_of_a_multi_is_applied_and_answered,
    an_empty_multi_does_nothing,
    a_multi_of_checks_changes_nothing,
    a_check_without_a_version_asks_only_for_the_node,
    an_operation_sees_the_ones_before_it,
    a_set_gives_the_version_for_a_later_check,
    two_sets_of_one_node_count_twice,
    a_multi_is_one_transaction,
    a_sequential_create_in_a_multi_tells_its_name,
    sequential_creates_in_a_multi_follow_each_other,
    an_ephemeral_node_in_a_multi_belongs_to_the_session,
    an_empty_dir_is_deleted_and_created_in_one_multi,
    a_lock_is_held_for_the_length_of_a_multi,
    a_node_is_deleted_after_its_children_in_one_multi,
    a_multi_moves_a_node_from_one_dir_to_another,
    a_node_deleted_and_created_in_one_multi_is_new,
);

fn created(path: &str) -> OpResult {
    OpResult::Created { path: path.to_owned() }
}

async fn every_operation_of_a_multi_is_applied_and_answered(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/gone"]).await;
    let results = session
        .multi(vec![
            Op::check("/a", 0),
            Op::create("/a/b", "new"),
            Op::set("/a", "set", 0),
            Op::delete("/gone", 0),
        ])
        .await
        .unwrap();
    let set = stat(&session, "/a").await;
    assert_eq!((set.version, set.num_children), (1, 1));
    let [checked, made, OpResult::Set { stat: told }, deleted] = results.as_slice() else {
        panic!("{results:?}");
    };
    assert_eq!((checked, made, deleted), (&OpResult::Checked, &created("/a/b"), &OpResult::Deleted));
    assert_eq!(*told, set);
    assert_eq!(data(&session, "/a/b").await, "new");
    assert_eq!(data(&session, "/a").await, "set");
    assert!(!is_there(&session, "/gone").await);
}

async fn an_empty_multi_does_nothing(tree: &Tree) {
    let session = tree.session().await;
    assert_eq!(session.multi(Vec::new()).await.unwrap(), []);
}

async fn a_multi_of_checks_changes_nothing(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b"]).await;
    let before = (stat(&session, "/a").await, stat(&session, "/a/b").await);
    let results = session.multi(vec![Op::check("/a", 0), Op::check("/a/b", 0)]).await.unwrap();
    assert_eq!(results, [OpResult::Checked, OpResult::Checked]);
    assert_eq!((stat(&session, "/a").await, stat(&session, "/a/b").await), before);
}

async fn a_check_without_a_version_asks_only_for_the_node(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    session.set("/a", "x", None).await.unwrap();
    assert_eq!(session.multi(vec![Op::check("/a", None)]).await.unwrap(), [OpResult::Checked]);
}

async fn an_operation_sees_the_ones_before_it(tree: &Tree) {
    let session = tree.session().await;
    session
        .multi(vec![
            Op::create("/a", ""),
            Op::create("/a/b", ""),
            Op::create("/a/b/c", ""),
            Op::set("/a/b/c", "deep", 0),
            Op::delete("/a/b/c", 1),
            Op::delete("/a/b", 0),
        ])
        .await
        .unwrap();
    assert!(sorted_children(&session, "/a").await.is_empty());
    assert_eq!(stat(&session, "/a").await.cversion, 2);
}

async fn a_set_gives_the_version_for_a_later_check(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    session.multi(vec![Op::set("/a", "x", 0), Op::check("/a", 1)]).await.unwrap();
}

async fn two_sets_of_one_node_count_twice(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let results = session.multi(vec![Op::set("/a", "one", 0), Op::set("/a", "two", 1)]).await.unwrap();
    let versions = results.iter().map(|result| match result {
        OpResult::Set { stat } => stat.version,
        other => panic!("{other:?}"),
    });
    assert_eq!(versions.collect::<Vec<_>>(), [1, 2]);
    assert_eq!(data(&session, "/a").await, "two");
    assert_eq!(stat(&session, "/a").await.version, 2);
}

async fn a_multi_is_one_transaction(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/d"]).await;
    let before = stat(&session, "/d").await.czxid;
    session
        .multi(vec![Op::set("/a", "x", 0), Op::create("/a/b", ""), Op::create("/c", ""), Op::delete("/d", 0)])
        .await
        .unwrap();
    let (a, b, c) = (stat(&session, "/a").await, stat(&session, "/a/b").await, stat(&session, "/c").await);
    assert!(a.mzxid > before);
    assert_eq!([a.pzxid, b.czxid, b.mzxid, c.czxid, stat(&session, "/").await.pzxid], [a.mzxid; 5]);
}

async fn a_sequential_create_in_a_multi_tells_its_name(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q", "/q/first"]).await;
    let op = Op::Create { path: "/q/jid".into(), data: "x".into(), mode: Mode::PersistentSequential };
    assert_eq!(session.multi(vec![op]).await.unwrap(), [created("/q/jid0000000001")]);
    assert_eq!(data(&session, "/q/jid0000000001").await, "x");
}

async fn sequential_creates_in_a_multi_follow_each_other(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q"]).await;
    let next = |mode| Op::Create { path: "/q/n".into(), data: "".into(), mode };
    let results = session
        .multi(vec![
            next(Mode::PersistentSequential),
            Op::create("/q/between", ""),
            next(Mode::EphemeralSequential),
        ])
        .await
        .unwrap();
    assert_eq!(results, [created("/q/n0000000000"), created("/q/between"), created("/q/n0000000002")]);
    assert_eq!(stat(&session, "/q/n0000000002").await.ephemeral_owner, session.id());
    assert_eq!(stat(&session, "/q").await.next_sequence(), 3);
}

async fn an_ephemeral_node_in_a_multi_belongs_to_the_session(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/job"]).await;
    one.multi(vec![Op::ephemeral("/job/lock", "me"), Op::set("/job", "busy", 0)]).await.unwrap();
    assert_eq!(stat(&one, "/job/lock").await.ephemeral_owner, one.id());
    one.close().await.unwrap();
    two.sync().await.unwrap();
    assert!(!is_there(&two, "/job/lock").await);
    assert_eq!(data(&two, "/job").await, "busy");
}

async fn an_empty_dir_is_deleted_and_created_in_one_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/dir", "/dir/child"]).await;
    session.delete("/dir/child", None).await.unwrap();
    let before = stat(&session, "/dir").await;
    session.multi(vec![Op::delete("/dir", None), Op::create("/dir", "new")]).await.unwrap();
    let after = stat(&session, "/dir").await;
    assert!(after.czxid > before.czxid);
    assert_eq!((after.cversion, after.next_sequence()), (0, 0));
    assert_eq!(data(&session, "/dir").await, "new");
}

async fn a_lock_is_held_for_the_length_of_a_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/job"]).await;
    let ops =
        vec![Op::ephemeral("/job/lock", "admin"), Op::set("/job", "held", 0), Op::delete("/job/lock", None)];
    session.multi(ops).await.unwrap();
    assert_eq!(data(&session, "/job").await, "held");
    let stat = stat(&session, "/job").await;
    assert_eq!((stat.num_children, stat.cversion), (0, 2));
}

async fn a_node_is_deleted_after_its_children_in_one_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b", "/a/b/c", "/a/d"]).await;
    let paths = ["/a/b/c", "/a/d", "/a/b", "/a"];
    session.multi(paths.map(|path| Op::delete(path, None)).to_vec()).await.unwrap();
    assert!(sorted_children(&session, "/").await.is_empty());
}

async fn a_multi_moves_a_node_from_one_dir_to_another(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/pending", "/held", "/pending/j"]).await;
    session.multi(vec![Op::delete("/pending/j", 0), Op::create("/held/j", "")]).await.unwrap();
    assert!(sorted_children(&session, "/pending").await.is_empty());
    assert_eq!(sorted_children(&session, "/held").await, ["j"]);
    assert_eq!(stat(&session, "/pending").await.pzxid, stat(&session, "/held").await.pzxid);
}

async fn a_node_deleted_and_created_in_one_multi_is_new(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/d", "/d/a"]).await;
    session.set("/d/a", "old", 0).await.unwrap();
    session.multi(vec![Op::delete("/d/a", 1), Op::create("/d/a", "new")]).await.unwrap();
    assert_eq!(data(&session, "/d/a").await, "new");
    assert_eq!(stat(&session, "/d/a").await.version, 0);
    let parent = stat(&session, "/d").await;
    assert_eq!((parent.num_children, parent.cversion, parent.next_sequence()), (1, 3, 2));
}
