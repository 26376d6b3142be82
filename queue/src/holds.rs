//! Holds of a person on a queue or a collection.
//!
//! A hold on a queue stops acquiring in pending and moves nothing. A hold on a collection moves its
//! pending batches and jobs to held, as they come up. Work past pending goes on.
//!
//! Every hold that is set or lifted here also bumps the version of the directory that it lies in. Who moves
//! a job out of pending, or out of held, checks those versions: no job slips past a hold that was
//! set before, and none gets stuck behind one that was lifted. Other programs that share the tree do not bump
//! them; in their dialect the holds are read anew each time.
//!
//! **When things break.** A lost answer is settled by looking at the hold itself.

mod all;

use std::collections::BTreeMap;
use std::sync::Arc;

use ingest_store::recipes::settle;
use ingest_store::{Kind, Op, path};

pub use all::{ReleasedAll, StillHeld};

use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::map::{self, HeldQueue};
use crate::nodes::{Hold, Node};
use crate::queue::Queue;

/// All holds, as they were at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Holds {
    queues: BTreeMap<&'static str, Hold>,
    /// By their name in the path.
    collections: BTreeMap<String, Hold>,
    queue_version: i32,
    collection_version: i32,
}

impl Holds {
    /// Why a queue is held.
    pub fn queue(&self, queue: HeldQueue) -> Option<String> {
        self.queues.get(queue.name()).map(reason)
    }

    /// Why a collection is held. Of two names that share a path, only the one that is named in the hold
    /// is held; a hold that names none holds both.
    pub fn collection(&self, mnemonic: &str) -> Option<String> {
        let hold = self.collections.get(&map::escape(mnemonic))?;
        (hold.name.is_empty() || hold.name == mnemonic).then(|| reason(hold))
    }

    pub fn any_collection(&self) -> bool {
        !self.collections.is_empty()
    }

    pub fn queues(&self) -> impl Iterator<Item = (&'static str, &Hold)> {
        self.queues.iter().map(|(name, hold)| (*name, hold))
    }

    /// Collections by name.
    pub fn collections(&self) -> impl Iterator<Item = (&str, &Hold)> {
        self.collections.iter().map(|(escaped, hold)| {
            (if hold.name.is_empty() { escaped.as_str() } else { hold.name.as_str() }, hold)
        })
    }

    pub(crate) fn queue_check(&self) -> Op {
        Op::check(map::QUEUE_HOLDS, self.queue_version)
    }

    pub(crate) fn collection_check(&self) -> Op {
        Op::check(map::COLLECTION_HOLDS, self.collection_version)
    }

    pub(crate) fn checks(&self) -> Vec<Op> {
        vec![self.queue_check(), self.collection_check()]
    }
}

fn reason(hold: &Hold) -> String {
    let who = if hold.who.is_empty() { "somebody" } else { &hold.who };
    let when = hold.when.map(|when| format!(" since {when}")).unwrap_or_default();
    let colon = if hold.why.is_empty() { "" } else { ": " };
    format!("by {who}{when}{colon}{}", hold.why)
}

/// What setting or lifting a hold found.
#[derive(Debug, Clone, PartialEq)]
pub enum Was {
    /// It is as asked for now, and was not before.
    Changed,
    /// It was so already; this is the hold that is there, if one is.
    Already(Option<Hold>),
}

impl Queue {
    /// The holds, read now.
    pub async fn read_holds(&self) -> Result<Arc<Holds>> {
        let (queues, queue_version) = self.holds_below(map::QUEUE_HOLDS).await?;
        let (collections, collection_version) = self.holds_below(map::COLLECTION_HOLDS).await?;
        let queues = HeldQueue::ALL
            .into_iter()
            .filter_map(|queue| queues.get(queue.name()).map(|hold| (queue.name(), hold.clone())))
            .collect();
        let holds = Arc::new(Holds { queues, collections, queue_version, collection_version });
        *self.holds.lock() = Some(holds.clone());
        Ok(holds)
    }

    /// The holds as this node knows them. What rests on them is checked when it is committed.
    pub(crate) async fn known_holds(&self) -> Result<Arc<Holds>> {
        let known = self.holds.lock().clone();
        match known {
            Some(holds) if self.dialect() == Dialect::Design => Ok(holds),
            _ => self.read_holds().await,
        }
    }

    /// The holds, if this collection is held, or is not, as `held` says; otherwise why that forbids `what`.
    pub(crate) async fn holds_where(
        &self,
        what: impl std::fmt::Display,
        collection: &str,
        held: bool,
    ) -> Result<Arc<Holds>> {
        let mut holds = self.known_holds().await?;
        // No commit checks a refusal: it rests on what is true now.
        if holds.collection(collection).is_some() != held {
            holds = self.read_holds().await?;
        }
        match holds.collection(collection) {
            Some(why) if !held => {
                let why = format!("its collection {collection} is held {why}; release that first");
                Err(Error::forbidden(what, why))
            }
            None if held => Err(Error::forbidden(what, format!("its collection {collection} is not held"))),
            _ => Ok(holds),
        }
    }

