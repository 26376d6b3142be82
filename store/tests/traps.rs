//! What a ZooKeeper server and its client do to the unprepared, each with what becomes of it here.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use ingest_harness::{Direction, Ensemble, Matcher, Proxy, RequestKind, Server, ServerConfig};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::error::Outcome;
use ingest_store::{Event, Kind, Limits, Missed, Mode, Op, OpResult, Session, SessionState, Store, Woken};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(3);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing happened for a long time")
}

fn store(connect: &str, timeout: Duration, limits: Limits) -> Store {
    let config = ZookeeperConfig { session_timeout: timeout, ..ZookeeperConfig::new(connect) };
    Store::new(Arc::new(Zookeeper::new(config).unwrap()), limits)
}

/// A session through a proxy, and one straight to the same tree.
async fn pair(timeout: Duration, limits: Limits) -> (Proxy, Session, Session) {
    let server = Server::shared().await;
    let proxy = Proxy::start(server.address());
    let chroot = ingest_harness::chroot();
    let proxied = store(&format!("{}{chroot}", proxy.connect_string()), timeout, limits);
    let direct = store(&format!("{}{chroot}", server.connect_string()), LONG, Limits::default());
    (proxy, proxied.session().await.unwrap(), direct.session().await.unwrap())
}

async fn becomes(session: &Session, state: SessionState) {
    let mut states = session.states();
    within(states.wait_for(|status| status.state == state)).await.unwrap();
}

/// No session of these ends by itself, however busy the machine is.
const LONG: Duration = Duration::from_mins(1);
/// So that the client soon misses a silent server.
const SHORT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_tree_watch_is_set_again_after_every_reconnect_and_says_so() {
    let (proxy, session, other) = pair(LONG, Limits::default()).await;
    session.create("/w", "", Mode::Persistent).await.unwrap();
    let mut watch = session.watch_tree("/w").await.unwrap();
    for round in 0..3 {
        proxy.drop_connections();
        assert_eq!(within(watch.next()).await, Event::Relist(Missed::Reconnected), "round {round}");
        other.create(format!("/w/{round}"), "", Mode::Persistent).await.unwrap();
        assert_eq!(within(watch.next()).await, Event::Created(format!("/w/{round}")), "round {round}");
        assert_eq!(within(watch.next()).await, Event::Children("/w".into()));
    }
}

#[tokio::test]
async fn every_return_to_connected_is_counted_as_a_new_connection() {
    let (proxy, session, _) = pair(LONG, Limits::default()).await;
    let mut states = session.states();
    let before = states.borrow_and_update().connections;
    proxy.drop_connections();
    within(states.wait_for(|s| s.state == SessionState::Connected && s.connections > before)).await.unwrap();
}

#[tokio::test]
async fn what_happened_while_the_link_was_cut_is_found_by_listing_after_the_relist_event() {
    let (proxy, session, other) = pair(LONG, Limits::default()).await;
    session.create("/w", "", Mode::Persistent).await.unwrap();
    let mut watch = session.watch_tree("/w").await.unwrap();
    proxy.cut();
    becomes(&session, SessionState::Suspended).await;
    other.create("/w/unseen", "", Mode::Persistent).await.unwrap();
    proxy.heal();
    assert_eq!(within(watch.next()).await, Event::Relist(Missed::Reconnected));
    assert_eq!(session.children("/w").await.unwrap().0, ["unseen"]);
}

#[tokio::test]
async fn a_watch_on_one_path_survives_a_reconnect_and_fires_for_what_it_missed() {
    let (proxy, session, other) = pair(LONG, Limits::default()).await;
    other.create("/lock", "", Mode::Ephemeral).await.unwrap();
    let (_, watch) = session.watch_exists("/lock").await.unwrap();
    proxy.cut();
    becomes(&session, SessionState::Suspended).await;
    other.delete("/lock", None).await.unwrap();
    proxy.heal();
    assert_eq!(within(watch.woken()).await, Woken::Deleted);
}

#[tokio::test]
async fn a_watch_on_one_path_does_not_replace_the_tree_watch_on_the_same_path() {
    let (_proxy, session, other) = pair(LONG, Limits::default()).await;
    session.create("/w", "", Mode::Persistent).await.unwrap();
    let mut tree = session.watch_tree("/w").await.unwrap();
    let (_, fired) = session.watch_exists("/w").await.unwrap();
    let (_, dropped) = session.watch_exists("/w").await.unwrap();
    drop(dropped);
    other.set("/w", "1", None).await.unwrap();
    assert_eq!(within(fired.woken()).await, Woken::Changed);
    assert_eq!(within(tree.next()).await, Event::Changed("/w".into()));
    other.set("/w", "2", None).await.unwrap();
    other.create("/w/child", "", Mode::Persistent).await.unwrap();
    assert_eq!(within(tree.next()).await, Event::Changed("/w".into()));
    assert_eq!(within(tree.next()).await, Event::Created("/w/child".into()));
}

