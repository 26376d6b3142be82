//! Limits over all nodes, while nodes work.
//!
//! The invariant: at no moment more slots are held than the limit says, as somebody sees who watches all of it; and
//! whatever happens to a holder, all slots are used again as long as anybody waits.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ingest_actors::node::upkeep::Known;
use ingest_actors::node::{Node, Ran, Routine};
use ingest_harness::{FileServer, eventually};
use ingest_queue::ids::Jid;
use ingest_queue::limits::parked_with;
use ingest_queue::limits::rules::{Kind, Semaphore};
use ingest_queue::limits::set::Wanted;
use ingest_queue::map::{self, QueueRef};
use ingest_queue::plan::job::Action;
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState};
use ingest_store::{Event, Session};
use parking_lot::Mutex;

use crate::kit::{self, On, Place};
use crate::trick::Trick;

const LIMIT: u32 = 5;

const OTHER: &str = "other_content";
const OTHER_PROFILE: &str = r#"
name = "other_content"
collection = "others"
title = "Other things"
owner = "ark:/99999/fk4tests"
"#;

fn tests() -> Semaphore {
    Semaphore::new(Kind::Collection, "tests")
}

/// All slots that are held, and the most that ever were, by events.
async fn watched(session: &Session) -> Arc<Mutex<(BTreeSet<String>, usize)>> {
    let seen = Arc::<Mutex<(BTreeSet<String>, usize)>>::default();
    let mut watch = session.watch_tree(map::SEMAPHORES).await.unwrap();
    let told = seen.clone();
    tokio::spawn(async move {
        loop {
            let event = watch.next().await;
            let (held, most) = &mut *told.lock();
            match event {
                Event::Created(path) if path.ends_with("/holder") => held.insert(path),
                Event::Deleted(path) if path.ends_with("/holder") => held.remove(&path),
                Event::Ended(_) => return,
                _ => false,
            };
            *most = held.len().max(*most);
        }
    });
    seen
}

struct Three {
    place: Place,
    files: FileServer,
    tricks: Vec<Arc<Trick>>,
    nodes: Vec<Node>,
    queue: Queue,
}

impl Three {
    /// Nodes that share everything, and downloads that wait at their door.
    async fn new(on: On, limit: u32) -> Self {
        let (place, files) = (Place::new(on).await, FileServer::start().await);
        let (mut tricks, mut nodes) = (Vec::new(), Vec::new());
        let work = place.work("all");
        for number in 0..3 {
            let trick = Trick::real();
            trick.close(JobState::Downloading);
            let change = |node: &mut ingest_actors::settings::Settings,
                          steps: &mut ingest_steps::settings::Settings| {
                node.limits.collections.insert("tests".into(), limit);
                node.pools.downloading.size = 4;
                steps.work.dir.clone_from(&work);
            };
            nodes.push(place.node_with(&format!("node-{number}"), Some(trick.clone()), change).await);
            tricks.push(trick);
        }
        let queue = place.queue().await;
        Self { place, files, tricks, nodes, queue }
    }

    fn downloads(&self) -> usize {
        self.tricks.iter().map(|trick| trick.seen(|seen| seen.running(JobState::Downloading))).sum()
    }

    async fn until_downloads(&self, count: usize) {
        eventually(&format!("{count} downloads"), kit::PATIENCE, || async {
            (self.downloads() == count).then_some(())
        })
        .await;
    }

    fn open(&self) {
        self.tricks.iter().for_each(|trick| trick.open(JobState::Downloading));
    }

    async fn submit(&self, jobs: usize) -> ingest_queue::ids::Bid {
        kit::submit(&self.queue, kit::submission(&kit::single_files(&self.files, jobs), None)).await
    }
}

