//! At most N at a time, over all nodes.
//!
//! The limit stands on the parent, each holder is an ephemeral child of its own name. Taking a slot
//! is one multi: the parent set at the version that was read together with its number of children,
//! and the holder created. Two that saw the same last slot cannot both get it.
//!
//! **When things break.** A holder's slot comes back with the end of its session, or when its guard
//! is dropped. A lost answer is settled by the holder's own name: it is there, or it is not. A slot
//! that is taken while its session is suspended stays taken: holding is a promise to the others, so
//! whoever must not exceed the limit checks [`Slot::fence`] in its commits.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::own_node::OwnNode;
use crate::error::{Error, Kind, Result};
use crate::node::{Mode, Op};
use crate::path;
use crate::session::Session;
use crate::watch::Event;

/// What stands on the parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    limit: u32,
    /// What others keep here is kept.
    #[serde(flatten)]
    other: serde_json::Map<String, serde_json::Value>,
}

/// A named semaphore, known by its path.
#[derive(Debug, Clone)]
pub struct Semaphore {
    session: Session,
    path: String,
}

/// A slot that is held.
#[derive(Debug)]
pub struct Slot {
    node: OwnNode,
}

impl Semaphore {
    pub fn new(session: &Session, path: impl Into<String>) -> Self {
        Self { session: session.clone(), path: path.into() }
    }

    /// Makes the semaphore, or changes its limit. Holders above a smaller limit keep their slots.
    pub async fn set_limit(&self, limit: u32) -> Result<()> {
        loop {
            let answer = if let Some((mut parent, version, _)) = self.read().await? {
                if parent.limit == limit {
                    return Ok(());
                }
                parent.limit = limit;
                self.session.set(self.path.as_str(), encode(&parent)?, version).await.map(|_| ())
            } else {
                let parent = encode(&Parent { limit, other: serde_json::Map::new() })?;
                self.session
                    .create_with_parents(self.path.as_str(), parent, Mode::Persistent)
                    .await
                    .map(|_| ())
            };
            match answer {
                Ok(()) => return Ok(()),
                Err(error) if changed_meanwhile(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A slot if one is free; `who` is for people who look at the tree.
    pub async fn try_acquire(&self, who: impl Into<Bytes>) -> Result<Option<Slot>> {
        let who = who.into();
        let holder = path::join(&self.path, &uuid::Uuid::new_v4().simple().to_string());
        loop {
            let Some((parent, version, held)) = self.read().await? else {
                return Err(Error::new(Kind::NoNode, "the semaphore has no limit yet").with_path(&self.path));
            };
            if held >= i64::from(parent.limit) {
                return Ok(None);
            }
            let ops = vec![
                Op::set(self.path.as_str(), encode(&parent)?, version),
                Op::ephemeral(holder.as_str(), who.clone()),
            ];
            // From here on it may be there, also if nobody waits for the answer.
            let node = OwnNode::new(&self.session, holder.clone());
            let settled = super::settle(&self.session, || self.session.multi(ops.clone())).await;
            match settled.answer {
                Ok(_) => return Ok(Some(Slot { node })),
                Err(error) if changed_meanwhile(&error) => {
                    // After a lost answer it may have been ourselves that changed it.
                    let there = || self.session.exists(holder.as_str());
                    if settled.repeated && super::look(&self.session, there).await?.is_some() {
                        return Ok(Some(Slot { node }));
                    }
                    node.never_was();
                }
                Err(error) => {
                    node.never_was();
                    return Err(error);
                }
            }
        }
    }

    /// Waits for a slot.
    pub async fn acquire(&self, who: impl Into<Bytes>) -> Result<Slot> {
        let who = who.into();
        let mut watch = self.session.watch_tree(self.path.as_str()).await?;
        loop {
            if let Some(slot) = self.try_acquire(who.clone()).await? {
                return Ok(slot);
            }
            loop {
                match watch.next().await {
                    // A slot came back, or the limit may have grown.
                    Event::Deleted(_) | Event::Changed(_) | Event::Relist(_) => break,
                    Event::Ended(_) => {
                        return Err(Error::new(Kind::Closed, "the session ended while it waited"));
                    }
                    Event::Created(_) | Event::Children(_) => {}
                }
            }
        }
    }

    /// How many slots are held.
    pub async fn held(&self) -> Result<i32> {
        Ok(self.session.exists(self.path.as_str()).await?.map_or(0, |stat| stat.num_children))
    }

    /// The parent, its version and the number of holders: of one moment.
    async fn read(&self) -> Result<Option<(Parent, i32, i64)>> {
        match super::settle(&self.session, || self.session.get(self.path.as_str())).await.answer {
            Ok((data, stat)) => {
                let parent = serde_json::from_slice(&data).map_err(|error| {
                    Error::new(Kind::Corrupt, format!("not a semaphore: {error}")).with_path(&self.path)
                })?;
                Ok(Some((parent, stat.version, i64::from(stat.num_children))))
            }
            Err(error) if error.kind() == Kind::NoNode => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Slot {
    /// Goes into every multi that counts on the slot.
    pub fn fence(&self) -> Op {
        self.node.fence()
    }

    /// Gives the slot back. So does dropping it.
    pub async fn release(self) -> Result<()> {
        self.node.delete().await
    }
}

fn changed_meanwhile(error: &Error) -> bool {
    matches!(error.kind(), Kind::BadVersion | Kind::NodeExists | Kind::ConnectionLoss | Kind::Deadline)
}

fn encode(parent: &Parent) -> Result<Bytes> {
    let json = serde_json::to_vec(parent).map_err(|error| Error::new(Kind::Unexpected, error.to_string()))?;
    Ok(json.into())
}
