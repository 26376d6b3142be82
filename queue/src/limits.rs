//! Limits over all nodes: how many jobs of a collection, a host, a profile or a free name are worked on at a time.
//!
//! `/semaphores` says which limits there are ([`rules`]). A semaphore has numbered slots, `/semaphores/NAME/NNNN`, and a
//! slot is held while it has an ephemeral child `holder`. A slot is taken in the multi that acquires the job, or hands
//! it over, and given back in the one that moves it on. Taking: check the version of `/semaphores`, set the slot (its
//! version tells every holder from the one before), create the holder. Nothing that two takers of one semaphore write is
//! the same unless they want the same slot, so plans that are committed together do not fail each other.
//!
//! What this node knows of the slots is kept in memory ([`book`]) and true to the tree by one watch ([`follow`]). Where
//! there is no limit nothing is read, written or looked up.
//!
//! **When things break.** A slot goes with its session. One whose worker ended without giving it back, or whose commit
//! was in doubt, is looked for and given back by the sweep ([`Queue::sweep_slots`]); one whose job nobody works on, by
//! any node ([`Queue::clean_semaphores`]). Both prove at the version of the slot that it is still that holder's.
//! A worker whose job was taken away by force keeps its slot until it has stopped: until then it is at work.

pub mod book;
pub mod clean;
pub mod follow;
pub mod rules;
pub mod set;
mod slot;

use std::collections::HashMap;
use std::sync::Arc;

use ingest_store::{Kind as StoreKind, Op, path};
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::book::{Book, Pick, Seen};
use self::rules::{Rules, STATES, Semaphore};
pub use self::slot::{Holding, Named};
pub(crate) use self::slot::{Slot, number as slot_number};
use crate::error::{Error, Result};
use crate::ids::Jid;
use crate::map;
use crate::nodes::Node;
use crate::plan::Scene;
use crate::queue::Queue;
use crate::states::{JobState, States as _};

/// Jobs whose limits are remembered.
const MOST_JOBS: usize = 10_000;

/// What a job that waits for a slot of this semaphore is parked with.
pub fn parked_with(semaphore: &str) -> String {
    format!("limit {semaphore}")
}

/// The semaphore of such a key, by its name in the tree.
pub fn limited_by(key: &str) -> Option<&str> {
    key.strip_prefix("limit ")
}

/// What a node knows of limits, and the slots that it has.
#[derive(Debug, Default)]
pub struct Limits {
    held: Mutex<Held>,
    /// A slot was given up without being given back.
    abandoned: Notify,
    /// A slot that was picked here can be picked again.
    returned: Notify,
}

#[derive(Debug, Default)]
struct Held {
    known: Option<Known>,
    book: Book,
    /// What jobs can be limited by; their configuration never changes.
    about: HashMap<Jid, Arc<[Semaphore]>>,
    /// How many keep this true by events; none: nothing that is known is trusted.
    followers: usize,
    /// The semaphores whose slots can be picked again here, since the follower was told.
    returned: Vec<String>,
    /// Where the next slot is looked for.
    spread: u32,
}

/// The limits at a version of their node.
#[derive(Debug, Clone)]
pub struct Known {
    pub rules: Arc<Rules>,
    pub version: i32,
}

impl Limits {
    /// How many slots of a semaphore seem to be free here; `None`: it is not known, or there is no limit.
    pub fn room(&self, semaphore: &Semaphore) -> Option<usize> {
        let held = self.held.lock();
        let known = held.known.as_ref()?;
        let (limit, _) = known.rules.limit(semaphore.kind, &semaphore.name)?;
        held.book.room(&semaphore.node_name(), limit)
    }

    /// The limits that hold for a job in a state, if that is known without asking.
    pub fn known_of(&self, jid: Jid, state: JobState) -> Vec<Semaphore> {
        let held = self.held.lock();
        let (Some(known), Some(about)) = (&held.known, held.about.get(&jid)) else { return Vec::new() };
        known.rules.wanted(about, state).into_iter().map(|(one, _)| one).collect()
    }

