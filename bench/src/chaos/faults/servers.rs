//! The ensemble: its leader is lost, its quorum is lost, all members are restarted one after the other.

use std::time::Duration;

use anyhow::{Result, ensure};
use ingest_harness::{Server, let_pass};

use super::super::member::LOST;
use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::{LOOK, World};

const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// Where the logs of all nodes are now.
fn marks(world: &World) -> Vec<usize> {
    world.members.iter().map(|member| member.tail.mark()).collect()
}

/// How many nodes have said since then that their connection is lost; waits for one.
async fn cut_off(world: &World, marks: &[usize]) -> usize {
    let lost = || {
        let pairs = world.members.iter().zip(marks);
        pairs.filter(|(member, mark)| member.tail.said(**mark, LOST)).count()
    };
    let until = std::time::Instant::now() + NOTICED_WITHIN;
    while lost() == 0 && std::time::Instant::now() < until {
        let_pass(LOOK).await;
    }
    lost()
}

pub(super) async fn leader(world: &World, planned: &Planned) -> Result<Outcome> {
    let marks = marks(world);
    let before = world.ensemble.kill_leader().await;
    let after = world.ensemble.leader().await;
    ensure!(before != after, "a dead member leads");
    let lost = cut_off(world, &marks).await;
    let_pass(planned.lasts).await;
    world.ensemble.heal().await;
    Ok(seen(lost, &format!("member {before} led, then member {after}")))
}

pub(super) async fn quorum(world: &World, planned: &Planned) -> Result<Outcome> {
    let marks = marks(world);
    let survivor = world.ensemble.lose_quorum().await;
    let lost = cut_off(world, &marks).await;
    let_pass(planned.lasts).await;
    let served = world.ensemble.server(survivor).is_serving().await;
    ensure!(!served, "one of three members serves");
    world.ensemble.heal().await;
    Ok(seen(lost, &format!("member {survivor} was left and did not serve")))
}

pub(super) async fn rolling(world: &World) -> Result<Outcome> {
    let marks = marks(world);
    let pids = || world.ensemble.servers().iter().map(Server::pid).collect::<Vec<_>>();
    let before = pids();
    world.ensemble.rolling_restart().await;
    ensure!(pids().iter().all(|pid| !before.contains(pid)), "a member was not restarted");
    Ok(seen(cut_off(world, &marks).await, "all members are new processes"))
}

fn seen(lost: usize, what: &str) -> Outcome {
    let text = format!("{what}; {lost} nodes lost their connection");
    if lost > 0 { Outcome::Witnessed(text) } else { Outcome::Missed(text) }
}
