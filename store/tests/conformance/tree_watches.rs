//! Watches on a subtree: every change in it, in the order of the transactions.

use std::collections::BTreeSet;

use ingest_store::{Event, Limits, Missed, Mode, Op};

use crate::judge::{changed, children, created, data, deleted, expect_events, make, sorted_children};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    a_watcher_is_told_of_creates_sets_and_deletes,
    a_child_that_comes_or_goes_is_told_of_its_parent_too,
    a_watcher_is_told_of_its_root_itself,
    a_watcher_is_told_of_every_descendant,
    a_watcher_is_not_told_of_what_only_begins_like_its_root,
    a_watch_on_the_root_of_the_tree_tells_of_everything,
    a_subtree_can_be_watched_before_it_exists,
    a_subtree_deleted_and_made_anew_is_watched_still,
    events_of_a_multi_come_in_its_order,
    a_node_deleted_and_created_in_a_multi_tells_of_both,
    a_node_created_and_deleted_in_a_multi_tells_of_both,
    a_check_tells_nobody,
    events_of_several_writers_come_in_the_order_of_their_writes,
    whoever_has_an_event_reads_the_change,
    whoever_watches_first_and_lists_second_misses_nothing,
    the_end_of_a_session_is_told_by_its_ephemeral_nodes,
    a_watch_tells_only_of_what_comes_after_it,
    a_reader_that_is_too_slow_is_told_to_list_again,
    a_watch_knows_its_root,
    a_waiting_reader_that_gives_up_loses_no_event,
);

async fn a_watcher_is_told_of_creates_sets_and_deletes(tree: &Tree) {
    let (watcher, writer) = (tree.session().await, tree.session().await);
    make(&watcher, &["/w"]).await;
    let mut watch = watcher.watch_tree("/w").await.unwrap();
    writer.create("/w/a", "", Mode::Persistent).await.unwrap();
    writer.set("/w/a", "x", None).await.unwrap();
    writer.delete("/w/a", None).await.unwrap();
    let expected = [created("/w/a"), children("/w"), changed("/w/a"), deleted("/w/a"), children("/w")];
    expect_events(&mut watch, &expected).await;
    assert_eq!(watch.try_next(), None);
}

async fn a_child_that_comes_or_goes_is_told_of_its_parent_too(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/a"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    make(&session, &["/w/a/x"]).await;
    expect_events(&mut watch, &[created("/w/a/x"), children("/w/a")]).await;
    session.delete("/w/a/x", None).await.unwrap();
    expect_events(&mut watch, &[deleted("/w/a/x"), children("/w/a")]).await;
}

async fn a_watcher_is_told_of_its_root_itself(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    session.set("/w", "x", None).await.unwrap();
    session.delete("/w", None).await.unwrap();
    make(&session, &["/w"]).await;
    // No word of its parent, which lies outside.
    expect_events(&mut watch, &[changed("/w"), deleted("/w"), created("/w")]).await;
    session.set("/w", "last", None).await.unwrap();
    expect_events(&mut watch, &[changed("/w")]).await;
}

async fn a_watcher_is_told_of_every_descendant(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    make(&session, &["/w/a", "/w/a/b", "/w/a/b/c"]).await;
    session.set("/w/a/b/c", "deep", None).await.unwrap();
    let expected = [
        created("/w/a"),
        children("/w"),
        created("/w/a/b"),
        children("/w/a"),
        created("/w/a/b/c"),
        children("/w/a/b"),
        changed("/w/a/b/c"),
    ];
    expect_events(&mut watch, &expected).await;
}

async fn a_watcher_is_not_told_of_what_only_begins_like_its_root(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/x"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    make(&session, &["/w2", "/w2/a", "/w-", "/x/w"]).await;
    session.set("/w2", "x", None).await.unwrap();
    session.delete("/w-", None).await.unwrap();
    session.set("/", "x", None).await.unwrap();
    session.set("/w", "sentinel", None).await.unwrap();
    expect_events(&mut watch, &[changed("/w")]).await;
}