    /// Whether a limit may hold in a state: what is not known may.
    pub fn may_hold(&self, semaphore: &Semaphore, state: JobState) -> bool {
        let known = self.held.lock().known.clone();
        known.is_none_or(|known| known.rules.holds_in(semaphore.kind, state))
    }

    /// Whether something may be limited by this semaphore, by its name in the tree: what is not known may be.
    pub fn may_limit(&self, node_name: &str) -> bool {
        let known = self.held.lock().known.clone();
        known.is_none_or(|known| known.rules.may_limit(node_name))
    }

    /// Whether it is known that nothing is limited.
    pub fn is_free(&self) -> bool {
        self.held.lock().known.as_ref().is_some_and(|known| known.rules.is_empty())
    }

    /// The event that the slot is free may have come before this; whoever looked then was told that it is taken.
    pub(crate) fn put_back(&self, name: &str, number: u32) {
        let mut held = self.held.lock();
        held.book.put_back(name, number);
        if held.followers > 0 {
            held.returned.push(name.to_owned());
            self.returned.notify_one();
        }
    }

    pub(crate) fn abandon(&self, name: &str, number: u32) {
        self.put_back(name, number);
        self.abandoned.notify_one();
    }

    pub(crate) fn forget_rules(&self) {
        self.held.lock().known = None;
    }
}

impl Queue {
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The limits as this node knows them; whoever takes a slot checks that they are still so.
    pub async fn known_limits(&self) -> Result<Known> {
        let known = self.limits.held.lock().known.clone();
        match known {
            Some(known) => Ok(known),
            None => self.read_limits().await,
        }
    }

    /// The limits, read now. Where nobody has set any, the version is one that no node has.
    pub async fn read_limits(&self) -> Result<Known> {
        let known = match self.get(map::SEMAPHORES).await {
            // Unreadable rules limit nobody, and `fsck` tells of them.
            Ok((data, stat)) => {
                let rules = if data.is_empty() { Ok(Rules::default()) } else { Rules::read(&data) };
                let rules = rules.unwrap_or_else(|why| {
                    tracing::error!(%why, "the limits cannot be read, and nothing is limited; see `ingestd fsck`");
                    Rules::default()
                });
                Known { rules: Arc::new(rules), version: stat.version }
            }
            Err(error) if error.kind() == StoreKind::NoNode => {
                Known { rules: Arc::default(), version: i32::MAX }
            }
            Err(error) => return Err(error.into()),
        };
        self.limits.held.lock().known = Some(known.clone());
        Ok(known)
    }

    /// The limits that hold for a job in a state.
    pub async fn limits_of(&self, jid: Jid, state: JobState) -> Result<Vec<Semaphore>> {
        if !STATES.contains(&state) {
            return Ok(Vec::new());
        }
        let known = self.known_limits().await?;
        if known.rules.is_empty() {
            return Ok(Vec::new());
        }
        let about = self.about(jid).await?;
        Ok(known.rules.wanted(&about, state).into_iter().map(|(one, _)| one).collect())
    }

    async fn about(&self, jid: Jid) -> Result<Arc<[Semaphore]>> {
        if let Some(about) = self.limits.held.lock().about.get(&jid) {
            return Ok(about.clone());
        }
        let about: Arc<[Semaphore]> = Semaphore::of(&self.configuration(jid).await?).into();
        let known = &mut self.limits.held.lock().about;
        if known.len() >= MOST_JOBS {
            known.clear();
        }
        known.insert(jid, about.clone());
        Ok(about)
    }

