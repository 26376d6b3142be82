//! The jobs are worked on. First by a node with 64 workers for each state, in turn with one on a small tree of the same server, where only
//! as many wait as are worked on: what do the others cost that wait? Then once over a link that is cut in the middle. After that the node lists everything
//! again on its own session, while there is work in flight: how long is nothing completed?
//!
//! A small tree is made anew each time, and by the same way. Between the first fifth and the last its node has all it can do; that is what counts, and
//! as many jobs among the many.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ingest_harness::{RequestKind, let_pass};
use ingest_queue::map;
use ingest_queue::states::JobState;
use ingest_store::Session;
use ingest_store::recipes::look;

use super::{MOST_MEMORY, Scale, WORKING};
use crate::ceiling::IN_FLIGHT;
use crate::load::middle;
use crate::node::daemon::{Home, Pools};
use crate::trees::ZOOKEEPER;

/// How often it is looked whether something was completed.
const LOOK: Duration = Duration::from_millis(10);
/// How long nothing may be completed.
const PATIENCE: Duration = Duration::from_mins(3);

/// How many jobs a small tree has; less if the many are not very many.
const SMALL: u64 = 10_000;
/// How often each is measured; the small ones once more, after the last.
const ROUNDS: usize = 3;
const COMPARED: Pools = Pools { pending: IN_FLIGHT, others: IN_FLIGHT };

/// How many jobs were ever completed.
pub(super) async fn completed(session: &Session) -> Result<u64> {
    let stat = look(session, || session.exists(map::queue(JobState::Completed))).await?;
    Ok(u64::try_from(stat.map_or(0, |stat| stat.next_sequence()))?)
}

/// Waits until so many jobs were completed: how many were then, and when.
async fn reach(session: &Session, jobs: u64) -> Result<(u64, Instant)> {
    let (mut last, mut at) = (0, Instant::now());
    loop {
        let (now, seen) = (completed(session).await?, Instant::now());
        if now >= jobs {
            return Ok((now, seen));
        }
        if now > last {
            (last, at) = (now, seen);
        }
        ensure!(at.elapsed() < PATIENCE, "no more than {now} jobs are completed");
        let_pass(LOOK).await;
    }
}

/// How a node has worked.
struct Worked {
    home: Home,
    /// None if there were too few jobs.
    per_s: Option<f64>,
    /// The most that it had.
    memory: u64,
}

impl Scale {
    /// Lets a node work on the many, in turn with one that has a small tree, and says how fast both are.
    pub(super) async fn work(&self, mut home: Home) -> Result<Home> {
        let jobs = SMALL.min(self.rows / 8);
        let (mut small, mut many, mut most) = (Vec::new(), Vec::new(), 0);
        for round in 0..=ROUNDS {
            let name = format!("small-{round}");
            let made = self.deposit(&name, jobs, false).await?.home;
            small.extend(self.complete(made, &name, jobs, jobs).await.context(name)?.per_s);
            if round < ROUNDS {
                let worked = self.complete(home, "many", self.rows, jobs).await?;
                many.extend(worked.per_s);
                (home, most) = (worked.home, worked.memory.max(most));
            }
        }
        let report = &self.context.report;
        // A node goes on while it is told to end, so of a short manifest too few jobs may be left for a later round. The first
        // round always has enough.
        if !many.is_empty() {
            let case = |waiting| format!("{ZOOKEEPER} node at work, {waiting} waiting");
            let row = report.row(case(self.rows), middle(many), "per_s");
            report.print(&row.against(case(jobs), middle(small)))?;
        }
        self.mb(&format!("node, most memory, at work, {} waiting", self.rows), most)?;
        ensure!(most < MOST_MEMORY, "the node had {most} bytes at work");
        Ok(home)
    }

    /// Lets a node work on a tree of `all` jobs until it has completed most of so many.
    async fn complete(&self, home: Home, name: &str, all: u64, jobs: u64) -> Result<Worked> {
        let tree = self.open(name).await?;
        let before = completed(&tree.session).await?;
        let (first, last) = (before + jobs / 5, before + jobs * 4 / 5);
        let daemon = home.start(&self.program, COMPARED).await?;
        let started = (before, Instant::now());
        let per_s = if last < all {
            let (mut from, mut began) = reach(&tree.session, first).await?;
            let (to, ended) = reach(&tree.session, last).await?;
            if to == from {
                // Both were reached between two looks, because this process got no turn: then all of it counts.
                (from, began) = started;
            }
            // Far below the 2^52 that a float counts exactly.
            #[allow(clippy::cast_precision_loss)]
            let done = (to - from) as f64;
            Some(done / (ended - began).as_secs_f64())
        } else {
            None
        };
        let memory = daemon.memory()?.most;
        let home = daemon.drain().await?;
        tree.close().await?;
        Ok(Worked { home, per_s, memory })
    }

    /// Cuts the connection of a node at work, and says for how long nothing is completed, if that is too long.
    pub(super) async fn listed_again(&self, home: Home) -> Result<(Home, Option<String>)> {
        let tree = self.open("many").await?;
        let link = self.trees.link();
        let home = home.on(&self.engine_at(&format!("{}/many", link.connect_string())));
        let daemon = home.start(&self.program, WORKING).await?;
        let half = self.context.span.measured / 2;
        let before = self.longest_pause(&tree.session, half).await?;
        link.reset_counts();
        link.drop_connections();
        let after = self.longest_pause(&tree.session, half).await?;
        let listings = link.count(RequestKind::GetChildren) + link.count(RequestKind::GetChildren2);
        let memory = daemon.memory()?;
        let ended = daemon.drain().await;
        tree.close().await?;
        let home = ended?.on(&self.engine("many"));
        ensure!(memory.most < MOST_MEMORY, "the node had {} bytes after it had listed again", memory.most);
        // All was done before: then there is nothing to tell.
        let (Some(before), Some(after)) = (before, after) else { return Ok((home, None)) };
        ensure!(listings > 0 || !self.judges(), "the node has lost its connection and did not list again");
        let report = &self.context.report;
        for (pause, when) in [(before, ""), (after, ", a connection lost, everything listed again")] {
            let case = format!("longest without a completed job, {} waiting{when}", self.rows);
            report.print(&report.row(case, pause.as_secs_f64() * 1e3, "ms"))?;
        }
        let most = self.session_timeout();
        let long =
            || format!("nothing was completed for {after:?} after a lost connection, and {most:?} may pass");
        Ok((home, (self.judges() && after > most).then(long)))
    }

    /// The longest time between two completed jobs; none if all were completed.
    async fn longest_pause(&self, session: &Session, span: Duration) -> Result<Option<Duration>> {
        let began = Instant::now();
        let (mut last, mut at, mut longest) = (completed(session).await?, began, Duration::ZERO);
        while began.elapsed() < span {
            let_pass(LOOK).await;
            let now = completed(session).await?;
            longest = longest.max(at.elapsed());
            if now > last {
                (last, at) = (now, Instant::now());
            }
            if now >= self.rows {
                return Ok(None);
            }
        }
        Ok(Some(longest))
    }
}