async fn a_watch_on_the_root_of_the_tree_tells_of_everything(tree: &Tree) {
    let session = tree.session().await;
    let mut watch = session.watch_tree("/").await.unwrap();
    make(&session, &["/a", "/a/b"]).await;
    session.set("/", "x", None).await.unwrap();
    let expected = [created("/a"), children("/"), created("/a/b"), children("/a"), changed("/")];
    expect_events(&mut watch, &expected).await;
}

async fn a_subtree_can_be_watched_before_it_exists(tree: &Tree) {
    let session = tree.session().await;
    let mut watch = session.watch_tree("/a/w").await.unwrap();
    make(&session, &["/a", "/a/w", "/a/w/x"]).await;
    expect_events(&mut watch, &[created("/a/w"), created("/a/w/x"), children("/a/w")]).await;
}

async fn a_subtree_deleted_and_made_anew_is_watched_still(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    for _ in 0..3 {
        session.delete("/w", None).await.unwrap();
        make(&session, &["/w", "/w/a"]).await;
        session.delete("/w/a", None).await.unwrap();
        let expected =
            [deleted("/w"), created("/w"), created("/w/a"), children("/w"), deleted("/w/a"), children("/w")];
        expect_events(&mut watch, &expected).await;
    }
}

async fn events_of_a_multi_come_in_its_order(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/z", "/w/status"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    let ops = vec![
        Op::create("/w/y", ""),
        Op::delete("/w/z", 0),
        Op::set("/w/status", "1", 0),
        Op::create("/w/a", ""),
        Op::set("/w/status", "2", 1),
    ];
    session.multi(ops).await.unwrap();
    let expected = [
        created("/w/y"),
        children("/w"),
        deleted("/w/z"),
        children("/w"),
        changed("/w/status"),
        created("/w/a"),
        children("/w"),
        changed("/w/status"),
    ];
    expect_events(&mut watch, &expected).await;
}

async fn a_node_deleted_and_created_in_a_multi_tells_of_both(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/a"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    session.multi(vec![Op::delete("/w/a", 0), Op::create("/w/a", "")]).await.unwrap();
    expect_events(&mut watch, &[deleted("/w/a"), children("/w"), created("/w/a"), children("/w")]).await;
}

async fn a_node_created_and_deleted_in_a_multi_tells_of_both(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    session.multi(vec![Op::ephemeral("/w/lock", ""), Op::delete("/w/lock", None)]).await.unwrap();
    let expected = [created("/w/lock"), children("/w"), deleted("/w/lock"), children("/w")];
    expect_events(&mut watch, &expected).await;
}

async fn a_check_tells_nobody(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    session.multi(vec![Op::check("/w", 0)]).await.unwrap();
    session.sync().await.unwrap();
    make(&session, &["/w/sentinel"]).await;
    expect_events(&mut watch, &[created("/w/sentinel")]).await;
}

async fn events_of_several_writers_come_in_the_order_of_their_writes(tree: &Tree) {
    let (watcher, one, two) = (tree.session().await, tree.session().await, tree.session().await);
    make(&watcher, &["/w"]).await;
    let mut watch = watcher.watch_tree("/w").await.unwrap();
    for n in 0..20 {
        let writer = if n % 2 == 0 { &one } else { &two };
        make(writer, &[&format!("/w/{n}")]).await;
    }
    for n in 0..20 {
        expect_events(&mut watch, &[created(&format!("/w/{n}")), children("/w")]).await;
    }
}

async fn whoever_has_an_event_reads_the_change(tree: &Tree) {
    let (watcher, writer) = (tree.session().await, tree.session().await);
    make(&watcher, &["/w"]).await;
    let mut watch = watcher.watch_tree("/w").await.unwrap();
    for n in 0..20 {
        let write = writer.set("/w", n.to_string(), n);
        let read = async {
            expect_events(&mut watch, &[changed("/w")]).await;
            data(&watcher, "/w").await
        };
        let (written, read) = tokio::join!(write, read);
        written.unwrap();
        assert_eq!(read, n.to_string());
    }
}

