//! Node processes: killed, stopped until their session is over, replaced by another of the same name, drained and started again.
//!
//! A process that was killed is registered until its session is over, so what is seen of a name may be its predecessor's. The sessions
//! of the dead are remembered: they are no witness of what is done to those after them.
//!
//! Whoever does something to a process has it alone, so one that does not run then has ended by itself: that is a breach, and is
//! looked for before each fault, which would hide it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ingest_harness::let_pass;
use ingest_queue::date::{Clock, Date};
use ingest_queue::ids::Jid;

use super::super::member::{Member, OVER};
use super::super::schedule::Planned;
use super::super::witness::Outcome;
use super::super::world::{LOOK, World};

/// How often a fault is made again that has hit nothing.
const TRIES: usize = 3;
/// How long a node is waited for to have something to do.
const BUSY_WITHIN: Duration = Duration::from_secs(8);
/// The exit code of a node whose grace was over.
const GRACE_OVER: i32 = 6;
/// How long the server may take to end a session: its timeout, and elections meanwhile.
const OVER_WITHIN: Duration = Duration::from_mins(2);

/// The sessions of the process that lives under a name.
async fn living(world: &World, member: &Member) -> Result<Vec<i64>> {
    let entries = world.entries(&member.name).await?;
    Ok(entries.into_iter().map(|(_, session)| session).filter(|session| !member.is_dead(*session)).collect())
}

/// Waits until a node is at work, and answers its sessions.
async fn busy(world: &World, member: &Member) -> Result<Vec<i64>> {
    let until = Instant::now() + BUSY_WITHIN;
    loop {
        let sessions = living(world, member).await?;
        if !world.locks_of(&sessions).await?.is_empty() || Instant::now() >= until {
            return Ok(sessions);
        }
        let_pass(LOOK).await;
    }
}

fn some(jids: &[Jid]) -> String {
    let names: Vec<_> = jids.iter().take(2).map(Jid::to_string).collect();
    format!("{} locks ({}{})", jids.len(), names.join(", "), if jids.len() > 2 { ", …" } else { "" })
}

/// `kill -9`, and another process in its place.
pub(super) async fn kill(world: &World, planned: &Planned) -> Result<Outcome> {
    let member = &world.members[planned.node];
    let mut node = member.node().await;
    for _ in 0..TRIES {
        let sessions = busy(world, member).await?;
        if member.is_revived(&world.book, &mut node, &sessions).await? {
            continue;
        }
        let mark = member.tail.mark();
        node.process.kill().await;
        member.bury(&sessions);
        // What it holds now it holds until the server ends its session.
        let held = world.locks_of(&sessions).await?;
        node.start_again();
        member.ready(mark).await.with_context(|| format!("{} was killed", member.name))?;
        if !held.is_empty() {
            return Ok(Outcome::Witnessed(format!("{} had {}", member.name, some(&held))));
        }
    }
    Ok(Outcome::Missed(format!("{} held nothing", member.name)))
}

/// `SIGSTOP` until the server has ended its session, and a little longer.
pub(super) async fn freeze(world: &World, planned: &Planned) -> Result<Outcome> {
    let member = &world.members[planned.node];
    let mut node = member.node().await;
    let mut tries = 0..TRIES;
    let (mark, sessions, held) = loop {
        if tries.next().is_none() {
            return Ok(Outcome::Missed(format!("{} held nothing", member.name)));
        }
        let sessions = busy(world, member).await?;
        if member.is_revived(&world.book, &mut node, &sessions).await? {
            continue;
        }
        let mark = member.tail.mark();
        node.process.pause().await;
        // From here on it is the server alone that takes anything of it away.
        let sessions = living(world, member).await?;
        let held = world.locks_of(&sessions).await?;
        if !held.is_empty() {
            break (mark, sessions, held);
        }
        // It had just given back what it had: one that holds nothing proves nothing.
        node.process.resume();
    };
    let until = Instant::now() + OVER_WITHIN;
    while !world.entries(&member.name).await?.is_empty() {
        ensure!(Instant::now() < until, "the session of {}, which is stopped, does not end", member.name);
        let_pass(LOOK).await;
    }
    let left = world.locks_of(&sessions).await?;
    ensure!(left.is_empty(), "locks of a session that is over: {left:?}");
    let_pass(planned.lasts).await;
    node.process.resume();
    let over = member.tail.says(mark, OVER_WITHIN, |line| line["message"] == OVER).await;
    ensure!(over.is_some(), "{} does not notice that its session is over", member.name);
    let until = Instant::now() + OVER_WITHIN;
    while world.entries(&member.name).await?.is_empty() {
        ensure!(node.process.is_running(), "{} ended after its session", member.name);
        ensure!(Instant::now() < until, "{} does not come back after its session", member.name);
        let_pass(LOOK).await;
    }
    Ok(Outcome::Witnessed(format!("{} had {}, all taken away; it came back", member.name, some(&held))))
}

