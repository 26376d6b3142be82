//! The chaos run: `cargo run --release -p bench -- chaos --minutes N --seed S`.
//!
//! Three node processes, an ensemble of three, servers that misbehave, real steps. While deposits come in, faults are made as
//! the seed's schedule says, in three lanes side by side; each counts only with a witness. Then everything is healed, what
//! can end ends, and it is judged what is there.
//!
//! | to find | look in |
//! |---|---|
//! | the kinds of faults, how many, and their witnesses | [`kind`] |
//! | what is done when | [`schedule`] |
//! | the faults | [`faults`] |
//! | nodes, servers, links, disks | [`world`], [`member`], [`tail`] |
//! | what is deposited, where from, and who was told what | [`deposit`], [`source`], [`load`], [`people`] |
//! | the end, and what must be true then | [`settle`], [`judge`] |
//! | the counts, and how they are told | [`witness`], [`report`] |
//!
//! **When things break.** That is the subject. Whatever must not be is a breach: it is told when it is found and once more at
//! the end, with the seed, and the run ends with exit code 1. The logs of the nodes are kept then.

mod deposit;
mod faults;
mod judge;
mod kind;
mod load;
mod member;
mod people;
mod report;
mod schedule;
mod settle;
mod source;
mod tail;
mod witness;
mod world;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use ingest_harness::let_pass;
use tokio::task::JoinHandle;

use self::judge::Judged;
use self::kind::{KINDS, Kind, Lane};
use self::report::Ended;
use self::schedule::Planned;
use self::world::World;
use crate::Context;

/// How long faults are made again that were seen too rarely, beyond the length of the run. A slow machine needs more tries until a
/// fault hits something; a fault that is never seen must still end the run.
const AGAIN_FOR: Duration = Duration::from_mins(10);
/// How often it is told how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

pub(crate) async fn run(context: Context) -> Result<()> {
    let kinds = wanted(&context);
    let known: Vec<_> = KINDS.iter().map(|line| line.name).collect();
    ensure!(!kinds.is_empty(), "there is no such fault; there are: {}", known.join(", "));
    let program = crate::node::program()?;
    let (seed, length) = (context.seed, context.length);
    eprintln!(
        "chaos: seed {seed}, {:.1} minutes; the same schedule again: {}",
        minutes(length),
        replay(&context)
    );
    let world = Arc::new(World::start(&program, seed).await?);
    world.book.tell("three nodes are ready");
    let judged = live(&world, length, &kinds).await;
    // Last, and also if the judging broke off: a panic in a sweep or of a node that ends is a panic.
    judge::nobody_panicked(&world);
    world.book.judge_minimum(&kinds, length);
    let judged = judged.unwrap_or_else(|error| {
        world.book.breach(format!("{error:#}"));
        Judged::default()
    });
    tell_troubles(&world);
    let ended = Ended { seed, length, own_disks: world.own_disks, kinds: &kinds, judged, book: &world.book };
    println!("{}", if context.json { ended.lines()? } else { ended.table() });
    let breaches = world.book.breaches();
    if breaches.is_empty() {
        return Ok(());
    }
    world.keep_logs();
    let (replay, list) = (replay(&context), breaches.join("\n- "));
    bail!("{} breaches; replay with {replay}:\n- {list}", breaches.len());
}

fn wanted(context: &Context) -> Vec<Kind> {
    KINDS.iter().filter(|line| context.wants(line.name)).map(|line| line.kind).collect()
}

/// What makes the same schedule again, for a shell: it is a function of all of these.
fn replay(context: &Context) -> String {
    // Joined with its value, which may begin as an option does.
    let quoted = |case: &String| format!(" --case='{}'", case.replace('\'', r"'\''"));
    let case = context.case.as_ref().map(quoted).unwrap_or_default();
    format!("--minutes {} --seed {}{case}", minutes(context.length), context.seed)
}

fn minutes(length: Duration) -> f64 {
    length.as_secs_f64() / 60.0
}

/// The faults, the healing, and the judgement.
async fn live(world: &Arc<World>, length: Duration, kinds: &[Kind]) -> Result<Judged> {
    let of = Arc::clone(world);
    let misdeeds = if kinds.contains(&Kind::BadServer) { Kind::BadServer.minimum(length) } else { 0 };
    let load = tokio::spawn(async move { load::run(&of, length, misdeeds).await });
    let of = Arc::clone(world);
    let watch = Watch(tokio::spawn(async move { watch(&of).await }));
    let lanes = Lane::SCHEDULED.map(|lane| {
        let (world, plan) = (Arc::clone(world), schedule::lane(world.seed, length, kinds, lane));
        tokio::spawn(async move { drive(&world, length, plan).await })
    });
    for lane in lanes {
        lane.await?;
    }
    let rest = length.saturating_sub(world.book.elapsed());
    let_pass(rest).await;
    world.ledger.close();
    load.await??;
    drop(watch);
    world.book.tell("the faults are over; everything is healed");
    let reports = settle::settle(world).await?;
    world.book.tell("nothing is under way any more; it is judged what is there");
    judge::judge(world, &reports).await
}

