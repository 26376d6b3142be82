//! What a node has done, as the tree tells it.
//!
//! Every job's history must be the beginning of a life, and end in the state that its status says. All histories
//! together must hold as many transitions as the queues of the states count arrivals: two records that nothing but the
//! commits themselves keeps in step. No lock may be left, and fsck must find nothing.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use ingest_queue::date::Date;
use ingest_queue::dialect::Dialect;
use ingest_queue::ids::Jid;
use ingest_queue::map::{self, JobNode};
use ingest_queue::nodes::{History, JobStatus, Node};
use ingest_queue::states::{JobState, States};
use ingest_store::Session;

use super::Slice;
use crate::trees;

/// From pending to completed.
pub(crate) const TRANSITIONS: u32 = 7;
/// Jobs that are read with one request, and requests at a time.
const TOGETHER: usize = 64;
const AT_ONCE: usize = 8;

/// When each transition was made.
#[derive(Debug)]
pub(super) struct Lives {
    jobs: Vec<Vec<Date>>,
}

impl Lives {
    /// Reads a tree with so many jobs, on which nobody works any more.
    pub(super) async fn read(session: &Session, jobs: u64) -> Result<Self> {
        session.sync().await?;
        let names = session.children(map::JOBS).await?.0;
        let jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
        ensure!(jids.len() as u64 == jobs, "there are {} jobs, and {jobs} were made", jids.len());
        let lives: Vec<Vec<Vec<Date>>> = stream::iter(jids.chunks(TOGETHER))
            .map(async |jids| some(session, jids).await)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let lives = Self { jobs: lives.into_iter().flatten().collect() };
        lives.confirm(session).await?;
        Ok(lives)
    }

    async fn confirm(&self, session: &Session) -> Result<()> {
        let told: usize = self.jobs.iter().map(Vec::len).sum();
        let mut arrived = 0;
        for state in life().skip(1) {
            let stat =
                session.exists(map::queue(state)).await?.with_context(|| format!("no queue {state}"))?;
            arrived += usize::try_from(stat.next_sequence())?;
        }
        ensure!(
            told == arrived,
            "the histories hold {told} transitions, and the queues count {arrived} arrivals"
        );
        let locks = session.ephemerals("/").await?;
        ensure!(locks.is_empty(), "these are left: {locks:?}");
        trees::check(session).await
    }

    /// Whether nothing was left to do.
    pub(super) fn all_are_completed(&self) -> bool {
        self.jobs.iter().all(|life| life.len() == TRANSITIONS as usize)
    }

    /// How many jobs were completed in that time.
    pub(super) fn completed(&self, slice: &Slice) -> u64 {
        let last = |life: &&Vec<Date>| life.get(TRANSITIONS as usize - 1).is_some_and(|at| slice.has(*at));
        self.jobs.iter().filter(last).count() as u64
    }

    /// How many transitions were made in that time.
    pub(super) fn transitions(&self, slice: &Slice) -> u64 {
        self.jobs.iter().flatten().filter(|at| slice.has(**at)).count() as u64
    }
}

/// The states of a life without failures.
fn life() -> impl Iterator<Item = JobState> {
    JobState::Pending.way(Dialect::Design)
}

async fn some(session: &Session, jids: &[Jid]) -> Result<Vec<Vec<Date>>> {
    let nodes = [JobNode::Status, JobNode::History];
    let paths = jids.iter().flat_map(|jid| nodes.map(|node| node.of(*jid))).collect();
    let found = session.get_many(paths).await?;
    let mut lives = Vec::with_capacity(jids.len());
    for (jid, pair) in jids.iter().zip(found.chunks(nodes.len())) {
        let [Some((status, _)), history] = pair else { anyhow::bail!("{jid} has no status") };
        let status = JobStatus::read(status)?;
        let history = history.as_ref().map(|(data, _)| History::read(data)).transpose()?.unwrap_or_default();
        lives.push(one(*jid, &status, &history)?);
    }
    Ok(lives)
}

fn one(jid: Jid, status: &JobStatus, history: &History) -> Result<Vec<Date>> {
    // That a completed job has left its queue is no move.
    let entries: Vec<_> = history.entries.iter().filter(|entry| entry.from != Some(entry.to)).collect();
    let moves = entries.iter().map(|entry| (entry.from, Some(entry.to)));
    let whole = life().map(Some).zip(life().skip(1).map(Some));
    ensure!(moves.eq(whole.take(entries.len())), "the history of {jid} is no life: {history:?}");
    let last = entries.last().map_or(JobState::Pending, |entry| entry.to);
    ensure!(last == status.status, "{jid} is {}, but its history ends with {last}", status.status);
    Ok(entries.iter().map(|entry| entry.at).collect())
}

#[cfg(test)]
mod tests {
    use ingest_queue::map::QueueRef;
    use ingest_queue::plan::job::Change;

    use super::*;
    use crate::deposit::{Deposit, new_jobs};
    use crate::scratch;
    use crate::trees::embedded_at;

    #[test]
    fn a_life_has_as_many_transitions_as_is_said() {
        assert_eq!(life().count(), TRANSITIONS as usize + 1);
    }

    #[tokio::test]
    async fn what_the_tree_does_not_confirm_is_refused() {
        let dir = scratch::directory().unwrap();
        let tree = embedded_at(dir.path()).await.unwrap();
        let mut deposit = Deposit::begin(&tree.session, 2).await.unwrap();
        deposit.expand(&new_jobs(0, 2)).await.unwrap();
        let queue = deposit.end().await.unwrap();
        let read = async |jobs| Lives::read(&tree.session, jobs).await;
        assert!(read(3).await.unwrap_err().to_string().contains("there are 2 jobs, and 3"));
        let entry = QueueRef::new(JobState::Pending, map::Priority::DEFAULT, Jid::new(1));
        let before = super::super::now();
        let mut lease = queue.acquire(entry, "worker").await.unwrap();
        let refused = read(2).await.unwrap_err().to_string();
        assert!(refused.contains("these are left"), "{refused}");
        queue.succeed(&mut lease, &Change::default()).await.unwrap();
        let lives = read(2).await.unwrap();
        let slice = Slice { from: before, to: Date::from_millis(before.millis() + 3_600_000) };
        assert_eq!(
            (lives.transitions(&slice), lives.completed(&slice), lives.all_are_completed()),
            (1, 0, false)
        );
        // Another ref comes and goes: no history tells of it.
        let stray = QueueRef { state: JobState::Downloading, ..entry }.path();
        tree.session.create(stray.as_str(), "", ingest_store::Mode::Persistent).await.unwrap();
        tree.session.delete(stray.as_str(), None).await.unwrap();
        let refused = read(2).await.unwrap_err().to_string();
        assert!(refused.contains("hold 1 transitions, and the queues count 2"), "{refused}");
    }
}
