//! Nodes with the parents that they lack.

use futures::future::join_all;
use ingest_store::{Kind, Mode};

use crate::judge::{data, is_there, make, refused, sorted_children, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    the_parents_of_a_node_are_made_empty_and_persistent,
    parents_that_are_there_are_left_as_they_are,
    a_node_with_all_its_parents_that_exists_is_refused,
    a_sequential_node_gets_its_parents,
    an_ephemeral_node_gets_persistent_parents,
    parents_cannot_be_made_below_an_ephemeral_node,
    dirs_are_made_with_their_parents_and_once,
    the_root_is_a_dir_already,
    a_malformed_dir_is_refused_and_nothing_is_made,
    sessions_that_race_for_the_same_dirs_all_have_them,
);

async fn the_parents_of_a_node_are_made_empty_and_persistent(tree: &Tree) {
    let session = tree.session().await;
    let (path, made) = session.create_with_parents("/a/b/c", "leaf", Mode::Persistent).await.unwrap();
    assert_eq!(path, "/a/b/c");
    assert_eq!(stat(&session, "/a/b/c").await, made);
    assert_eq!(data(&session, "/a/b/c").await, "leaf");
    for parent in ["/a", "/a/b"] {
        let (bytes, stat) = session.get(parent).await.unwrap();
        assert!(bytes.is_empty());
        assert_eq!((stat.ephemeral_owner, stat.num_children), (0, 1));
    }
}

async fn parents_that_are_there_are_left_as_they_are(tree: &Tree) {
    let session = tree.session().await;
    session.create("/a", "kept", Mode::Persistent).await.unwrap();
    session.create_with_parents("/a/b/c", "", Mode::Persistent).await.unwrap();
    let (bytes, stat) = session.get("/a").await.unwrap();
    assert_eq!((&bytes[..], stat.version), (&b"kept"[..], 0));
}

async fn a_node_with_all_its_parents_that_exists_is_refused(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b"]).await;
    let again = session.create_with_parents("/a/b", "new", Mode::Persistent).await;
    refused(again, Kind::NodeExists, "/a/b");
    assert_eq!(data(&session, "/a/b").await, "");
}

async fn a_sequential_node_gets_its_parents(tree: &Tree) {
    let session = tree.session().await;
    let (path, _) = session.create_with_parents("/q/jobs/jid", "", Mode::PersistentSequential).await.unwrap();
    assert_eq!(path, "/q/jobs/jid0000000000");
}

async fn an_ephemeral_node_gets_persistent_parents(tree: &Tree) {
    let session = tree.session().await;
    session.create_with_parents("/locks/one/lock", "", Mode::Ephemeral).await.unwrap();
    assert_eq!(stat(&session, "/locks/one/lock").await.ephemeral_owner, session.id());
    assert_eq!(stat(&session, "/locks/one").await.ephemeral_owner, 0);
}

async fn parents_cannot_be_made_below_an_ephemeral_node(tree: &Tree) {
    let session = tree.session().await;
    session.create("/e", "", Mode::Ephemeral).await.unwrap();
    let below = session.create_with_parents("/e/a/b", "", Mode::Persistent).await;
    refused(below, Kind::NoChildrenForEphemerals, "/e/a");
}

async fn dirs_are_made_with_their_parents_and_once(tree: &Tree) {
    let session = tree.session().await;
    session.make_dirs("/a/b/c").await.unwrap();
    let before = stat(&session, "/a/b/c").await;
    session.make_dirs("/a/b/c").await.unwrap();
    assert_eq!(stat(&session, "/a/b/c").await, before);
    session.make_dirs("/a/x").await.unwrap();
    assert_eq!(sorted_children(&session, "/a").await, ["b", "x"]);
}

async fn the_root_is_a_dir_already(tree: &Tree) {
    let session = tree.session().await;
    session.make_dirs("/").await.unwrap();
    assert!(sorted_children(&session, "/").await.is_empty());
}

async fn a_malformed_dir_is_refused_and_nothing_is_made(tree: &Tree) {
    let session = tree.session().await;
    refused(session.make_dirs("/a//b").await, Kind::BadArguments, "/a//b");
    assert!(!is_there(&session, "/a").await);
}

async fn sessions_that_race_for_the_same_dirs_all_have_them(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    let racers = (0..10).map(|n| if n % 2 == 0 { &one } else { &two });
    for made in join_all(racers.map(|session| session.make_dirs("/a/b/c/d"))).await {
        made.unwrap();
    }
    let stat = stat(&one, "/a/b/c").await;
    assert_eq!((stat.num_children, stat.cversion), (1, 1));
}