/// Another machine of the same name: it knows nothing of what the dead one had on its disks.
pub(super) async fn replace(world: &World, planned: &Planned) -> Result<Outcome> {
    let member = &world.members[planned.node];
    let mut node = member.node().await;
    let mut last = String::new();
    for _ in 0..TRIES {
        let sessions = busy(world, member).await?;
        if member.is_revived(&world.book, &mut node, &sessions).await? {
            continue;
        }
        let mark = member.tail.mark();
        node.process.kill().await;
        member.bury(&sessions);
        let held = world.locks_of(&sessions).await?;
        member.move_to_new_disks(&mut node, world.own_disks)?;
        node.start_again();
        let together = side_by_side(world, member, &sessions).await?;
        member.ready(mark).await.with_context(|| format!("{} was replaced", member.name))?;
        last = format!("{} had {}", member.name, some(&held));
        if together && !held.is_empty() {
            return Ok(Outcome::Witnessed(format!("{last}; both were registered")));
        }
    }
    Ok(Outcome::Missed(format!("{last}, and was gone before its successor was there")))
}

/// `SIGTERM`, as before an upgrade, and another process in its place.
pub(super) async fn drain(world: &World, planned: &Planned) -> Result<Outcome> {
    let member = &world.members[planned.node];
    let mut node = member.node().await;
    let mut last = String::new();
    for _ in 0..TRIES {
        let sessions = busy(world, member).await?;
        let held = world.locks_of(&sessions).await?;
        if member.is_revived(&world.book, &mut node, &sessions).await? {
            continue;
        }
        let mark = member.tail.mark();
        let code = node.drained().await;
        // Without a quorum nobody can give anything back: then the server does it, when it has ended the session.
        let alone = member.tail.said(mark, OVER);
        let left =
            if code == 0 && !alone { left_by(world, member, &sessions).await? } else { Left::default() };
        member.bury(&sessions);
        node.start_again();
        // The grace may be over while the tree is away: then what ran was given back or ended, and it says so.
        ensure!(matches!(code, 0 | GRACE_OVER), "{} was drained, and ended with {code}", member.name);
        ensure!(left.locks.is_empty(), "{} was drained, and has left {}", member.name, some(&left.locks));
        member.ready(mark).await.with_context(|| format!("{} was drained", member.name))?;
        last = format!("{} had {}, and ended with {code}", member.name, some(&held));
        if code == 0 && !alone && !left.lost_before && !held.is_empty() {
            return Ok(Outcome::Witnessed(last));
        }
    }
    Ok(Outcome::Missed(last))
}

/// What a node has left that has ended.
#[derive(Debug, Default)]
struct Left {
    locks: Vec<Jid>,
    /// Some were of a session that the node had given up before, and that the servers had not ended yet.
    lost_before: bool,
}

async fn left_by(world: &World, member: &Member, sessions: &[i64]) -> Result<Left> {
    // What the node has given back may not have come to the server that is asked.
    world.patiently("the newest there is", || world.session().sync()).await?;
    let locks = world.locks_of(sessions).await?;
    // Without a quorum a node gives its session up when its time is over; the servers only when they have a leader again.
    let over_within = i64::try_from(OVER_WITHIN.as_millis()).unwrap_or(i64::MAX);
    let lately = Date::from_millis(Clock::system().now().millis().saturating_sub(over_within));
    let lost_before = !locks.is_empty() && member.tail.said_after(lately, OVER);
    let until = Instant::now() + OVER_WITHIN;
    let mut left = Left { locks, lost_before };
    while lost_before && !left.locks.is_empty() && Instant::now() < until {
        let_pass(LOOK).await;
        left.locks = world.locks_of(sessions).await?;
    }
    Ok(left)
}

/// Whether the new one is registered while the old one still is.
async fn side_by_side(world: &World, member: &Member, old: &[i64]) -> Result<bool> {
    loop {
        let entries = world.entries(&member.name).await?;
        let (before, after): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(_, session)| old.contains(session));
        if before.is_empty() || !after.is_empty() {
            return Ok(!before.is_empty());
        }
        let_pass(LOOK).await;
    }
}
