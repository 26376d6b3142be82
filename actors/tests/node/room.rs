//! Room on the disk, and those who wait for it; and access items, small and large. No timer is involved: the next
//! cycle that a clock would make is hours away.

use std::time::Duration;

use ingest_harness::FileServer;
use ingest_queue::ids::Bid;
use ingest_queue::map::AccessSize;
use ingest_queue::queue::Queue;
use ingest_queue::states::{AccessState, BatchList, BatchState, JobState};
use ingest_steps::step::assemble::{self, Found};

use crate::kit::{self, On, Place};
use crate::trick::Trick;

const KIB: usize = 1 << 10;

async fn deposit(queue: &Queue, files: &FileServer, name: &str, size: usize) -> Bid {
    let url = files.put(&format!("/{name}.bin"), vec![b'x'; size]);
    kit::submit(queue, kit::submission(&url, Some("file"))).await
}

async fn what_does_not_fit_waits(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.close(JobState::Downloading);
    let node = place.node_with("node-1", Some(trick.clone()), |_, steps| {
        steps.work.quota = Some(100 << 10);
        steps.provisioning.cycle = Duration::from_hours(1);
    });
    let node = node.await;
    let queue = place.queue().await;
    let first = deposit(&queue, &files, "first", 60 * KIB).await;
    trick.until("the first", |seen| seen.running(JobState::Downloading) == 1).await;
    let large = deposit(&queue, &files, "large", 70 * KIB).await;
    kit::waits(&node, JobState::Provisioning, "the large one", |counts| counts.ready == 1).await;
    let small = deposit(&queue, &files, "small", 5 * KIB).await;
    trick.until("the small one", |seen| seen.running(JobState::Downloading) == 2).await;
    kit::waits(&node, JobState::Provisioning, "the large one still", |counts| counts.ready == 1).await;
    // What is done makes room.
    trick.open(JobState::Downloading);
    for bid in [first, small, large] {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    assert_eq!(node.restarts(9).unwrap(), []);
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::nothing_left(&place.work("node-1"));
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_waits_and_is_passed_by_the_small_until_there_is_room_embedded() {
    what_does_not_fit_waits(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_waits_and_is_passed_by_the_small_until_there_is_room_zookeeper() {
    what_does_not_fit_waits(On::Zookeeper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_larger_quota_lets_in_who_waits_and_what_never_fits_fails() {
    let place = Place::new(On::Embedded).await;
    let files = FileServer::start().await;
    let trick = Trick::real();
    trick.close(JobState::Downloading);
    let steps = |quota: u64| {
        let mut steps = place.steps("node-1");
        steps.work.quota = Some(quota);
        steps.provisioning.cycle = Duration::from_hours(1);
        steps
    };
    let node = place.node_with("node-1", Some(trick.clone()), |_, own| *own = steps(50 << 10)).await;
    let queue = place.queue().await;
    let never = deposit(&queue, &files, "never", 60 * KIB).await;
    assert_eq!(kit::reported(&queue, never).await, BatchState::Failed);
    let first = deposit(&queue, &files, "first", 30 * KIB).await;
    trick.until("the first", |seen| seen.running(JobState::Downloading) == 1).await;
    let second = deposit(&queue, &files, "second", 31 * KIB).await;
    kit::waits(&node, JobState::Provisioning, "the second", |counts| counts.ready == 1).await;
    node.apply((**node.house().settings.load()).clone(), steps(1 << 20));
    trick.until("the second", |seen| seen.running(JobState::Downloading) == 2).await;
    trick.open(JobState::Downloading);
    for bid in [first, second] {
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
    }
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

async fn small_and_large_objects_go_out(on: On) {
    let place = Place::new(on).await;
    let files = FileServer::start().await;
    let node = place.node_with("node-1", None, |_, steps| steps.access.large_from = 50 << 10).await;
    let queue = place.queue().await;
    let services = node.life().await.unwrap().services();
    for (name, size, expected) in [("small", KIB, AccessSize::Small), ("large", 100 * KIB, AccessSize::Large)]
    {
        let bid = deposit(&queue, &files, name, size).await;
        assert_eq!(kit::reported(&queue, bid).await, BatchState::Completed);
        let jid = kit::jobs(&queue, bid, BatchList::Completed).await[0];
        let asked = kit::ask(&queue, &services, &kit::ark_of(&queue, jid).await).await;
        assert_eq!(asked.size, expected);
        assert_eq!(kit::access_ended(&queue, asked.size, asked.aid).await, AccessState::Completed);
        let Found::Ready { path, .. } = assemble::find(&queue, &services, &asked.token).await.unwrap() else {
            panic!("{name} is not there");
        };
        let mut zip = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
        let named = (0..zip.len()).map(|n| zip.by_index(n).unwrap().name().unwrap().into_owned());
        let named: Vec<_> = named.filter(|found| found.ends_with(&format!("producer/{name}.bin"))).collect();
        assert_eq!(named.len(), 1);
    }
    kit::clean(&queue).await;
    kit::drained(node).await;
    kit::clean(&queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_and_large_objects_go_out_embedded() {
    small_and_large_objects_go_out(On::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_and_large_objects_go_out_zookeeper() {
    small_and_large_objects_go_out(On::Zookeeper).await;
}
