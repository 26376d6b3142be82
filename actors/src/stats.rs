//! How much waits and how much is done, over all nodes, written down by the one that is elected for it.
//!
//! Every `stats.every` it adds a line to `/system/stats`: what waits in each state, and how many jobs have completed and
//! failed since the line before. It asks nobody: the index knows what waits, and events tell of all that ends. If
//! nothing waits and nothing has ended since the last line, nothing is written. Lines older than `stats.keep` go.
//!
//! **When things break.** Whoever is elected next goes on behind the last line. What ended in between, while nobody
//! counted, is missing; no line is written twice, because each write is fenced by the election and by the version of
//! what it replaces. What cannot be read is begun anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ingest_queue::date::Date;
use ingest_queue::states::{JobState, States as _};
use ingest_store::recipes::{look, settle};
use ingest_store::{Kind, Op};
use serde::{Deserialize, Serialize};

use crate::elected::Post;
use crate::house::{House, Life};

/// Where they are.
pub const PATH: &str = "/system/stats";
const DIR: &str = "/system";

/// Never more lines than this: they lie in one node.
const MOST: usize = 2_000;

/// Jobs that have ended anywhere, as far as this node was told.
#[derive(Debug, Default)]
pub struct Ended {
    completed: AtomicU64,
    failed: AtomicU64,
}

impl Ended {
    pub(crate) fn completed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> (u64, u64) {
        (self.completed.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// `/system/stats`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The oldest first.
    pub lines: Vec<Line>,
}

/// What was so at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub at: Date,
    /// Who wrote it.
    pub node: String,
    /// By state; those in which nobody waits are left out.
    #[serde(default)]
    pub waiting: BTreeMap<String, usize>,
    /// Since the line before.
    #[serde(default)]
    pub completed: u64,
    #[serde(default)]
    pub failed: u64,
}

impl Stats {
    /// All that was written down, by whomever.
    pub async fn read(session: &ingest_store::Session) -> ingest_store::Result<(Self, Option<i32>)> {
        match look(session, || session.get(PATH)).await {
            Ok((data, stat)) => Ok((serde_json::from_slice(&data).unwrap_or_default(), Some(stat.version))),
            Err(error) if error.kind() == Kind::NoNode => Ok((Self::default(), None)),
            Err(error) => Err(error),
        }
    }

    /// Adds a line, unless it says nothing new; says whether it did.
    fn add(&mut self, line: Line, keep: std::time::Duration) -> bool {
        let quiet = line.completed == 0 && line.failed == 0;
        if quiet && self.lines.last().map_or(line.waiting.is_empty(), |last| last.waiting == line.waiting) {
            return false;
        }
        let now = line.at;
        self.lines.push(line);
        self.lines.retain(|line| line.at.until(now) <= keep);
        let surplus = self.lines.len().saturating_sub(MOST);
        self.lines.drain(..surplus);
        true
    }
}

/// What the elected one does, for as long as it is the one.
pub(crate) async fn gather(house: Arc<House>, life: Arc<Life>, post: Post) {
    let mut before = (house.ended.now(), None);
    loop {
        tokio::time::sleep(house.settings.load().stats.every).await;
        match write(&house, &life, &post, &mut before).await {
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "statistics were not written; the next line has them"),
        }
    }
}

/// What had ended when the last line was looked at, and what waited then.
type Before = ((u64, u64), Option<BTreeMap<String, usize>>);

async fn write(house: &House, life: &Life, post: &Post, before: &mut Before) -> ingest_store::Result<()> {
    let Some(finder) = life.finder() else { return Ok(()) };
    let session = life.queue.session();
    let waiting = JobState::ALL.iter().map(|state| (state.name().to_owned(), finder.waiting(*state)));
    let waiting: BTreeMap<String, usize> = waiting.filter(|(_, count)| *count > 0).collect();
    let now = house.ended.now();
    // Whoever has nothing to say asks nothing, either.
    if *before == (now, Some(waiting.clone())) {
        return Ok(());
    }
    let ended = before.0;
    let (completed, failed) = (now.0.saturating_sub(ended.0), now.1.saturating_sub(ended.1));
    let after = (now, Some(waiting.clone()));
    let line = Line { at: life.queue.now(), node: house.name.clone(), waiting, completed, failed };
    let (mut stats, version) = Stats::read(session).await?;
    if !stats.add(line.clone(), house.settings.load().stats.keep) {
        *before = after;
        return Ok(());
    }
    let data = serde_json::to_vec(&stats).unwrap_or_default();
    let op = if let Some(version) = version {
        Op::set(PATH, data, version)
    } else {
        settle(session, || session.make_dirs(DIR)).await.answer?;
        Op::create(PATH, data)
    };
    let settled = settle(session, || session.multi(vec![post.fence(), op.clone()])).await;
    match settled.answer {
        Ok(_) => {}
        // The try before this one may have been applied.
        Err(error) if settled.repeated && error.failed_op() == Some(1) => {
            let (there, _) = Stats::read(session).await?;
            if there.lines.last() != Some(&line) {
                return Err(error);
            }
        }
        Err(error) => return Err(error),
    }
    *before = after;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(at: i64, waiting: usize, completed: u64) -> Line {
        let waiting = (waiting > 0).then(|| ("pending".to_owned(), waiting)).into_iter().collect();
        Line { at: Date::from_millis(at), node: "a".into(), waiting, completed, failed: 0 }
    }

    #[test]
    fn a_line_that_says_nothing_new_is_not_written() {
        let (mut stats, keep) = (Stats::default(), Duration::from_mins(1));
        assert!(!stats.add(line(0, 0, 0), keep));
        assert!(stats.add(line(1_000, 4, 0), keep));
        assert!(!stats.add(line(2_000, 4, 0), keep));
        assert!(stats.add(line(3_000, 4, 1), keep));
        assert!(stats.add(line(4_000, 0, 0), keep));
        assert!(!stats.add(line(5_000, 0, 0), keep));
    }

    #[test]
    fn old_lines_go_and_there_are_never_too_many() {
        let (mut stats, keep) = (Stats::default(), Duration::from_mins(1));
        stats.add(line(0, 1, 0), keep);
        stats.add(line(50_000, 2, 0), keep);
        stats.add(line(100_000, 3, 0), keep);
        assert_eq!(stats.lines.first().map(|line| line.at), Some(Date::from_millis(50_000)));
        for at in 0..2_500 {
            stats.add(line(100_000 + at, 1, 1), keep);
        }
        assert_eq!(stats.lines.len(), MOST);
    }
}
