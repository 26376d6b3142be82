//! The end of a session, as its watches tell it.

use ingest_store::{Event, Missed, SessionState, TreeWatch, Woken};

use crate::judge::{changed, created, expect_events, make};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    the_watch_of_a_closed_session_says_so_for_ever,
    the_watch_of_an_expired_session_says_so_for_ever,
    a_single_watch_of_a_closed_session_says_so,
    a_single_watch_of_an_expired_session_says_so,
    a_single_watch_on_a_watched_root_says_that_its_session_is_over,
    the_watches_of_a_rebuilt_session_end,
    what_happened_before_the_end_is_told_before_it,
    open_watches_do_not_keep_a_session_from_closing,
    the_end_of_one_session_leaves_the_watches_of_another,
    a_closed_session_hears_nothing_more,
);

const CLOSED: Event = Event::Ended(SessionState::Closed);
const EXPIRED: Event = Event::Ended(SessionState::Expired);

/// The next event that counts: a session may be connected again before it is told of its expiry.
async fn end(watch: &mut TreeWatch) -> Event {
    loop {
        match within(watch.next()).await {
            Event::Relist(Missed::Reconnected) => {}
            event => return event,
        }
    }
}

async fn the_watch_of_a_closed_session_says_so_for_ever(tree: &Tree) {
    let session = tree.session().await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    session.close().await.unwrap();
    expect_events(&mut watch, &[CLOSED, CLOSED, CLOSED]).await;
    assert_eq!(watch.try_next(), Some(CLOSED));
}

async fn the_watch_of_an_expired_session_says_so_for_ever(tree: &Tree) {
    let session = tree.mortal_session().await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    tree.expire(&session).await;
    assert_eq!(end(&mut watch).await, EXPIRED);
    expect_events(&mut watch, &[EXPIRED, EXPIRED]).await;
    assert_eq!(watch.try_next(), Some(EXPIRED));
}

async fn a_single_watch_of_a_closed_session_says_so(tree: &Tree) {
    let session = tree.session().await;
    let (_, watch) = session.watch_exists("/a").await.unwrap();
    session.close().await.unwrap();
    assert_eq!(within(watch.woken()).await, Woken::Ended(SessionState::Closed));
}

async fn a_single_watch_of_an_expired_session_says_so(tree: &Tree) {
    let session = tree.mortal_session().await;
    let (_, watch) = session.watch_exists("/a").await.unwrap();
    tree.expire(&session).await;
    assert_eq!(within(watch.woken()).await, Woken::Ended(SessionState::Expired));
}

async fn a_single_watch_on_a_watched_root_says_that_its_session_is_over(tree: &Tree) {
    for (expire, state) in [(false, SessionState::Closed), (true, SessionState::Expired)] {
        let session = tree.mortal_session().await;
        let _watch = session.watch_tree("/w").await.unwrap();
        let (_, single) = session.watch_exists("/w").await.unwrap();
        if expire {
            tree.expire(&session).await;
        } else {
            session.close().await.unwrap();
        }
        assert_eq!(within(single.woken()).await, Woken::Ended(state));
    }
}

async fn the_watches_of_a_rebuilt_session_end(tree: &Tree) {
    let old = tree.session().await;
    let mut watch = old.watch_tree("/w").await.unwrap();
    let (_, single) = old.watch_exists("/a").await.unwrap();
    let new = tree.keep(old.rebuild().await.unwrap());
    make(&new, &["/a", "/w"]).await;
    expect_events(&mut watch, &[CLOSED]).await;
    assert_eq!(within(single.woken()).await, Woken::Ended(SessionState::Closed));
}

async fn what_happened_before_the_end_is_told_before_it(tree: &Tree) {
    let session = tree.session().await;
    let mut watch = session.watch_tree("/w").await.unwrap();
    make(&session, &["/w"]).await;
    session.set("/w", "x", 0).await.unwrap();
    session.close().await.unwrap();
    expect_events(&mut watch, &[created("/w"), changed("/w"), CLOSED]).await;
}

async fn open_watches_do_not_keep_a_session_from_closing(tree: &Tree) {
    let session = tree.session().await;
    make(&session, &["/w"]).await;
    let _trees = (session.watch_tree("/w").await.unwrap(), session.watch_tree("/").await.unwrap());
    let _singles = (
        session.watch_exists("/w").await.unwrap(),
        session.watch_exists("/w/a").await.unwrap(),
        session.watch_exists("/none").await.unwrap(),
    );
    within(session.close()).await.unwrap();
    assert_eq!(session.state(), SessionState::Closed);
}

async fn the_end_of_one_session_leaves_the_watches_of_another(tree: &Tree) {
    let (expiring, closing, living) =
        (tree.mortal_session().await, tree.session().await, tree.session().await);
    make(&living, &["/w"]).await;
    let mut ending = expiring.watch_tree("/w").await.unwrap();
    let _closed = closing.watch_tree("/w").await.unwrap();
    let mut watch = living.watch_tree("/w").await.unwrap();
    let (_, single) = living.watch_exists("/w").await.unwrap();
    tree.expire(&expiring).await;
    closing.close().await.unwrap();
    assert_eq!(end(&mut ending).await, EXPIRED);
    living.set("/w", "x", 0).await.unwrap();
    expect_events(&mut watch, &[changed("/w")]).await;
    assert_eq!(within(single.woken()).await, Woken::Changed);
}

async fn a_closed_session_hears_nothing_more(tree: &Tree) {
    let (session, writer) = (tree.session().await, tree.session().await);
    let mut watch = session.watch_tree("/w").await.unwrap();
    session.close().await.unwrap();
    make(&writer, &["/w"]).await;
    expect_events(&mut watch, &[CLOSED, CLOSED]).await;
}
