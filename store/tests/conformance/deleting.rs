//! Deleting: only what is known, and only leaves.

use ingest_store::{Kind, Mode};

use crate::judge::{data, is_there, make, refused, sorted_children, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_deleted_node_is_gone,
    a_delete_at_the_version_read_succeeds,
    a_delete_at_another_version_is_refused,
    a_delete_without_a_version_succeeds_at_any,
    a_missing_node_cannot_be_deleted,
    a_node_with_children_cannot_be_deleted,
    a_node_can_be_deleted_after_its_children,
    a_wrong_version_is_found_before_children,
    a_missing_node_is_found_before_a_wrong_version,
    the_root_cannot_be_deleted,
    a_node_created_anew_remembers_nothing,
    a_lock_created_anew_has_version_zero_again,
    a_delete_leaves_what_only_begins_alike,
);

async fn a_deleted_node_is_gone(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b"]).await;
    session.delete("/a/b", None).await.unwrap();
    assert!(!is_there(&session, "/a/b").await);
    refused(session.get("/a/b").await, Kind::NoNode, "/a/b");
    assert!(sorted_children(&session, "/a").await.is_empty());
}

async fn a_delete_at_the_version_read_succeeds(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let version = session.set("/a", "x", 0).await.unwrap().version;
    session.delete("/a", version).await.unwrap();
    assert!(!is_there(&session, "/a").await);
}

async fn a_delete_at_another_version_is_refused(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    session.set("/a", "x", 0).await.unwrap();
    let before = stat(&session, "/a").await;
    for version in [0, 2] {
        refused(session.delete("/a", version).await, Kind::BadVersion, "/a");
    }
    assert_eq!(stat(&session, "/a").await, before);
}

async fn a_delete_without_a_version_succeeds_at_any(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    for _ in 0..3 {
        session.set("/a", "x", None).await.unwrap();
    }
    session.delete("/a", None).await.unwrap();
    assert!(!is_there(&session, "/a").await);
}

async fn a_missing_node_cannot_be_deleted(tree: &Tree) {
    let session = tree.session().await;
    refused(session.delete("/none", None).await, Kind::NoNode, "/none");
    refused(session.delete("/none/below", None).await, Kind::NoNode, "/none/below");
}

async fn a_node_with_children_cannot_be_deleted(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b"]).await;
    refused(session.delete("/a", None).await, Kind::NotEmpty, "/a");
    refused(session.delete("/a", 0).await, Kind::NotEmpty, "/a");
    assert!(is_there(&session, "/a/b").await);
}

async fn a_node_can_be_deleted_after_its_children(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b", "/a/c"]).await;
    for path in ["/a/b", "/a/c", "/a"] {
        session.delete(path, None).await.unwrap();
    }
    assert!(sorted_children(&session, "/").await.is_empty());
}

async fn a_wrong_version_is_found_before_children(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b"]).await;
    refused(session.delete("/a", 7).await, Kind::BadVersion, "/a");
}

async fn a_missing_node_is_found_before_a_wrong_version(tree: &Tree) {
    let session = tree.session().await;
    refused(session.delete("/none", 7).await, Kind::NoNode, "/none");
}

async fn the_root_cannot_be_deleted(tree: &Tree) {
    let session = tree.session().await;
    refused(session.delete("/", None).await, Kind::BadArguments, "/");
    assert!(is_there(&session, "/").await);
}

async fn a_node_created_anew_remembers_nothing(tree: &Tree) {
    let session = tree.session().await;
    let (_, first) = session.create("/a", "old", Mode::Persistent).await.unwrap();
    make(&session, &["/a/child"]).await;
    session.set("/a", "older", None).await.unwrap();
    session.delete("/a/child", None).await.unwrap();
    session.delete("/a", None).await.unwrap();
    let (_, second) = session.create("/a", "", Mode::Persistent).await.unwrap();
    assert!(second.czxid > first.czxid);
    assert_eq!((second.version, second.cversion, second.next_sequence()), (0, 0, 0));
    assert_eq!(data(&session, "/a").await, "");
}

/// Why a lock's version is no fence: its second owner has the same as the first.
async fn a_lock_created_anew_has_version_zero_again(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    let (_, first) = one.create("/lock", "one", Mode::Ephemeral).await.unwrap();
    one.delete("/lock", 0).await.unwrap();
    let (_, second) = two.create("/lock", "two", Mode::Ephemeral).await.unwrap();
    assert_eq!((first.version, second.version), (0, 0));
    assert!(second.czxid > first.czxid);
    one.delete("/lock", 0).await.expect("the version of the first owner fits the second's lock");
}

async fn a_delete_leaves_what_only_begins_alike(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/b", "/a/bc", "/a/b-"]).await;
    session.delete("/a/b", None).await.unwrap();
    assert_eq!(sorted_children(&session, "/a").await, ["b-", "bc"]);
}
