//! Several watches on the same paths: none takes another's place, and none takes another with it.
//!
//! A server keeps one watch per connection and path, so this is where an engine has to work.

use ingest_store::{Op, Woken};

use crate::judge::{changed, children, created, deleted, expect_events, make};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    all_watchers_of_a_subtree_are_told,
    a_dropped_watch_leaves_the_others_on_its_subtree,
    a_subtree_can_be_watched_again_after_a_dropped_watch,
    watchers_of_a_subtree_inside_another_are_both_told,
    a_dropped_outer_watch_leaves_the_inner_one,
    a_dropped_inner_watch_leaves_the_outer_one,
    a_single_watch_on_the_root_of_a_subtree_leaves_its_watch,
    a_single_watch_on_a_missing_root_leaves_the_watch_of_the_subtree,
    a_dropped_single_watch_on_the_root_of_a_subtree_leaves_its_watch,
    a_single_watch_set_before_that_of_the_subtree_leaves_it,
    a_dropped_single_watch_set_before_that_of_the_subtree_leaves_it,
    a_single_watch_outlives_the_watch_of_the_subtree,
    a_single_watch_set_first_outlives_the_watch_of_the_subtree,
    a_single_watch_inside_a_subtree_leaves_its_watch,
    a_dropped_single_watch_inside_a_subtree_leaves_its_watch,
    a_single_watch_dropped_just_before_a_subtree_is_watched_does_no_harm,
    a_subtree_watch_dropped_just_before_a_single_one_does_no_harm,
    watches_of_both_kinds_set_at_the_same_time_all_work,
);

async fn all_watchers_of_a_subtree_are_told(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    make(&one, &["/w"]).await;
    two.sync().await.unwrap();
    let mut watches = [
        one.watch_tree("/w").await.unwrap(),
        one.watch_tree("/w").await.unwrap(),
        two.watch_tree("/w").await.unwrap(),
    ];
    one.multi(vec![Op::create("/w/a", ""), Op::set("/w", "x", 0)]).await.unwrap();
    for watch in &mut watches {
        expect_events(watch, &[created("/w/a"), children("/w"), changed("/w")]).await;
        assert_eq!(watch.try_next(), None);
    }
}

async fn a_dropped_watch_leaves_the_others_on_its_subtree(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let dropped = session.watch_tree("/w").await.unwrap();
    let mut kept = session.watch_tree("/w").await.unwrap();
    drop(dropped);
    session.sync().await.unwrap();
    make(&session, &["/w/a"]).await;
    expect_events(&mut kept, &[created("/w/a"), children("/w")]).await;
}

async fn a_subtree_can_be_watched_again_after_a_dropped_watch(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    for n in 0..20 {
        let mut watch = session.watch_tree("/w").await.unwrap();
        session.set("/w", "", n).await.unwrap();
        expect_events(&mut watch, &[changed("/w")]).await;
    }
}

async fn watchers_of_a_subtree_inside_another_are_both_told(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/in"]).await;
    let mut outer = session.watch_tree("/w").await.unwrap();
    let mut inner = session.watch_tree("/w/in").await.unwrap();
    make(&session, &["/w/in/a"]).await;
    session.delete("/w/in/a", None).await.unwrap();
    session.delete("/w/in", None).await.unwrap();
    let common = [created("/w/in/a"), children("/w/in"), deleted("/w/in/a"), children("/w/in")];
    for watch in [&mut outer, &mut inner] {
        expect_events(watch, &common).await;
        expect_events(watch, &[deleted("/w/in")]).await;
    }
    expect_events(&mut outer, &[children("/w")]).await;
    assert_eq!(inner.try_next(), None);
}

async fn a_dropped_outer_watch_leaves_the_inner_one(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/in"]).await;
    let outer = session.watch_tree("/w").await.unwrap();
    let mut inner = session.watch_tree("/w/in").await.unwrap();
    drop(outer);
    session.sync().await.unwrap();
    for n in 0..3 {
        session.set("/w/in", "", n).await.unwrap();
        expect_events(&mut inner, &[changed("/w/in")]).await;
    }
}

async fn a_dropped_inner_watch_leaves_the_outer_one(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/in"]).await;
    let mut outer = session.watch_tree("/w").await.unwrap();
    let inner = session.watch_tree("/w/in").await.unwrap();
    drop(inner);
    session.sync().await.unwrap();
    for n in 0..3 {
        session.set("/w/in", "", n).await.unwrap();
        expect_events(&mut outer, &[changed("/w/in")]).await;
    }
}

async fn a_single_watch_on_the_root_of_a_subtree_leaves_its_watch(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    for n in 0..3 {
        let (seen, single) = session.watch_exists("/w").await.unwrap();
        assert_eq!(seen.unwrap().version, n);
        session.set("/w", "", n).await.unwrap();
        assert_eq!(within(single.woken()).await, Woken::Changed);
        expect_events(&mut watch, &[changed("/w")]).await;
    }
    make(&session, &["/w/a"]).await;
    expect_events(&mut watch, &[created("/w/a"), children("/w")]).await;
}

