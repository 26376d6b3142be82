//! Watches on a single path: they fire once, at the first change after the stat that came with them.

use ingest_store::{Mode, Op, Woken};

use crate::judge::{data, make, stat};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    a_watch_comes_with_the_stat_that_it_follows,
    a_watch_on_a_missing_node_fires_when_it_is_created,
    a_watch_on_a_node_fires_when_it_is_deleted,
    a_watch_on_a_node_fires_when_its_data_is_set,
    a_watch_does_not_fire_for_children,
    a_watch_does_not_fire_for_what_only_begins_alike,
    a_watch_does_not_fire_for_a_refused_write,
    a_watch_fires_once_for_the_first_of_many_changes,
    a_watch_fires_for_the_first_change_of_a_multi,
    a_watch_can_be_set_again_after_it_fired,
    a_watch_fires_for_the_writes_of_its_own_session,
    whoever_was_woken_reads_the_change,
    all_watches_on_a_path_fire,
    a_dropped_watch_leaves_the_others_on_its_path,
    a_watch_fires_when_an_ephemeral_node_ends,
    a_watch_below_a_missing_node_fires_when_it_is_there,
    a_watch_on_the_root_fires,
    many_watches_each_fire_for_their_own_path,
);

async fn a_watch_comes_with_the_stat_that_it_follows(tree: &Tree) {
    let session = tree.session().await;
    let (seen, _missing) = session.watch_exists("/a").await.unwrap();
    assert_eq!(seen, None);
    make(&session, &["/a"]).await;
    let (seen, _there) = session.watch_exists("/a").await.unwrap();
    assert_eq!(seen, Some(stat(&session, "/a").await));
}

async fn a_watch_on_a_missing_node_fires_when_it_is_created(tree: &Tree) {
    let (watcher, writer) = (tree.session().await, tree.session().await);
    let (_, watch) = watcher.watch_exists("/a").await.unwrap();
    make(&writer, &["/a"]).await;
    assert_eq!(within(watch.woken()).await, Woken::Created);
}

async fn a_watch_on_a_node_fires_when_it_is_deleted(tree: &Tree) {
    let (watcher, writer) = (tree.session().await, tree.session().await);
    make(&watcher, &["/a"]).await;
    let (_, watch) = watcher.watch_exists("/a").await.unwrap();
    writer.delete("/a", None).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Deleted);
}

async fn a_watch_on_a_node_fires_when_its_data_is_set(tree: &Tree) {
    let (watcher, writer) = (tree.session().await, tree.session().await);
    make(&watcher, &["/a"]).await;
    let (_, watch) = watcher.watch_exists("/a").await.unwrap();
    writer.set("/a", "x", None).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Changed);
}

async fn a_watch_does_not_fire_for_children(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let (_, watch) = session.watch_exists("/a").await.unwrap();
    make(&session, &["/a/x", "/a/x/y"]).await;
    session.set("/a/x", "data", None).await.unwrap();
    session.delete("/a/x/y", None).await.unwrap();
    session.delete("/a/x", None).await.unwrap();
    session.delete("/a", None).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Deleted);
}

async fn a_watch_does_not_fire_for_what_only_begins_alike(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let (_, watch) = session.watch_exists("/a").await.unwrap();
    make(&session, &["/ab"]).await;
    session.delete("/ab", None).await.unwrap();
    session.set("/a", "x", None).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Changed);
}

async fn a_watch_does_not_fire_for_a_refused_write(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let (_, watch) = session.watch_exists("/a").await.unwrap();
    session.set("/a", "x", 9).await.unwrap_err();
    session.multi(vec![Op::set("/a", "x", 0), Op::check("/none", None)]).await.unwrap_err();
    session.delete("/a", 0).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Deleted);
}

async fn a_watch_fires_once_for_the_first_of_many_changes(tree: &Tree) {
    let session = tree.session().await;
    let (_, watch) = session.watch_exists("/a").await.unwrap();
    make(&session, &["/a"]).await;
    session.set("/a", "x", None).await.unwrap();
    session.delete("/a", None).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Created);
}