async fn a_limit_holds_over_three_nodes_and_a_killed_holder_gives_its_slots_back(on: On) {
    const JOBS: usize = 16;
    let mut three = Three::new(on, LIMIT).await;
    // It lives as long as it is known.
    let watching = three.place.session().await;
    let seen = watched(&watching).await;
    let bid = three.submit(JOBS).await;
    three.until_downloads(LIMIT as usize).await;
    // The one that has most is gone, without a word to anybody.
    let most =
        (0..3).max_by_key(|at| three.tricks[*at].seen(|seen| seen.running(JobState::Downloading))).unwrap();
    let (node, trick) = (three.nodes.remove(most), three.tricks.remove(most));
    let had = trick.seen(|seen| seen.running(JobState::Downloading));
    assert!(had > 0);
    node.stop();
    node.ended().await;
    three.until_downloads(LIMIT as usize).await;
    three.open();
    assert_eq!(kit::reported(&three.queue, bid).await, BatchState::Completed);
    assert_eq!(kit::jobs(&three.queue, bid, BatchList::Completed).await.len(), JOBS);
    assert_eq!(seen.lock().1, LIMIT as usize, "it was never above the limit, and all of it was used");
    assert!(three.queue.holders(&tests()).await.unwrap().is_empty());
    kit::clean(&three.queue).await;
    for node in three.nodes {
        kit::drained(node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_over_three_nodes_and_a_killed_holder_gives_its_slots_back_embedded() {
    a_limit_holds_over_three_nodes_and_a_killed_holder_gives_its_slots_back(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_over_three_nodes_and_a_killed_holder_gives_its_slots_back_zookeeper() {
    a_limit_holds_over_three_nodes_and_a_killed_holder_gives_its_slots_back(On::Zookeeper).await;
}

async fn one(on: On, limit: u32) -> (Place, FileServer, Arc<Trick>, Node, Queue) {
    let (place, files, trick) = (Place::new(on).await, FileServer::start().await, Trick::real());
    trick.close(JobState::Downloading);
    let profiles = place.dir.path().join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join(format!("{OTHER}.toml")), OTHER_PROFILE).unwrap();
    let node = place.node_with("node-1", Some(trick.clone()), |node, _| {
        node.limits.collections.insert("tests".into(), limit);
    });
    let node = node.await;
    let queue = place.queue().await;
    (place, files, trick, node, queue)
}

async fn waiting_for_a_slot(node: &Node, count: usize) {
    so_many_wait_for_a_slot(node, count..=count).await;
}

async fn so_many_wait_for_a_slot(node: &Node, counts: RangeInclusive<usize>) {
    eventually("jobs that wait for a slot", kit::PATIENCE, || async {
        let finder = node.life().await?.finder()?;
        counts.contains(&finder.parked_with(parked_with(&tests().node_name()))).then_some(())
    })
    .await;
}

async fn the_best_that_waits_gets_the_next_slot_and_others_overtake(on: On) {
    let (_place, files, trick, node, queue) = one(on, 1).await;
    let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, 4), None)).await;
    trick.until("a download", |seen| seen.running(JobState::Downloading) == 1).await;
    waiting_for_a_slot(&node, 3).await;
    // One of another collection is not kept back by those at the head of the queue.
    let mut other = kit::submission(&files.put("/other.txt", "other"), Some("file"));
    other.profile_name = OTHER.into();
    let other = kit::submit(&queue, other).await;
    trick.until("a download that overtook", |seen| seen.running(JobState::Downloading) == 2).await;
    // The last of those who wait is to be the first.
    let begun: Vec<_> = trick.seen(downloads);
    let waiting = kit::jobs(&queue, bid, BatchList::Processing).await;
    let last = waiting.into_iter().filter(|jid| !begun.contains(jid)).max().unwrap();
    queue.act(last, &Action::SetPriority(map::Priority::FIRST), "by a test", false).await.unwrap();
    // Its new ref has been tried, and waits before all others.
    eventually("the first in line for a slot", kit::PATIENCE, || async {
        let second = QueueRef::new(JobState::Downloading, map::Priority::nearest(1), Jid::new(0));
        let finder = node.life().await?.finder()?;
        finder.gives_way(second, parked_with(&tests().node_name())).then_some(())
    })
    .await;
    trick.let_through(JobState::Downloading, 1);
    trick.until("the next download", |seen| seen.begun(JobState::Downloading) == 3).await;
    let begun: Vec<_> = trick.seen(downloads);
    assert_eq!(begun[2], last, "{begun:?}");
    trick.open(JobState::Downloading);
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    assert_eq!(kit::reported(&queue, other).await, BatchState::Completed);
    kit::clean(&queue).await;
    kit::drained(node).await;
}

/// The jobs whose download has begun, in that order.
fn downloads(seen: &crate::trick::Seen) -> Vec<Jid> {
    let begun = seen.begun.iter().filter(|begun| begun.state == JobState::Downloading);
    begun.map(|begun| begun.jid).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_that_waits_gets_the_next_slot_and_others_overtake_embedded() {
    the_best_that_waits_gets_the_next_slot_and_others_overtake(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_that_waits_gets_the_next_slot_and_others_overtake_zookeeper() {
    the_best_that_waits_gets_the_next_slot_and_others_overtake(On::Zookeeper).await;
}

async fn a_limit_that_is_changed_holds_at_once(on: On) {
    let (_place, files, trick, node, queue) = one(on, 1).await;
    let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, 6), None)).await;
    trick.until("one download", |seen| seen.running(JobState::Downloading) == 1).await;
    waiting_for_a_slot(&node, 5).await;
    assert!(queue.set_limit(Kind::Collection, "tests", Wanted::AtMost(3)).await.unwrap());
    trick.until("three downloads", |seen| seen.running(JobState::Downloading) == 3).await;
    waiting_for_a_slot(&node, 3).await;
    // Lowered: nobody is stopped, and nobody begins before enough are done.
    queue.set_limit(Kind::Collection, "tests", Wanted::AtMost(1)).await.unwrap();
    let mut settings = ingest_actors::settings::Settings::clone(&node.house().settings.load());
    settings.limits.collections.insert("tests".into(), 2);
    let steps = ingest_steps::settings::Settings::clone(&node.life().await.unwrap().services().settings);
    // What a person has set goes before a changed file.
    node.apply(settings, steps);
    trick.let_through(JobState::Downloading, 2);
    trick.until("one download", |seen| seen.running(JobState::Downloading) == 1).await;
    assert_eq!(trick.seen(|seen| seen.begun(JobState::Downloading)), 3);
    queue.set_limit(Kind::Collection, "tests", Wanted::AsTheFileSays).await.unwrap();
    trick.until("two downloads", |seen| seen.running(JobState::Downloading) == 2).await;
    // Removed: whoever waits begins, as many as there are workers.
    queue.set_limit(Kind::Collection, "tests", Wanted::NoLimit).await.unwrap();
    trick.until("all of them", |seen| seen.running(JobState::Downloading) == 4).await;
    trick.open(JobState::Downloading);
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    assert!(queue.holders(&tests()).await.unwrap().is_empty());
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_changed_holds_at_once_embedded() {
    a_limit_that_is_changed_holds_at_once(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_changed_holds_at_once_zookeeper() {
    a_limit_that_is_changed_holds_at_once(On::Zookeeper).await;
}

/// Reloads the configuration of a node with other states for its limits.
async fn change_limits(node: &Node, change: impl FnOnce(&mut ingest_actors::settings::Limits)) {
    let mut settings = ingest_actors::settings::Settings::clone(&node.house().settings.load());
    change(&mut settings.limits);
    let steps = ingest_steps::settings::Settings::clone(&node.life().await.unwrap().services().settings);
    node.apply(settings, steps);
}

/// Of all jobs that are called because a limit does not hold in their state any more, most are taken by another node: each
/// node goes on to the next all the same.
async fn a_limit_that_does_not_hold_in_a_state_any_more_keeps_nobody_on_any_node(on: On) {
    const JOBS: usize = 12;
    let three = Three::new(on, 1).await;
    let bid = three.submit(JOBS).await;
    three.until_downloads(1).await;
    for node in &three.nodes {
        // The one that another node is at may have stood at the limit here before it was locked there.
        so_many_wait_for_a_slot(node, JOBS - 1..=JOBS).await;
    }
    change_limits(&three.nodes[0], |limits| limits.states = ["processing".to_owned()].into()).await;
    three.until_downloads(JOBS).await;
    three.open();
    assert_eq!(kit::reported(&three.queue, bid).await, BatchState::Completed);
    kit::clean(&three.queue).await;
    for node in three.nodes {
        kit::drained(node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_does_not_hold_in_a_state_any_more_keeps_nobody_on_any_node_embedded() {
    a_limit_that_does_not_hold_in_a_state_any_more_keeps_nobody_on_any_node(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_does_not_hold_in_a_state_any_more_keeps_nobody_on_any_node_zookeeper() {
    a_limit_that_does_not_hold_in_a_state_any_more_keeps_nobody_on_any_node(On::Zookeeper).await;
}

async fn one_that_is_called_and_waits_for_another_limit_leaves_its_turn_to_the_next(on: On) {
    let (_place, files, trick, node, queue) = one(on, 1).await;
    queue.set_limit(Kind::Host, "127.0.0.1", Wanted::AtMost(1)).await.unwrap();
    let host = Semaphore::new(Kind::Host, "127.0.0.1").node_name();
    let other = async |name: &str| {
        let mut other = kit::submission(&files.put(name, name), Some("file"));
        other.profile_name = OTHER.into();
        kit::submit(&queue, other).await
    };
    let waiting = async |count: usize| {
        eventually("jobs that wait for the host", kit::PATIENCE, || async {
            let finder = node.life().await?.finder()?;
            (finder.parked_with(parked_with(&host)) == count).then_some(())
        })
        .await;
    };
    let mut bids = vec![other("/first.txt").await];
    trick.until("the one download from the host", |seen| seen.running(JobState::Downloading) == 1).await;
    bids.push(kit::submit(&queue, kit::submission(&kit::single_files(&files, 2), None)).await);
    waiting(2).await;
    bids.push(other("/last.txt").await);
    waiting(3).await;
    // The host does not limit downloads any more. Of those who wait, one is stopped by its collection; the one behind it
    // is not.
    change_limits(&node, |limits| limits.host_states = ["processing".to_owned()].into()).await;
    trick.until("all but one", |seen| seen.running(JobState::Downloading) == 3).await;
    waiting_for_a_slot(&node, 1).await;
    trick.open(JobState::Downloading);
    for bid in bids {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_called_and_waits_for_another_limit_leaves_its_turn_to_the_next_embedded() {
    one_that_is_called_and_waits_for_another_limit_leaves_its_turn_to_the_next(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_called_and_waits_for_another_limit_leaves_its_turn_to_the_next_zookeeper() {
    one_that_is_called_and_waits_for_another_limit_leaves_its_turn_to_the_next(On::Zookeeper).await;
}

async fn slots_that_a_living_node_has_forgotten_come_back_by_the_routine_and_wake_who_waits(on: On) {
    let (place, files, trick, node, queue) = one(on, 1).await;
    // It has run once when the node began.
    eventually("the first run of the routine", kit::PATIENCE, || async {
        Known::read(queue.session(), Routine::Semaphores).await.ok()?.last
    })
    .await;
    // As after a defect: a slot is held by a session that lives, for a job that is gone.
    queue
        .session()
        .create(tests().path(), r#"{"kind":"collection","name":"tests"}"#, ingest_store::Mode::Persistent)
        .await
        .unwrap();
    let slot = format!("{}/0000", tests().path());
    queue
        .session()
        .create(slot.as_str(), r#"{"job":"jid0009999999"}"#, ingest_store::Mode::Persistent)
        .await
        .unwrap();
    queue.session().create(format!("{slot}/holder"), "", ingest_store::Mode::Ephemeral).await.unwrap();
    let bid = kit::submit(&queue, kit::submission(&kit::single_files(&files, 3), None)).await;
    waiting_for_a_slot(&node, 3).await;
    trick.open(JobState::Downloading);
    let Some(Ran::Now(run)) = node.run_upkeep(Routine::Semaphores).await else { panic!("it is not busy") };
    assert_eq!((run.removed, run.node.as_str(), run.error), (1, "node-1", None));
    assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    drop(place);
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_a_living_node_has_forgotten_come_back_by_the_routine_and_wake_who_waits_embedded() {
    slots_that_a_living_node_has_forgotten_come_back_by_the_routine_and_wake_who_waits(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_a_living_node_has_forgotten_come_back_by_the_routine_and_wake_who_waits_zookeeper() {
    slots_that_a_living_node_has_forgotten_come_back_by_the_routine_and_wake_who_waits(On::Zookeeper).await;
}
