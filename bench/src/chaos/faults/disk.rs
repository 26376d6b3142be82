//! The working disk is full: something takes all that working files may take (`work.quota`).

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ingest_harness::let_pass;
use rustix::fs::{FallocateFlags, fallocate};

use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::{LOOK, QUOTA, World};

const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// What takes the room. It goes with the value.
struct Ballast(PathBuf);

impl Ballast {
    /// Nothing, if its node is just being replaced: then its disk is not there yet.
    fn load(disk: &std::path::Path) -> Result<Option<Self>> {
        let ballast = Self(disk.join(".ballast"));
        let file = match std::fs::File::create(&ballast.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.with_context(|| ballast.0.display().to_string())?,
        };
        fallocate(&file, FallocateFlags::empty(), 0, QUOTA).context("no room for the ballast")?;
        Ok(Some(ballast))
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) async fn full(world: &World, planned: &Planned) -> Result<Outcome> {
    let disks = world.disks();
    let ballast = disks.iter().map(|disk| Ballast::load(disk)).collect::<Result<Vec<_>>>()?;
    if ballast.iter().all(Option::is_none) {
        return Ok(Outcome::Missed("there was no disk to fill".into()));
    }
    let marks: Vec<usize> = world.members.iter().map(|member| member.tail.mark()).collect();
    let until = Instant::now() + NOTICED_WITHIN;
    let waiting = loop {
        let said = world.members.iter().zip(&marks).find_map(|(member, mark)| {
            let line = member.tail.since(*mark, |line| line["message"] == "jobs wait for room")?;
            Some(format!("{}: {} jobs, {}", member.name, line["jobs"], line["why"]))
        });
        if said.is_some() || Instant::now() >= until {
            break said;
        }
        let_pass(LOOK).await;
    };
    let_pass(planned.lasts).await;
    drop(ballast);
    Ok(waiting.map_or_else(|| Outcome::Missed("no job needed room".into()), Outcome::Witnessed))
}
