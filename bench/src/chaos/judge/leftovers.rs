//! Nothing is left behind: locks, slots, management requests (nobody makes any here), working directories, files that were begun.

use std::io::ErrorKind;
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
/// The file that says to which repository a directory belongs.
const REPOSITORY: &str = ".ingestd-repository.json";
/// What says which file system a working directory is.
const FILE_SYSTEM: &str = ".ingest-file-system";
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
            // Of a machine that was replaced nothing is there any more, and nobody needs to have made it.
            unwanted(below(&place).unwrap_or_else(|error| vec![format!("({error})")]), &kept)
        };
        while !left().is_empty() && Instant::now() < until {
            let_pass(LOOK).await;
        }
        if !left().is_empty() {
            world.book.breach(format!("left in {}: {:?}", place.display(), left()));
        }
    }
}

/// What nobody needs, of what is there: not the files of these jobs.
fn unwanted(mut found: Vec<String>, kept: &[String]) -> Vec<String> {
    found.retain(|path| {
        path != FILE_SYSTEM && path != REPOSITORY && !kept.iter().any(|jid| path.contains(jid.as_str()))
    });
    found
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
fn below(path: &Path) -> std::io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // One that goes just now is not left.
        let inner = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&entry.path())?
        } else {
            Vec::new()
        };
        if inner.is_empty() {
            found.push(name);
        } else {
            found.extend(inner.into_iter().map(|inner| format!("{name}/{inner}")));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_empty_directories_are_left_and_what_cannot_be_read_is_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("bid1/empty")).unwrap();
        std::fs::write(dir.path().join("bid1/.manifest.ingest-part"), "x").unwrap();
        std::fs::write(dir.path().join(FILE_SYSTEM), "x").unwrap();
        let mut found = below(dir.path()).unwrap();
        found.sort();
        assert_eq!(found, [FILE_SYSTEM, "bid1/.manifest.ingest-part", "bid1/empty"]);
        assert!(below(&dir.path().join("nowhere")).unwrap().is_empty());
        assert!(below(&dir.path().join(FILE_SYSTEM)).is_err());
    }

    #[test]
    fn only_the_files_of_jobs_that_have_failed_may_stay() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = [FILE_SYSTEM, "bid1/jid0000000004/a", "bid1/jid0000000005/a", "bid1/.ingest-file-system"];
        let left = unwanted(names(&found), &names(&["jid0000000004"]));
        assert_eq!(left, ["bid1/jid0000000005/a", "bid1/.ingest-file-system"]);
        assert_eq!(unwanted(names(&["(permission denied)"]), &[]), ["(permission denied)"]);
    }
}
