//! Names from a counter in the tree: nothing outside is needed.
//!
//! The counter is `/minter/SHOULDER` (`/` in the shoulder becomes `_`), with the template and the next number.
//! A node takes a block of numbers at once by setting the counter at the version that it has read: of several
//! nodes one wins, the others read again. Names then come from memory, one number each.
//!
//! The template stands beside the counter because it decides which name a number has. A counter that was
//! begun with another template is refused, and so is a shoulder that begins like another one (`c7` and
//! `c72`): both could give one name twice.
//!
//! The inventory keeps a second record of the counter. A block is claimed there after it was taken from the tree, and only
//! a block that the inventory grants is used: a counter that was deleted, or restored from an older copy of the tree, moves
//! past the numbers that the inventory knows. Callers still compare each name with what is stored.
//!
//! **When things break.** A block whose answer was lost is left alone and another is taken, and a node that
//! ends leaves the rest of its block: numbers may be skipped, and are never used twice. With the session
//! lost the minter is useless; open one on the new session.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ingest_queue::map;
use ingest_store::error::{Next, Outcome};
use ingest_store::{Kind, Mode, Session, path};
use tokio::sync::Mutex;

use super::noid::Template;
use super::{MintRequest, Minter, Orphan};
use crate::ark::Ark;
use crate::inventory::{Claim, Inventory};
use crate::outcome::{Failure, Result};

/// How many numbers a node takes at once, if nothing else is said. The rest is lost when it ends.
pub const BLOCK: u64 = 32;

/// How often others may be faster, or answers be lost, before it is put off.
const TRIES: usize = 1_000;
const LOST_ANSWERS: usize = 5;

/// The data of the counter.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Counter {
    template: String,
    next: u64,
}

/// The next number of a counter; `None` if it cannot be read.
pub(crate) fn counted(data: &[u8]) -> Option<u64> {
    Some(serde_json::from_slice::<Counter>(data).ok()?.next)
}

/// The counter moved to this number; `None` if it is there already, or cannot be read.
pub(crate) fn raised(data: &[u8], next: u64) -> Option<Vec<u8>> {
    let mut counter: Counter = serde_json::from_slice(data).ok()?;
    if counter.next >= next {
        return None;
    }
    counter.next = next;
    serde_json::to_vec(&counter).ok()
}

/// A minter on a session.
#[derive(Debug)]
pub struct LocalMinter {
    session: Session,
    template: Template,
    counter: String,
    block: u64,
    /// Keeps the second record of the counter.
    inventory: Option<Arc<dyn Inventory>>,
    /// Numbers that are this node's, not used yet.
    mine: Mutex<Range<u64>>,
}

impl LocalMinter {
    /// Opens the counter of a template's shoulder, and makes it if it is new.
    pub async fn open(session: &Session, template: Template, block: u64) -> Result<Self> {
        let name = template.shoulder().replace('/', "_");
        let minter = Self {
            session: session.clone(),
            counter: path::join(map::MINTER, &name),
            template,
            block: block.max(1),
            inventory: None,
            mine: Mutex::new(0..0),
        };
        minter.make_counter().await?;
        minter.check_neighbours(&name).await?;
        Ok(minter)
    }

    /// The same with an inventory that keeps the second record of the counter.
    pub fn claiming(self, inventory: Option<Arc<dyn Inventory>>) -> Self {
        Self { inventory, ..self }
    }

    /// The znode of the counter.
    pub fn counter(&self) -> &str {
        &self.counter
    }

    async fn make_counter(&self) -> Result<()> {
        let mut lost = 0;
        loop {
            match self.session.get(self.counter.as_str()).await {
                Ok((data, _)) => return self.read(&data).map(|_| ()),
                Err(error) if error.kind() == Kind::NoNode => {}
                Err(error) => self.look_again(&error, &mut lost).await?,
            }
            let data = self.written(0)?;
            match self.session.create_with_parents(self.counter.as_str(), data, Mode::Persistent).await {
                Ok(_) => return Ok(()),
                // Another node was faster, or an earlier try of ours.
                Err(error) if error.kind() == Kind::NodeExists => {}
                Err(error) => self.look_again(&error, &mut lost).await?,
            }
        }
    }

    /// Not atomic, but shoulders are configured by people, and this is to show them their mistake.
    async fn check_neighbours(&self, ours: &str) -> Result<()> {
        let mut lost = 0;
        let names = loop {
            match self.session.children(map::MINTER).await {
                Ok((names, _)) => break names,
                Err(error) => self.look_again(&error, &mut lost).await?,
            }
        };
        let alike = |name: &&String| *name != ours && (name.starts_with(ours) || ours.starts_with(*name));
        match names.iter().find(alike) {
            None => Ok(()),
            Some(other) => Err(Failure::fail(format!(
                "{}: the shoulder begins like {}/{other}, so both could mint one name; configure a shoulder of its own",
                self.counter,
                map::MINTER,
            ))),
        }
    }