async fn a_watch_fires_for_the_first_change_of_a_multi(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/a"]).await;
    let (_, watch) = session.watch_exists("/a").await.unwrap();
    session.multi(vec![Op::delete("/a", 0), Op::create("/a", "")]).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Deleted);
}

async fn a_watch_can_be_set_again_after_it_fired(tree: &Tree) {
    let (watcher, writer) = (tree.session().await, tree.session().await);
    for _ in 0..5 {
        let (seen, watch) = watcher.watch_exists("/a").await.unwrap();
        assert_eq!(seen, None);
        make(&writer, &["/a"]).await;
        assert_eq!(within(watch.woken()).await, Woken::Created);
        let (seen, watch) = watcher.watch_exists("/a").await.unwrap();
        assert!(seen.is_some());
        writer.delete("/a", None).await.unwrap();
        assert_eq!(within(watch.woken()).await, Woken::Deleted);
    }
}

async fn a_watch_fires_for_the_writes_of_its_own_session(tree: &Tree) {
    let session = tree.session().await;
    let (_, watch) = session.watch_exists("/e").await.unwrap();
    session.create("/e", "", Mode::Ephemeral).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Created);
}

async fn whoever_was_woken_reads_the_change(tree: &Tree) {
    let (watcher, writer) = (tree.session().await, tree.session().await);
    make(&watcher, &["/a"]).await;
    for n in 0..20 {
        let (_, watch) = watcher.watch_exists("/a").await.unwrap();
        let write = writer.set("/a", n.to_string(), n);
        let read = async {
            assert_eq!(within(watch.woken()).await, Woken::Changed);
            data(&watcher, "/a").await
        };
        let (written, read) = tokio::join!(write, read);
        written.unwrap();
        assert_eq!(read, n.to_string());
    }
}

async fn all_watches_on_a_path_fire(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    let (_, first) = one.watch_exists("/a").await.unwrap();
    let (_, second) = one.watch_exists("/a").await.unwrap();
    let (_, third) = two.watch_exists("/a").await.unwrap();
    make(&one, &["/a"]).await;
    for watch in [first, second, third] {
        assert_eq!(within(watch.woken()).await, Woken::Created);
    }
}

async fn a_dropped_watch_leaves_the_others_on_its_path(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    let (_, dropped) = one.watch_exists("/a").await.unwrap();
    let (_, kept) = one.watch_exists("/a").await.unwrap();
    let (_, elsewhere) = two.watch_exists("/a").await.unwrap();
    drop(dropped);
    one.sync().await.unwrap();
    make(&two, &["/a"]).await;
    for watch in [kept, elsewhere] {
        assert_eq!(within(watch.woken()).await, Woken::Created);
    }
}

async fn a_watch_fires_when_an_ephemeral_node_ends(tree: &Tree) {
    let (owner, watcher) = (tree.session().await, tree.session().await);
    owner.create("/e", "", Mode::Ephemeral).await.unwrap();
    watcher.sync().await.unwrap();
    let (seen, watch) = watcher.watch_exists("/e").await.unwrap();
    assert!(seen.is_some());
    owner.close().await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Deleted);
}

async fn a_watch_below_a_missing_node_fires_when_it_is_there(tree: &Tree) {
    let session = tree.session().await;
    let (seen, watch) = session.watch_exists("/a/b/c").await.unwrap();
    assert_eq!(seen, None);
    make(&session, &["/a", "/a/b", "/a/b/c"]).await;
    assert_eq!(within(watch.woken()).await, Woken::Created);
}

async fn a_watch_on_the_root_fires(tree: &Tree) {
    let session = tree.session().await;
    let (seen, watch) = session.watch_exists("/").await.unwrap();
    assert!(seen.is_some());
    make(&session, &["/a"]).await;
    session.set("/", "x", None).await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Changed);
}

async fn many_watches_each_fire_for_their_own_path(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/dir"]).await;
    let mut watches = Vec::new();
    for n in 0..200 {
        watches.push(session.watch_exists(format!("/dir/{n}")).await.unwrap().1);
    }
    let ops = (0..200).map(|n| Op::create(format!("/dir/{n}"), "")).collect();
    session.multi(ops).await.unwrap();
    for watch in watches {
        assert_eq!(within(watch.woken()).await, Woken::Created);
    }
}
