//! The committer: every plan is applied once or refused, whatever gets lost and whoever else writes.

use futures::future::join_all;
use ingest_queue::committer::{Committer, Mark, Together, Unit};
use ingest_store::{Error, Op, Result};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::{Loss, ModelEngine, Turn};
use crate::runs::{cases, check, complete};

const NODES: u8 = 4;

/// What a plan wants, besides its tag and its mark.
#[derive(Debug, Clone, Copy)]
enum Wish {
    /// To set a node that others set too, at its first version or at any.
    Set { node: u8, any: bool },
    /// To make a node that others make too.
    Create { node: u8 },
    /// To remove one that others remove too: that is its mark.
    Remove { node: u8 },
}

#[derive(Debug, Clone)]
struct Case {
    /// Of two nodes: each commits on its own session.
    plans: [Vec<Vec<Wish>>; 2],
    turns: Vec<Turn>,
    together: Together,
}

fn wish() -> impl Strategy<Value = Wish> {
    let node = 0..NODES;
    prop_oneof![
        (node.clone(), any::<bool>()).prop_map(|(node, any)| Wish::Set { node, any }),
        node.clone().prop_map(|node| Wish::Create { node }),
        node.prop_map(|node| Wish::Remove { node }),
    ]
}

pub(crate) fn turns(calls: usize) -> impl Strategy<Value = Vec<Turn>> {
    let loss = prop_oneof![
        6 => Just(None),
        1 => Just(Some(Loss::Request)),
        1 => Just(Some(Loss::Answer)),
    ];
    vec((0..4_u8, loss).prop_map(|(after, loss)| Turn { after, loss }), 0..calls)
}

fn case() -> impl Strategy<Value = Case> {
    let plans = || vec(vec(wish(), 0..3), 1..9);
    (plans(), plans(), turns(30), 1..3_usize, 1..6_usize).prop_map(
        |(first, second, turns, in_flight, units)| Case {
            plans: [first, second],
            turns,
            together: Together { in_flight, units },
        },
    )
}

/// A plan: a tag by which it is known in the log, what it wants, and a mark.
fn unit(name: &str, wishes: &[Wish]) -> Unit {
    let mut ops = vec![Op::check(format!("/tags/{name}"), None)];
    let mut mark = None;
    for wish in wishes {
        ops.push(match wish {
            Wish::Set { node, any } => Op::set(format!("/sets/{node}"), name.to_owned(), (!any).then_some(0)),
            Wish::Create { node } => Op::create(format!("/creates/{node}"), name.to_owned()),
            Wish::Remove { node } => {
                mark = Some(Mark::Gone(format!("/removes/{node}")));
                Op::delete(format!("/removes/{node}"), None)
            }
        });
    }
    let mark = mark.unwrap_or_else(|| {
        ops.push(Op::create(format!("/marks/{name}"), format!("commit {name}")));
        Mark::holds(format!("/marks/{name}"), format!("commit {name}"))
    });
    Unit::new(ops, mark)
}

async fn run(case: Case) -> Result<(), String> {
    let engine = ModelEngine::new(20_000);
    for dir in ["tags", "sets", "creates", "removes", "marks"] {
        engine.write(&[Op::create(format!("/{dir}"), "")]);
    }
    for node in 0..NODES {
        engine.write(&[Op::create(format!("/sets/{node}"), ""), Op::create(format!("/removes/{node}"), "")]);
    }
    let mut commits = Vec::new();
    let mut names = Vec::new();
    for (side, plans) in case.plans.iter().enumerate() {
        let committer = Committer::start(engine.session().await, case.together);
        for (number, wishes) in plans.iter().enumerate() {
            let name = format!("{side}-{number}");
            engine.write(&[Op::create(format!("/tags/{name}"), "")]);
            let unit = unit(&name, wishes);
            names.push((name, unit.clone()));
            let committer = committer.clone();
            commits.push(async move { committer.commit(unit).await });
        }
    }
    engine.plan(case.turns);
    let results = join_all(commits).await;
    for ((name, unit), result) in names.iter().zip(results) {
        judge(&engine, name, unit, &result)?;
    }
    Ok(())
}