#[tokio::test]
async fn giving_up_an_older_watch_on_the_root_of_a_tree_watch_does_not_end_it() {
    let (_proxy, session, other) = pair(LONG, Limits::default()).await;
    session.create("/w", "", Mode::Persistent).await.unwrap();
    let (_, older) = session.watch_exists("/w").await.unwrap();
    let mut tree = session.watch_tree("/w").await.unwrap();
    drop(older);
    for n in 0..3 {
        // An answered request is behind everything that giving up has sent.
        session.sync().await.unwrap();
        other.create(format!("/w/{n}"), "", Mode::Persistent).await.unwrap();
        assert_eq!(within(tree.next()).await, Event::Created(format!("/w/{n}")));
        assert_eq!(within(tree.next()).await, Event::Children("/w".into()));
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_means_perhaps() {
    let (proxy, session, other) = pair(LONG, Limits::default()).await;
    let lost = proxy.drop_reply(Matcher::kind(RequestKind::Multi));
    let error = within(session.multi(vec![Op::create("/made", "")])).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::ConnectionLoss, Outcome::Unknown));
    assert_eq!(within(lost.happened()).await.err, 0);
    assert!(other.exists("/made").await.unwrap().is_some(), "it was applied all the same");
}

#[tokio::test]
async fn a_request_that_was_lost_means_perhaps_too() {
    let (proxy, session, other) = pair(LONG, Limits::default()).await;
    let lost = proxy.drop_request(Matcher::kind(RequestKind::Multi));
    let error = within(session.multi(vec![Op::create("/made", "")])).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::ConnectionLoss, Outcome::Unknown));
    within(lost.happened()).await;
    assert!(other.exists("/made").await.unwrap().is_none(), "it was not");
}

#[tokio::test]
async fn a_link_that_is_open_but_silent_is_a_lost_connection() {
    let (proxy, session, _) = pair(SHORT, Limits::default()).await;
    proxy.stall(Direction::ToClient);
    let error = within(session.create("/a", "", Mode::Persistent)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::ConnectionLoss, Outcome::Unknown));
}

#[tokio::test]
async fn every_call_has_a_deadline_of_its_own() {
    let limits = Limits { deadline: Duration::from_millis(300), ..Limits::default() };
    let (proxy, session, _) = pair(LONG, limits).await;
    proxy.stall(Direction::ToClient);
    let error = within(session.create("/a", "", Mode::Persistent)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::Deadline, Outcome::Unknown));
}

#[tokio::test]
async fn a_call_while_disconnected_waits_unsent_and_says_so() {
    let limits = Limits { deadline: Duration::from_millis(300), ..Limits::default() };
    let (proxy, session, other) = pair(LONG, limits).await;
    proxy.cut();
    becomes(&session, SessionState::Suspended).await;
    let error = within(session.create("/late", "", Mode::Persistent)).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::Suspended, Outcome::NotApplied));
    proxy.heal();
    within(async { while session.exists("/").await.is_err() {} }).await;
    assert!(other.exists("/late").await.unwrap().is_none(), "what was refused is never sent");
}

#[tokio::test]
async fn a_call_that_waits_for_the_connection_goes_on_when_it_is_back() {
    let (proxy, session, _) = pair(LONG, Limits::default()).await;
    proxy.cut();
    becomes(&session, SessionState::Suspended).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.create("/a", "", Mode::Persistent).await }
    });
    proxy.heal();
    within(call).await.unwrap().unwrap();
}

#[tokio::test]
async fn requests_without_answers_are_bounded_whatever_their_callers_do() {
    let limits = Limits { deadline: Duration::from_millis(400), max_requests: 3, ..Limits::default() };
    let (proxy, session, _) = pair(LONG, limits).await;
    proxy.stall(Direction::ToClient);
    for n in 0..3 {
        // Sent and given up at once: its place stays taken, for it cannot be taken back.
        let mut call = Box::pin(session.create(format!("/n{n}"), "", Mode::Persistent));
        assert!(futures::poll!(&mut call).is_pending());
    }
    let error = within(session.exists("/")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (Kind::Busy, Outcome::NotApplied));
    proxy.heal();
    within(async { while session.exists("/n2").await.ok().flatten().is_none() {} }).await;
}

