//! Reading nodes for a check: so many at a time, and nothing that they hold stops it.
//!
//! A lost answer is asked for again while the session lives. What the store itself refuses (no
//! permission, a session that has ended) ends the check with the store's own error.

use std::sync::Arc;

use bytes::Bytes;
use ingest_store::{Kind, Session, Stat, recipes};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::Result;
use crate::nodes::{Node, Unreadable};

/// How many reads are under way at a time.
const IN_FLIGHT: usize = 64;
/// How many large values: each is whole in memory.
const LARGE: usize = 2;

/// Which state of a node was seen: equal means that it was not written between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) version: i32,
    mzxid: i64,
}

impl From<Stat> for Found {
    fn from(stat: Stat) -> Self {
        Self { version: stat.version, mzxid: stat.mzxid }
    }
}

/// A node as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen<T> {
    Missing,
    Bad { why: String, data: Bytes, found: Found },
    Good { value: T, found: Found },
}

impl<T> Seen<T> {
    pub(super) fn good(&self) -> Option<&T> {
        match self {
            Seen::Good { value, .. } => Some(value),
            _ => None,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Seen::Missing)
    }

    pub(super) fn version(&self) -> Option<i32> {
        match self {
            Seen::Missing => None,
            Seen::Bad { found, .. } | Seen::Good { found, .. } => Some(found.version),
        }
    }

    /// Why it has no value, to go after the name of the node.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            Seen::Missing => Some("is missing".to_owned()),
            Seen::Bad { why, .. } => Some(format!("cannot be read: {why}")),
            Seen::Good { .. } => None,
        }
    }

    pub(super) fn map<U>(self, with: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Seen::Missing => Seen::Missing,
            Seen::Bad { why, data, found } => Seen::Bad { why, data, found },
            Seen::Good { value, found } => Seen::Good { value: with(value), found },
        }
    }

    #[cfg(test)]
    pub(super) fn value(value: T) -> Self {
        Seen::Good { value, found: Found { version: 0, mzxid: 0 } }
    }

    #[cfg(test)]
    pub(super) fn garbage() -> Self {
        let found = Found { version: 0, mzxid: 0 };
        Seen::Bad { why: "it is garbage".into(), data: Bytes::from_static(b"garbage"), found }
    }
}

/// Clones share the bound.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    session: Session,
    reads: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Reader {
    pub(super) fn new(session: &Session) -> Self {
        let (reads, large) = (Arc::new(Semaphore::new(IN_FLIGHT)), Arc::new(Semaphore::new(LARGE)));
        Self { session: session.clone(), reads, large }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// From here on everything that was committed before is seen.
    pub(super) async fn freshen(&self) -> Result<()> {
        Ok(recipes::settle(&self.session, || self.session.sync()).await.answer?)
    }

    /// A place among the few that may have a large value in memory.
    pub(super) async fn place_for_large(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes it.
        self.large.acquire().await.ok()
    }

    pub(super) async fn get(&self, path: &str) -> Result<Option<(Bytes, Stat)>> {
        let _permit = self.reads.acquire().await.ok();
        there(recipes::settle(&self.session, || self.session.get(path)).await.answer)
    }

    pub(super) async fn stat(&self, path: &str) -> Result<Option<Stat>> {
        let _permit = self.reads.acquire().await.ok();
        Ok(recipes::settle(&self.session, || self.session.exists(path)).await.answer?)
    }

    /// The names below a node, sorted, and its stat.
    pub(super) async fn names(&self, path: &str) -> Result<Option<(Vec<String>, Stat)>> {
        let _permit = self.reads.acquire().await.ok();
        let names = there(recipes::settle(&self.session, || self.session.children(path)).await.answer)?;
        Ok(names.map(|(mut names, stat)| {
            names.sort_unstable();
            (names, stat)
        }))
    }

    pub(super) async fn read<T: Node>(&self, path: &str) -> Result<Seen<T>> {
        self.read_with(path, T::read).await
    }

    pub(super) async fn read_with<T>(
        &self,
        path: &str,
        parse: impl FnOnce(&[u8]) -> std::result::Result<T, Unreadable>,
    ) -> Result<Seen<T>> {
        Ok(match self.get(path).await? {
            None => Seen::Missing,
            Some((data, stat)) => match parse(&data) {
                Ok(value) => Seen::Good { value, found: stat.into() },
                Err(Unreadable(why)) => Seen::Bad { why, data, found: stat.into() },
            },
        })
    }
}

fn there<T>(answer: ingest_store::Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == Kind::NoNode => Ok(None),
        Err(error) => Err(error.into()),
    }
}
