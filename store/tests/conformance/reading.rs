//! Reading: data, stats and listings.

use ingest_store::{Kind, Mode, Op};

use crate::judge::{data, make, refused, sorted_children, stat};
use crate::tree::{Tree, on_both_engines};

on_both_engines!(
    a_node_reads_back_as_it_was_written,
    a_node_may_hold_any_bytes,
    empty_data_is_empty_and_not_missing,
    a_missing_node_cannot_be_read,
    a_missing_node_cannot_be_listed,
    a_missing_node_does_not_exist,
    nothing_exists_below_a_missing_node,
    all_reads_agree_on_the_stat,
    a_listing_has_the_names_of_the_children_only,
    a_listing_leaves_out_what_only_begins_alike,
    a_listing_has_every_name_around_the_separator,
    a_leaf_has_no_children,
    the_root_of_a_new_tree_is_there_and_empty,
    the_root_holds_data,
    an_answered_write_is_read_by_the_same_session,
    an_answered_write_is_read_by_another_session_after_sync,
    several_nodes_are_read_in_the_order_asked_for,
    a_missing_node_does_not_hide_the_others,
    reading_nothing_gives_nothing,
    several_nodes_are_read_at_one_moment,
    one_bad_path_refuses_the_whole_read,
);

async fn a_node_reads_back_as_it_was_written(tree: &Tree) {
    let session = tree.session().await;
    let (path, created) = session.create("/a", "hello", Mode::Persistent).await.unwrap();
    let (bytes, read) = session.get("/a").await.unwrap();
    assert_eq!((path.as_str(), &bytes[..]), ("/a", &b"hello"[..]));
    assert_eq!(read, created);
    assert_eq!(read.data_length, 5);
}

async fn a_node_may_hold_any_bytes(tree: &Tree) {
    let session = tree.session().await;
    let every = (0..=255).collect::<Vec<u8>>();
    session.create("/a", every.clone(), Mode::Persistent).await.unwrap();
    assert_eq!(session.get("/a").await.unwrap().0, every);
}

async fn empty_data_is_empty_and_not_missing(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let (bytes, stat) = session.get("/a").await.unwrap();
    assert!(bytes.is_empty());
    assert_eq!(stat.data_length, 0);
}

async fn a_missing_node_cannot_be_read(tree: &Tree) {
    let session = tree.session().await;
    refused(session.get("/none").await, Kind::NoNode, "/none");
}

async fn a_missing_node_cannot_be_listed(tree: &Tree) {
    let session = tree.session().await;
    refused(session.children("/none").await, Kind::NoNode, "/none");
}

async fn a_missing_node_does_not_exist(tree: &Tree) {
    let session = tree.session().await;
    assert_eq!(session.exists("/none").await.unwrap(), None);
}

async fn nothing_exists_below_a_missing_node(tree: &Tree) {
    let session = tree.session().await;
    assert_eq!(session.exists("/none/at/all").await.unwrap(), None);
    refused(session.get("/none/at/all").await, Kind::NoNode, "/none/at/all");
}

async fn all_reads_agree_on_the_stat(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/x", "/a/y"]).await;
    session.delete("/a/x", None).await.unwrap();
    let set = session.set("/a", "data", 0).await.unwrap();
    assert_eq!(session.get("/a").await.unwrap().1, set);
    assert_eq!(session.children("/a").await.unwrap().1, set);
    assert_eq!(stat(&session, "/a").await, set);
}

async fn a_listing_has_the_names_of_the_children_only(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/a/x", "/a/x/deep", "/a/y", "/b"]).await;
    assert_eq!(sorted_children(&session, "/a").await, ["x", "y"]);
    assert_eq!(sorted_children(&session, "/").await, ["a", "b"]);
}

async fn a_listing_leaves_out_what_only_begins_alike(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/ab", "/a-", "/a/x", "/ab/y", "/a-/z"]).await;
    assert_eq!(sorted_children(&session, "/a").await, ["x"]);
}

