//! Cleanup routines on nodes: each at its own times, by one node at a time, and whoever dies over it.
//!
//! Invariants: in the time of a routine's schedule it is run once, however many nodes there are; and as long as any node
//! lives, it is run again, whoever died in the middle of it and whichever call was lost.

use std::time::Duration;

use ingest_actors::node::upkeep::{Known, Run};
use ingest_actors::node::{Node, Ran, Routine};
use ingest_actors::settings::{Settings, Upkeep};
use ingest_harness::eventually;
use ingest_queue::ids::Jid;
use ingest_queue::map;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState};
use ingest_store::Mode;
use ingest_store::faults::Fault;

use crate::kit::{self, On, Place};

const JOBS: &str = "/cleanup/jobs";
const KEYS: &str = "/cleanup/keys";
const LOCK: &str = "/cleanup/jobs/lock";

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_hours(12);

/// No routine but those of a test runs more than once.
fn seldom(upkeep: &mut Upkeep) {
    upkeep.every = LONG;
    let Upkeep { jobs, batches, requests, semaphores, keys, shards, .. } = upkeep;
    for round in [jobs, batches, requests, semaphores, keys, shards] {
        round.every = LONG;
    }
}

/// How often a routine has been run.
async fn runs(queue: &Queue, routine: &str) -> i32 {
    queue.session().exists(routine).await.unwrap().map_or(0, |stat| stat.version)
}

/// Waits until a routine has been run so often.
async fn until_runs(queue: &Queue, routine: &str, count: i32) {
    let what = format!("{count} runs of {routine}");
    eventually(&what, kit::PATIENCE, || async { (runs(queue, routine).await >= count).then_some(()) }).await;
}

/// Waits until nobody is at it; answers the last run.
async fn done(queue: &Queue, what: &str) -> Run {
    eventually(what, kit::PATIENCE, || async {
        let known = Known::read(queue.session(), Routine::Jobs).await.ok()?;
        known.last.filter(|_| known.running.is_none())
    })
    .await
}

async fn in_time<T>(what: &str, happens: impl Future<Output = T>) -> T {
    let Ok(happened) = tokio::time::timeout(kit::PATIENCE, happens).await else { panic!("{what}: in vain") };
    happened
}

fn kill_the_janitor(node: &Node) {
    let tree = node.tree();
    tree.children.iter().find(|child| child.name == "janitor").unwrap().cell.kill();
}

