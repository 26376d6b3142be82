//! Which outcomes the sequences have reached: a comparison that never fails proves nothing if it
//! never tries.

use std::collections::BTreeMap;
use std::fmt;

use ingest_store::{Kind, Mode, Op};

use crate::canon::Answer;
use crate::generate::Step;

/// Every way in which an operation can be refused by the tree.
const PAIRS: &[(&str, &[Kind])] = &[
    ("get", &[Kind::NoNode]),
    ("children", &[Kind::NoNode]),
    ("create", &[Kind::NoNode, Kind::NodeExists, Kind::NoChildrenForEphemerals]),
    ("create ephemeral", &[Kind::NoNode, Kind::NodeExists, Kind::NoChildrenForEphemerals]),
    ("create sequential", &[Kind::NoNode, Kind::NodeExists, Kind::NoChildrenForEphemerals]),
    ("create ephemeral sequential", &[Kind::NoNode, Kind::NodeExists, Kind::NoChildrenForEphemerals]),
    ("set", &[Kind::NoNode, Kind::BadVersion]),
    ("delete", &[Kind::NoNode, Kind::BadVersion, Kind::NotEmpty]),
    ("multi check", &[Kind::NoNode, Kind::BadVersion]),
    ("multi create", &[Kind::NoNode, Kind::NodeExists, Kind::NoChildrenForEphemerals]),
    ("multi create ephemeral", &[Kind::NoNode, Kind::NodeExists, Kind::NoChildrenForEphemerals]),
    ("multi create sequential", &[Kind::NoNode, Kind::NodeExists, Kind::NoChildrenForEphemerals]),
    ("multi create ephemeral sequential", &[Kind::NoNode, Kind::NodeExists, Kind::NoChildrenForEphemerals]),
    ("multi set", &[Kind::NoNode, Kind::BadVersion]),
    ("multi delete", &[Kind::NoNode, Kind::BadVersion, Kind::NotEmpty]),
    ("old handle", &[Kind::Closed]),
];
const AT_LEAST: u32 = 20;

#[derive(Debug, Default)]
pub(crate) struct Coverage {
    outcomes: BTreeMap<(String, Option<Kind>), u32>,
}

impl Coverage {
    pub(crate) fn count(&mut self, step: &Step, answer: &Answer) {
        let refused = match answer {
            Answer::Refused(kind, op, _) => Some((*kind, *op)),
            _ => None,
        };
        let name = match step {
            Step::Get(..) => "get".to_owned(),
            Step::Exists(..) => "exists".to_owned(),
            Step::Children(..) => "children".to_owned(),
            Step::Ephemerals(..) => "ephemerals".to_owned(),
            Step::One(_, op) => name(op).to_owned(),
            Step::Multi(_, ops) => match refused.and_then(|(_, op)| op) {
                Some(op) => format!("multi {}", name(&ops[op])),
                None => "multi".to_owned(),
            },
            Step::WatchExists(..) => "watch".to_owned(),
            Step::EndSession(_) => "end session".to_owned(),
            Step::OldHandle(..) => "old handle".to_owned(),
        };
        *self.outcomes.entry((name, refused.map(|(kind, _)| kind))).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (outcome, count) in &other.outcomes {
            *self.outcomes.entry(outcome.clone()).or_default() += count;
        }
    }

    pub(crate) fn assert_complete(&self) {
        for (name, kinds) in PAIRS {
            for kind in *kinds {
                let seen = self.outcomes.get(&((*name).to_owned(), Some(*kind))).copied().unwrap_or(0);
                assert!(seen >= AT_LEAST, "{name} refused as {kind:?} only {seen} times\n{self}");
            }
        }
        for (name, kind) in self.outcomes.keys() {
            let Some(kind) = kind else { continue };
            let known = PAIRS.iter().any(|(pair, kinds)| pair == name && kinds.contains(kind));
            assert!(known, "{name} was refused as {kind:?}, which is not in the table");
        }
        let (all, succeeded) = self.totals();
        assert!(succeeded * 10 >= all * 4, "only {succeeded} of {all} operations succeeded\n{self}");
    }

    fn totals(&self) -> (u32, u32) {
        let succeeded = self.outcomes.iter().filter(|((_, kind), _)| kind.is_none()).map(|(_, n)| n).sum();
        (self.outcomes.values().sum(), succeeded)
    }
}

fn name(op: &Op) -> &'static str {
    match op {
        Op::Check { .. } => "check",
        Op::Create { mode: Mode::Persistent, .. } => "create",
        Op::Create { mode: Mode::Ephemeral, .. } => "create ephemeral",
        Op::Create { mode: Mode::PersistentSequential, .. } => "create sequential",
        Op::Create { mode: Mode::EphemeralSequential, .. } => "create ephemeral sequential",
        Op::Set { .. } => "set",
        Op::Delete { .. } => "delete",
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, succeeded) = self.totals();
        writeln!(f, "{all} operations, {succeeded} succeeded")?;
        for ((name, kind), count) in &self.outcomes {
            let outcome = kind.map_or("ok".to_owned(), |kind| format!("{kind:?}"));
            writeln!(f, "  {name:<34} {outcome:<24} {count:>7}")?;
        }
        Ok(())
    }
}
