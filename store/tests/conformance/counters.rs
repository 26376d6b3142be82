//! Counters: versions, sequence numbers that never go back, and the transactions in a stat.

use ingest_store::{Kind, Mode, Session};

use crate::judge::{make, refused, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    the_version_counts_sets_only,
    the_child_version_counts_creates_and_deletes,
    grandchildren_and_data_of_children_do_not_count,
    the_next_sequence_number_is_known_from_the_stat,
    the_next_sequence_number_counts_explicit_names_too,
    sequence_numbers_do_not_come_back_after_deletes,
    sequence_numbers_do_not_come_back_when_a_dir_was_emptied,
    a_dir_created_anew_counts_from_zero,
    the_transaction_of_the_creation_never_moves,
    the_transaction_of_the_data_moves_with_sets_only,
    the_transaction_of_the_children_moves_with_children_only,
    transactions_grow_with_every_write,
    a_child_is_created_in_the_transaction_that_its_parent_tells,
    refused_writes_leave_every_counter,
    reads_leave_every_counter,
    ephemeral_children_count_when_they_come_and_when_they_go,
);

async fn next_name(session: &Session, prefix: &str) -> String {
    session.create(prefix, "", Mode::PersistentSequential).await.unwrap().0
}

async fn the_version_counts_sets_only(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/x"]).await;
    session.delete("/a/x", None).await.unwrap();
    assert_eq!(stat(&session, "/a").await.version, 0);
    session.set("/a", "", None).await.unwrap();
    session.set("/a", "", 1).await.unwrap();
    assert_eq!(stat(&session, "/a").await.version, 2);
}

async fn the_child_version_counts_creates_and_deletes(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/x", "/a/y", "/a/z"]).await;
    let stat_of = async || stat(&session, "/a").await;
    assert_eq!((stat_of().await.cversion, stat_of().await.num_children), (3, 3));
    session.delete("/a/x", None).await.unwrap();
    assert_eq!((stat_of().await.cversion, stat_of().await.num_children), (4, 2));
    make(&session, &["/a/x"]).await;
    assert_eq!((stat_of().await.cversion, stat_of().await.num_children), (5, 3));
}

async fn grandchildren_and_data_of_children_do_not_count(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/x"]).await;
    let before = stat(&session, "/a").await;
    make(&session, &["/a/x/deep"]).await;
    session.set("/a/x", "data", None).await.unwrap();
    session.delete("/a/x/deep", None).await.unwrap();
    assert_eq!(stat(&session, "/a").await, before);
}

async fn the_next_sequence_number_is_known_from_the_stat(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q"]).await;
    // Creates and deletes in turn, so that the counters part from the number of children.
    for round in 0..12 {
        let next = stat(&session, "/q").await.next_sequence();
        let name = next_name(&session, "/q/n").await;
        assert_eq!(name, format!("/q/n{next:010}"));
        if round % 3 != 0 {
            session.delete(name, None).await.unwrap();
            assert_eq!(stat(&session, "/q").await.next_sequence(), next + 1);
        }
    }
    assert_eq!(stat(&session, "/q").await.num_children, 4);
}

async fn the_next_sequence_number_counts_explicit_names_too(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q", "/q/x", "/q/y", "/q/z"]).await;
    assert_eq!(stat(&session, "/q").await.next_sequence(), 3);
    session.delete("/q/y", None).await.unwrap();
    assert_eq!(stat(&session, "/q").await.next_sequence(), 3);
    assert_eq!(next_name(&session, "/q/n").await, "/q/n0000000003");
}

async fn sequence_numbers_do_not_come_back_after_deletes(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q"]).await;
    let mut last = None;
    for _ in 0..10 {
        let name = next_name(&session, "/q/n").await;
        assert!(Some(&name) > last.as_ref(), "{name} after {last:?}");
        session.delete(name.as_str(), None).await.unwrap();
        last = Some(name);
    }
    assert_eq!(last.as_deref(), Some("/q/n0000000009"));
}

async fn sequence_numbers_do_not_come_back_when_a_dir_was_emptied(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/q"]).await;
    for _ in 0..5 {
        two.create("/q/e", "", Mode::EphemeralSequential).await.unwrap();
    }
    two.close().await.unwrap();
    one.sync().await.unwrap();
    let emptied = stat(&one, "/q").await;
    assert_eq!((emptied.num_children, emptied.cversion, emptied.next_sequence()), (0, 10, 5));
    assert_eq!(next_name(&one, "/q/e").await, "/q/e0000000005");
}