    /// Takes the next block of numbers from the tree.
    async fn take_block(&self) -> Result<Range<u64>> {
        let (mut lost, mut free) = (0, 0);
        for _ in 0..TRIES {
            let (data, stat) = match self.session.get(self.counter.as_str()).await {
                Ok(found) => found,
                // Deleted by somebody: the inventory knows how far it was.
                Err(error) if error.kind() == Kind::NoNode => {
                    self.make_counter().await?;
                    continue;
                }
                Err(error) => {
                    self.look_again(&error, &mut lost).await?;
                    continue;
                }
            };
            let mut counter = self.read(&data)?;
            counter.next = counter.next.max(free);
            let block = self.next_block(&counter)?;
            let data = self.written(block.end)?;
            match self.session.set(self.counter.as_str(), data, stat.version).await {
                Ok(_) => match self.claim(&block).await? {
                    Claim::Granted => return Ok(block),
                    // The tree is older than the inventory, or another node has claimed a later block before this one.
                    Claim::Used(next) => {
                        tracing::warn!(
                            counter = self.counter,
                            tree = block.start,
                            inventory = next,
                            "the inventory knows later numbers than the tree; skipping to them"
                        );
                        free = next;
                    }
                },
                // Others were faster; or it was us, in a try whose answer was lost: that block is left alone.
                // A pause of any length: in step with the others it could lose for ever.
                Err(error) if error.kind() == Kind::BadVersion => {
                    let pause = Duration::from_micros(rand::random_range(0..5_000));
                    tokio::time::sleep(pause).await;
                }
                Err(error) => self.look_again(&error, &mut lost).await?,
            }
        }
        Err(Failure::later(format!("{}: others took numbers {TRIES} times before this node", self.counter)))
    }

    /// Claims a block in the inventory; without one the tree alone decides.
    async fn claim(&self, block: &Range<u64>) -> Result<Claim> {
        let Some(inventory) = &self.inventory else { return Ok(Claim::Granted) };
        let shoulder = self.template.shoulder();
        let prefix = format!("ark:/{shoulder}");
        inventory.claim(&self.counter, block.clone(), &prefix).await
    }

    fn next_block(&self, counter: &Counter) -> Result<Range<u64>> {
        let last = self.template.capacity().unwrap_or(u64::MAX);
        let end = counter.next.saturating_add(self.block).min(last);
        if counter.next >= end {
            return Err(Failure::fail(format!(
                "{}: all {last} names of the template {} are used; configure a new shoulder",
                self.counter, self.template
            )));
        }
        if last - end < last / 10 {
            tracing::warn!(counter = self.counter, left = last - end, "the names of this shoulder run out");
        }
        Ok(counter.next..end)
    }

    fn read(&self, data: &[u8]) -> Result<Counter> {
        let counter: Counter = serde_json::from_slice(data).map_err(|error| {
            Failure::fail(format!(
                "{}: the counter cannot be read ({error}); restore its last value, or configure a new shoulder",
                self.counter
            ))
        })?;
        if counter.template != self.template.to_string() {
            return Err(Failure::fail(format!(
                "{}: its names were minted with the template {}, and {} could give some of them again; \
                 configure the old template or a new shoulder",
                self.counter, counter.template, self.template
            )));
        }
        Ok(counter)
    }

    fn written(&self, next: u64) -> Result<Vec<u8>> {
        let counter = Counter { template: self.template.to_string(), next };
        serde_json::to_vec(&counter).map_err(|error| Failure::fail(format!("{}: {error}", self.counter)))
    }

    /// Goes on after a lost answer, a few times; every other failure is one.
    async fn look_again(&self, error: &ingest_store::Error, lost: &mut usize) -> Result<()> {
        *lost += 1;
        if error.next() != Next::FindOut || *lost > LOST_ANSWERS {
            return Err(self.failure(error));
        }
        // What was sent before is settled, or will be refused by its version.
        match self.session.sync().await {
            Err(error) if error.outcome() == Outcome::NotApplied => Err(self.failure(&error)),
            _ => Ok(()),
        }
    }

    fn failure(&self, error: &ingest_store::Error) -> Failure {
        let why = format!("minting from {}: {error}", self.counter);
        match error.next() {
            Next::Rebuild => Failure::Lost(why),
            Next::GiveUp | Next::StopNode => Failure::Fail(why),
            Next::ReadAgain | Next::FindOut | Next::RetryLater => Failure::Later(why),
        }
    }
}

impl Minter for LocalMinter {
    fn reserve<'a>(&'a self, _request: &'a MintRequest) -> BoxFuture<'a, Result<Ark>> {
        async move {
            // Held while a block is taken, so that one is taken at a time.
            let mut mine = self.mine.lock().await;
            if mine.is_empty() {
                *mine = self.take_block().await?;
            }
            let number = mine.next();
            let name = number.and_then(|number| self.template.name(number));
            name.ok_or_else(|| Failure::fail(format!("{}: no name has the number {number:?}", self.counter)))
        }
        .boxed()
    }

    /// Nothing is to be told to anybody: the name is known where the object is.
    fn publish<'a>(&'a self, _ark: &'a Ark, _request: &'a MintRequest) -> BoxFuture<'a, Result<()>> {
        std::future::ready(Ok(())).boxed()
    }

    /// None: a name that nobody wrote down is a number that was skipped.
    fn orphans(&self) -> BoxFuture<'_, Result<Option<Vec<Orphan>>>> {
        std::future::ready(Ok(Some(Vec::new()))).boxed()
    }
}
