//! The live supervision tree: it is as designed, and every actor in it may die.

use std::sync::Arc;

use ingest_actors::node::{Branch, Node};
use ingest_actors::root::Role;
use ingest_harness::FileServer;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchState, JobState};

use crate::kit::{self, On, Place};
use crate::trick::Trick;

const STATES: [&str; 7] =
    ["pending", "estimating", "provisioning", "downloading", "processing", "recording", "notify"];

fn names(branch: &Branch) -> Vec<&str> {
    branch.children.iter().map(|child| child.name.as_str()).collect()
}

fn below<'a>(branch: &'a Branch, name: &str) -> Option<&'a Branch> {
    branch.children.iter().find_map(|child| if child.name == name { Some(child) } else { below(child, name) })
}

/// Pools and their workers as the settings have them.
fn expected() -> Vec<(&'static str, Vec<String>)> {
    let workers = |pool: &str, count: usize| (0..count).map(|n| format!("{pool}-{n}")).collect::<Vec<_>>();
    STATES.iter().zip([4, 4, 1, 8, 4, 4, 4]).map(|(state, count)| (*state, workers(state, count))).collect()
}

/// Waits until the tree is whole.
async fn whole(node: &Node) -> Branch {
    ingest_harness::eventually("the whole tree", kit::PATIENCE, || async {
        let tree = node.tree();
        let pools = expected().iter().all(|(state, workers)| {
            below(&tree, state).is_some_and(|pool| names(pool).len() == workers.len())
        });
        let access = below(&tree, "access").is_some_and(|access| names(access).len() == 3);
        (tree.children.len() == Role::ALL.len() && pools && access).then_some(tree)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_tree_is_as_it_was_designed() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.close(JobState::Downloading);
    let node = place.node_with("node-1", Some(trick.clone()), |_, _| {}).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    trick.until("a download", |seen| seen.running(JobState::Downloading) == 1).await;
    let tree = whole(&node).await;
    assert_eq!(tree.name, "root");
    let mut roles = Role::ALL.map(Role::name);
    roles.sort_unstable();
    assert_eq!(names(&tree), roles);
    let mut states = STATES;
    states.sort_unstable();
    assert_eq!(names(below(&tree, "pools").unwrap()), states);
    for (state, workers) in expected() {
        assert_eq!(names(below(&tree, state).unwrap()), workers);
    }
    assert_eq!(
        names(below(&tree, "access").unwrap()),
        ["access_large-0", "access_small-0", "access_small-1"]
    );
    assert_eq!(names(below(&tree, "batches").unwrap()), [bid.to_string()]);
    let alone =
        Role::ALL.into_iter().filter(|role| !matches!(role, Role::Batches | Role::Pools | Role::Access));
    for role in alone {
        assert_eq!(names(below(&tree, role.name()).unwrap()), [""; 0], "{role:?}");
    }
    trick.open(JobState::Downloading);
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    // The batch's actor ends with its batch.
    ingest_harness::eventually("no batch", kit::PATIENCE, || async {
        below(&node.tree(), "batches").unwrap().children.is_empty().then_some(())
    })
    .await;
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

/// Kills an actor in the middle of work, sees its line in the restart log, and sees that work goes on.
async fn kill(node: &Node, queue: &Queue, files: &FileServer, name: &str, logged: &str) {
    let url = files.put("/a.txt", "a");
    let before = kit::submit(queue, kit::submission(&url, Some("file"))).await;
    let cell = below(&whole(node).await, name).unwrap_or_else(|| panic!("no {name}")).cell.clone();
    cell.kill();
    let restart = kit::restarted(node, logged).await;
    assert_eq!((restart.reason.as_str(), restart.count, restart.backoff_ms), ("killed", 1, 0), "{restart:?}");
    assert_eq!(restart.node, "node-1");
    let after = kit::submit(queue, kit::submission(&url, Some("file"))).await;
    for bid in [before, after] {
        assert_eq!(kit::reported(queue, bid).await, BatchState::Completed, "{name}");
    }
    assert!(node.ready().await);
    kit::clean(queue).await;
}

async fn every_actor_may_die(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let node = place.node("node-1").await;
    let queue = place.queue().await;
    for state in STATES {
        let worker = format!("{state}-0");
        kill(&node, &queue, &files, &worker, &worker).await;
        kill(&node, &queue, &files, state, &format!("pool {state}")).await;
    }
    for worker in ["access_small-1", "access_large-0"] {
        kill(&node, &queue, &files, worker, worker).await;
    }
    for role in Role::ALL.into_iter().rev() {
        kill(&node, &queue, &files, role.name(), role.name()).await;
    }
    assert_eq!(node.restarts(1_000).unwrap().len(), 2 * STATES.len() + 2 + Role::ALL.len());
    kit::drained(node).await;
    kit::clean(&queue).await;
    kit::nothing_left(&place.work("node-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_actor_may_die_and_work_goes_on_embedded() {
    every_actor_may_die(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_actor_may_die_and_work_goes_on_zookeeper() {
    every_actor_may_die(On::Zookeeper).await;
}

/// With a job in the middle of its step and locks held: whoever is killed above it, the job goes on.
async fn killed_above_a_step(name: &str, logged: &str, counted: u32) {
    let place = Place::new(On::Zookeeper).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.close(JobState::Processing);
    let work: Arc<Trick> = trick.clone();
    let node = place.node_with("node-1", Some(work), |_, _| {}).await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    trick.until("a step", |seen| seen.running(JobState::Processing) == 1).await;
    let name = if name == "batch" { bid.to_string() } else { name.to_owned() };
    let logged = if logged == "batch" { format!("batch {bid}") } else { logged.to_owned() };
    below(&whole(&node).await, &name).unwrap().cell.kill();
    kit::restarted(&node, &logged).await;
    trick.open(JobState::Processing);
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    let jid = kit::jobs(&queue, bid, ingest_queue::states::BatchList::Completed).await[0];
    // A step that hears in time that it is to stop ends properly.
    assert!(kit::timeouts(&queue, jid).await <= counted, "{name}");
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_outlives_the_death_of_its_batchs_actor() {
    killed_above_a_step("batch", "batch", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_outlives_the_death_of_the_committer() {
    killed_above_a_step("committer", "committer", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_dies_with_its_pool_is_begun_anew() {
    killed_above_a_step("processing", "pool processing", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_dies_with_all_pools_is_begun_anew() {
    killed_above_a_step("pools", "pools", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_dies_with_the_watcher_is_begun_anew() {
    killed_above_a_step("watcher", "watcher", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_dies_with_the_session_is_begun_anew() {
    killed_above_a_step("session", "session", 1).await;
}

/// The worker of the next state is reserved while the commit is on its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_while_it_hands_over_takes_nobody_along() {
    let (place, proxy) = Place::behind_a_proxy().await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.close(JobState::Downloading);
    let node = place
        .node_with("node-1", Some(trick.clone()), |node, _| {
            let pools = &mut node.pools;
            for pool in [&mut pools.downloading, &mut pools.processing, &mut pools.recording] {
                pool.size = 1;
            }
        })
        .await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, 3), None)).await;
    trick.until("a download", |seen| seen.running(JobState::Downloading) == 1).await;
    let worker = below(&node.tree(), "downloading-0").unwrap().cell.clone();
    proxy.delay(ingest_harness::Direction::Both, std::time::Duration::from_millis(50));
    trick.let_through(JobState::Downloading, 1);
    trick.until("its end", |seen| seen.running(JobState::Downloading) == 0).await;
    worker.kill();
    kit::restarted(&node, "downloading-0").await;
    proxy.heal();
    trick.open(JobState::Downloading);
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}
