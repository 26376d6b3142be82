//! What a check says: findings, and what became of them in a repair.

use std::fmt;

use bytes::Bytes;

use super::code::{Code, Severity};
use super::thing::Thing;

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Finding {
    pub code: Code,
    pub severity: Severity,
    /// The node that is wrong, missing or too much.
    pub path: String,
    /// What is wrong with it, in a sentence.
    pub what: String,
    /// What a repair does about it, or what a person has to do.
    pub repair: String,
    /// A repair leaves it as it is.
    pub by_hand: bool,
    /// What is looked at again to repair it; absent: it was found by a comparison with something outside of the tree.
    #[serde(skip)]
    pub(super) thing: Option<Thing>,
}

impl Finding {
    /// What a comparison of the tree with something outside of it has found. [`super::repair()`] leaves it to the caller.
    pub fn outside(code: Code, path: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            path: path.into(),
            what: what.into(),
            repair: code.repair().to_owned(),
            by_hand: code.repair().starts_with("none"),
            thing: None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, severity, path, what, repair, .. } = self;
        write!(f, "{code} {severity} {path}: {what}; repair: {repair}")
    }
}

/// What a judge says of a thing, before it is confirmed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) code: Code,
    pub(super) path: String,
    pub(super) what: String,
    pub(super) fix: Fix,
    /// Data that goes to the quarantine, and why.
    pub(super) keep: Option<Kept>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    pub(super) why: String,
    pub(super) data: Bytes,
}

/// How it is put right.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fix {
    /// Not by this program: what a person does.
    Person(&'static str),
    /// Together with everything else of its job.
    Together,
    /// The node is made (`None`) or set at its version.
    Write { version: Option<i32>, data: Bytes },
    /// The node is removed at its version.
    Remove { version: i32 },
    /// Parts that nobody announces are collected.
    Collect,
}

impl Verdict {
    pub(super) fn new(code: Code, path: impl Into<String>, what: impl Into<String>, fix: Fix) -> Self {
        Self { code, path: path.into(), what: what.into(), fix, keep: None }
    }

    pub(super) fn keeping(mut self, why: impl Into<String>, data: Bytes) -> Self {
        self.keep = Some(Kept { why: why.into(), data });
        self
    }

    pub(super) fn is_by_hand(&self) -> bool {
        matches!(self.fix, Fix::Person(_))
    }

    pub(super) fn finding(self, thing: &Thing) -> Finding {
        let (repair, by_hand) = match self.fix {
            Fix::Person(what) => (what, true),
            _ => (self.code.repair(), false),
        };
        Finding {
            code: self.code,
            severity: self.code.severity(),
            path: self.path,
            what: self.what,
            repair: repair.to_owned(),
            by_hand,
            thing: Some(thing.clone()),
        }
    }
}

/// What became of a finding.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Repaired {
    pub code: Code,
    pub path: String,
    pub outcome: Outcome,
    /// What was done, or why not, for people.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is put right.
    Fixed,
    /// It was right already when it was looked at again.
    Gone,
    /// Somebody is at work on it; repair it when they have ended.
    Busy,
    /// A person must look.
    ByHand,
    /// It could not be put right; the reason is told.
    Left,
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Fixed => "fixed",
            Outcome::Gone => "gone",
            Outcome::Busy => "busy",
            Outcome::ByHand => "by hand",
            Outcome::Left => "left",
        };
        write!(f, "{} {outcome} {}: {}", self.code, self.path, self.what)
    }
}
