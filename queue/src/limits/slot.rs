//! One slot: where it is, who has it, and what becomes of it when whoever has it goes.

use std::sync::Arc;

use ingest_store::recipes::settle;
use ingest_store::{Kind as StoreKind, Mode, Op, Session, path};
use serde::{Deserialize, Serialize};

use super::Limits;
use super::rules::{Kind, Semaphore};
use crate::date::Date;
use crate::error::Result;
use crate::ids::Jid;
use crate::map;
use crate::nodes::{Json, Node as _, Other, Unreadable};

const HOLDER: &str = "holder";

/// Who has a slot, or had it last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Holding {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Jid>,
    pub node: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Date>,
    pub commit: String,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for Holding {}

/// A slot that this node has picked. Dropped before it was sent it is free again; after that it is looked for.
#[derive(Debug)]
pub(crate) struct Slot {
    limits: Arc<Limits>,
    /// Of its semaphore, in the tree.
    pub(crate) name: String,
    number: u32,
    /// Its node is there.
    pub(super) made: bool,
    /// The version of the rules that it was picked under.
    pub(super) rules: i32,
    /// It is in a multi that was or will be committed.
    pub(super) sent: bool,
    done: bool,
}

impl Slot {
    pub(super) fn new(limits: &Arc<Limits>, name: String, number: u32, made: bool, rules: i32) -> Self {
        Self { limits: limits.clone(), name, number, made, rules, sent: false, done: false }
    }

    pub(super) fn path(&self) -> String {
        slot_path(&self.name, self.number)
    }

    pub(crate) fn holder(&self) -> String {
        holder_of(&self.path())
    }

    pub(crate) fn release(&self) -> Op {
        Op::delete(self.holder(), None)
    }

    /// It is certain that the tree does not have it any more, or never had it.
    pub(crate) fn gone(mut self) {
        self.done = true;
        self.limits.put_back(&self.name, self.number);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if self.sent {
            self.limits.abandon(&self.name, self.number);
        } else {
            self.limits.put_back(&self.name, self.number);
        }
    }
}

/// `/semaphores/NAME/NNNN`.
pub(crate) fn slot_path(name: &str, number: u32) -> String {
    format!("{}/{name}/{}", map::SEMAPHORES, digits(number))
}

pub(crate) fn holder_of(slot: &str) -> String {
    path::join(slot, HOLDER)
}

pub(super) fn digits(number: u32) -> String {
    format!("{number:04}")
}

pub(crate) fn number(name: &str) -> Option<u32> {
    let number = name.parse().ok()?;
    (digits(number) == name).then_some(number)
}

/// The name of the semaphore that something below `/semaphores` belongs to.
pub(super) fn semaphore_of(path: &str) -> Option<&str> {
    path.strip_prefix(map::SEMAPHORES)?.strip_prefix('/')?.split('/').next()
}

/// What a path below `/semaphores` is: its semaphore, its slot, and whether it is a holder.
pub(crate) fn parts(path: &str) -> Option<(&str, u32, bool)> {
    let mut names = path.strip_prefix(map::SEMAPHORES)?.strip_prefix('/')?.split('/');
    let (name, slot) = (names.next()?, number(names.next()?)?);
    match (names.next(), names.next()) {
        (None, _) => Some((name, slot, false)),
        (Some(HOLDER), None) => Some((name, slot, true)),
        _ => None,
    }
}

/// The node of a semaphore says its full name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Named {
    pub kind: String,
    pub name: String,
}

impl Json for Named {}

impl Named {
    /// By the name of its node; one that did not fit a path is lost.
    pub(crate) fn of(node_name: &str) -> Self {
        let (kind, name) = node_name.split_once('-').unwrap_or(("name", node_name));
        let kind = Kind::from_name(kind).unwrap_or(Kind::Name);
        Self { kind: kind.name().to_owned(), name: name.to_owned() }
    }

    pub(crate) fn sound(self) -> Result<Self, Unreadable> {
        match Kind::from_name(&self.kind) {
            Some(_) if !self.name.is_empty() => Ok(self),
            _ => Err(Unreadable(format!("`{}` of `{}` is no semaphore", self.name, self.kind))),
        }
    }
}

pub(super) async fn make(session: &Session, semaphore: &Semaphore) -> Result<()> {
    let named = Named { kind: semaphore.kind.name().into(), name: semaphore.name.clone() };
    let data = named.write(crate::dialect::Dialect::Design);
    let create = || session.create(semaphore.path(), data.clone(), Mode::Persistent);
    match settle(session, create).await.answer {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == StoreKind::NodeExists => Ok(()),
        Err(error) => Err(error.into()),
    }
}
