//! Feeds on nodes: divided, taken over, paused, and consumed by those who die.
//!
//! Invariants: a feed has one owner at most, at every moment, and whatever is committed of it is that owner's: as the
//! order of the tree's own transactions says; when it has been quiet, every feed has the owner that it is
//! assigned to, and the shares differ by one at most; every item becomes exactly one batch, whoever joins, leaves, is
//! stopped, or loses its session meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ingest_actors::feeds::board::Doing;
use ingest_actors::node::Node;
use ingest_actors::settings::{Pool, Settings};
use ingest_harness::eventually;
use ingest_queue::feeds::Qid;
use ingest_queue::map;
use ingest_queue::queue::Queue;
use ingest_queue::states::BatchState;
use ingest_steps::feed::Feed;
use ingest_steps::settings as steps;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::kit::{self, On, PATIENCE, PROFILE, Place};

fn drop_box(dir: &Path) -> Feed {
    let dir = dir.display();
    let text = format!(
        "kind = \"drop_box\"\npath = \"{dir}\"\nready = \"rename\"\nprofile = \"{PROFILE}\"\nsubmitter = \"ann\""
    );
    // Of TOML, by way of JSON: what reads it is the same.
    let table: BTreeMap<String, String> = text
        .lines()
        .map(|line| line.split_once(" = ").unwrap())
        .map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()))
        .collect();
    serde_json::from_value(serde_json::to_value(table).unwrap()).unwrap()
}

/// Boxes that all nodes of a place share.
pub(crate) struct Boxes {
    dir: PathBuf,
    count: usize,
}

impl Boxes {
    pub(crate) fn new(place: &Place, count: usize) -> Self {
        let dir = place.dir.path().join("boxes");
        for number in 0..count {
            std::fs::create_dir_all(dir.join(Self::name(number))).unwrap();
        }
        Self { dir, count }
    }

    fn name(number: usize) -> String {
        format!("box-{number}")
    }

    pub(crate) fn configure(&self, node: &mut Settings, steps: &mut steps::Settings) {
        node.workers.settle = Duration::from_millis(50);
        steps.fetch.file_roots.push(self.dir.clone());
        for number in 0..self.count {
            let name = Self::name(number);
            steps.feeds.insert(name.clone(), drop_box(&self.dir.join(name)));
        }
    }

    /// A file that is there whole or not at all.
    fn put(&self, number: usize, file: &str) {
        let dir = self.dir.join(Self::name(number));
        std::fs::write(dir.join(format!("{file}.part")), file).unwrap();
        std::fs::rename(dir.join(format!("{file}.part")), dir.join(file)).unwrap();
    }
}

/// A node that consumes feeds and does nothing else.
pub(crate) async fn worker(place: &Place, boxes: &Boxes, name: &str) -> Node {
    place
        .node_with(name, None, |node, steps| {
            let none = Pool { size: 0, stall: Duration::from_mins(1) };
            node.pools = ingest_actors::settings::Pools {
                pending: none,
                estimating: none,
                provisioning: none,
                downloading: none,
                processing: none,
                recording: none,
                notify: none,
                access_small: none,
                access_large: none,
            };
            boxes.configure(node, steps);
            // What comes is held: it is not what this is about.
            let profile = steps.profiles.dir.join(format!("{PROFILE}.toml"));
            let text = std::fs::read_to_string(&profile).unwrap();
            std::fs::write(profile, format!("hold = true\n{text}")).unwrap();
        })
        .await
}

async fn batches(queue: &Queue) -> usize {
    let session = queue.session();
    let listed = ingest_store::recipes::look(session, || session.children(map::BATCHES)).await;
    listed.unwrap().0.len()
}

async fn until_batches(queue: &Queue, count: usize) {
    let what = format!("{count} batches");
    eventually(&what, patience(), || async { (batches(queue).await >= count).then_some(()) }).await;
    assert_eq!(batches(queue).await, count);
}

/// Waits until the feeds are divided as they should be and everybody has its share; answers how many each has.
pub(crate) async fn settled(queue: &Queue, workers: usize, feeds: usize) -> Vec<usize> {
    eventually("feeds that are divided", patience(), || async {
        // A machine that is busy may break a link for a moment.
        let (seen, listed) = (queue.workers().await.ok()?, queue.list_feeds().await.ok()?);
        if seen.all.len() != workers || seen.divided().is_some() {
            return None;
        }
        let mut counts = BTreeMap::<String, usize>::new();
        for one in &listed {
            let wanted = seen.assigned_to(one.feed.qid)?;
            let (node, owner) = (&seen.all.get(wanted)?.node, one.owner.as_ref()?);
            if owner.node != *node {
                return None;
            }
            *counts.entry(node.clone()).or_default() += 1;
        }
        (listed.len() == feeds).then(|| counts.into_values().collect())
    })
    .await
}

