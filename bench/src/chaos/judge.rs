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
use reqwest::Method;
use serde_json::{Value, json};

use super::people;
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
    let mails = mails::judge(world, reports, &all);
    leftovers::judge(world, &all).await?;
    nobody_panicked(world);
    let directories = directories(world);
    sweeps_heal_nothing(world).await?;
    fsck_is_clean(world, "after the sweeps").await;
    nodes_end(world).await?;
    cleaned_up(world, directories);
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

/// How many directories nodes have removed until now.
fn directories(world: &World) -> u64 {
    world.members.iter().map(|member| member.tail.cleaned().directories).sum()
}

/// Nodes have cleaned up nothing but directories, and those when they started or had missed events: the sweeps at the end found none.
fn cleaned_up(world: &World, before: u64) {
    for member in &world.members {
        for line in member.tail.cleaned().never {
            world.book.breach(format!("{} had to clean up what nobody leaves: {line}", member.name));
        }
    }
    let after = directories(world);
    if after != before {
        world.book.breach(format!("the sweeps have found {} directories", after - before));
    }
}

/// All nodes compare their index with the tree, and look for what nobody needs; one looks for what all have left. There is nothing:
/// what they find is in their logs ([`cleaned_up`]).
async fn sweeps_heal_nothing(world: &World) -> Result<()> {
    const SWEPT: [&str; 2] =
        ["the index was compared with the tree", "the sweep found what no event had told of"];
    for member in &world.members {
        let mut node = member.node().await;
        let mark = member.tail.mark();
        node.change("upkeep.every", "1s");
        let within = std::time::Duration::from_mins(1);
        let is_swept = |line: &Value| line["message"].as_str().is_some_and(|said| SWEPT.contains(&said));
        if member.tail.says(mark, within, is_swept).await.is_none() {
            world.book.breach(format!("{} does not sweep", member.name));
        }
    }
    for routine in ["semaphores", "keys", "requests"] {
        let path = format!("/api/v1/upkeep/{routine}/run");
        let ran = people::insist(world, 0, Method::POST, &path, Some(&json!({}))).await?;
        if ran["removed"] != 0 {
            world.book.breach(format!("the routine for {routine} had something to remove: {ran}"));
        }
    }
    Ok(())
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