fn judge(engine: &ModelEngine, name: &str, unit: &Unit, result: &Result<()>) -> Result<(), String> {
    let tag = format!("/tags/{name}");
    let holds = |ops: &Vec<Op>| ops.iter().any(|op| op.path() == tag);
    let applied = engine.multis().iter().filter(|(ops, applied)| *applied && holds(ops)).count();
    let tree = engine.tree();
    let answer = |why: &str| Err(format!("{name} was applied {applied} times, {why}: {result:?}"));
    match (result, &unit.mark) {
        (Ok(()), Mark::Holds { .. }) if applied != 1 => answer("and is said to be done"),
        // What is gone is gone, by whomever.
        (Ok(()), Mark::Gone(path)) if applied > 1 || tree.get(path).is_some() => {
            answer("and is said to be done")
        }
        (Err(_), _) if applied != 0 => answer("and is said to be refused"),
        (Err(error), _) => index_is_its_own(unit, error).or_else(|why| answer(&why)),
        _ => Ok(()),
    }
}

fn index_is_its_own(unit: &Unit, error: &Error) -> Result<(), String> {
    let op = error.failed_op().and_then(|at| unit.ops.get(at)).ok_or("and its index is not in the plan")?;
    if error.path() == Some(op.path()) { Ok(()) } else { Err("and the index is of another operation".into()) }
}

#[test]
fn every_plan_is_applied_once_or_refused_whatever_gets_lost() {
    check(cases(500), &case(), |case| complete(run(case)));
}

/// Both in one multi; its answer is lost, and before it is sent again this is written.
async fn while_in_doubt(
    engine: &ModelEngine,
    units: [Unit; 2],
    meanwhile: Vec<Op>,
) -> (Result<()>, Result<()>) {
    let committer = Committer::start(engine.session().await, Together::default());
    engine.plan([Turn { after: 0, loss: Some(Loss::Answer) }]);
    engine.write_at_loss(meanwhile);
    let [first, second] = units;
    tokio::join!(committer.commit(first), committer.commit(second))
}

#[tokio::test]
async fn a_lock_that_was_taken_away_meanwhile_does_not_hide_that_the_others_were_applied() {
    let engine = ModelEngine::new(1000);
    engine.write(&[Op::create("/a", ""), Op::create("/b", "")]);
    let acquire = Unit::new(
        vec![Op::ephemeral("/lock", "ours"), Op::set("/a", "taken", 0)],
        Mark::holds("/lock", "ours"),
    );
    let moved = Unit::new(vec![Op::set("/b", "moved", 0)], Mark::holds("/b", "moved"));
    let meanwhile =
        vec![Op::delete("/lock", None), Op::set("/a", "forced", None), Op::create("/lock", "theirs")];
    let (_, moved) = while_in_doubt(&engine, [acquire, moved], meanwhile).await;
    moved.unwrap();
    assert_eq!(engine.tree().get("/lock").unwrap().data, "theirs", "it was taken away meanwhile");
    assert_eq!(engine.tree().get("/b").unwrap().version, 1);
}

#[tokio::test]
async fn what_another_has_removed_does_not_stand_for_what_is_still_there() {
    let engine = ModelEngine::new(1000);
    engine.write(&[Op::create("/x", ""), Op::create("/y", "")]);
    let remove = |path: &str| Unit::new(vec![Op::delete(path, None)], Mark::Gone(path.to_owned()));
    let committer = Committer::start(engine.session().await, Together::default());
    engine.plan([Turn { after: 0, loss: Some(Loss::Request) }]);
    engine.write_at_loss(vec![Op::delete("/x", None)]);
    let (_, second) = tokio::join!(committer.commit(remove("/x")), committer.commit(remove("/y")));
    second.unwrap();
    assert!(engine.tree().get("/y").is_none(), "it is said to be removed");
}
