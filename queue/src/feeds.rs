//! Feeds: sources of submissions that are consumed in order, each by one node at a time.
//!
//! A feed is `/queues/QID`, with its checkpoint. Whoever consumes it holds `/queues/QID/lock` and commits at the
//! version of `/queues/QID`: an item becomes a batch in the same multi that moves the checkpoint, so none is lost and
//! none comes twice. What a person does to a feed (pause, go on, set the checkpoint) sets the same node and takes the lock
//! away: from its answer on nothing is consumed by the rules of before.
//!
//! Where a feed comes from and what becomes of its items stands in the configuration of the nodes that consume it; the
//! tree has its name and kind only, for people. Who consumes what is agreed on in [`workers`] by [`assignment`].
//!
//! **When things break.** A lost answer is settled by the commit that is written in the feed's node. Whoever lost the
//! lock, with the session or by a person, has every commit refused; the next one goes on at the checkpoint, and an item that
//! it sees again is answered with the batch that it has become, as long as that batch is in the tree.

mod actions;
pub mod assignment;
mod lease;
mod qid;
pub mod workers;

use ingest_store::recipes::settle;
use ingest_store::{Kind, Op, path};

pub use actions::Asked;
pub use lease::FeedLease;
pub use qid::{NotAQid, Qid};

use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::map;
use crate::nodes::{FeedNode, Node, Owner};
use crate::queue::Queue;

/// More feeds than this are refused: everybody who consumes feeds knows all of them.
pub const MOST_FEEDS: usize = 10_000;

/// A feed as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Feed {
    pub qid: Qid,
    pub node: FeedNode,
    /// Of its node: the fence.
    pub version: i32,
}

impl Feed {
    /// What people call it.
    pub fn name(&self) -> String {
        if self.node.name.is_empty() { self.qid.to_string() } else { self.node.name.clone() }
    }
}

/// A feed with whoever consumes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub feed: Feed,
    /// Who has its lock, with what is wrong there, if anything is.
    pub owner: Option<Owner>,
    /// Somebody wants it to be asked now.
    pub asked: bool,
}

/// The field of a lock in which its owner says what is wrong.
const TROUBLE: &str = "trouble";

impl Listed {
    /// What its owner says is wrong.
    pub fn trouble(&self) -> Option<&str> {
        self.owner.as_ref().and_then(|owner| owner.other.get(TROUBLE)).and_then(serde_json::Value::as_str)
    }
}