/// Makes the faults of a lane, one after the other; then those again that were seen too rarely.
async fn drive(world: &Arc<World>, length: Duration, plan: Vec<Planned>) {
    for planned in &plan {
        let_pass(planned.at.saturating_sub(world.book.elapsed())).await;
        make(world, planned.clone()).await;
    }
    let is_rare = |kind: Kind| world.book.count(kind).witnessed < kind.minimum(length);
    let mut number = 0;
    while plan.iter().any(|planned| is_rare(planned.kind)) {
        number += 1;
        for planned in &plan {
            if world.book.elapsed() >= length + AGAIN_FOR {
                return;
            }
            if is_rare(planned.kind) {
                // Another node each time, and another variant: some variants need something that is not always there.
                let node = (planned.node + number) % world.members.len();
                let variant = planned.variant.wrapping_add(u32::try_from(number).unwrap_or(0));
                make(world, Planned { node, variant, ..planned.clone() }).await;
            }
        }
    }
}

async fn make(world: &Arc<World>, planned: Planned) {
    let (of, kind) = (Arc::clone(world), planned.kind);
    // Of its own, so that a harness that gives up takes nothing else with it.
    let made: JoinHandle<_> = tokio::spawn(async move { faults::make(&of, &planned).await });
    match made.await {
        Ok(Ok(outcome)) => world.book.enter(kind, &outcome),
        Ok(Err(error)) => world.book.breach(format!("{}: {error:#}", kind.name())),
        Err(panic) => world.book.breach(format!("{}: {panic}", kind.name())),
    }
}

/// Ends with the value.
struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells how far it is; a node that ends by itself is a breach.
async fn watch(world: &World) {
    let mut ended = vec![false; world.members.len()];
    loop {
        let_pass(PROGRESS).await;
        for (member, told) in world.members.iter().zip(&mut ended) {
            // One that somebody has is looked at by whoever has it.
            let Some(node) = member.idle_node() else { continue };
            let ended = member.ended_by_itself(&node);
            drop(node);
            let is_new = !std::mem::replace(told, ended.is_some());
            if let Some(ended) = ended.filter(|_| is_new) {
                world.book.breach(ended);
            }
        }
        if let Ok(under_way) = world.under_way().await {
            let made = world.ledger.made();
            let jobs: usize = made.iter().map(|made| made.deposit.rows.len()).sum();
            let (batches, seen) = (made.len(), world.book.seen());
            world
                .book
                .tell(&format!("{batches} batches, {jobs} jobs, {under_way} under way; {seen} faults seen"));
        }
    }
}

/// What the nodes complained of: not a breach by itself, and worth a look.
fn tell_troubles(world: &World) {
    for member in &world.members {
        let list = |counts: std::collections::BTreeMap<String, usize>| {
            counts.into_iter().map(|(what, count)| format!("{count} × {what}")).collect::<Vec<_>>().join("; ")
        };
        let (errors, restarts) = (list(member.tail.errors()), list(member.tail.restarts()));
        eprintln!("chaos: {}: restarts: {restarts}; errors: {errors}", member.name);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Args;
    use crate::load::Span;
    use crate::report::Report;

    fn context(seed: u64, length: Duration, case: Option<&str>) -> Context {
        Context {
            span: Span::measuring(Duration::from_secs(1)),
            case: case.map(str::to_owned),
            long: false,
            json: false,
            flame: None,
            seed,
            length,
            rows: None,
            docs: false,
            report: Report::new("chaos", false),
        }
    }

    /// What a shell makes of a line.
    fn words(line: &str) -> Vec<String> {
        let script = format!("printf '%s\\n' {line}");
        let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_told_to_replay_a_run_makes_the_same_schedule_again() {
        let lengths = [0.1, 0.7, 2.0, 30.0].map(|minutes: f64| Duration::from_secs_f64(minutes * 60.0));
        for length in lengths.into_iter().chain([Duration::from_secs(100)]) {
            for case in [None, Some("kill -9"), Some("lost"), Some("-9"), Some("node's")] {
                let first = context(417_903, length, case);
                let told = ["bench", "chaos"].map(str::to_owned).into_iter().chain(words(&replay(&first)));
                let args = Args::try_parse_from(told).unwrap();
                let again = Duration::from_secs_f64(args.minutes * 60.0);
                assert_eq!((args.seed, again, args.case.as_deref()), (Some(417_903), length, case));
                let again = context(417_903, again, args.case.as_deref());
                assert_eq!(wanted(&again), wanted(&first));
            }
        }
    }
}