    /// Picks a slot of every semaphore that a job needs in a state, besides those that it has. Nothing is taken
    /// yet: see [`Queue::ops_of`].
    pub(crate) async fn pick_slots(&self, jid: Jid, state: JobState, has: &[Slot]) -> Result<Vec<Slot>> {
        if !STATES.contains(&state) {
            return Ok(Vec::new());
        }
        let known = self.known_limits().await?;
        if known.rules.is_empty() {
            return Ok(Vec::new());
        }
        let about = self.about(jid).await?;
        let mut picked = Vec::new();
        for (semaphore, limit) in known.rules.wanted(&about, state) {
            let name = semaphore.node_name();
            if has.iter().any(|slot| slot.name == name) {
                continue;
            }
            match self.pick(&semaphore, &name, limit, known.version).await? {
                Pick::Slot { number, made } => {
                    picked.push(Slot::new(&self.limits, name, number, made, known.version));
                }
                Pick::Full | Pick::Read => {
                    return Err(Error::AtLimit { what: jid.to_string(), semaphore, limit });
                }
            }
        }
        Ok(picked)
    }

    async fn pick(&self, semaphore: &Semaphore, name: &str, limit: u32, version: i32) -> Result<Pick> {
        let spread = {
            let mut held = self.limits.held.lock();
            held.spread = held.spread.wrapping_add(1);
            let (spread, followed) = (held.spread ^ self.spread, held.followers > 0);
            match held.book.pick(name, limit, version, followed, spread) {
                Pick::Read => spread,
                pick => return Ok(pick),
            }
        };
        let seen = self.read_semaphore(semaphore).await?;
        Ok(self.limits.held.lock().book.read(name, seen, limit, version, spread))
    }

    /// The slots of a semaphore, which is made if it is not there.
    async fn read_semaphore(&self, semaphore: &Semaphore) -> Result<Seen> {
        let dir = semaphore.path();
        let names = match self.children(&dir).await {
            Ok(names) => names,
            Err(error) if error.kind() == StoreKind::NoNode => {
                slot::make(&self.session, semaphore).await?;
                return Ok(Seen::default());
            }
            Err(error) => return Err(error.into()),
        };
        let slots: Vec<u32> = names.iter().filter_map(|name| slot::number(name)).collect();
        let paths = slots.iter().map(|number| path::join(&dir, &slot::digits(*number))).collect();
        let mut seen = Seen::default();
        for (number, found) in slots.into_iter().zip(crate::reads::get_many(&self.session, paths).await?) {
            let Some((_, stat)) = found else { continue };
            seen.made.insert(number);
            if stat.num_children > 0 {
                seen.held.insert(number);
            }
        }
        Ok(seen)
    }

    /// The operations that take slots, for the multi that they are needed for. From here on the slots are looked for
    /// if that is given up.
    pub(crate) fn ops_of(&self, slots: &mut [Slot], jid: Jid, state: JobState, scene: &Scene) -> Vec<Op> {
        let Some(first) = slots.first() else { return Vec::new() };
        let mut ops = vec![Op::check(map::SEMAPHORES, first.rules)];
        let holding = Holding {
            job: Some(jid),
            node: self.settings.node.clone(),
            state: state.name().to_owned(),
            since: Some(scene.now),
            commit: scene.commit.clone(),
            ..Holding::default()
        };
        for slot in slots {
            slot.sent = true;
            let data = holding.write(scene.dialect);
            ops.push(if slot.made {
                Op::set(slot.path(), data, None)
            } else {
                Op::create(slot.path(), data)
            });
            ops.push(Op::ephemeral(slot.holder(), self.settings.incarnation.clone()));
        }
        ops
    }

    /// A commit was refused because of a slot or of the rules: what is known of them is read again.
    pub(crate) fn doubt_limits(&self, error: &ingest_store::Error) {
        let mut held = self.limits.held.lock();
        match error.path().and_then(slot::semaphore_of) {
            Some(name) => held.book.doubt(name),
            None => held.known = None,
        }
    }
}

/// Whether a multi was refused because of a slot or the rules.
pub(crate) fn is_about_limits(error: &ingest_store::Error) -> bool {
    error.failed_op().is_some() && error.path().is_some_and(|at| path::is_within(at, map::SEMAPHORES))
}
