//! Sessions: their states, their ends, and the handles that outlive them.

use ingest_store::error::Next;
use ingest_store::{Kind, Mode, Op, SessionState, SessionStatus, Woken};

use crate::judge::{data, is_there, make, refused_at_all, stat};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(
    sessions_share_the_tree_and_nothing_else,
    a_new_session_is_connected_for_the_first_time,
    clones_of_a_handle_are_one_session,
    a_closed_session_says_so,
    a_closed_session_refuses_every_call,
    a_session_can_be_closed_twice,
    closing_one_session_leaves_the_others,
    an_expired_session_says_so,
    an_expired_session_refuses_every_call,
    an_expired_session_loses_its_ephemeral_nodes_and_others_are_told,
    when_a_session_says_expired_its_ephemeral_nodes_are_gone,
    what_an_expired_session_wrote_stays,
    a_rebuilt_session_is_another_one,
    the_old_handle_of_a_rebuilt_session_is_refused,
    a_rebuilt_session_has_none_of_the_old_ephemeral_nodes,
    an_expired_session_can_be_rebuilt,
    a_session_syncs,
);

async fn sessions_share_the_tree_and_nothing_else(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    assert_ne!(one.id(), two.id());
    assert_eq!(one.engine(), two.engine());
    one.create("/a", "shared", Mode::Persistent).await.unwrap();
    two.sync().await.unwrap();
    assert_eq!(data(&two, "/a").await, "shared");
}

async fn a_new_session_is_connected_for_the_first_time(tree: &Tree) {
    let session = tree.session().await;
    assert_eq!(session.state(), SessionState::Connected);
    let status = *session.states().borrow();
    assert_eq!(status, SessionStatus { state: SessionState::Connected, connections: 1 });
}

async fn clones_of_a_handle_are_one_session(tree: &Tree) {
    let session = tree.session().await;
    let clone = session.clone();
    assert_eq!(clone.id(), session.id());
    clone.create("/e", "", Mode::Ephemeral).await.unwrap();
    drop(clone);
    assert_eq!(stat(&session, "/e").await.ephemeral_owner, session.id());
}

async fn a_closed_session_says_so(tree: &Tree) {
    let session = tree.session().await;
    let mut states = session.states();
    session.close().await.unwrap();
    let last = *within(states.wait_for(|status| status.state.is_final())).await.unwrap();
    assert_eq!(last.state, SessionState::Closed);
    assert_eq!(session.state(), SessionState::Closed);
}

async fn a_closed_session_refuses_every_call(tree: &Tree) {
    let (session, witness) = (tree.session().await, tree.session().await);
    make(&session, &["/a"]).await;
    let clone = session.clone();
    session.close().await.unwrap();
    for handle in [&session, &clone] {
        refused_at_all(handle.get("/a").await, Kind::Closed);
        refused_at_all(handle.exists("/a").await, Kind::Closed);
        refused_at_all(handle.children("/a").await, Kind::Closed);
        refused_at_all(handle.create("/b", "", Mode::Persistent).await, Kind::Closed);
        refused_at_all(handle.set("/a", "late", None).await, Kind::Closed);
        refused_at_all(handle.delete("/a", None).await, Kind::Closed);
        refused_at_all(handle.multi(vec![Op::create("/b", "")]).await, Kind::Closed);
        refused_at_all(handle.sync().await, Kind::Closed);
        refused_at_all(handle.watch_exists("/a").await, Kind::Closed);
        let error = refused_at_all(handle.watch_tree("/a").await, Kind::Closed);
        assert_eq!(error.next(), Next::Rebuild);
    }
    assert_eq!(data(&witness, "/a").await, "");
    assert!(!is_there(&witness, "/b").await);
}

async fn a_session_can_be_closed_twice(tree: &Tree) {
    let session = tree.session().await;
    session.close().await.unwrap();
    within(session.close()).await.unwrap();
}

async fn closing_one_session_leaves_the_others(tree: &Tree) {
    let (one, two) = (tree.session().await, tree.session().await);
    two.create("/e", "", Mode::Ephemeral).await.unwrap();
    one.close().await.unwrap();
    assert_eq!(two.state(), SessionState::Connected);
    assert!(is_there(&two, "/e").await);
}

async fn an_expired_session_says_so(tree: &Tree) {
    let session = tree.mortal_session().await;
    let mut states = session.states();
    tree.expire(&session).await;
    let last = *within(states.wait_for(|status| status.state.is_final())).await.unwrap();
    assert_eq!(last.state, SessionState::Expired);
    assert_eq!(session.state(), SessionState::Expired);
}

