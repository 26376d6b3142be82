//! What must be true after everything: in the tree, in the inventory, in the storage, in the outbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use ingest_queue::dialect::Dialect;
use ingest_queue::fsck;
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map::{self, JobNode};
use ingest_queue::nodes::{History, Schedule};
use ingest_queue::queue::Queue;
use ingest_queue::states::{BatchList, BatchState, JobState, States as _};
use ingest_steps::inventory::Inventory as _;
use ingest_steps::inventory::sqlite::SqliteInventory;

use crate::kit::{jobs, reported};
use crate::place::{OWNER, Place};

/// The tree is as it should be, and nobody holds a lock on an object or on a job that waits.
pub(crate) async fn clean(queue: &Queue) {
    fsck::clean(queue.session(), Dialect::Design).await.unwrap();
    for dir in [map::STORAGE_LOCKS, map::INVENTORY_LOCKS, map::LOCAL_IDS] {
        assert_eq!(queue.session().children(dir).await.unwrap().0, Vec::<String>::new(), "{dir}");
    }
}

/// No job of a batch is locked; answers how many there are.
pub(crate) async fn unlocked(queue: &Queue, bid: Bid) -> usize {
    let mut found = 0;
    for list in [BatchList::Processing, BatchList::Completed, BatchList::Failed] {
        for jid in jobs(queue, bid, list).await {
            let lock = queue.session().exists(JobNode::Lock.of(jid)).await.unwrap();
            assert_eq!(lock, None, "{jid} is locked");
            found += 1;
        }
    }
    found
}

/// All of a batch have been completed, each transition once.
pub(crate) async fn completed_once(queue: &Queue, bid: Bid, count: usize) {
    assert_eq!(reported(queue, bid).await, BatchState::Completed, "{bid}: {}", left_of(queue, bid).await);
    let completed = jobs(queue, bid, BatchList::Completed).await;
    assert_eq!(completed.len(), count, "{bid}");
    let life: Vec<JobState> = JobState::Pending.way(Dialect::Design).skip(1).collect();
    for jid in completed {
        let history = history(queue, jid).await;
        // A janitor may have come by since, and cleaned it.
        let entries = history.entries.iter().filter(|entry| entry.from != Some(JobState::Completed));
        let (moves, commits): (Vec<_>, BTreeSet<_>) = entries.map(|entry| (entry.to, &entry.commit)).unzip();
        assert_eq!(moves, life, "{jid}: {history:?}");
        assert_eq!(commits.len(), life.len(), "{jid}: {history:?}");
    }
}

pub(crate) async fn history(queue: &Queue, jid: Jid) -> History {
    queue.node(jid, JobNode::History).await.unwrap().unwrap_or_default()
}

/// How often workers of a job did not end properly.
pub(crate) async fn timeouts(queue: &Queue, jid: Jid) -> u32 {
    let schedule: Option<Schedule> = queue.node(jid, JobNode::Schedule).await.unwrap();
    schedule.unwrap_or_default().timeout_count
}

/// What keeps a batch from its end, for people.
pub(crate) async fn left_of(queue: &Queue, bid: Bid) -> String {
    let mut found = format!("{:?}", queue.batch(bid).await.map(|batch| batch.status));
    for list in [BatchList::Processing, BatchList::Failed] {
        for jid in jobs(queue, bid, list).await.into_iter().take(5) {
            let lock = queue.session().get(JobNode::Lock.of(jid)).await;
            let lock = lock.map(|(data, _)| String::from_utf8_lossy(&data).into_owned());
            let status = queue.job_status(jid).await.map(|(status, _)| status);
            // Writing to a String cannot fail.
            let _ = write!(found, "\n{jid} in {}: {status:?}, lock {lock:?}", list.name());
        }
    }
    found
}

/// Every report lies in the outbox once, under one id.
pub(crate) fn one_report_each(place: &Place, bids: &[Bid]) {
    let mut ids = BTreeMap::<String, usize>::new();
    for entry in std::fs::read_dir(place.path("outbox")).unwrap() {
        let path = entry.unwrap().path();
        // What a node that was killed had not written to its end has no name of its own.
        if path.extension().is_none_or(|end| end != "eml") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with("message-id:")).unwrap();
        *ids.entry(line.split_once(':').unwrap().1.trim().to_owned()).or_default() += 1;
    }
    let wanted = bids.iter().map(|bid| (format!("<{bid}-1@localhost>"), 1)).collect();
    assert_eq!(ids, wanted);
}

/// Every local id has one object, no object has two, and nothing else was stored or recorded.
pub(crate) async fn one_object_each(place: &Place, local_ids: impl IntoIterator<Item = String>) {
    let inventory = SqliteInventory::open(&place.path("inventory.sqlite")).await.unwrap();
    let (mut arks, mut count) = (BTreeSet::new(), 0);
    for local_id in local_ids {
        count += 1;
        let ark = inventory.find(OWNER, &local_id).await.unwrap();
        let ark = ark.unwrap_or_else(|| panic!("{local_id} is not in the inventory"));
        let object = inventory.object(&ark).await.unwrap().unwrap();
        assert_eq!((object.versions.len(), object.local_ids), (1, vec![local_id]), "{ark}");
        arks.insert(ark.to_string());
    }
    assert_eq!(arks.len(), count, "two local ids have one object");
    let stored = objects(&place.path("storage"));
    assert_eq!(stored.len(), count, "objects in the storage that nobody knows, or too few");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(place.path("inventory.sqlite"));
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let recorded: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM objects").fetch_one(&pool).await.unwrap();
    assert_eq!(recorded, i64::try_from(count).unwrap(), "objects in the inventory");
    pool.close().await;
}

/// The objects of an OCFL repository, by their directories.
fn objects(dir: &Path) -> Vec<std::path::PathBuf> {
    if dir.join("0=ocfl_object_1.1").exists() {
        return vec![dir.to_owned()];
    }
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let dirs = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    dirs.flat_map(|entry| objects(&entry.path())).collect()
}
