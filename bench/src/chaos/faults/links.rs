//! The links between one node and the ensemble: cut, slow, or an answer does not come through.

use std::time::{Duration, Instant};

use anyhow::Result;
use ingest_harness::{Direction, Matcher, Proxy, RequestKind, let_pass};

use super::super::member::LOST;
use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::{LOOK, World};

const NOTICED_WITHIN: Duration = Duration::from_secs(10);
const TRIES: usize = 10;
const BETWEEN: Duration = Duration::from_millis(200);

/// All connections are closed; new ones too, for a while, or not.
pub(super) async fn cut(world: &World, planned: &Planned) -> Result<Outcome> {
    let member = &world.members[planned.node];
    let mark = member.tail.mark();
    if planned.variant.is_multiple_of(2) {
        member.links.iter().for_each(Proxy::cut);
        let_pass(planned.lasts).await;
        member.heal();
    } else {
        member.links.iter().for_each(Proxy::drop_connections);
    }
    let lost = member.tail.says(mark, NOTICED_WITHIN, |line| line["message"] == LOST).await;
    let what = format!("{} ({:?})", member.name, planned.lasts);
    Ok(if lost.is_some() { Outcome::Witnessed(what) } else { Outcome::Missed(what) })
}

/// Jobs move, and the answer is swallowed. Only what moves a job writes its history; gates and the taking of a lock do not.
pub(super) async fn lost_answer(world: &World, planned: &Planned) -> Result<Outcome> {
    let member = &world.members[planned.node];
    for _ in 0..TRIES {
        let moves = || Matcher::kind(RequestKind::Multi).with_path("/history");
        let traps: Vec<_> = member.links.iter().map(|link| link.drop_reply(moves())).collect();
        let until = Instant::now() + NOTICED_WITHIN;
        let sprung = loop {
            if let Some(trap) = traps.iter().find(|trap| trap.has_happened()) {
                break Some(trap.happened().await);
            }
            if Instant::now() >= until {
                break None;
            }
            let_pass(LOOK).await;
        };
        member.heal();
        // All or nothing: one that is not refused has moved the jobs whose histories are in it.
        if let Some(reply) = sprung.filter(|reply| reply.err == 0) {
            return Ok(Outcome::Witnessed(format!("{}, transaction {:#x}", member.name, reply.zxid)));
        }
        // It was refused, and is sent again: let that one come through.
        let_pass(BETWEEN).await;
    }
    Ok(Outcome::Missed(format!("{} committed nothing", member.name)))
}

/// Every frame comes later.
pub(super) async fn slow(world: &World, planned: &Planned) -> Result<Outcome> {
    let member = &world.members[planned.node];
    let delay = Duration::from_millis(u64::from(20 + planned.variant % 250));
    for link in &member.links {
        link.delay(Direction::Both, delay);
    }
    let before = member.multis();
    let until = Instant::now() + NOTICED_WITHIN;
    let_pass(planned.lasts).await;
    while member.multis() == before && Instant::now() < until {
        let_pass(LOOK).await;
    }
    let multis = member.multis() - before;
    member.heal();
    let text = format!("{}, {delay:?} each way, {multis} multis", member.name);
    Ok(if multis > 0 { Outcome::Witnessed(text) } else { Outcome::Missed(text) })
}
