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
use super::tail::{Cleaned, Tail};
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

/// Everything that the nodes have said until now, so this comes when they have ended.
pub(crate) fn nobody_panicked(world: &World) {
    for member in &world.members {
        for panic in panics(&member.name, &member.tail) {
            world.book.breach(panic);
        }
    }
}

fn panics(name: &str, tail: &Tail) -> Vec<String> {
    // Reads what it has said last.
    tail.mark();
    tail.panics().into_iter().map(|panic| format!("{name} panicked: {panic}")).collect()
}

/// How many directories nodes have removed until now.
fn directories(world: &World) -> u64 {
    world.members.iter().map(|member| member.tail.cleaned().directories).sum()
}

fn cleaned_up(world: &World, before: u64) {
    let cleaned: Vec<_> =
        world.members.iter().map(|member| (member.name.as_str(), member.tail.cleaned())).collect();
    for wrong in found_by_sweeps(&cleaned, before) {
        world.book.breach(wrong);
    }
}

/// Nodes have cleaned up nothing but directories, and those when they started or had missed events: the sweeps at the end found none.
fn found_by_sweeps(cleaned: &[(&str, Cleaned)], before: u64) -> Vec<String> {
    let mut wrongs = Vec::new();
    for (name, cleaned) in cleaned {
        let lines = cleaned.never.iter();
        wrongs.extend(lines.map(|line| format!("{name} had to clean up what nobody leaves: {line}")));
    }
    let after: u64 = cleaned.iter().map(|(_, cleaned)| cleaned.directories).sum();
    if after != before {
        wrongs.push(format!("the sweeps have found {} directories", after.saturating_sub(before)));
    }
    wrongs
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
        let node = member.node().await;
        if let Some(ended) = member.ended_by_itself(&node) {
            // Nobody watches any more, and there is nobody to be told to end.
            world.book.breach(ended);
            continue;
        }
        let code = node.drained().await;
        if code != 0 {
            member.tail.mark();
            world.book.breach(format!("{} ended with {code}: {}", member.name, member.tail.last(10)));
        }
        let entries = world.entries(&member.name).await?;
        if !entries.is_empty() {
            world.book.breach(format!("{} has ended and is registered: {entries:?}", member.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_after_everything_else_was_judged_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        let said = "{\"message\":\"draining\"}\n";
        std::fs::write(&file, said).unwrap();
        let tail = Tail::new(file.clone());
        assert!(panics("node-1", &tail).is_empty());
        std::fs::write(&file, format!("{said}thread 'sweep' panicked at sweep.rs:1:\nno bread\n")).unwrap();
        assert_eq!(panics("node-1", &tail), ["node-1 panicked: thread 'sweep' panicked at sweep.rs:1:"]);
    }

    #[test]
    fn sweeps_that_found_something_are_told_and_directories_of_starts_are_not() {
        let clean = |directories| Cleaned { directories, never: Vec::new() };
        assert!(found_by_sweeps(&[("node-1", clean(2)), ("node-2", clean(3))], 5).is_empty());
        let more = found_by_sweeps(&[("node-1", clean(2)), ("node-2", clean(4))], 5);
        assert_eq!(more, ["the sweeps have found 1 directories"]);
        let lock = Cleaned { directories: 0, never: vec!["a lock".into()] };
        assert_eq!(
            found_by_sweeps(&[("node-1", lock)], 0),
            ["node-1 had to clean up what nobody leaves: a lock"]
        );
    }
}