    /// The holds, and which of these collections is held, and why.
    pub(crate) async fn first_held(
        &self,
        collections: &[String],
    ) -> Result<(Arc<Holds>, Option<(String, String)>)> {
        let first = |holds: &Holds| {
            collections.iter().find_map(|name| holds.collection(name).map(|why| (name.clone(), why)))
        };
        let mut holds = self.known_holds().await?;
        // No commit checks a refusal: it rests on what is true now.
        if first(&holds).is_some() {
            holds = self.read_holds().await?;
        }
        let held = first(&holds);
        Ok((holds, held))
    }

    /// The holds, and why this queue is held, if it is.
    pub(crate) async fn holds_of(&self, queue: HeldQueue) -> Result<(Arc<Holds>, Option<String>)> {
        let mut holds = self.known_holds().await?;
        if holds.queue(queue).is_some() {
            holds = self.read_holds().await?;
        }
        let why = holds.queue(queue);
        Ok((holds, why))
    }

    /// To be read again: they have changed.
    pub fn forget_holds(&self) {
        *self.holds.lock() = None;
    }

    /// Stops acquiring in pending.
    pub async fn hold_queue(&self, queue: HeldQueue, who: &str, why: &str) -> Result<Was> {
        self.hold_at(map::QUEUE_HOLDS, &queue.path(), queue.name(), who, why).await
    }

    pub async fn release_queue(&self, queue: HeldQueue) -> Result<Was> {
        self.release_at(map::QUEUE_HOLDS, &queue.path(), queue.name()).await
    }

    /// Holds a collection: what is pending of it goes to held.
    pub async fn hold_collection(&self, mnemonic: &str, who: &str, why: &str) -> Result<Was> {
        named(mnemonic)?;
        self.hold_at(map::COLLECTION_HOLDS, &map::collection_hold(mnemonic), mnemonic, who, why).await
    }

    /// Lifts the hold. What it has moved to held stays there: see [`Queue::release_collection_and_all`].
    pub async fn release_collection(&self, mnemonic: &str) -> Result<Was> {
        named(mnemonic)?;
        self.release_at(map::COLLECTION_HOLDS, &map::collection_hold(mnemonic), mnemonic).await
    }

    /// The holds in one directory. Its version is read first: a hold that comes later bumps it.
    async fn holds_below(&self, dir: &str) -> Result<(BTreeMap<String, Hold>, i32)> {
        let stat = self.exists(dir).await?.ok_or_else(|| Error::corrupt(dir, "it is missing"))?;
        let mut holds = BTreeMap::new();
        for name in self.children(dir).await? {
            match self.get(path::join(dir, &name)).await {
                // A hold without a word about it is a hold all the same.
                Ok((data, _)) => {
                    holds.insert(name, Hold::read(&data).unwrap_or_default());
                }
                Err(error) if error.kind() == Kind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((holds, stat.version))
    }

    async fn hold_at(&self, dir: &str, at: &str, name: &str, who: &str, why: &str) -> Result<Was> {
        let scene = self.scene();
        let mut hold = Hold {
            name: name.to_owned(),
            who: who.to_owned(),
            why: why.to_owned(),
            when: Some(scene.now),
            ..Hold::default()
        };
        hold.other.insert("commit".into(), scene.commit.into());
        let ops = vec![Op::create(at, hold.write(self.dialect())), Op::set(dir, "", None)];
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        self.forget_holds();
        match settled.answer {
            Ok(_) => Ok(Was::Changed),
            Err(error) if error.kind() == Kind::NodeExists => {
                let there = self.get(at).await.ok().map(|(data, _)| Hold::read(&data).unwrap_or_default());
                match there {
                    Some(there) if settled.repeated && there == hold => Ok(Was::Changed),
                    Some(there) if !there.name.is_empty() && there.name != name => {
                        let why = format!("its path {at} holds {} already", there.name);
                        Err(Error::forbidden(name, why))
                    }
                    there => Ok(Was::Already(there)),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn release_at(&self, dir: &str, at: &str, name: &str) -> Result<Was> {
        let there = match self.get(at).await {
            Ok((data, stat)) => (Hold::read(&data).unwrap_or_default(), stat.version),
            Err(error) if error.kind() == Kind::NoNode => return Ok(Was::Already(None)),
            Err(error) => return Err(error.into()),
        };
        if !there.0.name.is_empty() && there.0.name != name {
            let why = format!("it is not held: its path {at} holds {}", there.0.name);
            return Err(Error::forbidden(name, why));
        }
        let ops = vec![Op::delete(at, there.1), Op::set(dir, "", None)];
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        self.forget_holds();
        match settled.answer {
            Ok(_) => Ok(Was::Changed),
            Err(error) if error.kind() == Kind::NoNode && settled.repeated => Ok(Was::Changed),
            Err(error) if error.kind() == Kind::NoNode => Ok(Was::Already(None)),
            Err(error) if error.kind() == Kind::BadVersion => {
                Err(Error::changed(name, "the hold was replaced"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn named(mnemonic: &str) -> Result<()> {
    if mnemonic.trim().is_empty() {
        return Err(Error::Invalid("a collection has a name".into()));
    }
    Ok(())
}