async fn a_dir_created_anew_counts_from_zero(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q"]).await;
    let name = next_name(&session, "/q/n").await;
    session.delete(name, None).await.unwrap();
    session.delete("/q", None).await.unwrap();
    make(&session, &["/q"]).await;
    assert_eq!(next_name(&session, "/q/n").await, "/q/n0000000000");
}

async fn the_transaction_of_the_creation_never_moves(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let before = stat(&session, "/a").await;
    session.set("/a", "x", None).await.unwrap();
    make(&session, &["/a/x"]).await;
    session.delete("/a/x", None).await.unwrap();
    let after = stat(&session, "/a").await;
    assert_eq!((after.czxid, after.ctime), (before.czxid, before.ctime));
}

async fn the_transaction_of_the_data_moves_with_sets_only(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let before = stat(&session, "/a").await;
    make(&session, &["/a/x"]).await;
    session.delete("/a/x", None).await.unwrap();
    let children_changed = stat(&session, "/a").await;
    assert_eq!((children_changed.mzxid, children_changed.mtime), (before.mzxid, before.mtime));
    assert!(session.set("/a", "x", None).await.unwrap().mzxid > children_changed.pzxid);
}

async fn the_transaction_of_the_children_moves_with_children_only(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let made = stat(&session, "/a").await;
    assert_eq!(made.pzxid, made.czxid);
    assert_eq!(session.set("/a", "x", None).await.unwrap().pzxid, made.czxid);
    let (_, child) = session.create("/a/x", "", Mode::Persistent).await.unwrap();
    let created = stat(&session, "/a").await;
    assert_eq!(created.pzxid, child.czxid);
    session.delete("/a/x", None).await.unwrap();
    assert!(stat(&session, "/a").await.pzxid > created.pzxid);
}

async fn transactions_grow_with_every_write(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/a"]).await;
    let mut last = stat(&one, "/a").await.czxid;
    for n in 0..20 {
        let writer = if n % 2 == 0 { &one } else { &two };
        let zxid = writer.set("/a", "", None).await.unwrap().mzxid;
        assert!(zxid > last);
        last = zxid;
    }
}

async fn a_child_is_created_in_the_transaction_that_its_parent_tells(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    for n in 0..5 {
        let (_, child) = session.create(format!("/a/{n}"), "", Mode::Persistent).await.unwrap();
        assert_eq!(stat(&session, "/a").await.pzxid, child.czxid);
    }
}

async fn refused_writes_leave_every_counter(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/x"]).await;
    let before = (stat(&session, "/a").await, stat(&session, "/a/x").await);
    refused(session.create("/a/x", "", Mode::Persistent).await, Kind::NodeExists, "/a/x");
    refused(session.set("/a/x", "", 4).await, Kind::BadVersion, "/a/x");
    refused(session.delete("/a/x", 4).await, Kind::BadVersion, "/a/x");
    refused(session.delete("/a", None).await, Kind::NotEmpty, "/a");
    refused(session.delete("/a/y", None).await, Kind::NoNode, "/a/y");
    assert_eq!((stat(&session, "/a").await, stat(&session, "/a/x").await), before);
}

async fn reads_leave_every_counter(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/x"]).await;
    let before = stat(&session, "/a").await;
    session.get("/a").await.unwrap();
    session.children("/a").await.unwrap();
    session.sync().await.unwrap();
    let (seen, _watch) = session.watch_exists("/a").await.unwrap();
    assert_eq!(seen, Some(before));
    assert_eq!(stat(&session, "/a").await, before);
}

async fn ephemeral_children_count_when_they_come_and_when_they_go(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/a"]).await;
    two.create("/a/x", "", Mode::Ephemeral).await.unwrap();
    two.create("/a/y", "", Mode::Ephemeral).await.unwrap();
    let full = stat(&two, "/a").await;
    assert_eq!((full.num_children, full.cversion), (2, 2));
    two.close().await.unwrap();
    one.sync().await.unwrap();
    let empty = stat(&one, "/a").await;
    assert_eq!((empty.num_children, empty.cversion), (0, 4));
    assert!(empty.pzxid > full.pzxid);
}
