//! Changing limits, and looking at them.
//!
//! The tree has the truth. The configuration of a node speaks for the layer `file`: it is written when a node starts
//! with limits in its file that differ, and when the file changes while a node runs. What a person sets stands in the
//! layer `set`, goes before the file, and stays until it is cleared.
//!
//! **When things break.** A change is one set of `/semaphores` at its version, and carries its own commit: a lost
//! answer is settled by looking at it.

use std::collections::BTreeSet;

use ingest_store::recipes::settle;
use ingest_store::{Kind as StoreKind, Mode, path};

use super::rules::{DEFAULT, From, Kind, MOST, Rules, STATES, Said, Semaphore};
use super::slot::{self, Named};
use super::{Holding, Known};
use crate::error::{Error, Result};
use crate::map;
use crate::nodes::Node;
use crate::queue::Queue;
use crate::states::{JobState, States as _};

/// What a person wants of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    AtMost(u32),
    /// Whatever the file says.
    NoLimit,
    /// What was set is cleared.
    AsTheFileSays,
}

/// All limits lie in one node.
const MOST_NAMES: usize = 1_000;

/// Limits as a configuration says them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    pub said: Said,
    pub host_states: BTreeSet<String>,
    pub states: BTreeSet<String>,
}

impl Default for Configured {
    fn default() -> Self {
        let Rules { states, host_states, .. } = Rules::default();
        Self { said: Said::default(), host_states, states }
    }
}

impl Configured {
    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// What is wrong with them, if anything is.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for kind in Kind::ALL {
            for (name, limit) in self.said.of(kind) {
                if limit.is_some_and(|limit| limit > MOST) {
                    problems.push(format!("limits.{kind}s.{name}: {MOST} is the most"));
                }
            }
        }
        let states = self.host_states.iter().chain(&self.states);
        for state in states.filter(|state| !STATES.iter().any(|known| known.name() == state.as_str())) {
            let known = STATES.map(JobState::name).join(", ");
            problems.push(format!("limits: `{state}` is not a state that a limit can hold in: {known}"));
        }
        problems
    }
}

/// A semaphore as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub semaphore: Semaphore,
    /// `None`: there is no limit any more, and whoever has a slot gives it back in time.
    pub limit: Option<(u32, From)>,
    pub holders: Vec<Holding>,
}

impl Queue {
    /// Sets a limit, or clears what was set. Says whether anything is different now.
    pub async fn set_limit(&self, kind: Kind, name: &str, wanted: Wanted) -> Result<bool> {
        if name.is_empty() {
            return Err(Error::Invalid("a limit has a name".into()));
        }
        if matches!(wanted, Wanted::AtMost(limit) if limit > MOST) {
            return Err(Error::Invalid(format!("a limit is at most {MOST}")));
        }
        let set = &self.read_limits().await?.rules.set;
        if wanted != Wanted::AsTheFileSays
            && set.of(kind).len() >= MOST_NAMES
            && !set.of(kind).contains_key(name)
        {
            return Err(Error::Invalid(format!("at most {MOST_NAMES} limits of a kind can be set")));
        }
        let name = kind.as_kept(name);
        self.change_limits(|rules| {
            let table = rules.set.of_mut(kind);
            match wanted {
                Wanted::AtMost(limit) => table.insert(name.clone(), Some(limit)),
                Wanted::NoLimit => table.insert(name.clone(), None),
                Wanted::AsTheFileSays => table.remove(&name),
            };
        })
        .await
    }

    /// What the configuration says; says whether that is new.
    pub async fn configure_limits(&self, configured: &Configured) -> Result<bool> {
        self.change_limits(|rules| {
            rules.file = configured.said.clone();
            rules.states.clone_from(&configured.states);
            rules.host_states.clone_from(&configured.host_states);
        })
        .await
    }

    async fn change_limits(&self, change: impl Fn(&mut Rules)) -> Result<bool> {
        let commit = self.scene().commit;
        loop {
            let Known { rules: before, version } = self.read_limits().await?;
            if before.commit == commit {
                return Ok(true);
            }
            let mut after = (*before).clone();
            change(&mut after);
            if after == *before {
                return Ok(false);
            }
            after.commit.clone_from(&commit);
            let data = after.write(self.dialect());
            let answer = if version == i32::MAX {
                let create = || self.session.create(map::SEMAPHORES, data.clone(), Mode::Persistent);
                settle(&self.session, create).await.answer.map(drop)
            } else {
                let set = || self.session.set(map::SEMAPHORES, data.clone(), version);
                settle(&self.session, set).await.answer.map(drop)
            };
            self.limits.forget_rules();
            match answer {
                Ok(()) => return Ok(true),
                // By the try before this one, or by another: look.
                Err(error)
                    if matches!(
                        error.kind(),
                        StoreKind::BadVersion | StoreKind::NodeExists | StoreKind::NoNode
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// All semaphores that somebody holds a slot of, and all names that a limit is said for.
    pub async fn semaphores(&self) -> Result<Vec<Line>> {
        let known = self.read_limits().await?;
        let mut all: BTreeSet<Semaphore> = BTreeSet::new();
        for kind in Kind::ALL {
            let names = known.rules.set.of(kind).keys().chain(known.rules.file.of(kind).keys());
            all.extend(names.filter(|name| *name != DEFAULT).map(|name| Semaphore::new(kind, name.as_str())));
        }
        let dirs = match self.children(map::SEMAPHORES).await {
            Ok(dirs) => dirs,
            Err(error) if error.kind() == StoreKind::NoNode => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        for dir in dirs {
            if let Some(semaphore) = self.named(&dir).await? {
                all.insert(semaphore);
            }
        }
        let mut lines = Vec::new();
        for semaphore in all {
            let limit = known.rules.limit(semaphore.kind, &semaphore.name);
            let holders = self.holders(&semaphore).await?;
            lines.push(Line { semaphore, limit, holders });
        }
        Ok(lines)
    }

    /// The semaphore that a node below `/semaphores` is.
    pub(super) async fn named(&self, dir: &str) -> Result<Option<Semaphore>> {
        let found = match self.find::<Named>(path::join(map::SEMAPHORES, dir)).await {
            Ok(found) => found,
            Err(Error::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(found.and_then(|(named, _)| Some(Semaphore::new(Kind::from_name(&named.kind)?, named.name))))
    }

    /// Who has a slot of it, by slot.
    pub async fn holders(&self, semaphore: &Semaphore) -> Result<Vec<Holding>> {
        let slots = self.slots_below(&semaphore.path()).await?;
        let held = slots.into_iter().filter(|(_, _, stat)| stat.num_children > 0);
        Ok(held.map(|(_, data, _)| Holding::read(&data).unwrap_or_default()).collect())
    }

    pub(super) async fn slots_below(
        &self,
        dir: &str,
    ) -> Result<Vec<(String, bytes::Bytes, ingest_store::Stat)>> {
        let mut names = match self.children(dir).await {
            Ok(names) => names,
            Err(error) if error.kind() == StoreKind::NoNode => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        names.retain(|name| slot::number(name).is_some());
        names.sort_unstable();
        let paths: Vec<String> = names.iter().map(|name| path::join(dir, name)).collect();
        let found = crate::reads::get_many(&self.session, paths.clone()).await?;
        let there = paths.into_iter().zip(found);
        Ok(there.filter_map(|(path, found)| found.map(|(data, stat)| (path, data, stat))).collect())
    }
}
