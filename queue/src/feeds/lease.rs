//! A feed that this node consumes.

use ingest_store::recipes::lock_table::{Claim, Released, Token};
use ingest_store::recipes::settle;
use ingest_store::{Kind, Op};
use serde_json::Value;

use super::{Feed, Qid, TROUBLE};
use crate::batches::Created;
use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::ids::Bid;
use crate::map;
use crate::nodes::{FeedNode, Node, Owner, SkippedItem, Submission};
use crate::numbers::ahead;
use crate::plan::{Scene, batch};
use crate::queue::Queue;

/// So many characters are kept of what is wrong with a feed.
const LONGEST_TROUBLE: usize = 1_000;
/// So many items that were passed over are kept with their reasons.
const MAX_SKIPPED_ITEMS: usize = 20;
/// So many characters are kept of the id of such an item, and of its reason.
const LONGEST_SKIPPED: usize = 300;

/// The right to consume a feed. There is at most one commit of it under way.
#[derive(Debug)]
pub struct FeedLease {
    feed: Feed,
    token: Token,
}

impl FeedLease {
    pub fn qid(&self) -> Qid {
        self.feed.qid
    }

    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The checkpoint.
    pub fn last(&self) -> &str {
        &self.feed.node.last
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The same feed, moved on.
    fn next(&self, last: &str, scene: &Scene) -> FeedNode {
        let mut node = self.feed.node.clone();
        if node.last != last {
            last.clone_into(&mut node.last);
            node.moved = Some(scene.now);
        }
        node.commit.clone_from(&scene.commit);
        node
    }
}

impl Queue {
    /// Takes a feed to consume it. Busy: another has it; forbidden: a person has paused it.
    pub async fn acquire_feed(&self, qid: Qid, holder: &str) -> Result<FeedLease> {
        let feed = self.feed(qid).await?;
        if let Some(paused) = &feed.node.paused {
            let why = format!("{} has paused it: {}", paused.who, paused.why);
            return Err(Error::forbidden(format!("feed {}", feed.name()), why));
        }
        let scene = self.scene();
        let node = FeedNode { commit: scene.commit.clone(), ..feed.node.clone() };
        let claim = Claim {
            lock: map::feed_lock(qid),
            owner: self.owner(0, &scene),
            fence: map::feed(qid),
            version: feed.version,
            data: node.write(scene.dialect),
            more: Vec::new(),
            holder: holder.to_owned(),
        };
        let token = self.claim(&format!("feed {}", feed.name()), claim, &scene.commit).await?;
        let feed = Feed { qid, node, version: token.version() };
        Ok(FeedLease { feed, token })
    }

    pub async fn release_feed(&self, lease: &mut FeedLease) -> Result<()> {
        match self.locks.release(&lease.token, None).await? {
            Released::Now => Ok(()),
            Released::Before => Err(lost(&lease.feed)),
        }
    }

