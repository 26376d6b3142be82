//! What people do to a feed.
//!
//! Each sets the feed's node at its version and takes the lock away in the same multi: whoever consumes the feed has its
//! next commit refused, and looks again.

use ingest_store::recipes::settle;
use ingest_store::{Kind, Mode, Op};

use super::Qid;
use crate::committer::{Mark, Unit, commit_alone};
use crate::error::{Error, Result};
use crate::holds::Was;
use crate::map;
use crate::nodes::{FeedNode, Hold, Node};
use crate::queue::Queue;

/// Whether a wish to ask a feed is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Now,
    Already,
}

impl Queue {
    /// Nothing of a feed becomes a batch after this has been answered.
    pub async fn pause_feed(&self, qid: Qid, who: &str, why: &str) -> Result<Was> {
        let mut before = None;
        let changed = self
            .change_feed(qid, |node| {
                before.clone_from(&node.paused);
                let (who, why) = (who.to_owned(), why.to_owned());
                let hold = Hold { who, why, when: Some(self.now()), ..Hold::default() };
                node.paused.is_none().then(|| FeedNode { paused: Some(hold), ..node.clone() })
            })
            .await?;
        Ok(if changed.is_some() { Was::Changed } else { Was::Already(before) })
    }

    pub async fn resume_feed(&self, qid: Qid) -> Result<Was> {
        let resumed =
            |node: &FeedNode| node.paused.is_some().then(|| FeedNode { paused: None, ..node.clone() });
        let changed = self.change_feed(qid, resumed).await?;
        Ok(if changed.is_some() { Was::Changed } else { Was::Already(None) })
    }

    /// Sets the checkpoint, and answers the one before. What lies behind it comes again: items whose batches are still
    /// in the tree are answered with them.
    pub async fn reset_feed(&self, qid: Qid, last: &str) -> Result<String> {
        if last.len() > 4_096 || last.chars().any(char::is_control) {
            return Err(Error::Invalid("a checkpoint is one line of at most 4096 bytes".into()));
        }
        let mut before = String::new();
        self.change_feed(qid, |node| {
            before.clone_from(&node.last);
            let moved = Some(self.now());
            // What was passed over behind it is passed over anew.
            let skipped_items = Vec::new();
            (node.last != last).then(|| FeedNode {
                last: last.to_owned(),
                moved,
                skipped_items,
                ..node.clone()
            })
        })
        .await?;
        Ok(before)
    }

    /// Sets the node of a feed and takes its lock away; `None` if there is nothing to change.
    async fn change_feed(
        &self,
        qid: Qid,
        mut change: impl FnMut(&FeedNode) -> Option<FeedNode>,
    ) -> Result<Option<FeedNode>> {
        let scene = self.scene();
        loop {
            let feed = self.feed(qid).await?;
            let Some(mut node) = change(&feed.node) else { return Ok(None) };
            node.commit.clone_from(&scene.commit);
            let lock = map::feed_lock(qid);
            let mut ops = vec![Op::set(map::feed(qid), node.write(scene.dialect), feed.version)];
            if self.exists(&lock).await?.is_some() {
                ops.push(Op::delete(lock, None));
            }
            let mark = Mark::holds(map::feed(qid), scene.commit.as_str());
            match commit_alone(&self.session, Unit::new(ops, mark)).await {
                Ok(()) => return Ok(Some(node)),
                // It was consumed, taken or given back meanwhile.
                Err(error) if matches!(error.kind(), Kind::BadVersion | Kind::NoNode) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Wishes that a feed be asked now, whoever consumes it.
    pub async fn ask_feed(&self, qid: Qid, who: &str) -> Result<Asked> {
        self.feed(qid).await?;
        let at = map::feed_ask(qid);
        let wish = Hold { who: who.to_owned(), when: Some(self.now()), ..Hold::default() };
        let data = wish.write(self.dialect());
        let create = || self.session.create(at.as_str(), data.clone(), Mode::Persistent);
        let settled = settle(&self.session, create).await;
        match settled.answer {
            Ok(_) => Ok(Asked::Now),
            Err(error) if error.kind() == Kind::NodeExists && settled.repeated => Ok(Asked::Now),
            Err(error) if error.kind() == Kind::NodeExists => Ok(Asked::Already),
            Err(error) if error.kind() == Kind::NoNode => Err(Error::NotFound(format!("feed {qid}"))),
            Err(error) => Err(error.into()),
        }
    }
}