pub(crate) fn even(counts: &[usize]) {
    let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
    assert!(most - least <= 1, "{counts:?}");
}

async fn what_is_put_into_a_box_is_ingested(on: On) {
    let place = Place::new(on).await;
    let boxes = Boxes::new(&place, 1);
    boxes.put(0, "before.txt");
    let node = place.node_with("node-1", None, |node, steps| boxes.configure(node, steps)).await;
    let queue = place.queue().await;
    boxes.put(0, "after.txt");
    until_batches(&queue, 2).await;
    for number in 0..2 {
        assert_eq!(kit::reported(&queue, ingest_queue::ids::Bid::new(number)).await, BatchState::Completed);
    }
    let feed = queue.list_feeds().await.unwrap().remove(0);
    assert_eq!((feed.feed.node.items, feed.trouble()), (2, None));
    assert!(feed.feed.node.last.ends_with("after.txt"), "{}", feed.feed.node.last);
    kit::drained(node).await;
    assert_eq!(queue.list_feeds().await.unwrap()[0].owner, None);
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_into_a_box_is_ingested_embedded() {
    what_is_put_into_a_box_is_ingested(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_into_a_box_is_ingested_zookeeper() {
    what_is_put_into_a_box_is_ingested(On::Zookeeper).await;
}

/// Waits until five feeds are divided among so many of two nodes.
async fn until_shares(queue: &Queue, nodes: usize) {
    eventually("other shares", PATIENCE, || async {
        let counts = settled(queue, 2, 5).await;
        even(&counts);
        (counts.len() == nodes).then_some(())
    })
    .await;
}

async fn a_node_that_is_paused_gives_its_feeds_to_the_others(on: On) {
    let place = Place::new(on).await;
    let boxes = Boxes::new(&place, 5);
    let one = worker(&place, &boxes, "one").await;
    let other = worker(&place, &boxes, "other").await;
    let queue = place.queue().await;
    even(&settled(&queue, 2, 5).await);
    one.pause().await;
    until_shares(&queue, 1).await;
    (0..5).for_each(|number| boxes.put(number, "a"));
    until_batches(&queue, 5).await;
    one.resume().await;
    until_shares(&queue, 2).await;
    kit::clean(&queue).await;
    kit::drained(one).await;
    kit::drained(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_paused_gives_its_feeds_to_the_others_embedded() {
    a_node_that_is_paused_gives_its_feeds_to_the_others(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_paused_gives_its_feeds_to_the_others_zookeeper() {
    a_node_that_is_paused_gives_its_feeds_to_the_others(On::Zookeeper).await;
}

async fn one_who_consumes_and_dies_is_started_again_and_nothing_is_lost(on: On) {
    let place = Place::new(on).await;
    let boxes = Boxes::new(&place, 2);
    let node = worker(&place, &boxes, "one").await;
    let queue = place.queue().await;
    settled(&queue, 1, 2).await;
    boxes.put(0, "a");
    until_batches(&queue, 1).await;
    let tree = node.tree();
    let feeds = tree.children.iter().find(|child| child.name == "feeds").unwrap();
    feeds.children.iter().find(|child| child.name == "feed-box-0").unwrap().cell.kill();
    let restart = kit::restarted(&node, "feed-box-0").await;
    assert_eq!((restart.reason.as_str(), restart.pool.as_deref()), ("killed", Some("feeds")));
    boxes.put(0, "b");
    until_batches(&queue, 2).await;
    // And the supervisor, with all of them.
    feeds.cell.kill();
    assert_eq!(kit::restarted(&node, "feeds").await.reason, "killed");
    boxes.put(1, "c");
    until_batches(&queue, 3).await;
    settled(&queue, 1, 2).await;
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_consumes_and_dies_is_started_again_and_nothing_is_lost_embedded() {
    one_who_consumes_and_dies_is_started_again_and_nothing_is_lost(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_consumes_and_dies_is_started_again_and_nothing_is_lost_zookeeper() {
    one_who_consumes_and_dies_is_started_again_and_nothing_is_lost(On::Zookeeper).await;
}

async fn a_feed_that_a_person_has_paused_goes_on_where_it_stopped(on: On) {
    let place = Place::new(on).await;
    let boxes = Boxes::new(&place, 1);
    let node = worker(&place, &boxes, "one").await;
    let queue = place.queue().await;
    settled(&queue, 1, 1).await;
    let qid = Qid::of("box-0");
    queue.pause_feed(qid, "ann", "the disk is moved").await.unwrap();
    boxes.put(0, "a");
    // It has given the feed up, and nothing was consumed.
    eventually("a feed that waits", PATIENCE, || async {
        (node.house().feeds.get("box-0")?.status().doing == Doing::Waiting).then_some(())
    })
    .await;
    assert_eq!(batches(&queue).await, 0);
    queue.resume_feed(qid).await.unwrap();
    until_batches(&queue, 1).await;
    kit::clean(&queue).await;
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_a_person_has_paused_goes_on_where_it_stopped_embedded() {
    a_feed_that_a_person_has_paused_goes_on_where_it_stopped(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_a_person_has_paused_goes_on_where_it_stopped_zookeeper() {
    a_feed_that_a_person_has_paused_goes_on_where_it_stopped(On::Zookeeper).await;
}

async fn a_source_that_cannot_be_asked_is_told_and_asked_again_when_somebody_wishes(on: On) {
    let place = Place::new(on).await;
    let boxes = Boxes::new(&place, 1);
    let dir = boxes.dir.join("box-0");
    std::fs::remove_dir(&dir).unwrap();
    let node = worker(&place, &boxes, "one").await;
    let queue = place.queue().await;
    let trouble = eventually("trouble", PATIENCE, || async {
        queue.list_feeds().await.unwrap().first()?.trouble().map(str::to_owned)
    })
    .await;
    assert!(trouble.contains("box-0"), "{trouble}");
    assert_eq!(node.house().feeds.get("box-0").unwrap().status().doing, Doing::Failing);
    std::fs::create_dir(&dir).unwrap();
    boxes.put(0, "a");
    // The pause is ten seconds: a wish is heard at once, on whatever node it is made.
    queue.ask_feed(Qid::of("box-0"), "ann").await.unwrap();
    until_batches(&queue, 1).await;
    eventually("no trouble", PATIENCE, || async {
        queue.list_feeds().await.unwrap()[0].trouble().is_none().then_some(())
    })
    .await;
    let listed = &queue.list_feeds().await.unwrap()[0];
    assert!(!listed.asked);
    kit::drained(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_cannot_be_asked_is_told_and_asked_again_when_somebody_wishes_embedded() {
    a_source_that_cannot_be_asked_is_told_and_asked_again_when_somebody_wishes(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_cannot_be_asked_is_told_and_asked_again_when_somebody_wishes_zookeeper() {
    a_source_that_cannot_be_asked_is_told_and_asked_again_when_somebody_wishes(On::Zookeeper).await;
}

/// Invariant: a feed that fails again and again is told to the administrators once, however often it fails and whoever
/// consumes it, until it went well.
async fn administrators_are_told_once_of_a_feed_that_fails(on: On) {
    let place = Place::new(on).await;
    let boxes = Boxes::new(&place, 1);
    let dir = boxes.dir.join("box-0");
    std::fs::remove_dir(&dir).unwrap();
    let admins = |node: &mut Settings, steps: &mut steps::Settings| {
        boxes.configure(node, steps);
        steps.mail.admins = vec!["admins@example.org".into()];
    };
    let one = place.node_with("one", None, admins).await;
    let queue = place.queue().await;
    fails(&queue, &one, 4).await;
    let told = || kit::mails(&place.outbox());
    eventually("a mail", PATIENCE, || async { (told().len() == 1).then_some(()) }).await;
    assert!(told()[0].contains(&format!("alert-feed-{}", Qid::of("box-0"))), "{:?}", told());
    // The next node finds that they were told.
    kit::drained(one).await;
    let other = place.node_with("other", None, admins).await;
    fails(&queue, &other, 4).await;
    assert!(queue.owed_alerts().await.unwrap().is_empty());
    assert_eq!(told().len(), 1);
    // It went well, and fails again.
    std::fs::create_dir(&dir).unwrap();
    queue.ask_feed(Qid::of("box-0"), "ann").await.unwrap();
    eventually("a feed that went well", PATIENCE, || async {
        queue.list_feeds().await.unwrap()[0].feed.node.alerted.is_none().then_some(())
    })
    .await;
    std::fs::remove_dir_all(&dir).unwrap();
    fails(&queue, &other, 3).await;
    eventually("another mail", PATIENCE, || async { (told().len() == 2).then_some(()) }).await;
    kit::clean(&queue).await;
    kit::drained(other).await;
}

/// Has the feed asked until it has failed so often on a node.
async fn fails(queue: &Queue, node: &Node, often: u32) {
    eventually("failures", PATIENCE, || async {
        let failed = node.house().feeds.get("box-0")?.status().in_a_row;
        if failed < often {
            queue.ask_feed(Qid::of("box-0"), "ann").await.unwrap();
        }
        (failed >= often).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_are_told_once_of_a_feed_that_fails_embedded() {
    administrators_are_told_once_of_a_feed_that_fails(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_are_told_once_of_a_feed_that_fails_zookeeper() {
    administrators_are_told_once_of_a_feed_that_fails(On::Zookeeper).await;
}

fn at_length() -> bool {
    std::env::var("INGESTD_MANY_FEEDS").is_ok()
}

/// How many, by default and at length.
fn sizes() -> (usize, usize, usize) {
    if at_length() { (20, 200, 40) } else { (5, 24, 8) }
}

/// Twenty nodes in one process have much to do.
fn patience() -> Duration {
    if at_length() { 6 * PATIENCE } else { PATIENCE }
}

/// Workers come and go at random while items come; at the end every item is there once.
async fn workers_come_and_go(on: On) {
    let (most, feeds, turns) = sizes();
    let seed = std::env::var("INGESTD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    println!("INGESTD_SEED={seed} repeats who comes and goes ({most} workers, {feeds} feeds, {turns} turns)");
    let mut chance = StdRng::seed_from_u64(seed);
    let (place, recorder) = Place::recorded(on).await;
    let boxes = Boxes::new(&place, feeds);
    let queue = place.queue().await;
    let (mut nodes, mut named, mut items, mut left) = (Vec::new(), 0, 0, 0);
    let mut put = |chance: &mut StdRng, count: usize| {
        for _ in 0..count {
            boxes.put(chance.random_range(0..feeds), &format!("item-{items}"));
            items += 1;
        }
        items
    };
    for turn in 0..turns {
        put(&mut chance, feeds / 8);
        let joins = nodes.is_empty() || nodes.len() < most && chance.random_bool(0.6);
        if joins {
            let count = if turn == 0 { most / 2 } else { 1 };
            for _ in 0..count {
                nodes.push(worker(&place, &boxes, &format!("node-{named}")).await);
                named += 1;
            }
        } else {
            let node: Node = nodes.swap_remove(chance.random_range(0..nodes.len()));
            left += 1;
            if chance.random_bool(0.5) {
                kit::drained(node).await;
            } else {
                // At once, in the middle of whatever it does.
                node.stop();
                node.ended().await;
            }
        }
        put(&mut chance, feeds / 8);
        if !nodes.is_empty() && chance.random_bool(0.5) {
            even(&settled(&queue, nodes.len(), feeds).await);
        }
    }
    if nodes.is_empty() {
        nodes.push(worker(&place, &boxes, "the-last").await);
    }
    let all = put(&mut chance, feeds / 8);
    even(&settled(&queue, nodes.len(), feeds).await);
    until_batches(&queue, all).await;
    let counted: u64 = queue.list_feeds().await.unwrap().iter().map(|one| one.feed.node.items).sum();
    assert_eq!(counted, all as u64);
    kit::clean(&queue).await;
    for node in nodes {
        kit::drained(node).await;
    }
    assert_eq!(batches(&queue).await, all);
    kit::clean(&queue).await;
    // Those whose answers were lost are not in the record, and in the tree.
    let recorded = recorder.one_owner_each();
    assert!(recorded <= all, "{recorded} items were recorded, and {all} were put");
    println!(
        "{on:?}: {all} items in {feeds} feeds, {named} workers came and {left} went, feeds were taken {} times; {recorded} \
         commits of items, each by the owner of its feed",
        recorder.taken()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_come_and_go_and_every_item_comes_once_embedded() {
    workers_come_and_go(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_come_and_go_and_every_item_comes_once_zookeeper() {
    workers_come_and_go(On::Zookeeper).await;
}
