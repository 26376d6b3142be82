//! Creating: fresh nodes, names given by the tree, and what is refused.

use ingest_store::{Kind, Mode, Stat};

use crate::judge::{data, is_there, make, refused, sorted_children, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_created_node_has_fresh_counters,
    a_node_that_exists_cannot_be_created_and_keeps_its_data,
    a_node_cannot_be_created_below_a_missing_one,
    a_missing_parent_is_found_before_anything_else,
    the_root_cannot_be_created,
    a_name_may_hold_any_letter,
    a_name_may_be_long_and_a_path_deep,
    a_character_beyond_the_basic_plane_is_refused,
    sequential_names_have_ten_digits,
    a_sequential_name_may_be_the_number_alone,
    a_sequential_create_gives_the_stat_of_the_node_it_made,
    a_sequential_create_needs_its_parent,
    all_sequential_children_share_one_counter,
    an_explicit_name_at_the_counter_is_fine,
    an_explicit_name_ahead_of_the_counter_blocks_it,
    each_parent_counts_for_itself,
);

async fn a_created_node_has_fresh_counters(tree: &Tree) {
    let session = tree.session().await;
    let (_, made) = session.create("/a", "data", Mode::Persistent).await.unwrap();
    assert!(made.czxid > 0 && made.ctime > 0);
    let fresh = Stat {
        czxid: made.czxid,
        mzxid: made.czxid,
        pzxid: made.czxid,
        ctime: made.ctime,
        mtime: made.ctime,
        data_length: 4,
        ..Stat::default()
    };
    assert_eq!(made, fresh);
}

async fn a_node_that_exists_cannot_be_created_and_keeps_its_data(tree: &Tree) {
    let session = tree.session().await;
    session.create("/a", "first", Mode::Persistent).await.unwrap();
    let before = stat(&session, "/a").await;
    for mode in [Mode::Persistent, Mode::Ephemeral] {
        refused(session.create("/a", "second", mode).await, Kind::NodeExists, "/a");
    }
    assert_eq!(data(&session, "/a").await, "first");
    assert_eq!(stat(&session, "/a").await, before);
}

async fn a_node_cannot_be_created_below_a_missing_one(tree: &Tree) {
    let session = tree.session().await;
    refused(session.create("/a/b", "", Mode::Persistent).await, Kind::NoNode, "/a/b");
    assert!(!is_there(&session, "/a").await);
}

async fn a_missing_parent_is_found_before_anything_else(tree: &Tree) {
    let session = tree.session().await;
    session.create("/e", "", Mode::Ephemeral).await.unwrap();
    // Its parent is missing, and its grandparent could not have a child.
    refused(session.create("/e/x/y", "", Mode::Persistent).await, Kind::NoNode, "/e/x/y");
}

async fn the_root_cannot_be_created(tree: &Tree) {
    let session = tree.session().await;
    refused(session.create("/", "", Mode::Persistent).await, Kind::BadArguments, "/");
    refused(session.create("/", "", Mode::PersistentSequential).await, Kind::BadArguments, "/");
}

async fn a_name_may_hold_any_letter(tree: &Tree) {
    let session = tree.session().await;
    let names = ["Grüße", "ark:12345", "данные", "名前", "مكتبة", "a b", "100%", "q?x=1&y", "\\n", "'\""];
    for name in names {
        let path = format!("/{name}");
        session.create(path.as_str(), name, Mode::Persistent).await.unwrap();
        assert_eq!(data(&session, &path).await, name);
    }
    let mut expected = names.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(sorted_children(&session, "/").await, expected);
}

async fn a_name_may_be_long_and_a_path_deep(tree: &Tree) {
    let session = tree.session().await;
    let mut path = String::new();
    for depth in 0..30 {
        path = format!("{path}/{}{depth}", "n".repeat(200));
        session.create(path.as_str(), "", Mode::Persistent).await.unwrap();
    }
    assert!(is_there(&session, &path).await);
}

/// The server sees such a character as two that it does not allow.
async fn a_character_beyond_the_basic_plane_is_refused(tree: &Tree) {
    let session = tree.session().await;
    refused(session.create("/😀", "", Mode::Persistent).await, Kind::BadArguments, "/😀");
    assert!(sorted_children(&session, "/").await.is_empty());
}

async fn sequential_names_have_ten_digits(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q"]).await;
    for expected in ["/q/jid0000000000", "/q/jid0000000001", "/q/jid0000000002"] {
        let (path, _) = session.create("/q/jid", "", Mode::PersistentSequential).await.unwrap();
        assert_eq!(path, expected);
    }
    let names = sorted_children(&session, "/q").await;
    assert_eq!(names, ["jid0000000000", "jid0000000001", "jid0000000002"]);
}

async fn a_sequential_name_may_be_the_number_alone(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q"]).await;
    let (path, _) = session.create("/q/", "x", Mode::PersistentSequential).await.unwrap();
    assert_eq!(path, "/q/0000000000");
    assert_eq!(data(&session, "/q/0000000000").await, "x");
}

async fn a_sequential_create_gives_the_stat_of_the_node_it_made(tree: &Tree) {
    let session = tree.session().await;
    let (path, made) = session.create("/n-", "data", Mode::PersistentSequential).await.unwrap();
    assert_eq!(stat(&session, &path).await, made);
    assert_eq!((made.version, made.data_length, made.ephemeral_owner), (0, 4, 0));
}

async fn a_sequential_create_needs_its_parent(tree: &Tree) {
    let session = tree.session().await;
    refused(session.create("/none/n-", "", Mode::PersistentSequential).await, Kind::NoNode, "/none/n-");
}

async fn all_sequential_children_share_one_counter(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q"]).await;
    let mut made = Vec::new();
    for (prefix, mode) in [
        ("/q/a", Mode::PersistentSequential),
        ("/q/b", Mode::EphemeralSequential),
        ("/q/a", Mode::PersistentSequential),
    ] {
        made.push(session.create(prefix, "", mode).await.unwrap().0);
    }
    assert_eq!(made, ["/q/a0000000000", "/q/b0000000001", "/q/a0000000002"]);
}

async fn an_explicit_name_at_the_counter_is_fine(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q", "/q/n0000000000"]).await;
    let (path, _) = session.create("/q/n", "", Mode::PersistentSequential).await.unwrap();
    assert_eq!(path, "/q/n0000000001");
}

async fn an_explicit_name_ahead_of_the_counter_blocks_it(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/q", "/q/n0000000002"]).await;
    let (path, _) = session.create("/q/n", "", Mode::PersistentSequential).await.unwrap();
    assert_eq!(path, "/q/n0000000001");
    // A refused create does not move the counter, so the second try meets the same name.
    for _ in 0..2 {
        refused(session.create("/q/n", "", Mode::PersistentSequential).await, Kind::NodeExists, "/q/n");
    }
    let (path, _) = session.create("/q/m", "", Mode::PersistentSequential).await.unwrap();
    assert_eq!(path, "/q/m0000000002");
    let (path, _) = session.create("/q/n", "", Mode::PersistentSequential).await.unwrap();
    assert_eq!(path, "/q/n0000000003");
}

async fn each_parent_counts_for_itself(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/p", "/q"]).await;
    for parent in ["/p", "/q", "/p", "/q"] {
        session.create(format!("{parent}/n"), "", Mode::PersistentSequential).await.unwrap();
    }
    for parent in ["/p", "/q"] {
        assert_eq!(sorted_children(&session, parent).await, ["n0000000000", "n0000000001"]);
    }
}
