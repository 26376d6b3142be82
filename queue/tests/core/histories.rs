//! Sequences of events, one after the other: after each of them only what the tables and the rules
//! allow has changed, what is refused has changed nothing, and the tree is whole.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use ingest_queue::dialect::Dialect;
use ingest_queue::states::States;
use proptest::prelude::*;

use crate::changes::{Commits, wrong_changes};
use crate::event::Event;
use crate::invariants::broken;
use crate::oracle::{Fate, Forecast, Scope, forecast};
use crate::phrases::phrases;
use crate::runs::{cases, check, complete};
use crate::tables::{ACCESS, BATCHES, JOBS, Row};
use crate::view::View;
use crate::world::World;

/// Enough to use nearly every row of the tables; with another seed other rows are left out.
const CASES: u32 = 80;
const UNUSED: usize = 8;

/// What was seen in all sequences together.
#[derive(Debug, Default)]
struct Seen {
    /// Moves, as `job pending held queue`.
    moves: BTreeSet<String>,
    /// Events by their name, done and refused.
    done: BTreeMap<String, u32>,
    refused: BTreeMap<String, u32>,
}

impl Seen {
    fn count(&mut self, event: &Event, result: bool) {
        let name = format!("{event:?}");
        let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
        *if result { self.done.entry(name) } else { self.refused.entry(name) }.or_default() += 1;
    }

    fn compare(&mut self, before: &View, after: &View, told: &Forecast) {
        let who = told.who.map(|who| who.to_string()).unwrap_or_default();
        for (jid, was) in &before.jobs {
            match after.jobs.get(jid) {
                Some(is) if is.name() != was.name() => self.moved("job", was.name(), is.name(), &who),
                Some(is) if is.refs.len() < was.refs.len() => self.moved("job", was.name(), "cleaned", &who),
                None if told.scope != Scope::Removal => self.moved("job", was.name(), "deleted", &who),
                _ => {}
            }
        }
        for (bid, was) in &before.batches {
            let to = after.batches.get(bid).map_or("deleted", |is| is.status.status.name());
            self.moved("batch", was.status.status.name(), to, &who);
        }
        for (id, was) in &before.access {
            let to = after.access.get(id).map_or("deleted", |is| is.status.status.name());
            self.moved("access", was.status.status.name(), to, &who);
        }
    }

    fn moved(&mut self, thing: &str, from: &str, to: &str, who: &str) {
        if from != to {
            self.moves.insert(format!("{thing} {from} {to} {who}"));
        }
    }

    /// The rows that no sequence has used.
    fn unused(&self, thing: &str, rows: &[Row], dialect: Dialect) -> Vec<String> {
        let rows = rows.iter().filter(|row| row.only.is_none_or(|only| only == dialect));
        let moves = rows.flat_map(|row| {
            let froms = row.from.split(' ');
            froms.flat_map(move |from| {
                row.to.split(' ').map(move |to| format!("{thing} {from} {to} {}", row.by))
            })
        });
        moves.filter(|one| !self.moves.contains(one)).collect()
    }
}

async fn live(dialect: Dialect, events: Vec<Event>, seen: &RefCell<Seen>) -> Result<(), String> {
    let mut world = World::new(dialect).await;
    let mut commits = Commits::new();
    for (number, event) in events.into_iter().enumerate() {
        let at = |wrong: Vec<String>| format!("event {number}, {event:?}:\n  {}", wrong.join("\n  "));
        if let Event::SessionDies { node } = event {
            world.restart(node).await;
            world.look();
        } else if let Some(call) = world.call(&event) {
            let before = world.engine.tree();
            let told = forecast(&world, &call);
            let (result, left) = call.run().await;
            world.take_back(left);
            let after = world.engine.tree();
            seen.borrow_mut().count(&event, result.is_ok());
            let old = world.look();
            seen.borrow_mut().compare(&old, &world.view, &told);
            let fits = match told.fate {
                Fate::Done => result.is_ok(),
                Fate::Refused | Fate::Poisoned => result.is_err(),
                Fate::Open => true,
            };
            let mut wrong = wrong_changes(
                (&before, &old),
                (&after, &world.view),
                &told,
                result.is_ok(),
                dialect,
                &mut commits,
            );
            if !fits {
                wrong.push(format!("it should be {:?}, and is {result:?}", told.fate));
            }
            if !wrong.is_empty() {
                return Err(at(wrong));
            }
        }
        let wrong = broken(&world.engine, &world.view, dialect);
        if !wrong.is_empty() {
            return Err(at(wrong));
        }
        if world.engine.went_in_circles() {
            return Err(at(vec!["it goes in circles".into()]));
        }
    }
    Ok(())
}

fn every_event_is_in_the_tables(dialect: Dialect) {
    let events = phrases(40).prop_map(|phrases| phrases.concat());
    let seen = RefCell::new(Seen::default());
    check(cases(CASES), &events, |events| complete(live(dialect, events, &seen)));
    if cases(CASES) < CASES {
        return;
    }
    let seen = seen.into_inner();
    let mut unused = seen.unused("job", JOBS, dialect);
    unused.extend(seen.unused("batch", BATCHES, dialect));
    unused.extend(seen.unused("access", ACCESS, dialect));
    // Where no job of this dialect comes.
    unused.retain(|row| dialect == Dialect::MrtZk || !row.starts_with("job storing"));
    assert!(
        unused.len() <= UNUSED,
        "no sequence has used {unused:?}, in {:?} and {:?}",
        seen.done,
        seen.refused
    );
}

#[test]
fn whatever_happens_only_the_tables_are_followed() {
    every_event_is_in_the_tables(Dialect::Design);
}

#[test]
fn whatever_happens_only_the_tables_are_followed_in_the_other_dialect() {
    every_event_is_in_the_tables(Dialect::MrtZk);
}