async fn a_listing_has_every_name_around_the_separator(tree: &Tree) {
    let session = tree.session().await;
    let names = [" ", "!", "-", ".hidden", "...", "0", ":", "a b", "~", "ÿ"];
    session.create("/a", "", Mode::Persistent).await.unwrap();
    for name in names {
        session.create(format!("/a/{name}"), "", Mode::Persistent).await.unwrap();
    }
    let mut expected = names.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(sorted_children(&session, "/a").await, expected);
}

async fn a_leaf_has_no_children(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let (names, stat) = session.children("/a").await.unwrap();
    assert!(names.is_empty());
    assert_eq!(stat.num_children, 0);
}

async fn the_root_of_a_new_tree_is_there_and_empty(tree: &Tree) {
    let session = tree.session().await;
    let (bytes, stat) = session.get("/").await.unwrap();
    assert!(bytes.is_empty());
    assert_eq!((stat.version, stat.cversion, stat.num_children), (0, 0, 0));
    assert!(sorted_children(&session, "/").await.is_empty());
}

async fn the_root_holds_data(tree: &Tree) {
    let session = tree.session().await;
    assert_eq!(session.set("/", "top", 0).await.unwrap().version, 1);
    assert_eq!(data(&session, "/").await, "top");
}

async fn an_answered_write_is_read_by_the_same_session(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    for n in 0..50 {
        session.set("/a", n.to_string(), n).await.unwrap();
        assert_eq!(data(&session, "/a").await, n.to_string());
    }
}

async fn an_answered_write_is_read_by_another_session_after_sync(tree: &Tree) {
    let (writer, reader) = (tree.session().await, tree.session().await);
    make(&writer, &["/a"]).await;
    for n in 0..20 {
        writer.set("/a", n.to_string(), None).await.unwrap();
        reader.sync().await.unwrap();
        assert_eq!(data(&reader, "/a").await, n.to_string());
    }
}

async fn several_nodes_are_read_in_the_order_asked_for(tree: &Tree) {
    let session = tree.session().await;
    for (path, data) in [("/a", "1"), ("/a/b", "2"), ("/c", "")] {
        session.create(path, data, Mode::Persistent).await.unwrap();
    }
    let paths = ["/c", "/a/b", "/", "/a/b", "/a"];
    let found = session.get_many(paths.map(str::to_owned).into()).await.unwrap();
    assert_eq!(found.len(), paths.len());
    for (path, found) in paths.iter().zip(found) {
        assert_eq!(found, Some(session.get(*path).await.unwrap()), "{path}");
    }
}

async fn a_missing_node_does_not_hide_the_others(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a", "/b"]).await;
    let paths = ["/none", "/a", "/a/none", "/b"].map(str::to_owned);
    let found = session.get_many(paths.into()).await.unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false, true]);
}

async fn reading_nothing_gives_nothing(tree: &Tree) {
    assert!(tree.session().await.get_many(Vec::new()).await.unwrap().is_empty());
}

async fn several_nodes_are_read_at_one_moment(tree: &Tree) {
    let (writer, reader) = (tree.session().await, tree.session().await);
    make(&writer, &["/a", "/b"]).await;
    let setting = async {
        for n in 0..100 {
            let both = ["/a", "/b"].map(|path| Op::set(path, n.to_string(), None));
            writer.multi(both.into()).await.unwrap();
        }
    };
    let reading = async {
        for _ in 0..100 {
            let found = reader.get_many(vec!["/a".into(), "/b".into()]).await.unwrap();
            let data = found.iter().flatten().map(|(data, _)| data).collect::<Vec<_>>();
            assert_eq!((data.len(), data[0]), (2, data[1]));
        }
    };
    futures::join!(setting, reading);
}

async fn one_bad_path_refuses_the_whole_read(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let answer = session.get_many(vec!["/a".into(), "no/slash".into()]).await;
    refused(answer, Kind::BadArguments, "no/slash");
}
