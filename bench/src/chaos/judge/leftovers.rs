//! Nothing is left behind: locks, slots, management requests (nobody makes any here), working directories, files that were begun.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use ingest_harness::let_pass;
use ingest_queue::map::{self, BatchNode, RequestNode};
use ingest_queue::states::JobState;
use ingest_store::Kind;

use super::super::world::World;
use super::jobs::Job;

/// Directories of jobs that have just completed go a moment later.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn judge(world: &World, jobs: &[Job]) -> Result<()> {
    let locks =
        [map::STORAGE_LOCKS, map::INVENTORY_LOCKS, map::LOCAL_IDS, map::QUEUE_HOLDS, map::COLLECTION_HOLDS];
    let requests = RequestNode::ALL.map(RequestNode::dir);
    for dir in locks.into_iter().chain(requests.iter().map(String::as_str)) {
        for name in children(world, dir).await? {
            world.book.breach(format!("{dir}/{name} is left"));
        }
    }
    for made in world.ledger.made() {
        let lock = BatchNode::Lock.of(made.bid);
        if world.patiently("a lock", || world.session().exists(lock.clone())).await?.is_some() {
            world.book.breach(format!("{lock} is left"));
        }
    }
    for semaphore in children(world, map::SEMAPHORES).await? {
        let slots = format!("{}/{semaphore}", map::SEMAPHORES);
        for slot in children(world, &slots).await? {
            for holder in children(world, &format!("{slots}/{slot}")).await? {
                world.book.breach(format!("{slots}/{slot}/{holder} is left"));
            }
        }
    }
    on_disks(world, jobs).await;
    Ok(())
}

/// What jobs have left on the disks. Those that have failed keep their files: somebody may requeue them.
async fn on_disks(world: &World, jobs: &[Job]) {
    let failed = jobs.iter().filter(|job| job.state == Some(JobState::Failed));
    let kept: Vec<String> = failed.map(|job| job.jid.to_string()).collect();
    let mut places: Vec<_> = world.disks();
    places.push(world.path("storage.staging"));
    for member in &world.members {
        places.extend(["uploads", "access"].map(|name| world.path(&member.name).join(name)));
    }
    let until = Instant::now() + GONE_WITHIN;
    for place in places {
        let left = || {
            let mut left = below(&place);
            left.retain(|path| !path.starts_with('.') && !kept.iter().any(|jid| path.contains(jid.as_str())));
            left
        };
        while !left().is_empty() && Instant::now() < until {
            let_pass(LOOK).await;
        }
        if !left().is_empty() {
            world.book.breach(format!("left in {}: {:?}", place.display(), left()));
        }
    }
}

async fn children(world: &World, path: &str) -> Result<Vec<String>> {
    let found = world.patiently("a directory", || async {
        match world.session().children(path).await {
            Ok((names, _)) => Ok(names),
            Err(error) if error.kind() == Kind::NoNode => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    });
    found.await
}

/// Everything below a path.
fn below(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut found: Vec<_> =
            below(&entry.path()).into_iter().map(|inner| format!("{name}/{inner}")).collect();
        if found.is_empty() {
            found.push(name);
        }
        found
    };
    entries.flat_map(of).collect()
}
