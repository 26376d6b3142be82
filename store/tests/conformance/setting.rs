//! Setting data: versions are the fence.

use ingest_store::{Kind, Mode, Op};

use crate::judge::{data, make, refused, sorted_children, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_set_replaces_the_data_and_gives_the_new_stat,
    a_set_at_the_version_read_succeeds,
    a_set_at_another_version_is_refused_and_changes_nothing,
    a_set_without_a_version_succeeds_at_any,
    a_missing_node_cannot_be_set,
    setting_the_same_data_is_a_set_all_the_same,
    data_can_be_made_empty,
    a_set_leaves_the_children_alone,
    a_set_is_refused_for_the_one_who_read_first_and_writes_last,
    a_version_below_zero_is_no_way_around_the_fence,
    the_stat_of_a_set_is_the_fence_of_the_next,
);

async fn a_set_replaces_the_data_and_gives_the_new_stat(tree: &Tree) {
    let session = tree.session().await;
    let (_, made) = session.create("/a", "first, and long", Mode::Persistent).await.unwrap();
    let set = session.set("/a", "second", 0).await.unwrap();
    assert_eq!(data(&session, "/a").await, "second");
    assert_eq!(stat(&session, "/a").await, set);
    assert_eq!((set.version, set.data_length, set.czxid), (1, 6, made.czxid));
    assert!(set.mzxid > made.mzxid && set.mtime >= made.mtime);
    assert_eq!(set.ctime, made.ctime);
}

async fn a_set_at_the_version_read_succeeds(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    session.set("/a", "1", None).await.unwrap();
    session.set("/a", "2", None).await.unwrap();
    let version = stat(&session, "/a").await.version;
    assert_eq!(version, 2);
    assert_eq!(session.set("/a", "3", version).await.unwrap().version, 3);
}

async fn a_set_at_another_version_is_refused_and_changes_nothing(tree: &Tree) {
    let session = tree.session().await;
    session.create("/a", "kept", Mode::Persistent).await.unwrap();
    session.set("/a", "kept too", 0).await.unwrap();
    let before = stat(&session, "/a").await;
    for version in [0, 2, i32::MAX] {
        refused(session.set("/a", "lost", version).await, Kind::BadVersion, "/a");
    }
    assert_eq!(data(&session, "/a").await, "kept too");
    assert_eq!(stat(&session, "/a").await, before);
}

async fn a_set_without_a_version_succeeds_at_any(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    for version in 1..=5 {
        assert_eq!(session.set("/a", "x", None).await.unwrap().version, version);
    }
}

async fn a_missing_node_cannot_be_set(tree: &Tree) {
    let session = tree.session().await;
    refused(session.set("/none", "", None).await, Kind::NoNode, "/none");
    refused(session.set("/none", "", 3).await, Kind::NoNode, "/none");
}

async fn setting_the_same_data_is_a_set_all_the_same(tree: &Tree) {
    let session = tree.session().await;
    let (_, made) = session.create("/a", "same", Mode::Persistent).await.unwrap();
    let set = session.set("/a", "same", 0).await.unwrap();
    assert_eq!(set.version, 1);
    assert!(set.mzxid > made.mzxid);
}

async fn data_can_be_made_empty(tree: &Tree) {
    let session = tree.session().await;
    session.create("/a", "something", Mode::Persistent).await.unwrap();
    assert_eq!(session.set("/a", "", 0).await.unwrap().data_length, 0);
    assert_eq!(data(&session, "/a").await, "");
}

async fn a_set_leaves_the_children_alone(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/x", "/a/y"]).await;
    let before = stat(&session, "/a").await;
    let after = session.set("/a", "data", None).await.unwrap();
    assert_eq!(sorted_children(&session, "/a").await, ["x", "y"]);
    assert_eq!(
        (after.cversion, after.pzxid, after.num_children),
        (before.cversion, before.pzxid, before.num_children)
    );
}

async fn a_set_is_refused_for_the_one_who_read_first_and_writes_last(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/a"]).await;
    two.sync().await.unwrap();
    let seen = [stat(&one, "/a").await.version, stat(&two, "/a").await.version];
    two.set("/a", "two", seen[1]).await.unwrap();
    refused(one.set("/a", "one", seen[0]).await, Kind::BadVersion, "/a");
    assert_eq!(data(&two, "/a").await, "two");
}

/// On the wire, -1 means any version; here that is said with `None`, and only so.
async fn a_version_below_zero_is_no_way_around_the_fence(tree: &Tree) {
    let session = tree.session().await;
    session.create("/a", "kept", Mode::Persistent).await.unwrap();
    for version in [-1, -2, i32::MIN] {
        let calls = [
            session.set("/a", "lost", version).await.map(drop),
            session.delete("/a", version).await,
            session.multi(vec![Op::check("/a", version)]).await.map(drop),
            session.multi(vec![Op::set("/a", "lost", version)]).await.map(drop),
            session.multi(vec![Op::delete("/a", version)]).await.map(drop),
        ];
        for (index, call) in calls.into_iter().enumerate() {
            let kind = call.expect_err(&format!("call {index} at version {version}")).kind();
            assert!(matches!(kind, Kind::BadVersion | Kind::BadArguments), "{kind:?}");
        }
    }
    assert_eq!(data(&session, "/a").await, "kept");
}

async fn the_stat_of_a_set_is_the_fence_of_the_next(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let mut version = 0;
    for n in 0..10 {
        version = session.set("/a", n.to_string(), version).await.unwrap().version;
    }
    assert_eq!(version, 10);
}