    /// An item becomes a batch, and the checkpoint moves, in one multi. An item that has become a batch before is
    /// answered with it; then only the checkpoint moves, if it is another.
    pub async fn take_item(
        &self,
        lease: &mut FeedLease,
        item: &str,
        last: &str,
        submission: &Submission,
    ) -> Result<Created> {
        let uuid = lease.qid().uuid_of(item);
        let scene = self.scene();
        let mut taken = None;
        loop {
            if let Some(bid) = self.find_batch(&uuid).await? {
                if lease.last() != last {
                    self.move_feed(lease, last, 0).await?;
                }
                return Ok(Created { bid, known: true, merged: false, stale: false });
            }
            let turn = self.turn_of_batches().await?;
            let bid = Bid::new(turn.number());
            if taken == Some(bid) {
                return Err(ahead(map::batch(bid)));
            }
            let mut node = lease.next(last, &scene);
            node.items = node.items.saturating_add(1);
            node.batch = Some(bid);
            // The feed first: whoever has lost it learns that before anything else.
            let mut ops = vec![lease.token.set(node.write(scene.dialect))];
            ops.extend(batch::create(bid, &uuid, submission, &scene));
            ops.push(turn.fence());
            match self.commit_feed(lease, ops, node, &scene).await {
                Ok(()) => {
                    turn.used(1);
                    return Ok(Created { bid, known: false, merged: false, stale: false });
                }
                // Another has made a batch meanwhile: the next number, or its batch.
                Err(Error::Store(error)) if matches!(error.kind(), Kind::NodeExists | Kind::BadVersion) => {
                    taken = (error.path() == Some(map::batch(bid).as_str())).then_some(bid);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves the checkpoint over items that become nothing; `skipped` says how many those are.
    pub async fn move_feed(&self, lease: &mut FeedLease, last: &str, skipped: u64) -> Result<()> {
        let scene = self.scene();
        let mut node = lease.next(last, &scene);
        node.skipped = node.skipped.saturating_add(skipped);
        let ops = vec![lease.token.set(node.write(scene.dialect))];
        self.commit_feed(lease, ops, node, &scene).await
    }

    /// Passes over an item that can become nothing: moves the checkpoint, counts it, and keeps why, for people. One whose
    /// reason is kept already is not counted again. Says whether it was counted.
    pub async fn skip_item(&self, lease: &mut FeedLease, item: &str, last: &str, why: &str) -> Result<bool> {
        let item = shortened(item);
        let is_known = lease.feed.node.skipped_items.iter().any(|skipped| skipped.item == item);
        if is_known && lease.last() == last {
            return Ok(false);
        }
        let scene = self.scene();
        let mut node = lease.next(last, &scene);
        if !is_known {
            node.skipped = node.skipped.saturating_add(1);
            let why = why.chars().take(LONGEST_SKIPPED).collect();
            node.skipped_items.push(SkippedItem {
                item,
                why,
                when: Some(scene.now),
                ..SkippedItem::default()
            });
            let old = node.skipped_items.len().saturating_sub(MAX_SKIPPED_ITEMS);
            node.skipped_items.drain(..old);
        }
        let ops = vec![lease.token.set(node.write(scene.dialect))];
        self.commit_feed(lease, ops, node, &scene).await?;
        Ok(!is_known)
    }

    /// The feed fails again and again: the administrators are to be told, unless they were since it went well last.
    /// Says whether that is new.
    pub async fn alert_feed(&self, lease: &mut FeedLease, why: &str) -> Result<bool> {
        if lease.feed.node.alerted.is_some() {
            return Ok(false);
        }
        let scene = self.scene();
        let mut node = lease.next(lease.last(), &scene);
        node.alerted = Some(scene.now);
        let short: String = why.chars().take(LONGEST_TROUBLE).collect();
        let alert = self.alert_of_feed(&lease.feed, &short, &scene);
        let ops = vec![lease.token.set(node.write(scene.dialect)), alert];
        self.commit_feed(lease, ops, node, &scene).await?;
        Ok(true)
    }

    /// It went well: the next time that it does not the administrators are told again.
    pub async fn calm_feed(&self, lease: &mut FeedLease) -> Result<()> {
        if lease.feed.node.alerted.is_none() {
            return Ok(());
        }
        let scene = self.scene();
        let mut node = lease.next(lease.last(), &scene);
        node.alerted = None;
        let ops = vec![lease.token.set(node.write(scene.dialect))];
        self.commit_feed(lease, ops, node, &scene).await
    }

    async fn commit_feed(
        &self,
        lease: &mut FeedLease,
        ops: Vec<Op>,
        node: FeedNode,
        scene: &Scene,
    ) -> Result<()> {
        let mark = Mark::holds(map::feed(lease.qid()), scene.commit.as_str());
        commit_alone(&self.session, Unit::new(ops, mark))
            .await
            .map_err(|error| misfit(&lease.feed, error))?;
        let version = lease.token.version().wrapping_add(1);
        lease.token = self.locks.kept(&lease.token, version);
        lease.feed = Feed { qid: lease.qid(), node, version };
        Ok(())
    }

    /// Says in the lock what is wrong with a feed, for people on other nodes; it goes with the lock.
    pub async fn note_trouble(&self, lease: &FeedLease, trouble: Option<&str>) -> Result<()> {
        let lock = lease.token.lock();
        let (data, stat) = match self.get(lock).await {
            Ok(found) => found,
            Err(error) if error.kind() == Kind::NoNode => return Err(lost(&lease.feed)),
            Err(error) => return Err(error.into()),
        };
        if stat.ephemeral_owner != self.session.id() {
            return Err(lost(&lease.feed));
        }
        let mut owner = Owner::read(&data).unwrap_or_default();
        let before = owner.other.remove(TROUBLE);
        if before.as_ref().and_then(Value::as_str) == trouble {
            return Ok(());
        }
        if let Some(trouble) = trouble {
            let short: String = trouble.chars().take(LONGEST_TROUBLE).collect();
            owner.other.insert(TROUBLE.to_owned(), short.into());
        }
        let data = owner.write(self.dialect());
        match settle(&self.session, || self.session.set(lock, data.clone(), stat.version)).await.answer {
            Ok(_) => Ok(()),
            // Only its owner writes it: an earlier try, or it is gone.
            Err(error) if matches!(error.kind(), Kind::BadVersion | Kind::NoNode) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Somebody wants the feed to be asked now: takes the wish away; says whether there was one.
    pub async fn take_wish(&self, qid: Qid) -> Result<bool> {
        let at = map::feed_ask(qid);
        let settled = settle(&self.session, || self.session.delete(at.as_str(), None)).await;
        match settled.answer {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == Kind::NoNode => Ok(settled.repeated),
            Err(error) => Err(error.into()),
        }
    }
}

/// An id that fits into the feed's node, and is still told from every other.
fn shortened(item: &str) -> String {
    match item.char_indices().nth(LONGEST_SKIPPED) {
        Some((end, _)) => format!("{}… {}", &item[..end], map::hash(&[item])),
        None => item.to_owned(),
    }
}

fn lost(feed: &Feed) -> Error {
    Error::lost(format!("feed {}", feed.name()), "it was taken away, or changed by a person")
}

/// What the refusal of a commit on a feed means.
fn misfit(feed: &Feed, error: ingest_store::Error) -> Error {
    let at_fence = error.path().is_some_and(|at| at == map::feed(feed.qid));
    match error.kind() {
        Kind::BadVersion | Kind::NoNode if at_fence => lost(feed),
        _ => error.into(),
    }
}