async fn an_expired_session_refuses_every_call(tree: &Tree) {
    let (session, witness) = (tree.mortal_session().await, tree.session().await);
    make(&session, &["/a"]).await;
    tree.expire(&session).await;
    within(session.states().wait_for(|status| status.state.is_final())).await.unwrap();
    refused_at_all(session.get("/a").await, Kind::Expired);
    refused_at_all(session.exists("/a").await, Kind::Expired);
    refused_at_all(session.children("/a").await, Kind::Expired);
    refused_at_all(session.create("/b", "", Mode::Persistent).await, Kind::Expired);
    refused_at_all(session.set("/a", "late", None).await, Kind::Expired);
    refused_at_all(session.delete("/a", None).await, Kind::Expired);
    refused_at_all(session.multi(vec![Op::create("/b", "")]).await, Kind::Expired);
    refused_at_all(session.sync().await, Kind::Expired);
    refused_at_all(session.watch_exists("/a").await, Kind::Expired);
    let error = refused_at_all(session.watch_tree("/a").await, Kind::Expired);
    assert_eq!(error.next(), Next::Rebuild);
    assert_eq!(data(&witness, "/a").await, "");
    assert!(!is_there(&witness, "/b").await);
}

async fn an_expired_session_loses_its_ephemeral_nodes_and_others_are_told(tree: &Tree) {
    let (session, witness) = (tree.mortal_session().await, tree.session().await);
    session.create("/lock", "", Mode::Ephemeral).await.unwrap();
    witness.sync().await.unwrap();
    let (seen, watch) = witness.watch_exists("/lock").await.unwrap();
    assert_eq!(seen.unwrap().ephemeral_owner, session.id());
    tree.expire(&session).await;
    assert_eq!(within(watch.woken()).await, Woken::Deleted);
    assert!(!is_there(&witness, "/lock").await);
    witness.create("/lock", "mine", Mode::Ephemeral).await.unwrap();
}

async fn when_a_session_says_expired_its_ephemeral_nodes_are_gone(tree: &Tree) {
    let (session, witness) = (tree.mortal_session().await, tree.session().await);
    session.create("/lock", "", Mode::Ephemeral).await.unwrap();
    let mut states = session.states();
    let look = async {
        within(states.wait_for(|status| status.state == SessionState::Expired)).await.unwrap();
        is_there(&witness, "/lock").await
    };
    let ((), still_there) = tokio::join!(tree.expire(&session), look);
    assert!(!still_there);
}

async fn what_an_expired_session_wrote_stays(tree: &Tree) {
    let (session, witness) = (tree.mortal_session().await, tree.session().await);
    make(&session, &["/a"]).await;
    session.set("/a", "kept", 0).await.unwrap();
    tree.expire(&session).await;
    witness.sync().await.unwrap();
    assert_eq!(data(&witness, "/a").await, "kept");
}

async fn a_rebuilt_session_is_another_one(tree: &Tree) {
    let old = tree.session().await;
    make(&old, &["/a"]).await;
    let new = tree.keep(old.rebuild().await.unwrap());
    assert_ne!(new.id(), old.id());
    assert_eq!(new.engine(), old.engine());
    assert_eq!(old.state(), SessionState::Closed);
    assert_eq!(*new.states().borrow(), SessionStatus { state: SessionState::Connected, connections: 1 });
    new.set("/a", "new", 0).await.unwrap();
}

async fn the_old_handle_of_a_rebuilt_session_is_refused(tree: &Tree) {
    let old = tree.session().await;
    make(&old, &["/a"]).await;
    let clone = old.clone();
    let new = tree.keep(old.rebuild().await.unwrap());
    for handle in [&old, &clone] {
        let error = refused_at_all(handle.set("/a", "late", None).await, Kind::Closed);
        assert!(error.to_string().contains("replaced or closed"), "{error}");
        refused_at_all(handle.get("/a").await, Kind::Closed);
    }
    assert_eq!(stat(&new, "/a").await.version, 0);
}

async fn a_rebuilt_session_has_none_of_the_old_ephemeral_nodes(tree: &Tree) {
    let old = tree.session().await;
    old.create("/lock", "old", Mode::Ephemeral).await.unwrap();
    let new = tree.keep(old.rebuild().await.unwrap());
    let (_, made) = new.create("/lock", "new", Mode::Ephemeral).await.expect("the old lock is gone");
    assert_eq!(made.ephemeral_owner, new.id());
}

async fn an_expired_session_can_be_rebuilt(tree: &Tree) {
    let old = tree.mortal_session().await;
    old.create("/lock", "old", Mode::Ephemeral).await.unwrap();
    tree.expire(&old).await;
    within(old.states().wait_for(|status| status.state.is_final())).await.unwrap();
    let new = tree.keep(within(old.rebuild()).await.unwrap());
    assert_ne!(new.id(), old.id());
    new.create("/lock", "new", Mode::Ephemeral).await.unwrap();
    refused_at_all(old.get("/lock").await, Kind::Closed);
}

async fn a_session_syncs(tree: &Tree) {
    let session = tree.session().await;
    let before = stat(&session, "/").await;
    for _ in 0..3 {
        session.sync().await.unwrap();
    }
    assert_eq!(stat(&session, "/").await, before);
}
