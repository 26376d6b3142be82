//! Several events at once, their calls in any order, some of them lost: the tree is whole afterwards, and
//! what was said to be done was done once.

use std::collections::BTreeSet;

use futures::future::join_all;
use ingest_queue::dialect::Dialect;
use ingest_queue::plan::job::Action;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::call::Call;
use crate::commits::turns;
use crate::event::{Event, JobStep, event};
use crate::invariants::broken;
use crate::model::Turn;
use crate::phrases::phrases;
use crate::runs::{cases, check, complete};
use crate::view::View;
use crate::world::World;

/// At once, and how the calls fare.
type Crowd = (Vec<Event>, Vec<Turn>);

/// Whether the call, if it is done, adds one entry to the history of a job.
fn is_noted(call: &Call) -> bool {
    match call {
        Call::WithJob { held, step } => match step {
            JobStep::Succeed | JobStep::Fail { .. } | JobStep::HandOver | JobStep::Advance { .. } => true,
            JobStep::SetPriority(priority) => *priority != held.lease.job().priority,
            JobStep::GiveBack | JobStep::Write | JobStep::Gate => false,
        },
        Call::Act { action, .. } => !matches!(action, Action::Delete | Action::Expire),
        _ => false,
    }
}

/// All commits in the histories of these jobs, but those by which a job failed as poison.
fn commits(view: &View) -> BTreeSet<String> {
    let entries = view.jobs.values().flat_map(|job| &job.history);
    entries.filter(|entry| !entry.message.starts_with("poison")).map(|entry| entry.commit.clone()).collect()
}

async fn crowd(world: &mut World, events: &[Event]) -> Result<(), String> {
    let calls: Vec<_> = events.iter().filter_map(|event| world.call(event)).collect();
    let noted: Vec<bool> = calls.iter().map(is_noted).collect();
    let acts: Vec<Option<String>> = calls
        .iter()
        .map(|call| if let Call::Act { commit, .. } = call { Some(commit.clone()) } else { None })
        .collect();
    let (results, left): (Vec<_>, Vec<_>) =
        join_all(calls.into_iter().map(Call::run)).await.into_iter().unzip();
    for left in left {
        world.take_back(left);
    }
    world.engine.plan([]);
    let before = world.look();
    let mut wrong = broken(&world.engine, &world.view, world.dialect);
    let all_there = before.jobs.keys().all(|jid| world.view.jobs.contains_key(jid));
    let after = commits(&world.view);
    // Old entries may leave a full history.
    let added = after.difference(&commits(&before)).count();
    let done = results.iter().zip(&noted).filter(|(result, noted)| result.is_ok() && **noted).count();
    if all_there && added != done {
        wrong.push(format!("{done} were done and {added} are in the histories"));
    }
    for (commit, result) in
        acts.iter().zip(&results).filter_map(|(commit, result)| Some((commit.as_ref()?, result)))
    {
        if result.is_err() && after.contains(commit) {
            wrong.push(format!("{commit} was refused and is in a history"));
        }
    }
    if world.engine.went_in_circles() {
        wrong.push("it goes in circles".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{events:?}: {results:?}:\n  {}", wrong.join("\n  "))) }
}

async fn live(dialect: Dialect, before: Vec<Event>, crowds: Vec<Crowd>) -> Result<(), String> {
    let mut world = World::new(dialect).await;
    for event in before {
        crowd(&mut world, &[event]).await?;
    }
    for (events, turns) in crowds {
        if let [Event::SessionDies { node }, ..] = events[..] {
            world.restart(node).await;
            world.look();
        }
        world.engine.plan(turns);
        crowd(&mut world, &events).await?;
    }
    Ok(())
}

fn many_at_once(dialect: Dialect) {
    let crowds = vec((vec(event(), 2..5), turns(60)), 1..8);
    let strategy = (phrases(12).prop_map(|phrases| phrases.concat()), crowds);
    check(cases(120), &strategy, |(before, crowds)| complete(live(dialect, before, crowds)));
}

#[test]
fn events_at_once_and_lost_answers_leave_the_tree_whole() {
    many_at_once(Dialect::Design);
}

#[test]
fn events_at_once_and_lost_answers_leave_the_tree_whole_in_the_other_dialect() {
    many_at_once(Dialect::MrtZk);
}