impl Queue {
    /// Makes a feed that is not there yet. One that is there keeps its checkpoint.
    pub async fn make_feed(&self, name: &str, kind: &str) -> Result<Feed> {
        let qid = Qid::of(name);
        loop {
            if let Some(feed) = self.find_feed(qid).await? {
                return self.named_feed(feed, name, kind).await;
            }
            let dir = self.exists(map::QUEUES).await?;
            let dir = dir.ok_or_else(|| Error::corrupt(map::QUEUES, "it is missing"))?;
            if usize::try_from(dir.num_children).unwrap_or(0) >= MOST_FEEDS {
                let why = format!("there are {MOST_FEEDS} feeds, and that is the most");
                return Err(Error::forbidden(format!("feed {name}"), why));
            }
            let scene = self.scene();
            let (name, kind) = (name.to_owned(), kind.to_owned());
            let node = FeedNode { name, kind, commit: scene.commit.clone(), ..FeedNode::default() };
            // The directory is set, so that no two count the same feeds and make one more each.
            let ops = vec![
                Op::create(map::feed(qid), node.write(scene.dialect)),
                Op::set(map::QUEUES, "", dir.version),
            ];
            let mark = Mark::holds(map::feed(qid), scene.commit);
            match commit_alone(&self.session, Unit::new(ops, mark)).await {
                Ok(()) => return Ok(Feed { qid, node, version: 0 }),
                Err(error) if matches!(error.kind(), Kind::NodeExists | Kind::BadVersion) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Two names that become one QID would share a checkpoint. A node that was repaired has no name.
    async fn named_feed(&self, feed: Feed, name: &str, kind: &str) -> Result<Feed> {
        if feed.node.name == name && feed.node.kind == kind {
            return Ok(feed);
        }
        if !feed.node.name.is_empty() && feed.node.name != name {
            let why = format!("{} is the feed {} already", feed.qid, feed.node.name);
            return Err(Error::forbidden(format!("feed {name}"), why));
        }
        let (name, kind) = (name.to_owned(), kind.to_owned());
        let scene = self.scene();
        let node = FeedNode { name, kind, commit: scene.commit.clone(), ..feed.node };
        let set = Op::set(map::feed(feed.qid), node.write(scene.dialect), feed.version);
        let unit = Unit::new(vec![set], Mark::holds(map::feed(feed.qid), scene.commit));
        match commit_alone(&self.session, unit).await {
            Ok(()) => Ok(Feed { node, version: feed.version.wrapping_add(1), ..feed }),
            // Another consumes it, or says the same.
            Err(error) if error.kind() == Kind::BadVersion => self.feed(feed.qid).await,
            Err(error) => Err(error.into()),
        }
    }

    pub async fn find_feed(&self, qid: Qid) -> Result<Option<Feed>> {
        let found = self.find::<FeedNode>(map::feed(qid)).await?;
        Ok(found.map(|(node, stat)| Feed { qid, node, version: stat.version }))
    }

    pub async fn feed(&self, qid: Qid) -> Result<Feed> {
        self.find_feed(qid).await?.ok_or_else(|| Error::NotFound(format!("feed {qid}")))
    }

    /// A feed with whoever consumes it.
    pub async fn show_feed(&self, qid: Qid) -> Result<Listed> {
        let feed = self.feed(qid).await?;
        let owner = match self.get(map::feed_lock(qid)).await {
            Ok((data, _)) => Some(Owner::read(&data).unwrap_or_default()),
            Err(error) if error.kind() == Kind::NoNode => None,
            Err(error) => return Err(error.into()),
        };
        let asked = self.exists(map::feed_ask(qid)).await?.is_some();
        Ok(Listed { feed, owner, asked })
    }

    /// All feeds, by name. One that cannot be read is left out: fsck finds it.
    pub async fn list_feeds(&self) -> Result<Vec<Listed>> {
        let qids = self.feed_ids().await?;
        let paths = |of: fn(Qid) -> String| qids.iter().copied().map(of).collect::<Vec<_>>();
        let nodes = crate::reads::get_many(&self.session, paths(map::feed)).await?;
        let locks = crate::reads::get_many(&self.session, paths(map::feed_lock)).await?;
        let asks = crate::reads::get_many(&self.session, paths(map::feed_ask)).await?;
        let mut found = Vec::with_capacity(qids.len());
        for (((qid, node), lock), ask) in qids.into_iter().zip(nodes).zip(locks).zip(asks) {
            let Some((data, stat)) = node else { continue };
            let Ok(node) = FeedNode::read(&data) else { continue };
            let feed = Feed { qid, node, version: stat.version };
            let owner = lock.map(|(data, _)| Owner::read(&data).unwrap_or_default());
            found.push(Listed { feed, owner, asked: ask.is_some() });
        }
        found.sort_by_key(|listed| listed.feed.name());
        Ok(found)
    }

    pub async fn feed_ids(&self) -> Result<Vec<Qid>> {
        let mut qids: Vec<Qid> =
            self.children(map::QUEUES).await?.iter().filter_map(|name| name.parse().ok()).collect();
        qids.sort_unstable();
        Ok(qids)
    }

    /// The feed that an event below `/queues` is about, and which node of it; `None` for its own.
    pub fn feed_of(at: &str) -> Option<(Qid, Option<&str>)> {
        let mut names = at.strip_prefix(map::QUEUES)?.strip_prefix('/')?.split('/');
        let qid = names.next()?.parse().ok()?;
        Some((qid, names.next()))
    }

    /// A feed that nobody consumes any more is forgotten, with its checkpoint.
    pub async fn forget_feed(&self, qid: Qid) -> Result<()> {
        loop {
            let listed = self.show_feed(qid).await?;
            if let Some(owner) = listed.owner {
                let what = format!("feed {}", listed.feed.name());
                return Err(Error::Busy { what, node: owner.node, since: owner.since });
            }
            let at = map::feed(qid);
            let mut ops = Vec::new();
            if listed.asked {
                ops.push(Op::delete(map::feed_ask(qid), None));
            }
            ops.push(Op::delete(at.as_str(), listed.feed.version));
            let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
            match settled.answer {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == Kind::NoNode && settled.repeated => {
                    if self.exists(&at).await?.is_none() {
                        return Ok(());
                    }
                }
                Err(error) if matches!(error.kind(), Kind::BadVersion | Kind::NoNode | Kind::NotEmpty) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The name of a worker: the last part of its path.
pub(crate) fn worker_name(at: &str) -> String {
    path::name(at).to_owned()
}