async fn a_single_watch_on_a_missing_root_leaves_the_watch_of_the_subtree(tree: &Tree) {
    let session = tree.session().await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    let (seen, single) = session.watch_exists("/w").await.unwrap();
    assert_eq!(seen, None);
    make(&session, &["/w"]).await;
    assert_eq!(within(single.woken()).await, Woken::Created);
    let (_, single) = session.watch_exists("/w").await.unwrap();
    session.delete("/w", None).await.unwrap();
    assert_eq!(within(single.woken()).await, Woken::Deleted);
    make(&session, &["/w", "/w/a"]).await;
    let expected = [created("/w"), deleted("/w"), created("/w"), created("/w/a"), children("/w")];
    expect_events(&mut watch, &expected).await;
}

async fn a_dropped_single_watch_on_the_root_of_a_subtree_leaves_its_watch(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    let (_, single) = session.watch_exists("/w").await.unwrap();
    drop(single);
    session.sync().await.unwrap();
    session.set("/w", "", 0).await.unwrap();
    make(&session, &["/w/a", "/w/b"]).await;
    let expected = [changed("/w"), created("/w/a"), children("/w"), created("/w/b"), children("/w")];
    expect_events(&mut watch, &expected).await;
}

async fn a_single_watch_set_before_that_of_the_subtree_leaves_it(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let (_, single) = session.watch_exists("/w").await.unwrap();
    let mut watch = session.watch_tree("/w").await.unwrap();
    session.set("/w", "", 0).await.unwrap();
    assert_eq!(within(single.woken()).await, Woken::Changed);
    make(&session, &["/w/a"]).await;
    session.set("/w", "", 1).await.unwrap();
    expect_events(&mut watch, &[changed("/w"), created("/w/a"), children("/w"), changed("/w")]).await;
}

async fn a_dropped_single_watch_set_before_that_of_the_subtree_leaves_it(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let (_, single) = session.watch_exists("/w").await.unwrap();
    let mut watch = session.watch_tree("/w").await.unwrap();
    drop(single);
    session.sync().await.unwrap();
    make(&session, &["/w/a"]).await;
    session.set("/w", "", 0).await.unwrap();
    session.set("/w", "", 1).await.unwrap();
    expect_events(&mut watch, &[created("/w/a"), children("/w"), changed("/w"), changed("/w")]).await;
}

async fn a_single_watch_outlives_the_watch_of_the_subtree(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let watch = session.watch_tree("/w").await.unwrap();
    let (_, single) = session.watch_exists("/w").await.unwrap();
    drop(watch);
    session.sync().await.unwrap();
    make(&session, &["/w/a"]).await;
    session.set("/w", "", 0).await.unwrap();
    assert_eq!(within(single.woken()).await, Woken::Changed);
}

async fn a_single_watch_set_first_outlives_the_watch_of_the_subtree(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let (_, single) = session.watch_exists("/w").await.unwrap();
    let watch = session.watch_tree("/w").await.unwrap();
    drop(watch);
    session.sync().await.unwrap();
    make(&session, &["/w/a"]).await;
    session.set("/w", "", 0).await.unwrap();
    assert_eq!(within(single.woken()).await, Woken::Changed);
}

async fn a_single_watch_inside_a_subtree_leaves_its_watch(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/a"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    let (_, single) = session.watch_exists("/w/a").await.unwrap();
    session.set("/w/a", "", 0).await.unwrap();
    assert_eq!(within(single.woken()).await, Woken::Changed);
    session.set("/w/a", "", 1).await.unwrap();
    session.delete("/w/a", None).await.unwrap();
    let expected = [changed("/w/a"), changed("/w/a"), deleted("/w/a"), children("/w")];
    expect_events(&mut watch, &expected).await;
}

async fn a_dropped_single_watch_inside_a_subtree_leaves_its_watch(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w", "/w/a"]).await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    let (_, single) = session.watch_exists("/w/a").await.unwrap();
    drop(single);
    session.sync().await.unwrap();
    session.set("/w/a", "", 0).await.unwrap();
    session.set("/w/a", "", 1).await.unwrap();
    expect_events(&mut watch, &[changed("/w/a"), changed("/w/a")]).await;
}

async fn a_single_watch_dropped_just_before_a_subtree_is_watched_does_no_harm(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    for n in 0..20 {
        let (_, single) = session.watch_exists("/w").await.unwrap();
        drop(single);
        let mut watch = session.watch_tree("/w").await.unwrap();
        session.set("/w", "", 2 * n).await.unwrap();
        session.set("/w", "", 2 * n + 1).await.unwrap();
        expect_events(&mut watch, &[changed("/w"), changed("/w")]).await;
    }
}

async fn a_subtree_watch_dropped_just_before_a_single_one_does_no_harm(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    for n in 0..20 {
        drop(session.watch_tree("/w").await.unwrap());
        let (_, single) = session.watch_exists("/w").await.unwrap();
        session.set("/w", "", n).await.unwrap();
        assert_eq!(within(single.woken()).await, Woken::Changed);
    }
}

async fn watches_of_both_kinds_set_at_the_same_time_all_work(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    for n in 0..10 {
        let (first, watch, second) =
            tokio::join!(session.watch_exists("/w"), session.watch_tree("/w"), session.watch_exists("/w"),);
        let mut watch = watch.unwrap();
        session.set("/w", "", 2 * n).await.unwrap();
        for single in [first.unwrap().1, second.unwrap().1] {
            assert_eq!(within(single.woken()).await, Woken::Changed);
        }
        session.set("/w", "", 2 * n + 1).await.unwrap();
        expect_events(&mut watch, &[changed("/w"), changed("/w")]).await;
    }
}