async fn a_routine_whose_janitor_dies_is_run_by_its_successor(on: On) {
    let (place, faulty) = Place::with_faults_on(on).await;
    let queue = place.queue().await;
    // The first that runs has the lock, and never hears of it.
    faulty.break_write(LOCK, Fault::KillAfter);
    let node = place.node_with("node-1", None, |node, _| seldom(&mut node.upkeep)).await;
    faulty.happened().await;
    let known = Known::read(queue.session(), Routine::Jobs).await.unwrap();
    assert_eq!((known.running.as_deref(), known.last), (Some("node-1"), None));
    kill_the_janitor(&node);
    kit::restarted(&node, "janitor").await;
    let first = done(&queue, "a run by the next one").await;
    assert_eq!((first.node.as_str(), first.error), ("node-1", None));
    // So it is when somebody wants it now.
    faulty.break_write(LOCK, Fault::KillAfter);
    let (asked, ()) = tokio::join!(node.run_upkeep(Routine::Jobs), async {
        faulty.happened().await;
        kill_the_janitor(&node);
    });
    assert_eq!(asked, None);
    let again = eventually("a janitor that can be asked", kit::PATIENCE, || async {
        node.run_upkeep(Routine::Jobs).await
    });
    assert!(matches!(again.await, Ran::Now(_)));
    assert!(queue.session().exists(LOCK).await.unwrap().is_none());
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routine_whose_janitor_dies_is_run_by_its_successor_embedded() {
    a_routine_whose_janitor_dies_is_run_by_its_successor(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routine_whose_janitor_dies_is_run_by_its_successor_zookeeper() {
    a_routine_whose_janitor_dies_is_run_by_its_successor(On::Zookeeper).await;
}

async fn a_routine_whose_node_dies_is_run_by_another(on: On) {
    let (place, faulty) = Place::with_faults_on(on).await;
    let queue = place.queue().await;
    faulty.break_write(LOCK, Fault::KillAfter);
    let killed = place.node_with("node-1", None, |node, _| seldom(&mut node.upkeep)).await;
    faulty.happened().await;
    let often = |node: &mut ingest_actors::settings::Settings, _: &mut ingest_steps::settings::Settings| {
        seldom(&mut node.upkeep);
        node.upkeep.jobs.every = SHORT;
    };
    let other = place.node_with("node-2", None, often).await;
    assert_eq!(other.run_upkeep(Routine::Jobs).await, Some(Ran::Busy("node-1".into())));
    killed.stop();
    killed.ended().await;
    assert_eq!(done(&queue, "a run by the other").await.node, "node-2");
    kit::clean(&queue).await;
    kit::drained(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routine_whose_node_dies_is_run_by_another_embedded() {
    a_routine_whose_node_dies_is_run_by_another(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routine_whose_node_dies_is_run_by_another_zookeeper() {
    a_routine_whose_node_dies_is_run_by_another(On::Zookeeper).await;
}

/// The call that takes the lock, the one that says how it went, and the one that gives the lock back.
#[tokio::test(flavor = "multi_thread")]
async fn a_routine_is_run_whatever_becomes_of_its_calls() {
    for fault in [Fault::LoseRequest, Fault::LoseAnswer, Fault::ExpireBefore, Fault::ExpireAfter] {
        let (place, faulty) = Place::with_faults();
        let queue = place.queue().await;
        let node = place.node_with("node-1", None, |node, _| seldom(&mut node.upkeep)).await;
        until_runs(&queue, KEYS, 1).await;
        done(&queue, "the first run").await;
        for write in 0..3 {
            let before = runs(&queue, JOBS).await;
            faulty.break_write_after(write, JOBS, fault);
            let what = format!("{fault:?} at {write}");
            // With its session the janitor goes: whoever asked asks the next one.
            eventually(&what, kit::PATIENCE, || async {
                in_time(&what, node.run_upkeep(Routine::Jobs)).await;
                (faulty.has_happened() && runs(&queue, JOBS).await > before).then_some(())
            })
            .await;
            done(&queue, &format!("{what}: nobody at it")).await;
        }
        kit::clean(&queue).await;
        in_time(&format!("{fault:?}: the end"), kit::drained(node)).await;
    }
}

async fn each_routine_has_its_own_times(on: On) {
    let place = Place::new(on).await;
    let queue = place.queue().await;
    let node = place
        .node_with("node-1", None, |node, _| {
            seldom(&mut node.upkeep);
            node.upkeep.jobs.every = SHORT;
        })
        .await;
    // Each runs when the first node starts.
    until_runs(&queue, KEYS, 1).await;
    let before = runs(&queue, JOBS).await;
    until_runs(&queue, JOBS, before + 2).await;
    assert_eq!(runs(&queue, KEYS).await, 1);
    // The other way round, while it runs.
    let mut settings = (**node.house().settings.load()).clone();
    settings.upkeep.jobs.every = LONG;
    settings.upkeep.keys.every = SHORT;
    node.apply(settings, place.steps("node-1"));
    until_runs(&queue, KEYS, 2).await;
    let before = runs(&queue, JOBS).await;
    until_runs(&queue, KEYS, 4).await;
    assert_eq!(runs(&queue, JOBS).await, before);
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_routine_has_its_own_times_embedded() {
    each_routine_has_its_own_times(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_routine_has_its_own_times_zookeeper() {
    each_routine_has_its_own_times(On::Zookeeper).await;
}

/// All wake at the same moment, and one runs it.
async fn of_several_nodes_one_runs_a_routine_each_time(on: On) {
    let place = Place::new(on).await;
    let queue = place.queue().await;
    let mut nodes = Vec::new();
    for number in 0..3 {
        let often = |node: &mut ingest_actors::settings::Settings,
                     _: &mut ingest_steps::settings::Settings| {
            seldom(&mut node.upkeep);
            node.upkeep.jobs.every = SHORT;
        };
        nodes.push(place.node_with(&format!("node-{number}"), None, often).await);
    }
    // One moment's version and data belong together.
    let read = async || {
        let (data, stat) = queue.session().get(JOBS).await.unwrap();
        let run: Run = serde_json::from_slice(&data).unwrap();
        (run.at, u32::try_from(stat.version).unwrap())
    };
    until_runs(&queue, JOBS, 1).await;
    let (from, first) = read().await;
    until_runs(&queue, JOBS, i32::try_from(first).unwrap() + 8).await;
    let (to, last) = read().await;
    // The nodes' clocks need not agree to the millisecond; a second run each time would be twice as many.
    let (passed, least) = (from.until(to), SHORT * (last - first) * 3 / 4);
    assert!(passed >= least, "{} runs in {passed:?}", last - first);
    kit::clean(&queue).await;
    for node in nodes {
        kit::drained(node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_nodes_one_runs_a_routine_each_time_embedded() {
    of_several_nodes_one_runs_a_routine_each_time(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_nodes_one_runs_a_routine_each_time_zookeeper() {
    of_several_nodes_one_runs_a_routine_each_time(On::Zookeeper).await;
}

/// A node was stopped while it fetched a manifest, and the batch was expanded all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_manifest_goes_with_the_jobs_of_its_batch() {
    let place = Place::new(On::Embedded).await;
    let files = ingest_harness::FileServer::start().await;
    let queue = place.queue().await;
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    let dir = place.work("node-1").join(bid.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(".manifest.ingest-part"), "begun").unwrap();
    // No round is made after the first one, which leaves what waits to be expanded alone.
    let node = place.node_with("node-1", None, |node, _| seldom(&mut node.upkeep)).await;
    kit::reported(&queue, bid).await;
    eventually("an empty disk", kit::PATIENCE, || async { (!dir.exists()).then_some(()) }).await;
    kit::clean(&queue).await;
    kit::drained(node).await;
}

/// Its batch is held, so that what is there of its manifest is needed; its jobs end all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_needed_costs_less_than_a_look_for_each_job_that_ends() {
    const ENDS: u32 = 300;
    let (place, faulty) = Place::with_faults();
    let files = ingest_harness::FileServer::start().await;
    let queue = place.queue().await;
    queue.hold_collection("tests", "operator", "a recount").await.unwrap();
    let bid = kit::submit(&queue, kit::submission(&files.put("/a.txt", "a"), Some("file"))).await;
    let dir = place.work("node-1").join(bid.to_string());
    let part = dir.join(".manifest.ingest-part");
    let change = |node: &mut Settings, steps: &mut ingest_steps::settings::Settings| {
        seldom(&mut node.upkeep);
        steps.work.keep_leftovers = Duration::ZERO;
    };
    let node = place.node_with("node-1", None, change).await;
    kit::batch_is(&queue, bid, |state| state == BatchState::Held).await;
    // The first round is over, and so is the first run of the last routine.
    until_runs(&queue, "/cleanup/shards", 1).await;
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(&part, "begun").unwrap();
    // The janitor removes the directory of a job that has ended: then it has come to the end of what it was told.
    let end = async |number: u32| {
        let job = dir.join(Jid::new(number).to_string());
        std::fs::create_dir_all(job.join("000001")).unwrap();
        let list = map::batch_list(bid, BatchList::Completed);
        for number in number + 1 - ENDS..=number {
            let at = format!("{list}/{}", Jid::new(number));
            queue.session().create_with_parents(at, "", Mode::Persistent).await.unwrap();
        }
        eventually("an end that was heard", kit::PATIENCE, || async { (!job.exists()).then_some(()) }).await;
    };
    let before = faulty.calls();
    end(10_000).await;
    assert!(faulty.calls() - before < 100, "{} calls", faulty.calls() - before);
    assert!(part.exists());
    // It is deleted, and then some more end: whether or not it was just asked about, it goes.
    queue.delete_batch(bid, "operator", "no longer wanted", false, |_| {}).await.unwrap();
    end(20_000).await;
    eventually("an empty disk", kit::PATIENCE, || async { (!dir.exists()).then_some(()) }).await;
    // A round finds it as well, and says so.
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(&part, "begun").unwrap();
    let swept = node.clean_up().await.unwrap();
    assert_eq!((swept.manifests, swept.directories), (1, 0));
    assert!(!dir.exists());
    kit::drained(node).await;
}