async fn whoever_watches_first_and_lists_second_misses_nothing(tree: &Tree) {
    let (watcher, writer) = (tree.session().await, tree.session().await);
    make(&watcher, &["/w"]).await;
    let write = async {
        for n in 0..200 {
            make(&writer, &[&format!("/w/{n}")]).await;
        }
    };
    let follow = async {
        let mut watch = watcher.watch_tree("/w").await.unwrap();
        let mut seen = watcher.children("/w").await.unwrap().0.into_iter().collect::<BTreeSet<_>>();
        while seen.len() < 200 {
            if let Event::Created(path) = within(watch.next()).await {
                seen.insert(path.trim_start_matches("/w/").to_owned());
            }
        }
        seen
    };
    let ((), seen) = tokio::join!(write, follow);
    assert_eq!(seen, (0..200).map(|n| n.to_string()).collect());
}

async fn the_end_of_a_session_is_told_by_its_ephemeral_nodes(tree: &Tree) {
    let (watcher, owner) = (tree.session().await, tree.session().await);
    make(&watcher, &["/w"]).await;
    owner.create("/w/one", "", Mode::Ephemeral).await.unwrap();
    owner.create("/w/two", "", Mode::Ephemeral).await.unwrap();
    watcher.sync().await.unwrap();
    let mut watch = watcher.watch_tree("/w").await.unwrap();
    owner.close().await.unwrap();
    let mut gone = BTreeSet::new();
    for _ in 0..2 {
        let Event::Deleted(path) = within(watch.next()).await else { panic!("not a delete") };
        gone.insert(path);
        expect_events(&mut watch, &[children("/w")]).await;
    }
    assert_eq!(gone, BTreeSet::from(["/w/one".to_owned(), "/w/two".to_owned()]));
    assert!(sorted_children(&watcher, "/w").await.is_empty());
}

async fn a_watch_tells_only_of_what_comes_after_it(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/before"]).await;
    session.set("/w/before", "x", None).await.unwrap();
    let mut watch = session.watch_tree("/w").await.unwrap();
    make(&session, &["/w/after"]).await;
    expect_events(&mut watch, &[created("/w/after")]).await;
}

async fn a_reader_that_is_too_slow_is_told_to_list_again(tree: &Tree) {
    let session = tree.session_with(Limits { watch_backlog: 8, ..Limits::default() }).await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    let relist = Event::Relist(Missed::Overflow);
    let mut n = 0;
    // Events may be late, so one burst need not be enough to overrun the reader.
    let told = 'told: loop {
        for _ in 0..50 {
            make(&session, &[&format!("/w/{n}")]).await;
            n += 1;
        }
        while let Some(event) = watch.try_next() {
            if event == relist {
                break 'told true;
            }
        }
        if n > 5000 {
            break false;
        }
    };
    assert!(told, "{n} events did not overrun a reader with room for 8");

    // The watch goes on: what happens next is told, perhaps after one more word to list again.
    make(&session, &["/w/sentinel"]).await;
    let listed = sorted_children(&session, "/w").await;
    assert_eq!(listed.len(), n + 1);
    session.set("/w/sentinel", "x", None).await.unwrap();
    while within(watch.next()).await != changed("/w/sentinel") {}
}

async fn a_watch_knows_its_root(tree: &Tree) {
    let session = tree.session().await;
    assert_eq!(session.watch_tree("/a/w").await.unwrap().root(), "/a/w");
    assert_eq!(session.watch_tree("/").await.unwrap().root(), "/");
}

async fn a_waiting_reader_that_gives_up_loses_no_event(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    for n in 0..20 {
        {
            let mut waiting = std::pin::pin!(watch.next());
            assert!(futures::poll!(waiting.as_mut()).is_pending());
        }
        session.set("/w", "", n).await.unwrap();
        expect_events(&mut watch, &[changed("/w")]).await;
    }
}
