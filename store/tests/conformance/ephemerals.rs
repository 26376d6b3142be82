//! Ephemeral nodes: they belong to a session and end with it.

use ingest_store::{Kind, Limits, Mode, Op, Woken};

use crate::judge::{data, is_there, make, refused, sorted_children, stat};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    an_ephemeral_node_names_its_session,
    an_ephemeral_node_cannot_have_children,
    an_ephemeral_sequential_node_has_a_number_and_an_owner,
    a_closed_session_leaves_none_of_its_ephemeral_nodes,
    a_closed_session_leaves_what_is_not_its_own,
    a_dropped_session_gives_up_its_ephemeral_nodes,
    an_ephemeral_node_can_be_set_by_others_and_keeps_its_owner,
    an_ephemeral_node_can_be_deleted_by_others,
    a_name_taken_over_by_another_session_stays_when_the_first_ends,
    a_name_taken_over_by_a_persistent_node_stays,
    an_ephemeral_node_made_again_ends_with_its_session,
    a_dir_of_ephemeral_nodes_can_be_deleted_when_they_are_gone,
    many_ephemeral_nodes_end_together,
    an_ephemeral_node_keeps_others_out,
);

async fn an_ephemeral_node_names_its_session(tree: &Tree) {
    let session = tree.session().await;
    let (_, made) = session.create("/e", "", Mode::Ephemeral).await.unwrap();
    let (_, lasting) = session.create("/p", "", Mode::Persistent).await.unwrap();
    assert_ne!(session.id(), 0);
    assert_eq!((made.ephemeral_owner, lasting.ephemeral_owner), (session.id(), 0));
    assert_eq!(stat(&session, "/e").await.ephemeral_owner, session.id());
}

async fn an_ephemeral_node_cannot_have_children(tree: &Tree) {
    let session = tree.session().await;
    session.create("/e", "", Mode::Ephemeral).await.unwrap();
    for mode in [Mode::Persistent, Mode::Ephemeral] {
        refused(session.create("/e/x", "", mode).await, Kind::NoChildrenForEphemerals, "/e/x");
    }
    let numbered = session.create("/e/x", "", Mode::PersistentSequential).await;
    refused(numbered, Kind::NoChildrenForEphemerals, "/e/x");
    assert!(sorted_children(&session, "/e").await.is_empty());
}

async fn an_ephemeral_sequential_node_has_a_number_and_an_owner(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/q"]).await;
    let (path, made) = one.create("/q/n", "", Mode::EphemeralSequential).await.unwrap();
    assert_eq!((path.as_str(), made.ephemeral_owner), ("/q/n0000000000", one.id()));
    one.close().await.unwrap();
    two.sync().await.unwrap();
    assert!(sorted_children(&two, "/q").await.is_empty());
}

async fn a_closed_session_leaves_none_of_its_ephemeral_nodes(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/a", "/b"]).await;
    for path in ["/a/x", "/a/y", "/b/x", "/top"] {
        one.create(path, "", Mode::Ephemeral).await.unwrap();
    }
    one.close().await.unwrap();
    two.sync().await.unwrap();
    assert_eq!(sorted_children(&two, "/").await, ["a", "b"]);
    assert!(sorted_children(&two, "/a").await.is_empty());
    assert!(sorted_children(&two, "/b").await.is_empty());
}

async fn a_closed_session_leaves_what_is_not_its_own(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    one.create("/mine", "", Mode::Persistent).await.unwrap();
    two.create("/theirs", "", Mode::Ephemeral).await.unwrap();
    one.close().await.unwrap();
    two.sync().await.unwrap();
    assert_eq!(sorted_children(&two, "/").await, ["mine", "theirs"]);
}

async fn a_dropped_session_gives_up_its_ephemeral_nodes(tree: &Tree) {
    let witness = tree.session().await;
    let dropped = tree.store(Limits::default()).session().await.unwrap();
    dropped.create("/e", "", Mode::Ephemeral).await.unwrap();
    witness.sync().await.unwrap();
    let (seen, watch) = witness.watch_exists("/e").await.unwrap();
    assert_eq!(seen.unwrap().ephemeral_owner, dropped.id());
    drop(dropped);
    assert_eq!(within(watch.woken()).await, Woken::Deleted);
}

async fn an_ephemeral_node_can_be_set_by_others_and_keeps_its_owner(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    one.create("/e", "", Mode::Ephemeral).await.unwrap();
    let set = two.set("/e", "two", 0).await.unwrap();
    assert_eq!((set.ephemeral_owner, set.version), (one.id(), 1));
    two.close().await.unwrap();
    one.sync().await.unwrap();
    assert_eq!(data(&one, "/e").await, "two");
}

async fn an_ephemeral_node_can_be_deleted_by_others(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    one.create("/e", "", Mode::Ephemeral).await.unwrap();
    two.delete("/e", 0).await.unwrap();
    one.sync().await.unwrap();
    assert!(!is_there(&one, "/e").await);
    one.close().await.unwrap();
}

async fn a_name_taken_over_by_another_session_stays_when_the_first_ends(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    one.create("/lock", "one", Mode::Ephemeral).await.unwrap();
    two.multi(vec![Op::delete("/lock", None), Op::ephemeral("/lock", "two")]).await.unwrap();
    one.close().await.unwrap();
    two.sync().await.unwrap();
    assert_eq!(stat(&two, "/lock").await.ephemeral_owner, two.id());
}

async fn a_name_taken_over_by_a_persistent_node_stays(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    one.create("/a", "", Mode::Ephemeral).await.unwrap();
    one.delete("/a", None).await.unwrap();
    make(&one, &["/a", "/a/child"]).await;
    one.close().await.unwrap();
    two.sync().await.unwrap();
    assert!(is_there(&two, "/a/child").await);
}

async fn an_ephemeral_node_made_again_ends_with_its_session(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    for _ in 0..3 {
        one.create("/e", "", Mode::Ephemeral).await.unwrap();
        one.delete("/e", 0).await.unwrap();
    }
    one.create("/e", "", Mode::Ephemeral).await.unwrap();
    one.close().await.unwrap();
    two.sync().await.unwrap();
    assert!(!is_there(&two, "/e").await);
}

async fn a_dir_of_ephemeral_nodes_can_be_deleted_when_they_are_gone(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&two, &["/dir"]).await;
    one.create("/dir/lock", "", Mode::Ephemeral).await.unwrap();
    refused(two.delete("/dir", None).await, Kind::NotEmpty, "/dir");
    one.close().await.unwrap();
    two.delete("/dir", None).await.unwrap();
}

async fn many_ephemeral_nodes_end_together(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/dir"]).await;
    let ops = (0..500).map(|n| Op::ephemeral(format!("/dir/{n}"), "")).collect();
    one.multi(ops).await.unwrap();
    let full = stat(&one, "/dir").await;
    assert_eq!(full.num_children, 500);
    one.close().await.unwrap();
    two.sync().await.unwrap();
    let empty = stat(&two, "/dir").await;
    assert_eq!((empty.num_children, empty.cversion), (0, 1000));
}

async fn an_ephemeral_node_keeps_others_out(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    one.create("/lock", "one", Mode::Ephemeral).await.unwrap();
    refused(two.create("/lock", "two", Mode::Ephemeral).await, Kind::NodeExists, "/lock");
    refused(one.create("/lock", "again", Mode::Ephemeral).await, Kind::NodeExists, "/lock");
    one.close().await.unwrap();
    two.create("/lock", "two", Mode::Ephemeral).await.expect("free once its owner has closed");
}
