//! What must be true when everything has healed, before a sweep is due: in the tree, in the inventory, in the storage, in the
//! mail, on the disks. Every breach is told; none ends the judging.
//!
//! Nodes look once when they start. That removes directories of attempts that died, which are counted and told; should one of them
//! ever have found a lock, that is a breach.

pub(crate) mod jobs;
mod leftovers;
mod mails;
mod objects;

use anyhow::Result;
use ingest_queue::dialect::Dialect;
use ingest_queue::fsck;

use super::settle::Reports;
use super::world::World;

/// What there was to judge.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Judged {
    pub(crate) batches: usize,
    pub(crate) jobs: usize,
    pub(crate) objects: usize,
    pub(crate) versions: usize,
    pub(crate) mails: usize,
    /// Directories of attempts that nodes have found at their start.
    pub(crate) directories: u64,
}

/// Judges everything.
pub(crate) async fn judge(world: &World, reports: &Reports) -> Result<Judged> {
    fsck_is_clean(world, "before a sweep").await;
    let all = jobs::all(world).await?;
    jobs::judge(world, &all).await?;
    jobs::count_misdeeds(world, &all);
    let objects = objects::judge(world, &all).await?;
    let mails = mails::judge(world, reports);
    leftovers::judge(world, &all).await?;
    nobody_panicked(world);
    let directories = cleaned_up(world);
    sweeps_heal_nothing(world).await;
    fsck_is_clean(world, "after the sweeps").await;
    nodes_end(world).await?;
    fsck_is_clean(world, "after the end of all nodes").await;
    let batches = world.ledger.made().len();
    Ok(Judged {
        batches,
        jobs: all.len(),
        objects: objects.objects,
        versions: objects.versions,
        mails,
        directories,
    })
}

async fn fsck_is_clean(world: &World, when: &str) {
    if let Err(findings) = fsck::clean(world.session(), Dialect::Design).await {
        world.book.breach(format!("fsck, {when}:\n{findings}"));
    }
}

fn nobody_panicked(world: &World) {
    for member in &world.members {
        // Reads what it has said last.
        member.tail.mark();
        for panic in member.tail.panics() {
            world.book.breach(format!("{} panicked: {panic}", member.name));
        }
    }
}

/// How many directories nodes have removed when they started or had missed events; nothing else was there to be cleaned up.
fn cleaned_up(world: &World) -> u64 {
    let mut directories = 0;
    for member in &world.members {
        let cleaned = member.tail.cleaned();
        directories += cleaned.directories;
        for line in cleaned.never {
            world.book.breach(format!("{} had to clean up what nobody leaves: {line}", member.name));
        }
    }
    directories
}

/// All nodes compare their index with the tree, and look for what nobody needs: there is nothing.
async fn sweeps_heal_nothing(world: &World) {
    const SWEPT: &str = "the index was compared with the tree";
    for member in &world.members {
        let mut node = member.node().await;
        let mark = member.tail.mark();
        node.change("upkeep.every", "1s");
        let within = std::time::Duration::from_mins(1);
        match member.tail.says(mark, within, |line| line["message"] == SWEPT).await {
            Some(swept) if swept["healed"] == 0 => {}
            Some(swept) => world.book.breach(format!("the sweep of {} healed: {swept}", member.name)),
            None => world.book.breach(format!("{} does not sweep", member.name)),
        }
        let cleaned = member.tail.since(mark, |line| line["message"] == "cleaned up");
        if let Some(cleaned) = cleaned.filter(|line| line["locks"] != 0 || line["directories"] != 0) {
            world.book.breach(format!("{} had something to clean up: {cleaned}", member.name));
        }
    }
}

/// Every node ends when it is told to, and leaves nothing of itself.
async fn nodes_end(world: &World) -> Result<()> {
    for member in &world.members {
        let code = member.node().await.drained().await;
        if code != 0 {
            world.book.breach(format!("{} ended with {code}: {}", member.name, member.tail.last(10)));
        }
        let entries = world.entries(&member.name).await?;
        if !entries.is_empty() {
            world.book.breach(format!("{} has ended and is registered: {entries:?}", member.name));
        }
    }
    Ok(())
}
