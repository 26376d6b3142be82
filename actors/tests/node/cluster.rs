//! What nodes know of each other, and what one of them does for all.
//!
//! The invariant: at most one node leads an election, and one does as long as any node lives; a routine is run by one node at
//! a time.

use std::time::Duration;

use ingest_actors::node::upkeep::Known;
use ingest_actors::node::{Ran, Routine};
use ingest_actors::stats::Stats;
use ingest_harness::{FileServer, Matcher, RequestKind, eventually};
use ingest_queue::map;
use ingest_queue::states::BatchState;
use ingest_store::faults::Fault;
use ingest_store::{Mode, path};

use crate::kit::{self, On, Place};

/// The nodes that say that they lead an election.
async fn leaders(queue: &ingest_queue::queue::Queue, name: &str) -> Vec<String> {
    let all = kit::components(queue).await;
    all.into_iter().filter(|one| one.leads.iter().any(|leads| leads == name)).map(|one| one.node).collect()
}

async fn leads(queue: &ingest_queue::queue::Queue, name: &str, node: &str) {
    eventually(&format!("{node} to lead {name}"), kit::PATIENCE, || async {
        // The first node to come makes the directory.
        queue.session().exists(map::NODES).await.ok()??;
        (leaders(queue, name).await == [node]).then_some(())
    })
    .await;
}