#[tokio::test]
async fn a_session_that_was_cut_off_too_long_is_refused_and_can_be_rebuilt() {
    let (proxy, session, other) = pair(LONG, Limits::default()).await;
    session.create("/lock", "", Mode::Ephemeral).await.unwrap();
    session.create("/fence", "", Mode::Persistent).await.unwrap();
    let (_, gone) = other.watch_exists("/lock").await.unwrap();
    let mut events = session.watch_tree("/").await.unwrap();
    let (_, single) = session.watch_exists("/lock").await.unwrap();
    proxy.cut();
    // As if its time had passed at the server.
    proxy.expire_session(session.id()).await;
    assert_eq!(within(gone.woken()).await, Woken::Deleted, "the server gives the lock away");
    // The client need not know yet; the fence holds whatever it believes.
    other.set("/fence", "taken", 0).await.unwrap();
    proxy.heal();
    becomes(&session, SessionState::Expired).await;
    let late = session.multi(vec![Op::set("/fence", "late", 0)]).await.unwrap_err();
    assert_eq!(late.kind(), Kind::Expired);
    // The watches of a dead session end, again and again, and never panic.
    loop {
        if let Event::Ended(state) = within(events.next()).await {
            assert_eq!(state, SessionState::Expired);
            break;
        }
    }
    assert_eq!(within(events.next()).await, Event::Ended(SessionState::Expired));
    assert!(matches!(within(single.woken()).await, Woken::Ended(SessionState::Expired)));
    let new = within(session.rebuild()).await.unwrap();
    assert_ne!(new.id(), session.id());
    new.create("/lock", "", Mode::Ephemeral).await.unwrap();
    assert_eq!(session.get("/fence").await.unwrap_err().kind(), Kind::Closed);
}

#[tokio::test]
async fn a_closed_session_is_gone_on_the_server_when_close_returns() {
    let (proxy, session, other) = pair(LONG, Limits::default()).await;
    session.create("/mine", "", Mode::Ephemeral).await.unwrap();
    let _watch = session.watch_tree("/").await.unwrap();
    within(session.close()).await.unwrap();
    assert!(other.exists("/mine").await.unwrap().is_none());
    assert_eq!(proxy.count(RequestKind::CloseSession), 1);
    assert_eq!(session.get("/").await.unwrap_err().kind(), Kind::Closed);
}

#[tokio::test]
async fn rebuilding_a_session_that_still_lives_ends_it_first() {
    let (_proxy, session, other) = pair(LONG, Limits::default()).await;
    session.create("/mine", "", Mode::Ephemeral).await.unwrap();
    let new = within(session.rebuild()).await.unwrap();
    assert!(other.exists("/mine").await.unwrap().is_none());
    assert_eq!(session.set("/", "", None).await.unwrap_err().kind(), Kind::Closed);
    new.create("/mine", "", Mode::Ephemeral).await.unwrap();
}

#[tokio::test]
async fn a_request_that_would_break_the_connection_is_never_sent() {
    let (proxy, session, _) = pair(LONG, Limits::default()).await;
    let before = session.states().borrow().connections;
    proxy.reset_counts();
    let error = session.create("/big", vec![0; 1_048_000], Mode::Persistent).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge);
    session.create("/big", vec![0; 1_030_000], Mode::Persistent).await.unwrap();
    assert_eq!(proxy.count(RequestKind::Create2), 1);
    assert_eq!(session.states().borrow().connections, before);
}

#[tokio::test]
async fn a_multi_tells_the_versions_that_are_true_and_no_others() {
    let (_proxy, session, _) = pair(LONG, Limits::default()).await;
    session.create("/a", "", Mode::Persistent).await.unwrap();
    let results = session.multi(vec![Op::create("/b", ""), Op::set("/a", "x", 0)]).await.unwrap();
    assert_eq!(results[0], OpResult::Created { path: "/b".into() });
    let OpResult::Set { stat } = results[1] else { panic!("{results:?}") };
    assert_eq!(stat, session.exists("/a").await.unwrap().unwrap());
}

#[tokio::test]
async fn concurrent_calls_share_the_round_trips() {
    let (proxy, session, _) = pair(LONG, Limits::default()).await;
    proxy.stall(Direction::ToClient);
    proxy.reset_counts();
    // While no answer comes back, all are sent.
    let calls = futures::future::try_join_all((0..50).map(|_| session.exists("/")));
    let all_sent = async {
        proxy.wait_for(RequestKind::Exists, 50).await;
        proxy.heal();
    };
    let (answers, ()) = tokio::join!(calls, all_sent);
    assert_eq!(answers.unwrap().len(), 50);
}

#[tokio::test]
async fn a_session_outlives_the_loss_of_the_leader_and_of_the_quorum() {
    let ensemble = Ensemble::start_with(3, ServerConfig::new()).await;
    let connect = format!("{}/app", ensemble.connect_string());
    let session = store(&connect, LONG, Limits::default()).session().await.unwrap();
    session.create("/a", "before", Mode::Persistent).await.unwrap();
    ensemble.kill_leader().await;
    within(async { while session.set("/a", "leader lost", None).await.is_err() {} }).await;
    ensemble.heal().await;
    ensemble.lose_quorum().await;
    becomes(&session, SessionState::Suspended).await;
    ensemble.heal().await;
    becomes(&session, SessionState::Connected).await;
    within(async { while session.set("/a", "healed", None).await.is_err() {} }).await;
    assert_eq!(&session.get("/a").await.unwrap().0[..], b"healed");
}
