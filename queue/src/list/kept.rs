//! Where the names of a listing come from, and long listings that are kept from one page to the next.
//!
//! A server answers with all names of a directory at once, and whoever asks for something else meanwhile waits: a
//! million names take it the better part of a second. So a node asks for a long list as rarely as it can:
//!
//! - what waits in a state that the node takes from, its index knows ([`Names::waiting`]): it is not asked for at all;
//! - any other long list is kept. As long as nothing has come or gone, it is the list. After that it is good for
//!   30 times as long as it took, so that at most that part of the time goes into long lists, however many
//!   people turn pages. One long list is asked for at a time; whoever wants the same one waits for it;
//! - jobs that were made since are known by their numbers, which follow each other.
//!
//! A list that is kept is a hint like any other: what it names is read before it is shown. A job that has come to a state since may be missing
//! from it, and is there with the next one. Short lists are asked for each time.
//!
//! **When things break.** What is kept ends with its session. A listing that fails leaves what was kept.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use ingest_store::recipes::settle;
use ingest_store::{Kind, Session, Stat};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{BAD_NAMES, Unread};
use crate::error::Result;
use crate::ids::Jid;
use crate::map;
use crate::queue::Queue;
use crate::reads;
use crate::states::JobState;

/// A list with fewer names is asked for each time.
const LONG: usize = 20_000;
/// One part in so many of the time goes into long lists, at the most.
const SHARE: u32 = 30;
/// What nobody has asked for so long is not kept.
const UNUSED: Duration = Duration::from_mins(10);
/// So many new numbers are added to a kept list; with more the list is made anew.
const MOST_NEW: u32 = 10_000;

/// Who can say which jobs there are. A session asks the tree each time, and a queue keeps what is long.
pub trait Names: Sync {
    fn session(&self) -> &Session;

    /// Long lists, if they are kept.
    fn kept(&self) -> Option<&Kept> {
        None
    }

    /// Which jobs are in the queue of a state, if that is known without asking.
    fn waiting(&self, _state: JobState) -> Option<Vec<Jid>> {
        None
    }
}

impl Names for Session {
    fn session(&self) -> &Session {
        self
    }
}

impl Names for Queue {
    fn session(&self) -> &Session {
        Queue::session(self)
    }

    fn kept(&self) -> Option<&Kept> {
        Some(&self.lists)
    }
}

/// The long lists of one session.
#[derive(Debug)]
pub struct Kept {
    /// A list is long from here on.
    long: usize,
    share: u32,
    lists: Mutex<HashMap<String, List>>,
    /// Held while a long list is asked for.
    asking: tokio::sync::Mutex<()>,
}

impl Default for Kept {
    fn default() -> Self {
        Self::new(LONG, SHARE)
    }
}

/// The names of a directory, in their order and each once.
#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) ids: Arc<Vec<Jid>>,
    /// Names that are no ids.
    pub(super) bad: Arc<Vec<Unread>>,
    /// As it was when they were listed.
    changed: i64,
    next: u32,
    listed: Instant,
    took: Duration,
    used: Instant,
}

impl Kept {
    /// Lists of so many names are kept, and after a change for so many times as long as they took.
    pub fn new(long: usize, share: u32) -> Self {
        Self { long, share, lists: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    /// The stat of a directory that has so many names that its list is long.
    pub(super) async fn is_long(&self, session: &Session, dir: &str) -> Result<Option<Stat>> {
        let stat = reads::exists(session, dir).await?;
        Ok(stat.filter(|stat| usize::try_from(stat.num_children).is_ok_and(|names| names >= self.long)))
    }

    /// A long list; `None` if the directory is gone.
    pub(super) async fn list<E: Display>(
        &self,
        session: &Session,
        dir: &str,
        stat: &Stat,
        read: impl Fn(&str) -> Result<Jid, E>,
    ) -> Result<Option<List>> {
        if let Some(list) = self.good(dir, stat) {
            return Ok(Some(list));
        }
        let _asking = self.asking.lock().await;
        if let Some(list) = self.good(dir, stat) {
            return Ok(Some(list));
        }
        let began = Instant::now();
        let (names, stat) = match settle(session, || session.children(dir)).await.answer {
            Ok(found) => found,
            Err(error) if error.kind() == Kind::NoNode => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (mut ids, mut bad) = (Vec::with_capacity(names.len()), Vec::new());
        for name in names {
            match read(&name) {
                Ok(id) => ids.push(id),
                Err(_) if bad.len() >= BAD_NAMES => {}
                Err(why) => bad.push(Unread::new(ingest_store::path::join(dir, &name), &why)),
            }
        }
        ids.sort_unstable();
        ids.dedup();
        let now = Instant::now();
        let list = List {
            ids: Arc::new(ids),
            bad: Arc::new(bad),
            changed: stat.pzxid,
            next: next(&stat),
            listed: now,
            took: now - began,
            used: now,
        };
        let mut lists = self.lists.lock();
        lists.retain(|_, list| list.used.elapsed() < UNUSED);
        lists.insert(dir.to_owned(), list.clone());
        Ok(Some(list))
    }

    /// What is kept, if it still is the list or will do.
    fn good(&self, dir: &str, stat: &Stat) -> Option<List> {
        let mut lists = self.lists.lock();
        let list = lists.get_mut(dir)?;
        let same = list.changed == stat.pzxid;
        if !same && list.listed.elapsed() > list.took.saturating_mul(self.share) {
            return None;
        }
        let mut found = list.clone();
        if !same && dir == map::JOBS {
            let new = list.next..next(stat);
            if new.len() > MOST_NEW as usize {
                return None;
            }
            let ids = Arc::make_mut(&mut found.ids);
            ids.extend(new.map(Jid::new));
            ids.dedup();
        }
        list.used = Instant::now();
        Some(found)
    }
}

/// The number of the job that will be made next.
fn next(stat: &Stat) -> u32 {
    u32::try_from(stat.next_sequence()).unwrap_or(0)
}