async fn one_node_leads_and_the_next_follows(on: On) {
    let place = Place::new(on).await;
    let queue = place.queue().await;
    let first = place.node("node-1").await;
    for election in ["timer", "stats"] {
        leads(&queue, election, "node-1").await;
    }
    let second = place.node("node-2").await;
    assert_eq!(leaders(&queue, "timer").await, ["node-1"]);
    // A node that drains stands down.
    kit::drained(first).await;
    leads(&queue, "timer", "node-2").await;
    leads(&queue, "stats", "node-2").await;
    kit::clean(&queue).await;
    kit::drained(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_leads_and_the_next_follows_embedded() {
    one_node_leads_and_the_next_follows(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_leads_and_the_next_follows_zookeeper() {
    one_node_leads_and_the_next_follows(On::Zookeeper).await;
}

/// What holds: a node that lives is registered once, and what it says of itself comes to be true, whichever answer is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_registered_once_though_answers_are_lost() {
    let (place, proxy) = Place::behind_a_proxy().await;
    let queue = place.queue().await;
    let own = format!("{}/node-1-", map::NODES);
    let registered = proxy.drop_reply(Matcher::path(own.as_str()));
    let node = place.node("node-1").await;
    assert_eq!(registered.happened().await.err, 0, "the server has made it");
    let all = kit::components(&queue).await;
    assert_eq!(all.iter().map(|one| one.state.as_str()).collect::<Vec<_>>(), ["running"], "{all:?}");
    let written = proxy.drop_reply(Matcher::kind(RequestKind::SetData).with_path(own));
    assert_eq!(node.pause().await, Some(true));
    written.happened().await;
    eventually("it says that it is paused", kit::PATIENCE, || async {
        let all = kit::components(&queue).await;
        (all.len() == 1 && all[0].state == "paused").then_some(())
    })
    .await;
    kit::clean(&queue).await;
    kit::drained(node).await;
}

/// The same on an embedded tree, where also the session is lost at the very call.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_registered_once_whatever_becomes_of_the_call() {
    let own = format!("{}/node-1-", map::NODES);
    for fault in [Fault::LoseRequest, Fault::LoseAnswer, Fault::ExpireBefore, Fault::ExpireAfter] {
        let (place, faulty) = Place::with_faults();
        let queue = place.queue().await;
        let says = async |state: &str| {
            eventually(&format!("{fault:?}: one node that is {state}"), kit::PATIENCE, || async {
                let all = kit::components(&queue).await;
                (all.len() == 1 && all[0].state == state && all[0].node == "node-1").then_some(())
            })
            .await;
        };
        faulty.break_write(own.as_str(), fault);
        let node = place.node("node-1").await;
        faulty.happened().await;
        says("running").await;
        let first = kit::components(&queue).await.remove(0).incarnation;
        // It is registered before it can be asked.
        eventually(&format!("{fault:?}: somebody to ask"), kit::PATIENCE, || node.resume()).await;
        faulty.break_write(own.as_str(), fault);
        assert_eq!(node.pause().await, Some(true), "{fault:?}");
        faulty.happened().await;
        says("paused").await;
        // The same process is the same incarnation, on whatever session.
        assert_eq!(kit::components(&queue).await[0].incarnation, first, "{fault:?}");
        kit::clean(&queue).await;
        kit::drained(node).await;
        assert!(kit::components(&queue).await.is_empty(), "{fault:?}");
    }
}

/// What holds: a node that is gone without a word is not in the registry any more when its session has ended, and those
/// that live are.
async fn a_node_that_is_killed_leaves_the_registry_with_its_session(on: On) {
    let place = Place::new(on).await;
    let queue = place.queue().await;
    let (killed, other) = (place.node("node-1").await, place.node("node-2").await);
    kit::registered(&queue, &["node-1", "node-2"]).await;
    killed.stop();
    killed.ended().await;
    kit::registered(&queue, &["node-2"]).await;
    // And that one knows it.
    leads(&queue, "timer", "node-2").await;
    let again = place.node("node-1").await;
    kit::registered(&queue, &["node-1", "node-2"]).await;
    kit::clean(&queue).await;
    for node in [again, other] {
        kit::drained(node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_killed_leaves_the_registry_with_its_session_embedded() {
    a_node_that_is_killed_leaves_the_registry_with_its_session(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_killed_leaves_the_registry_with_its_session_zookeeper() {
    a_node_that_is_killed_leaves_the_registry_with_its_session(On::Zookeeper).await;
}

async fn a_name_that_is_used_again_is_a_new_incarnation(on: On) {
    let place = Place::new(on).await;
    let queue = place.queue().await;
    let mut lives = Vec::new();
    for _ in 0..2 {
        let node = place.node("node-1").await;
        leads(&queue, "timer", "node-1").await;
        let all = kit::registered(&queue, &["node-1"]).await;
        lives.push((all[0].node.clone(), all[0].incarnation.clone()));
        kit::drained(node).await;
    }
    assert_eq!((&lives[0].0, &lives[1].0), (&"node-1".to_owned(), &"node-1".to_owned()));
    assert_ne!(lives[0].1, lives[1].1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_used_again_is_a_new_incarnation_embedded() {
    a_name_that_is_used_again_is_a_new_incarnation(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_used_again_is_a_new_incarnation_zookeeper() {
    a_name_that_is_used_again_is_a_new_incarnation(On::Zookeeper).await;
}

async fn the_elected_one_writes_down_what_ended(on: On) {
    let (place, files) = (Place::new(on).await, FileServer::start().await);
    let node = place.node_with("node-1", None, |node, _| node.stats.every = Duration::from_millis(50)).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, 3), None)).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let stats = eventually("all that completed", kit::PATIENCE, || async {
        let (stats, _) = Stats::read(queue.session()).await.ok()?;
        (stats.lines.iter().map(|line| line.completed).sum::<u64>() == 3).then_some(stats)
    })
    .await;
    assert!(stats.lines.iter().all(|line| line.node == "node-1"));
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_elected_one_writes_down_what_ended_embedded() {
    the_elected_one_writes_down_what_ended(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_elected_one_writes_down_what_ended_zookeeper() {
    the_elected_one_writes_down_what_ended(On::Zookeeper).await;
}

/// Invariant: what ends while somebody leads is written down once, also when who led is gone without a word; and whoever
/// was followed by another writes nothing more.
async fn when_who_writes_is_killed_the_next_goes_on(on: On) {
    let (place, files) = (Place::new(on).await, FileServer::start().await);
    let queue = place.queue().await;
    let often = |node: &mut ingest_actors::settings::Settings, _: &mut ingest_steps::settings::Settings| {
        node.stats.every = Duration::from_millis(50);
    };
    let first = place.node_with("node-1", None, often).await;
    leads(&queue, "stats", "node-1").await;
    let second = place.node_with("node-2", None, often).await;
    let written = async |all: u64| {
        eventually(&format!("{all} that completed"), kit::PATIENCE, || async {
            let (stats, _) = Stats::read(queue.session()).await.ok()?;
            (stats.lines.iter().map(|line| line.completed).sum::<u64>() >= all).then_some(stats)
        })
        .await
    };
    let url = kit::single_files(&files, 3);
    let bid = kit::submit(&queue, kit::submission(&url, None)).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    written(3).await;
    first.stop();
    first.ended().await;
    leads(&queue, "stats", "node-2").await;
    let bid = kit::submit(&queue, kit::submission(&url, None)).await;
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let stats = written(6).await;
    assert_eq!(stats.lines.iter().map(|line| line.completed).sum::<u64>(), 6);
    let writers: Vec<_> = stats.lines.iter().map(|line| line.node.as_str()).collect();
    assert!(writers.is_sorted() && writers.first() == Some(&"node-1"), "{writers:?}");
    assert_eq!(writers.last(), Some(&"node-2"));
    kit::clean(&queue).await;
    kit::drained(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_who_writes_is_killed_the_next_goes_on_embedded() {
    when_who_writes_is_killed_the_next_goes_on(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_who_writes_is_killed_the_next_goes_on_zookeeper() {
    when_who_writes_is_killed_the_next_goes_on(On::Zookeeper).await;
}

/// Invariant: however much there is to remove, a run removes so much at the most, and the next goes on.
async fn what_is_kept_long_enough_goes_in_bounded_steps(on: On) {
    const MOST: usize = 100;
    const MORE: usize = 3;
    let place = Place::new(on).await;
    let queue = place.queue().await;
    let node = place
        .node_with("node-1", None, |node, _| {
            node.upkeep.every = Duration::from_hours(12);
            node.upkeep.keep_batches = Duration::ZERO;
        })
        .await;
    // The first run, which finds nothing.
    eventually("the first run of the routine", kit::PATIENCE, || async {
        Known::read(queue.session(), Routine::Batches).await.ok()?.last
    })
    .await;
    // What expires before it is begun has no jobs, and goes by itself like what is completed.
    let mut late = kit::submission(&"http://127.0.0.1:1/late".parse().unwrap(), Some("file"));
    late.other.insert("expiration_date".into(), queue.now().to_string().into());
    let mut bids = Vec::new();
    for _ in 0..MOST + MORE {
        bids.push(kit::submit(&queue, late.clone()).await);
    }
    for bid in bids {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Failed);
    }
    for expected in [MOST, MORE, 0] {
        let Some(Ran::Now(run)) = node.run_upkeep(Routine::Batches).await else { panic!("nobody is at it") };
        assert_eq!((run.removed, run.error), (expected, None));
        kit::clean(&queue).await;
    }
    assert_eq!(queue.session().children(map::BATCHES).await.unwrap().0, Vec::<String>::new());
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_long_enough_goes_in_bounded_steps_embedded() {
    what_is_kept_long_enough_goes_in_bounded_steps(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_long_enough_goes_in_bounded_steps_zookeeper() {
    what_is_kept_long_enough_goes_in_bounded_steps(On::Zookeeper).await;
}

/// Invariant: an alert is told once, by whoever leads, and not lost with a node that could not tell it.
async fn what_one_leader_could_not_tell_the_next_one_does(on: On) {
    let place = Place::new(on).await;
    let queue = place.queue().await;
    let admins = vec!["admins@example.org".to_owned()];
    // Where its mails should go there is a file.
    let nowhere = place.dir.path().join("nowhere");
    std::fs::write(&nowhere, "").unwrap();
    let mute = place
        .node_with("mute", None, |_, steps| {
            steps.mail.admins.clone_from(&admins);
            steps.mail.by = ingest_steps::settings::MailBy::Outbox { dir: nowhere.join("outbox") };
        })
        .await;
    leads(&queue, "timer", "mute").await;
    let next = place.node_with("next", None, |_, steps| steps.mail.admins.clone_from(&admins)).await;
    let alert = r#"{"at":"2026-11-17T00:00:00.000Z","node":"mute","why":"it is a test","feed":"herbarium"}"#;
    queue.session().create(map::alert("feed-x-1"), alert, Mode::Persistent).await.unwrap();
    let told = || kit::mails(&place.outbox());
    assert_eq!(queue.owed_alerts().await.unwrap().len(), 1);
    kit::drained(mute).await;
    eventually("an alert that was told", kit::PATIENCE, || async {
        queue.owed_alerts().await.unwrap().is_empty().then_some(())
    })
    .await;
    assert_eq!(told().len(), 1, "{:?}", told());
    assert!(told()[0].contains("alert-feed-x-1@"), "{:?}", told());
    kit::clean(&queue).await;
    kit::drained(next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_leader_could_not_tell_the_next_one_does_embedded() {
    what_one_leader_could_not_tell_the_next_one_does(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_leader_could_not_tell_the_next_one_does_zookeeper() {
    what_one_leader_could_not_tell_the_next_one_does(On::Zookeeper).await;
}

async fn a_routine_says_when_it_ran_and_is_run_by_one_at_a_time(on: On) {
    let place = Place::new(on).await;
    let queue = place.queue().await;
    let node = place.node("node-1").await;
    // Each runs when the first node starts.
    for routine in Routine::ALL {
        eventually(routine.name(), kit::PATIENCE, || async {
            let known = Known::read(queue.session(), routine).await.ok()?;
            (known.running.is_none() && known.last?.node == "node-1").then_some(())
        })
        .await;
    }
    // Another is at it.
    let lock = path::join("/cleanup/jobs", "lock");
    queue.session().create(lock.as_str(), "node-7", Mode::Ephemeral).await.unwrap();
    assert_eq!(node.run_upkeep(Routine::Jobs).await, Some(Ran::Busy("node-7".into())));
    queue.session().delete(lock.as_str(), None).await.unwrap();
    let Some(Ran::Now(run)) = node.run_upkeep(Routine::Jobs).await else { panic!("nobody is at it") };
    assert_eq!((run.removed, run.error), (0, None));
    // A second node finds that it was done, and waits for its time.
    let second = place.node("node-2").await;
    let known = Known::read(queue.session(), Routine::Jobs).await.unwrap();
    assert_eq!(known.last.map(|last| last.node).as_deref(), Some("node-1"));
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::drained(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routine_says_when_it_ran_and_is_run_by_one_at_a_time_embedded() {
    a_routine_says_when_it_ran_and_is_run_by_one_at_a_time(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routine_says_when_it_ran_and_is_run_by_one_at_a_time_zookeeper() {
    a_routine_says_when_it_ran_and_is_run_by_one_at_a_time(On::Zookeeper).await;
}
